"""Policies: what to do in a context, without learning any further; and what one does on a log's rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, overload

import numpy as np

from sparing.errors import DecisionError, SettingError
from sparing.log import Log
from sparing.log.blocks import Blocks
from sparing.log.features.encoder import Encoder
from sparing.log.rows import AnyLog, Rows, rows_of
from sparing.log.support import SUM_TOLERANCE
from sparing.log.walking import Total
from sparing.model.ellipsoids import widths
from sparing.policies.fingerprint import Fingerprint

LARGEST = 1e150
"""Parameters and contexts beyond this make scores that overflow, and policies of nothing but NaN."""


class Policy(Protocol):
    """A distribution over actions for each context."""

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """The labels behind the action indices."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x) for contexts (n, d), shape (n, K)."""

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """One action for each context, as its place among `action_names`, (n,); `rng` is needed only where the policy is random."""


class SupportModel(Protocol):
    """Says which actions a context supports."""

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Boolean (n, K) for contexts (n, d), with at least one action in each row."""


@dataclass(frozen=True, eq=False, repr=False)
class Taught:
    """A policy that may know which rows taught it, and what encoded their raw columns; None where that is not known."""

    taught: Fingerprint | None = field(default=None, kw_only=True)
    encoder: Encoder | None = field(default=None, kw_only=True)

    def actions(self, contexts: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """The label of one action for each context, (n,): of a frame, mappings of raw columns, or an array (n, d).

        `rng` is needed only where the policy is random. Whole numbers come as such, other labels as objects.
        """
        chosen: Policy = self  # type: ignore[assignment]
        return label_array(chosen.action_names)[chosen.indices(contexts, rng)]

    def __repr__(self) -> str:
        policy: Any = self
        kind = getattr(policy, "method", type(self).__name__)
        taught = "" if self.taught is None else f", learnt from {self.taught.rows:,} rows"
        return f"{type(self).__name__}({kind}, {len(policy.action_names):,} actions{taught})"

    def rows(self, given: Any, n_features: int | None = None) -> np.ndarray:
        """Contexts (n, d), from a frame or mappings of raw columns, or as they are; d is checked where it is known."""
        named = None if self.encoder is None else self.encoder.named_rows(given)
        rows: Any = given if named is None else named
        if self.encoder is not None and self.encoder.kernel is not None and isinstance(rows, np.ndarray):
            rows = self.encoder.completed(rows)
        return checked_contexts(rows, n_features)

    @overload
    def held_out(self, log: Log) -> Log: ...

    @overload
    def held_out(self, log: Rows) -> Rows: ...

    def held_out(self, log: AnyLog) -> AnyLog:
        """The rows of the log that were held out when the policy was learnt: those it may be judged by.

        Of a log that is walked, they are walked too.
        """
        if self.taught is None:
            raise SettingError(
                "this policy does not know which rows taught it. Learn it with sparing.learn(log, ..., holdout=0.3)"
            )
        return self.taught.held_out(log)


@dataclass(frozen=True, eq=False, repr=False)
class Certain(Taught, ABC):
    """A policy that knows its action: all mass is on it."""

    action_names: tuple[Hashable, ...]

    @abstractmethod
    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The action of each context, (n,); nothing is drawn."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """1 for the action, 0 for all others, (n, K)."""
        return one_hot(self.indices(contexts), len(self.action_names))


@dataclass(frozen=True, eq=False, repr=False)
class Drawn(Taught, ABC):
    """A policy that draws its actions."""

    action_names: tuple[Hashable, ...]

    @abstractmethod
    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x), (n, K)."""

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Draw an action for each context, (n,)."""
        if rng is None:
            raise SettingError("this policy is random; pass rng=np.random.default_rng(seed)")
        return sample(self.probabilities(contexts), rng)


@dataclass(frozen=True, eq=False, repr=False)
class Linear:
    """A policy by parameters theta (K, d), with other arrays beside them, one entry an action."""

    action_names: tuple[Hashable, ...]
    theta: np.ndarray

    def __post_init__(self) -> None:
        k, d = len(self.action_names), np.shape(self.theta)[-1:]
        shapes = {"theta": (k, *d), "inverse": (k, *d, *d), "radius": (k,), "priority": (k,)}
        for name, shape in shapes.items():
            array = getattr(self, name, None)
            if array is not None and (np.shape(array) != shape or not np.isfinite(array).all()):
                raise SettingError(
                    f"{name} of shape {np.shape(array)} for {k} actions; expected finite numbers of shape {shape}"
                )


@dataclass(frozen=True, eq=False, repr=False)
class GreedyPolicy(Linear, Certain):
    """argmax_a x·θ_a, ties to the action with the smallest priority number; theta (K, d).

    With `support` the argmax runs over each context's supported actions only.
    """

    priority: np.ndarray
    support: SupportModel | None = None
    method: str = "greedy"
    notes: tuple[str, ...] = ()

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The best action by the estimates, (n,)."""
        x = self.rows(contexts, self.theta.shape[1])
        return best_actions(linear_scores(x, self.theta), self.priority, _mask(self.support, x))


