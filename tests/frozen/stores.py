"""Stores of the service: made over HTTP, packed, unpacked, verified and started again."""

import base64
import gzip
import io
import json
import re
import subprocess
import tarfile
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow.parquet

import sparing
from frozen.cases import LOGS, log_facts, log_of, truth
from frozen.commands import run
from service.clusters import PASSWORD, USER
from service.serving import running

RAW = {"action": "banner", "reward": "clicked"}
EXPERIMENTS = {
    "plain": ("confident", {"tolerance": 0.05}, {"holdout": 0.1, "check": 0.1, "explore": 0.05}),
    "window": (
        "economical",
        {"call_cost": 0.001, "horizon": 2000},
        {"reward_window": 0.4, "default_reward": 0.1, "aggregate": "sum", "explore": 0.3},
    ),
    "expiring": ("lints", {}, {"reward_window": 0.2, "budget_calls": 60, "budget_period": 1e6}),
    "raw": (
        "confident",
        {"tolerance": 0.01},
        {
            "check": 0.2,
            "learn_unasked": True,
            "allow_mismatch": True,
            "holdout": 0.2,
            "holdout_policy": "uniform",
        },
    ),
    "grown": ("certified", {"tolerance": 0.2, "radius_scale": 0.3, "growing": True}, {"check": 0.05}),
    "erased": ("confident", {"tolerance": 0.05}, {"explore": 0.5}),
    "moful": ("moful", {"radius_scale": 0.3}, {"most_open": 30}),
    "eps": ("eps_moful", {"supported": {"top": 3}}, {"explore": 0.1}),
    "ips": ("eps_moful_ips", {"supported": {"top": 3}}, {"explore": 0.1}),
    "linucb": ("linucb", {}, {}),
    "warm": ("warm_started", {"radius_scale": 0.3}, {}),
}
"""Experiments of a recorded store: learner, its settings, the experiment's options."""


def upload(name, **columns):
    """A recorded log, as it is sent."""
    content = base64.b64encode((LOGS / name).read_bytes()).decode()
    return {"content": content, "filename": name, "columns": columns}


class Driver:
    """Live rounds over HTTP."""

    def __init__(self, http):
        self.http, self.rng = http, np.random.default_rng(99)
        self.theta = truth(20)
        self.names = list(log_of(20).action_names)

    def post(self, path, body, status=200):
        answer = self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def context(self, name):
        if name == "raw":
            return {
                "age": int(self.rng.integers(18, 80)),
                "device": str(self.rng.choice(["phone", "desk", "tv"])),
            }
        return (self.rng.integers(0, 1000, 3) / 1000).tolist()

    def value(self, name, context, action):
        if name == "raw":
            return float(self.rng.random() < 0.2 + 0.4 * (action == "green"))
        mean = float(np.dot(context, self.theta[self.names.index(action)])) if action in self.names else 0.3
        return round(mean + self.rng.normal(0, 0.5), 3)

    def decide(self, name, **more):
        context = self.context(name)
        answer = self.post(f"/v1/{name}/decide", {"context": context, **more})
        return answer, self.value(name, context, answer["action"])

    def reward(self, name, answer, value, **more):
        return self.post(f"/v1/{name}/decisions/{answer['decision_id']}/reward", {"value": value, **more})

    def rounds(self, name, count, *, late=0, missing=0.0, **more):
        """Rounds with late rewards, some of which never come."""
        waiting = []
        for number in range(count):
            answer, value = self.decide(name, **more)
            if answer["needs_reward"] and self.rng.random() >= missing:
                waiting.append((number + late, answer, value))
            while waiting and waiting[0][0] <= number:
                _, found, worth = waiting.pop(0)
                self.reward(name, found, worth)


def fill(url):
    """About 2,000 events: what a store can hold."""
    with httpx.Client(base_url=url, timeout=60) as http:
        driver = Driver(http)
        for name, (learner, settings, options) in EXPERIMENTS.items():
            log = upload("raw.csv", **RAW) if name == "raw" else upload("numbers.parquet")
            body = {"name": name, "log": log, "learner": learner, "settings": settings, "options": options}
            driver.post("/v1/experiments", body, 201)
        driver.rounds("plain", 250, late=4, missing=0.1)
        for name in ("moful", "eps", "ips", "linucb", "warm"):
            driver.rounds(name, 70, late=3, missing=0.1)
        _window(driver)
        _raw(driver)
        _grown(driver)
        _erased(driver)
        driver.rounds("plain", 50, late=2, eligible=["a0", "a2", "a5"])
        time.sleep(1.2)  # all windows pass, so that a start has nothing to close


def _window(driver):
    for number in range(60):
        answer, value = driver.decide("window")
        if answer["needs_reward"] and number % 3:
            driver.reward("window", answer, value)
            driver.reward("window", answer, 0.25)
    driver.rounds("expiring", 50, missing=0.4)
    time.sleep(0.8)
    driver.rounds("expiring", 50, missing=0.4)
    driver.rounds("window", 20, missing=1.0)


def _raw(driver):
    for number in range(120):
        answer, value = driver.decide(
            "raw", context_id=number % 40, subject=f"person {number % 9}", request_id=f"request {number}"
        )
        if number % 5 == 0:
            driver.reward("raw", answer, value, action="blue")
        elif number % 5 < 4:
            driver.reward("raw", answer, value)


