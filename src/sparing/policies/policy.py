"""Policies: a distribution over actions for each context, and its probabilities on the rows of a log."""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, overload

import numpy as np

from sparing.archive import replacing
from sparing.errors import DecisionError, SettingError
from sparing.log import Log
from sparing.log.features.encoder import Encoder
from sparing.log.labels import label_text
from sparing.log.passes import Blocks, SumOf
from sparing.log.rows import AnyLog, Rows, as_rows
from sparing.log.support import SUM_TOLERANCE
from sparing.model.boosting import Trees
from sparing.model.confidence import widths
from sparing.policies.fingerprint import TrainingFingerprint
from sparing.report.notebook import card
from sparing.report.text import counted, join_names
from sparing.validation import one_of

LARGEST = 1e150
"""Largest magnitude of parameters and contexts: products of larger ones overflow to NaN."""

EXPORTS = ("json", "sql", "onnx")
"""Formats of `TrainedPolicy.export`."""


class Policy(Protocol):
    """A distribution over actions for each context."""

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """Labels of the actions, (K,)."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x) for contexts (n, d), shape (n, K)."""

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """One action per context as an index into `action_names`, (n,); a stochastic policy needs `rng`."""


class SupportModel(Protocol):
    """The supported actions of a context."""

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        """Boolean (n, K) for contexts (n, d), at least one action in each row."""


