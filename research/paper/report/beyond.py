"""The figures beyond the paper: what calls buy, what both cost in all, within a budget, and where the model errs."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from research.learners import LEARNERS
from research.paper.beyond.comparing import ALONE, OURS
from research.paper.beyond.setting import SHIFT, Setting, Size
from research.paper.beyond.telling import CHANCE, further, told
from research.paper.beyond.tuning import DATA, WEIGHT
from research.paper.beyond.units import CLASSES, ROBUST, ROUTING, WORLD
from research.paper.beyond.vowpal import Tuned
from research.paper.experiment import Analysis
from research.paper.frame import Frame
from research.paper.report import drawing
from research.paper.report.drawing import numbers
from research.paper.report.plate import Plate, panel, plate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INSIDE = (OURS, "confident", "certified", ALONE, "eps_moful_ips", "warm_started")
OUTSIDE = (OURS, ALONE, "warm_started", "squarecb", "regcb", "bayesianbandits")
ON_DATA = (OURS, "confident", ALONE, "eps_moful_ips", "squarecb", "bayesianbandits")
ON_PROMPTS = (OURS, "confident", ALONE, "squarecb", "bayesianbandits", "paretobandit")
"""Who is drawn where: six at most; tables and numbers hold them all."""

BETTER = "further left and lower is better"
MEANT = "The log alone plays the best mean of the posterior that economical and confident begin with, and never calls."


def draw(setting: Setting, analysis: Analysis) -> dict[str, Plate]:
    """All figures for which there are numbers."""
    drawn: dict[str, Plate] = {}
    if analysis.tables[WORLD]:
        drawn |= {"totals": _totals(setting, analysis)}
    if analysis.tables[CLASSES]:
        drawn["classes"] = _classes(setting, analysis)
    if analysis.tables[ROUTING]:
        drawn["routing"] = _routing(setting, analysis)
    if analysis.tables[WORLD]:
        drawn["outside"] = _frontier(setting, analysis, setting.sizes[0], OUTSIDE)
        for size in setting.sizes:
            drawn[f"frontier_d{size.features}"] = _frontier(setting, analysis, size, INSIDE)
        drawn |= {"budgets": _budgets(setting, analysis), "robustness": _robustness(setting, analysis)}
    return drawn


def _frontier(setting: Setting, analysis: Analysis, size: Size, names: Sequence[str]) -> Plate:
    rows = Frame.of(analysis.tables[WORLD]).where(part=size.name).among("name", names)
    panels = []
    for support in setting.supports:
        axes = panel(support, across="reward calls", up="regret")
        _points(axes, rows.where(place=support), names, "regret")
        axes.set_xscale("symlog", linthresh=30, linscale=0.6)
        axes.set_yscale("log")
        axes.set_xlim(-4, 1.5 * setting.rounds)
        axes.set_ylim(*_reach(rows["regret"]))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        panels.append(axes)
    who = "other libraries" if names == OUTSIDE else "ours and the paper's"
    return plate(
        f"What calls buy, {size.name}: {who}",
        panels,
        see=f"Across: reward calls. Up: regret after T = {setting.rounds:,} rounds. {BETTER.capitalize()}; both axes logarithmic "
        "(calls linear below 30).",
        lost=analysis.numbers["losses"]["outside" if names == OUTSIDE else size.name],
        regime=f"{_logging(setting)}; {_regime(setting, size)} Means over {_seeds(rows)} seeds with 95 % bars. "
        f"{_joined(setting, names)} {_about(setting, analysis, names, 'worlds')}".rstrip(),
        folded=names != OUTSIDE,
        columns=4,
    )


def _logging(setting: Setting) -> str:
    return "logging policy as titled (" + "; ".join(drawing.LOGGING[one] for one in setting.supports) + ")"


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


def _totals(setting: Setting, analysis: Analysis) -> Plate:
    rows = Frame.of(analysis.tables["totals"]).where(kind=WORLD)
    lines = [
        (OURS, None),
        ("confident", 0.3),
        ("confident", 1.0),
        ("certified", 0.3),
        ("eps_moful_ips", None),
    ]
    panels = []
    for size in setting.sizes:
        for support in setting.supports:
            there = rows.where(part=size.name, place=support)
            axes = panel(
                f"{support}, {size.name}", across="price of a call, in σ", up="total ÷ the log alone's"
            )
            axes.axhline(1, **drawing.line_of(ALONE))
            for name, at in lines:
                points = there.where(name=name) if name == OURS else there.where(name=name, at=at)
                drawing.barred(axes, points, points["price"], "share", **_look(name, at))
            axes.set(xscale="log", yscale="log", ylim=_reach(rows.among("name", INSIDE[:5])["share"], 1.2))
            axes.set_xticks(setting.prices, [f"{price:g}" for price in setting.prices])
            axes.yaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            panels.append(axes)
    return plate(
        "What decisions and calls cost in all",
        panels,
        see="Across: the price of one call, in deviations of the noise. Up: regret + price·calls, as a share of what never calling "
        "(the log alone) costs; below 1 calls repaid themselves. Lower is better; both axes logarithmic.",
        lost=f"{analysis.numbers['losses']['totals']} {CHANCE}"
        + (f" {further(setting)}" if setting.further else ""),
        regime=f"{_logging(setting)}; {'; '.join(size.text for size in setting.sizes)}; T = {setting.rounds:,}, otherwise as in the "
        f"frontiers (radius_scale {setting.radius_scale:g}, no guarantee). Economical has the price and the horizon, the others run the same at every "
        f"price. Means over {_seeds(rows.where(name=OURS))} seeds with 95 % bars of the paired difference. {MEANT}",
        columns=4,
    )


def _budgets(setting: Setting, analysis: Analysis) -> Plate:
    size, rows = setting.sizes[0], Frame.of(analysis.tables["budgets"])
    alone = Frame.of(analysis.tables[WORLD]).where(name=ALONE, part=size.name)
    panels = []
    for support in setting.budget_supports:
        axes = panel(support, across="budget of calls", up="regret")
        axes.axhline(alone.where(place=support)["regret"][0], **drawing.line_of(ALONE))
        for name in (OURS, "confident"):
            points = rows.where(place=support, name=name)
            words = {} if name == OURS else {"label": f"confident ({setting.cut:g}), cut"}
            drawing.barred(axes, points, points["budget"], "regret", **drawing.look(name) | words)
        axes.set(xscale="log", ylim=(0, None))
        axes.set_xticks(setting.budgets, [f"{budget:,}" for budget in setting.budgets])
        axes.minorticks_off()
        panels.append(axes)
    return plate(
        "Within a budget of calls",
        panels,
        see=f"Across: how many calls may be made at most. Up: regret after T = {setting.rounds:,} rounds; lower is better.",
        lost=analysis.numbers["losses"]["budgets"],
        regime="economical has the budget and the horizon and finds its own price; confident "
        f"(tolerance {setting.cut:g}) makes calls as it likes until they are spent and plays its best mean from then on. Logging policy "
        f"as titled. Means over {len(setting.seeds)} seeds with 95 % bars. {_regime(setting, size)}",
        folded=True,
    )


def _robustness(setting: Setting, analysis: Analysis) -> Plate:
    rows = Frame.of(analysis.tables["totals"]).where(kind=ROBUST)
    panels = []
    for support in setting.variants[0].supports:
        there = rows.where(place=support)
        names = [variant.name for variant in setting.variants if support in variant.supports]
        axes = panel(support, across="total ÷ the log alone's", up="", height=1.0 + 0.32 * len(names))
        axes.axvline(1, **drawing.line_of(ALONE))
        for number, (name, at) in enumerate(there.by("name", "at")):
            if name == ALONE:
                continue
            style = _look(name, None if name == OURS else at)
            for point in there.where(name=name, at=at):
                y = names.index(point["part"]) + 0.14 * (number - 2)
                drawing.dot(axes, point, "share", y, **_dotted(style))
        axes.set_xscale("log")
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.xaxis.set_major_formatter("{x:g}")
        low, high = axes.get_xlim()
        if high < 10 * low:  # no other tick may have a number
            axes.xaxis.set_minor_formatter("{x:g}")
        panels.append(axes)
    return plate(
        "Where the world differs from the learner's assumptions",
        panels,
        see="Across: regret + price·calls as a share of what never calling costs; left of 1 calls repaid themselves. A row for each "
        "thing that is wrong.",
        lost=analysis.numbers["losses"]["robustness"],
        regime=f"price {setting.variant_price:g}σ a call; the horizon given to economical is ten times too long or too short; the noise "
        f"given to all is half of the truth; never-logged actions earn {SHIFT:g} deviations of the actions' mean rewards more or less "
        f"than drawn; rewards come late. Means over {_seeds(rows)} seeds with 95 % bars of the paired difference. Logging policy as "
        f"titled. {setting.sizes[0].text}, T = {setting.rounds:,}; otherwise as in the frontiers (radius_scale "
        f"{setting.radius_scale:g}, no guarantee).",
        folded=True,
    )


def _dotted(style: dict[str, Any]) -> dict[str, Any]:
    """A learner's look for single dots."""
    return {key: value for key, value in style.items() if key != "linestyle"} | {"linewidth": 1.5}


