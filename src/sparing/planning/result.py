"""What a plan says: calls, regret and gain of each learner over the worlds, and what follows from them."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.planning import wording
from sparing.planning.slices import Slices
from sparing.report import notebook
from sparing.report.text import number

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Summary:
    """A number over worlds: mean and its standard error, median, and the prediction interval."""

    mean: float
    error: float
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray, slices: Slices) -> "Summary":
        """Summarise values (n,), one of each slice."""
        values = values.astype(float)
        found = slices.mean(values), slices.error(values), slices.median(values)
        return cls(*found, *slices.limits(values))

    @property
    def between(self) -> str:
        """The interval, for people."""
        return f"{number(self.low)}–{number(self.high)}"

    def __str__(self) -> str:
        return f"{number(self.mean)} ± {number(self.error)}"


@dataclass(frozen=True, eq=False)
class Option:
    """One learner with its price or tolerance, if it has one: calls and regret (n, C) in each world at each checkpoint.

    `price` is what `economical` takes a reward to cost.
    """

    name: str
    price: float | None
    tolerance: float | None
    detail: str
    calls: np.ndarray
    regret: np.ndarray
    slices: Slices

    @property
    def setting(self) -> str:
        """What tells it from other options with the same learner."""
        if self.price is not None:
            return f"at {wording.price(self.price)}"
        return f"τ {self.tolerance:g}" if self.tolerance is not None else self.detail

    @property
    def label(self) -> str:
        """The option's name for people."""
        between = " " if self.price is not None else ", "
        return f"{self.name}{between}{self.setting}" if self.setting else self.name

    def calls_at(self, checkpoint: int = -1) -> Summary:
        """Reward calls up to a checkpoint; the horizon is the last."""
        return Summary.of(self.calls[:, checkpoint], self.slices)

    def regret_at(self, checkpoint: int = -1) -> Summary:
        """Regret up to a checkpoint; the horizon is the last."""
        return Summary.of(self.regret[:, checkpoint], self.slices)

    def numbers(self, checkpoint: int = -1) -> dict[str, dict[str, float]]:
        """Calls and regret up to a checkpoint as values that JSON can carry."""
        return {"calls": asdict(self.calls_at(checkpoint)), "regret": asdict(self.regret_at(checkpoint))}

    def __str__(self) -> str:
        calls, regret = self.calls_at(), self.regret_at()
        means = number(calls.mean), number(regret.mean)
        return (
            f"{self.label} with {means[0]} calls ({calls.between}) and regret {means[1]} ({regret.between})"
        )


