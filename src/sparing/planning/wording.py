"""A plan in words and as a table, in the user's units: what to ask for first, then what everything would cost."""

from typing import TYPE_CHECKING

from sparing.report.text import counted, number

if TYPE_CHECKING:
    from sparing.planning.result import Option, Plan

CLEAR = 3.0
"""Another learner nets more if it does so by this many standard errors: several are looked at."""


def lived(plan: "Plan") -> str:
    """How many worlds of how many."""
    slices = plan.alone.slices
    return f"{len(slices.numbers):,} of {slices.drawn:,} worlds of the log's posterior"


def price(value: float) -> str:
    """A price with three digits."""
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
    """What is best at one of several prices."""
    net = plan.net(option)
    if net is None or net.mean <= 0:
        return f"{option.setting} each, none"
    return f"{option.setting} each, about {number(option.calls_at().mean)} for {plan.gain(option)}"


def _why_none(plan: "Plan", option: "Option") -> str:
    """Why no call is worth it."""
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
        more, error = best.slices.mean(ahead), best.slices.error(ahead)
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
    title = f"{counted(plan.horizon, 'round')} in {lived(plan)}; {plan.coverage:.0%} intervals"
    lines = []
    for name, *row in cells:
        numbers = (f"{cell:>{width}}" for cell, width in zip(row, others, strict=True))
        lines.append("  ".join([f"{name:{first}}", *numbers]).rstrip())
    return [title, "", *lines]
