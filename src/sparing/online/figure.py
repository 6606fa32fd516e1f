"""The figure of a learner: the estimate of each action in one context, with its interval."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import DecisionError
from sparing.interval import interval
from sparing.online.explanation import average_context
from sparing.report import figures
from sparing.report.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparing.online.learner import Learner

MOST_ACTIONS = 30


def plot(learner: "Learner", axes: "Axes | None", x: Any) -> "Axes":
    found = figures.axes_or_new(axes)
    where = "this context"
    if x is None:
        context, rows = average_context(learner)
        if not rows:
            raise DecisionError(
                "the average context is unknown: the learner has no rows, or its features have no constant. Pass the context to look at: "
                "plot(x=...)"
            )
        where = f"the average context of {rows:,} rows"
    else:
        context = learner.context(x)
    with learner._lock:
        mean, spread = learner.sets.evaluate(context)
        seen = learner.sets.logged + learner.sets.live
        active = np.flatnonzero(learner.active())
    costs = learner.action_costs
    mean = mean if costs is None else mean - costs
    low, high = interval(mean, spread, learner.half_widths)
    order = active[np.argsort(-mean[active], kind="stable")][:MOST_ACTIONS]
    names = [
        f"{figures.plain_text(learner.action_names[a], 28)} ({counted(int(seen[a]), 'row')})" for a in order
    ]
    places = figures.bars_of(found, range(len(order)))
    found.set_yticks(places, labels=names)
    colour = figures.ink(found, "#0072b2")
    found.hlines(places, low[order], high[order], color=colour, linewidth=2)
    found.plot(mean[order], places, "o", color=colour)
    level = "interval" if learner.level is None else f"{100 * learner.level:g} % interval"
    less = "" if costs is None else " less cost"
    figures.label_below(found, f"expected reward{less} in {where}, {level}")
    some = f", the best {len(order)} of {len(active):,} actions" if len(order) < len(active) else ""
    counts = f"{counted(learner.calls, 'call')} in {counted(learner.rounds, 'round')}"
    figures.title_above(found, f"{learner.algorithm}: {counts}{some}")
    return found
