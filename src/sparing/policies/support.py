"""Supported actions by context, for new contexts too, and policies given as a table of contexts."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sparing.errors import DecisionError, LogError, SettingError
from sparing.hashing import ContextIndex, distinct
from sparing.log import Log
from sparing.log.rows import AnyLog, InMemoryRows, as_rows
from sparing.log.support import check_distribution
from sparing.model.crossfitting import fit_log_odds
from sparing.policies.policy import LARGEST, Policy, StochasticPolicy, SupportModel, checked_contexts

MOST_ROWS, FEW_ROWS, PAIRS = 16_384, 2_048, 2**20
"""Rows from which the support of new contexts is learned: at most MOST_ROWS, and PAIRS/K but at least FEW_ROWS."""


class ContextTable:
    """Entries for distinct contexts (m, d), looked up by their bytes."""

    contexts: np.ndarray

    def __post_init__(self) -> None:
        known = self.contexts
        if known.ndim != 2 or known.dtype != np.float64 or not (np.abs(known) <= LARGEST).all():
            raise SettingError(
                f"known contexts of shape {known.shape} and type {known.dtype}; expected float64 (m, d), "
                f"finite and none beyond {LARGEST:g}"
            )

    @cached_property
    def index(self) -> ContextIndex:
        index = ContextIndex(self.contexts)
        if index.repeats:
            raise SettingError("a context is listed twice; each may have one set or one distribution")
        return index


@dataclass(frozen=True, eq=False)
class KnownSupport(ContextTable):
    """Supported sets of distinct contexts (m, d) as packed bits (m, ceil(K/8)), and a rule for all others.

    Another context supports action a of `elsewhere` (K,) if x·l_a + l_a0 ≥ 0, where lines (K, d + 1) hold l_a and l_a0
    last; if that leaves none, the action with the largest value. Without lines it supports all of `elsewhere`.
    """

    contexts: np.ndarray
    sets: np.ndarray
    elsewhere: np.ndarray
    lines: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        super().__post_init__()
        k = len(self.elsewhere)
        if self.lines.size and self.lines.shape != (k, self.contexts.shape[1] + 1):
            raise SettingError(
                f"lines of shape {self.lines.shape} for {k} actions of {self.contexts.shape[1]} features; expected a row of "
                "one number more than features for each action"
            )
        packed = self.sets.dtype == np.uint8 and self.sets.shape == (len(self.contexts), (k + 7) // 8)
        if not packed or self.elsewhere.dtype != bool:
            raise SettingError(
                f"sets of shape {self.sets.shape} and type {self.sets.dtype} for {len(self.contexts)} contexts, {k} actions; expected "
                "one packed row for each context and a boolean for each action"
            )
        if not self.elsewhere.any():
            raise SettingError("no supported action for new contexts; there must be at least one")

    @classmethod
    def fixed(cls, mask: np.ndarray, n_features: int) -> "KnownSupport":
        """One set (K,) for every context."""
        empty = np.empty((0, (len(mask) + 7) // 8), dtype=np.uint8)
        return cls(np.empty((0, n_features)), empty, np.array(mask, dtype=bool))

    @classmethod
    def of(cls, log: Log) -> "KnownSupport":
        """The log's sets, their union where a context repeats; elsewhere, all actions supported in some row."""
        mask = log.support.mask()
        anywhere = np.logical_or.reduce(mask, axis=0)
        if (mask == anywhere).all():
            return cls.fixed(anywhere, log.n_features)
        first, group = distinct(log.contexts)
        union = np.zeros((len(first), log.n_actions), dtype=bool)
        np.logical_or.at(union, group, mask)
        return cls(log.contexts[first], np.packbits(union, axis=1), anywhere)

    def with_learned_lines(self, log: Log) -> "KnownSupport":
        """The same, with the support of new contexts learned from the log's sets.

        An action counts as supported where its log-odds of being so, linear in the features, are not below half of
        its share of the rows: uninformative features leave it supported everywhere.
        """
        most = min(log.n_rows, MOST_ROWS, max(FEW_ROWS, PAIRS // log.n_actions))
        rows = np.linspace(0, log.n_rows - 1, most).astype(np.int64)
        contexts, mask = log.contexts[rows], log.support.mask()[rows]
        lines = np.zeros((log.n_actions, log.n_features + 1))
        for action, supported in enumerate(mask.T):
            share = float(supported.mean())
            if share == 0:
                lines[action, -1] = -1.0
            elif share < 1:
                theta, offset = fit_log_odds(contexts, supported.astype(np.int64), 2)
                lines[action, :-1], lines[action, -1] = theta[1] - theta[0], offset[1] - offset[0]
                lines[action, -1] -= np.log(share / (2 - share))
        return replace(self, lines=lines)

    def restricted_to(self, actions: np.ndarray) -> "KnownSupport":
        """The sets without all but these actions, boolean (K,)."""
        return replace(self, sets=self.sets & np.packbits(actions), elsewhere=self.elsewhere & actions)

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        x = checked_contexts(contexts, self.contexts.shape[1])
        mask = np.tile(self.elsewhere, (len(x), 1))
        if self.lines.size:
            odds = np.where(self.elsewhere, x @ self.lines[:, :-1].T + self.lines[:, -1], -np.inf)
            mask = (odds >= 0) | (odds == odds.max(axis=1, keepdims=True))
        if len(self.contexts):
            place = self.index.find(x)
            known = place >= 0
            bits = np.unpackbits(self.sets[place[known]], axis=1, count=len(self.elsewhere))
            mask[known] = bits.astype(bool)
        return mask


@dataclass(frozen=True, eq=False)
class UserSupport:
    """A support function of the user's; its results are checked."""

    function: Callable[[np.ndarray], Any]
    n_actions: int

    def __call__(self, contexts: np.ndarray) -> np.ndarray:
        x = checked_contexts(contexts)
        mask = np.asarray(self.function(x))
        if mask.dtype != bool or mask.shape != (len(x), self.n_actions):
            raise SettingError(
                f"the support function gave {mask.dtype} of shape {mask.shape}; expected booleans of shape "
                f"({len(x)}, {self.n_actions}), such as probabilities > 0"
            )
        empty = np.flatnonzero(~mask.any(axis=1))
        if len(empty):
            raise SettingError(
                f"the support function allows no action for the context at row {empty[0]}; "
                "it must allow at least one"
            )
        return mask


def user_support(log: AnyLog, support: Any) -> SupportModel:
    """The option `support` as a model, checked against the rows of the log.

    It is a function of contexts, a policy (its positive probabilities), or labels supported everywhere.
    """
    rows = as_rows(log)
    model, outside, action = support_model(rows.header, support), 0, 0
    for _, block in rows.select(ids=False, support=False).blocks():
        left = np.flatnonzero(~model(block.contexts)[np.arange(block.n_rows), block.actions])
        action = block.actions[left[0]] if not outside and len(left) else action
        outside += len(left)
    if outside:
        raise SettingError(
            f"support= leaves out action {rows.action_names[action]!r} where it was logged; {outside} rows in all. "
            "Every logged action is supported in its context"
        )
    # The log's own sets need all rows of a context at once.
    if isinstance(rows, InMemoryRows) and rows.header.support.kind == "exact":
        known, mask = KnownSupport.of(rows.log), model(rows.log.contexts)
        beyond = np.argwhere(mask & ~known(rows.log.contexts))
        if len(beyond):
            row, excluded = beyond[0]
            raise SettingError(
                f"support= allows action {rows.action_names[excluded]!r} at row {row}, which the log's own "
                "support excludes. Mend one of the two, or leave support= out"
            )
    return model


def log_support(log: Log, method: str) -> tuple[KnownSupport, str]:
    """The log's own support as a model, and a note on the support of new contexts."""
    if not log.support.known:
        raise LogError(
            f"method {method!r} stays on each context's supported actions, and this log's support is unknown. "
            "Log eligible sets or full distributions, pass support= (a function of contexts, or labels that "
            "are supported everywhere), or use greedy, pessimistic or poem, which do without"
        )
    model = KnownSupport.of(log)
    if len(model.contexts):
        note = "a context that is not in the log may get the actions it is likely to support, as learned from the log's contexts"
        return model.with_learned_lines(log), note
    return model, "all logged contexts support the same actions; new ones are taken to support them too"


def support_function(support: Any, action_names: tuple[Hashable, ...]) -> UserSupport:
    """A function of contexts, or a policy whose positive probabilities are the support."""
    if not hasattr(support, "probabilities"):
        if not callable(support):
            raise SettingError(
                f"support={support!r}; must be a function of contexts, a policy, or a list of action labels"
            )
        return UserSupport(support, len(action_names))
    if tuple(support.action_names) != action_names:
        raise SettingError(
            f"support= is a policy over {tuple(support.action_names)!r}; expected one over "
            f"{action_names!r}, in this order"
        )
    return UserSupport(lambda contexts: support.probabilities(contexts) > 0, len(action_names))


def support_model(log: Log, support: Any) -> SupportModel:
    """The option `support` as a model for the log's actions and features, unchecked against its rows."""
    if isinstance(support, KnownSupport):
        if len(support.elsewhere) != log.n_actions:
            raise SettingError(
                f"support= of {len(support.elsewhere)} actions for a log of {log.n_actions}; they must match"
            )
        return support
    if isinstance(support, str) or callable(support) or not isinstance(support, Iterable):
        return support_function(support, log.action_names)
    labels = list(support)
    unknown = [label for label in labels if label not in log.action_names]
    if unknown or not labels:
        raise SettingError(
            f"support={labels!r}; must be one or more of the log's actions {log.action_names!r}"
        )
    return KnownSupport.fixed(np.array([name in labels for name in log.action_names]), log.n_features)


@dataclass(frozen=True, eq=False, repr=False)
class TablePolicy(ContextTable, StochasticPolicy):
    """Distributions table (m, K) of distinct contexts (m, d).

    Any other context is left to `otherwise`, and is an error if that is None.
    """

    contexts: np.ndarray
    table: np.ndarray
    otherwise: Policy | None = None
    method: str = "table"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table.shape != (len(self.contexts), len(self.action_names)):
            raise SettingError(
                f"table of shape {self.table.shape} for contexts of shape {self.contexts.shape} and "
                f"{len(self.action_names)} actions; expected (m, K) for (m, d)"
            )
        check_distribution(self.table)

    def probabilities(self, contexts: np.ndarray) -> np.ndarray:
        x = self.rows(contexts, self.contexts.shape[1])
        place = self.index.find(x)
        known = place >= 0
        table = np.empty((len(x), len(self.action_names)))
        table[known] = self.table[place[known]]
        if not known.all():
            if self.otherwise is None:
                raise DecisionError(
                    f"the context at row {np.flatnonzero(~known)[0]} is not in the policy's table, and it has "
                    "no policy for other contexts. Build the table with otherwise=..."
                )
            table[~known] = self.otherwise.probabilities(x[~known])
        return table
