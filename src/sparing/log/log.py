"""The log: contexts, actions, rewards, and the propensities and support of the logging policy."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sparing.errors import LogError
from sparing.hashing import context_hashes, groups_of, id_hashes, mix64
from sparing.log import labels
from sparing.log.costs import action_costs
from sparing.log.features.columns import all_valid
from sparing.log.features.encoder import Encoder
from sparing.log.items import Items
from sparing.log.labels import shorten, truncate
from sparing.log.limits import LARGEST
from sparing.log.support import EligibleSets, Support
from sparing.report.notebook import card

# Relative difference that is allowed between a propensity and its distribution: columns may be in single precision.
CONTRADICTION = 1e-4

# Kinds of arrays that NumPy would convert to wrong numbers, or not at all.
NON_NUMERIC_KINDS = {
    "c": "complex",
    "M": "dates",
    "m": "durations",
    "U": "text",
    "S": "bytes",
    "V": "records",
}

MAX_NAMES_SHOWN = 12


@dataclass(frozen=True, eq=False)
class Log:
    """Logged rounds, validated once and then read-only. Build one with `Log.from_arrays` or `read_log`.

    Attributes
    ----------
    contexts : (n, d) array
    actions : (n,) array of int
        Indices into `action_names`.
    rewards : (n,) array
    action_names : tuple
        Labels of all K actions, logged or not.
    propensities : (n,) array or None
        Probabilities of the logged actions, in (0, 1].
    support : Support
        The actions that each row could have taken.
    context_ids : (n,) array or None
        Ids of the contexts; rows with the same id have the same context.
    encoder : Encoder
        Encodes raw columns as contexts; a raw one if the contexts are numbers as they were given.
    items : Items or None
        Features of the actions.
    costs : (K,) array, (n, K) array or None
        Known costs of playing each action, in units of the reward: the same in every row, or by row. Rewards are before
        cost. None if none is known.
    """

    contexts: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    action_names: tuple[Hashable, ...]
    propensities: np.ndarray | None
    support: Support
    context_ids: np.ndarray | None
    encoder: Encoder
    items: Items | None = None
    costs: np.ndarray | None = None

    def __post_init__(self) -> None:
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @classmethod
    def from_arrays(
        cls,
        contexts: Any,
        actions: Any,
        rewards: Any,
        *,
        propensities: Any = None,
        distribution: Any = None,
        eligible: Iterable[Sequence[Hashable]] | None = None,
        support: Support | None = None,
        action_names: Sequence[Hashable] | None = None,
        context_ids: Any = None,
        feature_names: Sequence[str] | None = None,
        costs: Any = None,
    ) -> "Log":
        """Build a log from arrays, one row a round.

        Give at most one of `distribution`, `eligible` and `support`; without any the support is unknown.

        Parameters
        ----------
        contexts : (n, d) array_like
            Features, finite and at most 1e50 in magnitude.
        actions : (n,) array_like
            Labels of the logged actions.
        rewards : (n,) array_like
        propensities : (n,) array_like, optional
            Probabilities of the logged actions, in (0, 1]; by default those of `distribution`.
        distribution : (n, K) array_like, optional
            Probabilities of all actions, in the order of `action_names`; each row sums to 1.
        eligible : iterable of n sequences, optional
            The labels that each row could have taken.
        support : Support, optional
        action_names : sequence, optional
            Labels of all actions, to include those that were never logged; by default those that occur.
        context_ids : (n,) array_like of int or str, optional
        feature_names : sequence of d str, optional
            By default x_0, x_1, ….
        costs : mapping, sequence of K numbers or (n, K) array_like, optional
            Known costs of playing the actions, in units of the reward: by label, in the order of `action_names`, or by row.
            `rewards` are before cost.

        Raises
        ------
        LogError
            If values are missing, out of range or contradictory; the message names the first row.

        Examples
        --------
        >>> import sparing
        >>> sparing.Log.from_arrays([[1.0, 0.2], [1.0, 0.7]], ["a", "b"], [0.0, 1.0])
        Log(2 rows, 2 actions, 2 features, no propensities, support unknown)
        """
        choices = {"distribution": distribution, "eligible": eligible, "support": support}
        given = [name for name, value in choices.items() if value is not None]
        if len(given) > 1:
            raise LogError(f"got {' and '.join(given)}; give one of them, the other follows from it")
        distinct, codes = labels.encode(_as_list(actions, "actions"))
        sets = None if eligible is None else EligibleSets.of(eligible)
        if action_names is None:
            seen = distinct + (sets.distinct if sets else [])
            action_names = labels.in_order(label for label in seen if not labels.missing(label))
        names = labels.action_names(action_names)
        index = {name: i for i, name in enumerate(names)}
        indices = labels.positions(distinct, codes, index)
        logged = None
        if distribution is not None:
            table, shape = floats(distribution, "probabilities", copy=None), (len(codes), len(names))
            if table.shape != shape:
                raise LogError(f"distribution of shape {table.shape}; expected {shape}, one column an action")
            support, logged = Support.from_distribution(table), table[np.arange(len(codes)), indices]
        elif sets is not None:
            support = sets.support(index)
        return cls.from_indices(
            floats(contexts, "contexts"),
            indices,
            floats(rewards, "rewards"),
            names,
            propensities=None if propensities is None else floats(propensities, "propensities"),
            logged_probabilities=logged,
            support=support,
            context_ids=context_ids,
            feature_names=feature_names,
            costs=None if costs is None else as_costs(costs, names),
        )

    @classmethod
    def from_indices(
        cls,
        contexts: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        action_names: tuple[Hashable, ...],
        *,
        propensities: np.ndarray | None = None,
        logged_probabilities: np.ndarray | None = None,
        support: Support | None = None,
        context_ids: Any = None,
        feature_names: Sequence[str] | None = None,
        encoder: Encoder | None = None,
        costs: np.ndarray | None = None,
        first_row: int = 0,
    ) -> "Log":
        """Build a log from arrays that it keeps and makes read-only.

        Parameters
        ----------
        contexts, actions, rewards, action_names, propensities, context_ids, costs
            As the attributes of a log.
        logged_probabilities : (n,) array, optional
            Probabilities of the logged actions by the full distributions, if the support may be too large to keep them.
        support : Support, optional
            By default unknown.
        feature_names : sequence of d str, optional
            Names of raw features; ignored with an `encoder`.
        encoder : Encoder, optional
            The encoder that made the contexts; by default they are raw numbers.
        first_row : int
            Number of the first row in a longer log, for errors.
        """
        if encoder is not None:
            feature_names = encoder.names
        if contexts.ndim != 2 or contexts.shape[1] < 1:
            raise LogError(
                f"contexts of shape {contexts.shape}; expected (rows, features) with a feature or more; without any, pass a column of ones"
            )
        check_features(contexts, feature_names, first_row=first_row)
        n, d = contexts.shape
        if actions.shape != (n,):
            raise LogError(f"{len(actions)} actions for {n} contexts; expected one a row")
        if n and not 0 <= int(actions.min()) <= int(actions.max()) < len(action_names):
            raise LogError(f"action indices must be in [0, {len(action_names)})")
        _check_vector(rewards, n, "reward", first_row)
        support = Support.unknown(n, len(action_names)) if support is None else support
        if (support.n_rows, support.n_actions) != (n, len(action_names)):
            raise LogError(
                f"support of {support.n_rows} rows and {support.n_actions} actions; "
                f"expected {n} and {len(action_names)}"
            )
        if logged_probabilities is None and support.kind == "exact" and support.probabilities is not None:
            logged_probabilities = support.probabilities[support.places(np.arange(n)), actions]
        log = cls(
            contexts,
            actions,
            rewards,
            action_names,
            _propensities(propensities, n, logged_probabilities, first_row),
            support,
            labels.identifiers(context_ids, n),
            encoder or Encoder.raw(labels.feature_names(feature_names, d)),
            costs=None if costs is None else _checked_costs(costs, n, action_names, first_row),
        )
        if support.known and n:
            outside = np.flatnonzero(~support.contains(np.arange(n), actions))
            if len(outside):
                raise LogError(
                    f"action {shorten(action_names[actions[outside[0]]])} was logged at row {first_row + outside[0]} but is "
                    f"outside that row's support; {len(outside)} rows in all. Correct the eligible sets or the distribution"
                )
        return log

    @classmethod
    def empty(cls, *, action_names: Sequence[Hashable], n_features: int) -> "Log":
        """Build a log without rows, to start a learner from named actions alone.

        Parameters
        ----------
        action_names : sequence
            Labels of the actions, (K,).
        n_features : int
            Number of features, d.

        Examples
        --------
        >>> import sparing
        >>> sparing.Log.empty(action_names=["a", "b"], n_features=3).n_rows
        0
        """
        return cls.from_arrays(np.empty((0, n_features)), [], [], action_names=action_names)

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return len(self.actions)

    @property
    def n_actions(self) -> int:
        """Number of actions, logged or not, K."""
        return len(self.action_names)

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return int(self.contexts.shape[1])

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, (d,)."""
        return self.encoder.names

    @cached_property
    def binary(self) -> bool:
        """Whether every reward is 0 or 1."""
        return bool(self.n_rows and ((self.rewards == 0) | (self.rewards == 1)).all())

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of rows of each action, N_a, (K,)."""
        counts = np.bincount(self.actions, minlength=self.n_actions)
        counts.setflags(write=False)
        return counts

    @cached_property
    def groups(self) -> np.ndarray:
        """Index of each row's distinct context, (n,): by its id if the log has ids, else by its features."""
        groups = groups_of(self.contexts if self.context_ids is None else self.context_ids)
        groups.setflags(write=False)
        return groups

    @cached_property
    def context_hashes(self) -> np.ndarray:
        """Hash of each row's context, (n,), which folds, splits and fingerprints need."""
        return context_hashes(self.contexts)

    @property
    def n_contexts(self) -> int:
        """Number of distinct contexts."""
        return int(self.groups.max()) + 1 if self.n_rows else 0

    def take(self, rows: Any) -> "Log":
        """Select rows.

        Parameters
        ----------
        rows : array_like
            Indices, or a boolean mask (n,).

        Returns
        -------
        Log
            The selected rows, in the order of `rows`.
        """
        chosen = np.arange(self.n_rows)[rows]
        return self._with_rows(chosen, self.support.take(chosen))

    def part(self, rows: slice) -> "Log":
        """Select consecutive rows without a copy.

        Parameters
        ----------
        rows : slice
        """
        return self._with_rows(rows, self.support.part(rows))

    def _with_rows(self, rows: Any, support: Support) -> "Log":
        return replace(
            self,
            contexts=self.contexts[rows],
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            propensities=None if self.propensities is None else self.propensities[rows],
            support=support,
            context_ids=None if self.context_ids is None else self.context_ids[rows],
            costs=self.costs if self.costs is None or self.costs.ndim == 1 else self.costs[rows],
        )

    @property
    def logged_costs(self) -> np.ndarray:
        """Known cost of the logged action in each row, (n,); 0 if no costs are known."""
        if self.costs is None:
            return np.zeros(self.n_rows)
        by_row = self.costs.ndim == 2
        return self.costs[np.arange(self.n_rows), self.actions] if by_row else self.costs[self.actions]

    def net(self) -> "Log":
        """Return the same log with rewards less the known costs of the logged actions, and without costs."""
        if self.costs is None:
            return self
        return replace(self, rewards=self.rewards - self.logged_costs, costs=None)

    def __repr__(self) -> str:
        propensities = "no propensities" if self.propensities is None else "propensities"
        return (
            f"Log({self.n_rows} rows, {self.n_actions} actions, {self.n_features} features, "
            f"{propensities}, support {self.support.kind})"
        )

    def _repr_html_(self) -> str:
        return card_of(self, "Log", self.n_rows)


