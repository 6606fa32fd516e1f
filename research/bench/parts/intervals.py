"""Intervals of off-policy estimates, against OBP's bootstrap."""

from dataclasses import replace

from research.bench.children import Field
from research.bench.measuring import Measurement, Outcome, ratio, shown
from research.bench.racing import Entry, race
from research.bench.setting import BenchmarkSetting
from sparing.evaluation.intervals import INTERVALS, RESAMPLES

OBP = "OBP bootstrap"
TARGETS = {"block-bootstrap": 100.0, "bootstrap": 40.0}

ACTIONS, FEATURES = 10, 5


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """IPS, SNIPS and DR together."""
    spec = {"rows": setting.interval_rows, "actions": ACTIONS, "features": FEATURES, "seed": setting.seed}
    ours = [
        Entry(
            "ours",
            "intervals",
            f"ours, {kind}",
            f"evaluate() from rows to limits, reward model fitted; B = {RESAMPLES} where resampled",
            {**spec, "interval": kind},
            most=1,
        )
        for kind in INTERVALS
        if kind != "bernstein"
    ]
    many = setting.bootstrap_resamples
    theirs = [
        Entry("obp", "bootstrap", f"{OBP}, B = {b}", "reward model given", {**spec, "resamples": b}, most=1)
        for b in (1, many)
        if "obp" in arena.peers
    ]
    raced = race(
        arena,
        [*ours, *theirs],
        part="intervals",
        size=f"{setting.interval_rows:,} rows, K = {ACTIONS}, IPS + SNIPS + DR",
        unit="evaluation",
        rounds=setting.repeats,
    )
    one, more = (shown(f"{OBP}, B = {b}", raced.measurements) for b in (1, many))
    if one is None or more is None:
        return raced
    other = extrapolated(one, more, many)
    ratios = tuple(
        ratio(mine, other, target=TARGETS.get(mine.contender.removeprefix("ours, ")))
        for mine in raced.measurements
        if mine.contender.startswith("ours")
    )
    return raced + Outcome((other,), ratios)


def extrapolated(one: Measurement, more: Measurement, many: int) -> Measurement:
    """The time for RESAMPLES resamples, on the line through those for 1 and for `many`, round by round."""
    reach = (RESAMPLES - 1) / (many - 1)
    rounds = tuple(low + (high - low) * reach for low, high in zip(one.rounds, more.rounds, strict=True))
    regime = f"{one.regime}; from B = 1 and B = {many} on a line"
    return replace(one, contender=f"{OBP}, B = {RESAMPLES}", regime=regime, rounds=rounds)
