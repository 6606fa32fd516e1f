"""The confidence sets of all actions in one block of memory, updated in place by compiled code, and the initial sets."""

import itertools
import math
import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.interval import LEVEL, NORMAL
from sparing.model.confidence import Assumptions
from sparing.model.prior import AT_ONCE, Prior
from sparing.model.statistics import Statistics
from sparing.native.struct import StructArrays
from sparing.online.engine import choice, runs, search, shift, state, updates
from sparing.online.engine.state import NoiseMonitor


@dataclass(frozen=True, eq=False)
class InitialSets:
    """The prior precision and response that an action's rows are added to; `row` (K,) gives each action's row, 0 is shared.

    response (n, d) is Λ·m; matrix (n, d·(d+1)/2) is the upper triangle of Λ by rows, or (1, ·) if it is the same for all.
    """

    row: np.ndarray
    matrix: np.ndarray
    response: np.ndarray

    @classmethod
    def ridge(cls, ridge: float, center: np.ndarray, n_actions: int) -> "InitialSets":
        """Λ = λI around a center, (d,) for all actions or (K, d) for each."""
        d = center.shape[-1]
        own = center.ndim == 2
        response = ridge * (np.concatenate([center[:1] * 0, center]) if own else center[None])
        row = np.arange(1, n_actions + 1) if own else np.zeros(n_actions, dtype=np.int64)
        return cls(row, ridge * packed(np.eye(d)[None]), response)

    @classmethod
    def of(cls, prior: Prior, sums: Statistics) -> "InitialSets":
        """The prediction for each action from all others of a log; unlogged actions without items share one prediction."""
        (k, d), q = sums.response.shape, prior.items.shape[1]
        own = np.arange(k) if q > 1 else np.flatnonzero(sums.counts)
        row = np.zeros(k, dtype=np.int64)
        row[own] = np.arange(1, len(own) + 1)
        matrix, response = np.empty((len(own) + 1, d * (d + 1) // 2)), np.empty((len(own) + 1, d))
        shared = prior.unlogged_action()
        matrix[:1], response[0] = packed(shared[0][None]), shared[1]
        for start in range(0, len(own), AT_ONCE):  # bounded copies of a large log's matrices
            part, to = own[start : start + AT_ONCE], slice(start + 1, start + 1 + AT_ONCE)
            full, response[to] = prior.start(sums.gram[part], sums.response[part], prior.items[part])
            matrix[to] = packed(full)
        return cls(row, matrix, response)

    def joined(self, matrix: np.ndarray | None = None, response: np.ndarray | None = None) -> "InitialSets":
        """With one more action: it shares row 0, or has its own Λ·m (d,), and its own packed Λ if all have."""
        if response is None:
            return replace(self, row=np.append(self.row, 0))
        matrices = self.matrix
        if len(matrices) > 1:
            matrices = np.vstack([matrices, matrices[0] if matrix is None else matrix])
        row = np.append(self.row, len(self.response))
        return InitialSets(row, matrices, np.vstack([self.response, response]))

    @property
    def unit(self) -> float:
        """det(Λ)^(1/d) of the shared Λ, the unit of determinants."""
        d = self.response.shape[1]
        return float(np.exp(np.linalg.slogdet(unpacked(self.matrix[:1], d)[0])[1] / d))

    def matrices(self, actions: np.ndarray) -> np.ndarray:
        """Packed Λ_a of these actions, (m, d·(d+1)/2)."""
        return self.matrix[self.row[actions] if len(self.matrix) > 1 else np.zeros_like(actions)]

    def responses(self, actions: np.ndarray) -> np.ndarray:
        """Λ_a·m_a of these actions, (m, d)."""
        return self.response[self.row[actions]]


def packed(full: np.ndarray) -> np.ndarray:
    """Upper triangles, (m, d·(d+1)/2), of symmetric matrices (m, d, d)."""
    rows, columns = np.triu_indices(full.shape[-1])
    return np.asarray(full[:, rows, columns])


def padded(triangles: np.ndarray, width: int) -> np.ndarray:
    """Packed matrices with zeros up to a width."""
    return np.pad(triangles, ((0, 0), (0, width - triangles.shape[1])))


def unpacked(triangles: np.ndarray, d: int) -> np.ndarray:
    """Symmetric matrices (m, d, d) from the first d·(d+1)/2 numbers of each row."""
    rows, columns = np.triu_indices(d)
    full = np.empty((len(triangles), d, d))
    full[:, rows, columns] = full[:, columns, rows] = triangles[:, : len(rows)]
    return full


def ranked(ties: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Priorities (K,), the cheaper action first and equal costs by `ties` (K,), and the actions in that order."""
    order = np.lexsort((ties, costs)) if len(costs) else np.argsort(ties, kind="stable")
    priority = np.empty(len(order), dtype=np.int64)
    priority[order] = np.arange(len(order))
    return priority, order


PREALLOCATE_LIMIT = 1_000_000
"""Numbers in packed matrices up to which every action gets a slot at once."""

BOUNDED_FROM, QUICK_FROM = 6_000, 40_000
"""Numbers in packed matrices from which shared bounds pay, and from which single-precision copies do."""

NO_BUDGET = 2**62

STATE = (
    *("gram", "response", "inverse", "theta", "log_det", "rounding_growth", "squares"),
    *("logged", "live", "frozen", "action", "view_mask", "waiting"),
)
"""The arrays that are saved, one row per slot; row 0 is the shared prior."""

FORGETTING = ("base_gram", "base_response", "fades", "kept", "faded_rows")
"""The arrays of forgetting, one row per slot, and its counts."""

FORGETTING_COUNTS = ("half_life", "timed", "fades_from", "clock", "monitor_fades")

SHIFT = ("start_gram", "start_mean", "live_gram", "live_response", "live_squares", "live_rows")
"""The arrays of the shift between log and live, one row per slot, and the counts of its reviews."""

REVIEW_COUNTS = ("next_review", "check_to", "checked_at", "review_rows")

SAMPLES = ("context_sample", "next_sample", "logged_sample")
"""The contexts that stand for future ones: those in use, those to come into use, and the logged ones."""


def _of_actions(name: str, meaning: str) -> Any:
    """A field of the slots by action: a copy of the observed view."""
    return property(lambda sets: sets.arrays.arrays[name][sets.arrays.observed_slot], doc=meaning)


class ConfidenceSets:
    """An ellipsoid {θ : ‖θ̂_a − θ‖_{V_a} ≤ ρ_a}, or a frozen point {θ̂_a}, for each action.

    V_a and b_a are the state; V_a⁻¹, θ̂_a, log det V_a and ρ_a follow from them and are kept for speed. `logged` (K,) counts
    the log's rows in a set, `live` (K,) those since. Only actions with rows or points have memory of their own; all others
    share one set. `constant` replaces the three radii by one number (LinUCB's α, a posterior's σ). `slack` widens frozen points,
    `misfit` everything else. The arrays over all actions are copies of the observed view, without pending calls.

    Deciding reads, learning writes; several threads may read at once, each with its own scratch buffers.
    """

    def __init__(
        self,
        sums: Statistics,
        assumptions: Assumptions,
        *,
        origins: InitialSets | None = None,
        constant: float | None = None,
        slack: float = 0.0,
        misfit: float = 0.0,
        watch: bool = False,
        growing: bool = False,
        added: np.ndarray | None = None,
        context_sample: np.ndarray | None = None,
        shifting: np.ndarray | None = None,
    ) -> None:
        """Start from per-action sums: V_a = Λ_a + G_a, b_a = Λ_a·m_a + Σxr, with Λ = λI and m = 0 without `origins`.

        `watch` monitors the noise of live rewards. If the sets are `growing`, the first actions share δ/2, and the j-th `added`
        action (K,), 0 for the first ones, has δ/(2j(j+1)). `context_sample` (m, d) stands for future contexts. Live rows are kept
        apart from the log's where they may be `shifting`, by the spread (d,) of the prior in units of τ.
        """
        k, d = sums.response.shape
        begin = InitialSets.ridge(assumptions.ridge, np.zeros(d), k) if origins is None else origins
        self.assumptions, self.origins = assumptions, begin
        self.ridge = assumptions.ridge if len(begin.matrix) == 1 and constant is None else begin.unit
        self.slack, self.misfit, self.growing = slack, misfit, growing
        self.added = np.zeros(k, dtype=np.int64) if added is None else added
        own = np.flatnonzero((sums.counts > 0) | (begin.row > 0) | (self.added > 0))
        self._allocate(k, d, len(own), constant, context_sample)
        if context_sample is not None:
            self.arrays.logged_gram[: begin.matrix.shape[1]] = packed(sums.gram.sum(axis=0)[None])[0]
        self.arrays.sigma = constant if watch and constant is not None else 0.0
        a = self.arrays
        a.gram[0, : begin.matrix.shape[1]], a.response[0] = begin.matrix[0], begin.response[0]
        for start in range(0, len(own), AT_ONCE):  # bounded copies of a large log's matrices
            part = own[start : start + AT_ONCE]
            to = slice(start + 1, start + 1 + len(part))
            a.gram[to, : begin.matrix.shape[1]] = begin.matrices(part) + packed(sums.gram[part])
            a.response[to] = begin.responses(part) + sums.response[part]
        a.logged[1 : len(own) + 1], a.squares[1 : len(own) + 1] = sums.counts[own], sums.squares[own]
        a.action[1 : len(own) + 1] = own
        a.used = len(own) + 1
        self._index_slots()
        self._derive()
        if shifting is not None:
            self._begin_shifting(shifting)

    def _begin_shifting(self, spread: np.ndarray) -> None:
        """Keep what the log says apart from live rows, of which there are none yet."""
        self._hold(state.grown(self.arrays, shift=True))
        a = self.arrays
        a.start_gram[:], a.start_mean[:], a.spread[:] = a.gram, a.theta, spread

    def apply_shift(self, size: float) -> None:
        """Let the sets allow for a shift between log and live of deviation τ, in units of the prior's spread."""
        runs.APPLY_SHIFT.call(self.scratch.observed, float(size))

    def begin_forgetting(self, half_life: int, clock: int, *, timed: bool) -> None:
        """Let rows lose half of their weight in each `half_life` of a clock, from `clock` on; with 0, no more.

        The clock counts rounds, or microseconds if `timed`; with NEVER it begins at the first one that it shows.
        """
        if not len(self.arrays.kept):
            self._hold(state.grown(self.arrays, forgetting=True))
            self.arrays.kept[:] = 1.0
            self._write_base(0, self.origins.matrix[0], self.origins.response[0])
            for slot in range(1, self.arrays.used):
                action = self.arrays.action[slot : slot + 1]
                self._write_base(slot, self.origins.matrices(action)[0], self.origins.responses(action)[0])
        a = self.arrays
        a.half_life, a.timed, a.fades_from, a.monitor_fades, a.fades[:] = half_life, timed, clock, 0, 0
        a.next_fade, a.rounds_kept = 1, self._rounds_kept()
        if clock != state.NEVER:
            self.advance(clock)

    def _rounds_kept(self) -> float:
        """∫ 2^(−k/half-life) dk over all rounds k to come: how many rounds with full weight a row that fades amounts to."""
        # By a clock of time, how many rounds these are is not known.
        a = self.arrays
        return a.half_life / math.log(2) if a.half_life and not a.timed else math.inf

    def advance(self, clock: int) -> bool:
        """Fade what is due at this time; whether any set did."""
        return bool(runs.ADVANCE.call(self.scratch.observed, clock))

    def _write_base(self, slot: int, matrix: np.ndarray, response: np.ndarray) -> None:
        """Set what a slot fades to: packed Λ and Λ·m."""
        self.arrays.base_gram[slot, : len(matrix)], self.arrays.base_response[slot] = matrix, response

    def _allocate(
        self,
        n_actions: int,
        d: int,
        touched: int,
        constant: float | None,
        context_sample: np.ndarray | None = None,
    ) -> None:
        size = n_actions * d * (d + 1) // 2
        capacity = n_actions if size <= PREALLOCATE_LIMIT else min(n_actions, max(64, touched + touched // 4))
        bounded, inverse32 = size >= BOUNDED_FROM, size >= QUICK_FROM
        contexts = np.empty((0, d)) if context_sample is None else context_sample
        slots = max(capacity, touched) + 2
        self._hold(
            state.allocate(n_actions, slots, d, bounded=bounded, inverse32=inverse32, contexts=len(contexts))
        )
        for name in SAMPLES:
            getattr(self.arrays, name)[:] = contexts
        self.arrays.sample_ids[:] = -1
        self.arrays.next_entry = state.NEVER
        self.prioritise(np.arange(n_actions))
        self.arrays.kind = state.KINDS.index(self.assumptions.radius if constant is None else "constant")
        self.arrays.common = constant or 0.0

    def _hold(self, arrays: StructArrays) -> None:
        self.arrays = arrays
        self.scratch = state.ThreadScratch(arrays)
        # The observed view for whoever holds the write lock, since to find a thread's own takes time: then nobody else uses it.
        self.writer = self.scratch.observed
        self.bounds = 1 if len(arrays.bounds32) else None

    def _index_slots(self) -> None:
        """Find each action's slots from the slots' own fields."""
        a, used = self.arrays, self.arrays.used
        slots, view_mask = np.arange(used), a.view_mask[:used]
        observed, pending = ((slots > 0) & (view_mask & view == 0) for view in (1, 2))
        a.observed_slot[a.action[:used][observed]] = slots[observed]
        a.pending_slot[a.action[:used][pending]] = slots[pending]
        a.touched[:] = observed.sum(), pending.sum()
        a.free, a.pending_copies = (view_mask == 3).sum(), (view_mask == 1).sum()
        self._find_next()

    def _find_next(self) -> None:
        # The first shared-prior action in each view's order.
        a = self.arrays
        for view, slots in ((state.OBSERVED_VIEW, a.observed_slot), (state.PENDING_VIEW, a.pending_slot)):
            shared = np.flatnonzero(slots[a.order] == 0)
            a.next[view] = shared[0] if len(shared) else len(slots)

    def _derive(self) -> None:
        """Recompute everything that follows from the state."""
        self._sync_settings()
        singular = updates.factor_all(self.scratch.observed)
        if singular >= 0:
            raise SettingError(
                f"ridge={self.ridge:g} is too small for this log's contexts: the matrix of action number "
                f"{self.arrays.action[singular]} cannot be inverted exactly in double precision. Pass a larger "
                "ridge, or scale the features to sizes around 1 and drop those that repeat others"
            )
        self._bound()

    def _bound(self) -> None:
        if self.bounds is not None:
            search.choose_metric(self.scratch.observed)

    def _sync_settings(self) -> None:
        """Copy the settings into the arrays for compiled code."""
        a, s, used = self.arrays, self.assumptions, self.arrays.used
        observed = (a.frozen[:used] == 0) & (a.view_mask[:used] & 1 == 0)
        a.total = (a.logged + a.live)[:used][observed].sum()
        if a.kind in (state.DETERMINANT, state.TRACE):
            a.common = math.nan
        a.ridge, a.point_allowance, a.misfit = self.ridge, self.slack, self.misfit
        a.scale, a.noise, a.bias = s.radius_scale, s.noise, math.sqrt(s.ridge) * s.theta_bound
        a.log_delta[:used] = self._log_deltas(a.action[:used])
        a.total_growth = s.context_bound**2 / self.ridge
        a.growth = a.total_growth / self.shape[1]

    def _log_deltas(self, actions: np.ndarray) -> np.ndarray:
        """2·log(1/δ_a): the first K' actions share δ, or δ/2 if more may be added; the j-th added one has δ/(2j(j+1))."""
        first = np.log(self.learnt * (2 if self.growing else 1) / self.assumptions.delta)
        j = np.maximum(self.added[actions], 1)
        later = np.log(2.0 * j * (j + 1) / self.assumptions.delta)
        return np.asarray(2 * np.where(self.added[actions] > 0, later, first))

    def apply_rules(self, plan: choice.RulePlan) -> None:
        """Copy the rules into the arrays for compiled code."""
        for name, value in plan._asdict().items():
            setattr(self.arrays, name, value)
        self.arrays.coefficient[:] = choice.exploration_coefficient(plan, np.arange(1, self.shape[0] + 1))
        self.arrays.optimism = self.arrays.coefficient[-1]
        self.arrays.rounds_to_come = self.arrays.rounds_left = 0.0
        self.arrays.calls_left, self.arrays.rounds_kept = NO_BUDGET, self._rounds_kept()

    def take_sample(self, other: "ConfidenceSets") -> None:
        """Continue with the sample of contexts of other sets, which has as many."""
        a, b = self.arrays, other.arrays
        for name in (*SAMPLES, "sample_ids", "logged_gram"):
            getattr(a, name)[:] = getattr(b, name)
        a.sampled_from, a.next_entry, a.entered = b.sampled_from, b.next_entry, b.entered

    def take_change(self, other: "ConfidenceSets", spread: np.ndarray) -> None:
        """Continue with what other sets know of forgetting and of a shift; these have the same rows, and another prior."""
        b = other.arrays
        if len(b.kept):
            self.begin_forgetting(b.half_life, b.fades_from, timed=bool(b.timed))
            own, theirs = self._own_slots(other)
            for name in ("fades", "kept", "faded_rows"):
                getattr(self.arrays, name)[own] = getattr(b, name)[theirs]
            for name in (*FORGETTING_COUNTS, "next_fade"):
                setattr(self.arrays, name, getattr(b, name))
        if not len(b.start_gram):
            return
        self._begin_shifting(spread)
        a = self.arrays
        own, theirs = self._own_slots(other)
        logged = b.start_gram[theirs] - padded(other.origins.matrices(a.action[own]), b.start_gram.shape[1])
        pulls = np.einsum("kij,kj->ki", unpacked(b.start_gram[theirs], self.shape[1]), b.start_mean[theirs])
        pulls = pulls - other.origins.responses(a.action[own]) + self.origins.responses(a.action[own])
        a.start_gram[own] = logged + padded(self.origins.matrices(a.action[own]), a.start_gram.shape[1])
        live = unpacked(b.live_gram[theirs], self.shape[1])
        a.start_mean[own] = np.linalg.solve(unpacked(a.start_gram[own], self.shape[1]), pulls[:, :, None])[
            :, :, 0
        ]
        moved = a.start_mean[own] - b.start_mean[theirs]
        along = np.einsum("kij,kj->ki", live, moved)
        a.live_gram[own], a.live_rows[own] = b.live_gram[theirs], b.live_rows[theirs]
        a.live_response[own] = b.live_response[theirs] - along
        squares = b.live_squares[theirs] - ((2 * b.live_response[theirs] - along) * moved).sum(axis=1)
        a.live_squares[own] = np.maximum(squares, 0.0)
        a.shift_evidence = b.shift_evidence
        for name in (*REVIEW_COUNTS, "next_tick"):
            setattr(a, name, getattr(b, name))
        self.apply_shift(b.shift)

    def _own_slots(self, other: "ConfidenceSets") -> tuple[np.ndarray, np.ndarray]:
        """The slots of actions that have their own in these sets, and those that they have in others."""
        a, b = self.arrays, other.arrays
        for action in np.flatnonzero((b.observed_slot > 0) & (a.observed_slot == 0)).tolist():
            self.give_own_slot(action)
        own = np.flatnonzero((self.arrays.observed_slot > 0) & (b.observed_slot > 0))
        return self.arrays.observed_slot[own], b.observed_slot[own]

    def forget_contexts(self, identities: Collection[int]) -> None:
        """Put the logged contexts back in the places of these live ones, and stop using any that were replaced."""
        a = self.arrays
        gone = (a.sample_ids > 0) & np.isin(a.sample_ids, list(identities))
        a.next_sample[gone], a.sample_ids[gone] = a.logged_sample[gone], -1
        runs.RENEW_SAMPLE.call(self.scratch.observed)

    def prioritise(self, ties: np.ndarray) -> None:
        """Set the order of ties (K,): of equal scores and equal costs, the smaller number wins."""
        self.ties = np.array(ties, dtype=np.int64)
        self.arrays.priority[:], self.arrays.order[:] = ranked(self.ties, self.arrays.cost)
        self._find_next()

    def set_costs(self, costs: np.ndarray | None, *, own_slots: bool = False) -> None:
        """Set the known cost of playing each action, (K,); None removes them.

        `own_slots`: no action shares the prior from now on. The value of information needs that, since actions of different
        costs have different gaps.
        """
        if costs is not None and not len(self.arrays.cost):
            self._hold(state.grown(self.arrays, costs=True))
        if len(self.arrays.cost):
            self.arrays.cost[:] = 0.0 if costs is None else costs
        for action in np.flatnonzero(self.arrays.observed_slot == 0).tolist() if own_slots else ():
            slot = self.give_own_slot(action)
            if self.bounds is not None:
                search.renew_bounds(self.scratch.observed, slot)
        self.prioritise(self.ties)
        self.arrays.changes += 1
        self.arrays.resampled = self.arrays.changes  # lookahead caches start anew

    @property
    def live_rewards(self) -> float:
        """Live rows kept apart from the log's, by their weights; those of all actions."""
        a = self.arrays
        return float(a.live_rows[a.observed_slot[a.observed_slot > 0]].sum())

    def repriced(self, costs: np.ndarray) -> tuple[state.SetsStruct, state.SetsStruct]:
        """The observed and the pending view with these costs (K,) in this round."""
        return self.scratch.repriced(costs, *ranked(self.ties, costs))

    def freeze(self, actions: np.ndarray, theta: np.ndarray) -> None:
        """Make these actions points {θ̂_a}, which are never learnt further."""
        for action, point in zip(actions, theta, strict=True):
            if self.arrays.observed_slot[action] == 0:
                self.give_own_slot(int(action))
            slot = self.arrays.observed_slot[action]
            self.arrays.frozen[slot], self.arrays.theta[slot] = 1, point
        self._derive()

    def give_own_slot(self, action: int) -> int:
        """Give an action that shares the prior a slot of its own, which is returned; there is room, or is made."""
        self.grow_capacity()
        slot: int = runs.GIVE_OWN_SLOT.call(self.writer, action)
        return slot

    def grow_capacity(self) -> None:
        """Make room for one more slot."""
        capacity = len(self.arrays.theta)
        if self.arrays.used == capacity and not self.arrays.free:
            self._hold(state.grown(self.arrays, slots=min(2 * capacity, 2 * self.shape[0] + 2) - capacity))

    def add(self, matrix: np.ndarray | None = None, response: np.ndarray | None = None) -> None:
        """Add an action, the last in ties: with the shared prior, or with its own Λ·m (d,) and packed Λ."""
        k = self.shape[0]
        self.origins = self.origins.joined(matrix, response)
        self.added = np.append(self.added, 1 + self.added.max(initial=0))
        self._hold(state.grown(self.arrays, slots=2, actions=1))
        self.prioritise(np.append(self.ties, k))
        if response is None:
            return
        slot = self.give_own_slot(k)
        table, a = self.scratch.observed, self.arrays
        if matrix is not None:
            a.gram[slot, : len(matrix)] = matrix
        a.response[slot] = response
        if len(a.kept):
            self._write_base(slot, self.origins.matrices(np.array([k]))[0], response)
        a.log_delta[slot] = self._log_deltas(np.array([k]))[0]
        if not updates.factor(table, slot, updates.CONDITION):
            raise SettingError("the added action's matrix cannot be inverted exactly in double precision")
        if len(a.start_gram):
            a.start_gram[slot], a.start_mean[slot] = a.gram[slot], a.theta[slot]
            shift.rebuild(table, slot)
        search.renew_bounds(table, slot)

    def retire(self, action: int) -> None:
        """Exclude an action from rounds without an eligible set."""
        if not len(self.arrays.active):
            self._hold(state.grown(self.arrays, retired=True))
        self.arrays.active[action] = False
        self.arrays.changes += 1

    def rows(self) -> Statistics:
        """The sums of all rows so far, logged and live, each with the weight that forgetting left of it: V_a − Λ_a, b_a − Λ_a·m_a.

        The log's part of sets that allow for a shift is not V_a − Λ_a − Σxxᵀ, but that of their start.
        """
        a, every = self.arrays, np.arange(self.shape[0])
        triangles, counts = self.origins.matrices(every), self.logged + self.live
        known = (counts > 0)[:, None]
        gram, response = self._sums(triangles)
        if len(a.kept):
            counts = np.maximum(np.rint(counts - a.faded_rows[a.observed_slot]).astype(np.int64), counts > 0)
        squares, largest = a.squares[a.observed_slot], self.assumptions.context_bound
        full = unpacked(gram * known, self.shape[1])
        return Statistics(counts, full, response * known, squares, largest)

    def _sums(self, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Packed Σxxᵀ (K, d·(d+1)/2) and Σxr (K, d) of all rows, given the packed Λ_a."""
        a, every = self.arrays, np.arange(self.shape[0])
        slots, width, pulls = a.observed_slot, triangles.shape[1], self.origins.responses(every)
        if not len(a.start_gram):
            return a.gram[slots, :width] - triangles, self.response - pulls
        start, live, mean = a.start_gram[slots, :width], a.live_gram[slots, :width], a.start_mean[slots]
        kept = a.kept[slots][:, None] if len(a.kept) else 1.0
        d = self.shape[1]
        logged = np.einsum("kij,kj->ki", unpacked(start, d), mean) - pulls
        lately = np.einsum("kij,kj->ki", unpacked(live, d), mean) + a.live_response[slots]
        return kept * (start - triangles) + live, kept * logged + lately

    def constant_sums(self) -> tuple[np.ndarray, float]:
        """Σ x_0·x over all rows so far, (d,), and the sum of their weights; Σx if the first feature is a constant 1."""
        a = self.arrays
        rows: float = int((self.logged + self.live).sum())
        if len(a.kept):
            rows -= float(a.faded_rows[a.observed_slot[np.flatnonzero(self.logged + self.live)]].sum())
        return self._entries_of_rows(np.arange(self.shape[1])), rows

    def sums_of_squares(self) -> np.ndarray:
        """Σ x_j² over all rows so far, (d,)."""
        return self._entries_of_rows(np.cumsum([0, *range(self.shape[1], 1, -1)]))

    def _entries_of_rows(self, places: np.ndarray) -> np.ndarray:
        """Entries of the packed Σxxᵀ of all rows so far, as `rows` weighs them."""
        a, actions = self.arrays, np.flatnonzero(self.logged + self.live)
        slots, before = a.observed_slot[actions][:, None], self.origins.matrices(actions)[:, places]
        if not len(a.start_gram):
            return np.asarray((a.gram[slots, places] - before).sum(axis=0))
        kept = a.kept[slots] if len(a.kept) else 1.0
        logged, live = a.start_gram[slots, places] - before, a.live_gram[slots, places]
        return np.asarray((kept * logged + live).sum(axis=0))

    @property
    def shape(self) -> tuple[int, int]:
        """Actions and features, (K, d)."""
        return len(self.arrays.observed_slot), self.arrays.theta.shape[1]

    @property
    def learnt(self) -> int:
        """K': number of the first actions' sets that are learnt rather than frozen."""
        return max(1, int((self.added == 0).sum()) - int(self.arrays.frozen.sum()))

    theta = _of_actions("theta", "θ̂_a, (K, d).")
    response = _of_actions("response", "b_a, (K, d).")
    log_det = _of_actions("log_det", "log(det V_a/λ^d), (K,).")
    logged = _of_actions("logged", "Rows of the log in each set, (K,).")
    live = _of_actions("live", "Rows in each set since, (K,).")

    @property
    def frozen(self) -> np.ndarray:
        """Which actions are points, (K,)."""
        return self.arrays.frozen[self.arrays.observed_slot] != 0

    @property
    def gram(self) -> np.ndarray:
        """V_a, (K, d, d)."""
        return self._square(self.arrays.gram)

    @property
    def inverse(self) -> np.ndarray:
        """V_a⁻¹, (K, d, d)."""
        return self._square(self.arrays.inverse)

    @property
    def radius(self) -> np.ndarray:
        """ρ_a, (K,)."""
        common = self.arrays.common
        own = self.arrays.radius[self.arrays.observed_slot]
        return own if math.isnan(common) else np.full(len(own), common)

    def _square(self, triangles: np.ndarray) -> np.ndarray:
        return unpacked(triangles[self.arrays.observed_slot], self.shape[1])

    @property
    def condition(self) -> float:
        """The largest Σ_j V_jj·(V⁻¹)_jj of all sets."""
        a, d = self.arrays, self.shape[1]
        diagonal = np.cumsum([0, *range(d, 1, -1)])
        return float((a.gram[: a.used, diagonal] * a.inverse[: a.used, diagonal]).sum(axis=1).max())

    def evaluate(self, x: np.ndarray, *, pending: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Means x·θ̂_a and half-widths at x for all actions, (K,) each; `pending` includes pending calls."""
        mean, spread = np.empty(self.shape[0]), np.empty(self.shape[0])
        scratch = self.scratch
        search.evaluate(scratch.pending if pending else scratch.observed, x, mean, spread)
        return mean, spread

    @property
    def level(self) -> float | None:
        """Probability that an interval of `half_widths` contains an action's mean reward: `LEVEL` for posteriors, else 1 − δ.

        None if `radius_scale` is below 1: no level is proved then.
        """
        if self.arrays.kind == state.CONSTANT:
            return LEVEL
        return 1 - self.assumptions.delta if self.assumptions.radius_scale >= 1 else None

    @property
    def half_widths(self) -> float:
        """Half-widths on each side of an interval of `level`.

        A confidence set is one already. The half-width of a posterior is its deviation. With a constant multiplier of the
        width sqrt(xᵀV⁻¹x) that is not monitored, the deviation is noise · width.
        """
        a = self.arrays
        if a.kind != state.CONSTANT:
            return 1.0
        return NORMAL if a.sigma else NORMAL * self.assumptions.noise / a.common

    def learnable(self, action: int, x: np.ndarray) -> bool:
        """Whether a reward of this action in this context can be learnt exactly."""
        return bool(runs.LEARNABLE.call(self.scratch.pending, action, x))

    def add_observation(self, action: int, x: np.ndarray, reward: float, added: int | None = None) -> bool:
        """Add one live row to an action's set; False, and no change, if that cannot be exact.

        `added` is what ADD_OBSERVATION has returned, if the caller has called it already.
        """
        slot = runs.ADD_OBSERVATION.call(self.writer, action, x, reward) if added is None else added
        if slot == updates.NO_SLOT:
            self.give_own_slot(action)
            slot = runs.ADD_OBSERVATION.call(self.writer, action, x, reward)
        self.refresh_bounds(slot)
        return bool(slot > 0)

    def open_call(self, action: int, x: np.ndarray) -> float:
        """Add a call to the pending view; its prediction, or NaN, and no change, if it is refused."""
        self.grow_capacity()
        predicted = runs.OPEN_CALL.call(self.scratch.pending, action, x)
        self.refresh_bounds(int(self.arrays.pending_slot[action]))
        return float(predicted)

    def close_call(
        self,
        action: int,
        x: np.ndarray,
        predicted: float,
        left: Iterable[tuple[np.ndarray, float]],
        reward: float | None = None,
    ) -> None:
        """Remove a call from the pending view, or replace its prediction by the reward, which the observed view has.

        `left` are the action's other calls.
        """
        pending = self.scratch.pending
        if reward is None:
            done = runs.REMOVE_IMPUTED.call(pending, action, x, predicted)
        else:
            done = runs.REPLACE_IMPUTED.call(pending, action, x, reward, predicted)
        if not done:  # the pending copy is rebuilt from the other calls
            updates.drop(pending, action)
            for other, expected in left:
                updates.add_imputed(pending, action, other, expected)
        self.refresh_bounds(int(self.arrays.pending_slot[action]))

    def rebuild_pending(self, calls: Sequence[tuple[int, np.ndarray, float]], *, every: bool) -> None:
        """Make the pending copies of actions that faded again, or all, from their calls: action, context and prediction."""
        a = self.arrays
        for action, group in itertools.groupby(calls, key=operator.itemgetter(0)):
            own, copy = a.observed_slot[action], a.pending_slot[action]
            if not every and (own == 0 or a.fades[own] == a.fades[copy]):
                continue
            updates.drop(self.scratch.pending, action)
            for _, x, predicted in group:
                updates.add_imputed(self.scratch.pending, action, x, predicted)
            self.refresh_bounds(int(a.pending_slot[action]))

    def refresh_bounds(self, slot: int) -> None:
        if self.bounds is not None and slot > 0:
            runs.REFRESH_BOUNDS.call(self.writer, slot)

    @property
    def waiting(self) -> np.ndarray:
        """Imputed calls in the pending view, (K,)."""
        return self.arrays.waiting[self.arrays.pending_slot] * (
            self.arrays.pending_slot != self.arrays.observed_slot
        )

    @property
    def digest(self) -> int:
        """A number that depends on every row learnt since the start, and on their order."""
        return self.arrays.digest

    @property
    def constant(self) -> float | None:
        """The present ρ if one number replaces the radii."""
        return float(self.arrays.common) if self.arrays.kind == state.CONSTANT else None

    @property
    def monitor(self) -> NoiseMonitor | None:
        """Noise of live rewards, if it is monitored."""
        a = self.arrays
        if not a.sigma:
            return None
        return NoiseMonitor(a.sigma, self.misfit, a.calls, a.residual_sum, a.common, a.faded_calls)

    def state(self) -> dict[str, np.ndarray]:
        """The arrays to save; derived ones are included so that a loaded learner continues bit for bit."""
        used = self.arrays.used
        saved = {name: getattr(self.arrays, name)[:used] for name in STATE}
        saved["context_sample"] = self.arrays.context_sample
        if self.arrays.next_entry != state.NEVER:
            saved |= {name: getattr(self.arrays, name) for name in (*SAMPLES, "sample_ids", "logged_gram")}
            saved["sample_counts"] = np.array([self.arrays.sampled_from, self.arrays.entered])
        a = self.arrays
        if len(a.kept):
            saved |= {name: getattr(a, name)[:used] for name in FORGETTING}
            saved["forgetting"] = np.array([getattr(a, name) for name in FORGETTING_COUNTS])
            saved["faded_calls"] = np.array(a.faded_calls)
        if len(a.start_gram):
            saved |= {name: getattr(a, name)[:used] for name in SHIFT} | {"spread": a.spread}
            saved["shift"] = np.array([a.shift, a.shift_evidence])
            saved["reviews"] = np.array([getattr(a, name) for name in REVIEW_COUNTS])
        grown = {"added": self.added, "growing": np.array(self.growing)}
        return {**saved, **grown, "n_actions": np.array(self.shape[0]), "digest": np.array(self.digest)}

    def inconsistent(self) -> bool:
        """Whether some V⁻¹, θ̂ or log det differs from its V and b by more than rounding."""
        return bool(updates.inconsistent_slot(self.scratch.observed))

    def __getstate__(self) -> dict[str, Any]:
        # Addresses are invalid in a copy.
        return {name: value for name, value in self.__dict__.items() if name not in ("scratch", "writer")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Own copies: what was handed over may be shared, mapped from a file, or not to be written to.
        self._hold(self.arrays.copy())
