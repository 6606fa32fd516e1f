"""The online step: decide and update, called from Python."""

from collections.abc import Sequence
from typing import Any

from research.bench.children import Field
from research.bench.measuring import COST, Measurement, Outcome, Ratio, ratio, shown
from research.bench.racing import Entry, race
from research.bench.setting import BenchmarkSetting

COLD, WARM, WORST = "ours, cold", "ours, warm", "ours, worst regime"
COMPILED = "ours, worst regime, compiled part"
CERTIFIED, CONFIDENT, UNCHECKED = "ours, certified", "ours, confident", "ours, confident without spot checks"
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


def entries(setting: BenchmarkSetting, arena: Field, k: int, d: int) -> list[Entry]:
    """Who runs at K × d."""
    spec = {"actions": k, "features": d, "seed": setting.seed}
    patience = setting.patience
    warm, few = setting.warm_rows_an_action, setting.worst_rows_an_action
    ours = [
        Entry(
            "ours",
            "step",
            COLD,
            "LinUCB, α = 1; no log, a new learner each round",
            {**spec, "regime": "cold", "fresh": True},
            patience,
            most=2000,
        ),
        Entry(
            "ours",
            "step",
            WARM,
            f"LinUCB, α = 1; a log with {warm} rows of every action",
            {**spec, "regime": "warm", "rows_an_action": warm},
            patience,
        ),
        Entry(
            "ours",
            "step",
            WORST,
            f"full radius (determinant × 1), {few} rows of every action",
            {**spec, "regime": "worst", "rows_an_action": few},
            patience,
        ),
        Entry(
            "ours",
            "compiled step",
            COMPILED,
            "the same, called as the plain Numba kernels are: no Decision, no checks",
            {**spec, "rows_an_action": few},
            patience,
        ),
    ]
    plain = [
        Entry("plain", name, name, "LinUCB, α = 1; time does not depend on the state", spec, patience)
        for name in (NUMPY, NUMBA)
    ]
    peers = [
        Entry(child, name, title, _peer_regime(child), spec, patience)
        for child, name, title in PEERS
        if child in arena.peers and (child != "coba" or k <= COBA_ACTIONS)
    ]
    limits = [
        Entry("plain", "read", SCAN, "K·d float32", {"bytes": 4 * k * d}, patience, most=10**9),
        Entry(
            "plain",
            "read",
            PACKED,
            "K·d·(d+1)/2 float32",
            {"bytes": 2 * k * d * (d + 1)},
            patience,
            most=10**9,
        ),
    ]
    return [*ours, *_recommended(spec, warm, patience), *plain, *peers, *limits]


def _recommended(spec: dict[str, Any], rows: int, patience: float) -> list[Entry]:
    """The learners that skip, in rounds that they ask about."""
    log = f"a log with {rows} rows of every action, σ = 2"
    asked = f"called wherever a doubt of 10⁻⁹ is left; {log}"
    learners = (
        (CERTIFIED, "certified", f"determinant × .2, every round called; {log}"),
        (CONFIDENT, "confident", f"1 % spot checks, {asked}"),
        (UNCHECKED, "unchecked", asked),
    )
    return [
        Entry(
            "ours",
            "step",
            title,
            regime,
            {**spec, "regime": kind, "rows_an_action": rows},
            patience,
            most=4000,
        )
        for title, kind, regime in learners
    ]


def _peer_regime(child: str) -> str:
    if child == "vowpalwabbit":
        return "another algorithm, SGD; begun cold"
    return "LinUCB, α = 1; begun cold"


def ratios(measured: Sequence[Measurement], size: str) -> list[Ratio]:
    """Everyone beside ours, in the regimes that compare."""
    regimes = {COLD: {**TARGETS, **COLD_TARGETS}, WARM: TARGETS, WORST: {}, COMPILED: WORST_TARGETS}
    others = [m for m in measured if m.contender not in (*regimes, CERTIFIED, CONFIDENT, UNCHECKED)]
    found = []
    checked, unchecked = shown(CONFIDENT, measured), shown(UNCHECKED, measured)
    if checked is not None and unchecked is not None:
        found.append(ratio(checked, unchecked, of=COST, target=CHECK_TARGET))
    for mine, targets in regimes.items():
        ours = shown(mine, measured)
        if ours is None:
            continue
        for other in others:
            compared = _compared(mine, other.contender)
            if compared:
                goal = targets.get(other.contender, {}).get(size)
                found.append(ratio(ours, other, target=goal))
    return found


def _compared(mine: str, other: str) -> bool:
    """The worst regime is set beside what scores all arms too; one limit goes with each."""
    if mine in (WORST, COMPILED):
        return other in (NUMPY, NUMBA, PACKED)
    return other != PACKED
