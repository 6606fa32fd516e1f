"""The figure of an audit: rows of each action, and the share of rows that could have taken it."""

from typing import TYPE_CHECKING

import numpy as np

from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparing.auditing.audit import Audit

MOST_ACTIONS = 30
COLOURS = {"supported": "#56b4e9", "rare": "#e69f00", "undecided": "#e4e4e4", "missing": "#d55e00"}

DARKER = {"supported": "#2a7aa8"}  # on dark axes, so that the light bars of logged rows stand out


def plot(audit: "Audit", axes: "Axes | None") -> "Axes":
    from sparing.auditing.page import support_layers

    found = figures.axes_or_new(axes)
    layers = support_layers(audit)
    by_rows = sorted(range(audit.actions), key=lambda place: -audit.per_action[place].rows)
    order = by_rows[:MOST_ACTIONS] if len(by_rows) <= MOST_ACTIONS else by_rows[-MOST_ACTIONS:]
    places = figures.bars_of(found, [audit.per_action[place].name for place in order])
    dark = figures.is_dark(found)
    start = np.zeros(len(order))
    for kind, label, shares in layers:
        part = 100 * shares[order]
        if part.any():
            colour = DARKER.get(kind, figures.ink(found, COLOURS[kind])) if dark else COLOURS[kind]
            found.barh(places, part, left=start, height=0.8, color=colour, label=label)
        start += part
    logged = [100 * (audit.per_action[place].share or 0.0) for place in order]
    found.barh(places, logged, height=0.35, color=figures.ink(found, "#000000"), label="logged")
    some = (
        f"the {len(order)} least logged of {audit.actions:,} actions, " if len(order) < audit.actions else ""
    )
    figures.label_below(
        found,
        f"rows in which an action could have been taken, % of {audit.rows:,}"
        if layers
        else f"share of {audit.rows:,} rows, %",
    )
    figures.title_above(found, f"{some}support {audit.support}")
    figures.legend_below(found)
    return found
