"""What the effective sample can tell: limits are widened by what it did not see, or refused."""

from dataclasses import dataclass

import numpy as np

FEWEST = 10
"""With fewer effective rows there is no interval: it is infinite, or the range of the mean rewards where that is known."""

FEW = 30
"""An estimate of fewer effective rows is marked."""

EXPECTED, EXPECTED_OF_FEW = 2.0, 1.0
"""Weights are expected to miss their known mean by as many standard errors as this; by fewer where there are few, and no model
stands in for what they miss: their standard error knows nothing of the large weights that did not come."""

MOST_ASSUMED = 0.5
"""The share of a policy that may count with a range which was assumed from rewards of other play."""

FLAT = 1e-9
"""Limits closer than this share of the reward range say only that nothing varied."""


@dataclass(frozen=True)
class Sample:
    """The rows behind an estimate, as its weights leave them.

    effective: (Σw)²/Σw². unseen: the mass of the policy that the weights ought to have and do not (below 0: have too much)
    beyond chance. filled: whether that mass counts with what the rest earns (SNIPS) or its model says (DR), not with 0 (IPS).
    fit_error, fit_lift: half a width and a bias that fitted propensities bring. assumed: the share of the policy that counts with
    a range of mean rewards which is only that of the rewards seen, though the log has hardly seen the policy's, and no model stands in.
    """

    effective: float
    unseen: float = 0.0
    filled: bool = True
    fit_error: float = 0.0
    fit_lift: float = 0.0
    assumed: float = 0.0

    @property
    def refusal(self) -> str:
        """Why there can be no interval; empty where there can."""
        if not self.effective:
            return "the policy never plays what was logged, so that nothing can be told of what it earns"
        if self.effective < FEWEST:
            return f"fewer than {FEWEST} effective rows, too few to tell how far off the value may be"
        if self.assumed > MOST_ASSUMED:
            return (
                f"{self.assumed:.0%} of the policy would count with the range of the rewards seen, which are not the policy's. Give the "
                "range of mean rewards (reward_range)"
            )
        return ""


@dataclass(frozen=True)
class Lack:
    """What weights are short of, 1 − u_i − w_i, over the rows: its mean, and the standard error of that."""

    mean: float
    error: float

    @classmethod
    def of(cls, lack: np.ndarray) -> "Lack":
        """That of rows (n,); 0 of a single one."""
        if len(lack) < 2:
            return cls(0.0, 0.0)
        return cls(float(lack.mean()), float(lack.std(ddof=1) / np.sqrt(len(lack))))

    def beyond_chance(self, expected: float = EXPECTED) -> float:
        """The mean where it is more than so many standard errors from 0, else 0."""
        return self.mean if abs(self.mean) > expected * self.error else 0.0


def beyond_chance(lack: np.ndarray, expected: float = EXPECTED) -> float:
    """The mean of 1 − u_i − w_i (n,), whose expectation is 0, where chance does not explain it; else 0.

    Chance explains as many standard errors as are `expected`. Where weights have a heavy tail, the largest are seldom in the log: the mean is then well above 0, far beyond a standard
    error that knows nothing of them either.
    """
    return Lack.of(lack).beyond_chance(expected)


def widened(
    low: float,
    high: float,
    value: float,
    *,
    sample: Sample,
    reward_range: tuple[float, float],
    confidence: float,
) -> tuple[float, float]:
    """Limits that count what the sample did not see; infinite where they are refused.

    Where nothing varied, m effective rows may have missed what happens with a chance of 1 − (α/2)^(1/m), about 3.7/m at
    95 %: the rule of three, for both sides.
    """
    if sample.refusal:
        return -np.inf, np.inf
    (least, most), gone = reward_range, abs(sample.unseen)
    below, above = max(value - least, 0.0), max(most - value, 0.0)
    if high - low <= FLAT * (most - least):
        rare = 1 - ((1 - confidence) / 2) ** (1 / sample.effective)
        low, high = low - rare * below, high + rare * above
    if sample.fit_error or sample.fit_lift:
        low = value - np.hypot(value - low, sample.fit_error) - abs(sample.fit_lift)
        high = value + np.hypot(high - value, sample.fit_error) + abs(sample.fit_lift)
    if not sample.filled:
        below, above = max(-least, 0.0), max(most, 0.0)
        if sample.unseen < 0:
            below, above = above, below
    return low - gone * below, high + gone * above
