"""Policy against holdout: stratified mean rewards with intervals that hold at every look, from sums by subject.

Of its N decisions the policy made a reward call for n₁ and skipped n₂; a random share of the skipped ones, the checks, had
a call all the same. A skipped decision earns on average what the checks earn:
    value = Σ_h w_h·r̄_h,  w_h = n_h/N,  r̄_h = s_h/m_h the mean of the m_h rewards of stratum h.
Subject i, with sums n_ih, m_ih and s_ih, has moved it by
    e_i = (1/N)·Σ_h [(n_h/m_h)·(s_ih − r̄_h·m_ih) + (r̄_h − value)·n_ih],
and the variance is Σ_i e_i², a quadratic form in the sums of products that `subject_sums` keeps. With a decision a subject it is
    Σ_h w_h²·s_h²/m_h + Σ_h w_h·(r̄_h − value)²/N
(two-phase sampling: the second term is there because the sizes of the strata are random too). Intervals are for every look at
once (`watched_deviations`), at the degrees of freedom of Welch and Satterthwaite for (Σ_i m_i)²/Σ_i m_i² subjects.

Left out of both sides are decisions made when no call was allowed, because checks stand for none of them, and those from before
the last change of check or holdout.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc

from sparing.interval import interval, watched_deviations
from sparing.service import events
from sparing.service.events import ChangeEvent
from sparing.service.messages import Headline, Hour, Measured, Options, Reasons, SampleRatio, SoFar
from sparing.service.store.store import HourlyTotal
from sparing.service.subject_sums import COLUMNS, PAIRS, SHARES, SUMS, SumsByHour

Group = tuple[str, str, bool]  # reason, variant, whether there was a reward call

MAX_BINS = 96
STEPS = (1, 2, 3, 6, 12, 24, 48, 96, 168)  # hours per bin; beyond them whole weeks
HOUR = events.HOUR // events.SECOND

MIN_REWARDS = 2  # a variance needs two
ROUNDING = 8 * np.finfo(float).eps

# Sums of a stratum: decisions, rewards, Σr, Σr².
DECISIONS, REWARDS, SUM, TOTAL_SQUARES = range(4)
STRATA = np.array([[COLUMNS.index(name + part) for name in ("n", "m", "s", "q")] for part in "12"])
CHECKS = COLUMNS.index("c2")
FIRST_PRODUCT = len(COLUMNS) - len(PAIRS[0])


@dataclass(frozen=True, eq=False)
class HourlyTotals:
    """Totals of the store as arrays: hours (n,), group (n,) as an index into `groups`, numbers (n, 4): decisions, rewards, Σr, Σr²."""

    hours: np.ndarray
    group: np.ndarray
    numbers: np.ndarray
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, totals: Sequence[HourlyTotal]) -> "HourlyTotals":
        known: dict[tuple[str, str, int], int] = {}
        group = [known.setdefault((reason, arm, asked), len(known)) for _, reason, arm, asked, *_ in totals]
        return cls(
            np.array([total[0] for total in totals], dtype=np.int64),
            np.array(group, dtype=np.int64),
            np.array([total[4:8] for total in totals], dtype=np.float64).reshape(len(totals), 4),
            tuple((reason, arm, bool(asked)) for reason, arm, asked in known),
        )

    def added(self, place: np.ndarray, places: int) -> np.ndarray:
        """Return the sums of the rows at each place, (places, 4); rows at a place below 0 are left out."""
        kept = place >= 0
        return np.stack(
            [np.bincount(place[kept], column[kept], minlength=places) for column in self.numbers.T], axis=1
        )

    def reasons(self) -> list[Reasons]:
        sums = self.added(self.group, len(self.groups)).tolist()
        found = [
            Reasons(*group, int(decisions), int(rewarded), total / rewarded if rewarded else None)
            for group, (decisions, rewarded, total, _) in zip(self.groups, sums, strict=True)
        ]
        return sorted(found, key=lambda one: (-one.decisions, one.reason, one.arm, one.asked))

    def calls_since(self, hour: int) -> int:
        asked = np.array([asked for *_, asked in self.groups], dtype=bool)
        return int(self.numbers[asked[self.group] & (self.hours >= hour), 0].sum()) if len(self.hours) else 0


@dataclass(frozen=True)
class TimeBins:
    """Bins of equal length for a history: hours per bin, the first hour, and the number of bins."""

    hours: int
    first: int
    count: int

    @classmethod
    def of(cls, totals: HourlyTotals, now: int) -> "TimeBins":
        """Return the finest bins that `MAX_BINS` allows, from the first decision to now (µs)."""
        if not len(totals.hours):
            return cls(1, 0, 0)
        begin, end = int(totals.hours.min()), max(now // events.HOUR, int(totals.hours.max()))
        weeks = -(-(end - begin + 1) // (STEPS[-1] * (MAX_BINS - 1)))
        for hours in (*STEPS, STEPS[-1] * max(weeks, 1)):
            first = begin // hours * hours
            count = (end - first) // hours + 1
            if count <= MAX_BINS:
                break
        return cls(hours, first, count)

    @property
    def seconds(self) -> int:
        return self.hours * HOUR

    def place(self, hours: np.ndarray) -> np.ndarray:
        return (hours - self.first) // self.hours

    def ends(self, now: int) -> list[int]:
        """Return the end of each bin in seconds; of the last one now (µs), if that is earlier."""
        ends = [(self.first + (i + 1) * self.hours) * HOUR for i in range(self.count)]
        return [min(end, max(now // events.SECOND, end - self.seconds)) for end in ends]

    def by_reason(self, totals: HourlyTotals) -> list[Hour]:
        """Return the decisions of each bin by reason, bins without any included."""
        counted: list[dict[str, int]] = [{} for _ in range(self.count)]
        cells = self.place(totals.hours) * len(totals.groups) + totals.group
        shadow = np.array([arm == events.ALSO for _, arm, _ in totals.groups], dtype=bool)[totals.group]
        numbers = np.where(shadow, 0.0, totals.numbers[:, 0])  # a shadow call is no decision
        found = np.bincount(cells, numbers, minlength=self.count * len(totals.groups))
        for cell in np.flatnonzero(found).tolist():
            step, group = divmod(cell, len(totals.groups))
            reason = totals.groups[group][0]
            counted[step][reason] = counted[step].get(reason, 0) + int(found[cell])
        return [Hour((self.first + i * self.hours) * HOUR, one) for i, one in enumerate(counted)]


class MeanEstimate(NamedTuple):
    """Estimates, (...,) each, NaN where there are too few rewards.

    `free` are the degrees of freedom of the variance, and `spread` is the variance of one reward.
    """

    value: np.ndarray
    variance: np.ndarray
    free: np.ndarray
    spread: np.ndarray
    rewards: np.ndarray

    def measured(self) -> list[Measured | None]:
        with np.errstate(divide="ignore", invalid="ignore"):
            many = watched_deviations(self.free, self.spread / self.variance)
            limits = interval(self.value, np.sqrt(self.variance), many)
        rows = np.stack([self.value, *limits, self.rewards], axis=-1).tolist()
        return [Measured(m, low, high, int(n)) if math.isfinite(low) else None for m, low, high, n in rows]


def mean_reward(sums: np.ndarray) -> MeanEstimate:
    """Return the mean reward of a decision of a variant from its sums, (..., 30).

    NaN where a stratum with decisions has fewer than two rewards, only equal ones, or those of one subject.
    """
    n, m, s, q = np.moveaxis(sums[..., STRATA], -1, 0)  # (..., 2) each
    products = np.zeros((*sums.shape[:-1], len(SUMS), len(SUMS)))
    products[..., *PAIRS] = products[..., *PAIRS[::-1]] = sums[..., FIRST_PRODUCT:]
    strata = products.reshape(*sums.shape[:-1], 2, 3, 2, 3)
    own = np.moveaxis(np.diagonal(strata, axis1=-4, axis2=-2), -1, -3)  # (..., 2, 3, 3)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        total, there = n.sum(axis=-1), n > 0
        weight, mean = n / total[..., None], np.where(there, s / m, 0.0)
        raised = np.where(there, n / m, 0.0)
        value = (weight * mean).sum(axis=-1)
        away = np.where(there, mean - value[..., None], 0.0)
        change = np.stack([away, -raised * mean, raised], axis=-1).reshape(*sums.shape[:-1], len(SUMS))
        whole = np.einsum("...i,...ij,...j", change, products, change)
        within = raised**2 * (own[..., 2, 2] - 2 * mean * own[..., 1, 2] + mean**2 * own[..., 1, 1])
        within = np.where(there, within, 0.0)
        subjects = np.where(there, m**2 / own[..., 1, 1], np.inf)  # as if equally large
        lost = within / (subjects - 1)  # the mean is estimated too
        between = np.einsum("...h,...hk,...k", away, strata[..., 0, :, 0], away)
        everybody = total**2 / strata[..., 0, :, 0].sum(axis=(-2, -1))
        parts = ((within + lost) ** 2 / (subjects - 1)).sum(axis=-1) + between**2 / (everybody - 1)
        freedom = ((within + lost).sum(axis=-1) + between) ** 2 / parts
        variance = whole + lost.sum(axis=-1)
        one = np.where(there, (q - s * mean) / m, 0.0)
        spread = (weight * (one + away**2)).sum(axis=-1)
        known = (m >= MIN_REWARDS) & ~all_equal(m, s, q) & (subjects > 1)
        fine = (~there | known).all(axis=-1) & there.any(axis=-1) & (whole > 0)
        return MeanEstimate(
            np.where(fine, value, np.nan),
            np.where(fine, variance / total**2, np.nan),
            np.where(fine, freedom, np.nan),
            np.where(fine, spread, np.nan),
            np.where(there, m, 0).sum(axis=-1),
        )


def all_equal(rewards: np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return whether all rewards are equal up to rounding of their sums; their variance is then unknown rather than 0."""
    return squares - total**2 / np.maximum(rewards, 1) <= ROUNDING * np.sqrt(rewards) * squares


