"""What `evaluate` answers: an estimate for each method, and words for them all."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Estimate:
    """One estimator's answer for one policy.

    low, high: the interval that believes the value is all there is to know. support_low, support_high:
    the interval that holds whatever the actions outside the log's support are worth (None where the
    support is not known well enough). unsupported_mass is the policy's mean mass there, `flagged` says
    that it is too large for the value to be taken at face value. clipped_mass is what clipping takes away
    beyond it; the support-aware interval counts it too. few_rows: fewer than 30 effective rows. refused: there is no interval, for a reason
    that `notes` name (fewer than 10 effective rows, or a range of mean rewards that was only assumed): its ends are infinite, or those
    of the known range. in_sample: the rows taught the policy, so that the value
    is too high and no interval of it holds.
    """

    method: str
    value: float
    low: float
    high: float
    support_low: float | None
    support_high: float | None
    unsupported_mass: float | None
    clipped_mass: float
    effective_sample_size: float
    interval: str
    confidence: float
    flagged: bool
    few_rows: bool = False
    refused: bool = False
    in_sample: bool = False
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The estimate as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        own = "no interval" if self.refused else f"[{self.low:.4g}, {self.high:.4g}]"
        text = f"{self.method}: {self.value:.4g} {own}"
        if self.support_low is not None and self.support_high is not None and not self.refused:
            text += f", with what the log cannot see [{self.support_low:.4g}, {self.support_high:.4g}]"
        text += f", effective rows {self.effective_sample_size:,.3g}"
        if self.unsupported_mass is not None:
            text += f", unsupported mass {self.unsupported_mass:.1%}"
        if self.clipped_mass > 0:
            text += f", {self.clipped_mass:.1%} clipped away"
        if self.few_rows:
            text += "  ← FEW ROWS"
        if self.in_sample:
            text += "  ← IN-SAMPLE: these rows taught the policy, so this is too high"
        if self.flagged:
            text += "  ← NOT SUPPORTED BY THE LOG: do not use the value alone"
        return text


@dataclass(frozen=True)
class Evaluation:
    """All estimates of one policy on one log, the methods that could not be used, and why.

    rows: those that were used, of rows_given in the log; held_out says that they are those held out when the policy
    was learnt.
    """

    estimates: tuple[Estimate, ...]
    unusable: dict[str, str]
    rows: int
    support: str
    reward_range: tuple[float, float]
    reward_range_given: bool
    binary_rewards: bool
    logged_mean: float
    rows_given: int
    held_out: bool = False

    def __getitem__(self, method: str) -> Estimate:
        for estimate in self.estimates:
            if estimate.method == method:
                return estimate
        known = ", ".join(estimate.method for estimate in self.estimates)
        reason = f" ({self.unusable[method]})" if method in self.unusable else ""
        raise KeyError(f"no estimate {method!r}{reason}; there are {known}")

    @property
    def unsupported_mass(self) -> float | None:
        """The policy's mass outside the support: the largest told, None if no method can tell."""
        told = [e.unsupported_mass for e in self.estimates if e.unsupported_mass is not None]
        return max(told) if told else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of the estimates, each once."""
        return tuple(dict.fromkeys(note for estimate in self.estimates for note in estimate.notes))

    @property
    def flagged(self) -> bool:
        """Whether any value is not supported by the log."""
        return any(estimate.flagged for estimate in self.estimates)

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        how = "given" if self.reward_range_given else "assumed from the rewards seen"
        how = "all rewards are 0 or 1" if self.binary_rewards else how
        rows = f"{self.rows:,} rows"
        if self.held_out:
            rows = f"{self.rows:,} of {self.rows_given:,} rows, held out when the policy was learnt"
        lines = [
            f"{rows}, support {self.support}, logged mean reward {self.logged_mean:.4g}, "
            f"mean rewards in [{self.reward_range[0]:.4g}, {self.reward_range[1]:.4g}] ({how})",
            *map(str, self.estimates),
            *(f"{method}: not usable, {reason}" for method, reason in self.unusable.items()),
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)
