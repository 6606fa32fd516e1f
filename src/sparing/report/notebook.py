"""Results in notebooks: short HTML in the colours of the page, and pandas frames."""

import importlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from sparing.errors import MissingExtraError
from sparing.report.text import shortened

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

MOST_ROWS = 12  # of a table
LONGEST = 120  # characters of a text

EVERY = 0.1  # seconds between two updates of a progress bar
CELLS = 30  # characters of a bar in a terminal

CELL = "text-align: {}; padding: .15rem .6rem; color: inherit; background: transparent; border: 0"
LINE = "; border-bottom: 1px solid color-mix(in srgb, currentColor 30%, transparent)"


def card(
    title: str,
    *,
    said: Sequence[str] = (),
    facts: Iterable[tuple[str, str]] = (),
    header: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return a title, sentences, named facts, the first rows of a table, and notes."""
    parts = [
        f"<strong>{escape(shortened(title, LONGEST))}</strong>",
        *(f"<div>{escape(each)}</div>" for each in said),
    ]
    about = [_row([name, text], "left", "left") for name, text in facts]
    if about:
        parts.append(_table(about))
    if rows:
        head = _row(header, "left", "right", tag="th", style=LINE)
        parts.append(_table([head, *(_row(row, "left", "right") for row in rows[:MOST_ROWS])]))
    if len(rows) > MOST_ROWS:
        parts.append(f"<div>… and {len(rows) - MOST_ROWS:,} more</div>")
    parts += [f'<div style="opacity: .75">{escape(each)}</div>' for each in notes]
    return f'<div style="color: inherit; max-width: 60rem; overflow-x: auto">{"".join(parts)}</div>'


class Plotted:
    """A result that is drawn by the function `plot` of the module `_figure`."""

    _figure: ClassVar[str]

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the result, as its class says.

        Parameters
        ----------
        axes : matplotlib.axes.Axes, optional
            By default those of a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        drawn: Axes = importlib.import_module(self._figure).plot(self, axes)
        return drawn


def frame(columns: Mapping[str, Any], *, index: str | None = None) -> "pandas.DataFrame":
    """Return columns as a pandas frame with an index of this name from 0."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError(
            "to_frame() needs pandas, which is not installed. Run: pip install pandas; or use to_dict()"
        ) from error
    made = pandas.DataFrame(dict(columns))
    return made if index is None else made.rename_axis(index)


def records(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn rows with the same names into columns."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _row(cells: Sequence[str], first: str, others: str, *, tag: str = "td", style: str = "") -> str:
    made = (
        f'<{tag} style="{CELL.format(others if place else first)}{style}">{escape(shortened(cell, LONGEST))}</{tag}>'
        for place, cell in enumerate(cells)
    )
    return f'<tr style="background: transparent">{"".join(made)}</tr>'


def _table(rows: Sequence[str]) -> str:
    return (
        f'<table style="border-collapse: collapse; margin: .3rem 0; color: inherit">{"".join(rows)}</table>'
    )


def progress(title: str = "") -> Callable[[int, int], None]:
    """Return a progress bar for `progress=` of `plan`, `ask`, `evaluate`, `learn`, `scan` and `simulate`.

    In a notebook it is a bar that disappears at the end, in a terminal a line on standard error; elsewhere nothing is shown.

    Parameters
    ----------
    title : str
        A text in front of the bar.

    Returns
    -------
    callable
        ``progress(done, total)``.

    Examples
    --------
    >>> import sparing
    >>> world = sparing.simulation.LinearWorld(n_actions=3, n_features=2, noise=0.5, seed=0)
    >>> log = sparing.simulation.draw_log(world, rows=200, seed=1)
    >>> plan = sparing.plan(log, call_cost=0.1, horizon=200, progress=sparing.progress("planning"))
    """
    return _Bar(title)


class _Bar:
    def __init__(self, title: str) -> None:
        self.title, self._shown = title, 0.0
        self._handle: Any = None

    def __call__(self, done: int, total: int) -> None:
        now, over = time.monotonic(), total > 0 and done >= total
        if not over and now - self._shown < EVERY:
            return
        self._shown = now
        if (display := _notebook_display()) is not None:
            self._in_notebook(display, "" if over else self._html(done, total))
        elif sys.stderr is not None and sys.stderr.isatty():
            full = CELLS * done // max(total, 1)
            line = f"{self.title} [{'#' * full}{' ' * (CELLS - full)}] {done:,}/{total:,}".strip()
            sys.stderr.write("\r\x1b[K" if over else f"\r\x1b[K{line}")
            sys.stderr.flush()

    def _html(self, done: int, total: int) -> str:
        return (
            f'<label style="color: inherit">{escape(self.title)} <progress max="{max(total, 1)}" value="{done}"></progress> '
            f"{done:,} of {total:,}</label>"
        )

    def _in_notebook(self, display: Any, html: str) -> None:
        content = {"text/html": html, "text/plain": ""}
        if self._handle is None:
            if html:
                self._handle = display(content, raw=True, display_id=True)
            return
        self._handle.update(content, raw=True)
        if not html:
            self._handle = None


def _notebook_display() -> Any:
    """Return the function that shows outputs of a notebook; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return ipython.display.display if ipython is not None and hasattr(shell, "kernel") else None
