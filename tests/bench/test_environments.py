"""Peers' environments: made once, made anew when the recipe changes, and never fatal."""

import subprocess
from dataclasses import replace

import pytest

from research import environments
from research.bench import running
from research.bench.measuring import Measurement, Outcome
from research.bench.setting import BenchmarkSetting
from research.environments import PEERS, Peer, install

PEER = Peer("someone", "Someone", "someone==1.0", ("numpy==2.0",), ("--ignore-requires-python",))


@pytest.fixture
def commands(monkeypatch):
    """Records what would be run; making an environment only makes its interpreter's file."""
    ran = []

    def run(command):
        ran.append(command)
        if command[1:3] == ["-m", "venv"]:
            python = environments.Path(command[3]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.touch()

    monkeypatch.setattr(environments, "run_quietly", run)
    return ran


def test_an_environment_is_made_once(tmp_path, commands):
    (first,) = install([PEER], folder=tmp_path)
    assert first.interpreter == tmp_path / "someone" / "bin" / "python"
    assert len(commands) == 3
    assert commands[1][-1] == "numpy==2.0"
    assert commands[2][-2:] == ["--ignore-requires-python", "someone==1.0"]
    assert all("--no-deps" in command for command in commands[1:])
    (again,) = install([PEER], folder=tmp_path)
    assert again == first
    assert len(commands) == 3


def test_another_pin_or_the_wish_makes_it_anew(tmp_path, commands):
    install([PEER], folder=tmp_path)
    install([replace(PEER, pin="someone==1.1")], folder=tmp_path)
    assert len(commands) == 6
    install([replace(PEER, pin="someone==1.1")], folder=tmp_path, reinstall=True)
    assert len(commands) == 9


def test_a_peer_that_does_not_install_is_reported(tmp_path, monkeypatch):
    def run(command):
        said = f"WARNING: …\nERROR: no wheel for {tmp_path}/someone\nnotice: …"
        raise subprocess.CalledProcessError(1, command, stderr=said)

    monkeypatch.setattr(environments, "run_quietly", run)
    heard = []
    (found,) = install([PEER], folder=tmp_path, say=heard.append)
    assert found.interpreter is None
    assert found.reason == "ERROR: no wheel for someone"
    assert heard[-1] == "Someone is left out: ERROR: no wheel for someone"
    assert not (tmp_path / "someone" / environments.RECEIPT).exists()

    part = Outcome((Measurement("startup", "", "ours", "", "process", 1, (1.0,)),))
    monkeypatch.setitem(running.MEASURES, "startup", lambda setting, arena: part)
    result = running.bench(BenchmarkSetting.quick(), parts=["startup"], peers=[found])
    (failure,) = result.outcome.failures
    assert (failure.contender, failure.reason) == ("Someone", f"not installed: {found.reason}")
    assert result.to_dict()["peers"][0]["installed"] is False
    assert str(tmp_path) not in str(result.to_dict())
    assert result.outcome.measurements == part.measurements, "the others are measured all the same"


def test_a_part_has_its_own_peers_installed():
    names = {part: [peer.name for peer in running.rivals([part])] for part in running.MEASURES}
    assert names["service"] == ["fastapi"]
    assert names["intervals"] == ["obp"]
    assert names["startup"] == names["statistics"] == []
    assert running.rivals(list(running.MEASURES)) == list(PEERS)


def test_pins_are_exact_and_name_no_index():
    for peer in PEERS:
        assert all("==" in pin and "/" not in pin for pin in peer.requirements)
        assert all(option.startswith("--ignore") for option in peer.options)