def _classes(setting: Setting, analysis: Analysis) -> Plate:
    rows = Frame.of(analysis.tables[CLASSES])
    panels = []
    for name in setting.data:
        rounds = analysis.numbers["data"][name]["rounds"]
        axes = panel(f"{name}: {rounds:,} rounds", across="reward calls", up="held-out error")
        _points(axes, rows.where(place=name), ON_DATA, "error")
        axes.set_xlim(left=-0.04 * axes.get_xlim()[1])
        axes.set_ylim(0, min(1.0, axes.get_ylim()[1]))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        panels.append(axes)
    return plate(
        "Real data sets, some of whose classes were never logged",
        panels,
        see="Across: reward calls of all live rounds (25 % of the rows, fresh). Up: share of wrong classes of the final policy on "
        f"held-out rows (15 %). {BETTER.capitalize()}.",
        lost=analysis.numbers["losses"][CLASSES],
        regime=f"actions are classes; logging: n^UA = {setting.class_unsupported:.2g}, that share of them, drawn for each seed, is never "
        f"logged, the others uniformly. Means over {_seeds(rows)} seeds with 95 % bars. Rewards without noise; λ = "
        f"{setting.class_ridge:g}, δ = 0.05, determinant radius, radius_scale {setting.radius_scale:g}; the noise is bounded by 1/2 "
        f"(economical, confident: fitted). Lines join prices, {numbers(setting.prices)} deviations of the logged rewards (economical), "
        f"and tolerances, {numbers(setting.class_confident)} (confident). Economical has the live rounds as its horizon: it does "
        f"not pay for a policy that is better only after them. ε-mOFUL-IPS: L = K/2. {MEANT} "
        f"{_about(setting, analysis, ON_DATA, 'classes')}".rstrip(),
        columns=4,
    )


