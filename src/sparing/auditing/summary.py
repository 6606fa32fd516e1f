"""The audit: everything a log can and cannot teach, in one value; and gates, which refuse some of its numbers."""

import math
import operator
import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing import validation
from sparing.auditing import advice, wording
from sparing.auditing.actions import ActionAudit, audit_actions
from sparing.auditing.gaps import GapMap, plain, search_gaps
from sparing.auditing.looking import Look, look, measure
from sparing.auditing.overlap import Doing, Overlap, PolicyAudit, audit_policy, check_policy, overlap
from sparing.auditing.support import SupportEstimate, estimate_support
from sparing.errors import LogError, SettingError
from sparing.log import Log
from sparing.log.rows import AnyLog, rows_of
from sparing.model.assumptions import Assumptions, positive
from sparing.model.ellipsoids import Ellipsoids
from sparing.model.linearity import linear_notes
from sparing.model.statistics import Statistics
from sparing.model.supported import find_elbow
from sparing.policies.policy import Policy
from sparing.report import notebook

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Audit:
    """What a log can and cannot teach; `print` it for people, `to_dict` for machines.

    What a log cannot say is None: the unsupported share where the support is not exact, propensities that
    were not logged, and whatever takes a row where there is none. `support` is exact, estimated or
    unknown; `reward_range` is that of the rewards seen, `mean_range` what mean rewards were told or found to keep to;
    `metrics` are the numbers that a gate can test. `contexts_counted` says that the distinct contexts are counted,
    not estimated.
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
        missing = self.never_logged or self.unsupported_share or self.estimated_unsupported_share
        if missing or self.implied_deficient:
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
        return implied[0] > wording.SURE * implied[1] + wording.ROUNDING

    @property
    def metrics(self) -> dict[str, float | None]:
        """Every number by its name, flat; None where the log cannot tell, a policy's only where one was given.

        The least or largest of numbers among which one is NaN is NaN (NumPy's), not whichever came first.
        """
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
        """Everything, nested, in types that JSON has; a label it has no key for, such as a tuple, as its text."""
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
        """What to do about the log, in a sentence or two."""
        return advice.recommendation(self)

    @property
    def headline(self) -> str:
        """The finding, in one or two sentences."""
        return wording.headline(self)

    def to_frame(self) -> "pandas.DataFrame":
        """The actions as a pandas frame, a row each in the log's order: `action`, and what `ActionAudit` says of it.

        `rows`, `share`, `supported`, `zero`, `ineligible`, `rare`, `undecided`, `implied`, `certified_error`, `certified`.
        """
        found = notebook.records([asdict(action) for action in self.per_action])
        return notebook.frame({"action": found.pop("name"), **found})

    def __str__(self) -> str:
        return "\n".join([*advice.lines(self), "", *wording.summary(self)])

    def __repr__(self) -> str:
        sizes = f"{self.rows:,} rows, {self.actions:,} actions, {len(self.never_logged):,} never tried"
        return f"Audit({sizes}, support {self.support}, verdict {self.verdict}; print it for the rest)"

    def _repr_html_(self) -> str:
        header, rows = wording.action_table(self, most=self.actions)
        title = f"Audit: {wording.facts(self)['log']}"
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
    """Look a log over: what was tried how often, what could not have been, where, and what it may be worth.

    `error` is the ε of the certified set, `rare` the propensity below which an action counts as rare, and
    `confidence` that of the limits behind an estimated support. `policy` is a target: an object with
    probabilities(X), or an array (n, K). `reward_range` bounds mean rewards; without it 0/1 rewards are recognised. `gaps` is the number of gaps
    listed. `noise` and the bounds are estimated where not given; `radius_scale` below 1 narrows the
    optimistic values that rank the gaps, never the certified errors.
    """
    positive("error", error)
    validation.fraction("rare", rare)
    validation.fraction("confidence", confidence)
    validation.integer("gaps", gaps)
    rows, reward_range = rows_of(log), validation.reward_range(reward_range)
    check_policy(rows, policy)
    seen = look(rows, rare, seed)
    if reward_range is not None and seen.facts is not None:
        validation.check_reward_range(reward_range, seen.facts.rewards.low, seen.facts.rewards.high)
    if reward_range is None and seen.facts is not None and seen.facts.rewards.binary:
        reward_range = (0.0, 1.0)
    bounds = {"noise": noise, "theta_bound": theta_bound, "context_bound": context_bound}
    assumptions, notes = _assumptions(
        seen.sums, **bounds, ridge=ridge, delta=delta, radius_scale=radius_scale
    )
    ellipsoids = None if assumptions is None else Ellipsoids(seen.sums, assumptions)
    notes += linear_notes(seen.sample, seen.sums if seen.whole else Statistics.of(seen.sample), ridge)
    looked, estimate, more = _supported(seen, rare=rare, confidence=confidence, seed=seed)
    found = search_gaps(
        looked,
        seen.sums.counts,
        ellipsoids,
        reward_range=reward_range,
        limit=gaps,
        seed=seed,
        threads=rows.threads,
    )
    gap_map, doing = measure(seen, looked, found, policy)
    return _described(
        seen,
        looked,
        gap_map,
        doing,
        ellipsoids,
        reward_range=reward_range,
        estimate=estimate,
        assumptions=assumptions,
        error=float(error),
        rare=float(rare),
        notes=[*notes, *more],
    )


def _described(
    seen: Look,
    looked: Log,
    gaps: GapMap,
    doing: Doing | None,
    ellipsoids: Ellipsoids | None,
    *,
    reward_range: tuple[float, float] | None,
    estimate: SupportEstimate | None,
    rare: float,
    error: float,
    notes: list[str],
    **more: Any,
) -> Audit:
    """The audit of what was seen, and of a sample with its support."""
    facts, counts, header = seen.facts, seen.sums.counts, seen.rows.header
    estimated, exact = header.propensities is None, header.support.kind == "exact"
    sets, chances = seen.sets(looked, rare), seen.propensities(looked)
    covered = None if chances is None else overlap(chances, estimated=estimated, exact=exact)
    contexts = None if facts is None else facts.contexts
    notes += wording.further_notes(seen.rows.n_rows, covered, sets, gaps, contexts)
    implied = None if chances is None or estimated else chances.by_action
    target, share = None, None if sets is None else float(1 - sets.shares.mean())
    if doing is not None and facts is not None:
        kind = looked.support.kind
        target = audit_policy(doing, kind, facts.rewards, reward_range, estimated=estimated)
    return Audit(
        rows=seen.rows.n_rows,
        features=seen.rows.n_features,
        distinct_contexts=0 if contexts is None else contexts.count,
        per_action=audit_actions(header, counts, sets, implied, ellipsoids, estimate, rare=rare, error=error),
        elbow=find_elbow(counts, seen.rows.n_features),
        support=looked.support.kind,
        unsupported_share=share if exact else None,
        estimated_unsupported_share=None if exact else share,
        unsupported_sizes={} if sets is None else sets.unsupported_sizes,
        overlap=covered,
        reward_mean=None if facts is None else facts.rewards.total / seen.rows.n_rows,
        reward_range=None if facts is None else (facts.rewards.low, facts.rewards.high),
        mean_range=reward_range,
        gap_map=gaps,
        policy=target,
        estimate=estimate,
        error=error,
        rare=rare,
        notes=tuple(notes),
        contexts_counted=contexts is None or contexts.exact,
        **more,
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
    seen: Look, *, rare: float, confidence: float, seed: int
) -> tuple[Log, SupportEstimate | None, list[str]]:
    """The sample, with an estimated support where it names none and that can be done; and notes on it."""
    sample = seen.sample
    if sample.support.known or not sample.n_rows:
        return sample, None, []
    try:
        looked, estimate = estimate_support(
            sample, rare=rare, confidence=confidence, seed=seed, threads=seen.rows.threads
        )
    except LogError as reason:
        return sample, None, [f"The support is unknown: {reason}"]
    both = sample.propensities is None and looked.propensities is not None
    part = [] if seen.whole else [wording.sampled_note(sample.n_rows, seen.rows.n_rows, propensities=both)]
    return looked, estimate, [*estimate.notes, *part]


SIGNS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq}
CONDITION = re.compile(
    rf"\s*([a-z_]+)\s*({'|'.join(SIGNS)})\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
)


def gate(text: str) -> Callable[[Mapping[str, float | None]], str | None]:
    """Read a condition that must not hold, METRIC OP NUMBER, such as `unsupported_share>0.2`.

    What is given back says of an audit's metrics why the gate is shut, None where it is open. What is not
    known never passes.
    """
    match = CONDITION.fullmatch(text)
    if match is None:
        raise SettingError(
            f"cannot read the condition {text!r}; expected METRIC OP NUMBER with OP one of "
            f"{' '.join(SIGNS)}, such as 'unsupported_share>0.2'"
        )
    metric, sign, bound = match[1], match[2], float(match[3])

    def verdict(metrics: Mapping[str, float | None]) -> str | None:
        if metric not in metrics:
            raise SettingError(f"unknown metric {metric!r}; known are {', '.join(metrics)}")
        value, what = metrics[metric], f"{metric} {sign} {bound:g}: {metric}"
        if value is None or math.isnan(value):
            return f"{what} is not known for this log, and what is not known does not pass"
        return f"{what} is {value:.6g}" if SIGNS[sign](value, bound) else None

    return verdict
