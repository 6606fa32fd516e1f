"""The figure of a run: regret so far, by rounds or by reward calls."""

from typing import TYPE_CHECKING

import numpy as np

from sparing.report import figures
from sparing.report.text import counted
from sparing.validation import one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparing.simulation.simulate import Trace

MOST_MARKED = 300  # calls


def plot(trace: "Trace", axes: "Axes | None", against: str) -> "Axes":
    one_of("against", against, ("rounds", "calls"))
    found = figures.axes_or_new(axes)
    rounds, calls = np.arange(1, len(trace) + 1), trace.calls
    place = rounds if against == "rounds" else calls
    total = int(calls[-1]) if len(trace) else 0
    name = f"{figures.plain_text(trace.algorithm)}, {counted(total, 'call')}"
    (line,) = found.plot(place, trace.regret, linewidth=1.5, label=name)
    marked = np.flatnonzero(trace.needs_reward)
    if against == "rounds" and 0 < len(marked) <= MOST_MARKED:
        found.plot(place[marked], trace.regret[marked], "|", markersize=7, color=line.get_color())
    found.set_xlabel("round" if against == "rounds" else "reward calls")
    figures.label_left(found, "regret so far, in the reward's unit")
    found.legend()
    return found
