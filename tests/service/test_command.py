"""`sparing serve` as processes: several workers on one store, and a store that goes on where it was."""

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from service.building import LOG
from sparing.log import write_log

SPARING = str(Path(sys.executable).with_name("sparing"))


class Served:
    """A service of the command line; `stop` ends it and gives what it said."""

    def __init__(self, *words, **environment):
        self._process = subprocess.Popen(
            [SPARING, "serve", *map(str, words), "--port", "0"],
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        while "sparing: serving" not in self.said:
            line = self._process.stderr.readline()
            assert line, self.said
            self.said += line
        self.url = re.search(r"http://\S+?(?=/ )", self.said)[0]
        self.http = httpx.Client(base_url=self.url, timeout=20)
        until(lambda: self._ready())

    def _ready(self):
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self):
        self.http.close()
        self._process.send_signal(signal.SIGTERM)
        self.said += self._process.communicate(timeout=60)[1]
        assert self._process.returncode in (0, -signal.SIGTERM), self.said
        assert "Traceback" not in self.said, self.said


def until(true):
    for _ in range(300):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to pass")


def decided(http, number):
    x = [0.1 * (number % 7), 0.05 * (number % 11), 0.5]
    answer = http.post("/v1/trial/decide", json={"context": x, "request_id": f"r{number}"})
    found = answer.raise_for_status().json()
    if found["needs_reward"]:
        http.post(f"/v1/trial/decisions/r{number}/reward", json={"value": x[0]}).raise_for_status()
    return found


@pytest.fixture
def log(tmp_path):
    write_log(LOG, tmp_path / "log.parquet")
    return (
        "--name",
        "trial",
        "--log",
        tmp_path / "log.parquet",
        "--learner",
        "confident",
        "--rule",
        "check=0.2",
    )


def test_it_goes_on_where_it_was(tmp_path, log):
    first = Served(tmp_path / "store", *log)
    before = [decided(first.http, number) for number in range(30)]
    about = first.http.get("/v1/trial").json()
    first.stop()
    second = Served(tmp_path / "store")
    again = second.http.get("/v1/trial").json()
    assert (again["model_seq"], again["digest"]) == (about["model_seq"], about["digest"])
    assert [decided(second.http, number) for number in range(30)] == before
    assert second.http.get("/v1/trial/summary").json()["health"]["snapshot"]["seq"] == about["model_seq"]
    second.stop()
    verified = subprocess.run([SPARING, "verify", tmp_path / "store"], capture_output=True, text=True)
    assert verified.returncode == 0, verified.stdout
    assert "all as stored" in verified.stdout


def test_two_workers_on_postgresql_hold_the_same_state(on_postgres, log):
    served = Served(on_postgres.folder, *log, "--workers", "2", SPARING_STORE=on_postgres.address)

    def load(client):
        with httpx.Client(base_url=served.url, timeout=20) as http:  # connections are spread over the workers
            return [decided(http, 1000 * client + number) for number in range(20)]

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for some in pool.map(load, range(8)) for answer in some]
    assert len({answer["decision_id"] for answer in answers}) == 160

    def agree():
        health = served.http.get("/v1/trial/summary").json()["health"]
        states = {(one["seq"], one["digest"]) for one in health["workers"]}
        return len(health["workers"]) == 2 and len(states) == 1

    until(agree)
    served.stop()
    environment = {**os.environ, "SPARING_STORE": on_postgres.address}
    verified = subprocess.run(
        [SPARING, "verify", on_postgres.folder], env=environment, capture_output=True, text=True
    )
    assert "160 of 160 decisions recomputed" in verified.stdout, verified


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "open to everyone who can reach"),
        (["--workers", "2"], "one writer"),
        (["--name", "a"], "--name and --log go together"),
        (["--durability", "often"], "durability"),
        (["--store", "mysql://x"], "postgresql://"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_line(tmp_path, words, said):
    done = subprocess.run([SPARING, "serve", tmp_path / "store", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.startswith("sparing: ")
    assert len(done.stderr.splitlines()) == 1