@dataclass(frozen=True, eq=False, repr=False)
class TrainedPolicy(ABC):
    """A policy with notes on how it was learnt.

    Attributes
    ----------
    trained_on : TrainingFingerprint or None
        The rows the policy was learned from; None if unknown.
    encoder : Encoder or None
        Encodes raw columns; None if contexts are arrays only.
    """

    action_names: tuple[Hashable, ...]
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    trained_on: TrainingFingerprint | None = field(default=None, kw_only=True)
    encoder: Encoder | None = field(default=None, kw_only=True)

    @property
    def taught(self) -> TrainingFingerprint | None:
        """Deprecated name of `trained_on`."""
        warnings.warn("Policy.taught is deprecated; use trained_on", DeprecationWarning, stacklevel=2)
        return self.trained_on

    @abstractmethod
    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """The action of each context, (n,)."""

    def actions(self, contexts: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """Choose one action for each context.

        Parameters
        ----------
        contexts : array (n, d), data frame, or mappings of raw columns
            Raw columns need the policy's encoder.
        rng : numpy.random.Generator, optional
            Required if the policy is stochastic.

        Returns
        -------
        ndarray (n,)
            Labels of the chosen actions: integers if all labels are integers, else objects.
        """
        return label_array(self.action_names)[self.indices(contexts, rng)]

    def __repr__(self) -> str:
        kind = getattr(self, "method", type(self).__name__)
        rows = "" if self.trained_on is None else f", learnt from {self.trained_on.rows:,} rows"
        return f"{type(self).__name__}({kind}, {len(self.action_names):,} actions{rows})"

    def _repr_html_(self) -> str:
        facts = [("actions", join_names([label_text(name) for name in self.action_names]))]
        if self.trained_on is not None:
            facts.append(("learnt from", counted(self.trained_on.rows, "row")))
        costs = getattr(self, "costs", None)
        if costs is not None:
            facts.append(("known costs", f"{np.min(costs):.4g} to {np.max(costs):.4g}"))
        if self.encoder is not None and not self.encoder.is_raw:
            facts.append(("features", self.encoder.described()))
        method = getattr(self, "method", type(self).__name__)
        return card(
            f"Policy: {method}, {counted(len(self.action_names), 'action')}", facts=facts, notes=self.notes
        )

    def rows(self, given: Any, n_features: int | None = None) -> np.ndarray:
        """Contexts (n, d) of arrays or raw columns; d is checked against `n_features` if that is given."""
        named = None if self.encoder is None else self.encoder.named_rows(given)
        rows: Any = given if named is None else named
        if self.encoder is not None and isinstance(rows, np.ndarray):
            rows = self.encoder.completed(rows)
        return checked_contexts(rows, n_features)

    @overload
    def export(
        self,
        format: Literal["json", "sql"],
        path: str | os.PathLike[str] | None = None,
        *,
        dialect: str | None = None,
        table: str | Sequence[str] = "contexts",
    ) -> str: ...

    @overload
    def export(
        self,
        format: Literal["onnx"],
        path: str | os.PathLike[str] | None = None,
        *,
        dialect: str | None = None,
        table: str | Sequence[str] = "contexts",
    ) -> bytes: ...

    def export(
        self,
        format: str,
        path: str | os.PathLike[str] | None = None,
        *,
        dialect: str | None = None,
        table: str | Sequence[str] = "contexts",
    ) -> str | bytes:
        """Return the policy for use without sparing: JSON for JavaScript, a SELECT for a database, or an ONNX model.

        The policy must have linear scores and the same supported actions in every context.

        Parameters
        ----------
        format : {"json", "sql", "onnx"}
            `json`: encoder and scores, for `sparing.load_scorer` and the JavaScript client. `sql`: a query that adds the column
            policy_action to a table. `onnx`: a model with one input per raw column; needs ``sparing[onnx]``.
        path : str or PathLike, optional
            A file to write too; it is whole or not there.
        dialect : {"duckdb", "postgres", "sqlite"}, optional
            The database, for `sql`.
        table : str or sequence of str
            The table with the raw columns, for `sql`: a name, with its schema before a point, or the parts of the name.

        Returns
        -------
        str or bytes
            Bytes for `onnx`.

        Raises
        ------
        SettingError
            If the policy cannot be exported, or not in this format; the message gives the reason.
        """
        from sparing.policies.scorer import Scorer

        one_of("format", format, EXPORTS)
        if dialect is not None and format != "sql":
            raise SettingError(
                f"dialect={dialect!r} with format={format!r}; only sql has dialects. Leave it out"
            )
        if dialect is None and format == "sql":
            raise SettingError("format='sql' needs a database: dialect=duckdb, postgres or sqlite")
        scorer = Scorer.of(self)
        content: str | bytes
        if format == "json":
            content = scorer.to_json()
        elif format == "onnx":
            from sparing.policies.onnx import to_onnx

            content = to_onnx(scorer)
        else:
            from sparing.policies.sql import to_sql

            content = to_sql(scorer, str(dialect), table)
        if path is not None:
            with replacing(Path(path)) as part:
                part.write_bytes(content.encode() if isinstance(content, str) else content)
        return content

    @overload
    def held_out(self, log: Log) -> Log: ...

    @overload
    def held_out(self, log: Rows) -> Rows: ...

    def held_out(self, log: AnyLog) -> AnyLog:
        """Select the rows of the log that were held out when the policy was learned.

        Parameters
        ----------
        log : Log or Scan
            The log that was given to `learn` with ``holdout=``.

        Returns
        -------
        Log or Rows
            The held-out rows; of a scan, rows to be scanned.

        Raises
        ------
        SettingError
            If nothing was held out, or the held-out rows cannot be identified in this log.
        """
        if self.trained_on is None:
            raise SettingError(
                "the policy has no record of its training rows. Learn it with sparing.learn(log, ..., holdout=0.3)"
            )
        return self.trained_on.held_out(log)


@dataclass(frozen=True, eq=False, repr=False)
class DeterministicPolicy(TrainedPolicy):
    """A policy with all probability on one action per context."""

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """1 for the chosen action and 0 for the others, (n, K)."""
        return one_hot(self.indices(contexts), len(self.action_names))


@dataclass(frozen=True, eq=False, repr=False)
class StochasticPolicy(TrainedPolicy):
    """A policy that samples its actions."""

    @abstractmethod
    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """π(a|x), (n, K)."""

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Sample an action for each context, (n,)."""
        if rng is None:
            raise SettingError("this policy is random; pass rng=np.random.default_rng(seed)")
        return sample(self.probabilities(contexts), rng)


@dataclass(frozen=True, eq=False, repr=False)
class LinearScores(TrainedPolicy):
    """Parameters theta (K, d) of a linear policy; other array fields have one entry per action."""

    theta: np.ndarray

    def __post_init__(self) -> None:
        k, d = len(self.action_names), np.shape(self.theta)[-1:]
        _check_shapes(self, theta=(k, *d), inverse=(k, *d, *d), radius=(k,), priority=(k,), costs=(k,))


@dataclass(frozen=True, eq=False, repr=False)
class GreedyPolicy(LinearScores, DeterministicPolicy):
    """argmax_a x·θ_a − cost_a over the supported actions; theta (K, d), costs (K,) or None.

    Ties go to the smallest priority number, (K,). Without `support` every action is allowed.
    """

    priority: np.ndarray
    support: SupportModel | None = None
    method: str = "greedy"
    costs: np.ndarray | None = field(default=None, kw_only=True)

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        x = self.rows(contexts, self.theta.shape[1])
        scores = _less(linear_scores(x, self.theta), self.costs)
        return best_actions(scores, self.priority, _mask(self.support, x))


@dataclass(frozen=True, eq=False, repr=False)
class PessimisticPolicy(LinearScores, DeterministicPolicy):
    """argmax_a x·θ̂_a − ρ_a·sqrt(xᵀV_a⁻¹x) − cost_a, the largest lower confidence bound.

    theta (K, d), inverse (K, d, d) V_a⁻¹, radius (K,) ρ_a, costs (K,) or None; ties go to the smallest priority number.
    """

    inverse: np.ndarray
    radius: np.ndarray
    priority: np.ndarray
    support: SupportModel | None = None
    method: str = "pessimistic"
    costs: np.ndarray | None = field(default=None, kw_only=True)

    def low(self, contexts: np.ndarray) -> np.ndarray:
        """L_a(x) = x·θ̂_a − ρ_a·sqrt(xᵀV_a⁻¹x), of the reward before cost, (n, K)."""
        x = self.rows(contexts, self.theta.shape[1])
        return linear_scores(x, self.theta) - self.radius * widths(self.inverse, x)

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        x = self.rows(contexts, self.theta.shape[1])
        return best_actions(_less(self.low(x), self.costs), self.priority, _mask(self.support, x))


@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxPolicy(LinearScores, StochasticPolicy):
    """π(a|x) ∝ exp(x·θ_a/temperature) over the supported actions, 0 elsewhere; theta (K, d)."""

    temperature: float = 1.0
    support: SupportModel | None = None
    method: str = "softmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        most, scale = np.abs(self.theta).max(initial=0), self.temperature
        if not (np.isfinite(scale) and scale > 0 and most <= LARGEST * min(scale, 1)):
            raise SettingError(
                f"temperature={scale} for parameters up to {most:.4g}; must be a finite number "
                f"above 0, and their ratio none beyond {LARGEST:g}"
            )

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        x = self.rows(contexts, self.theta.shape[1])
        return softmax(x @ self.theta.T / self.temperature, _mask(self.support, x))


@dataclass(frozen=True, eq=False, repr=False)
class BoostedPolicy(DeterministicPolicy):
    """argmax_a of sums of trees over the supported actions; ties go to the smallest priority number, (K,)."""

    trees: Trees
    priority: np.ndarray
    support: SupportModel | None = None
    method: str = "boosted"

    def __post_init__(self) -> None:
        k = len(self.action_names)
        _check_shapes(self, priority=(k,))
        if self.trees.base.shape != (k,):
            raise SettingError(f"trees of {len(self.trees.base)} actions for {k} actions; they must match")

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        x = self.rows(contexts, self.trees.n_features)
        return best_actions(self.scores(x), self.priority, _mask(self.support, x))

    def scores(self, contexts: np.ndarray) -> np.ndarray:
        """Scores whose argmax is played, (n, K)."""
        return self.trees.scores(contexts)


@dataclass(frozen=True, eq=False, repr=False)
class StackedPolicy(BoostedPolicy):
    """argmax_a w₀·x·θ_a + w₁·r̂_a(x), a linear and a boosted reward model; theta (K, d), weights (2,)."""

    theta: np.ndarray = field(kw_only=True)
    weights: np.ndarray = field(kw_only=True)
    method: str = "stacked"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_shapes(self, theta=(len(self.action_names), self.trees.n_features), weights=(2,))

    def scores(self, contexts: np.ndarray) -> np.ndarray:
        linear, trees = self.weights
        return linear * linear_scores(contexts, self.theta) + trees * self.trees.rewards(contexts)


@dataclass(frozen=True, eq=False, repr=False)
class VotingPolicy(DeterministicPolicy):
    """argmax_a Σ_m w_m·π_m(a|x), ties to the smallest priority number, (K,); weights (m,) are positive.

    The fingerprint and the encoder belong to the vote; its members receive encoded contexts.
    """

    members: tuple[Policy, ...]
    weights: np.ndarray
    priority: np.ndarray
    method: str = "votes"

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        _check_shapes(self, priority=(len(self.action_names),))
        fit = weights.shape == (len(self.members),) and bool(((weights > 0) & (weights < np.inf)).all())
        if not self.members or not fit:
            raise SettingError(
                f"weights {weights.tolist()} of {len(self.members)} policies; expected a finite number above 0 "
                "for each of one or more"
            )
        if any(member.action_names != self.action_names for member in self.members):
            raise SettingError(
                "the policies that vote have other actions than the vote; all must have the same"
            )

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        x = self.rows(contexts)
        votes = sum(
            weight * member.probabilities(x)
            for weight, member in zip(self.weights, self.members, strict=True)
        )
        return best_actions(np.asarray(votes), self.priority)


@dataclass(frozen=True, eq=False, repr=False)
class UniformPolicy(StochasticPolicy):
    """Probability 1/K for each action in every context."""

    method: str = "uniform"

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        k = len(self.action_names)
        return np.full((len(self.rows(contexts)), k), 1 / k)


@dataclass(frozen=True, eq=False, repr=False)
class ConstantPolicy(DeterministicPolicy):
    """The same action, given by its label, in every context."""

    action: Hashable
    method: str = "constant"

    def __post_init__(self) -> None:
        if self.action not in self.action_names:
            raise SettingError(f"unknown action {self.action!r}; must be one of {self.action_names!r}")

    def indices(self, contexts: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        return np.full(len(self.rows(contexts)), self.action_names.index(self.action))


def _check_shapes(policy: Any, **shapes: tuple[int, ...]) -> None:
    k = len(policy.action_names)
    for name, shape in shapes.items():
        array = getattr(policy, name, None)
        if array is not None and (np.shape(array) != shape or not np.isfinite(array).all()):
            raise SettingError(
                f"{name} of shape {np.shape(array)} for {k} actions; expected finite numbers of shape {shape}"
            )


def label_array(names: tuple[Hashable, ...]) -> np.ndarray:
    """Labels as an array (K,): integers if all are integers, else objects."""
    if all(type(name) is int and abs(name) < 2**63 for name in names):
        return np.array(names, dtype=np.int64)
    table = np.empty(len(names), dtype=object)
    table[:] = names
    return table


def linear_scores(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """x·θ_a, (n, K)."""
    # Not a matrix product: BLAS rounds edge columns differently, and equal parameters must tie.
    return np.einsum("nd,kd->nk", x, theta)


def _less(scores: np.ndarray, costs: np.ndarray | None) -> np.ndarray:
    return scores if costs is None else scores - costs


def _mask(support: SupportModel | None, contexts: np.ndarray) -> np.ndarray | None:
    return None if support is None else support(contexts)


def sample(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sample one action per row from distributions (n, K)."""
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

    `first_row` is the number of the first row in the whole log, for error messages.
    """
    probabilities_of, places = _probability_function(log, policy)
    for rows in Blocks.of(log.n_rows, log.n_actions):
        size = rows.stop - rows.start
        chances = np.asarray(probabilities_of(rows), dtype=np.float64)
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


def _probability_function(
    log: Log, policy: Policy | np.ndarray
) -> tuple[Callable[[slice], np.ndarray], list[int]]:
    """A function from a slice of rows to probabilities, and the log's action index of each of its columns."""
    if isinstance(policy, np.ndarray):
        if policy.shape != (log.n_rows, log.n_actions):
            raise SettingError(f"policy of shape {policy.shape}; expected {(log.n_rows, log.n_actions)}")
        return policy.__getitem__, list(range(log.n_actions))
    if not hasattr(policy, "action_names"):
        raise SettingError(
            f"a {type(policy).__name__} without action_names; a policy names the actions of its columns, in their order. "
            "Give it action_names = log.action_names"
        )
    place = {name: i for i, name in enumerate(log.action_names)}
    unknown = [name for name in policy.action_names if name not in place]
    if unknown:
        raise SettingError(
            f"the policy has action {unknown[0]!r}, the log does not. Name every action when the log is "
            "read (actions=[...]), so that actions without rows are counted"
        )
    places = [place[name] for name in policy.action_names]
    encoder: Encoder | None = getattr(policy, "encoder", None)
    if encoder is None:
        return (lambda rows: policy.probabilities(log.contexts[rows])), places
    return (lambda rows: policy.probabilities(encoder.aligned(log.encoder, log.contexts[rows]))), places


def mean_probabilities(policy: Policy, log: AnyLog) -> np.ndarray:
    """Mean of π(a|x_i) over the rows of a log, (K,)."""
    rows = as_rows(log)
    return rows.fold(SumOf(partial(_probability_totals, policy))) / rows.n_rows


def _probability_totals(policy: Policy, block: Log, first_row: int) -> np.ndarray:
    return policy.probabilities(block.contexts).sum(axis=0)
