"""The arrays of all confidence sets, each declared once, and a desk with room to work for whoever reads them."""

import threading
from typing import NamedTuple

import numpy as np

from sparing.model.confidence import RADII
from sparing.native.struct import Fields, StructArrays
from sparing.native.struct import Struct as NativeTable

DOUBLE, SINGLE, WHOLE, FLAG = np.float64, np.float32, np.int64, np.bool_
SETTLED, AHEAD = 0, 1
"""The two views: with the rewards that came, and with the calls that are open as well."""

SETS: Fields = {
    # Of each slot. C slots, of which `used` are in use; slot 0 is what every untouched action shares. An action
    # with open calls has two: one without them, in the settled view, and a twin with them, in the view ahead.
    "theta": (DOUBLE, "Cd"),  # θ̂
    "response": (DOUBLE, "Cd"),  # b
    "inverse": (DOUBLE, "CP"),  # V⁻¹, packed: P = d·(d+1)/2, filled up with zeros to a multiple of eight
    "gram": (DOUBLE, "CP"),  # V
    "log_det": (DOUBLE, "C"),  # log(det V/λ^d)
    "shrunk": (DOUBLE, "C"),  # how far the diagonal of V⁻¹ fell since it was computed afresh
    "radius": (DOUBLE, "C"),  # ρ, where each action has its own
    "root": (DOUBLE, "C"),  # sqrt(c) with V⁻¹ ⪯ c·M
    "near": (SINGLE, "BE"),  # θ̂, then ‖θ̂‖, ρ·sqrt(c) and what a set is widened by, rounded up; E = d + 3
    "quick": (SINGLE, "QP"),  # V⁻¹
    "size": (DOUBLE, "C"),  # ‖V⁻¹‖ (Frobenius), rounded up
    "squares": (DOUBLE, "C"),  # Σr² of all its rows
    "log_delta": (DOUBLE, "C"),  # 2·log(1/δ_a), δ_a being its action's share of δ
    "logged": (WHOLE, "C"),  # rows from the log
    "live": (WHOLE, "C"),  # rows since
    "fresh": (WHOLE, "C"),  # rows since `root` was found
    "frozen": (WHOLE, "C"),  # 1 for points
    "action": (WHOLE, "C"),  # which action a slot is
    "hidden": (WHOLE, "C"),  # from which views a slot is hidden: 1 settled, 2 ahead, 3 both (free)
    "waiting": (WHOLE, "C"),  # open calls in a twin
    "changed": (WHOLE, "C"),  # the number of the change that touched a slot last
    # Of each of K actions.
    "settled": (WHOLE, "K"),  # which slot an action has in the settled view, 0 for untouched
    "ahead": (WHOLE, "K"),  # and which in the view with open calls
    "priority": (WHOLE, "K"),  # the smaller number wins ties
    "order": (WHOLE, "K"),  # actions by priority
    "boldness": (DOUBLE, "K"),  # `optimism` where 1, 2, … actions are eligible
    "everyone": (
        FLAG,
        "R",
    ),  # who may be played: R is K where somebody is retired, else 0: nobody is left out
    # Of all.
    "metric": (DOUBLE, "P"),  # M, shared by all actions
    "span": (DOUBLE, "P"),  # M⁻¹
    "reservoir": (DOUBLE, "md"),  # contexts that stand for those to come, where calls are weighed by them
    "touched": (WHOLE, "2"),  # touched actions in each view
    "next": (WHOLE, "2"),  # the first place of `order` that is untouched in each view
    "used": (WHOLE, ""),  # slots in use
    "free": (WHOLE, ""),  # free ones among them
    "twins": (WHOLE, ""),  # twins among them
    "total": (WHOLE, ""),  # rows in all learnt sets
    "last": (WHOLE, ""),  # rows when the metric was last found
    "digest": (WHOLE, ""),  # of what was learnt
    "changes": (WHOLE, ""),  # so far
    "kind": (WHOLE, ""),  # of radius, see KINDS
    "ridge": (DOUBLE, ""),  # λ
    "common": (DOUBLE, ""),  # ρ where all actions share it, else NaN
    "sigma": (
        DOUBLE,
        "",
    ),  # σ as it was believed at the start, where calls are watched for more noise; else 0
    "calls": (WHOLE, ""),  # watched
    "surprises": (DOUBLE, ""),  # Σ (r − m)²/(σ² + s²) over them
    "slack": (DOUBLE, ""),  # what widens points
    "misfit": (DOUBLE, ""),  # and sets
    "scale": (DOUBLE, ""),  # radius_scale
    "noise": (DOUBLE, ""),  # σ
    "bias": (DOUBLE, ""),  # √λ·S_θ
    "growth": (DOUBLE, ""),  # S_x²/(λd)
    "total_growth": (DOUBLE, ""),  # S_x²/λ
    # The rules: see choosing.Plan.
    "first": (WHOLE, ""),
    "second": (WHOLE, ""),
    "explore": (WHOLE, ""),
    "optimism": (DOUBLE, ""),
    "tolerance": (DOUBLE, ""),
    "limit": (DOUBLE, ""),
    "caution": (DOUBLE, ""),
    "spot_check": (DOUBLE, ""),
    "price": (DOUBLE, ""),  # c, of a call
    "passing": (DOUBLE, ""),  # by how much a round shortens what is left
    "left": (DOUBLE, ""),  # H, the rounds to come after this one
    "purse": (WHOLE, ""),  # calls that may still be made
}