def difference(one: MeanEstimate, other: MeanEstimate) -> MeanEstimate:
    """Return the difference of two independent estimates (Welch)."""
    variance = one.variance + other.variance
    free = variance**2 / (one.variance**2 / one.free + other.variance**2 / other.free)
    spread = (one.spread + other.spread) / 2
    return MeanEstimate(one.value - other.value, variance, free, spread, one.rewards + other.rewards)


def budget_limited_hours(totals: HourlyTotals) -> np.ndarray:
    """Return the hours in which the budget prevented a reward call."""
    short = [reason == events.BUDGET for reason, _, _ in totals.groups]
    return np.unique(totals.hours[np.array(short, dtype=bool)[totals.group]])


def shares(options: Options) -> list[Any]:
    """Return the options that decide which decisions are comparable."""
    return [getattr(options, name) for name in SHARES]


def changed(changes: Sequence[ChangeEvent], began: Mapping[str, Any] | None) -> ChangeEvent | None:
    """Return the last of these changes of options that changed the shares; `began` are the first options, if known."""
    before = None if began is None else [began.get(name) for name in SHARES]
    found = None
    for change in changes:
        options = change.read()
        after = [options.get(name, getattr(Options(), name)) for name in SHARES]
        if after != before:
            found, before = change, after
    return found