def _routing(setting: Setting, analysis: Analysis) -> Plate:
    rows = Frame.of(analysis.tables[ROUTING])
    places = [place for (place,) in rows.by("place")]
    panels = []
    for place in places:
        axes = panel(place, across="reward calls", up="live reward")
        _points(axes, rows.where(place=place), ON_PROMPTS, "reward")
        axes.set_xscale("symlog", linthresh=10, linscale=0.5)
        axes.set_xlim(left=-2)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        panels.append(axes)
    about = analysis.numbers["data"][places[0]]
    return plate(
        "Prompts routed to three language models, one of them never tried",
        panels,
        see="Across: reward calls, logarithmic (linear below 10). Up: mean live reward = quality − w·dollars. Further left and higher "
        "is better.",
        lost=analysis.numbers["losses"][ROUTING],
        regime=f"llm-routing: {about['logged']:,} logged prompts, of which the model named is never logged and the cheapest other gets "
        f"85 %; {about['rounds']:,} other prompts live. Means over {_seeds(rows)} seeds with 95 % bars. Nothing is given but the log; "
        "economical and confident have no radius. "
        f"Lines join prices, {numbers(setting.prices)} deviations of the logged rewards (economical), and "
        f"tolerances, {numbers(setting.routed_confident)} (confident). {MEANT} "
        f"{_about(setting, analysis, ON_PROMPTS, 'routing')}".rstrip(),
    )


def _points(axes: "Axes", rows: Frame, names: Iterable[str], value: str) -> None:
    """Points with 95 % bars; those of one learner at several prices or tolerances joined by a line."""
    for name in names:
        points = rows.where(name=name)
        if len(points):
            style = drawing.look(name, size=5) | {"linestyle": "-" if len(points) > 1 else "none"}
            drawing.barred(axes, points, points["calls"], value, across="calls", **style)


def _look(name: str, at: float | None) -> dict[str, Any]:
    """A learner at one tolerance; the larger of two is hollow."""
    look = drawing.look(name) | {"label": told(name, at)}
    return look | {"markerfacecolor": "none", "linestyle": ":"} if at == 1.0 else look


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
