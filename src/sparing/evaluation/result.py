"""The result of `evaluate`: an estimate for each method, and its text."""

import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sparing.report import notebook

if TYPE_CHECKING:
    import pandas

SMALLEST_SHOWN = 0.0005
"""A mass below this would be printed as 0 %."""


@dataclass(frozen=True)
class Estimate:
    """One estimator's result for one policy; values are in units of the reward.

    Attributes
    ----------
    method : str
    value : float
        The estimated mean reward a decision.
    low, high : float
        The interval of the value, which ignores unsupported actions.
    support_low, support_high : float or None
        The interval that holds for any rewards of unsupported actions; None if the support is not known well enough.
    unsupported_mass : float or None
        The policy's mean probability of unsupported actions.
    clipped_mass : float
        The further mass that clipping removes; the support-aware interval counts it.
    effective_sample_size : float
        (Σw)²/Σw² of the weights.
    interval : str
    confidence : float
    flagged : bool
        Whether the unsupported mass is too large to use the value alone.
    few_rows : bool
        Whether there are fewer than 30 effective rows.
    refused : bool
        Whether there is no interval, for a reason in `notes`: its ends are infinite, or those of the known range.
    unknown : bool
        Whether the policy never plays a logged action, so that the value means nothing; `untold` in JSON.
    in_sample : bool
        Whether the policy was trained on these rows, so that the value is too high and no interval holds.
    inconsistent : bool
        Whether the propensities that it weights rows by cannot be those of the log; the value means nothing.
    notes : tuple of str
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
    unknown: bool = False
    in_sample: bool = False
    inconsistent: bool = False
    notes: tuple[str, ...] = ()

    @property
    def untold(self) -> bool:
        """Deprecated name of `unknown`."""
        warnings.warn("Estimate.untold is deprecated; use unknown", DeprecationWarning, stacklevel=2)
        return self.unknown

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain values for JSON."""
        return {{"unknown": "untold"}.get(name, name): value for name, value in asdict(self).items()}

    @property
    def shown(self) -> str:
        return "unknown" if self.unknown else f"{self.value:.4g}"

    @property
    def level(self) -> str:
        """The intervals with their level, such as `95 % interval`."""
        return f"{100 * self.confidence:g} % interval"

    @property
    def cells(self) -> tuple[str, ...]:
        """The estimate as a row under `Evaluation.header`; ! marks what the log does not support, ~ few rows, ^ clipping, # inconsistent propensities."""
        bounds = "unknown"
        if self.support_low is not None:
            bounds = f"[{self.support_low:.4g}, {self.support_high:.4g}]"
        signs = (
            (self.flagged, "!"),
            (self.few_rows, "~"),
            (self.clipped_mass > 0, "^"),
            (self.inconsistent, "#"),
        )
        marks = "".join(sign for there, sign in signs if there)
        return (
            self.method,
            f"{self.shown} {marks}".strip(),
            "none" if self.refused else f"[{self.low:.4g}, {self.high:.4g}]",
            "none" if self.refused else bounds,
            "unknown" if self.unsupported_mass is None else f"{self.unsupported_mass:.1%}",
            f"{self.effective_sample_size:,.0f}",
        )

    def __repr__(self) -> str:
        return f"Estimate({self})"

    def __str__(self) -> str:
        own = "no interval" if self.refused else f"{self.level} [{self.low:.4g}, {self.high:.4g}]"
        text = f"{self.method}: {self.shown}, {own}"
        if self.support_low is not None and self.support_high is not None and not self.refused:
            text += f", with what the log cannot see [{self.support_low:.4g}, {self.support_high:.4g}]"
        text += f", effective rows {self.effective_sample_size:,.0f}"
        if self.unsupported_mass is not None:
            text += f", {self.unsupported_mass:.1%} unsupported"
        if self.clipped_mass > 0:
            text += f", {self.clipped_mass:.1%} clipped away"
        if self.few_rows:
            text += "  ← FEW ROWS"
        if self.inconsistent:
            text += "  ← INCONSISTENT PROPENSITIES: do not use the value"
        if self.in_sample:
            text += "  ← IN-SAMPLE: the policy was trained on these rows, so this is too high"
        if self.flagged and self.unsupported_mass is None:
            text += "  ← NOT KNOWN HOW MUCH OF IT THE LOG SUPPORTS: do not use the value alone"
        elif self.flagged:
            text += "  ← NOT SUPPORTED BY THE LOG: do not use the value alone"
        return text


