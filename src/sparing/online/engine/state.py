"""The arrays of all confidence sets, each declared once, and the scratch buffers of each thread that reads them."""

import threading
from typing import NamedTuple

import numpy as np

from sparing.model.confidence import RADII
from sparing.native.struct import Fields, Struct, StructArrays

DOUBLE, SINGLE, WHOLE, FLAG = np.float64, np.float32, np.int64, np.bool_
NEVER = 2**62  # a round that does not come
OBSERVED_VIEW, PENDING_VIEW = 0, 1  # without and with pending calls, which are imputed by their predictions

SETS: Fields = {
    # One row per slot: C slots, of which `used` are in use. All actions without rows share slot 0, the common prior.
    # An action with pending calls has two slots: its own in the observed view, and a copy with the imputed calls.
    "theta": (DOUBLE, "Cd"),  # θ̂
    "response": (DOUBLE, "Cd"),  # b
    "inverse": (DOUBLE, "CP"),  # V⁻¹, packed: P = d·(d+1)/2, padded with zeros to a multiple of eight
    "gram": (DOUBLE, "CP"),  # V
    "log_det": (DOUBLE, "C"),  # log(det V/λ^d)
    "rounding_growth": (DOUBLE, "C"),  # factor by which the diagonal of V⁻¹ fell since it was recomputed
    "radius": (DOUBLE, "C"),  # ρ, if each action has its own
    "metric_factor": (DOUBLE, "C"),  # sqrt(c) with V⁻¹ ⪯ c·M
    "bounds32": (SINGLE, "BE"),  # θ̂, ‖θ̂‖, ρ·sqrt(c) and the added half-width, rounded up; E = d + 3
    "inverse32": (SINGLE, "QP"),  # V⁻¹
    "inverse_norm": (DOUBLE, "C"),  # ‖V⁻¹‖ (Frobenius), rounded up
    "squares": (DOUBLE, "C"),  # Σr² of all its rows
    "log_delta": (DOUBLE, "C"),  # 2·log(1/δ_a), δ_a the action's share of δ
    "logged": (WHOLE, "C"),  # rows from the log
    "live": (WHOLE, "C"),  # rows since the start
    "fresh": (WHOLE, "C"),  # rows since `metric_factor` was computed
    "frozen": (WHOLE, "C"),  # 1 for points
    "action": (WHOLE, "C"),  # the slot's action
    "view_mask": (WHOLE, "C"),  # views that exclude the slot: 1 observed, 2 pending, 3 both (free)
    "waiting": (WHOLE, "C"),  # pending calls in a copy
    "changed": (WHOLE, "C"),  # number of the last change of the slot
    # Forgetting: G is C with a half-life, else 0.
    "base_gram": (DOUBLE, "GP"),  # Λ, which V tends to
    "base_response": (DOUBLE, "Gd"),  # Λ·m, which b tends to
    "fades": (WHOLE, "G"),  # how often the slot faded since `fades_from`
    "kept": (DOUBLE, "G"),  # weight of the log's rows
    "faded_rows": (DOUBLE, "G"),  # its rows less their weights
    # Shift: F is C if live rounds may differ from the log, else 0.
    "start_gram": (DOUBLE, "FP"),  # V of the log
    "start_mean": (DOUBLE, "Fd"),  # θ̂ of the log
    "live_gram": (DOUBLE, "FP"),  # Σxxᵀ of live rows
    "live_response": (DOUBLE, "Fd"),  # Σx·(r − x·start_mean) of live rows
    "live_squares": (DOUBLE, "F"),  # Σ(r − x·start_mean)² of live rows
    "live_rows": (DOUBLE, "F"),  # their weights
    "spread": (DOUBLE, "D"),  # deviation of each coordinate between actions; D is d if F is C, else 0
    # One entry per action, K.
    "observed_slot": (WHOLE, "K"),  # slot in the observed view; 0 is the shared prior
    "pending_slot": (WHOLE, "K"),  # slot in the pending view
    "priority": (WHOLE, "K"),  # the smaller number wins ties; the cheaper action has the smaller one
    "order": (WHOLE, "K"),  # actions by priority
    "coefficient": (DOUBLE, "K"),  # exploration coefficient if 1, 2, … actions are eligible
    "active": (FLAG, "R"),  # False for retired actions; R is K if any action is retired, else 0
    "cost": (
        DOUBLE,
        "N",
    ),  # known cost of playing the action, in this round; N is K if costs are known, else 0
    # Shared.
    "metric": (DOUBLE, "P"),  # M, shared by all actions
    "metric_inverse": (DOUBLE, "P"),  # M⁻¹
    "context_sample": (DOUBLE, "md"),  # contexts that stand for future ones (value of information)
    "next_sample": (DOUBLE, "md"),  # the same, with the live contexts that entered since it was renewed
    "logged_sample": (DOUBLE, "md"),  # the logged contexts in their places
    "logged_gram": (DOUBLE, "P"),  # Σ xxᵀ of the log, if live contexts may stand for future ones
    "sample_ids": (
        WHOLE,
        "m",
    ),  # identity of a live context of `next_sample`, 0 if it needs none; −1 for a logged one
    "touched": (WHOLE, "2"),  # actions with a slot of their own, in each view
    "next": (WHOLE, "2"),  # first position of `order` whose action shares slot 0, in each view
    "used": (WHOLE, ""),  # slots in use
    "free": (WHOLE, ""),  # free slots among them
    "pending_copies": (WHOLE, ""),  # pending copies among them
    "total": (WHOLE, ""),  # rows in all learnt sets
    "last": (WHOLE, ""),  # `total` when the metric was last computed
    "digest": (WHOLE, ""),  # hash of the rewards learnt so far
    "changes": (WHOLE, ""),  # number of changes so far
    "resampled": (WHOLE, ""),  # number of the last change of `context_sample`
    "sampled_from": (WHOLE, ""),  # round from which live contexts enter the sample, or NEVER
    "next_entry": (WHOLE, ""),  # round whose context enters next
    "entered": (WHOLE, ""),  # contexts that entered since `context_sample` was renewed
    "clock": (WHOLE, ""),  # what rows fade by: rounds, or microseconds
    "half_life": (WHOLE, ""),  # clock in which a row loses half of its weight; 0 if none does
    "timed": (FLAG, ""),  # whether the clock counts microseconds instead of rounds
    "fades_from": (WHOLE, ""),  # clock at which forgetting began; NEVER until the first round that it counts
    "next_fade": (WHOLE, ""),  # clock of the next fade of any slot
    "monitor_fades": (WHOLE, ""),  # how often the noise monitor faded since `fades_from`
    "faded_calls": (DOUBLE, ""),  # monitored calls less their weights
    "shift": (DOUBLE, ""),  # τ, deviation of the shift between log and live in units of `spread`
    "shift_evidence": (DOUBLE, ""),  # log Bayes factor of a shift against none at the last review
    "next_review": (WHOLE, ""),  # round of the next review of the shift, or NEVER
    "next_tick": (WHOLE, ""),  # round before which neither a fade nor a review is due
    "review_rows": (WHOLE, ""),  # live rewards below which no review finds a shift
    "check_to": (WHOLE, ""),  # the rewards of rounds before this one are requested in any case
    "checked_at": (WHOLE, ""),  # round from which that was so last
    "kind": (WHOLE, ""),  # of radius, see KINDS
    "ridge": (DOUBLE, ""),  # λ
    "common": (DOUBLE, ""),  # ρ if all actions share it, else NaN
    "sigma": (DOUBLE, ""),  # σ at the start if the noise of live rewards is monitored, else 0
    "calls": (WHOLE, ""),  # monitored calls
    "residual_sum": (DOUBLE, ""),  # Σ (r − m)²/(σ² + s²) over them
    "point_allowance": (DOUBLE, ""),  # half-width of points
    "misfit": (DOUBLE, ""),  # misspecification allowance of sets
    "scale": (DOUBLE, ""),  # radius_scale
    "noise": (DOUBLE, ""),  # σ
    "bias": (DOUBLE, ""),  # √λ·S_θ
    "growth": (DOUBLE, ""),  # S_x²/(λd)
    "total_growth": (DOUBLE, ""),  # S_x²/λ
    # The rules, see choice.RulePlan.
    "first": (WHOLE, ""),
    "second": (WHOLE, ""),
    "explore": (WHOLE, ""),
    "optimism": (DOUBLE, ""),
    "tolerance": (DOUBLE, ""),
    "limit": (DOUBLE, ""),
    "covariance_factor": (DOUBLE, ""),
    "spot_check": (DOUBLE, ""),
    "price": (DOUBLE, ""),  # c, the cost of a call
    "stops_early": (FLAG, ""),  # whether calls on a new action count as a sequential test
    "discount_per_round": (DOUBLE, ""),  # decrease of `rounds_to_come` in each round
    "rounds_to_come": (DOUBLE, ""),  # the remaining horizon after this round
    "rounds_kept": (DOUBLE, ""),  # for how many rounds the weight of a row lasts; infinite without forgetting
    "rounds_left": (DOUBLE, ""),  # H, the smaller of both: what a reward is worth something in
    "calls_left": (WHOLE, ""),  # remaining call budget
}

