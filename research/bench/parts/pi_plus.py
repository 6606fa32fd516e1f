"""π⁺ by its closed form, against a linear program and against sorting."""

from collections.abc import Mapping

from research.bench.children import Field
from research.bench.measuring import COST, FASTER, Outcome, ratio, shown
from research.bench.racing import Entry, race
from research.bench.setting import BenchmarkSetting

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


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """A small log beside HiGHS, a large one beside a sort of its rows."""
    small, large = setting.pi_plus_rows
    beside_highs = _race(setting, arena, small, HIGHS, COLLAPSED, rounds=3 * setting.repeats)
    beside_sort = _race(setting, arena, large, SORT, rounds=setting.repeats)
    return (
        beside_highs
        + _ratios(beside_highs, HIGHS, FASTER, {GROUPED: FASTER_THAN_HIGHS})  # HiGHS gets the groups too
        + _ratios(beside_highs, COLLAPSED, FASTER, {})
        + beside_sort
        + _ratios(beside_sort, SORT, COST, {WHOLE: COST_OF_SORTING})
    )


def _race(setting: BenchmarkSetting, arena: Field, rows: int, *others: str, rounds: int) -> Outcome:
    spec = {"rows": rows, "actions": ACTIONS, "repeats": REPEATS, "clip": CLIP, "seed": setting.seed}
    # One policy a round: a log remembers its groups, and each round must begin anew.
    entries = [
        Entry("ours", "pi_plus", WHOLE, REGIMES[WHOLE], {**spec, "grouped": False}, most=1),
        Entry("ours", "pi_plus", GROUPED, REGIMES[GROUPED], {**spec, "grouped": True}, most=1),
        *(Entry("plain", other, other, REGIMES[other], spec, most=1) for other in others),
    ]
    return race(arena, entries, part="pi-plus", size=f"{rows:,} rows", unit="policy", rounds=rounds)


def _ratios(raced: Outcome, against: str, of: str, targets: Mapping[str, float]) -> Outcome:
    other = shown(against, raced.measurements)
    ours = [shown(name, raced.measurements) for name in (WHOLE, GROUPED)]
    if other is None:
        return Outcome()
    return Outcome(
        ratios=tuple(
            ratio(mine, other, of=of, target=targets.get(mine.contender)) for mine in ours if mine is not None
        )
    )
