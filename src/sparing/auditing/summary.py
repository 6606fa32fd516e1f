"""The audit: everything a log can and cannot teach, in one value."""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from sparing.auditing import export, sentences
from sparing.auditing.actions import ActionAudit, audit_actions
from sparing.auditing.estimated import SupportEstimate, estimate_support
from sparing.auditing.gaps import GapMap, find_gaps
from sparing.auditing.level import missing_level
from sparing.auditing.overlap import Overlap, PolicyAudit, audit_policy, overlap
from sparing.errors import LogError, SettingError
from sparing.log import Log
from sparing.model.assumptions import Assumptions, positive
from sparing.model.statistics import Statistics
from sparing.model.supported import certified_errors, find_elbow
from sparing.policies.policy import Policy


class _Bounds(TypedDict):
    noise: float | None
    theta_bound: float | None
    context_bound: float | None


class _Given(TypedDict):
    ridge: float
    delta: float
    radius_scale: float


@dataclass(frozen=True, eq=False)
class Audit:
    """What a log can and cannot teach; `print` it for people, `to_dict` for machines.

    What a log cannot say is None: the unsupported share where the support is not exact, propensities that
    were not logged, and whatever takes a row where there is none. `support` is exact, estimated or
    unknown; `metrics` are the numbers that a gate can test.
    """

    rows: int
    features: int
    distinct_contexts: int
    per_action: tuple[ActionAudit, ...]
    elbow: int | None
    support: str
    unsupported_share: float | None
    estimated_unsupported_share: float | None
    unsupported_sizes: dict[int, int]
    overlap: Overlap | None
    reward_mean: float | None
    reward_range: tuple[float, float] | None
    gap_map: GapMap
    policy: PolicyAudit | None
    estimate: SupportEstimate | None
    assumptions: Assumptions | None
    error: float
    rare: float
    notes: tuple[str, ...]

    @property
    def actions(self) -> int:
        """Actions, logged or not, K."""
        return len(self.per_action)

    @property
    def counts(self) -> dict[Hashable, int]:
        """N_a: rows of each action."""
        return {action.name: action.rows for action in self.per_action}

    @property
    def never_logged(self) -> tuple[Hashable, ...]:
        """The actions without a row."""
        return tuple(action.name for action in self.per_action if not action.rows)

    @property
    def certified(self) -> tuple[Hashable, ...]:
        """The ε-supported set: actions whose certified error is at most `error`."""
        return tuple(action.name for action in self.per_action if action.certified)

    @property
    def verdict(self) -> str:
        """`deficient`, `full`, or `unknown`: without exact support no log is ever called full."""
        if self.never_logged or self.unsupported_share or self.estimated_unsupported_share:
            return "deficient"
        if self.implied_deficient:
            return "deficient"
        return "full" if self.support == "exact" and self.rows else "unknown"

    @property
    def implied_unsupported(self) -> tuple[float, float] | None:
        """n^UA = 1 − E[1/μ]/K and its standard error, from logged propensities alone."""
        if self.overlap is None or self.overlap.supported_mean is None:
            return None
        error = self.overlap.supported_error or 0.0
        return 1 - self.overlap.supported_mean / self.actions, error / self.actions

    @property
    def implied_deficient(self) -> bool:
        """Whether the propensities show that actions had no chance, or next to none, beyond doubt.

        Full distributions leave nothing to infer: with them it is False.
        """
        implied = self.implied_unsupported
        if implied is None or self.per_action[0].zero is not None:
            return False
        return implied[0] > sentences.SURE * implied[1] + sentences.ROUNDING

    @property
    def metrics(self) -> dict[str, float | None]:
        """The numbers by their names, flat; None where the log cannot tell."""
        return export.metrics(self)

    def to_dict(self) -> dict[str, object]:
        """The audit as values that JSON can carry; a label it has no key for, such as a tuple, as its text."""
        return export.to_dict(self)

    @property
    def headline(self) -> str:
        """The finding, in one or two sentences."""
        return sentences.headline(self)

    def __str__(self) -> str:
        return "\n".join(sentences.summary(self))


