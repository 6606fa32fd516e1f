"""The log: contexts, actions, rewards, and what is known of the policy that wrote it."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparing.errors import LogError
from sparing.log import arguments, labels
from sparing.log.grouping import context_groups, id_groups
from sparing.log.grouping import context_keys as context_keys
from sparing.log.limits import feature_error, first_too_large, number_error
from sparing.log.parsing import brief
from sparing.log.support import Support

CONTRADICTION = 1e-4
"""How far, relatively, a logged propensity may be from its distribution (single-precision columns)."""


@dataclass(frozen=True, eq=False)
class Log:
    """Logged rounds, validated once and then read-only.

    contexts (n, d), actions (n,) as indices into `action_names`, rewards (n,), propensities (n,) of the
    logged actions or None, the support, and, where the caller has them, an id for each row's context.
    Build one with `Log.from_arrays` or `read_log`.
    """

    contexts: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    action_names: tuple[Hashable, ...]
    propensities: np.ndarray | None
    support: Support
    context_ids: np.ndarray | None
    feature_names: tuple[str, ...]

    def __post_init__(self) -> None:
        for array in (self.contexts, self.actions, self.rewards, self.propensities, self.context_ids):
            if array is not None:
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
    ) -> "Log":
        """Build a log from arrays, one row a round.

        Give at most one of `distribution` (n, K; columns in the order of `action_names`), `eligible`
        (for each row the labels it could have taken) and `support`. Without any of them the support is
        unknown. Without `action_names` the actions are those that occur: name them to include actions
        that were never logged.
        """
        distinct, codes = labels.encode(arguments.listed(actions, "actions"))
        sets = None if eligible is None else arguments.EligibleSets.of(eligible)
        if action_names is None:
            seen = distinct + (sets.distinct if sets else [])
            action_names = labels.in_order(label for label in seen if not labels.missing(label))
        names = labels.action_names(action_names)
        index = {name: i for i, name in enumerate(names)}
        indices = labels.positions(distinct, codes, index)
        table = (
            None if distribution is None else arguments.distributions(distribution, len(codes), len(names))
        )
        return cls.from_indices(
            arguments.floats(contexts, "contexts"),
            indices,
            arguments.floats(rewards, "rewards"),
            names,
            propensities=None if propensities is None else arguments.floats(propensities, "propensities"),
            logged_probabilities=None if table is None else table[np.arange(len(codes)), indices],
            support=arguments.support_from(index, table, sets, support),
            context_ids=context_ids,
            feature_names=feature_names,
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
    ) -> "Log":
        """Build a log from arrays that it may keep and make read-only; actions are indices.

        `logged_probabilities` (n,) are the full distributions' probabilities of the logged actions; they
        are given where the distributions may be too many for the support to keep.
        """
        _check_contexts(contexts, feature_names)
        n, d = contexts.shape
        if actions.shape != (n,):
            raise LogError(f"{len(actions)} actions for {n} contexts; expected one a row")
        if n and not 0 <= int(actions.min()) <= int(actions.max()) < len(action_names):
            raise LogError(f"action indices must be in [0, {len(action_names)})")
        _check_vector(rewards, n, "reward")
        support = Support.unknown(n, len(action_names)) if support is None else support
        if (support.n_rows, support.n_actions) != (n, len(action_names)):
            raise LogError(
                f"support of {support.n_rows} rows and {support.n_actions} actions; "
                f"expected {n} and {len(action_names)}"
            )
        if logged_probabilities is None:
            logged_probabilities = _logged(support, actions)
        log = cls(
            contexts,
            actions,
            rewards,
            action_names,
            _propensities(propensities, n, logged_probabilities),
            support,
            arguments.identifiers(context_ids, n),
            arguments.feature_names(feature_names, d),
        )
        log._check_support()
        return log

    @classmethod
    def empty(cls, *, action_names: Sequence[Hashable], n_features: int) -> "Log":
        """A log without rows: a cold start with named actions."""
        return cls.from_arrays(np.empty((0, n_features)), [], [], action_names=action_names)

    @property
    def n_rows(self) -> int:
        """Logged rounds, n."""
        return len(self.actions)

    @property
    def n_actions(self) -> int:
        """Actions, logged or not, K."""
        return len(self.action_names)

    @property
    def n_features(self) -> int:
        """Length of a context, d."""
        return int(self.contexts.shape[1])

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def counts(self) -> np.ndarray:
        """N_a: rows of each action, (K,)."""
        counts = np.bincount(self.actions, minlength=self.n_actions)
        counts.setflags(write=False)
        return counts

    @cached_property
    def groups(self) -> np.ndarray:
        """Which distinct context each row is, (n,): by its id where the log has ids, else by its bytes."""
        ids = self.context_ids
        groups = context_groups(self.contexts) if ids is None else id_groups(ids)
        groups.setflags(write=False)
        return groups

    @property
    def n_contexts(self) -> int:
        """Distinct contexts."""
        return int(self.groups.max()) + 1 if self.n_rows else 0

    def take(self, rows: Any) -> "Log":
        """A log of some of the rows, in the order given (indices or a boolean mask)."""
        chosen = np.arange(self.n_rows)[rows]
        return Log(
            self.contexts[chosen],
            self.actions[chosen],
            self.rewards[chosen],
            self.action_names,
            None if self.propensities is None else self.propensities[chosen],
            self.support.take(chosen),
            None if self.context_ids is None else self.context_ids[chosen],
            self.feature_names,
        )

    def _check_support(self) -> None:
        if not self.support.known or not self.n_rows:
            return
        outside = ~self.support.contains(np.arange(self.n_rows), self.actions)
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise LogError(
                f"action {brief(self.action_names[self.actions[row]])} was logged at row {row} but is outside that "
                f"row's support; {int(outside.sum())} rows in all. Mend the eligible sets or the distribution"
            )

    def __repr__(self) -> str:
        propensities = "no propensities" if self.propensities is None else "propensities"
        return (
            f"Log({self.n_rows} rows, {self.n_actions} actions, {self.n_features} features, "
            f"{propensities}, support {self.support.kind})"
        )


def _check_contexts(contexts: np.ndarray, names: Sequence[str] | None) -> None:
    if contexts.ndim != 2 or contexts.shape[1] < 1:
        raise LogError(
            f"contexts of shape {contexts.shape}; expected (rows, features) with a feature or more"
        )
    place = first_too_large(contexts)
    if place < 0:
        return
    row, column = divmod(place, contexts.shape[1])
    raise feature_error(contexts[row, column], row, column, names)


def _check_vector(values: np.ndarray, n: int, what: str) -> None:
    if values.shape != (n,):
        raise LogError(f"{what} values of shape {values.shape} for {n} contexts; expected ({n},)")
    bad = first_too_large(values)
    if bad >= 0:
        raise number_error(what, values[bad], bad)


def _logged(support: Support, actions: np.ndarray) -> np.ndarray | None:
    """What the exact distributions, where kept, say of the logged actions, (n,)."""
    if support.kind != "exact" or support.probabilities is None:
        return None
    where = np.arange(support.n_rows) if support.index is None else support.index
    return support.probabilities[where, actions]


def _propensities(propensities: np.ndarray | None, n: int, logged: np.ndarray | None) -> np.ndarray | None:
    if propensities is None:
        return None if logged is None else np.minimum(logged, 1.0)  # a sum of 1 may be off by rounding
    _check_vector(propensities, n, "propensity")
    bad = np.flatnonzero((propensities <= 0) | (propensities > 1))
    if len(bad):
        raise LogError(
            f"propensity {propensities[bad[0]]} at row {bad[0]}; must be in (0, 1]. "
            "Drop the row, or pass propensities=None to learn without IPS"
        )
    if logged is not None:
        off = np.flatnonzero(np.abs(propensities - logged) > CONTRADICTION * propensities)
        if len(off):
            row = off[0]
            raise LogError(
                f"propensity {propensities[row]:.6g} at row {row} contradicts the distribution's "
                f"{logged[row]:.6g} for the logged action; {len(off)} rows in all. Give one of the two"
            )
    return propensities
