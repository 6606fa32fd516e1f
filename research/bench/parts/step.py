"""The online step: decide and update, called from Python."""

from collections.abc import Sequence
from typing import Any

from research.bench.field import Field
from research.bench.measuring import COST, Measurement, Outcome, Ratio, ratio, shown
from research.bench.older import OLDER
from research.bench.racing import MOST, Entry, race
from research.bench.setting import BenchmarkSetting

COLD, WARM, WORST = "ours, cold", "ours, warm", "ours, worst regime"
COMPILED = "ours, worst regime, compiled part"
CERTIFIED, CONFIDENT, UNCHECKED = "ours, certified", "ours, confident", "ours, confident without spot checks"
ECONOMICAL = "ours, economical"
SURE, THRIFTY = "ours, confident, skipping", "ours, economical, skipping"
SURE_RUN, THRIFTY_RUN = "ours, confident, a run", "ours, economical, a run"
OBP, SQUARE_CB = "OBP LinUCB", "VW SquareCB"
NUMPY, NUMBA = "NumPy, one product", "Numba, all arms"
SCAN, PACKED = "limit: read every θ once", "limit: read every V⁻¹ once"

PEERS = (
    ("obp", "LinUCB", OBP),
    ("mabwiser", "LinUCB", "MABWiser LinUCB"),
    ("contextualbandits", "LinUCB", "contextualbandits LinUCB"),
    ("river", "LinUCBDisjoint", "river LinUCBDisjoint"),
    ("coba", "LinUCB", "coba LinUCB"),
    ("vowpalwabbit", "SquareCB", SQUARE_CB),
    ("vowpalwabbit", "RegCB", "VW RegCB"),
    ("vowpalwabbit", "bag of 5", "VW bag of 5"),
)
"""Whose child, the contender's name there, and its title."""

COBA_ACTIONS = 100
"""coba keeps one matrix of (K·d)² numbers, which more actions would make too large."""

TARGETS = {
    OBP: {"20 × 10": 40.0, "26 × 17": 40.0, "1000 × 32": 500.0, "10000 × 64": 1000.0},
    SQUARE_CB: {"20 × 10": 60.0, "26 × 17": 60.0, "1000 × 32": 700.0, "10000 × 64": 1000.0},
}
"""Times faster than a peer, cold and warm."""

CHECK_TARGET = 1.5
"""Times the cost of a called round that spot checks may bring it to."""

SKIP_TARGET, LIVED, WEIGHED = 2.0, 3000, 1000
"""Times the cost of a skipped round that weighing may bring it to; rounds played before; and the most actions tried with."""

RUN_PATIENCE = 20.0
"""Times the patience of a round that a run has."""

COLD_TARGETS = {NUMPY: {"10000 × 64": 1000.0}}
WORST_TARGETS = {NUMBA: {"20 × 10": 1.0, "26 × 17": 1.0, "1000 × 32": 2.0, "10000 × 64": 1.0}}


def measure(setting: BenchmarkSetting, arena: Field) -> Outcome:
    """All contenders at all sizes."""
    outcome = Outcome()
    for k, d, rounds in setting.steps:
        size = f"{k} × {d}"
        raced = race(arena, entries(setting, arena, k, d), part="step", size=size, unit="step", rounds=rounds)
        outcome += raced + Outcome(ratios=tuple(ratios(raced.measurements, size)))
    return outcome


def ours(
    title: str, regime: str, label: str, spec: dict[str, Any], patience: float, *, most: int = MOST
) -> Entry:
    """A learner of ours that begins in this regime; `told` says so to readers."""
    return Entry("ours", "step", title, label, {**spec, "regime": regime}, patience, most)


def entries(setting: BenchmarkSetting, arena: Field, k: int, d: int) -> list[Entry]:
    """Who runs at K × d."""
    spec: dict[str, Any] = {"actions": k, "features": d, "seed": setting.seed}
    patience = setting.patience
    return [
        *_ours(setting, spec),
        *(
            Entry("plain", name, name, "LinUCB, α = 1; time does not depend on the state", spec, patience)
            for name in (NUMPY, NUMBA)
        ),
        *(
            Entry(child, name, title, _peer_regime(child), spec, patience)
            for child, name, title in PEERS
            if child in arena.peers and (child != "coba" or k <= COBA_ACTIONS)
        ),
        *(
            Entry("plain", "read", title, label, {"bytes": size}, patience, most=10**9)
            for title, label, size in (
                (SCAN, "K·d float32", 4 * k * d),
                (PACKED, "K·d·(d+1)/2 float32", 2 * k * d * (d + 1)),
            )
        ),
    ]


