"""One recorded run for each algorithm: decisions must not change unnoticed.

Where a change is meant, `SPARING_WRITE_GOLDEN=1 pytest tests/online/test_golden.py` records the runs anew.
"""

import json
import os
from pathlib import Path

import pytest

import sparing
from reference.cases import make_log, make_rounds, parameters, run

GOLDEN = Path(__file__).with_name("golden.json")
GIVEN = {"noise": 0.5, "theta_bound": 2.0, "context_bound": 1.75, "seed": 4}
SCALED = {**GIVEN, "radius_scale": 0.2}
ALGORITHMS = {
    "moful": lambda log: sparing.moful(log, **GIVEN),
    "eps_moful": lambda log: sparing.eps_moful(log, supported=sparing.most_logged(2), **SCALED),
    "eps_moful_ips": lambda log: sparing.eps_moful_ips(
        log, supported=sparing.most_logged(2), clip="inf", **SCALED
    ),
    "warm_started": lambda log: sparing.warm_started(log, **GIVEN),
    "certified": lambda log: sparing.certified(log, tolerance=0.1, **SCALED),
    "confident": lambda log: sparing.confident(log, tolerance=0.05, spot_check=0.1, noise=0.5, seed=4),
    "economical": lambda log: sparing.economical(
        log, call_cost=0.002, horizon=400, calls=12, noise=0.5, seed=4
    ),
    "linucb": lambda log: sparing.linucb(log, **GIVEN),
    "lints": lambda log: sparing.lints(log, **GIVEN),
}


def trace(name):
    """60 rounds of an algorithm: its actions, whether each needed a reward, and why."""
    theta = parameters(20)
    log = make_log(20, theta, rows=100, distinct=60, never=[5])
    decisions = run(ALGORITHMS[name](log), make_rounds(20, theta, 60, log=log))
    return {
        "actions": [decision.action for decision in decisions],
        "needs_reward": [int(decision.needs_reward) for decision in decisions],
        "reasons": [decision.reason for decision in decisions],
    }


@pytest.fixture(scope="module")
def golden():
    if os.environ.get("SPARING_WRITE_GOLDEN"):
        lines = [f'"{name}": {json.dumps(trace(name))}' for name in ALGORITHMS]
        GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_decisions_are_those_recorded(name, golden):
    assert trace(name) == golden[name]


def test_the_recorded_runs_see_every_reason(golden):
    assert set(golden) == set(ALGORITHMS)
    reasons = {reason for run in golden.values() for reason in run["reasons"]}
    priced = {"not-worth-it", "spent"}
    assert reasons == {"explore", "spot-check", "supported", "log-beats", "certified", "confident"} | priced
