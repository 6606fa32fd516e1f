"""Random lives of an experiment over HTTP: decisions, rewards, changes of every kind, in any order; then the store is replayed."""

import os
import random

import httpx
import pytest

from service.serving import RAW, columns_log, faults, made, running
from sparing.service import events
from sparing.service.server import ServerSettings, Service

pytestmark = pytest.mark.filterwarnings("ignore::sparing.errors.UnitWarning")  # of numbers far from the log's
STEPS = 250
WALKS = round(3 * float(os.environ.get("SPARING_FUZZ", "1")))
LABELS = ["red", "green", "blue", "pink", "grey", True, 1, ""]
OPTIONS = {
    "reward_window": [None, 0.001, 5.0, 1e9],
    "default_reward": [None, 0.0, 0.5],
    "aggregate": ["first", "sum"],
    "learn_unasked": [True, False],
    "allow_mismatch": [True, False],
    "holdout": [0.0, 0.3, 1.0],
    "holdout_policy": ["logged", "uniform", "action:red", "action:pink"],
    "check": [0.0, 0.5, 1.0],
    "explore": [0.0, 0.3, 1.0],
    "budget_calls": [None, 0, 5, 10**12],
    "budget_period": [0.001, 10.0, 1e9],
    "most_open": [None, 0, 3],
    "fallback": ["logged", "uniform", "action:blue"],
}


class Walk:
    """One life: what was decided so far, and the next step."""

    def __init__(self, http, seed, clock):
        self.http, self.luck, self.clock = http, random.Random(seed), clock
        self.known, self.step = ["nobody"], 0

    def go(self):
        """One request more; its status."""
        self.step += 1
        step = self.luck.choices(
            [
                self.decide,
                self.rank,
                self.reward,
                self.activate,
                self.configure,
                self.mode,
                self.act,
                self.wait,
                self.look,
            ],
            [8, 4, 8, 3, 2, 1, 1, 2, 1],
        )[0]
        answer = step()
        return 200 if answer is None else answer.status_code

    def some(self):
        """Some labels."""
        return self.luck.sample(LABELS, self.luck.randint(1, 4))

    def name(self):
        """A new name, or one that was used."""
        if self.luck.random() < 0.2:
            return self.luck.choice(self.known)
        self.known.append(f"step {self.step}")
        return self.known[-1]

    def decide(self):
        age = self.luck.choice([None, 18, 31, 79, -1e40])
        one = {
            "context": {**RAW, "age": age},
            "request_id": self.name(),
            "subject": f"{self.luck.randint(0, 5)}",
        }
        if self.luck.random() < 0.3:
            one["eligible"] = self.some()
        if self.luck.random() < 0.3:
            one["context_id"] = self.luck.randint(0, 3)
        return self.http.post("/v1/life/decide", json=one)

    def rank(self):
        actions = [{"id": str(label)} for label in self.luck.sample(["red", "green", "blue"], 2)]
        deferred = self.luck.random() < 0.6
        body = {
            "actions": actions,
            "contextFeatures": [RAW],
            "eventId": self.name(),
            "deferActivation": deferred,
        }
        return self.http.post("/personalizer/rank", json=body)

    def reward(self):
        one = {"value": self.luck.choice([0.0, 0.25, 0.5, 1.0, 7.0])}
        if self.luck.random() < 0.3:
            one["action"] = self.luck.choice(LABELS)
        return self.http.post(f"/v1/life/decisions/{self.luck.choice(self.known)}/reward", json=one)

    def activate(self):
        return self.http.post(f"/personalizer/events/{self.luck.choice(self.known)}/activate")

    def configure(self):
        chosen = self.luck.sample(sorted(OPTIONS), 3)
        return self.http.patch("/v1/life", json={name: self.luck.choice(OPTIONS[name]) for name in chosen})

    def mode(self):
        return self.http.post(
            "/v1/life/mode", json={"mode": self.luck.choice(["live", "live", "shadow", "fallback"])}
        )

    def act(self):
        return self.http.post(
            "/v1/life/actions", json={self.luck.choice(["add", "retire"]): self.luck.choice(LABELS)}
        )

    def look(self):
        return self.http.get(
            self.luck.choice(["/v1/life", "/v1/life/summary", "/v1/life/decisions", "/metrics"])
        )

    def wait(self):
        self.clock[0] += self.luck.choice([1, 1000, 6_000_000, 10**15 + 1])


@pytest.mark.parametrize("seed", range(WALKS))
def test_whatever_happens_the_store_can_be_replayed(tmp_path, seed):
    settings = ServerSettings(tmp_path / "store", durability="process")
    made(settings, "life", columns_log(), said={"reward_range": [0, 1]} if seed % 2 else {})
    clock = [events.now()]
    seen = {}
    with (
        running(Service(settings, clock=lambda: clock[0])) as url,
        httpx.Client(base_url=url, timeout=30) as http,
    ):
        walk = Walk(http, seed, clock)
        for _ in range(STEPS):
            status = walk.go()
            seen[status] = seen.get(status, 0) + 1
    assert max(seen) < 500
    assert seen[200] > STEPS / 4
    assert faults(settings) == []
