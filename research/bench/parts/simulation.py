"""Whole simulated runs: `simulate` against a loop of NumPy steps."""

from research.bench.children import Field
from research.bench.measuring import Outcome, ratio, shown
from research.bench.racing import Entry, race
from research.bench.setting import BenchmarkSetting

OURS, LOOP = "ours, simulate(moful)", "NumPy step loop"
TARGET = 20.0
ACTIONS, FEATURES = 20, 10


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """All runs of mOFUL, one after the other on one core."""
    spec = {
        "actions": ACTIONS,
        "features": FEATURES,
        "rounds": setting.simulation_rounds,
        "runs": setting.simulation_runs,
    }
    regime = "mOFUL, determinant radius × 1, cold"
    raced = race(
        arena,
        [
            Entry("ours", "simulate", OURS, regime, spec, patience=0.3),
            Entry("plain", LOOP, LOOP, regime, spec, most=1),
        ],
        part="simulation",
        size=f"{setting.simulation_runs} runs × {setting.simulation_rounds} rounds, {ACTIONS} × {FEATURES}",
        unit="all runs",
        rounds=setting.repeats,
    )
    ours, loop = shown(OURS, raced.measurements), shown(LOOP, raced.measurements)
    if ours is None or loop is None:
        return raced
    return raced + Outcome(ratios=(ratio(ours, loop, target=TARGET),))