def audit(
    log: Log,
    *,
    policy: Policy | np.ndarray | None = None,
    error: float = 0.1,
    rare: float = 0.01,
    confidence: float = 0.95,
    reward_range: tuple[float, float] | None = None,
    gaps: int = 20,
    noise: float | None = None,
    theta_bound: float | None = None,
    context_bound: float | None = None,
    ridge: float = 1.0,
    delta: float = 0.05,
    radius_scale: float = 1.0,
    seed: int = 0,
) -> Audit:
    """Look a log over: what was tried how often, what could not have been, where, and what it may be worth.

    `error` is the ε of the certified set, `rare` the propensity below which an action counts as rare, and
    `confidence` that of the limits behind an estimated support. `policy` is a target: an object with
    probabilities(X), or an array (n, K). `reward_range` bounds mean rewards. `gaps` is the number of gaps
    listed. `noise` and the bounds are estimated where not given; `radius_scale` below 1 narrows the
    optimistic values that rank the gaps, never the certified errors.
    """
    positive("error", error)
    for name, value in (("rare", rare), ("confidence", confidence)):
        if not 0 < value < 1:
            raise SettingError(f"{name}={value}; must be in (0, 1)")
    if reward_range is not None and not (
        math.isfinite(sum(reward_range)) and reward_range[0] <= reward_range[1]
    ):
        raise SettingError(f"reward_range={reward_range}; must be two finite numbers, the smaller first")
    if gaps < 0:
        raise SettingError(f"gaps={gaps}; must be 0 or more")
    sums = Statistics.of(log)
    bounds: _Bounds = {"noise": noise, "theta_bound": theta_bound, "context_bound": context_bound}
    assumptions, notes = _assumptions(
        sums, bounds, {"ridge": ridge, "delta": delta, "radius_scale": radius_scale}
    )
    level = missing_level(log, sums, ridge)
    notes += [] if level is None else [level]
    errors = None if assumptions is None else certified_errors(sums, assumptions)
    looked, estimate = log, None
    if not log.support.known and log.n_rows:
        try:
            looked, estimate = estimate_support(log, rare=rare, confidence=confidence, seed=seed)
            notes += estimate.notes
        except LogError as reason:
            notes.append(f"The support is unknown: {reason}")
    gap_map = find_gaps(looked, sums, assumptions, reward_range=reward_range, limit=gaps, seed=seed)
    covered = overlap(looked, estimated=log.propensities is None)
    notes += sentences.further_notes(log, covered, gap_map)
    share = looked.support.unsupported_share if looked.support.known and log.n_rows else None
    exact = looked.support.kind == "exact"
    return Audit(
        rows=log.n_rows,
        features=log.n_features,
        distinct_contexts=log.n_contexts,
        per_action=audit_actions(
            looked,
            rare=rare,
            errors=errors,
            error=error,
            undecided=None if estimate is None else estimate.undecided,
            estimated=log.propensities is None,
        ),
        elbow=find_elbow(log.counts, log.n_features),
        support=looked.support.kind,
        unsupported_share=share if exact else None,
        estimated_unsupported_share=None if exact else share,
        unsupported_sizes=_sizes(looked),
        overlap=covered,
        reward_mean=float(log.rewards.mean()) if log.n_rows else None,
        reward_range=(float(log.rewards.min()), float(log.rewards.max())) if log.n_rows else None,
        gap_map=gap_map,
        policy=None
        if policy is None
        else audit_policy(looked, policy, reward_range=reward_range, estimated=log.propensities is None),
        estimate=estimate,
        assumptions=assumptions,
        error=float(error),
        rare=float(rare),
        notes=tuple(notes),
    )


def _assumptions(sums: Statistics, bounds: _Bounds, given: _Given) -> tuple[Assumptions | None, list[str]]:
    """The assumptions, or None and a note where the log is too small to estimate what was not given."""
    # With stand-ins for what is estimated, an error can only be the caller's.
    Assumptions.resolve(
        None,
        noise=bounds["noise"] or 0.0,
        theta_bound=bounds["theta_bound"] or 0.0,
        context_bound=bounds["context_bound"] or 0.0,
        **given,
    )
    try:
        return Assumptions.resolve(sums, **bounds, **given), []
    except SettingError as reason:
        return None, [f"No certified errors and no upsides: {reason}"]


def _sizes(log: Log) -> dict[int, int]:
    """How many rows have each number |𝓤(x, μ)| of unsupported actions; empty where it is unknown."""
    if not log.support.known or not log.n_rows:
        return {}
    rows = np.bincount(log.n_actions - log.support.sizes)
    return {int(size): int(rows[size]) for size in np.flatnonzero(rows)}
