"""A figure as readers meet it: small panels that share one key, and a caption in words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sparing.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 3.4, 2.55
"""Of a panel, in inches: a phone shows one of them in a row, a desk three, at the same size of letters."""

MOST = 6
"""Lines that a key may have."""

TEXT: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "lines.linewidth": 1.5,
    **dict.fromkeys(("xtick.bottom", "ytick.left", "xtick.minor.bottom", "ytick.minor.left"), False),
}
"""Letters of one size; lines of the grid stand for ticks."""


@dataclass(frozen=True, eq=False)
class Plate:
    """Panels by number from 1, each with its alternative text as label, and the key to their lines if they need one.

    see says what is on the axes and what to look for; regime in which setting: learner, logging policy, prior, radius
    scale, price. A folded plate stands further down; columns is how many panels stand side by side at most,
    and lost says where ours lose.
    """

    title: str
    see: str
    regime: str
    panels: "tuple[Figure, ...]"
    key: "Figure | None" = None
    entries: tuple[str, ...] = ()
    folded: bool = False
    columns: int = 3
    lost: str = ""

    def drawings(self, name: str) -> "dict[str, Figure]":
        """Every drawing by the name of its file: the key first."""
        keyed = {f"{name}_key": self.key} if self.key is not None else {}
        return keyed | {f"{name}_{number}": figure for number, figure in enumerate(self.panels, start=1)}


def panel(title: str, *, across: str, up: str, height: float = HEIGHT) -> "Axes":
    """The axes of one panel, drawn without a display."""
    with figures.styled(), _lettered():
        figure = figures.empty_figure(width=WIDTH, height=height)
        axes = figure.subplots()
        axes.margins(x=0.04)
        if up:
            axes.set_title(title)
            axes.set(xlabel=across, ylabel=up)
        else:  # rows with names: words beside the axes would stand too far to the right
            figure.suptitle(title, x=0.02, ha="left", fontsize=TEXT["axes.titlesize"])
            figure.supxlabel(across, fontsize=TEXT["axes.labelsize"])
            axes.tick_params(axis="y", labelsize=8)
    figure.set_label(f"{title}: {up} against {across}" if up else f"{title}: {across}")
    return axes


def plate(
    title: str,
    axes: "Iterable[Axes]",
    *,
    see: str,
    regime: str,
    lost: str = "",
    folded: bool = False,
    columns: int = 3,
) -> Plate:
    """Put panels together under one key, which is made of the labelled lines of all of them."""
    shown = list(axes)
    found: dict[str, Any] = {}
    for one in shown:
        handles, names = one.get_legend_handles_labels()
        found |= dict(zip(names, handles, strict=True))
    panels = tuple(cast("Figure", one.get_figure()) for one in shown)
    key = _key(found) if found else None
    return Plate(title, see, regime, panels, key, tuple(found), folded, columns, lost)


def level(axes: "Sequence[Axes]", *, low: float | None = None, high: float | None = None) -> None:
    """The same reach upwards in all of these panels."""
    ends = [one.get_ylim() for one in axes]
    least = min(end[0] for end in ends) if low is None else low
    most = max(end[1] for end in ends) if high is None else high
    for one in axes:
        one.set_ylim(least, most)


def _key(found: dict[str, Any]) -> "Figure":
    """A drawing of nothing but the key."""
    with figures.styled(), _lettered():
        rows = -(-len(found) // 2)
        figure = figures.empty_figure(width=WIDTH, height=0.08 + 0.2 * rows)
        placing: dict[str, Any] = {"ncols": 2, "fontsize": 8.5, "columnspacing": 1.2, "borderpad": 0}
        figure.legend(list(found.values()), list(found), loc="center left", **placing)
    figure.set_label("Key: " + ", ".join(found))
    return figure


def _lettered() -> Any:
    import matplotlib as mpl

    return mpl.rc_context(TEXT)
