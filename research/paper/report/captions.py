"""What stands under a figure: its settings, so that it can be read apart from the page."""

import textwrap
from typing import TYPE_CHECKING

from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHARACTERS_PER_INCH = 14.5
"""How many letters of a caption go into an inch of width."""


def captioned(figure: "Figure", text: str) -> "Figure":
    """Write a caption under a figure, wrapped to its width; pages read it again as the figure's label."""
    width = int(figure.get_size_inches()[0] * CHARACTERS_PER_INCH)
    lines = textwrap.wrap(text, width)
    with figures.styled():
        figure.set_size_inches(figure.get_size_inches()[0], figure.get_size_inches()[1] + 0.16 * len(lines))
        figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=8, color="#555555")
    figure.set_label(text)
    return figure
