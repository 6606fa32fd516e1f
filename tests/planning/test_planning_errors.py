"""What a plan refuses, and how it says so."""

import math
import subprocess
import sys

import numpy as np
import pytest

from each import for_each
from sparing import Log
from sparing.errors import SettingError
from sparing.planning.plan import plan
from sparing.simulation import LinearWorld, draw_log


@pytest.fixture(scope="module")
def log():
    return draw_log(LinearWorld(n_actions=5, n_features=3, noise=1.0, seed=0), rows=100, never=[0], seed=1)


@for_each(
    ("given", "message"),
    [
        ({"horizon": 0}, "horizon=0; must be a whole number"),
        ({"horizon": 2.5}, "horizon=2.5"),
        ({"call_cost": -0.1}, "call_cost=-0.1; must be a finite number, 0 or more"),
        ({"call_cost": math.nan}, "call_cost=nan"),
        ({"worlds": 18}, "needs 19 or more"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"tolerances": [0.1, -1]}, "tolerances="),
        ({"tolerances": []}, "tolerances="),
        ({"tolerances": [math.nan]}, "tolerances="),
        ({"learners": []}, "learners is empty"),
        ({"learners": ["nosuch"]}, "'nosuch'; must be one of economical"),
        ({"learners": ["eps_moful_ips"]}, "Plan with 'eps_moful'"),
        ({"regret": -1}, "regret=-1"),
        ({"budget": math.inf}, "budget=inf; must be a whole number, 0 or more"),
        ({"budget": 2.5}, "budget=2.5"),
        ({"seed": -1}, "seed=-1"),
        ({"workers": 0}, "workers=0"),
        ({"nosuch": 1}, "unknown setting 'nosuch': known are horizon, call_cost, .*, noise, "),
        ({"call_cots": 1}, "unknown setting 'call_cots': did you mean call_cost"),
        ({"prior_scale": 0}, "prior_scale=0"),
        ({"spot_check": 2}, "spot_check=2"),
    ],
)
def test_bad_numbers_are_refused(log, given, message):
    with pytest.raises(SettingError, match=message):
        plan(log, **{"horizon": 10, **given})


def test_logs_that_teach_no_posterior():
    with pytest.raises(SettingError, match="no rows"):
        plan(Log.empty(action_names=["a", "b"], n_features=2), horizon=10)
    with pytest.raises(SettingError, match="expected a Log"):
        plan([1, 2], horizon=10)
    one = Log.from_arrays(
        np.random.default_rng(0).random((40, 2)), [0] * 40, np.zeros(40), action_names=[0, 1]
    )
    with pytest.raises(SettingError, match="all 0"):
        plan(one, horizon=10, worlds=19, workers=1)
    assert (
        plan(one, horizon=10, worlds=19, prior_scale=1.0, noise=1.0, theta_bound=1.0, workers=1).prior_scale
        == 1.0
    )


SCRIPT = """
import numpy as np, sparing
x = np.random.default_rng(0).random((60, 2))
log = sparing.Log.from_arrays(x, np.arange(60) % 3, x.sum(axis=1))
print(sparing.plan(log, horizon=5, worlds=19, prior_scale=1.0, workers=2).worlds)
"""


def test_a_script_needs_no_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "19\n"), done.stderr
