"""Policy against holdout: stratified mean rewards with intervals, in closed form from hourly totals.

Of its N decisions the policy made a reward call for n_1 and skipped n_2; a random share of the skipped ones, the checks, had
a call all the same. A skipped decision earns on average what the checks earn:
    value = Σ_h w_h·r̄_h,  w_h = n_h/N,  r̄_h the mean of the m_h rewards of stratum h,
    variance = Σ_h w_h²·s_h²/m_h + Σ_h w_h·(r̄_h − value)²/N
(two-phase sampling: the second term is there because the sizes of the strata are random too). Intervals use Student's quantile
at the degrees of freedom of Welch and Satterthwaite, and take decisions as independent.

Two kinds of hours are left out of both sides, because the checks would stand for other decisions than those skipped: hours in
which the budget prevented a call (there are no checks then), and hours before the last change of check or holdout.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc

from sparing.interval import deviations, interval
from sparing.service import events
from sparing.service.events import ChangeEvent
from sparing.service.messages import Headline, Hour, Measured, Options, Reasons, SampleRatio, SoFar
from sparing.service.store.store import HourlyTotal

MAX_BINS = 96
STEPS = (1, 2, 3, 6, 12, 24, 48, 96, 168)  # hours per bin; beyond them whole weeks
HOUR = events.HOUR // events.SECOND

Group = tuple[str, str, bool]  # reason, variant, whether there was a reward call
MIN_REWARDS = 2  # a variance needs two
ROUNDING = 8 * np.finfo(float).eps

# Of the policy: called by itself, skipped, and skipped but checked; and the holdout.
CALLED, SKIPPED, CHECKED, HOLDOUT = range(4)

DECISIONS, REWARDS, SUM, SQUARES = range(4)  # the sums of a kind
# Options that decide which decisions are comparable.
SHARES = ("check", "holdout", "holdout_policy", "holdout_group")


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
        found = np.bincount(cells, totals.numbers[:, 0], minlength=self.count * len(totals.groups))
        for cell in np.flatnonzero(found).tolist():
            step, group = divmod(cell, len(totals.groups))
            reason = totals.groups[group][0]
            counted[step][reason] = counted[step].get(reason, 0) + int(found[cell])
        return [Hour((self.first + i * self.hours) * HOUR, one) for i, one in enumerate(counted)]


class MeanEstimate(NamedTuple):
    """Estimates, (...,) each, NaN where there are too few rewards; `free` are the degrees of freedom."""

    value: np.ndarray
    variance: np.ndarray
    free: np.ndarray
    rewards: np.ndarray

    def measured(self) -> list[Measured | None]:
        limits = interval(self.value, np.sqrt(self.variance), deviations(freedom=self.free))
        rows = np.stack([self.value, *limits, self.rewards], axis=-1).tolist()
        return [None if math.isnan(low) else Measured(m, low, high, int(n)) for m, low, high, n in rows]


def stratified(
    decisions: np.ndarray, rewards: np.ndarray, total: np.ndarray, squares: np.ndarray
) -> MeanEstimate:
    """Return the mean reward of a decision over strata, from (..., H) arrays: decisions, rewards, Σr and Σr².

    NaN where a stratum with decisions has fewer than two rewards, or only equal ones.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        n, there = decisions.sum(axis=-1, keepdims=True), decisions > 0
        weight, mean = decisions / n, np.where(there, total / rewards, 0.0)
        known = (rewards >= MIN_REWARDS) & ~all_equal(rewards, total, squares)
        spread = np.where(there & known, (squares - total * mean) / (rewards - 1), 0.0)
        value = (weight * mean).sum(axis=-1, keepdims=True)
        parts = np.where(there, weight**2 * spread / rewards, 0.0)
        between = (weight * (mean - value) ** 2).sum(axis=-1) / n[..., 0]
        variance = parts.sum(axis=-1) + between
        squares_by_free = np.where(there, parts**2 / (rewards - 1), 0.0).sum(axis=-1) + between**2 / (
            n[..., 0] - 1
        )
        fine = (~there | known).all(axis=-1) & there.any(axis=-1)
        return MeanEstimate(
            np.where(fine, value[..., 0], np.nan),
            np.where(fine, variance, np.nan),
            np.where(fine, variance**2 / squares_by_free, np.nan),
            np.where(there, rewards, 0).sum(axis=-1),
        )