def _ours(setting: BenchmarkSetting, spec: dict[str, Any]) -> list[Entry]:
    """Ours in every regime; those that skip are measured in rounds that they ask about."""
    patience, rows, few = setting.patience, setting.warm_rows_an_action, setting.worst_rows_an_action
    fresh, warm = {**spec, "fresh": True}, {**spec, "rows_an_action": rows}
    worst = {**spec, "rows_an_action": few}
    log = f"a log with {rows} rows of every action"
    asked = f"called unless the probability of being beaten is below 10⁻⁹; {log}, σ = 2"
    full = f"full radius (determinant × 1), {few} rows of every action"
    called = f"determinant × .2, every round called; {log}, σ = 2"
    bare = "the same, called as the plain Numba kernels are: no Decision, no checks"
    return [
        ours(COLD, "cold", "LinUCB, α = 1; no log, a new learner each round", fresh, patience, most=2000),
        ours(WARM, "warm", f"LinUCB, α = 1; {log}", warm, patience),
        ours(WORST, "worst", full, worst, patience),
        Entry("ours", "compiled step", COMPILED, bare, worst, patience),
        ours(CERTIFIED, "certified", called, warm, patience, most=4000),
        ours(CONFIDENT, "confident", f"1 % spot checks, {asked}", warm, patience, most=4000),
        ours(UNCHECKED, "unchecked", asked, warm, patience, most=4000),
        *(_weighing(warm, patience, log) if spec["actions"] <= WEIGHED else ()),
    ]


def _weighing(spec: dict[str, Any], patience: float, log: str) -> list[Entry]:
    """`economical` in rounds that it asks about and, beside `confident`, in rounds that it does not and in a run's first rounds."""
    run = {**spec, "fresh": True}
    lived = f"{log}, σ = 2; {LIVED:,} rounds played before, no spot checks"
    asked = f"price 10⁻⁶, 10⁶ rounds to come: nearly every round called; {log}, σ = 2"
    begun = f"{log}, σ = 2; its first {LIVED:,} rounds, called or skipped, no spot checks"
    skipping = {**spec, "lived": LIVED}
    priced = "price .2, 10,000 rounds in all"
    return [
        ours(ECONOMICAL, "economical", asked, spec, patience, most=1000),
        *(
            Entry("ours", "skip", title, f"{label}; {lived}", {**skipping, "regime": regime}, patience, 4000)
            for title, regime, label in (
                (SURE, "confident, skipping", "tolerance 6"),
                (THRIFTY, "economical, skipping", priced),
            )
        ),
        *(
            ours(title, regime, f"{label}; {begun}", run, RUN_PATIENCE * patience, most=LIVED)
            for title, regime, label in (
                (SURE_RUN, "confident, a run", "tolerance 1"),
                (THRIFTY_RUN, "economical, skipping", priced),
            )
        ),
    ]


def _peer_regime(child: str) -> str:
    if child == "vowpalwabbit":
        return "another algorithm, SGD; begun cold"
    return "LinUCB, α = 1; begun cold"


def ratios(measured: Sequence[Measurement], size: str) -> list[Ratio]:
    """Everyone beside ours, in the regimes that compare."""
    regimes = {COLD: {**TARGETS, **COLD_TARGETS}, WARM: TARGETS, WORST: {}, COMPILED: WORST_TARGETS}
    apart = (CERTIFIED, CONFIDENT, UNCHECKED, ECONOMICAL, SURE, THRIFTY, SURE_RUN, THRIFTY_RUN)
    rivals = [m for m in measured if not m.contender.startswith(OLDER)]
    others = [m for m in rivals if m.contender not in (*regimes, *apart)]
    found = []
    for dear, plain, most in (
        (CONFIDENT, UNCHECKED, CHECK_TARGET),
        (THRIFTY, SURE, SKIP_TARGET),
        (THRIFTY_RUN, SURE_RUN, None),
    ):
        one, other = shown(dear, measured), shown(plain, measured)
        if one is not None and other is not None:
            found.append(ratio(one, other, of=COST, target=most))
    for mine, targets in regimes.items():
        ours = shown(mine, measured)
        if ours is None:
            continue
        for rival in others:
            if _compared(mine, rival.contender):
                goal = targets.get(rival.contender, {}).get(size)
                found.append(ratio(ours, rival, target=goal))
    return found


def _compared(mine: str, other: str) -> bool:
    """The worst regime is set beside what scores all arms too; one limit goes with each."""
    if mine in (WORST, COMPILED):
        return other in (NUMPY, NUMBA, PACKED)
    return other != PACKED
