"""The JavaScript client against the real service: decisions and rewards, lost answers, silence, keys, and a service that is killed."""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clients.test_javascript_scorer import CLIENT, HERE, find_node
from reference.reader import answers
from service.serving import added_key, columns_log, made, running
from service.test_client import broken
from sparing.service.server import ServerSettings

SLACK = 2.0
"""Seconds that a busy machine may add to a time limit."""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    settings = ServerSettings(tmp_path_factory.mktemp("client") / "store", durability="process")
    with running(made(settings, "banners", columns_log())) as address:
        yield address


def case(name, url, **environment):
    command = [find_node(), HERE / "client.mjs", CLIENT, name, url]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_round(url):
    found = case("round", url)
    assert found["first"] == found["again"]
    assert found["first"]["decision_id"] in found["records"]
    chosen = found["chosen"]
    assert chosen["action"] == "red"
    assert chosen["cost"] == 0.25
    assert {part["column"] for part in chosen["explanation"]["contributions"]} >= {"age", "device"}
    first, again, other = found["rewards"]
    assert first["status"] in ("taken", "unasked")
    assert again["status"] == "duplicate"
    assert other["status"] == 409
    assert found["about"] == "banners"
    refused = found["refused"]
    assert (refused["status"], refused["field"]) == (422, "context")
    assert "device" in refused["detail"]


def test_batches(url):
    found = case("batches", url)
    assert found["answers"] == 1500
    assert found["problems"] == [[422, found["problems"][0][1]]]
    assert found["distinct"] == 1499
    assert found["own"] == "blue"
    assert found["rewards"][1] not in ("taken", "unasked")
    assert found["rewards"][2] is None
    assert {found["rewards"][0], found["rewards"][3]} <= {"taken", "unasked"}
    fallback, reward = found["fallback"]
    assert (fallback["action"], fallback["decision_id"], fallback["needs_reward"], reward) == (
        "red",
        "",
        False,
        None,
    )


def test_lost_answers_make_one_decision(url):
    found = case("lost", url)
    assert len(found["ids"]) == 3
    assert len(set(found["ids"])) == 1
    assert found["made"] == [found["answer"]["decision_id"]]


def test_a_part_whose_answer_was_lost_counts_once(tmp_path):
    settings = ServerSettings(tmp_path / "store", durability="process")
    rules = {"aggregate": "sum", "reward_window": 3600.0, "check": 1.0}
    with running(made(settings, "banners", columns_log(), **rules)) as address:
        assert case("parts", address) == ["duplicate", "duplicate", "part", "duplicate"]
    with contextlib.closing(sqlite3.connect(settings.folder / "store.sqlite")) as store:
        assert store.execute("select value from outcomes order by seq").fetchall() == [
            (0.25,),
            (0.125,),
            (0.5,),
        ]


def test_shadow_calls_and_the_queue(tmp_path):
    settings = ServerSettings(tmp_path / "store", durability="process")
    log = columns_log()
    made(settings, "banners", log, "economical", {"call_cost": 0.001, "horizon": 100_000}, asking="shadow")
    with running(settings) as address:
        found = case("shadow", address)
    queued = {ask["decision_id"]: (ask["action"], ask["served_id"]) for ask in found["shadows"]}
    assert queued == {each["decision_id"]: (each["action"], each["served"]) for each in found["also"]}
    assert set(found["shadows"][0]["context"]) == {"age", "device"}
    assert set(found["rewards"]) == {"taken"}
    assert len(found["rewards"]) == len(queued) > 0
    assert found["left"] == []


@pytest.mark.parametrize("hangs", [True, False])
def test_a_silent_service(hangs):
    with broken(hangs) as (address, asked):
        found = case("silent", address)
    assert re.search(r"after [12] tries of 100 ms", found["error"]["unreachable"])
    assert found["taken"] < 200 + SLACK * 1000
    assert found["chosen"] == "old"
    assert "unreachable" in found["other"]
    assert any(b"Bearer secret" in each for each in asked)


def test_keys(tmp_path):
    settings = made(ServerSettings(tmp_path / "store", durability="process"), "banners", columns_log())
    key = added_key(settings, "web")
    with running(settings) as address:
        keyless, action = case("key", address, KEY=key)
    assert keyless["status"] == 401  # a refusal, not silence: the fallback does not hide it
    assert action in ("red", "green", "blue")