def compare(
    sums: SumsByHour,
    steps: TimeBins,
    options: Options,
    *,
    now: int,
    ratio: SampleRatio | None,
    limited: bool = False,
) -> tuple[Headline, list[SoFar]]:
    """Compare policy and holdout; also return both up to the end of each bin. `limited`: the budget prevented calls."""
    if not steps.count:
        return Headline("No decision has been made yet.", None, None, None, 0, ratio), []
    until = sums.until(steps.place(sums.hours), steps.count)
    policy, holdout = mean_reward(until[:, 0]), mean_reward(until[:, 1])
    means, holdouts = policy.measured(), holdout.measured()
    so_far = [SoFar(*one) for one in zip(steps.ends(now), means, holdouts, strict=True)]
    gap = difference(policy, holdout).measured()[-1]
    why = missing_data(until[-1], options, limited=limited)
    if why is None and None in (means[-1], holdouts[-1], gap):
        few = min(until[-1, 0, STRATA[0, REWARDS]], until[-1, 1, STRATA[0, REWARDS]])
        why = f"The rewards of each variant are too few, or of too few subjects, for an interval that holds at every look ({few:,.0f} in one of them): wait for more."
    checks = int(until[-1, 0, CHECKS])
    return Headline(why, means[-1], holdouts[-1], gap, checks, ratio), so_far


