"""The page of a queue: the verdict and its picture, where the calls are, and the calls themselves; and its figure."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sparing.asking import text
from sparing.asking.ask import Queue, TellResult
from sparing.asking.verdict import LEVEL
from sparing.log.labels import label_text
from sparing.report import figures, html
from sparing.report.text import counted, number, percent, sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = {"switch": "full", "do not switch": "unknown", "undecided": "deficient"}
"""The look of a verdict's headline."""

OUTCOMES = ("supported", "undecided", "missing")
"""The looks of rows in which an action wins, is unknown, or loses."""

MOST_ACTIONS, MOST_CALLS = 3, 50  # on the page
LETTERS = 140  # of a row's raw columns

MARKS = "os^Dvp*"
WIDE = 30.0  # a range of worths beyond this factor is logarithmic


def write(
    queue: Queue, path: str | os.PathLike[str], *, title: str, result: TellResult | None = None
) -> None:
    """Write a queue, and the verdict that it came with, as one self-contained page."""
    html.write_page(path, html.page(f"sparing ask: {title}", _parts(queue, result)))


def _parts(queue: Queue, result: TellResult | None) -> Iterator[str]:
    if result is not None:
        yield html.paragraph(sentence(str(result.verdict)), kind=f"headline {KINDS[result.verdict.kind]}")
        yield html.paragraph(
            f"Worth is the expected gain over the policy of the log alone, in units of the reward; in brackets its {LEVEL:.0%} interval. "
            f"{counted(result.verdict.judged, 'judged answer')} so far.",
            kind="note",
        )
        yield from _outcomes(queue, result)
        yield html.heading("What to ask next")
    yield html.paragraph(queue.sentence, kind="headline" if result is None else "")
    yield from (html.paragraph(note, kind="note") for note in queue.notes)
    if queue.calls:
        yield from _where(queue)
        yield from _calls(queue)
    yield html.heading("What this rests on")
    yield html.paragraph(_basis(queue), kind="note")


def _outcomes(queue: Queue, result: TellResult) -> Iterator[str]:
    """A picture for each action that answers were bought of, or that traffic moves to: where it wins, loses, or is unknown."""
    names = queue.request.summary.action_names
    moved = [switch.action for switch in result.verdict.switches]
    judged = [names[answer.action] for answer in queue.answered]
    for action in list(dict.fromkeys([*moved, *judged]))[:MOST_ACTIONS]:
        parts = text.outcome_parts(queue, action)
        if not parts:
            continue
        yield html.heading(f"{label_text(action)} against the best other action")
        rows = [
            (
                f"{part.words} ({percent(part.traffic)} of the traffic)",
                [html.Bar(tuple(zip(OUTCOMES, part.shares, strict=True)), percent(part.shares[0]))],
            )
            for part in parts
        ]
        drawn = html.bars(["where", "wins"], rows, marks={})
        entries = list(zip(OUTCOMES, ("wins (95% sure)", "unknown", "loses (95% sure)"), strict=True))
        yield html.figure(
            drawn + html.key(entries),
            "The share of each segment's rows in which its mean reward is surely higher, surely lower, or not known to be either. The number is the share of wins.",
        )


def _where(queue: Queue) -> Iterator[str]:
    parts = text.queue_parts(queue)
    if len(parts) < 2:
        return
    yield html.heading("Where the queue is")
    most = max(share for part in parts for share in (part.traffic, *part.shares))
    rows = [
        (
            part.words,
            [
                html.Bar((("rows", part.shares[0] / most),), percent(part.shares[0])),
                html.Bar((("undecided", part.traffic / most),), percent(part.traffic)),
            ],
        )
        for part in parts
    ]
    drawn = html.bars(["where", "of the queue", "of the traffic"], rows, marks={})
    yield html.figure(
        drawn,
        "The share of the queue in each segment, next to the segment's share of the traffic: where more is asked than comes by chance.",
    )


def _calls(queue: Queue) -> Iterator[str]:
    rows = [
        [
            label_text(call.action),
            text.described(queue, place, LETTERS),
            call.why,
            f"{call.worth:.3g}",
            call.id,
        ]
        for place, call in enumerate(queue.calls[:MOST_CALLS])
    ]
    count = len(queue.calls)
    title = f"All {count:,} calls" if count <= MOST_CALLS else f"The first {MOST_CALLS} of {count:,} calls"
    note = "Worth is what an answer is expected to gain over the horizon, minus its price, once those before it are known; ± is one deviation."
    made = html.table(("action", "row", "why", "worth", "id"), rows, words=True)
    yield html.folded(title, html.paragraph(note, kind="note") + made)


def _basis(queue: Queue) -> str:
    price = number(float(queue.request.settings["call_cost"]))
    return (
        f"Rewards are linear in the features, and actions, logged or not, are exchangeable. An answer costs {price} in units of the reward; "
        f"{queue.request.horizon:,} rounds with contexts like the pool's profit from it. Expected gains are the model's; "
        "on real logs they came out smaller than expected (docs/ask.md)."
    )


def plot(queue: Queue, axes: "Axes | None") -> "Axes":
    """Draw what each call is worth, in the order of the queue."""
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
