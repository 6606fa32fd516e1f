"""Results in notebooks: short HTML in the colours of the page, and pandas frames."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from sparing.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas

MOST_ROWS = 12  # of a table
LONGEST = 120  # characters of a text

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
    parts = [f"<strong>{_text(title)}</strong>", *(f"<div>{escape(each)}</div>" for each in said)]
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


def _text(text: str) -> str:
    return escape(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def _row(cells: Sequence[str], first: str, others: str, *, tag: str = "td", style: str = "") -> str:
    made = (
        f'<{tag} style="{CELL.format(others if place else first)}{style}">{_text(cell)}</{tag}>'
        for place, cell in enumerate(cells)
    )
    return f'<tr style="background: transparent">{"".join(made)}</tr>'


def _table(rows: Sequence[str]) -> str:
    return (
        f'<table style="border-collapse: collapse; margin: .3rem 0; color: inherit">{"".join(rows)}</table>'
    )
