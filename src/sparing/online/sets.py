"""Every action's confidence set, side by side, updated in place by compiled code."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.offline.assumptions import Assumptions
from sparing.offline.statistics import Statistics
from sparing.online.engine import learning, memory, search

FREELY = 1_000_000
"""Numbers in packed matrices up to which every action gets its place at once."""

BOUNDED_FROM, QUICK_FROM = 6_000, 40_000
"""Numbers in packed matrices from which shared bounds pay, and from which single-precision copies do."""

STATE = ("gram", "response", "inverse", "theta", "log_det", "logged", "live", "frozen", "action")
"""The arrays that are saved, each a row a touched action; row 0 is what all others share."""


class ConfidenceSets:
    """An ellipsoid {θ : ‖θ̂_a − θ‖_{V_a} ≤ ρ_a}, or a frozen point {θ̂_a}, for each action.

    V_a and b_a are the state; V_a⁻¹, θ̂_a, log det V_a and ρ_a follow from them and are kept for speed.
    `logged` (K,) counts the log's rows in a set, `live` (K,) those since. Memory is taken for touched
    actions only, those with rows or frozen; all others share one set. `constant`, where given, replaces the
    three radii by one number (LinUCB's α, a posterior's σ). `slack` widens frozen points; `misfit` widens
    everything else. The arrays over all actions are copies.
    """

    def __init__(
        self,
        sums: Statistics,
        assumptions: Assumptions,
        *,
        ridge: float | None = None,
        center: np.ndarray | None = None,
        constant: float | None = None,
        slack: float = 0.0,
        misfit: float = 0.0,
    ) -> None:
        """Start from per-action sums: V_a = λI + G_a, b_a = Σxr + λ·center."""
        self.assumptions = assumptions
        self.ridge = assumptions.ridge if ridge is None else ridge
        self.constant, self.slack, self.misfit = constant, slack, misfit
        k, d = sums.response.shape
        touched = np.flatnonzero(sums.counts)
        self._allocate(k, d, len(touched))
        a, rows = self.arrays, slice(1, len(touched) + 1)
        upper = np.triu_indices(d)
        n = len(upper[0])
        a.gram[: len(touched) + 1, :n] = self.ridge * np.eye(d)[upper]
        for start in range(0, len(touched), 1024):  # bounded copies of a large log's matrices
            part = touched[start : start + 1024]
            a.gram[start + 1 : start + 1 + len(part), :n] += sums.gram[part][:, upper[0], upper[1]]
        if center is not None:
            a.response[: len(touched) + 1] = self.ridge * center
        a.response[rows] += sums.response[touched]
        a.logged[rows] = sums.counts[touched]
        a.action[rows], a.slot[touched] = touched, np.arange(1, len(touched) + 1)
        a.counters[memory.USED] = len(touched) + 1
        self._derive()

    def _allocate(self, n_actions: int, d: int, touched: int) -> None:
        size = n_actions * d * (d + 1) // 2
        room = n_actions + 2 if size <= FREELY else min(n_actions, max(64, touched + touched // 4)) + 2
        bounded, quick = size >= BOUNDED_FROM, size >= QUICK_FROM
        self._hold(memory.allocate(n_actions, room, d, bounded=bounded, quick=quick))
        self.prioritise(np.arange(n_actions))

    def _hold(self, arrays: memory.Sets) -> None:
        self.arrays = arrays
        self.table = memory.table(arrays)

    def _derive(self) -> None:
        """Compute what follows from the state, from scratch."""
        self._tell()
        singular = learning.factor_all(self.table)
        if singular >= 0:
            raise SettingError(
                f"ridge={self.ridge:g} is too small beside this log's contexts: the matrix of action number "
                f"{self.arrays.action[singular]} is singular in double precision. Pass a larger ridge, or "
                "scale the features"
            )

    def _tell(self) -> None:
        """Hand the settings to the compiled code."""
        a, s, learnt = self.arrays, self.assumptions, self.learnt
        d = a.theta.shape[1]
        kinds = {"determinant": memory.DETERMINANT, "trace": memory.TRACE, "paper": memory.PAPER}
        kind = memory.CONSTANT if self.constant is not None else kinds[s.radius]
        alone = kind in (memory.DETERMINANT, memory.TRACE)
        used = int(a.counters[memory.USED])
        a.counters[memory.KIND] = kind
        a.counters[memory.TOTAL] = (a.logged + a.live)[:used][a.frozen[:used] == 0].sum()
        growth = s.context_bound**2 / self.ridge
        a.numbers[:] = (
            self.ridge,
            math.nan if alone else (self.constant or 0.0),
            self.slack,
            self.misfit,
            s.radius_scale,
            s.noise,
            math.sqrt(s.ridge) * s.theta_bound,
            2 * math.log(learnt / s.delta),
            growth / d,
            growth,
        )

    def prioritise(self, priority: np.ndarray) -> None:
        """Say who wins ties: the action with the smaller number (K,)."""
        self.arrays.priority[:] = priority
        self.arrays.order[:] = np.argsort(priority, kind="stable")
        self.arrays.counters[memory.NEXT] = 0

    def freeze(self, actions: np.ndarray, theta: np.ndarray) -> None:
        """Make these actions points {θ̂_a}: known, and never learnt further."""
        for action, point in zip(actions, theta, strict=True):
            if self.arrays.slot[action] == 0:
                learning.touch(self.table, int(action))
                self.make_room()
            slot = self.arrays.slot[action]
            self.arrays.frozen[slot], self.arrays.theta[slot] = 1, point
        self._derive()

    def make_room(self) -> None:
        """See to it that an untouched action can be touched."""
        room = len(self.arrays.theta)
        if self.arrays.counters[memory.USED] == room:
            self._hold(memory.grown(self.arrays, min(2 * room, len(self.arrays.slot) + 2)))

    @property
    def shape(self) -> tuple[int, int]:
        """Actions and features, (K, d)."""
        return len(self.arrays.slot), self.arrays.theta.shape[1]

    @property
    def learnt(self) -> int:
        """K': how many sets are learnt rather than frozen."""
        return max(1, len(self.arrays.slot) - int(self.arrays.frozen.sum()))

    @property
    def logged(self) -> np.ndarray:
        """Rows of the log in each set, (K,)."""
        return self.arrays.logged[self.arrays.slot]

    @property
    def live(self) -> np.ndarray:
        """Rows in each set since, (K,)."""
        return self.arrays.live[self.arrays.slot]

    @property
    def counts(self) -> np.ndarray:
        """Rows in each set, logged and live, (K,)."""
        return self.logged + self.live

    @property
    def frozen(self) -> np.ndarray:
        """Which actions are points, (K,)."""
        return self.arrays.frozen[self.arrays.slot] != 0

    @property
    def theta(self) -> np.ndarray:
        """θ̂_a, (K, d)."""
        return self.arrays.theta[self.arrays.slot]

    @property
    def response(self) -> np.ndarray:
        """b_a, (K, d)."""
        return self.arrays.response[self.arrays.slot]

    @property
    def gram(self) -> np.ndarray:
        """V_a, (K, d, d)."""
        return self._square(self.arrays.gram)

    @property
    def inverse(self) -> np.ndarray:
        """V_a⁻¹, (K, d, d)."""
        return self._square(self.arrays.inverse)

    @property
    def log_det(self) -> np.ndarray:
        """log(det V_a/λ^d), (K,)."""
        return self.arrays.log_det[self.arrays.slot]

    @property
    def radius(self) -> np.ndarray:
        """ρ_a, (K,)."""
        common = self.arrays.numbers[memory.COMMON]
        own = self.arrays.radius[self.arrays.slot]
        return own if math.isnan(common) else np.full(len(own), common)

    def _square(self, packed: np.ndarray) -> np.ndarray:
        k, d = self.shape
        rows, columns = np.triu_indices(d)
        full = np.empty((k, d, d))
        full[:, rows, columns] = full[:, columns, rows] = packed[self.arrays.slot, : len(rows)]
        return full

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means x·θ̂_a and half-widths at x for all actions, (K,) each."""
        mean, spread = np.empty(self.shape[0]), np.empty(self.shape[0])
        search.evaluate(self.table, x, mean, spread)
        return mean, spread

    def absorb(self, action: int, x: np.ndarray, reward: float) -> None:
        """Add one live row to an action's set."""
        if learning.absorb(self.table, action, x, reward):
            self.make_room()

    def scale_constant(self, constant: float) -> None:
        """Change the constant radius (a posterior whose noise turned out larger)."""
        self.constant = constant
        self.arrays.numbers[memory.COMMON] = constant

    def state(self) -> dict[str, np.ndarray]:
        """The arrays to save; the derived ones go along so that a loaded learner goes on bit for bit."""
        used = int(self.arrays.counters[memory.USED])
        saved = {name: getattr(self.arrays, name)[:used] for name in STATE}
        return {**saved, "n_actions": np.array(self.shape[0])}

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, np.ndarray], assumptions: Assumptions, **settings: Any
    ) -> "ConfidenceSets":
        """Rebuild from saved arrays, refusing those that do not fit together."""
        used, d = arrays["response"].shape
        k, p = int(arrays["n_actions"]), memory.packed_size(d)
        sets = cls.__new__(cls)
        sets.assumptions = replace(assumptions)
        for name in ("ridge", "constant", "slack", "misfit"):
            setattr(sets, name, settings.pop(name))
        if settings:
            raise ValueError(f"unknown settings of sets: {sorted(settings)}")
        if not 1 <= used <= k + 1:
            raise ValueError(f"{used} rows for {k} actions")
        shapes = {"gram": (used, p), "inverse": (used, p), "response": (used, d), "theta": (used, d)}
        sets._allocate(k, d, used - 1)
        for name in STATE:
            place = getattr(sets.arrays, name)
            if arrays[name].shape != shapes.get(name, (used,)) or arrays[name].dtype != place.dtype:
                raise ValueError(f"array {name} of shape {arrays[name].shape} and type {arrays[name].dtype}")
            place[:used] = arrays[name]
        named = sets.arrays.action[1:used]
        if len(set(named.tolist())) != used - 1 or (used > 1 and not (0 <= named.min() <= named.max() < k)):
            raise ValueError("touched actions are not distinct, or are none of the actions")
        sets.arrays.slot[named] = np.arange(1, used)
        sets.arrays.counters[memory.USED] = used
        sets._tell()
        learning.radii_all(sets.table)
        learning.choose_metric(sets.table)
        return sets

    def residual(self) -> float:
        """How far V·V⁻¹ is from I, at worst over actions, in units of ‖V‖·‖V⁻¹‖ (Frobenius, d at least).

        Rounding alone leaves some 1e-16 of it, however ill-conditioned V is.
        """
        worst, d = 0.0, self.shape[1]
        rows, columns = np.triu_indices(d)
        used = int(self.arrays.counters[memory.USED])
        for start in range(0, used, 1024):
            part = slice(start, min(start + 1024, used))
            gram, inverse = (np.empty((part.stop - start, d, d)) for _ in range(2))
            gram[:, rows, columns] = gram[:, columns, rows] = self.arrays.gram[part, : len(rows)]
            inverse[:, rows, columns] = inverse[:, columns, rows] = self.arrays.inverse[part, : len(rows)]
            size = np.linalg.norm(gram, axis=(1, 2)) * np.linalg.norm(inverse, axis=(1, 2))
            error = np.abs(gram @ inverse - np.eye(d)).max(axis=(1, 2)) / size
            worst = max(worst, float(error.max())) if np.isfinite(error).all() else math.inf
        return worst

    def __getstate__(self) -> dict[str, Any]:
        """All but the table: addresses mean nothing to a copy."""
        return {name: value for name, value in self.__dict__.items() if name != "table"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._hold(memory.Sets(*map(np.ascontiguousarray, self.arrays)))