def _checked_costs(costs: np.ndarray, n: int, names: tuple[Hashable, ...], first_row: int) -> np.ndarray:
    k = len(names)
    if costs.shape not in ((k,), (n, k)):
        raise LogError(
            f"costs of shape {costs.shape}; expected ({k},), one an action, or {(n, k)}, one column an action"
        )
    if costs.ndim == 2:
        for name, column in zip(names, costs.T, strict=True):
            check_numbers(column, f"cost of action {shorten(name)}", first_row=first_row)
    return costs


def _check_vector(values: np.ndarray, n: int, what: str, first_row: int) -> None:
    if values.shape != (n,):
        raise LogError(f"{what} values of shape {values.shape} for {n} contexts; expected ({n},)")
    check_numbers(values, what, first_row=first_row)


def _propensities(
    propensities: np.ndarray | None, n: int, logged: np.ndarray | None, first_row: int
) -> np.ndarray | None:
    if propensities is None:
        return None if logged is None else np.minimum(logged, 1.0)  # a sum of 1 may be off by rounding
    _check_vector(propensities, n, "propensity", first_row)
    bad = np.flatnonzero((propensities <= 0) | (propensities > 1))
    if len(bad):
        raise LogError(
            f"propensity {propensities[bad[0]]} at row {first_row + bad[0]}; must be in (0, 1]. "
            "Drop the row, or learn without propensities (propensity=None; in Log.from_arrays, propensities=None)"
        )
    if logged is not None:
        off = np.flatnonzero(np.abs(propensities - logged) > CONTRADICTION * propensities)
        if len(off):
            row = off[0]
            raise LogError(
                f"propensity {propensities[row]:.6g} at row {first_row + row} contradicts the distribution's "
                f"{logged[row]:.6g} for the logged action; {len(off)} rows in all. Give one of the two"
            )
    return propensities