def _grown(driver):
    driver.rounds("grown", 60, late=5)
    driver.post("/v1/grown/actions", {"add": "new"})
    driver.rounds("grown", 60, late=5, missing=0.1)
    driver.post("/v1/grown/actions", {"retire": "a1"})
    driver.rounds("grown", 30, late=2)
    for mode in ("shadow", "fallback", "live"):
        driver.post("/v1/grown/mode", {"mode": mode})
        driver.rounds("grown", 20, late=2, missing=0.2)
    driver.post("/v1/grown/actions", {"add": "newer"})
    answer = driver.http.patch("/v1/grown", json={"check": 0.3, "unit": "EUR"})
    assert answer.status_code == 200, answer.text
    driver.rounds("grown", 40, late=2)
    driver.post("/v1/plain/import", {"log": upload("ids.parquet")})
    driver.rounds("plain", 60, late=2)
    driver.post("/v1/eps/import", {"log": upload("numbers.parquet"), "settings": {"supported": {"top": 2}}})
    driver.rounds("eps", 30, late=2)


def _erased(driver):
    driver.rounds("erased", 60, late=3, missing=0.2, subject="erase me")
    answer, _ = driver.decide("erased", context_id="one")
    driver.rounds("erased", 30, late=3, missing=0.1)
    driver.post("/v1/erased/erase", {"subject": "erase me"})
    driver.post("/v1/erased/erase", {"decision_id": answer["decision_id"]})
    driver.rounds("erased", 60, late=3, missing=0.1)


def fill_little(url, count, *, make=False):
    """Rounds of one experiment that is made first, or is there."""
    with httpx.Client(base_url=url, timeout=60) as http:
        driver = Driver(http)
        if make:
            body = {
                "name": "shop",
                "log": upload("numbers.parquet"),
                "learner": "confident",
                "options": {"check": 0.3},
            }
            driver.post("/v1/experiments", body, 201)
        driver.rounds("shop", count, late=3, missing=0.1)


def verified(folder, address=None):
    """What `sparing verify` says of a store, without and with its words."""
    words = ["verify", folder] + ([] if address is None else ["--store", address])
    code, out, errors = run([*words, "--json"])
    assert out, errors
    told = run(words)
    return {"code": code, "experiments": json.loads(out)}, told


PASSING = ("time", "health", "step", "hours", "so_far", "look", "spend")
"""What a summary says of the present moment."""

OF_NOW = re.compile("seconds|worker|_age|lag|backup")
"""Metrics of the present moment, and of the process."""


def started(folder, address=None):
    """What a service that starts on a store answers, by the kind of question; then it decides a few rounds more."""
    from sparing.service.server import ServerSettings

    with (
        running(ServerSettings(Path(folder), address)) as url,
        httpx.Client(base_url=url, timeout=60) as http,
    ):
        names = [one["name"] for one in http.get("/v1/experiments").json()["experiments"]]
        found = {
            "about": {name: http.get(f"/v1/{name}").json() for name in names},
            "records": {name: http.get(f"/v1/{name}/decisions?after=0&limit=1000").json() for name in names},
            "summary": {name: _summary(http, name) for name in names},
            "export": {name: _exported(http, name, Path(folder).parent) for name in names},
            "metrics": sorted(
                line
                for line in http.get("/metrics").text.splitlines()
                if line[0] != "#" and not OF_NOW.search(line)
            ),
            "openapi": http.get("/openapi.json").json(),
        }
        driver = Driver(http)
        for name in names:
            driver.rounds(name, 5)
        return found


def _summary(http, name):
    told = http.get(f"/v1/{name}/summary").json()
    return {key: value for key, value in told.items() if key not in PASSING}


def _exported(http, name, folder):
    """The exported log, as it is read again, and the columns of its file."""
    path = folder / f"{name}.parquet"
    path.write_bytes(http.get(f"/v1/{name}/export").content)
    columns = pyarrow.parquet.read_schema(path).names
    contexts = [one for one in columns if one in ("age", "device")]
    log = sparing.read_log(path, **({"contexts": contexts} if contexts else {}))
    return {"columns": columns, **log_facts(log)}


def pack(folder, path):
    """A store's folder as one file, the same bytes for the same files."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as packed:
        for one in sorted(folder.rglob("*")):
            if one.is_file():
                about = packed.gettarinfo(one, arcname=str(one.relative_to(folder)))
                about.mtime = about.uid = about.gid = 0
                about.uname = about.gname = ""
                with one.open("rb") as file:
                    packed.addfile(about, file)
    path.write_bytes(gzip.compress(raw.getvalue(), mtime=0))


def unpack(path, folder):
    """The folder again."""
    folder.mkdir(parents=True)
    with tarfile.open(path) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # new in Python 3.11.4
        packed.extractall(folder)  # our own archive
    return folder


def dump(cluster, name):
    """A database as SQL text."""
    done = subprocess.run(
        [
            cluster.programs / "pg_dump",
            "--inserts",
            "--rows-per-insert=100",
            "--no-owner",
            "--no-privileges",
            "--host=127.0.0.1",
            f"--port={cluster.port}",
            f"--username={USER}",
            name,
        ],
        env={"PGPASSWORD": PASSWORD},
        capture_output=True,
        check=True,
        text=True,
    )
    kept = [
        line
        for line in done.stdout.splitlines()
        if not line.startswith(("\\", "--", "SET transaction_timeout"))
    ]
    return "\n".join(line for line in kept if line) + "\n"
