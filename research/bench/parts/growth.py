"""How our time grows with actions, features and rows."""

from research.bench.field import Field
from research.bench.measuring import Measurement, Outcome
from research.bench.parts.batch import SUMMING, table_of
from research.bench.parts.step import COLD, WARM, ours
from research.bench.racing import Entry, race
from research.bench.setting import BenchmarkSetting

BY_ACTIONS, BY_FEATURES, BY_ROWS = "growth in K", "growth in d", "growth in n"
FEATURES, ACTIONS = 32, 100
"""d while K grows; K while d grows, and in the growing file."""

FILE_FEATURES = 8
ROUNDS = 3


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """Three curves; `size` is the number that grows."""
    outcome = Outcome()
    for k in setting.growth_actions:
        outcome += _step(setting, arena, BY_ACTIONS, k, FEATURES, size=k)
    for d in setting.growth_features:
        outcome += _step(setting, arena, BY_FEATURES, ACTIONS, d, size=d)
    for n in setting.growth_rows:
        outcome += _rows(setting, arena, n)
    return outcome


def _step(setting: BenchmarkSetting, arena: Field, part: str, k: int, d: int, *, size: int) -> Outcome:
    spec = {"actions": k, "features": d, "seed": setting.seed}
    rows = setting.growth_rows_an_action
    outcome = Outcome()
    # One after the other: two learners of the largest size need not be in memory together.
    for entry in (
        ours(COLD, "cold", f"d = {d}, K = {k}, no log", {**spec, "fresh": True}, setting.patience, most=500),
        ours(
            WARM,
            "warm",
            f"d = {d}, K = {k}, {rows} rows of every action",
            {**spec, "rows_an_action": rows},
            setting.patience,
        ),
    ):
        outcome += race(arena, [entry], part=part, size=str(size), unit="step", rounds=ROUNDS)
    return outcome


def _rows(setting: BenchmarkSetting, arena: Field, n: int) -> Outcome:
    with table_of(n, ACTIONS, FILE_FEATURES, setting.seed) as spec:
        regime = f"d = {FILE_FEATURES}, K = {ACTIONS}"
        entry = Entry("ours", "statistics", SUMMING, regime, spec, most=3)
        return race(arena, [entry], part=BY_ROWS, size=str(n), unit="file", rounds=ROUNDS)


def curve(measurements: tuple[Measurement, ...], part: str, contender: str) -> list[tuple[int, float]]:
    """(size, minimum) of one contender, in order of size."""
    points = [(int(m.size), m.minimum) for m in measurements if (m.part, m.contender) == (part, contender)]
    return sorted(points)
