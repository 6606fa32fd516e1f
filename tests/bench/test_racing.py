"""Contenders in children: timed in turn, and allowed to fail."""

import sys
from pathlib import Path

import pytest

from research import children
from research.bench.field import SERVER, open_field
from research.bench.racing import Entry, race
from research.children import Child, ContenderError

SPINNER = """
import os, time
VERSION = "1.2"

class Spin:
    def __init__(self, worlds, spec):
        self.seconds, self.renewed = spec["seconds"], 0
        self.left = spec.get("runs", 10**9)
    def renew(self):
        self.renewed += 1
    def run(self, count):
        self.left -= 1
        if self.left < 0:
            os.write(2, b"one\\nno more fuel\\n")
            os._exit(3)
        print("chatter that must not disturb the answers")
        end = time.process_time() + count * self.seconds
        while time.process_time() < end:
            pass

def refuse(worlds, spec):
    raise ValueError("not today")

CONTENDERS = {"spin": Spin, "refuse": refuse}
"""


@pytest.fixture
def arena(tmp_path, monkeypatch):
    """A field with a peer `spinner` whose script lies in a folder of its own."""
    script = tmp_path / "spinner.py"
    script.write_text(SPINNER)
    start = Child.start

    def started(name, command, environment):
        swapped = [str(script) if word.endswith("spinner.py") else word for word in command]
        return start(name, swapped, environment)

    monkeypatch.setattr(Child, "start", started)
    with open_field({"spinner": Path(sys.executable)}) as ready:
        yield ready


def entry(title: str, *, name: str = "spin", **spec: float) -> Entry:
    return Entry("spinner", name, title, "", {"seconds": 0.001, **spec}, patience=0.01)


def test_cpu_time_of_a_unit(arena):
    raced = race(arena, [entry("a"), entry("b", seconds=0.004)], part="p", size="s", unit="u", rounds=3)
    one, four = raced.measurements
    assert not raced.failures
    assert len(one.rounds) == len(four.rounds) == 3
    # A spinner stops at the first look at the clock past its time: never less, and rarely much more.
    assert 0.001 <= one.minimum < 0.002
    assert 0.004 <= four.minimum < 0.008
    assert one.count > four.count >= 1
    assert arena.child("spinner").version == "1.2"


def test_an_exception_leaves_the_others(arena):
    raced = race(arena, [entry("a"), entry("b", name="refuse")], part="p", size="s", unit="u", rounds=1)
    assert [m.contender for m in raced.measurements] == ["a"]
    (failure,) = raced.failures
    assert failure.contender == "b, s"
    assert failure.reason == "spinner: ValueError: not today"


def test_a_child_that_dies_takes_its_own_along_and_comes_back(arena):
    doomed = entry("b", runs=1)  # the trial is its last run
    raced = race(arena, [entry("a"), doomed], part="p", size="s", unit="u", rounds=2)
    assert not raced.measurements
    reasons = {failure.contender: failure.reason for failure in raced.failures}
    assert "ended with code 3: no more fuel" in reasons["b, s"]
    assert "it ended with b" in reasons["a, s"]
    again = race(arena, [entry("a")], part="p", size="s", unit="u", rounds=1)
    assert len(again.measurements) == 1


def test_a_child_that_says_nothing_is_ended(arena, monkeypatch):
    monkeypatch.setattr(children, "LONGEST", 1.0)
    arena.child("spinner")
    raced = race(arena, [entry("a", seconds=60)], part="p", size="s", unit="u", rounds=1)
    assert "silent for 1 s" in raced.failures[0].reason


def test_a_peer_without_its_library_is_a_failure():
    """The interpreter of the tests has no obp."""
    with open_field({"obp": Path(sys.executable)}) as field, pytest.raises(ContenderError, match="obp"):
        field.child("obp")


def test_an_interpreter_that_is_not_there(tmp_path):
    with (
        open_field({"obp": tmp_path / "none"}) as field,
        pytest.raises(ContenderError, match="did not start"),
    ):
        field.child("obp")


@pytest.mark.parametrize(
    ("peer", "name"), [("coba", "LinUCB"), ("vowpalwabbit", "SquareCB"), ("vowpalwabbit", "bag of 5")]
)
def test_peers_of_the_test_environment_run(peer, name):
    spec = {"actions": 4, "features": 3, "seed": 0}
    with open_field({peer: Path(sys.executable)}) as field:
        raced = race(
            field,
            [Entry(peer, name, name, "", spec, patience=0.01)],
            part="p",
            size="s",
            unit="u",
            rounds=1,
        )
    assert not raced.failures
    assert raced.measurements[0].minimum > 0


def test_peers_do_not_import_sparing():
    scripts = sorted(SERVER.parent.glob("*.py"))
    assert len(scripts) == 9
    for script in scripts:
        assert "import sparing" not in script.read_text(encoding="utf-8")
        assert "from sparing" not in script.read_text(encoding="utf-8")
