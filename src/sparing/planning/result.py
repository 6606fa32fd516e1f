"""The result of planning: calls, regret and gain of each option over the worlds, as text and tables."""

from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.log.labels import truncate
from sparing.planning.strata import Strata
from sparing.report import notebook
from sparing.report.text import aligned, counted, number

if TYPE_CHECKING:
    import pandas

CLEAR = 3.0  # standard errors by which another learner must net more, since several are compared


@dataclass(frozen=True)
class WorldSummary:
    """A number over worlds: mean, its standard error, median, and prediction interval."""

    mean: float
    error: float
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray, strata: Strata) -> "WorldSummary":
        """Summarise values (n,), one per stratum."""
        values = values.astype(float)
        found = strata.mean(values), strata.error(values), strata.median(values)
        return cls(*found, *strata.limits(values))

    @property
    def between(self) -> str:
        dash = "–" if self.low >= 0 else " to "
        return f"{number(self.low)}{dash}{number(self.high)}"


@dataclass(frozen=True, eq=False)
class Option:
    """One learner with its price or tolerance, if any: calls and regret (n, C) in each world at each checkpoint.

    `price` is the cost of a reward call that `economical` assumes.
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
        """Summarise the calls up to a checkpoint; the horizon is the last."""
        return WorldSummary.of(self.calls[:, checkpoint], self.strata)

    def regret_at(self, checkpoint: int = -1) -> WorldSummary:
        """Summarise the regret up to a checkpoint; the horizon is the last."""
        return WorldSummary.of(self.regret[:, checkpoint], self.strata)

    def __str__(self) -> str:
        calls, regret = self.calls_at(), self.regret_at()
        means = number(calls.mean), number(regret.mean)
        return (
            f"{self.label} with {means[0]} calls ({calls.between}) and regret {means[1]} ({regret.between})"
        )


@dataclass(frozen=True, eq=False)
class Plan(notebook.Plotted):
    """Predicted calls, regret and gain of each option.

    Print it for a text report; see `to_dict`, `to_frame` and `chosen`. `plot` draws mean regret against mean reward calls, with intervals of
    the regret; a ring marks the advised option.

    Attributes
    ----------
    horizon, worlds : int
        Number of live rounds and of strata.
    confidence, coverage : float
        Requested and actual least probability with which a further world falls into one interval.
    checkpoints : tuple of int
        Rounds at which calls and regret are recorded, the horizon last, (C,).
    options : tuple of Option
        The first one is the offline policy, which makes no calls.
    noise, prior_scale : float
        Standard deviations of a reward around its mean, and of a parameter between actions.
    assumptions : tuple of str
        What the plan assumes, a sentence each.
    warnings : tuple of str
        Signs in the log that these assumptions fail, so that the numbers may be wrong.
    left_out : tuple of str
        Columns of the log that are not features, such as ids and free text: regret does not count what they would explain.
    call_cost, budget, regret : float, int, float or None
        As given.
    costs : dict or None
        Known cost of playing each action, which regret and gain count; None if none is known.
    """

    _figure = "sparing.planning.page"

    horizon: int
    worlds: int
    confidence: float
    coverage: float
    checkpoints: tuple[int, ...]
    options: tuple[Option, ...]
    noise: float
    prior_scale: float
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    call_cost: float | None = None
    budget: int | None = None
    regret: float | None = None
    seed: int = 0
    costs: dict[Hashable, float] | None = None

    @property
    def alone(self) -> Option:
        """The option that plays the best mean of the posterior and makes no calls."""
        return self.options[0]

    @property
    def chosen(self) -> Option | None:
        """`economical` if its mean gain exceeds the cost of its calls, else the offline policy.

        None if neither a price nor a budget was given, or `economical` was not compared.
        """
        offered = [option for option in self.options if option.price is not None]
        if not offered or (self.call_cost is None and self.budget is None):
            return None
        net = self.net(offered[0]) or self.gain(offered[0])
        return offered[0] if net.mean > 0 else self.alone

    def gain(self, option: Option) -> WorldSummary:
        """Return regret(offline policy) − regret(option), world by world.

        Parameters
        ----------
        option : Option
        """
        return WorldSummary.of(self._net(option, 0.0), option.strata)

    def cost(self, option: Option) -> float | None:
        """Return the cost of a call: as given; else, without a budget, the option's price; else None.

        Parameters
        ----------
        option : Option
        """
        if self.call_cost is not None or self.budget is not None:
            return self.call_cost
        return 0.0 if option is self.alone else option.price

    def spend(self, option: Option) -> WorldSummary | None:
        """Return cost × calls; None if the cost is unknown.

        Parameters
        ----------
        option : Option
        """
        cost = self.cost(option)
        return None if cost is None else WorldSummary.of(cost * option.calls[:, -1], option.strata)

    def net(self, option: Option) -> WorldSummary | None:
        """Return gain − spend, world by world; None if the cost is unknown.

        Parameters
        ----------
        option : Option
        """
        cost = self.cost(option)
        return None if cost is None else WorldSummary.of(self._net(option, cost), option.strata)

    def _net(self, option: Option, cost: float) -> np.ndarray:
        """Return regret(offline policy) − regret(option) − cost × calls in each world, (n,)."""
        return self.alone.regret[:, -1] - option.regret[:, -1] - cost * option.calls[:, -1]

    @property
    def by_calls(self) -> list[Option]:
        return sorted(self.options, key=lambda option: (option.calls_at().mean, option.regret_at().mean))

    @property
    def frontier(self) -> tuple[Option, ...]:
        """Options that no other beats in both mean calls and mean regret, by increasing calls."""
        best, found = np.inf, []
        for option in self.by_calls:
            if option.regret_at().mean < best:
                best = option.regret_at().mean
                found.append(option)
        return tuple(found)

    def cheapest(self, regret: float, *, surely: bool = False) -> Option | None:
        """Return the option with the fewest mean calls whose mean regret is at most `regret`, or None.

        Parameters
        ----------
        regret : float
            Largest allowed regret over the horizon, in units of the reward.
        surely : bool
            Apply the limit to the upper limit of the prediction interval too.
        """
        for option in self.by_calls:
            found = option.regret_at()
            if found.mean <= regret and (not surely or found.high <= regret):
                return option
        return None

    def best_within(self, budget: float) -> Option | None:
        """Return the option with the least mean regret whose upper limit of calls is at most `budget`, or None.

        Parameters
        ----------
        budget : float
            Largest number of calls up to the horizon.
        """
        affordable = [option for option in self.by_calls if option.calls_at().high <= budget]
        return min(affordable, key=lambda option: option.regret_at().mean, default=None)

    @property
    def sentence(self) -> str:
        """The advice: how many calls, what they gain and cost, and the interval of outcomes."""
        offered = [option for option in self.options if option.price is not None]
        if not offered:
            return (
                f"Pareto-optimal, by mean calls and mean regret: {'; '.join(o.label for o in self.frontier)}."
            )
        if self.chosen is None:
            offers = "; ".join(_at_price(self, option) for option in offered)
            return f"Rewards to request, and the expected gain over the offline policy ({self.coverage:.0%} interval), by the cost of a reward: {offers}."
        if self.chosen is self.alone:
            return f"Request none: {_why_none(self, offered[0])}."
        return f"Request about {_advice(self, offered[0])}."

    @property
    def answers(self) -> tuple[str, ...]:
        """Sentences on the given regret and budget, and on a learner that nets clearly more."""
        return (*_for_regret(self), *_for_budget(self), *_better(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
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
            "warnings": list(self.warnings),
            **(
                {}
                if self.costs is None
                else {"costs": {str(name): cost for name, cost in self.costs.items()}}
            ),
            "regret_against": against(self),
            "left_out": list(self.left_out),
        }

    def _exported(self, option: Option) -> dict[str, Any]:
        checkpoints = [
            {"round": t, "calls": asdict(option.calls_at(c)), "regret": asdict(option.regret_at(c))}
            for c, t in enumerate(self.checkpoints)
        ]
        numbers = {name: found and asdict(found) for name, found in self._numbers(option).items()}
        return {"label": option.label, **self._about(option), **numbers, "checkpoints": checkpoints}

    def _about(self, option: Option) -> dict[str, Any]:
        plain = {"learner": option.name, "price": option.price, "tolerance": option.tolerance}
        return {**plain, "frontier": option in self.frontier}

    def _numbers(self, option: Option) -> dict[str, WorldSummary | None]:
        return {
            "calls": option.calls_at(),
            "regret": option.regret_at(),
            "gain": self.gain(option),
            "spend": self.spend(option),
            "net": self.net(option),
        }

    def _asked(self) -> dict[str, Any]:
        """Return the labels of the options for the given regret and budget."""
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
        """Return the options at the horizon as a pandas frame, one row each, the offline policy first.

        Columns: `option`, `learner`, `price`, `tolerance`, `frontier`; means of `calls`, `regret`, `gain`, `spend` and `net`, each with
        its prediction interval (`calls_low`, `calls_high`, …) and standard error (`calls_error`, …). Spend and net are missing
        where the price is unknown.
        """
        return notebook.frame(notebook.records([self._flat(option) for option in self.options]))

    def _flat(self, option: Option) -> dict[str, Any]:
        found = {"option": option.label, **self._about(option)}
        for name, summary in self._numbers(option).items():
            found[name] = summary and summary.mean
            found |= {
                f"{name}_{part}": summary and getattr(summary, part) for part in ("low", "high", "error")
            }
        return found

    def __repr__(self) -> str:
        return f"Plan({self.horizon:,} rounds, {len(self.options)} options in {self.worlds} worlds; print it for the rest)"

    def _repr_html_(self) -> str:
        about, said = table(self)[0], [self.sentence, *self.warnings, *self.answers]
        cells: Any = {"header": header(self), "rows": rows(self)}
        return notebook.card(f"Plan: {about}", said=said, **cells, notes=self.assumptions)

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self.warnings, "", *table(self), "", *basis(self)])


def n_worlds_text(plan: "Plan") -> str:
    strata = plan.alone.strata
    return f"{len(strata.numbers):,} of {strata.drawn:,} posterior draws"


def price(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def basis(plan: "Plan") -> list[str]:
    """Return the answers, and what the plan assumes, as lines."""
    return [*plan.answers, "What this rests on:", *(f"- {text}" for text in plan.assumptions)]


def cases(plan: "Plan") -> str:
    """Return the level of the prediction intervals in words."""
    return "nine of ten cases" if round(plan.coverage, 2) == 0.9 else f"{plan.coverage:.0%} of cases"


def against(plan: "Plan") -> str:
    """Return what regret is counted against, in words."""
    some = ", ".join(map(truncate, plan.left_out[:3])) + (", …" if plan.left_out[3:] else "")
    return "the best policy of these features" + (f", without {some}" if some else "")


def _advice(plan: "Plan", option: "Option") -> str:
    calls, gain, spend, net = option.calls_at(), plan.gain(option), plan.spend(option), plan.net(option)
    of_budget = "" if plan.budget is None else f" of at most {plan.budget:,}"
    regret, alone = number(option.regret_at().mean), number(plan.alone.regret_at().mean)
    outcome = gain if net is None else net
    text = (
        f"{number(outcome.mean)}, between {number(outcome.low)} and {number(outcome.high)} in {cases(plan)}"
    )
    if spend is None:
        gained = (
            f"The gain is {text}. {option.setting.capitalize()} a call, the budget lasts; calls pay while a reward costs less "
            f"than {number(gain.mean / calls.mean)}"
        )
    else:
        gained = f"Net of {number(spend.mean)} for the calls, the gain is {text}"
    return (
        f"{number(calls.mean)}{of_budget} rewards ({calls.between}) in {counted(plan.horizon, 'round')}. "
        f"Expected regret against {against(plan)}: {regret}, and {alone} without live rewards. {gained}"
    )


def _at_price(plan: "Plan", option: "Option") -> str:
    net = plan.net(option)
    if net is None or net.mean <= 0:
        return f"{option.setting} each, none"
    gain = plan.gain(option)
    return f"{option.setting} each, about {number(option.calls_at().mean)} for a gain of {number(gain.mean)} ({gain.between})"


def _why_none(plan: "Plan", option: "Option") -> str:
    calls, spend = option.calls_at().mean, plan.spend(option)
    if plan.budget == 0:
        return "the budget is 0 calls"
    terms = f"{option.setting} each" if plan.call_cost is not None else "whatever they cost"
    if not calls:
        return f"{terms}, no reward is expected to repay itself in {counted(plan.horizon, 'round')}"
    cost, gain = "" if spend is None else f", and to cost {number(spend.mean)}", plan.gain(option)
    return f"{number(calls)} calls, {terms}, are expected to gain {number(gain.mean)} ({gain.between}) over the offline policy{cost}"


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
    best, most = plan.best_within(plan.budget), counted(plan.budget, "call")
    return [f"At most {most} at the upper limit: least regret has {best}."] if best else []


def _better(plan: "Plan") -> list[str]:
    """Name a learner that nets clearly more than the advised option in the same worlds."""
    best = plan.chosen
    if best is None or plan.call_cost is None:
        return []
    found = []
    for option in plan.options:
        difference = plan._net(option, plan.call_cost) - plan._net(best, plan.call_cost)
        more, error = best.strata.mean(difference), best.strata.error(difference)
        if more > CLEAR * error and (plan.budget is None or option.calls_at().high <= plan.budget):
            found.append((more, error, option.label))
    if not found:
        return []
    more, _, label = max(found)
    return [f"In the same simulations {label} nets {number(more)} more."]


def header(plan: "Plan") -> tuple[str, ...]:
    """Return the columns: means, and intervals of outcomes. The last are net of the cost of calls if it is known."""
    last = "gain" if plan.net(plan.alone) is None else "net gain"
    return ("learner (* Pareto)", "calls", "interval", "regret", "interval", last, "interval")


def rows(plan: "Plan") -> list[tuple[str, ...]]:
    """Return the cells; Pareto-optimal options have a star."""
    found = []
    for option in plan.options:
        star = " *" if option in plan.frontier else ""
        shown = [option.calls_at(), option.regret_at(), plan.net(option) or plan.gain(option)]
        cells = [cell for each in shown for cell in (number(each.mean), each.between)]
        if option is plan.alone:
            cells[4:] = ["", ""]
        found.append((option.label + star, *cells))
    return found


def table(plan: "Plan") -> list[str]:
    """Return the lines of the table for a terminal, with a title."""
    title = f"{counted(plan.horizon, 'round')} in {n_worlds_text(plan)}; {plan.coverage:.0%} intervals"
    return [title, "", *aligned([header(plan), *rows(plan)])]
