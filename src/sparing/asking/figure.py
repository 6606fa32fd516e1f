"""The figure of a queue: what each call is worth, in order."""

from typing import TYPE_CHECKING, Any

from sparing.report import figures
from sparing.report.text import counted, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparing.asking.ask import Queue

MARKS = "os^Dvp*"
WIDE = 30.0  # a range of worths beyond this factor is logarithmic


def plot(queue: "Queue", axes: "Axes | None") -> "Axes":
    found = figures.axes_or_new(axes)
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(call.action for call in queue.calls))
    palette = figures.COLOURS[1:]
    for which, name in enumerate(names):
        places = [place for place, call in enumerate(queue.calls, start=1) if call.action == name]
        own = [queue.calls[place - 1].worth for place in places]
        look: Any = {
            "color": figures.ink(found, palette[which % len(palette)]),
            "marker": MARKS[which % len(MARKS)],
        }
        found.plot(places, own, linestyle="none", label=figures.plain_text(name), **look)
    price = number(float(queue.request.settings["call_cost"]))
    found.set_xlabel("place in the queue")
    found.xaxis.set_major_locator(MaxNLocator(integer=True))
    figures.title_above(
        found,
        f"{counted(len(queue.calls), 'call')} at {price} each, {counted(queue.request.horizon, 'round')}",
    )
    worths = [call.worth for call in queue.calls]
    top, least = max(worths, default=1.0), min(worths, default=1.0)
    wide = least > 0 and top > WIDE * least
    if wide:
        found.set_yscale("log")
        found.yaxis.set_major_formatter("{x:,.10g}")
    else:
        found.set_ylim(0, 1.08 * top)
    figures.label_left(found, f"worth less price, in the reward's unit{', log scale' if wide else ''}")
    if 1 <= len(names) <= 10:
        found.legend(title="action")
    return found