@dataclass(frozen=True)
class Evaluation(notebook.Plotted):
    """All estimates of one policy on one log; ``evaluation["dr"]`` is that of a method.

    `plot` draws the estimates with their intervals; hollow ones must not be used alone.

    Attributes
    ----------
    estimates : tuple of Estimate
    unusable : dict of str
        The methods that could not be used, and why.
    rows, rows_given : int
        Rows that were used, and rows in the log.
    support : str
        exact, estimated or unknown.
    reward_range : tuple of float
        Bounds on mean rewards; `reward_range_given` and `binary_rewards` are their origin.
    logged_mean : float
        Mean reward of the rows that were used.
    held_out : bool
        Whether the rows are those held out when the policy was learned.
    mean_weight : float or None
        Mean weight of the rows, plus the unsupported mass if the support is exact: about 1. None without propensities.
    policy_cost : float or None
        Mean known cost of the policy's actions, which all values and `logged_mean` have subtracted. None if no costs are known.
    """

    _figure = "sparing.evaluation.figure"

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
    mean_weight: float | None = None
    policy_cost: float | None = None

    def __getitem__(self, method: str) -> Estimate:
        for estimate in self.estimates:
            if estimate.method == method:
                return estimate
        known = ", ".join(estimate.method for estimate in self.estimates)
        reason = f" ({self.unusable[method]})" if method in self.unusable else ""
        raise KeyError(f"no estimate {method!r}{reason}; there are {known}")

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the table of estimates."""
        level = self.estimates[0].level if self.estimates else "interval"
        return ("method", "value", level, "with the unsupported", "unsupported", "rows*")

    @property
    def unsupported_mass(self) -> float | None:
        """The policy's mass outside the support: the largest of all methods, None if none is known."""
        masses = [e.unsupported_mass for e in self.estimates if e.unsupported_mass is not None]
        return max(masses) if masses else None

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all estimates, each once."""
        return tuple(dict.fromkeys(note for estimate in self.estimates for note in estimate.notes))

    @property
    def unusable_lines(self) -> tuple[str, ...]:
        """The methods that could not be used, a line a reason."""
        reasons = dict.fromkeys(self.unusable.values())
        return tuple(
            f"{', '.join(name for name, why in self.unusable.items() if why == reason)}: not usable, {reason}"
            for reason in reasons
        )

    @property
    def flagged(self) -> bool:
        """Whether any estimate is flagged."""
        return any(estimate.flagged for estimate in self.estimates)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must not be overlooked, a line each; the marks are those of `Estimate.cells`."""
        return tuple(_warnings(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as plain values for JSON."""
        found = asdict(self) | {"estimates": tuple(each.to_dict() for each in self.estimates)}
        if self.policy_cost is None:
            del found["policy_cost"]
        return found

    def to_frame(self) -> "pandas.DataFrame":
        """Return a pandas frame with a row for each method and a column for each field of `Estimate` but its notes."""
        found = notebook.records([estimate.to_dict() for estimate in self.estimates])
        found.pop("notes", None)
        return notebook.frame(found)

    def __repr__(self) -> str:
        values = ", ".join(f"{estimate.method} {estimate.shown}" for estimate in self.estimates)
        return f"Evaluation({self.rows:,} rows, {values}; print it for the rest)"

    def _repr_html_(self) -> str:
        said, rows = str(self).splitlines()[:1], [estimate.cells for estimate in self.estimates]
        notes = [*self.warnings, "* effective rows, as the weights leave them", *self.notes]
        return notebook.card("Evaluation", said=said, header=self.header, rows=rows, notes=notes)

    def __str__(self) -> str:
        how = "given" if self.reward_range_given else "assumed from the rewards seen"
        how = "all rewards are 0 or 1" if self.binary_rewards else how
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        if self.held_out:
            rows = f"{self.rows:,} of {self.rows_given:,} rows, held out when the policy was learnt"
        less = "" if self.policy_cost is None else " less cost"
        costs = (
            ""
            if self.policy_cost is None
            else f"; the policy costs {self.policy_cost:.4g} a decision, subtracted"
        )
        lines = [
            f"{rows}, support {self.support}, logged mean reward{less} {self.logged_mean:.4g}, "
            f"mean rewards in [{self.reward_range[0]:.4g}, {self.reward_range[1]:.4g}] ({how}){costs}",
            *map(str, self.estimates),
            *self.unusable_lines,
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


def _warnings(found: Evaluation) -> Iterator[str]:
    wrong = [e.method for e in found.estimates if e.inconsistent]
    if wrong:
        yield (
            f"INCONSISTENT: the mean weight is {found.mean_weight:.3g} and should be about 1, so the propensities are not those of this "
            f"log; do not use {', '.join(wrong)} (#)."
        )
    few = [e.method for e in found.estimates if e.few_rows]
    if few:
        rest = "rests" if len(few) == 1 else "rest"
        yield f"FEW ROWS: {', '.join(few)} {rest} on few effective rows (~); take a policy nearer to the log, or more rows."
    cut = [f"{e.method} ({e.clipped_mass:.1%})" for e in found.estimates if e.clipped_mass > 0]
    if cut:
        yield f"CLIPPED: weights were clipped, which takes this much of the policy away (^): {', '.join(cut)}."
    if any(estimate.in_sample for estimate in found.estimates):
        yield "IN-SAMPLE: the policy was trained on these rows, so every value here is too high."
    if not found.flagged:
        return
    mass, unknown = found.unsupported_mass, [e.method for e in found.estimates if e.unsupported_mass is None]
    if mass is not None and mass >= SMALLEST_SHOWN:
        share = f"{mass:.0%}" if mass >= 0.01 else f"{mass:.1%}"
        yield f"NOT SUPPORTED: the policy plays actions outside this log's support {share} of the time; use the bounds, not the values (!)."
    elif unknown:
        yield (
            "NOT KNOWN: the log does not name the actions that rows could have taken, so how much of the policy is "
            f"unsupported is unknown to {', '.join(unknown)} (!)."
        )
    else:
        yield "NOT SUPPORTED: the policy plays actions that could have been logged but have no row (!); see the note."