def check_features(
    contexts: np.ndarray | Sequence[np.ndarray], names: Sequence[str] | None, *, first_row: int = 0
) -> None:
    """Reject contexts, an array (n, d) or columns (n,), with a feature that is not finite or too large."""
    if isinstance(contexts, np.ndarray):
        if all_valid(contexts):
            return
        contexts = list(contexts.T)
    for j, column in enumerate(contexts):
        name = names[j][: labels.SHORT_LENGTH] if names is not None and j < len(names) else f"x_{j}"
        called = "" if name == f"x_{j}" else f" ({name})"
        check_numbers(column, f"context feature {j}{called}", first_row=first_row)


def check_numbers(values: np.ndarray, what: str, *, first_row: int = 0) -> None:
    """Reject numbers (n,) that are not finite, or too large to be summed."""
    if all_valid(values):
        return
    row = np.flatnonzero(~(np.abs(values) <= LARGEST))[0]
    rule = "finite. Fill it in"
    if np.isfinite(values[row]):
        rule = f"at most {LARGEST:g} in size. Scale it"
    raise LogError(f"{what} at row {first_row + row} is {values[row]}; it must be {rule}, or drop the row")


def as_costs(costs: Any, names: Sequence[Hashable]) -> np.ndarray:
    """Costs of the actions, (K,), or by row, (n, K), from a mapping, a sequence or a table."""
    axes = np.ndim(costs) if isinstance(costs, list | tuple) else getattr(costs, "ndim", 1)
    if isinstance(costs, Mapping) or axes != 2:
        return action_costs(costs, names, error=LogError)
    if hasattr(costs, "columns"):  # a frame: its columns are named by action
        absent = [name for name in names if name not in list(costs.columns)]
        if absent:
            raise LogError(
                f"costs has no column for action {shorten(absent[0])}; expected one an action, named by its label"
            )
        costs = costs[list(names)]
    return floats(costs, "costs")


