"""Work done in one go: simulated runs, sums of a log on disk, intervals of estimates, and π⁺."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from research.bench.field import Field
from research.bench.measuring import COST, Measurement, Outcome, compared, ratio, shown
from research.bench.ours.data import write_table
from research.bench.racing import Entry, race
from research.bench.setting import BenchmarkSetting
from sparing.evaluation.intervals import INTERVALS, RESAMPLES

SIMULATE, LOOP = "ours, simulate(moful)", "NumPy step loop"
LOOP_TARGET = 20.0
SIMULATED = (20, 10)
"""K and d of the simulated runs."""

SUMMING, READING = "ours, summing the file", "reading the file"
READING_TARGET = 2.5

OBP = "OBP bootstrap"
OBP_TARGETS = {"block-bootstrap": 100.0, "bootstrap": 40.0}
EVALUATED = (10, 5)
"""K and d of the log that is evaluated."""

WHOLE, GROUPED = "ours, pi_plus", "ours, pi_plus of grouped rows"
HIGHS, COLLAPSED, SORT = "HiGHS", "HiGHS, collapsed", "np.argsort"
FASTER_THAN_HIGHS, COST_OF_SORTING = 200.0, 3.0
ACTIONS, REPEATS, CLIP = 20, 5, 5.0
LOG = f"contexts come {REPEATS} times each under known ids, M = {CLIP:g}"
REGIMES = {
    WHOLE: f"{LOG}; finding rows of one context included",
    GROUPED: f"{LOG}; which rows share a context is known",
    HIGHS: "a variable for each supported action; written down before, solving only",
    COLLAPSED: "with our shortcut, one variable for a context's unlogged actions; solving only",
    SORT: "of the (context, action) pairs, int64",
}


def simulation(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """All runs of mOFUL, one after the other on one core, against a loop of NumPy steps."""
    k, d = SIMULATED
    spec = {
        "actions": k,
        "features": d,
        "rounds": setting.simulation_rounds,
        "runs": setting.simulation_runs,
    }
    regime = "mOFUL, determinant radius × 1, cold"
    raced = race(
        arena,
        [
            Entry("ours", "simulate", SIMULATE, regime, spec, patience=0.3),
            Entry("plain", LOOP, LOOP, regime, spec, most=1),
        ],
        part="simulation",
        size=f"{setting.simulation_runs} runs × {setting.simulation_rounds} rounds, {k} × {d}",
        unit="all runs",
        rounds=setting.repeats,
    )
    return raced + compared(raced, SIMULATE, LOOP, target=LOOP_TARGET)


@contextmanager
def table_of(rows: int, actions: int, features: int, seed: int) -> Iterator[dict[str, str]]:
    """What contenders are told of a Parquet log on disk, for as long as it is there."""
    with tempfile.TemporaryDirectory(prefix="sparing-bench-") as folder:
        path = Path(folder) / "log.parquet"
        write_table(path, rows=rows, actions=actions, features=features, seed=seed)
        yield {"path": str(path)}


def statistics(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """Per-action sums of one Parquet file, in the page cache after the first reading, against reading it."""
    n, k, d = setting.statistics_rows, setting.statistics_actions, setting.statistics_features
    with table_of(n, k, d, setting.seed) as spec:
        raced = race(
            arena,
            [
                Entry("ours", "statistics", SUMMING, "plain columns, uncompressed", spec, most=1),
                Entry("plain", READING, READING, "batches of 131,072 rows, one thread", spec, most=1),
            ],
            part="statistics",
            size=f"{n:,} rows, d = {d}, K = {k}",
            unit="file",
            rounds=setting.repeats,
        )
    return raced + compared(raced, SUMMING, READING, of=COST, target=READING_TARGET)


def intervals(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """Intervals of IPS, SNIPS and DR together, against OBP's bootstrap."""
    k, d = EVALUATED
    spec = {"rows": setting.interval_rows, "actions": k, "features": d, "seed": setting.seed}
    regime = f"evaluate() from rows to limits, reward model fitted; B = {RESAMPLES} where resampled"
    ours = [
        Entry("ours", "intervals", f"ours, {kind}", regime, {**spec, "interval": kind}, most=1)
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
        size=f"{setting.interval_rows:,} rows, K = {k}, IPS + SNIPS + DR",
        unit="evaluation",
        rounds=setting.repeats,
    )
    one, more = (shown(f"{OBP}, B = {b}", raced.measurements) for b in (1, many))
    if one is None or more is None:
        return raced
    other = extrapolated(one, more, many)
    ratios = tuple(
        ratio(mine, other, target=OBP_TARGETS.get(mine.contender.removeprefix("ours, ")))
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


def pi_plus(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """π⁺ by its closed form: a small log beside HiGHS, a large one beside a sort of its rows."""
    small, large = setting.pi_plus_rows
    near_highs = _pi_plus(setting, arena, small, HIGHS, COLLAPSED, rounds=3 * setting.repeats)
    near_sort = _pi_plus(setting, arena, large, SORT, rounds=setting.repeats)
    return (
        near_highs
        + compared(near_highs, WHOLE, HIGHS)
        + compared(near_highs, GROUPED, HIGHS, target=FASTER_THAN_HIGHS)  # HiGHS gets the groups too
        + compared(near_highs, WHOLE, COLLAPSED)
        + compared(near_highs, GROUPED, COLLAPSED)
        + near_sort
        + compared(near_sort, WHOLE, SORT, of=COST, target=COST_OF_SORTING)
        + compared(near_sort, GROUPED, SORT, of=COST)
    )


def _pi_plus(setting: BenchmarkSetting, arena: Field, rows: int, *others: str, rounds: int) -> Outcome:
    spec = {"rows": rows, "actions": ACTIONS, "repeats": REPEATS, "clip": CLIP, "seed": setting.seed}
    # One policy a round: a log remembers its groups, and each round must begin anew.
    entries = [
        *(
            Entry("ours", "pi_plus", name, REGIMES[name], {**spec, "grouped": name == GROUPED}, most=1)
            for name in (WHOLE, GROUPED)
        ),
        *(Entry("plain", other, other, REGIMES[other], spec, most=1) for other in others),
    ]
    return race(arena, entries, part="pi-plus", size=f"{rows:,} rows", unit="policy", rounds=rounds)