SCRATCH: Fields = {
    "square": (DOUBLE, "dd"),
    "vectors": (DOUBLE, "3d"),
    "trial": (DOUBLE, "2P"),  # a V that may be refused, and its inverse
    "products": (DOUBLE, "P"),  # the products of x with itself
    "rough_x": (SINGLE, "d"),
    "rough_products": (SINGLE, "P"),
    "middle": (DOUBLE, "C"),  # x·θ̂ to single precision
    "width": (DOUBLE, "C"),  # half-widths at x
    "upper": (DOUBLE, "C"),  # no set's top at x lies above
    "threshold": (DOUBLE, ""),  # what the log earned in this context (NaN where it was not)
    "answer": (WHOLE, ""),  # and what it answers
    "highest": (WHOLE, ""),  # the slot that `look` found to reach highest
    "which": (WHOLE, ""),  # view: SETTLED or AHEAD
}

LOOKAHEAD: Fields = {
    # What is kept of the contexts x_j of the reservoir in one view, where calls are weighed by them; W slots, else 0.
    "foreseen": (DOUBLE, "mW"),  # x_j·θ̂
    "reach": (DOUBLE, "mW"),  # sqrt(x_jᵀV⁻¹x_j), rounded up
    "hope": (DOUBLE, "W"),  # no call is worth more a round to come, in any context
    "base": (DOUBLE, "W"),  # nor more than this and mean_j slope_j·(x_jᵀΣx)²/σ² in x
    "slope": (DOUBLE, "Wm"),
    "form": (DOUBLE, "WP"),  # nor more than `floor` + xᵀQx, Q packed
    "floor": (DOUBLE, "W"),
    "due": (DOUBLE, "W"),  # what another action's reward adds to them
    "owed": (DOUBLE, "W"),  # and what such rewards have added since they were found
    "reached": (WHOLE, "W"),  # the change after which `reach` was found
    "hoped": (WHOLE, "W"),  # and `hope`, `base` and `slope`
    "formed": (WHOLE, "W"),  # and Q
    "looks": (WHOLE, "W"),  # how often an action was looked at closely since then
    "ranked": (WHOLE, "W"),  # whether a slot is among those that `best` and `rival` are of
    "best": (DOUBLE, "m"),  # the largest mean at x_j
    "rival": (DOUBLE, "m"),  # and the largest of all others
    "who": (WHOLE, "m"),  # whose slot has the largest
    "runner": (WHOLE, "m"),  # and whose the next
    "gap": (DOUBLE, "m"),  # how far an action's mean at x_j lies from mattering
    "move": (DOUBLE, "m"),  # how far a call may move it, but for a factor
    "former": (WHOLE, "m"),  # `who` as it was
    "known": (WHOLE, ""),  # the number of changes that all this knows of
    "blanks": (WHOLE, ""),  # how many untouched actions are ranked: none, one, or two for more
    "unit": (DOUBLE, ""),  # σ that it was found with
    "worth": (DOUBLE, ""),  # of the call that was chosen last, 0 for none
}