def _as_list(values: Any, what: str) -> Any:
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise LogError(f"{what} of shape {values.shape}; expected one a row")
        return values
    return values.tolist() if hasattr(values, "tolist") else list(values)


def floats(values: Any, what: str, *, copy: bool | None = True) -> np.ndarray:
    """Convert numbers to an array of floats; an array of floats is copied unless `copy` is None."""
    try:
        array = np.asarray(values)
        kind = NON_NUMERIC_KINDS.get(array.dtype.kind)
        if array.dtype.kind == "O" and any(
            issubclass(each, str | bytes) for each in set(map(type, array.flat))
        ):
            kind = "text"
        if kind is None:
            return np.array(array, dtype=np.float64, order="C", copy=copy)
    except (TypeError, ValueError, OverflowError) as error:
        raise LogError(f"{what} are not all numbers: {str(error)[:200]}") from None
    raise LogError(f"{what} are not all numbers, but {kind}. Convert them to numbers first")


def group_hashes(log: Log) -> np.ndarray:
    """Mixed hashes (n,) of each row's context: of its id if the log has ids, else of its bytes."""
    return mix64(log.context_hashes if log.context_ids is None else id_hashes(log.context_ids))


def card_of(header: Log, kind: str, rows: int) -> str:
    """The HTML of a log with this number of rows; the header of a scan has none itself."""
    title = f"{kind}: {rows:,} rows, {header.n_actions:,} actions, {header.n_features:,} features"
    return card(title, facts=_facts(header))


def _facts(log: Log) -> Iterator[tuple[str, str]]:
    more = f", … {log.n_actions - MAX_NAMES_SHOWN:,} more" if log.n_actions > MAX_NAMES_SHOWN else ""
    yield "actions", ", ".join(truncate(str(name)) for name in log.action_names[:MAX_NAMES_SHOWN]) + more
    more = ", …" if log.n_features > MAX_NAMES_SHOWN else ""
    named = ", ".join(log.feature_names[:MAX_NAMES_SHOWN]) + more
    yield "features", named if log.encoder.is_raw else log.encoder.described()
    if log.n_rows:
        low, high = log.rewards.min(), log.rewards.max()
        yield "rewards", f"mean {log.rewards.mean():.4g}, from {low:.4g} to {high:.4g}"
    yield "propensities", "none logged" if log.propensities is None else "logged"
    if log.costs is not None:
        yield "costs", "known, by row" if log.costs.ndim == 2 else "known"
    yield "support", log.support.kind