SCRATCH: Fields = {
    "square": (DOUBLE, "dd"),
    "vectors": (DOUBLE, "3d"),
    "trial": (DOUBLE, "2P"),  # a V that may be rejected, and its inverse
    "products": (DOUBLE, "P"),  # products of x with itself
    "rough_x": (SINGLE, "d"),
    "rough_products": (SINGLE, "P"),
    "middle": (DOUBLE, "C"),  # x·θ̂ in single precision
    "width": (DOUBLE, "C"),  # half-widths at x
    "upper": (DOUBLE, "C"),  # upper bounds on the UCB at x
    "threshold": (DOUBLE, ""),  # logged reward in this context (NaN if the context is not in the log)
    "answer": (WHOLE, ""),  # action to play if the log is not beaten
    "shared_width": (DOUBLE, ""),  # ‖x‖_M of the last scan, times the common ρ if there is one
    "highest": (WHOLE, ""),  # slot with the highest `upper` of the last scan
    "which": (WHOLE, ""),  # OBSERVED_VIEW or PENDING_VIEW
}

LOOKAHEAD: Fields = {
    # The lookahead cache of one view: values at the contexts x_j of `context_sample`; W slots, or 0 without a sample.
    "future_means": (DOUBLE, "mW"),  # x_j·θ̂ − cost
    "future_widths": (DOUBLE, "mW"),  # sqrt(x_jᵀV⁻¹x_j), rounded up
    # Three upper bounds on the value of a call per future round: in any context; at x, `bound_base` +
    # mean_j bound_slope_j·(x_jᵀΣx)²/σ²; and at x, `bound_floor` + xᵀQx with Q packed.
    "voi_bound": (DOUBLE, "W"),
    "bound_base": (DOUBLE, "W"),
    "bound_slope": (DOUBLE, "Wm"),
    "bound_quadratic": (DOUBLE, "WP"),
    "bound_floor": (DOUBLE, "W"),
    "drift": (DOUBLE, "W"),  # increase of these bounds by the last change of other actions
    "drift_total": (DOUBLE, "W"),  # increase since they were computed
    "widths_at": (WHOLE, "W"),  # change at which `future_widths` was computed
    "voi_bound_at": (WHOLE, "W"),  # the same for `voi_bound`, `bound_base` and `bound_slope`
    "quadratic_at": (WHOLE, "W"),  # the same for Q
    "looks": (WHOLE, "W"),  # exact evaluations of the action since then
    "ranked": (WHOLE, "W"),  # whether the slot takes part in `best` and `rival`
    "best": (DOUBLE, "m"),  # largest mean at x_j
    "rival": (DOUBLE, "m"),  # second largest mean
    "who": (WHOLE, "m"),  # slot of the largest
    "runner": (WHOLE, "m"),  # slot of the second largest
    "gap": (DOUBLE, "m"),  # distance of an action's mean at x_j from changing the best action
    "move": (DOUBLE, "m"),  # |x_jᵀΣx|, how far a call can move that mean, up to a factor
    "former": (WHOLE, "m"),  # `who` before the last change
    "known": (WHOLE, ""),  # number of changes that the cache includes
    "shared_ranked": (WHOLE, ""),  # shared-prior actions that are ranked: 0, 1, or 2 for more
    "unit": (DOUBLE, ""),  # σ of the bounds
    "worth": (DOUBLE, ""),  # of the last chosen call, 0 for none
}

