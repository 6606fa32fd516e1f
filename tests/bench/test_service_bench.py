"""The service's benchmark: what is sent is what is stored, by ours and by the floor; and how its numbers are told."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from research.__main__ import app
from research.bench import report
from research.bench.live import growing, preparing
from research.bench.live.serving import FLOOR, OURS
from research.bench.live.yard import Contender, Yard, file_system, race
from research.bench.measuring import BenchmarkResult, Measurement, Outcome
from research.bench.parts import service, service_growth
from research.children import ContenderError
from sparing.service import maintenance
from sparing.service.store import open_store

SPEC = {"actions": 5, "features": 3, "rows_an_action": 20, "seed": 0, "learner": "confident"}
SPEC["settings"] = service.ASKING
KEY = json.dumps([SPEC, False], sort_keys=True)


@pytest.fixture
def yard(tmp_path):
    ready = Yard(tmp_path)
    yield ready
    ready.close()


def counted(path: Path, table: str) -> int:
    with sqlite3.connect(path) as store:
        return store.execute(f"select count(*) from {table}").fetchone()[0]


async def faults(folder: Path) -> list[str]:
    store = open_store(folder)
    await store.open()
    try:
        return [fault for verdict in await maintenance.verify(store) for fault in verdict.faults]
    finally:
        await store.close()


def test_what_is_sent_is_stored(yard):
    asyncio.run(preparing.make({**SPEC, "folder": str(yard.folder / "made")}))
    yard.stores[KEY] = yard.folder / "made"
    contenders = [Contender("a", OURS, "", SPEC), Contender("b", FLOOR, "", SPEC, part=2)]
    servers, failures = service.started(yard, contenders)
    assert not failures
    seen, failures = race(yard, servers, rounds=2, connections=4, decisions=40, rewards=True)
    assert not failures
    for server, count in zip(servers, (10 + 2 * 40, 5 + 2 * 20), strict=True):
        (first, second) = seen[server.contender.title]
        assert min(*first[:4], *second[:4]) > 0
        assert first.slow >= first.median
        assert server.decided == count
        assert server.state()["memory"] > 10**7
        assert server.close() > 50, "bytes a pair"
        path = server.folder / "store.sqlite"
        assert counted(path, "decisions") == counted(path, "outcomes") == count
    assert seen["a"][0].asked > 0.5
    assert seen["b"][0].asked == 0
    assert not asyncio.run(faults(servers[0].folder))


def test_a_server_that_does_not_start_is_a_failure(yard):
    (yard.folder / "empty").mkdir()
    yard.stores[KEY] = yard.folder / "empty"
    servers, (failure,) = service.started(yard, [Contender("a", "nonsense", "", SPEC)])
    assert not servers
    assert failure.contender == "a"
    assert "KeyError" in failure.reason


def test_a_server_that_refuses_is_left_out(yard):
    """Nothing is there to decide about: every answer is 404."""
    (yard.folder / "empty").mkdir()
    yard.stores[KEY] = yard.folder / "empty"
    server = yard.start(Contender("a", OURS, "", SPEC))
    with pytest.raises(ContenderError, match="unknown_experiment"):
        yard.load(server, connections=2, decisions=2, rewards=True, seed=0)
    seen, (failure,) = race(yard, [server], rounds=1, connections=2, decisions=8, rewards=True)
    assert not seen
    assert "unknown_experiment" in failure.reason


def test_numbers_in_their_units():
    def told(unit, *rounds):
        return Measurement(service.PART, "what", "ours, so", "regime", unit, 1, rounds)

    found = (
        told(service.PAIR, 250e-6, 300e-6, 350e-6),
        told(service.REQUEST, 0.0001, 0.0002, 0.0002),
        told(service.ANSWER, 0.002),
        told(service.MEMORY, 2.5e8),
        told(service.BYTES, 310.0),
        told(service.START, 1.25),
    )
    result = BenchmarkResult({}, {}, (), Outcome(found), 1.0)
    rows = report.served(result)
    assert [row[:3] for row in rows] == [("what", "so", "regime")] * 6
    assert [row[3] for row in rows] == [
        "250 µs (275–325)",
        "10,000 a second (5,000–6,667)",
        "2 ms (2–2)",
        "250 MB (250–250)",
        "310 bytes (310–310)",
        "1.25 s (1.25–1.25)",
    ]


def test_the_file_system_is_named():
    assert file_system(Path("/proc")) in ("proc", "an unknown file system")


def test_growth_is_measured_in_stores_that_are_filled_at_once(tmp_path):
    """What is filled in is what a service then has, and all kinds of work are measured."""
    asyncio.run(preparing.make({**SPEC, "folder": str(tmp_path / "made")}))
    order = {"decisions": 300, "waiting": 20, "tail": 30, "rounds": 2, "seed": 0}
    found = asyncio.run(growing.measure(tmp_path / "made", order))
    assert {*service_growth.NAMES} == {name for name in found if not name.endswith(service_growth.CLOCK)}
    assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in found.values())
    decided = 300 + 20 + growing.GROUP * (1 + 2 * 2)
    assert counted(tmp_path / "made" / "store.sqlite", "decisions") == decided
    with sqlite3.connect(tmp_path / "made" / "store.sqlite") as store:
        numbers = "select count(*), max(seq) from (select seq from decisions union select seq from outcomes union select seq from changes)"
        count, last = store.execute(numbers).fetchone()
        assert count == last == store.execute("select last_seq from store").fetchone()[0]
        assert store.execute("select sum(decisions) from totals").fetchone()[0] == decided


def test_the_exponent_of_growth():
    assert service_growth.exponent([(10, 3.0), (100, 3 * 10**0.3), (1000, 3 * 10**0.6)]) == pytest.approx(0.3)
    rounds = [
        Measurement(service_growth.STORED, str(n), "a decision", "", "second", 1, (n * 1e-4,))
        for n in (10, 100)
    ]
    rounds.append(Measurement(service_growth.RESTART, "10", "CPU", "setting", "second", 1, (2.0, 1.0)))
    result = BenchmarkResult({}, {}, (), Outcome(tuple(rounds)), 0.0)
    ((title, header, rows),) = report.grown(result)
    assert "stored decisions" in title
    assert header == ("what", "10", "100", "b")
    assert rows == [("a decision", "1 ms", "10 ms", "1.00")]
    assert report.restarted(result) == [("start", "CPU", "setting", "1 s (1.25–1.75)")]


@pytest.mark.thorough
def test_the_quick_run_of_growth(tmp_path):
    words = ["bench", "--quick", "--only", "growth-of-service", "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert not result["failures"]
    parts = {each["part"] for each in result["measurements"]}
    assert parts == {service_growth.STORED, service_growth.OPEN, service_growth.RESTART}
    assert [each["part"] for each in result["ratios"]] == [service_growth.OPEN]
