"""The log: contexts, actions, rewards, and what is known of the policy that wrote it."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.features.columns import all_valid
from sparing.log.features.encoder import Encoder
from sparing.log.hashing import groups_of
from sparing.log.items import Items
from sparing.log.labels import shorten, truncate
from sparing.log.limits import LARGEST
from sparing.log.support import EligibleSets, Support
from sparing.report.notebook import card

CONTRADICTION = 1e-4
"""How far, relatively, a logged propensity may be from its distribution (single-precision columns)."""

ODD_KINDS = {"c": "complex", "M": "dates", "m": "durations", "U": "text", "S": "bytes", "V": "records"}
"""Kinds of arrays that NumPy turns into numbers, quietly and wrongly, or not at all."""


@dataclass(frozen=True, eq=False)
class Log:
    """Logged rounds, validated once and then read-only.

    contexts (n, d), actions (n,) as indices into `action_names`, rewards (n,), propensities (n,) of the
    logged actions or None, the support, where the caller has them an id for each row's context, and the
    encoder that made the contexts of raw columns (one that takes numbers as they are, where they came so);
    `items` are features of the actions themselves, where there are any. Build one with `Log.from_arrays` or `read_log`.
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
        distinct, codes = labels.encode(_listed(actions, "actions"))
        sets = None if eligible is None else EligibleSets.of(eligible)
        if action_names is None:
            seen = distinct + (sets.distinct if sets else [])
            action_names = labels.in_order(label for label in seen if not labels.missing(label))
        names = labels.action_names(action_names)
        index = {name: i for i, name in enumerate(names)}
        indices = labels.positions(distinct, codes, index)
        table = None if distribution is None else _distributions(distribution, len(codes), len(names))
        return cls.from_indices(
            floats(contexts, "contexts"),
            indices,
            floats(rewards, "rewards"),
            names,
            propensities=None if propensities is None else floats(propensities, "propensities"),
            logged_probabilities=None if table is None else table[np.arange(len(codes)), indices],
            support=_support(index, table, sets, support),
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
        encoder: Encoder | None = None,
        first_row: int = 0,
    ) -> "Log":
        """Build a log from arrays that it may keep and make read-only; actions are indices.

        `logged_probabilities` (n,) are the full distributions' probabilities of the logged actions; they
        are given where the distributions may be too many for the support to keep. `encoder` made the contexts;
        without one they are raw numbers with `feature_names`. `first_row` is the first row's number in a longer log, for errors.
        """
        if encoder is not None:
            feature_names = encoder.names
        if contexts.ndim != 2 or contexts.shape[1] < 1:
            raise LogError(
                f"contexts of shape {contexts.shape}; expected (rows, features) with a feature or more"
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
        if logged_probabilities is None:
            logged_probabilities = _logged(support, actions)
        log = cls(
            contexts,
            actions,
            rewards,
            action_names,
            _propensities(propensities, n, logged_probabilities, first_row),
            support,
            labels.identifiers(context_ids, n),
            encoder or Encoder.raw(labels.feature_names(feature_names, d)),
        )
        log._check_support(first_row)
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

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each coordinate of a context, (d,)."""
        return self.encoder.names

    @cached_property
    def binary(self) -> bool:
        """Whether every reward is 0 or 1, so that no mean reward lies outside."""
        return bool(self.n_rows and ((self.rewards == 0) | (self.rewards == 1)).all())

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
        groups = groups_of(self.contexts if self.context_ids is None else self.context_ids)
        groups.setflags(write=False)
        return groups

    @property
    def n_contexts(self) -> int:
        """Distinct contexts."""
        return int(self.groups.max()) + 1 if self.n_rows else 0

    def take(self, rows: Any) -> "Log":
        """A log of some of the rows, in the order given (indices or a boolean mask)."""
        chosen = np.arange(self.n_rows)[rows]
        return self._of(chosen, self.support.take(chosen))

    def part(self, rows: slice) -> "Log":
        """The log of a run of rows, without a copy."""
        return self._of(rows, self.support.part(rows))

    def _of(self, rows: Any, support: Support) -> "Log":
        return replace(
            self,
            contexts=self.contexts[rows],
            actions=self.actions[rows],
            rewards=self.rewards[rows],
            propensities=None if self.propensities is None else self.propensities[rows],
            support=support,
            context_ids=None if self.context_ids is None else self.context_ids[rows],
        )

    def _check_support(self, first_row: int) -> None:
        if not self.support.known or not self.n_rows:
            return
        outside = np.flatnonzero(~self.support.contains(np.arange(self.n_rows), self.actions))
        if len(outside):
            name = shorten(self.action_names[self.actions[outside[0]]])
            raise LogError(
                f"action {name} was logged at row {first_row + outside[0]} but is outside that row's support; {len(outside)} "
                "rows in all. Mend the eligible sets or the distribution"
            )

    def __repr__(self) -> str:
        propensities = "no propensities" if self.propensities is None else "propensities"
        return (
            f"Log({self.n_rows} rows, {self.n_actions} actions, {self.n_features} features, "
            f"{propensities}, support {self.support.kind})"
        )

    def _repr_html_(self) -> str:

        return card_of(self, "Log", self.n_rows)


def _distributions(values: Any, n: int, k: int) -> np.ndarray:
    """Full action distributions, (n, K)."""
    table = floats(values, "probabilities", copy=None)
    if table.shape != (n, k):
        raise LogError(f"distribution of shape {table.shape}; expected ({n}, {k}), one column an action")
    return table


def _support(
    index: dict[Hashable, int],
    distribution: np.ndarray | None,
    sets: EligibleSets | None,
    support: Support | None,
) -> Support | None:
    """The support by whichever of the three is given; None where none is."""
    choices = {"distribution": distribution, "eligible": sets, "support": support}
    given = [name for name, value in choices.items() if value is not None]
    if len(given) > 1:
        raise LogError(f"got {' and '.join(given)}; give one of them, the other follows from it")
    if distribution is not None:
        return Support.from_distribution(distribution)
    return support if sets is None else sets.support(index)


def _check_vector(values: np.ndarray, n: int, what: str, first_row: int) -> None:
    if values.shape != (n,):
        raise LogError(f"{what} values of shape {values.shape} for {n} contexts; expected ({n},)")
    check_numbers(values, what, first_row=first_row)


def _logged(support: Support, actions: np.ndarray) -> np.ndarray | None:
    """What the exact distributions, where kept, say of the logged actions, (n,)."""
    if support.kind != "exact" or support.probabilities is None:
        return None
    return support.probabilities[support.places(np.arange(support.n_rows)), actions]


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
    """Refuse contexts, as rows (n, d) or as columns (n,), of which a feature is not finite or too large."""
    if isinstance(contexts, np.ndarray):
        if all_valid(contexts):
            return
        contexts = list(contexts.T)
    for j, column in enumerate(contexts):
        name = names[j][: labels.SHORT_LENGTH] if names is not None and j < len(names) else f"x_{j}"
        called = "" if name == f"x_{j}" else f" ({name})"
        check_numbers(column, f"context feature {j}{called}", first_row=first_row)


def check_numbers(values: np.ndarray, what: str, *, first_row: int = 0) -> None:
    """Refuse numbers (n,) that are not finite, or too large to be summed."""
    if all_valid(values):
        return
    row = np.flatnonzero(~(np.abs(values) <= LARGEST))[0]
    rule = "finite. Fill it in"
    if np.isfinite(values[row]):
        rule = f"at most {LARGEST:g} in size. Scale it"
    raise LogError(f"{what} at row {first_row + row} is {values[row]}; it must be {rule}, or drop the row")


def _listed(values: Any, what: str) -> Any:
    """A one-dimensional array, or a list."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise LogError(f"{what} of shape {values.shape}; expected one a row")
        return values
    return values.tolist() if hasattr(values, "tolist") else list(values)


def floats(values: Any, what: str, *, copy: bool | None = True) -> np.ndarray:
    """Numbers as an array of floats; of the caller's own array a copy, unless `copy` is None."""
    try:
        array = np.asarray(values)
        odd = _odd(array)
        if odd is None:
            return np.array(array, dtype=np.float64, order="C", copy=copy)
    except (TypeError, ValueError, OverflowError) as error:
        raise LogError(f"{what} are not all numbers: {str(error)[:200]}") from None
    raise LogError(f"{what} are not all numbers, but {odd}. Turn each into a number first")


def _odd(array: np.ndarray) -> str | None:
    """What an array holds, if it is something that NumPy would make numbers of though it is none."""
    if array.dtype.kind != "O":
        return ODD_KINDS.get(array.dtype.kind)
    kinds = {type(value) for value in array.flat}
    return "text" if any(issubclass(kind, str | bytes) for kind in kinds) else None


NAMED = 12
"""Actions whose names are shown."""


def card_of(header: Log, kind: str, rows: int) -> str:
    """A log of so many rows; where it is walked, `header` has none of them."""
    title = f"{kind}: {rows:,} rows, {header.n_actions:,} actions, {header.n_features:,} features"
    return card(title, facts=_facts(header))


def _facts(log: Log) -> Iterator[tuple[str, str]]:
    more = f", … {log.n_actions - NAMED:,} more" if log.n_actions > NAMED else ""
    yield "actions", ", ".join(truncate(str(name)) for name in log.action_names[:NAMED]) + more
    named = ", ".join(log.feature_names[:NAMED]) + (", …" if log.n_features > NAMED else "")
    yield "features", named if log.encoder.is_raw else log.encoder.described()
    if log.n_rows:
        low, high = log.rewards.min(), log.rewards.max()
        yield "rewards", f"mean {log.rewards.mean():.4g}, from {low:.4g} to {high:.4g}"
    yield "propensities", "none logged" if log.propensities is None else "logged"
    yield "support", log.support.kind