KINDS = ("constant", *RADII)
CONSTANT, DETERMINANT, TRACE, PAPER = range(len(KINDS))


VIEW: Fields = {
    "slot": (WHOLE, "K"),  # slot of each action in this view
    "future_cost": (DOUBLE, "N"),  # known cost of playing the action in rounds to come
}


class SetsStruct(Struct, fields={**SETS, **SCRATCH, **LOOKAHEAD, **VIEW}):
    """Sets and scratch buffers in one of the two views, `t` in the functions of this package."""


class NoiseMonitor(NamedTuple):
    """Check of the noise of live rewards against the σ that the learner assumed at the start, `noise`.

    `total` sums the standardised squared residuals (r − m)²/(σ² + s²) of `calls` live rewards; `misfit` is part of s, and
    `prior_noise` is σ as it is now. `faded` is what forgetting took of the weights of the calls.
    """

    noise: float
    misfit: float
    calls: int
    total: float
    prior_noise: float
    faded: float = 0.0

    @property
    def mean_squared_residual(self) -> float:
        """Mean standardised squared residual; about 1 if the model is right."""
        calls = self.calls - self.faded
        return self.total / calls if calls > 0 else 1.0

    @property
    def inflation(self) -> float:
        """Factor by which live rewards raised σ."""
        return self.prior_noise / self.noise