@dataclass(frozen=True, eq=False, repr=False)
class PessimisticPolicy(Linear, Certain):
    """argmax_a x·θ̂_a − ρ_a·sqrt(xᵀV_a⁻¹x): the best of the lower limits.

    theta (K, d), inverse (K, d, d) V_a⁻¹, radius (K,) ρ_a; ties to the smallest priority number.
    """

    inverse: np.ndarray
    radius: np.ndarray
    priority: np.ndarray
    support: SupportModel | None = None
    method: str = "pessimistic"
    notes: tuple[str, ...] = ()

    def low(self, contexts: np.ndarray) -> np.ndarray:
        """L_a(x) = x·θ̂_a − ρ_a·width_a(x), (n, K)."""
        x = self.rows(contexts, self.theta.shape[1])
        return linear_scores(x, self.theta) - self.radius * widths(self.inverse, x)

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The action with the best lower limit, (n,)."""
        x = self.rows(contexts, self.theta.shape[1])
        return best_actions(self.low(x), self.priority, _mask(self.support, x))


@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxPolicy(Linear, Drawn):
    """π(a|x) ∝ exp(x·θ_a/temperature) over the supported actions, 0 elsewhere; theta (K, d)."""

    temperature: float = 1.0
    support: SupportModel | None = None
    method: str = "softmax"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        most = np.abs(self.theta).max(initial=0)
        if not (
            np.isfinite(self.temperature)
            and self.temperature > 0
            and most <= LARGEST * min(self.temperature, 1)
        ):
            raise SettingError(
                f"temperature={self.temperature} for parameters up to {most:.4g}; must be a finite number "
                f"above 0, and their ratio none beyond {LARGEST:g}"
            )

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x), (n, K)."""
        x = self.rows(contexts, self.theta.shape[1])
        return softmax(x @ self.theta.T / self.temperature, _mask(self.support, x))


@dataclass(frozen=True, eq=False, repr=False)
class UniformPolicy(Drawn):
    """Every action with probability 1/K, whatever the context."""

    method: str = "uniform"
    notes: tuple[str, ...] = ()

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """1/K everywhere, (n, K)."""
        k = len(self.action_names)
        return np.full((len(self.rows(contexts)), k), 1 / k)


@dataclass(frozen=True, eq=False, repr=False)
class ConstantPolicy(Certain):
    """Always one action, given by its label."""

    action: Hashable
    method: str = "constant"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.action not in self.action_names:
            raise SettingError(f"unknown action {self.action!r}; must be one of {self.action_names!r}")

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The one action, (n,)."""
        return np.full(len(self.rows(contexts)), self.action_names.index(self.action))


def label_array(names: tuple[Hashable, ...]) -> np.ndarray:
    """Labels as an array (K,): whole numbers as such, others as objects."""
    if all(type(name) is int and abs(name) < 2**63 for name in names):
        return np.array(names, dtype=np.int64)
    table = np.empty(len(names), dtype=object)
    table[:] = names
    return table


def linear_scores(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """x·θ_a, (n, K). Not a matrix product: BLAS rounds edge columns differently, and equal parameters must tie."""
    return np.einsum("nd,kd->nk", x, theta)


def _mask(support: SupportModel | None, contexts: np.ndarray) -> np.ndarray | None:
    return None if support is None else support(contexts)


def sample(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one action a row from distributions (n, K)."""
    cumulative = probabilities.cumsum(axis=1)
    draws = rng.random(len(probabilities)) * cumulative[:, -1]
    return (cumulative <= draws[:, None]).sum(axis=1)


