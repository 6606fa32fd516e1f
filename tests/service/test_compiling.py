"""`sparing warm-up` leaves nothing to compile: whatever learner is served, and whatever is asked of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.building import LEARNERS, LOG
from sparing.service import experiments

TESTS = Path(__file__).parents[1]


@pytest.mark.thorough
def test_nothing_is_compiled_after_the_warm_up():
    path = f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "-m", "service.compiling"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_start_with_retired_actions_plays_the_rounds_that_compile(learner, monkeypatch):
    made = experiments.make_learner(learner, LOG, LEARNERS[learner])
    for name in (made.action_names[0], made.action_names[-1]):
        made.retire(name)
    found, best = [], type(made).best

    def noted(self, *given):
        found.append(best(self, *given))
        return found[-1]

    monkeypatch.setattr(type(made), "best", noted)
    made.warm_up()
    assert len(found) == 3
    assert made.active()[found].all()