class ThreadScratch(threading.local):
    """The two views of some sets, `observed` and `pending`, with scratch buffers that only one thread uses."""

    def __init__(self, sets: StructArrays) -> None:
        lengths = {**sets.sizes, "W": sets.sizes["C"] if sets.sizes["m"] else 0}
        self.work = StructArrays(SCRATCH, lengths)
        places = {**sets.places(), **self.work.places(), "slot": sets.observed_slot, "future_cost": sets.cost}
        self._observed = {**places, **empty_lookahead(lengths)}
        own = {"slot": sets.pending_slot, "which": np.full(1, PENDING_VIEW), "highest": np.zeros(1, WHOLE)}
        self._pending = {**places, **own, **empty_lookahead(lengths)}
        self.observed, self.pending = SetsStruct(self._observed), SetsStruct(self._pending)
        self._repriced: tuple[dict[str, np.ndarray], SetsStruct, SetsStruct] | None = None

    def repriced(
        self, cost: np.ndarray, priority: np.ndarray, order: np.ndarray
    ) -> tuple[SetsStruct, SetsStruct]:
        """The two views with other costs in this round, (K,), and the ties that follow from them; valid until the next call.

        Rounds to come have the costs of the sets, so the lookahead caches are the same.
        """
        if self._repriced is None:
            own = {"cost": np.zeros(len(cost)), "priority": priority.copy(), "order": order.copy()}
            own["next"] = np.zeros(2, dtype=WHOLE)  # searched from the beginning
            self._repriced = own, SetsStruct({**self._observed, **own}), SetsStruct({**self._pending, **own})
        own, observed, pending = self._repriced
        own["cost"][:], own["priority"][:], own["order"][:] = cost, priority, order
        return observed, pending


def empty_lookahead(lengths: dict[str, int]) -> dict[str, np.ndarray]:
    """A lookahead cache without content."""
    cache = StructArrays(LOOKAHEAD, lengths)
    cache.known = -1
    for name in ("widths_at", "quadratic_at"):
        cache.arrays[name][:] = -1
    return cache.places()


def packed_size(d: int) -> int:
    """Length of a packed matrix, padded to a multiple of eight."""
    return -(-d * (d + 1) // 2 // 8) * 8


def allocate(
    n_actions: int, slots: int, d: int, *, bounded: bool, inverse32: bool, contexts: int
) -> StructArrays:
    """Zeroed sets; the single-precision arrays have length 0 unless `bounded` and `inverse32`."""
    sizes = {"K": n_actions, "C": slots, "d": d, "E": d + 3, "P": packed_size(d), "m": contexts}
    sizes |= {"B": slots if bounded else 0, "Q": slots if inverse32 else 0, "R": 0, "N": 0}
    found = StructArrays(SETS, {**sizes, "G": 0, "F": 0, "D": 0})
    found.next_fade = found.next_review = found.next_tick = NEVER
    return found


def grown(
    sets: StructArrays,
    *,
    slots: int = 0,
    actions: int = 0,
    retired: bool = False,
    costs: bool = False,
    forgetting: bool = False,
    shift: bool = False,
) -> StructArrays:
    """A copy with room for more slots and actions, or with a mask of active actions, known costs, or what may change."""
    sizes = {
        letter: size + slots if letter in "CBQ" and size else size for letter, size in sets.sizes.items()
    }
    sizes["K"] += actions
    sizes["R"] = sizes["K"] if retired or sizes["R"] else 0
    sizes["N"] = sizes["K"] if costs or sizes["N"] else 0
    sizes["G"] = sizes["C"] if forgetting or sizes["G"] else 0
    sizes["F"] = sizes["C"] if shift or sizes["F"] else 0
    sizes["D"] = sizes["d"] if sizes["F"] else 0
    larger = StructArrays(SETS, sizes)
    larger.active[:] = True
    larger.take(sets)
    return larger