def best_actions(scores: np.ndarray, priority: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """argmax over the allowed actions of each row, ties to the smallest priority number; (n,)."""
    order = np.argsort(priority)
    allowed = scores if mask is None else np.where(mask, scores, -np.inf)
    return order[allowed[:, order].argmax(axis=1)]


def one_hot(actions: np.ndarray, n_actions: int) -> np.ndarray:
    """All mass of each row on its action, (n, K)."""
    table = np.zeros((len(actions), n_actions))
    table[np.arange(len(actions)), actions] = 1
    return table


def checked_contexts(contexts: Any, n_features: int | None = None) -> np.ndarray:
    """Contexts (n, d) as floats; d must be `n_features` where that is given, every feature finite."""
    try:
        x = np.asarray(contexts, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DecisionError(f"contexts are not all numbers: {error}") from None
    if x.ndim != 2 or (n_features is not None and x.shape[1] != n_features):
        wanted = "d" if n_features is None else n_features
        raise DecisionError(
            f"contexts of shape {x.shape}; expected (n, {wanted}). A single context x is x[None, :]"
        )
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise DecisionError(f"context feature {column} at row {row} is {x[row, column]}; it must be finite")
    return x


def softmax(scores: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """exp(score) over the allowed actions of each row, normalised; exactly 0 elsewhere, (n, K)."""
    allowed = scores if mask is None else np.where(mask, scores, -np.inf)
    table = np.exp(allowed - allowed.max(axis=1, keepdims=True))
    table /= table.sum(axis=1, keepdims=True)
    return table


def policy_blocks(
    log: Log, policy: Policy | np.ndarray, *, first_row: int = 0
) -> Iterator[tuple[slice, np.ndarray]]:
    """π(a|x_i) of the log's rows, block by block, (rows, K), columns in the log's order of actions.

    `first_row` is the first row's number in a longer log, for errors.
    """
    ask, places = _asked(log, policy)
    for rows in Blocks.of(log.n_rows, log.n_actions):
        size = rows.stop - rows.start
        chances = np.asarray(ask(rows), dtype=np.float64)
        if chances.shape != (size, len(places)):
            raise SettingError(
                f"the policy gave shape {chances.shape}; expected {(size, len(places))}, a column an action"
            )
        if places != list(range(log.n_actions)):
            given, chances = chances, np.zeros((size, log.n_actions))
            chances[:, places] = given
        sums = chances @ np.ones(log.n_actions)
        off = ~(np.abs(sums - 1) <= SUM_TOLERANCE)
        if off.any() or chances.min() < 0:
            row = int((off | (chances < 0).any(axis=1)).argmax())
            raise SettingError(
                f"the policy's probabilities at row {first_row + rows.start + row} sum to {sums[row]:.6g} (smallest "
                f"{chances[row].min():.4g}); they must be 0 or more and sum to 1"
            )
        yield rows, chances


def _asked(log: Log, policy: Policy | np.ndarray) -> tuple[Callable[[slice], np.ndarray], list[int]]:
    """How to ask for a slice of rows, and which of the log's actions the answer's columns are."""
    if isinstance(policy, np.ndarray):
        if policy.shape != (log.n_rows, log.n_actions):
            raise SettingError(f"policy of shape {policy.shape}; expected {(log.n_rows, log.n_actions)}")
        return policy.__getitem__, list(range(log.n_actions))
    place = {name: i for i, name in enumerate(log.action_names)}
    unknown = [name for name in policy.action_names if name not in place]
    if unknown:
        raise SettingError(
            f"the policy knows action {unknown[0]!r}, the log does not; name every action when the log is "
            "read (actions=[...]), so that what it never tried is counted"
        )
    places = [place[name] for name in policy.action_names]
    encoder: Encoder | None = getattr(policy, "encoder", None)
    if encoder is None:
        return (lambda rows: policy.probabilities(log.contexts[rows])), places
    return (lambda rows: policy.probabilities(encoder.aligned(log.encoder, log.contexts[rows]))), places


def shares_of(policy: Policy, log: AnyLog) -> np.ndarray:
    """The share of a log's rows that the policy gives to each action, (K,)."""
    rows = rows_of(log)
    shares: np.ndarray = rows.fold(Total(partial(_played, policy))) / rows.n_rows
    return shares


def _played(policy: Policy, block: Log, first_row: int) -> np.ndarray:
    """Σ π(a|x), (K,)."""
    return policy.probabilities(block.contexts).sum(axis=0)
