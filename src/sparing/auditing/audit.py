"""The audit of a log, and gates: conditions on its numbers."""

import math
import operator
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing import validation
from sparing.auditing import text
from sparing.auditing.counts import LogCounts, Propensities, SegmentCounts, SupportCounts, count_segments
from sparing.auditing.gaps import GapMap, GapSearch, plain, search_gaps
from sparing.auditing.overlap import (
    PolicyAudit,
    PolicyCounts,
    PropensityOverlap,
    audit_policy,
    check_policy,
    overlap,
)
from sparing.auditing.support import SupportEstimate, estimate_support
from sparing.errors import LogError, SettingError
from sparing.log import Log
from sparing.log.passes import Combined, Statistic, SumOf
from sparing.log.rows import AnyLog, InMemoryRows, Rows, as_rows
from sparing.log.sketches import RowSample
from sparing.model.confidence import Assumptions, ConfidenceEllipsoids, find_elbow, positive
from sparing.model.linearity import linear_notes
from sparing.model.statistics import Statistics, Sums
from sparing.policies.policy import Policy
from sparing.report import notebook

if TYPE_CHECKING:
    import pandas


SAMPLED_ROWS, SAMPLED_CELLS = 2**18, 2**24
"""Rows of the sample, and numbers in it, at most; all rows of a log that has no more."""


@dataclass(frozen=True, eq=False)
class AuditPass:
    """The result of the first pass: counts (None without rows) and sums of all rows, and a sample with its rows' numbers (m,).

    The sample is the whole log where that is short; then `numbers` is None.
    """

    rows: Rows
    facts: LogCounts | None
    sums: Statistics
    sample: Log
    numbers: np.ndarray | None


