"""The figures beyond the paper: what calls buy, what both cost in all, within a budget, and where the model errs."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from research.learners import LEARNERS
from research.paper.beyond.comparing import ALONE, OURS
from research.paper.beyond.setting import SHIFT, Setting, Size
from research.paper.beyond.telling import CHANCE, told
from research.paper.beyond.tuning import DATA, WEIGHT
from research.paper.beyond.units import CLASSES, ROBUST, ROUTING, WORLD
from research.paper.beyond.vowpal import Tuned
from research.paper.experiment import Analysis
from research.paper.frame import Frame
from research.paper.report import drawing
from research.paper.report.drawing import captioned, numbers
from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSIDE = (OURS, "confident", "certified", ALONE, "eps_moful_ips", "warm_started")
OUTSIDE = (OURS, ALONE, "warm_started", "squarecb", "regcb", "bayesianbandits")
ON_DATA = (OURS, "confident", ALONE, "eps_moful_ips", "squarecb", "bayesianbandits")
ON_PROMPTS = (OURS, "confident", ALONE, "squarecb", "bayesianbandits", "paretobandit")
"""Who is drawn where: six at most; tables and numbers hold them all."""

BETTER = "further left and lower is better"
MEANT = "The log alone plays the best mean of the posterior that economical and confident begin with, and never calls."
LEGEND = {"loc": "outside upper center", "ncols": 6, "fontsize": 8.5}


def draw(setting: Setting, analysis: Analysis) -> "dict[str, Figure]":
    """All figures for which there are numbers."""
    drawn = {}
    if analysis.tables[WORLD]:
        for size in setting.sizes:
            drawn[f"frontier_d{size.features}"] = _frontier(setting, analysis, size, INSIDE)
        drawn["outside"] = _frontier(setting, analysis, setting.sizes[0], OUTSIDE)
        drawn |= {"totals": _totals(setting, analysis), "budgets": _budgets(setting, analysis)}
        drawn["robustness"] = _robustness(setting, analysis)
    if analysis.tables[CLASSES]:
        drawn["classes"] = _classes(setting, analysis)
    if analysis.tables[ROUTING]:
        drawn["routing"] = _routing(setting, analysis)
    return drawn


def _frontier(setting: Setting, analysis: Analysis, size: Size, names: Sequence[str]) -> "Figure":
    rows = Frame.of(analysis.tables[WORLD]).where(part=size.name).among("name", names)
    figure, axes = _grid(len(setting.supports), columns=2, width=4.6, height=3.6)
    with figures.styled():
        for one, support in zip(axes, setting.supports, strict=True):
            _panel(one, rows.where(place=support), names, "regret")
            one.set_xscale("symlog", linthresh=30, linscale=0.6)
            one.set_yscale("log")
            one.set_xlim(-4, 1.5 * setting.rounds)
            one.set_ylim(*_reach(rows["regret"]))
            one.set_title(support)
            one.set(xlabel="reward calls", ylabel="regret")
            one.xaxis.set_major_formatter("{x:,.0f}")
            one.yaxis.set_major_formatter("{x:,.0f}")
        drawing.legend(figure, axes, **LEGEND)
    return captioned(
        figure,
        f"Regret against reward calls after T = {setting.rounds:,} rounds, {BETTER}; both axes logarithmic (calls linear "
        f"below 30). Means over {_seeds(rows)} seeds with 95 % bars. {_regime(setting, size)} {_joined(setting, names)} "
        f"{_about(setting, analysis, names, 'worlds')}{analysis.numbers['losses']['outside' if names == OUTSIDE else size.name]}",
    )


def _joined(setting: Setting, names: Sequence[str]) -> str:
    lines = f"Lines join prices of a call, {numbers(setting.prices)} times σ (economical)"
    if "confident" in names:
        lines += f", and tolerances: {numbers(setting.confident)} (confident), {numbers(setting.certified)} (certified)"
    ips = "ε-mOFUL-IPS: the points of half the actions, M = P90/P10. " if "eps_moful_ips" in names else ""
    return f"{lines}. {ips}Warm-started calls every round. {MEANT}"


def _regime(setting: Setting, size: Size) -> str:
    return (
        f"{size.text}, σ = 2, n^UA = {setting.unsupported:g}; the log's contexts replayed (in-log) with fresh noise; noise "
        f"and bounds given truly, λ = 1, δ = 0.05, determinant radius × {setting.radius_scale:g} (no guarantee)."
    )


def _totals(setting: Setting, analysis: Analysis) -> "Figure":
    rows = Frame.of(analysis.tables["totals"]).where(kind=WORLD)
    lines = [
        (OURS, None),
        ("confident", 0.3),
        ("confident", 1.0),
        ("certified", 0.3),
        ("eps_moful_ips", None),
    ]
    figure, axes = _cells(setting)
    with figures.styled():
        for (size, support), one in axes.items():
            there = rows.where(part=size.name, place=support)
            one.axhline(1, **drawing.line_of(ALONE))
            for name, at in lines:
                points = there.where(name=name) if name == OURS else there.where(name=name, at=at)
                drawing.barred(one, points, points["price"], "share", **_look(name, at))
            one.set(xscale="log", yscale="log", ylim=_reach(rows.among("name", INSIDE[:5])["share"], 1.2))
            one.set_xticks(setting.prices, [f"{price:g}" for price in setting.prices])
            one.yaxis.set_major_formatter("{x:g}")
            one.minorticks_off()
        _label(axes, setting, "price of a call, in σ", "total ÷ the log alone's")
        drawing.legend(figure, axes.values(), **LEGEND)
    return captioned(
        figure,
        f"What regret and calls cost in all (regret + price·calls, T = {setting.rounds:,}) as a share of the log alone's total; "
        f"below 1 calls repaid themselves. Economical was told the price and the horizon, the others run the same at every price. "
        f"Means over {_seeds(rows.where(name=OURS))} seeds with 95 % bars of the paired difference; both axes logarithmic. "
        f"{'; '.join(size.text for size in setting.sizes)}; otherwise as in the frontiers. {MEANT} "
        f"{analysis.numbers['losses']['totals']} {CHANCE}",
    )


def _budgets(setting: Setting, analysis: Analysis) -> "Figure":
    size, rows = setting.sizes[0], Frame.of(analysis.tables["budgets"])
    alone = Frame.of(analysis.tables[WORLD]).where(name=ALONE, part=size.name)
    figure, axes = _grid(len(setting.budget_supports), columns=2, width=4.6, height=3.2)
    with figures.styled():
        for one, support in zip(axes, setting.budget_supports, strict=True):
            one.axhline(alone.where(place=support)["regret"][0], **drawing.line_of(ALONE))
            for name in (OURS, "confident"):
                points = rows.where(place=support, name=name)
                words = {} if name == OURS else {"label": f"confident ({setting.cut:g}), cut"}
                drawing.barred(one, points, points["budget"], "regret", **drawing.look(name) | words)
            one.set(xscale="log", ylim=(0, None), xlabel="budget of calls", ylabel="regret")
            one.set_title(support)
            one.set_xticks(setting.budgets, [f"{budget:,}" for budget in setting.budgets])
            one.minorticks_off()
        drawing.legend(figure, axes, **LEGEND)
    return captioned(
        figure,
        f"Regret after T = {setting.rounds:,} rounds where at most B calls may be made, lower is better. Economical is told B and "
        f"the horizon and finds its own price; confident (tolerance {setting.cut:g}) makes calls as it likes until B are made and "
        f"plays its best mean from then on. Means over {len(setting.seeds)} seeds with 95 % bars. {_regime(setting, size)} "
        f"{analysis.numbers['losses']['budgets']}",
    )


def _robustness(setting: Setting, analysis: Analysis) -> "Figure":
    rows = Frame.of(analysis.tables["totals"]).where(kind=ROBUST)
    supports = setting.variants[0].supports
    figure, axes = _grid(len(supports), columns=2, width=5.2, height=3.4)
    with figures.styled():
        for one, support in zip(axes, supports, strict=True):
            there = rows.where(place=support)
            names = [variant.name for variant in setting.variants if support in variant.supports]
            one.axhline(1, **drawing.line_of(ALONE))
            for number, (name, at) in enumerate(there.by("name", "at")):
                if name != ALONE:
                    points = there.where(name=name, at=at)
                    x = [names.index(part) + 0.12 * (number - 2) for part in points["part"]]
                    drawing.barred(
                        one,
                        points,
                        x,
                        "share",
                        **_look(name, at if name != OURS else None) | {"linestyle": "none"},
                    )
            one.set(yscale="log", ylabel="total ÷ the log alone's")
            one.set_title(support)
            one.set_xticks(range(len(names)), names, rotation=30, ha="right")
            one.yaxis.set_major_formatter("{x:g}")
            low, high = one.get_ylim()
            if high < 10 * low:  # no other tick may have a number
                one.yaxis.set_minor_formatter("{x:g}")
        drawing.legend(figure, axes, **LEGEND)
    return captioned(
        figure,
        f"The total at {setting.variant_price:g}σ a call as a share of the log alone's, where something is not as it is told. The "
        f"horizon given to economical is ten times too long or too short; the noise given to all is half of the truth; never-logged "
        f"actions earn {SHIFT:g} deviations of the actions' mean rewards more or less than drawn; rewards come "
        f"late. Below 1 calls repaid themselves. Means over {_seeds(rows)} seeds with 95 % bars of the paired difference. "
        f"{setting.sizes[0].text}, T = {setting.rounds:,}; otherwise as in the frontiers. {analysis.numbers['losses']['robustness']}",
    )


def _classes(setting: Setting, analysis: Analysis) -> "Figure":
    rows = Frame.of(analysis.tables[CLASSES])
    figure, axes = _grid(len(setting.data), columns=4, width=3.0, height=2.8)
    with figures.styled():
        for one, name in zip(axes, setting.data, strict=True):
            _panel(one, rows.where(place=name), ON_DATA, "error")
            one.set_title(f"{name}: {analysis.numbers['data'][name]['rounds']:,} rounds")
            one.set_xlim(left=-0.04 * one.get_xlim()[1])
            one.set_ylim(0, min(1.0, one.get_ylim()[1]))
            one.set(xlabel="reward calls", ylabel="held-out error")
            one.xaxis.set_major_formatter("{x:,.0f}")
        drawing.legend(figure, axes, **LEGEND)
    return captioned(
        figure,
        f"Share of wrong classes of the final policy on held-out rows (15 %) against the reward calls of all live rounds (25 % of "
        f"the rows, fresh); {BETTER}. Means over {_seeds(rows)} seeds with 95 % bars. Actions are classes; "
        f"n^UA = {setting.class_unsupported:.2g}: that share of them, drawn for each seed, is never logged, the others uniformly. "
        f"Rewards without noise; λ = {setting.class_ridge:g}, δ = 0.05, determinant radius × {setting.radius_scale:g}; the noise is "
        f"bounded by 1/2 (economical, confident: fitted). Lines join prices, {numbers(setting.prices)} deviations of the logged "
        f"rewards (economical), and tolerances, {numbers(setting.class_confident)} (confident). Economical is told the live rounds "
        f"as its horizon: it does not pay for a policy that is better only after them. ε-mOFUL-IPS: L = K/2. {MEANT} "
        f"{_about(setting, analysis, ON_DATA, 'classes')}{analysis.numbers['losses'][CLASSES]}",
    )


def _routing(setting: Setting, analysis: Analysis) -> "Figure":
    rows = Frame.of(analysis.tables[ROUTING])
    places = list(rows.by("place"))
    figure, axes = _grid(len(places), columns=len(setting.hidden), width=4.0, height=2.4)
    with figures.styled():
        for one, (place,) in zip(axes, places, strict=True):
            _panel(one, rows.where(place=place), ON_PROMPTS, "reward")
            one.set_title(place)
            one.set_xscale("symlog", linthresh=10, linscale=0.5)
            one.set_xlim(left=-2)
            one.xaxis.set_major_formatter("{x:,.0f}")
            one.set(xlabel="reward calls", ylabel="live reward")
        drawing.legend(figure, axes, **LEGEND)
    about = analysis.numbers["data"][places[0][0]]
    return captioned(
        figure,
        f"Mean live reward against reward calls, further left and higher is better; calls logarithmic (linear below 10). Prompts routed "
        f"to three language models (llm-routing): reward = quality − w·dollars; {about['logged']:,} logged prompts, of which the model "
        f"named is never logged and the cheapest other gets 85 %; {about['rounds']:,} other prompts live. Means over {_seeds(rows)} "
        f"seeds with 95 % bars. Nothing is given but the log. Lines join prices, {numbers(setting.prices)} deviations of the logged "
        f"rewards (economical), and tolerances, {numbers(setting.routed_confident)} (confident). {MEANT} "
        f"{_about(setting, analysis, ON_PROMPTS, 'routing')}{analysis.numbers['losses'][ROUTING]}",
    )


def _panel(axes: "Axes", rows: Frame, names: Iterable[str], value: str) -> None:
    """Points with 95 % bars; those of one learner at several prices or tolerances joined by a line."""
    for name in names:
        points = rows.where(name=name)
        if len(points):
            calls, low, high = drawing.limits(points, "calls")
            style = drawing.look(name, size=6) | {
                "linestyle": "-" if len(points) > 1 else "none",
                "capsize": 0,
            }
            drawing.barred(axes, points, calls, value, xerr=[calls - low, high - calls], **style)


def _look(name: str, at: float | None) -> dict[str, Any]:
    """A learner at one tolerance; the larger of two is hollow."""
    look = drawing.look(name) | {"label": told(name, at)}
    return look | {"markerfacecolor": "none", "linestyle": ":"} if at == 1.0 else look


def _cells(setting: Setting) -> "tuple[Figure, dict[tuple[Size, str], Axes]]":
    """A panel for each size, from above, and logging policy, from the left."""
    figure, rows = drawing.grid(len(setting.sizes), len(setting.supports), width=2.9, height=2.4)
    places = [(size, support) for size in setting.sizes for support in setting.supports]
    return figure, dict(zip(places, (one for row in rows for one in row), strict=True))


def _label(axes: "dict[tuple[Size, str], Axes]", setting: Setting, x: str, y: str) -> None:
    """Titles above, words at the left and below."""
    for (size, support), one in axes.items():
        one.set_title(f"{support}, {size.name}")
        one.set_xlabel(x if size == setting.sizes[-1] else "")
        one.set_ylabel(y if support == setting.supports[0] else "")


def _grid(count: int, *, columns: int, width: float, height: float) -> "tuple[Figure, list[Axes]]":
    """So many axes in rows."""
    columns = min(columns, count)
    figure, rows = drawing.grid(-(-count // columns), columns, width=width, height=height)
    axes = [one for row in rows for one in row]
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def _reach(values: Iterable[float], more: float = 1.8) -> tuple[float, float]:
    """The same limits in every panel, around the means: bars may reach beyond them."""
    known = [value for value in values if value > 0]
    return min(known, default=1.0) / more, max(known, default=1.0) * more


def _seeds(rows: Frame) -> str:
    counts = sorted(set(rows["seeds"]))
    return f"{counts[-1]}" if len(counts) == 1 else f"{counts[-1]} (outsiders {counts[0]} or more)"


def _about(setting: Setting, analysis: Analysis, names: Sequence[str], part: str) -> str:
    """How the outsiders of a figure were set, or that they are not there."""
    versions = {name: version for name, version in analysis.numbers["outside"].items() if name in names}
    missing = [LEARNERS[name].label for name, version in versions.items() if version is None]
    sentences = [f"Not installed here and left out: {', '.join(missing)}. "] if missing else []
    if versions.get("squarecb"):
        tuned_on = {
            "worlds": "d = 10, never-logged",
            "classes": " and ".join(DATA),
            "routing": f"w = {WEIGHT:g}",
        }
        kept = "; ".join(_tuned(one) for one in getattr(setting.tuned, part) if one.algorithm in names)
        sentences.append(
            f"Vowpal Wabbit (VW {versions['squarecb']}): the same linear model, costs −r, set on seeds of its own ({tuned_on[part]}): {kept}. "
        )
    if versions.get("bayesianbandits"):
        sentences.append(
            f"bayesianbandits {versions['bayesianbandits']}: Thompson sampling, empirical Bayes, as it is by default. "
        )
    if versions.get("paretobandit"):
        sentences.append(
            f"ParetoBandit {versions['paretobandit']}: its LinUCB with its authors' settings on the same contexts. "
        )
    return "".join(sentences) + (
        "All of these learn the log first and call every round. " if sentences[len(missing) > 0 :] else ""
    )


def _tuned(one: Tuned) -> str:
    return f"{LEARNERS[one.algorithm].label} rate {one.rate:g}, exploration {one.exploration:g}"
