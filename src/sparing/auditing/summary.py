"""A log's blind spots in a few lines."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from sparing.auditing.supported import find_elbow
from sparing.log import Log


@dataclass(frozen=True, eq=False)
class Audit:
    """What a log can and cannot teach; `print` it for people, `to_dict` for machines.

    What a log cannot say is None: the unsupported share where the support is unknown, propensities that
    were not logged, and whatever takes a row where there is none.
    """

    rows: int
    actions: int
    features: int
    distinct_contexts: int
    counts: dict[Hashable, int]
    never_logged: tuple[Hashable, ...]
    elbow: int | None
    support: str
    unsupported_share: float | None
    propensity_range: tuple[float, float] | None
    reward_mean: float | None
    reward_range: tuple[float, float] | None

    def to_dict(self) -> dict[str, object]:
        """The audit as values that JSON can carry; a label it has no key for, such as a tuple, as its text."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["counts"] = {_key(name): count for name, count in self.counts.items()}
        values["never_logged"] = tuple(map(_key, self.never_logged))
        return values

    def __str__(self) -> str:
        most = max(self.counts.values())
        least = min(self.counts.values())
        lines = [
            f"{self.rows:,} rows, {self.actions} actions, {self.features} features, "
            f"{self.distinct_contexts:,} distinct contexts",
            f"rows per action: {least:,} to {most:,}; "
            + (
                f"they fall fast after {self.elbow} actions"
                if self.elbow
                else "no elbow: they fall nowhere fast"
            ),
            _never(self.never_logged),
            f"support: {self.support}" + _unsupported(self.support, self.unsupported_share),
            "propensities: "
            + (
                f"{self.propensity_range[0]:.3g} to {self.propensity_range[1]:.3g}"
                if self.propensity_range
                else "none logged"
            ),
            "rewards: "
            + (
                f"mean {self.reward_mean:.4g}, from {self.reward_range[0]:.4g} to {self.reward_range[1]:.4g}"
                if self.reward_range
                else "none logged"
            ),
        ]
        return "\n".join(lines)


def _key(name: Hashable) -> str | int | float:
    return name if isinstance(name, str | int | float) else str(name)


def _unsupported(support: str, share: float | None) -> str:
    if share is not None:
        return f"; a row could not have taken {share:.0%} of the actions, on average"
    return " (log eligible sets or full distributions to know it)" if support == "unknown" else ""


def _never(names: tuple[Hashable, ...]) -> str:
    if not names:
        return "every action was tried"
    shown = ", ".join(str(name) for name in names[:10]) + (", …" if len(names) > 10 else "")
    return f"never tried: {len(names)} action{'s' if len(names) > 1 else ''} ({shown})"


def audit(log: Log) -> Audit:
    """Look a log over: how often each action was tried, and what could not have been."""
    counts = log.counts
    rewards = log.rewards if log.n_rows else None
    propensities = log.propensities if log.n_rows else None
    return Audit(
        rows=log.n_rows,
        actions=log.n_actions,
        features=log.n_features,
        distinct_contexts=int(log.groups.max()) + 1 if log.n_rows else 0,
        counts={name: int(count) for name, count in zip(log.action_names, counts, strict=True)},
        never_logged=tuple(log.action_names[i] for i in np.flatnonzero(counts == 0)),
        elbow=find_elbow(counts, log.n_features),
        support=log.support.kind,
        unsupported_share=log.support.unsupported_share if log.support.known and log.n_rows else None,
        propensity_range=None if propensities is None else _range(propensities),
        reward_mean=None if rewards is None else float(rewards.mean()),
        reward_range=None if rewards is None else _range(rewards),
    )


def _range(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())
