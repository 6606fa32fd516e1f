"""What a plan says: calls, regret and gain of each learner over the worlds, and what follows from them."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.auditing.wording import counted
from sparing.planning.strata import Strata
from sparing.report import notebook

if TYPE_CHECKING:
    import pandas

CLEAR = 3.0  # another learner nets more if it does so by this many standard errors: several are looked at


@dataclass(frozen=True)
class WorldSummary:
    """A number over worlds: mean and its standard error, median, and the prediction interval."""

    mean: float
    error: float
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray, strata: Strata) -> "WorldSummary":
        """Summarise values (n,), one of each slice."""
        values = values.astype(float)
        found = strata.mean(values), strata.error(values), strata.median(values)
        return cls(*found, *strata.limits(values))

    @property
    def between(self) -> str:
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
    strata: Strata

    @property
    def setting(self) -> str:
        if self.price is not None:
            return f"at {price(self.price)}"
        return f"τ {self.tolerance:g}" if self.tolerance is not None else self.detail

    @property
    def label(self) -> str:
        between = " " if self.price is not None else ", "
        return f"{self.name}{between}{self.setting}" if self.setting else self.name

    def calls_at(self, checkpoint: int = -1) -> WorldSummary:
        """Reward calls up to a checkpoint; the horizon is the last."""
        return WorldSummary.of(self.calls[:, checkpoint], self.strata)

    def regret_at(self, checkpoint: int = -1) -> WorldSummary:
        """Regret up to a checkpoint; the horizon is the last."""
        return WorldSummary.of(self.regret[:, checkpoint], self.strata)

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

    def gain(self, option: Option) -> WorldSummary:
        """What an option earns more than the log alone in the same world: regret(log alone) − regret(option)."""
        return WorldSummary.of(self.alone.regret[:, -1] - option.regret[:, -1], option.strata)

    def cost(self, option: Option) -> float | None:
        """What each of its calls costs: as was said; else, unless a budget was, the price it is tried at; or it is unknown."""
        if self.call_cost is not None or self.budget is not None:
            return self.call_cost
        return 0.0 if option is self.alone else option.price

    def spend(self, option: Option) -> WorldSummary | None:
        """Cost × calls; None where the cost is unknown."""
        cost = self.cost(option)
        return None if cost is None else WorldSummary.of(cost * option.calls[:, -1], option.strata)

    def net(self, option: Option) -> WorldSummary | None:
        """Gain less spend, world by world; None where the cost is unknown."""
        cost = self.cost(option)
        if cost is None:
            return None
        earned = self.alone.regret[:, -1] - option.regret[:, -1] - cost * option.calls[:, -1]
        return WorldSummary.of(earned, option.strata)

    @property
    def by_calls(self) -> list[Option]:
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
        return sentence(self)

    @property
    def answers(self) -> tuple[str, ...]:
        """What else follows: for the regret and the budget that were asked for, and if another learner nets more."""
        return answers(self)

    def to_dict(self) -> dict[str, Any]:
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
        for name, number in numbers.items():
            found[name] = number and number.mean
            for part in ("low", "high", "error"):
                found[f"{name}_{part}"] = number and getattr(number, part)
        return found

    def __repr__(self) -> str:
        return f"Plan({self.horizon:,} rounds, {len(self.options)} options in {self.worlds} worlds; print it for the rest)"

    def _repr_html_(self) -> str:
        about = table(self)[0]
        said = [self.sentence, *self.answers]
        return notebook.card(
            f"Plan: {about}",
            said=said,
            header=header(self),
            rows=rows(self),
            notes=self.assumptions,
        )

    def __str__(self) -> str:
        basis = ["What this rests on:", *(f"- {text}" for text in self.assumptions)]
        parts = [self.sentence, "", *table(self), "", *self.answers, *basis]
        return "\n".join(parts)


def number(value: float) -> str:
    if value.is_integer() or abs(value) >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def n_worlds_text(plan: "Plan") -> str:
    strata = plan.alone.strata
    return f"{len(strata.numbers):,} of {strata.drawn:,} worlds of the log's posterior"


def price(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def sentence(plan: "Plan") -> str:
    """How many rewards to ask for, what they are expected to gain over the log alone, and what they cost."""
    offered = [option for option in plan.options if option.price is not None]
    if not offered:
        return f"On the frontier, by mean calls and mean regret: {'; '.join(o.label for o in plan.frontier)}."
    if plan.chosen is None:
        offers = "; ".join(_at_price(plan, option) for option in offered)
        return f"How many rewards to ask for, and the expected gain over the log alone, by what a reward costs: {offers}."
    option, calls, gain = offered[0], offered[0].calls_at(), plan.gain(offered[0])
    if plan.chosen is plan.alone:
        return f"Ask for none: {_why_none(plan, option)}."
    of_budget = "" if plan.budget is None else f" of at most {plan.budget:,}"
    parts = [
        f"Ask for about {number(calls.mean)}{of_budget} rewards ({calls.between}) in {counted(plan.horizon, 'round')}",
        f"expected regret {number(option.regret_at().mean)} against {number(plan.alone.regret_at().mean)} with the log alone, "
        f"a gain of {gain}",
    ]
    spend, net = plan.spend(option), plan.net(option)
    if spend is not None and net is not None:
        parts += [f"expected spend {number(spend.mean)}", f"net {net}"]
    else:
        parts += [
            f"priced {option.setting} each, the budget lasts",
            f"worth it while a reward costs less than {number(gain.mean / calls.mean)}",
        ]
    return "; ".join(parts) + "."


def _at_price(plan: "Plan", option: "Option") -> str:
    net = plan.net(option)
    if net is None or net.mean <= 0:
        return f"{option.setting} each, none"
    return f"{option.setting} each, about {number(option.calls_at().mean)} for {plan.gain(option)}"


def _why_none(plan: "Plan", option: "Option") -> str:
    calls, spend = option.calls_at().mean, plan.spend(option)
    if plan.budget == 0:
        return "the budget is 0 calls"
    terms = f"{option.setting} each" if plan.call_cost is not None else "whatever they cost"
    if not calls:
        return f"{terms}, no reward is expected to repay itself in {counted(plan.horizon, 'round')}"
    cost = "" if spend is None else f", and to cost {number(spend.mean)}"
    return f"the {number(calls)} that would be asked for, {terms}, are expected to gain {plan.gain(option)} over the log alone{cost}"


def answers(plan: "Plan") -> tuple[str, ...]:
    """Sentences on the regret and the budget that were asked for, and on a learner that nets clearly more."""
    return (*_for_regret(plan), *_for_budget(plan), *_better(plan))


def _for_regret(plan: "Plan") -> list[str]:
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


def _for_budget(plan: "Plan") -> list[str]:
    if plan.budget is None:
        return []
    best = plan.best_within(plan.budget)
    return (
        [f"At most {counted(plan.budget, 'call')} at the upper limit: least regret has {best}."]
        if best
        else []
    )


def _better(plan: "Plan") -> list[str]:
    """A learner that nets clearly more than what was chosen, in the same worlds."""
    best = plan.chosen
    if best is None or plan.call_cost is None:
        return []
    found = []
    for option in plan.options:
        ahead = best.regret[:, -1] - option.regret[:, -1]
        ahead = ahead + plan.call_cost * (best.calls[:, -1] - option.calls[:, -1])
        more, error = best.strata.mean(ahead), best.strata.error(ahead)
        if more > CLEAR * error and (plan.budget is None or option.calls_at().high <= plan.budget):
            found.append((more, error, option.label))
    if not found:
        return []
    more, error, label = max(found)
    return [f"In these worlds {label} nets {number(more)} ± {number(error)} more."]


def header(plan: "Plan") -> tuple[str, ...]:
    """The table's columns: means, each with its interval; gain over the log alone and its standard error; gain less spend."""
    priced = ("net",) if plan.net(plan.alone) is not None else ()
    return ("learner, * frontier", "calls", "interval", "regret", "interval", "gain", *priced)


def rows(plan: "Plan") -> list[tuple[str, ...]]:
    """The table's cells; an option on the frontier has a star."""
    stars, priced = {option: " *" for option in plan.frontier}, len(header(plan)) == 7
    found = []
    for option in plan.options:
        calls, regret, net = option.calls_at(), option.regret_at(), plan.net(option)
        cells = [option.label + stars.get(option, "")]
        cells += [number(calls.mean), calls.between, number(regret.mean), regret.between]
        cells += ["" if option is plan.alone else str(plan.gain(option))]
        cells += ["" if net is None or option is plan.alone else number(net.mean)] if priced else []
        found.append(tuple(cells))
    return found


def table(plan: "Plan") -> list[str]:
    """The table's lines for a terminal, under what it shows."""
    cells = [header(plan), *rows(plan)]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    title = f"{counted(plan.horizon, 'round')} in {n_worlds_text(plan)}; {plan.coverage:.0%} intervals"
    lines = []
    for name, *row in cells:
        numbers = (f"{cell:>{width}}" for cell, width in zip(row, others, strict=True))
        lines.append("  ".join([f"{name:{first}}", *numbers]).rstrip())
    return [title, "", *lines]
