"""Numbers, shares and names in sentences, the same in audits, plans and the service."""

from collections.abc import Collection, Hashable, Sequence

LONGEST = 40  # characters of a name
NAMED = 10  # names in a list


def percent(share: float) -> str:
    """Format a share in whole per cent; only 0 and 1 are shown as 0% and 100%."""
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def number(value: float) -> str:
    """Format a number with about two significant digits."""
    if value.is_integer() or abs(value) >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def counted(many: int, noun: str) -> str:
    """Format a count, such as "1 action" or "2 actions"."""
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def shortened(text: str, most: int = LONGEST) -> str:
    """Cut a text that is longer than `most` characters; its last one is then an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def sentence(text: str) -> str:
    """Give a text a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def join_names(names: Sequence[Hashable], most: int = NAMED) -> str:
    """Join the first names with commas; long ones are cut."""
    return ", ".join(shortened(str(name)) for name in names[:most]) + (", …" if len(names) > most else "")


def aligned(rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> list[str]:
    """Return the rows of a table as lines; columns are right-aligned unless their index is in `left`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust if place in left else str.rjust for place in range(len(widths))]
    lines = []
    for row in rows:
        cells = (side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return lines