class Killed:
    """`sparing serve` on a port, which can be killed."""

    def __init__(self, folder):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.folder, self.address = folder, f"http://127.0.0.1:{self.port}"
        table = (
            "age,device,banner,clicked\n"
            + "31,phone,red,1\n40,tablet,blue,0\n25,phone,blue,1\n60,tablet,red,0\n" * 40
        )
        (folder / "clicks.csv").write_text(table, encoding="utf-8")
        self.made = False

    def start(self):
        words = [sys.executable, "-m", "sparing", "serve", "shop", "--port", str(self.port)]
        if not self.made:
            words += [
                "--name",
                "banners",
                "--log",
                "clicks.csv",
                "--action",
                "banner",
                "--reward",
                "clicked",
                "--call-cost",
                "0.05",
            ]
        self.made = True
        self.process = subprocess.Popen(
            words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 120
        while not answers(self.address):
            assert time.monotonic() < until
            assert self.process.poll() is None
            time.sleep(0.1)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


def test_a_killed_service_loses_no_decision(tmp_path):
    """While it is down the fallback plays; afterwards every id has the decision that it had."""
    service = Killed(tmp_path)
    service.start()
    command = [find_node(), HERE / "client.mjs", CLIENT, "lives", service.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:

        def decide(name):
            client.stdin.write(f"{name}\n")
            client.stdin.flush()
            return json.loads(client.stdout.readline())

        try:
            for _ in range(1000):  # the first requests of a cold machine may take longer than a second
                if decide("warm")["reason"] != "fallback":
                    break
            before = {f"visit-{i}": decide(f"visit-{i}") for i in range(30)}
            assert all(answer["decision_id"] for answer in before.values())
            service.kill()
            down = [decide(f"down-{i}") for i in range(2)]
            assert all((answer["action"], answer["decision_id"]) == ("plain", "") for answer in down)
            service.start()
            after = {}
            for name in itertools.islice(itertools.cycle(before), 300):
                answer = decide(name)
                if answer["reason"] != "fallback":
                    after[name] = answer
                if len(after) == len(before):
                    break
            assert after == before
            assert decide("down-0")["reason"] != "fallback"
        finally:
            client.stdin.close()
            client.wait(30)
            service.kill()


@pytest.mark.thorough
def test_types(tmp_path):
    """The strictest TypeScript accepts the sources, and the uses of a user; wrong uses are marked in the file."""
    home = Path(CLIENT).parent
    for path in home.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    npm(["ci", "--ignore-scripts"], tmp_path)
    done = subprocess.run(
        [find_node(), "node_modules/typescript/bin/tsc"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def npm(words, folder):
    done = subprocess.run(
        ["npm", *words, "--no-audit", "--no-fund"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
def test_the_package_installs_into_an_empty_project(tmp_path):
    home, project = Path(CLIENT).parent, tmp_path / "project"
    (listed,) = json.loads(npm(["pack", "--json", "--pack-destination", tmp_path], home))
    names = {file["path"] for file in listed["files"]}
    assert names == {
        *(path.name for path in home.glob("*.js")),
        *("index.d.ts", "package.json", "README.md", "LICENSE"),
    }
    project.mkdir()
    npm(["install", "--ignore-scripts", tmp_path / listed["filename"]], project)
    code = "import * as sparing from 'sparing'; console.log(Object.keys(sparing).sort().join(' '))"
    done = subprocess.run(
        [find_node(), "--input-type=module", "-e", code],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        "Client",
        "DecideRequest",
        "Scorer",
        "ScorerError",
        "ServiceProblem",
        "UnreachableError",
    ]


def test_one_version_one_licence_and_no_registry():
    home = Path(CLIENT).parent
    import sparing

    package, lock = (
        json.loads((home / name).read_text(encoding="utf-8"))
        for name in ("package.json", "package-lock.json")
    )
    assert package["version"] == lock["version"] == sparing.__version__.replace(".dev", "-dev.")
    assert (home / "LICENSE").read_bytes() == (home.parents[1] / "LICENSE").read_bytes()
    assert not [each for each in lock["packages"].values() if "resolved" in each]
    assert all("integrity" in each for name, each in lock["packages"].items() if name)
    assert "dependencies" not in package