@dataclass(frozen=True, eq=False)
class Plan:
    """What each learner is predicted to ask for, to lose and to gain; `print` it for people, `to_dict` for machines.

    The first of the `options` is the log alone, which never asks. `checkpoints` (C,) are rounds, the horizon last. `coverage` is the
    least probability with which a further world of this kind falls into one interval. `call_cost`, `budget` and `regret`
    are what was said and asked for.
    """

    horizon: int
    worlds: int
    confidence: float
    coverage: float
    checkpoints: tuple[int, ...]
    options: tuple[Option, ...]
    noise: float
    prior_scale: float
    assumptions: tuple[str, ...]
    call_cost: float | None = None
    budget: int | None = None
    regret: float | None = None
    seed: int = 0

    @property
    def alone(self) -> Option:
        """The log alone: the best mean of the posterior in every round, and no calls."""
        return self.options[0]

    @property
    def chosen(self) -> Option | None:
        """`economical` where its mean gain exceeds what its calls cost, else the log alone.

        None where neither a price nor a budget was said, or `economical` was not compared.
        """
        offered = [option for option in self.options if option.price is not None]
        if not offered or (self.call_cost is None and self.budget is None):
            return None
        net = self.net(offered[0]) or self.gain(offered[0])
        return offered[0] if net.mean > 0 else self.alone

    def gain(self, option: Option) -> Summary:
        """What an option earns more than the log alone in the same world: regret(log alone) − regret(option)."""
        return Summary.of(self.alone.regret[:, -1] - option.regret[:, -1], option.slices)

    def cost(self, option: Option) -> float | None:
        """What each of its calls costs: as was said; else, unless a budget was, the price it is tried at; or it is unknown."""
        if self.call_cost is not None or self.budget is not None:
            return self.call_cost
        return 0.0 if option is self.alone else option.price

    def spend(self, option: Option) -> Summary | None:
        """Cost × calls; None where the cost is unknown."""
        cost = self.cost(option)
        return None if cost is None else Summary.of(cost * option.calls[:, -1], option.slices)

    def net(self, option: Option) -> Summary | None:
        """Gain less spend, world by world; None where the cost is unknown."""
        cost = self.cost(option)
        if cost is None:
            return None
        earned = self.alone.regret[:, -1] - option.regret[:, -1] - cost * option.calls[:, -1]
        return Summary.of(earned, option.slices)

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
    def sentence(self) -> str:
        """The plan in a sentence: how many rewards to ask for, and what that gains and costs."""
        return wording.sentence(self)

    @property
    def answers(self) -> tuple[str, ...]:
        """What else follows: for the regret and the budget that were asked for, and if another learner nets more."""
        return wording.answers(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as values that JSON can carry."""
        plain = ("horizon", "call_cost", "budget", "worlds", "confidence", "coverage", "seed", "noise")
        return {
            "sentence": self.sentence,
            "chosen": self.chosen and self.chosen.label,
            **{name: getattr(self, name) for name in (*plain, "prior_scale")},
            "options": [self._exported(option) for option in self.options],
            "frontier": [option.label for option in self.frontier],
            "asked": self._asked(),
            "answers": list(self.answers),
            "assumptions": list(self.assumptions),
        }

    def _exported(self, option: Option) -> dict[str, Any]:
        spend, net = self.spend(option), self.net(option)
        return {
            "label": option.label,
            "learner": option.name,
            "price": option.price,
            "tolerance": option.tolerance,
            "frontier": option in self.frontier,
            **option.numbers(),
            "gain": asdict(self.gain(option)),
            "spend": spend and asdict(spend),
            "net": net and asdict(net),
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

    def to_frame(self) -> "pandas.DataFrame":
        """The options at the horizon as a pandas frame, a row each, the log alone first.

        `option`, `learner`, `price`, `tolerance`, `frontier`; means of `calls`, `regret`, `gain`, `spend` and `net`, each with its prediction
        interval (`calls_low`, `calls_high`, …) and the mean's standard error (`calls_error`, …); spend and net are missing
        where the price is unknown.
        """
        return notebook.frame(notebook.records([self._flat(option) for option in self.options]))

    def _flat(self, option: Option) -> dict[str, Any]:
        numbers = {
            "calls": option.calls_at(),
            "regret": option.regret_at(),
            "gain": self.gain(option),
            "spend": self.spend(option),
            "net": self.net(option),
        }
        found: dict[str, Any] = {
            "option": option.label,
            "learner": option.name,
            "price": option.price,
            "tolerance": option.tolerance,
            "frontier": option in self.frontier,
        }
        for name, summary in numbers.items():
            found[name] = summary and summary.mean
            for part in ("low", "high", "error"):
                found[f"{name}_{part}"] = summary and getattr(summary, part)
        return found

    def __repr__(self) -> str:
        return f"Plan({self.horizon:,} rounds, {len(self.options)} options in {self.worlds} worlds; print it for the rest)"

    def _repr_html_(self) -> str:
        about = wording.table(self)[0]
        said = [self.sentence, *self.answers]
        return notebook.card(
            f"Plan: {about}",
            said=said,
            header=wording.header(self),
            rows=wording.rows(self),
            notes=self.assumptions,
        )

    def __str__(self) -> str:
        basis = ["What this rests on:", *(f"- {text}" for text in self.assumptions)]
        parts = [self.sentence, "", *wording.table(self), "", *self.answers, *basis]
        return "\n".join(parts)