def all_equal(rewards: np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return whether all rewards are equal up to rounding of their sums; their variance is then unknown rather than 0."""
    return squares - total**2 / np.maximum(rewards, 1) <= ROUNDING * np.sqrt(rewards) * squares


def estimates(sums: np.ndarray) -> tuple[MeanEstimate, MeanEstimate]:
    """Return the mean rewards of policy and holdout from the sums of each kind, (..., 4, 4)."""
    strata = sums[..., [CALLED, CHECKED], :].copy()
    strata[..., 1, DECISIONS] += sums[..., SKIPPED, DECISIONS]
    holdout = sums[..., [HOLDOUT], :]
    return stratified(*np.moveaxis(strata, -1, 0)), stratified(*np.moveaxis(holdout, -1, 0))


def difference(one: MeanEstimate, other: MeanEstimate) -> MeanEstimate:
    """Return the difference of two independent estimates (Welch)."""
    variance = one.variance + other.variance
    free = variance**2 / (one.variance**2 / one.free + other.variance**2 / other.free)
    return MeanEstimate(one.value - other.value, variance, free, one.rewards + other.rewards)


def kind(group: Group) -> int:
    """Return the row of the comparison that a group belongs to; −1 for none."""
    reason, arm, asked = group
    if arm == "holdout":
        return HOLDOUT if asked else -1
    if arm != "policy":
        return -1
    if not asked:
        return SKIPPED
    return CHECKED if reason == events.CHECK else CALLED


def budget_limited_hours(totals: HourlyTotals) -> np.ndarray:
    """Return the hours in which the budget prevented a reward call."""
    short = [reason == events.BUDGET for reason, _, _ in totals.groups]
    return np.unique(totals.hours[np.array(short, dtype=bool)[totals.group]])


def counted(totals: HourlyTotals, steps: TimeBins, since: int) -> np.ndarray:
    """Return the sums of each kind up to the end of each bin, (bins, 4, 4), from the hour `since` on."""
    kinds = np.array([kind(group) for group in totals.groups], dtype=np.int64)[totals.group]
    use = (kinds >= 0) & (totals.hours >= since) & ~np.isin(totals.hours, budget_limited_hours(totals))
    place = np.where(use, steps.place(totals.hours) * 4 + kinds, -1)
    return totals.added(place, steps.count * 4).reshape(steps.count, 4, 4).cumsum(axis=0)


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
    totals: HourlyTotals,
    steps: TimeBins,
    options: Options,
    *,
    since: int,
    now: int,
    ratio: SampleRatio | None,
) -> tuple[Headline, list[SoFar]]:
    """Compare policy and holdout from the hour `since` on; also return both up to the end of each bin."""
    sums = counted(totals, steps, since)
    policy, holdout = estimates(sums)
    means, holdouts = policy.measured(), holdout.measured()
    so_far = [SoFar(*one) for one in zip(steps.ends(now), means, holdouts, strict=True)]
    if not so_far:
        return Headline("No decision has been made yet.", None, None, None, 0, ratio), []
    why = missing_data(sums[-1], options, since=since, now=now, short=bool(len(budget_limited_hours(totals))))
    checks = int(sums[-1, CHECKED, DECISIONS])
    return Headline(
        why, means[-1], holdouts[-1], difference(policy, holdout).measured()[-1], checks, ratio
    ), so_far


def missing_data(sums: np.ndarray, options: Options, *, since: int, now: int, short: bool) -> str | None:
    """Return which data the comparison lacks and how to get it, from the sums of each kind (4, 4)."""
    if not sums[..., DECISIONS].any():
        if since * events.HOUR > now:
            start = events.time_text(since * events.HOUR)
            return f"The option check or holdout was changed. Only whole hours are compared: measured from {start} on."
        if short:
            return "The budget was used up in every hour so far, and such hours are not compared: raise budget_calls or most_open."
        return "No decision was made in the mode live since the options check and holdout were set."
    parts = [
        part for part in (_missing_policy(sums, options), _missing_holdout(sums[HOLDOUT], options)) if part
    ]
    return "; ".join([parts[0], *(part[0].lower() + part[1:] for part in parts[1:])]) + "." if parts else None


def _missing_policy(sums: np.ndarray, options: Options) -> str | None:
    called, skipped, checks = sums[[CALLED, SKIPPED, CHECKED]]
    if not (called + skipped + checks)[DECISIONS]:
        return "The policy has made no decision yet"
    if skipped[DECISIONS] and not checks[DECISIONS]:
        if options.check:
            return "None of the skipped decisions has been checked yet: wait, or raise the option check"
        return "The reward of skipped decisions is not measured: set the option check, such as 0.05, to request the reward of a random share of them (1 more paid reward per 20 skipped decisions)"
    if called[DECISIONS] and (poor := _too_few(called, "the reward calls of the policy")):
        return f"{poor}: wait for more"
    if (skipped + checks)[DECISIONS] and (poor := _too_few(checks, "the checks")):
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
