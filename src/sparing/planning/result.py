"""What a plan says: calls and regret of each learner over the worlds, and what follows from them."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

HEADER = ("learner, * frontier", "calls", "median", "interval", "regret", "median", "interval")
"""Of the table: the numbers after `calls` and `regret` are theirs; those themselves are means."""


@dataclass(frozen=True)
class Summary:
    """A number over worlds: mean and its standard error, median, and the prediction interval."""

    mean: float
    error: float
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray, rank: int) -> "Summary":
        """Summarise values (W,); the interval runs from the rank-th smallest to the rank-th largest."""
        ordered = np.sort(values.astype(float))
        error = ordered.std(ddof=1) / np.sqrt(len(ordered))
        found = (ordered.mean(), error, np.median(ordered), ordered[rank - 1], ordered[-rank])
        return cls(*map(float, found))

    @property
    def cells(self) -> tuple[str, str, str]:
        """Mean, median and interval, for people."""
        return _number(self.mean), _number(self.median), f"{_number(self.low)}–{_number(self.high)}"


@dataclass(frozen=True, eq=False)
class Option:
    """One learner with its tolerance, if it has one: calls and regret (W, C) in each world at each checkpoint."""

    name: str
    tolerance: float | None
    detail: str
    calls: np.ndarray
    regret: np.ndarray
    rank: int

    @property
    def label(self) -> str:
        """The option's name for people."""
        if self.tolerance is not None:
            return f"{self.name}, τ {self.tolerance:g}"
        return f"{self.name}, {self.detail}" if self.detail else self.name

    def calls_at(self, checkpoint: int = -1) -> Summary:
        """Reward calls up to a checkpoint; the horizon is the last."""
        return Summary.of(self.calls[:, checkpoint], self.rank)

    def regret_at(self, checkpoint: int = -1) -> Summary:
        """Regret up to a checkpoint; the horizon is the last."""
        return Summary.of(self.regret[:, checkpoint], self.rank)

    def numbers(self, checkpoint: int = -1) -> dict[str, dict[str, float]]:
        """Calls and regret up to a checkpoint as values that JSON can carry."""
        return {"calls": asdict(self.calls_at(checkpoint)), "regret": asdict(self.regret_at(checkpoint))}

    def __str__(self) -> str:
        (calls, _, between), (regret, _, within) = self.calls_at().cells, self.regret_at().cells
        return f"{self.label} with {calls} calls ({between}) and regret {regret} ({within})"