KINDS = ("constant", *RADII)
CONSTANT, DETERMINANT, TRACE, PAPER = range(len(KINDS))


class SetsStruct(NativeTable, fields={**SETS, **SCRATCH, **LOOKAHEAD, "slot": (WHOLE, "K")}):
    """Sets and scratch in one of the two views, `t` in the functions of this folder; `slot` is the map of its view."""


class NoiseMonitor(NamedTuple):
    """Whether live rewards are noisier than believed: the sum of (r − m)²/(σ² + s²) over `calls`.

    `noise` is σ as the learner started with, `believed` as it is now; `misfit` is counted in s.
    """

    noise: float
    misfit: float
    calls: int
    total: float
    believed: float

    @property
    def surprise(self) -> float:
        """The mean square of standardised errors; 1 where the model is right."""
        return self.total / self.calls if self.calls else 1.0

    @property
    def inflation(self) -> float:
        """The factor on σ."""
        return self.believed / self.noise


class ThreadScratch(threading.local):
    """Tables over some sets, settled and ahead: every thread finds its own, with scratch that nobody else writes to."""

    def __init__(self, sets: StructArrays) -> None:
        room = sizes(*sets.theta.shape)
        room |= {"m": len(sets.reservoir), "W": room["C"] if len(sets.reservoir) else 0}
        self.scratch = StructArrays(SCRATCH, room)
        places = {**sets.places(), **self.scratch.places(), "slot": sets.settled}
        self.settled = SetsStruct({**places, **lookahead_size(room)})
        own = {"slot": sets.ahead, "which": np.full(1, AHEAD), "highest": np.zeros(1, WHOLE)}
        self.ahead = SetsStruct({**places, **own, **lookahead_size(room)})


def lookahead_size(room: dict[str, int]) -> dict[str, np.ndarray]:
    """Foresight that knows of nothing yet."""
    fresh = StructArrays(LOOKAHEAD, room)
    fresh.known = -1
    for name in ("reached", "formed"):
        fresh.arrays[name][:] = -1
    return fresh.places()


def sizes(slots: int, d: int, **more: int) -> dict[str, int]:
    """What the letters of the shapes stand for."""
    return {"C": slots, "d": d, "E": d + 3, "P": packed_size(d), **more}


def packed_size(d: int) -> int:
    """Numbers in a packed matrix, filled up with zeros to whole groups of eight."""
    return -(-d * (d + 1) // 2 // 8) * 8


def allocate(
    n_actions: int,
    slots: int,
    d: int,
    *,
    bounded: bool,
    quick: bool,
    retired: bool = False,
    contexts: int = 0,
) -> StructArrays:
    """Sets for so many actions and slots, zero; with the arrays that bounds are read from, or without; `contexts` of a
    reservoir."""
    rough = {"B": slots if bounded else 0, "Q": slots if quick else 0, "R": n_actions if retired else 0}
    return StructArrays(SETS, sizes(slots, d, K=n_actions, m=contexts, **rough))


def grown(sets: StructArrays, *, slots: int = 0, actions: int = 0, retired: bool = False) -> StructArrays:
    """The same sets in arrays with so many more slots and actions, or with a mask of those that are not retired."""
    (room, d), k = sets.theta.shape, len(sets.settled) + actions
    flags = {"bounded": len(sets.near) > 0, "quick": len(sets.quick) > 0}
    masked, contexts = retired or len(sets.everyone) > 0, len(sets.reservoir)
    larger = allocate(k, room + slots, d, **flags, retired=masked, contexts=contexts)
    larger.everyone[:] = True
    larger.take(sets)
    return larger