def first_pass(rows: Rows, rare: float, seed: int) -> AuditPass:
    # Fewer rows are sampled where contexts, sets or distributions are long.
    header, k = rows.header, rows.n_actions
    width = max(rows.n_features, k if header.support.from_probabilities else -(-k // 8))
    size = max(2**8, min(SAMPLED_ROWS, SAMPLED_CELLS // width))
    short = rows.n_rows <= size
    wanted: list[Statistic[Log, Any]] = [SumOf(partial(LogCounts.of, rare=rare)), Sums(rows)]
    if not (short and isinstance(rows, InMemoryRows)):
        wanted.append(RowSample(header, rows.n_rows, size, seed))
    facts, sums, *sampled = rows.fold(Combined(*wanted))
    sums = replace(sums, encoder=rows.encoder.digest)
    if isinstance(rows, InMemoryRows) and not sampled:
        return AuditPass(rows, facts, sums, rows.log, None)
    (found,) = sampled
    return AuditPass(rows, facts, sums, found.log(), None if short else found.numbers[found.kept])


def second_pass(
    seen: AuditPass, looked: Log, found: GapSearch, policy: Policy | np.ndarray | None
) -> tuple[GapMap, PolicyCounts | None]:
    """Measure the segments and a policy on all rows; quantities that rest on an estimated support, on the sample alone."""
    never = seen.sums.counts == 0
    sample = InMemoryRows(looked)
    measures, doing = _count_segments(sample if seen.numbers is None else seen.rows, found, policy, never)
    shares = measures.shares
    if seen.numbers is not None and looked.support.known and not seen.rows.header.support.known:
        part = policy[seen.numbers] if isinstance(policy, np.ndarray) else policy
        near, here = _count_segments(sample, found, part, never)
        shares = near.shares
        if doing is not None and here is not None:
            doing = replace(doing, mass=here.mass, weights=doing.weights or here.weights)
    return found.measured(looked, measures, shares), doing


def _count_segments(
    rows: Rows, found: GapSearch, policy: Policy | np.ndarray | None, never: np.ndarray
) -> tuple[SegmentCounts, PolicyCounts | None]:
    if policy is None:
        return count_segments(rows, found.segments), None
    counting = SumOf(partial(SegmentCounts.of, segments=found.segments))
    measures, doing = rows.fold(
        Combined(counting, SumOf(partial(PolicyCounts.of, policy=policy, never=never)))
    )
    return measures or count_segments(rows, ()), doing


@dataclass(frozen=True)
class ActionAudit:
    """One action; shares are of the log's rows, and None where the log does not have them.

    supported: could have been logged. zero: probability 0 in a known distribution, whether eligible or
    not. ineligible: outside the eligible set. rare: supported, but with a propensity (or, without
    distributions, a share of the supported rows) below the bar. undecided: of an estimated support.
    implied: mean of 1{a_i = a}/μ_i, which is the supported share by logged propensities alone, where the
    log has no support; `supported` is then the same, at most 1.
    certified_error: bound on ‖θ̂_a − θ*_a‖ that holds for all actions at once with probability 1 − δ.
    """

    name: Hashable
    rows: int
    share: float | None
    supported: float | None
    zero: float | None
    ineligible: float | None
    rare: float | None
    undecided: float | None
    implied: float | None
    certified_error: float | None
    certified: bool


def audit_actions(
    seen: AuditPass,
    supported: SupportCounts | None,
    implied: np.ndarray | None,
    ellipsoids: ConfidenceEllipsoids | None,
    estimate: SupportEstimate | None,
    *,
    rare: float,
    error: float,
) -> tuple[ActionAudit, ...]:
    """Describe every action, in the log's order, by its rows and by what rows could have taken.

    `implied` (K,) is the mean of 1{a_i = a}/μ_i, where propensities were logged and the support was not.
    """
    counts, support = seen.sums.counts, seen.rows.header.support
    n, k = int(counts.sum()), len(counts)
    shares = None if supported is None else supported.shares
    exact = shares is not None and support.kind == "exact"
    missing = 1 - shares if exact and shares is not None else None
    by_chance = support.from_probabilities
    errors = None if ellipsoids is None else ellipsoids.errors
    columns = {
        "rows": counts,
        "share": counts / n if n else None,
        "supported": shares if implied is None else np.minimum(1.0, implied),
        "zero": missing if by_chance else None,
        "ineligible": None if by_chance else missing,
        "rare": _rare_shares(counts, supported, rare) if n else None,
        "undecided": None if estimate is None else estimate.undecided,
        "implied": implied,
        "certified_error": errors,
        "certified": np.zeros(k, dtype=bool) if errors is None else errors <= error,
    }
    values = [[None] * k if column is None else column.tolist() for column in columns.values()]
    return tuple(
        ActionAudit(name, **dict(zip(columns, row, strict=True)))
        for name, *row in zip(seen.rows.action_names, *values, strict=True)
    )


def _rare_shares(counts: np.ndarray, supported: SupportCounts | None, rare: float) -> np.ndarray:
    """Share of rows in which each action is supported with a propensity below `rare`, (K,).

    With known distributions by the propensity itself. Otherwise an action is rare in all of its
    supported rows (all rows where the support is unknown) or in none, by N_a over their number.
    """
    if supported is not None and supported.rare is not None:
        return supported.rare / supported.rows
    shares = np.ones(len(counts)) if supported is None else supported.shares
    return np.where(counts < rare * shares * counts.sum(), shares, 0.0)


@dataclass(frozen=True, eq=False)
class Audit(notebook.Plotted):
    """What a log covers and what it does not; print it, or take `to_dict`. Unknown values are None.

    `plot` draws, for each action, the share of rows that took it and the share that could have.

    Attributes
    ----------
    rows, features, distinct_contexts : int
        `contexts_counted`: the distinct contexts are counted, not estimated.
    per_action : tuple of ActionAudit
        In the log's order of the actions.
    elbow : int or None
        Number of actions after which the rows per action fall fast.
    support : str
        exact, estimated or unknown.
    unsupported_share, estimated_unsupported_share : float or None
        Mean share of the actions that a row could not have taken: by exact, or by estimated support. Logged propensities
        decide where there are any: it is the share that they imply.
    unsupported_sizes : dict
        Rows by their number of unsupported actions.
    overlap : PropensityOverlap or None
        The propensities of the logged actions.
    reward_mean, reward_range : float and tuple of float, or None
        Of the logged rewards; `mean_range` are the bounds on mean rewards, given or recognised.
    gap_map : GapMap
        Segments of contexts in which actions were never, or hardly ever, possible.
    policy : PolicyAudit or None
        What the target policy does outside the support.
    estimate : SupportEstimate or None
        How the support was estimated.
    assumptions : Assumptions or None
        Of the certified errors and upsides.
    error, rare : float
        The options of `audit`.
    notes : tuple of str
    """

    _figure = "sparing.auditing.page"

    rows: int
    features: int
    distinct_contexts: int
    per_action: tuple[ActionAudit, ...]
    elbow: int | None
    support: str
    unsupported_share: float | None
    estimated_unsupported_share: float | None
    unsupported_sizes: dict[int, int]
    overlap: PropensityOverlap | None
    reward_mean: float | None
    reward_range: tuple[float, float] | None
    mean_range: tuple[float, float] | None
    gap_map: GapMap
    policy: PolicyAudit | None
    estimate: SupportEstimate | None
    assumptions: Assumptions | None
    error: float
    rare: float
    notes: tuple[str, ...]
    contexts_counted: bool = True

    @property
    def actions(self) -> int:
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
        missing = self.never_logged or self.unsupported_share or self.implied_deficient
        # A share implied by propensities is above 0 by chance; a gap that was found is not.
        if missing or (self.gap_map.found if self.implied else self.estimated_unsupported_share):
            return "deficient"
        return "full" if self.support == "exact" and self.rows else "unknown"

    @property
    def implied(self) -> bool:
        """Whether the shares of support are those that the logged propensities imply."""
        return self.per_action[0].implied is not None

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
        return implied[0] > text.SURE * implied[1] + text.ROUNDING

    @property
    def metrics(self) -> dict[str, float | None]:
        """The numbers that a gate can test, by name; None where unknown, those of a policy only if one was given."""
        rows = self.counts.values()
        errors = [a.certified_error for a in self.per_action if a.certified_error is not None]
        rare = [a.rare for a in self.per_action if a.rare is not None]
        upsides = [gap.upside for gap in self.gap_map.gaps if gap.upside is not None]
        implied, overlap, policy = self.implied_unsupported, self.overlap, self.policy
        estimate = self.estimate
        fit = None if estimate is None else estimate.propensities
        numbers: dict[str, float | None] = {
            "rows": self.rows,
            "actions": self.actions,
            "features": self.features,
            "distinct_contexts": self.distinct_contexts,
            "smallest_count": min(rows),
            "largest_count": max(rows),
            "never_logged": len(self.never_logged),
            "unsupported_share": self.unsupported_share,
            "estimated_unsupported_share": self.estimated_unsupported_share,
            "implied_unsupported_share": None if implied is None else implied[0],
            "undecided_share": None if estimate is None else estimate.undecided_share,
            "rare_share": sum(rare) / len(rare) if rare else None,
            "smallest_propensity": None if overlap is None else overlap.smallest,
            "percentile_ratio": None if overlap is None else overlap.percentile_ratio,
            "effective_sample_size": None if overlap is None else overlap.effective_sample_size,
            "calibration_error": None if fit is None else fit.calibration.error,
            "smallest_certified_error": float(np.min(errors)) if errors else None,
            "largest_certified_error": float(np.max(errors)) if errors else None,
            "certified_actions": len(self.certified) if errors else None,
            "gaps": self.gap_map.found,
            "smallest_visible_gap": None if estimate is None else estimate.visible_share,
            "largest_upside": float(np.max(upsides)) if upsides else None,
        }
        if policy is not None:
            exact = policy.support == "exact"
            numbers |= {
                "policy_unsupported_mass": policy.unsupported_mass if exact else None,
                "policy_estimated_unsupported_mass": None if exact else policy.unsupported_mass,
                "policy_implied_unsupported_mass": policy.implied_mass and policy.implied_mass[0],
                "policy_never_logged_mass": policy.never_logged_mass,
                "policy_effective_sample_size": policy.effective_sample_size,
            }
        return numbers

    def to_dict(self) -> dict[str, object]:
        """Return the audit as plain values for JSON."""
        overlap, estimate, policy = self.overlap, self.estimate, self.policy
        return {
            "recommendation": self.recommendation,
            "headline": self.headline,
            "verdict": self.verdict,
            "support": self.support,
            "metrics": self.metrics,
            "counts": {plain(name): count for name, count in self.counts.items()},
            "never_logged": [plain(name) for name in self.never_logged],
            "elbow": self.elbow,
            "unsupported_sizes": self.unsupported_sizes,
            "per_action": [{**asdict(a), "name": plain(a.name)} for a in self.per_action],
            "propensities": None if overlap is None else overlap.to_dict(),
            "rewards": {"mean": self.reward_mean, "range": self.reward_range},
            "certified": {
                "error": self.error,
                "actions": [plain(name) for name in self.certified],
                "assumptions": None if self.assumptions is None else asdict(self.assumptions),
            },
            "gaps": [gap.to_dict() for gap in self.gap_map.gaps],
            "gap_coverage": self.gap_map.coverage,
            "policy": None if policy is None else asdict(policy),
            "estimate": None if estimate is None else estimate.to_dict(),
            "notes": list(self.notes),
        }

    @property
    def recommendation(self) -> str:
        """What to do next about the log, in a sentence or two."""
        return text.recommendation(self)

    @property
    def headline(self) -> str:
        """The finding, in one or two sentences."""
        return text.headline(self)

    def to_frame(self) -> "pandas.DataFrame":
        """Return a pandas frame with a row for each action: its label as `action`, and the fields of `ActionAudit`."""
        found = notebook.records([asdict(action) for action in self.per_action])
        return notebook.frame({"action": found.pop("name"), **found})

    def __str__(self) -> str:
        return "\n".join([*text.lines(self), "", *text.summary(self)])

    def __repr__(self) -> str:
        sizes = f"{self.rows:,} rows, {self.actions:,} actions, {len(self.never_logged):,} never tried"
        return f"Audit({sizes}, support {self.support}, verdict {self.verdict}; print it for the rest)"

    def _repr_html_(self) -> str:
        header, rows = text.action_table(self, most=self.actions)
        title = f"Audit: {text.facts(self)['log']}"
        return notebook.card(title, said=[self.headline], header=header, rows=rows, notes=self.notes)


def audit(
    log: AnyLog,
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
    """Audit a log: how often each action was tried, what could not have been tried, where, and what it may be worth.

    Parameters
    ----------
    log : Log or Scan
        The logged rows.
    policy : Policy or ndarray of shape (n, K), optional
        A target policy, whose mass outside the support is reported.
    error : float
        ε of the certified set: the largest certified error of an action's parameters.
    rare : float
        The propensity below which an action counts as rare.
    confidence : float
        Of an estimated support: the probability that no segment is called a gap by chance.
    reward_range : tuple of float, optional
        Bounds on mean rewards. Without it rewards of 0 and 1 are recognised.
    gaps : int
        Number of gaps listed.
    noise, theta_bound, context_bound : float, optional
        Assumptions of the certified errors; estimated if not given.
    ridge, delta : float
        Ridge of the reward model, and the probability that its confidence sets fail.
    radius_scale : float
        Below 1 it narrows the upper bounds that rank the gaps, never the certified errors.
    seed : int
        Of samples.

    Returns
    -------
    Audit

    Raises
    ------
    SettingError
        If an option is out of range, or the policy does not match the log.

    Examples
    --------
    >>> print(sparing.audit(log).recommendation)  # doctest: +SKIP
    """
    positive("error", error)
    validation.fraction("rare", rare)
    validation.fraction("confidence", confidence)
    validation.integer("gaps", gaps)
    rows, reward_range = as_rows(log), validation.reward_range(reward_range)
    check_policy(rows, policy)
    seen = first_pass(rows, rare, seed)
    facts, sums, header = seen.facts, seen.sums, rows.header
    rewards, contexts = (None, None) if facts is None else (facts.rewards, facts.contexts)
    if reward_range is not None and rewards is not None:
        validation.check_reward_range(reward_range, rewards.low, rewards.high)
    if reward_range is None and rewards is not None and rewards.binary:
        reward_range = (0.0, 1.0)
    bounds = {"noise": noise, "theta_bound": theta_bound, "context_bound": context_bound}
    assumptions, notes = _assumptions(sums, **bounds, ridge=ridge, delta=delta, radius_scale=radius_scale)
    ellipsoids = None if assumptions is None else ConfidenceEllipsoids(sums, assumptions)
    notes += linear_notes(seen.sample, sums if seen.numbers is None else Statistics.of(seen.sample), ridge)
    looked, estimate, more = _supported(seen, rare=rare, confidence=confidence, seed=seed)
    found = search_gaps(
        looked,
        sums.counts,
        ellipsoids,
        tested=None if estimate is None else estimate.gaps,
        reward_range=reward_range,
        limit=gaps,
        seed=seed,
        threads=rows.threads,
    )
    gap_map, doing = second_pass(seen, looked, found, policy)
    estimated, exact = header.propensities is None, header.support.kind == "exact"
    sets = chances = covered = target = share = None
    if facts is not None and looked.support.known:
        sets = facts.sets or SupportCounts.of(looked.support, rare)
        share = float(1 - sets.shares.mean())
    if facts is not None and looked.propensities is not None:
        chances = facts.propensities or Propensities.of(looked)
        covered = overlap(chances, estimated=estimated, exact=exact)
    if doing is not None and rewards is not None:
        kinds = (header.support.kind, looked.support.kind)
        target = audit_policy(doing, *kinds, rewards, reward_range, estimated=estimated)
    implied = None
    if chances is not None and not (estimated or header.support.known):
        implied = chances.by_action / rows.n_rows
        share = max(0.0, 1 - float(implied.mean()))
    return Audit(
        rows=rows.n_rows,
        features=rows.n_features,
        distinct_contexts=0 if contexts is None else contexts.count,
        per_action=audit_actions(seen, sets, implied, ellipsoids, estimate, rare=rare, error=error),
        elbow=find_elbow(sums.counts, rows.n_features),
        support=looked.support.kind,
        unsupported_share=share if exact else None,
        estimated_unsupported_share=None if exact else share,
        unsupported_sizes={} if sets is None or implied is not None else sets.unsupported_sizes,
        overlap=covered,
        reward_mean=None if rewards is None else rewards.total / rows.n_rows,
        reward_range=None if rewards is None else (rewards.low, rewards.high),
        mean_range=reward_range,
        gap_map=gap_map,
        policy=target,
        estimate=estimate,
        assumptions=assumptions,
        error=float(error),
        rare=float(rare),
        notes=(
            *notes,
            *more,
            *text.further_notes(rows.n_rows, covered, sets, gap_map, contexts),
        ),
        contexts_counted=contexts is None or contexts.exact,
    )


def _assumptions(sums: Statistics, **given: Any) -> tuple[Assumptions | None, list[str]]:
    """The assumptions, or None and a note where the log is too small to estimate what was not given."""
    # With stand-ins for what is estimated, an error can only be the caller's.
    complete: dict[str, Any] = {name: 0.0 if value is None else value for name, value in given.items()}
    Assumptions.resolve(None, **complete)
    try:
        return Assumptions.resolve(sums, **given), []
    except SettingError as reason:
        return None, [f"No certified errors and no upsides: {reason}"]


def _supported(
    seen: AuditPass, *, rare: float, confidence: float, seed: int
) -> tuple[Log, SupportEstimate | None, list[str]]:
    """The sample, with an estimated support where it names none and that can be done; and notes on it."""
    sample = seen.sample
    if sample.support.known or not sample.n_rows:
        return sample, None, []
    try:
        looked, estimate = estimate_support(sample, rare=rare, confidence=confidence, seed=seed)
    except LogError as reason:
        return sample, None, [f"The support is unknown: {reason}"]
    both = sample.propensities is None and looked.propensities is not None
    part = (
        []
        if seen.numbers is None
        else [text.sampled_note(sample.n_rows, seen.rows.n_rows, propensities=both)]
    )
    return looked, estimate, [*estimate.notes, *part]


SIGNS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq}
CONDITION = re.compile(
    rf"\s*([a-z_]+)\s*({'|'.join(SIGNS)})\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
)


def gate(condition: str) -> Callable[[Mapping[str, float | None]], str | None]:
    """Read a condition that must not hold, METRIC OP NUMBER, such as `unsupported_share>0.2`.

    The returned function takes an audit's metrics. It returns why the gate is closed, or None if it is open. An
    unknown metric closes the gate.
    """
    match = CONDITION.fullmatch(condition)
    if match is None:
        raise SettingError(
            f"cannot read the condition {condition!r}; expected METRIC OP NUMBER with OP one of "
            f"{' '.join(SIGNS)}, such as 'unsupported_share>0.2'"
        )
    metric, sign, bound = match[1], match[2], float(match[3])

    def verdict(metrics: Mapping[str, float | None]) -> str | None:
        validation.check_known(metric, tuple(metrics), what="metric")
        value, what = metrics[metric], f"{metric} {sign} {bound:g}: {metric}"
        if value is None or math.isnan(value):
            return f"{what} is not known for this log, and an unknown metric does not pass"
        return f"{what} is {value:.6g}" if SIGNS[sign](value, bound) else None

    return verdict