@dataclass(frozen=True, eq=False)
class Plan:
    """What each learner is predicted to ask for and to lose; `print` it for people, `to_dict` for machines.

    `checkpoints` (C,) are rounds, the horizon last. `coverage` is the exact probability with which a
    further world of this kind falls into one interval. `regret` and `budget` are what was asked for.
    """

    rounds: int
    worlds: int
    confidence: float
    coverage: float
    checkpoints: tuple[int, ...]
    options: tuple[Option, ...]
    noise: float
    prior_scale: float
    assumptions: tuple[str, ...]
    regret: float | None = None
    budget: float | None = None
    seed: int = 0

    @property
    def by_calls(self) -> list[Option]:
        """The options by growing mean calls, then mean regret."""
        return sorted(self.options, key=lambda option: (option.calls_at().mean, option.regret_at().mean))

    @property
    def frontier(self) -> tuple[Option, ...]:
        """Options that no other beats in mean calls and mean regret at once, by growing calls."""
        best, found = np.inf, []
        for option in self.by_calls:
            if option.regret_at().mean < best:
                best = option.regret_at().mean
                found.append(option)
        return tuple(found)

    def cheapest(self, regret: float, *, surely: bool = False) -> Option | None:
        """The option with the fewest mean calls whose mean regret is at most `regret`, or None.

        `surely`: the upper limit of its regret's interval is at most `regret` too.
        """
        for option in self.by_calls:
            found = option.regret_at()
            if found.mean <= regret and (not surely or found.high <= regret):
                return option
        return None

    def best_within(self, budget: float) -> Option | None:
        """The option with the least mean regret whose calls' upper limit is at most `budget`, or None."""
        affordable = [option for option in self.by_calls if option.calls_at().high <= budget]
        return min(affordable, key=lambda option: option.regret_at().mean, default=None)

    @property
    def answers(self) -> tuple[str, ...]:
        """What the plan says to the regret and the budget that were asked for, a sentence each."""
        return (*_for_regret(self), *_for_budget(self))

    def rows(self) -> list[tuple[str, ...]]:
        """The table's cells, under `HEADER`; an option on the frontier has a star."""
        stars = {option: " *" for option in self.frontier}
        return [
            (option.label + stars.get(option, ""), *option.calls_at().cells, *option.regret_at().cells)
            for option in self.options
        ]

    def to_dict(self) -> dict[str, Any]:
        """The plan as values that JSON can carry."""
        plain = ("rounds", "worlds", "confidence", "coverage", "seed", "noise", "prior_scale")
        return {
            **{name: getattr(self, name) for name in plain},
            "options": [self._exported(option) for option in self.options],
            "frontier": [option.label for option in self.frontier],
            "asked": self._asked(),
            "answers": list(self.answers),
            "assumptions": list(self.assumptions),
        }

    def _exported(self, option: Option) -> dict[str, Any]:
        return {
            "label": option.label,
            "learner": option.name,
            "tolerance": option.tolerance,
            "frontier": option in self.frontier,
            **option.numbers(),
            "checkpoints": [{"round": t, **option.numbers(c)} for c, t in enumerate(self.checkpoints)],
        }

    def _asked(self) -> dict[str, Any]:
        """The labels of the options that answer what was asked for, None where none does."""
        asked: dict[str, Any] = {}
        if self.regret is not None:
            mean, sure = self.cheapest(self.regret), self.cheapest(self.regret, surely=True)
            labels = {"by_mean": mean and mean.label, "by_upper_limit": sure and sure.label}
            asked["regret"] = {"at_most": self.regret, **labels}
        if self.budget is not None:
            best = self.best_within(self.budget)
            asked["budget"] = {"at_most": self.budget, "option": best and best.label}
        return asked

    def __str__(self) -> str:
        cells = [HEADER, *self.rows()]
        first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
        lines = [
            "  ".join(
                [f"{name:{first}}", *(f"{cell:>{width}}" for cell, width in zip(row, others, strict=True))]
            )
            for name, *row in cells
        ]
        title = f"{self.rounds:,} rounds in {self.worlds} worlds drawn from the log's posterior; {self.coverage:.0%} intervals"
        basis = ["What this rests on:", *(f"- {text}" for text in self.assumptions)]
        return "\n".join([title, "", *lines, "", *self.answers, *basis])


def _number(value: float) -> str:
    if value.is_integer() or abs(value) >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def _for_regret(plan: Plan) -> list[str]:
    if plan.regret is None:
        return []
    wanted = f"Regret of at most {plan.regret:,g}"
    mean, sure = plan.cheapest(plan.regret), plan.cheapest(plan.regret, surely=True)
    if mean is None:
        least = min(plan.options, key=lambda option: option.regret_at().mean)
        return [f"{wanted}: none of these reaches it, even on average. Least regret: {least}."]
    if sure is mean:
        return [f"{wanted}, on average and at the upper limit: cheapest is {mean}."]
    upper = "none of these reaches it" if sure is None else f"cheapest is {sure}"
    return [
        f"{wanted} on average: cheapest is {mean}.",
        f"{wanted} at the upper limit too: {upper}.",
    ]


def _for_budget(plan: Plan) -> list[str]:
    if plan.budget is None:
        return []
    limit = f"At most {plan.budget:,g} calls at the upper limit"
    best = plan.best_within(plan.budget)
    if best is None:
        least = min(plan.options, key=lambda option: option.calls_at().high)
        return [f"{limit}: none of these stays within it. Fewest calls: {least}."]
    return [f"{limit}: least regret has {best}."]