def missing_data(sums: np.ndarray, options: Options, *, limited: bool) -> str | None:
    """Return which data the comparison lacks and how to get it, from the sums of policy and holdout, (2, 30)."""
    policy, holdout = sums[:, STRATA]
    if not (policy[:, DECISIONS].any() or holdout[:, DECISIONS].any()):
        if limited:
            return "The budget was used up at every decision so far, and such decisions are not compared: raise budget_calls or most_open."
        return "No decision was made in the mode live since the options check and holdout were set."
    parts = [
        part
        for part in (
            _missing_policy(policy[0], policy[1], int(sums[0, CHECKS]), options),
            _missing_holdout(holdout[0], options),
        )
        if part
    ]
    return "; ".join([parts[0], *(part[0].lower() + part[1:] for part in parts[1:])]) + "." if parts else None


def _missing_policy(called: np.ndarray, skipped: np.ndarray, checks: int, options: Options) -> str | None:
    if not (called + skipped)[DECISIONS]:
        return "The policy has made no decision yet"
    if skipped[DECISIONS] and not checks:
        if options.check:
            return "None of the skipped decisions has been checked yet: wait, or raise the option check"
        return "The reward of skipped decisions is not measured: set the option check, such as 0.05, to request the reward of a random share of them (1 more paid reward per 20 skipped decisions)"
    if called[DECISIONS] and (poor := _too_few(called, "the reward calls of the policy")):
        return f"{poor}: wait for more"
    if skipped[DECISIONS] and (poor := _too_few(skipped, "the checks")):
        return f"{poor}: wait for more, or raise the option check"
    return None


def _missing_holdout(numbers: np.ndarray, options: Options) -> str | None:
    if not numbers[DECISIONS] and not options.holdout:
        return "There is no holdout to compare with: set the option holdout, such as 0.05, to serve a share of decisions without the policy (1 decision in 20, each with a paid reward)"
    if poor := _too_few(numbers, "the holdout"):
        return f"{poor}: wait for more, or raise the option holdout"
    return None


def _too_few(numbers: np.ndarray, what: str) -> str | None:
    """Explain why the rewards of a kind, (4,), are not enough."""
    rewards = int(numbers[REWARDS])
    if rewards < MIN_REWARDS:
        return f"{'Only one reward' if rewards else 'No reward'} of {what} has arrived"
    if all_equal(*numbers[REWARDS:]):
        return f"All {rewards:,} rewards of {what} are equal, so their variance is unknown"
    return None


def sample_ratio(asked: float, policy: int, holdout: int) -> SampleRatio | None:
    """Test the share of the holdout against the configured one: an exact two-sided binomial test."""
    seen = policy + holdout
    if not asked or not seen:
        return None
    below, above = bdtr(holdout, seen, asked), bdtrc(holdout - 1, seen, asked) if holdout else 1.0
    return SampleRatio(asked, holdout / seen, min(1.0, 2 * float(min(below, above))))
