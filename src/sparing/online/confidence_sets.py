"""Every action's confidence set in one block of memory, updated in place by compiled code, and what the sets start from."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.model.confidence import Assumptions
from sparing.model.prior import AT_ONCE, Prior
from sparing.model.statistics import Statistics
from sparing.native.struct import StructArrays
from sparing.online.engine import choice, runs, search, state, updates
from sparing.online.engine.state import NoiseMonitor


@dataclass(frozen=True, eq=False)
class InitialSets:
    """What an action's rows are added to: `row` (K,) says where, row 0 being what all others share.

    pull (n, d) is Λ·m; matrix (n, d·(d+1)/2) is Λ, its upper triangle row after row, or (1, ·) where all have the same.
    """

    row: np.ndarray
    matrix: np.ndarray
    pull: np.ndarray

    @classmethod
    def ridge(cls, ridge: float, center: np.ndarray, n_actions: int) -> "InitialSets":
        """Λ = λI around a center, (d,) for all actions or (K, d) for each."""
        d = center.shape[-1]
        own = center.ndim == 2
        pull = ridge * (np.concatenate([center[:1] * 0, center]) if own else center[None])
        row = np.arange(1, n_actions + 1) if own else np.zeros(n_actions, dtype=np.int64)
        return cls(row, ridge * packed(np.eye(d)[None]), pull)

    @classmethod
    def of(cls, prior: Prior, sums: Statistics) -> "InitialSets":
        """What all other actions of a log say of each; untried actions without items share what all logged ones say."""
        (k, d), q = sums.response.shape, prior.items.shape[1]
        own = np.arange(k) if q > 1 else np.flatnonzero(sums.counts)
        row = np.zeros(k, dtype=np.int64)
        row[own] = np.arange(1, len(own) + 1)
        matrix, pull = np.empty((len(own) + 1, d * (d + 1) // 2)), np.empty((len(own) + 1, d))
        blank = prior.unlogged_action()
        matrix[:1], pull[0] = packed(blank[0][None]), blank[1]
        for start in range(0, len(own), AT_ONCE):  # bounded copies of a large log's matrices
            part, to = own[start : start + AT_ONCE], slice(start + 1, start + 1 + AT_ONCE)
            full, pull[to] = prior.start(sums.gram[part], sums.response[part], prior.items[part])
            matrix[to] = packed(full)
        return cls(row, matrix, pull)

    def joined(self, matrix: np.ndarray | None = None, pull: np.ndarray | None = None) -> "InitialSets":
        """With one more action: it shares what all share, or has a Λ·m (d,) of its own, and a packed Λ if all have."""
        if pull is None:
            return InitialSets(np.append(self.row, 0), self.matrix, self.pull)
        if len(self.matrix) > 1:
            own = self.matrix[0] if matrix is None else matrix
            return InitialSets(
                np.append(self.row, len(self.pull)),
                np.vstack([self.matrix, own]),
                np.vstack([self.pull, pull]),
            )
        return InitialSets(np.append(self.row, len(self.pull)), self.matrix, np.vstack([self.pull, pull]))

    @property
    def unit(self) -> float:
        """det(Λ)^(1/d) of what is shared: what determinants are measured in."""
        d = self.pull.shape[1]
        return float(np.exp(np.linalg.slogdet(unpacked(self.matrix[:1], d)[0])[1] / d))

    def matrices(self, actions: np.ndarray) -> np.ndarray:
        """Packed Λ_a of these actions, (m, d·(d+1)/2)."""
        return self.matrix[self.row[actions] if len(self.matrix) > 1 else np.zeros_like(actions)]

    def pulls(self, actions: np.ndarray) -> np.ndarray:
        """Λ_a·m_a of these actions, (m, d)."""
        return self.pull[self.row[actions]]


def packed(full: np.ndarray) -> np.ndarray:
    """Upper triangles, (m, d·(d+1)/2), of symmetric matrices (m, d, d)."""
    rows, columns = np.triu_indices(full.shape[-1])
    return np.asarray(full[:, rows, columns])


def unpacked(triangles: np.ndarray, d: int) -> np.ndarray:
    """Symmetric matrices (m, d, d) from the first d·(d+1)/2 numbers of each row."""
    rows, columns = np.triu_indices(d)
    full = np.empty((len(triangles), d, d))
    full[:, rows, columns] = full[:, columns, rows] = triangles[:, : len(rows)]
    return full


PREALLOCATE_LIMIT = 1_000_000
"""Numbers in packed matrices up to which every action gets its place at once."""

BOUNDED_FROM, QUICK_FROM = 6_000, 40_000
"""Numbers in packed matrices from which shared bounds pay, and from which single-precision copies do."""

NO_BUDGET = 2**62
"""Calls that may be made where there is no budget."""

STATE = tuple(
    [
        "gram",
        "response",
        "inverse",
        "theta",
        "log_det",
        "shrunk",
        "squares",
        "logged",
        "live",
        "frozen",
        "action",
        "hidden",
        "waiting",
    ]
)
"""The arrays that are saved, each a row a slot; row 0 is what all untouched actions share."""


def _of_actions(name: str, meaning: str) -> Any:
    """What the slots hold, as the actions see it: a copy, and settled."""
    return property(lambda sets: sets.arrays.arrays[name][sets.arrays.settled], doc=meaning)


class ConfidenceSets:
    """An ellipsoid {θ : ‖θ̂_a − θ‖_{V_a} ≤ ρ_a}, or a frozen point {θ̂_a}, for each action.

    V_a and b_a are the state; V_a⁻¹, θ̂_a, log det V_a and ρ_a follow from them and are kept for speed.
    `logged` (K,) counts the log's rows in a set, `live` (K,) those since. Memory is taken for touched
    actions only, those with rows or frozen; all others share one set. `constant`, where given, replaces the
    three radii by one number (LinUCB's α, a posterior's σ). `slack` widens frozen points; `misfit` widens
    everything else. The arrays over all actions are copies, and settled: they know nothing of open calls.

    Deciding reads, learning writes; several threads may read at once, each at a desk of its own.
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
        reservoir: np.ndarray | None = None,
    ) -> None:
        """Start from per-action sums: V_a = Λ_a + G_a, b_a = Λ_a·m_a + Σxr, with Λ = λI and m = 0 unless `origins` are
        given; `watch` the noise of live rewards. Where sets are `growing`, the first actions share δ/2, and the j-th `added`
        one (K,), 0 for the first, has δ/(2j(j+1)). A `reservoir` (m, d) of contexts stands for those to come.
        """
        k, d = sums.response.shape
        begin = InitialSets.ridge(assumptions.ridge, np.zeros(d), k) if origins is None else origins
        self.assumptions, self.origins = assumptions, begin
        self.ridge = assumptions.ridge if len(begin.matrix) == 1 and constant is None else begin.unit
        self.slack, self.misfit, self.growing = slack, misfit, growing
        self.added = np.zeros(k, dtype=np.int64) if added is None else added
        own = np.flatnonzero((sums.counts > 0) | (begin.row > 0) | (self.added > 0))
        self._allocate(k, d, len(own), constant, reservoir)
        self.arrays.sigma = constant if watch and constant is not None else 0.0
        a = self.arrays
        a.gram[0, : begin.matrix.shape[1]], a.response[0] = begin.matrix[0], begin.pull[0]
        for start in range(0, len(own), AT_ONCE):  # bounded copies of a large log's matrices
            part = own[start : start + AT_ONCE]
            to = slice(start + 1, start + 1 + len(part))
            a.gram[to, : begin.matrix.shape[1]] = begin.matrices(part) + packed(sums.gram[part])
            a.response[to] = begin.pulls(part) + sums.response[part]
        a.logged[1 : len(own) + 1], a.squares[1 : len(own) + 1] = sums.counts[own], sums.squares[own]
        a.action[1 : len(own) + 1] = own
        a.used = len(own) + 1
        self._map()
        self._derive()

    def _allocate(
        self,
        n_actions: int,
        d: int,
        touched: int,
        constant: float | None,
        reservoir: np.ndarray | None = None,
    ) -> None:
        size = n_actions * d * (d + 1) // 2
        room = n_actions if size <= PREALLOCATE_LIMIT else min(n_actions, max(64, touched + touched // 4))
        bounded, quick = size >= BOUNDED_FROM, size >= QUICK_FROM
        contexts = np.empty((0, d)) if reservoir is None else reservoir
        slots = max(room, touched) + 2
        self._hold(state.allocate(n_actions, slots, d, bounded=bounded, quick=quick, contexts=len(contexts)))
        self.arrays.reservoir[:] = contexts
        self.prioritise(np.arange(n_actions))
        self.arrays.kind = state.KINDS.index(self.assumptions.radius if constant is None else "constant")
        self.arrays.common = constant or 0.0

    def _hold(self, arrays: StructArrays) -> None:
        self.arrays = arrays
        self.desk = state.ThreadScratch(arrays)
        self.bounds = 1 if len(arrays.near) else None

    def _map(self) -> None:
        """Say where each action's slots are, from what the slots say of themselves."""
        a, used = self.arrays, self.arrays.used
        slots, hidden = np.arange(used), a.hidden[:used]
        settled, ahead = ((slots > 0) & (hidden & view == 0) for view in (1, 2))
        a.settled[a.action[:used][settled]] = slots[settled]
        a.ahead[a.action[:used][ahead]] = slots[ahead]
        a.touched[:] = settled.sum(), ahead.sum()
        a.free, a.twins = (hidden == 3).sum(), (hidden == 1).sum()
        self._find_next()

    def _find_next(self) -> None:
        """Find the first untouched action in each view's order."""
        a = self.arrays
        for view, slots in ((state.SETTLED, a.settled), (state.AHEAD, a.ahead)):
            blank = np.flatnonzero(slots[a.order] == 0)
            a.next[view] = blank[0] if len(blank) else len(slots)

    def _derive(self) -> None:
        """Compute what follows from the state, from scratch."""
        self._tell()
        singular = updates.factor_all(self.desk.settled)
        if singular >= 0:
            raise SettingError(
                f"ridge={self.ridge:g} is too small beside this log's contexts: the matrix of action number "
                f"{self.arrays.action[singular]} cannot be inverted exactly in double precision. Pass a larger "
                "ridge, or scale the features to sizes around 1 and drop those that repeat others"
            )
        self._bound()

    def _bound(self) -> None:
        if self.bounds is not None:
            search.choose_metric(self.desk.settled)

    def _tell(self) -> None:
        """Hand the settings to the compiled code."""
        a, s, used = self.arrays, self.assumptions, self.arrays.used
        settled = (a.frozen[:used] == 0) & (a.hidden[:used] & 1 == 0)
        a.total = (a.logged + a.live)[:used][settled].sum()
        if a.kind in (state.DETERMINANT, state.TRACE):
            a.common = math.nan
        a.ridge, a.slack, a.misfit = self.ridge, self.slack, self.misfit
        a.scale, a.noise, a.bias = s.radius_scale, s.noise, math.sqrt(s.ridge) * s.theta_bound
        a.log_delta[:used] = self._log_deltas(a.action[:used])
        a.total_growth = s.context_bound**2 / self.ridge
        a.growth = a.total_growth / self.shape[1]

    def _log_deltas(self, actions: np.ndarray) -> np.ndarray:
        """2·log(1/δ_a): the first K' actions share δ, or δ/2 where more may come, and the j-th added one has δ/(2j(j+1))."""
        first = np.log(self.learnt * (2 if self.growing else 1) / self.assumptions.delta)
        j = np.maximum(self.added[actions], 1)
        later = np.log(2.0 * j * (j + 1) / self.assumptions.delta)
        return np.asarray(2 * np.where(self.added[actions] > 0, later, first))

    def follow(self, plan: choice.RulePlan) -> None:
        """Hand the rules to the compiled code."""
        for name, value in plan._asdict().items():
            setattr(self.arrays, name, value)
        self.arrays.boldness[:] = choice.exploration_coefficient(plan, np.arange(1, self.shape[0] + 1))
        self.arrays.optimism = self.arrays.boldness[-1]
        self.arrays.left, self.arrays.purse = 0.0, NO_BUDGET

    def prioritise(self, priority: np.ndarray) -> None:
        """Say who wins ties: the action with the smaller number (K,)."""
        self.arrays.priority[:] = priority
        self.arrays.order[:] = np.argsort(priority, kind="stable")
        self._find_next()

    def freeze(self, actions: np.ndarray, theta: np.ndarray) -> None:
        """Make these actions points {θ̂_a}: known, and never learnt further."""
        for action, point in zip(actions, theta, strict=True):
            if self.arrays.settled[action] == 0:
                self.make_room()
                updates.give_own_slot(self.desk.settled, int(action))
            slot = self.arrays.settled[action]
            self.arrays.frozen[slot], self.arrays.theta[slot] = 1, point
        self._derive()

    def make_room(self) -> None:
        """See to it that one more slot can be taken."""
        room = len(self.arrays.theta)
        if self.arrays.used == room and not self.arrays.free:
            self._hold(state.grown(self.arrays, slots=min(2 * room, 2 * self.shape[0] + 2) - room))

    def add(self, matrix: np.ndarray | None = None, pull: np.ndarray | None = None) -> None:
        """One more action, the last in ties: like all untouched ones, or with a Λ·m (d,) and a packed Λ of its own."""
        k = self.shape[0]
        self.origins = self.origins.joined(matrix, pull)
        self.added = np.append(self.added, 1 + self.added.max(initial=0))
        self._hold(state.grown(self.arrays, slots=2, actions=1))
        self.prioritise(np.append(self.arrays.priority[:k], k))
        if pull is None:
            return
        table, a = self.desk.settled, self.arrays
        slot = updates.give_own_slot(table, k)
        if matrix is not None:
            a.gram[slot, : len(matrix)] = matrix
        a.response[slot] = pull
        a.log_delta[slot] = self._log_deltas(np.array([k]))[0]
        if not updates.factor(table, slot, updates.CONDITION):
            raise SettingError("the added action's matrix cannot be inverted exactly in double precision")
        search.renew_bounds(table, slot)

    def retire(self, action: int) -> None:
        """Never play an action again, where nobody says who is eligible."""
        if not len(self.arrays.everyone):
            self._hold(state.grown(self.arrays, retired=True))
        self.arrays.everyone[action] = False
        self.arrays.changes += 1

    def rows(self) -> Statistics:
        """The sums of all rows so far, logged and live: V_a − Λ_a, b_a − Λ_a·m_a."""
        a, everyone = self.arrays, np.arange(self.shape[0])
        triangles, counts = self.origins.matrices(everyone), self.logged + self.live
        known = (counts > 0)[:, None]
        gram = (a.gram[a.settled, : triangles.shape[1]] - triangles) * known
        response = (self.response - self.origins.pulls(everyone)) * known
        squares, largest = a.squares[a.settled], self.assumptions.context_bound
        return Statistics(counts, unpacked(gram, self.shape[1]), response, squares, largest)

    @property
    def shape(self) -> tuple[int, int]:
        """Actions and features, (K, d)."""
        return len(self.arrays.settled), self.arrays.theta.shape[1]

    @property
    def learnt(self) -> int:
        """K': how many of the first actions' sets are learnt rather than frozen."""
        return max(1, int((self.added == 0).sum()) - int(self.arrays.frozen.sum()))

    theta = _of_actions("theta", "θ̂_a, (K, d).")
    response = _of_actions("response", "b_a, (K, d).")
    log_det = _of_actions("log_det", "log(det V_a/λ^d), (K,).")
    logged = _of_actions("logged", "Rows of the log in each set, (K,).")
    live = _of_actions("live", "Rows in each set since, (K,).")

    @property
    def frozen(self) -> np.ndarray:
        """Which actions are points, (K,)."""
        return self.arrays.frozen[self.arrays.settled] != 0

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
        own = self.arrays.radius[self.arrays.settled]
        return own if math.isnan(common) else np.full(len(own), common)

    def _square(self, triangles: np.ndarray) -> np.ndarray:
        return unpacked(triangles[self.arrays.settled], self.shape[1])

    @property
    def condition(self) -> float:
        """The largest Σ_j V_jj·(V⁻¹)_jj of all sets."""
        a, d = self.arrays, self.shape[1]
        diagonal = np.cumsum([0, *range(d, 1, -1)])
        return float((a.gram[: a.used, diagonal] * a.inverse[: a.used, diagonal]).sum(axis=1).max())

    def evaluate(self, x: np.ndarray, *, ahead: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Means x·θ̂_a and half-widths at x for all actions, (K,) each; `ahead` with the open calls."""
        mean, spread = np.empty(self.shape[0]), np.empty(self.shape[0])
        desk = self.desk
        search.evaluate(desk.ahead if ahead else desk.settled, x, mean, spread)
        return mean, spread

    def learnable(self, action: int, x: np.ndarray) -> bool:
        """Whether a reward of this action in this context could be learnt exactly."""
        return bool(runs.LEARNABLE.call(self.desk.ahead, action, x))

    def absorb(self, action: int, x: np.ndarray, reward: float) -> bool:
        """Add one live row to an action's set; False, and nothing changed, where that could not be exact."""
        slot: int = runs.ABSORB.call(self.desk.settled, action, x, reward)
        if slot > 0 and self.bounds is None:
            return True
        if slot == updates.FULL:
            self.make_room()
            slot = runs.ABSORB.call(self.desk.settled, action, x, reward)
        self.keep_bounds(slot)
        return slot > 0

    def begin(self, action: int, x: np.ndarray) -> float:
        """Count an open call in the view ahead; what it predicts, or NaN, and nothing changed, if it is refused."""
        self.make_room()
        predicted = runs.BEGIN.call(self.desk.ahead, action, x)
        self.keep_bounds(int(self.arrays.ahead[action]))
        return float(predicted)

    def settle(
        self,
        action: int,
        x: np.ndarray,
        reward: float,
        predicted: float,
        left: Iterable[tuple[np.ndarray, float]],
    ) -> None:
        """Put an open call's reward, once absorbed, in the place of its prediction; these others are `left`."""
        if not runs.SETTLE.call(self.desk.ahead, action, x, reward, predicted):
            self._open_anew(action, left)
        self.keep_bounds(int(self.arrays.ahead[action]))

    def _open_anew(self, action: int, calls: Iterable[tuple[np.ndarray, float]]) -> None:
        """Make an action's twin anew, from its settled set and the calls that are open."""
        updates.drop(self.desk.ahead, action)
        for x, predicted in calls:
            updates.reopen(self.desk.ahead, action, x, predicted)

    def take_back(
        self, action: int, x: np.ndarray, predicted: float, left: Iterable[tuple[np.ndarray, float]]
    ) -> None:
        """Take an open call out of the view ahead again, where the action has these others `left`."""
        if not runs.TAKE_BACK.call(self.desk.ahead, action, x, predicted):
            self._open_anew(action, left)
        self.keep_bounds(int(self.arrays.ahead[action]))

    def keep_bounds(self, slot: int) -> None:
        """Bring the bounds on a slot up to date after a change."""
        if self.bounds is not None and slot > 0:
            runs.KEEP_BOUNDS.call(self.desk.settled, slot)

    @property
    def waiting(self) -> np.ndarray:
        """Open calls in the view ahead, (K,)."""
        return self.arrays.waiting[self.arrays.ahead] * (self.arrays.ahead != self.arrays.settled)

    @property
    def digest(self) -> int:
        """A number that depends on every row learnt since the start, and on their order."""
        return self.arrays.digest

    @property
    def constant(self) -> float | None:
        """ρ where one number takes the place of the radii, as it is now."""
        return float(self.arrays.common) if self.arrays.kind == state.CONSTANT else None

    @property
    def monitor(self) -> NoiseMonitor | None:
        """What was seen of the noise of live rewards, if it is watched."""
        a = self.arrays
        return NoiseMonitor(a.sigma, self.misfit, a.calls, a.surprises, a.common) if a.sigma else None

    def go_on_watching(self, seen: NoiseMonitor) -> None:
        """Take over what was seen of the noise of live rewards."""
        self.arrays.sigma, self.arrays.calls, self.arrays.surprises = seen.noise, seen.calls, seen.total

    def state(self) -> dict[str, np.ndarray]:
        """The arrays to save; the derived ones go along so that a loaded learner goes on bit for bit."""
        used = self.arrays.used
        saved = {name: getattr(self.arrays, name)[:used] for name in STATE}
        saved["reservoir"] = self.arrays.reservoir
        grown = {"added": self.added, "growing": np.array(self.growing)}
        return {**saved, **grown, "n_actions": np.array(self.shape[0]), "digest": np.array(self.digest)}

    def contradiction(self) -> bool:
        """Whether some V⁻¹, θ̂ or log det is not what its V and b say, beyond what rounding explains."""
        return bool(updates.inconsistent_slot(self.desk.settled))

    def __getstate__(self) -> dict[str, Any]:
        """All but the desk: addresses mean nothing to a copy."""
        return {name: value for name, value in self.__dict__.items() if name != "desk"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Own copies: what was handed over may be shared, mapped from a file, or not to be written to.
        self._hold(self.arrays.copy())
