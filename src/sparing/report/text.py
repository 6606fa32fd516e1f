"""Numbers, shares and names in sentences, the same in audits, plans and the service."""

from collections.abc import Hashable, Sequence

LONGEST = 40
"""Letters of a name in a sentence, at most."""

NAMED = 10
"""Names listed before the rest is left out."""


def percent(share: float) -> str:
    """A share in whole per cent; what is neither nothing nor all never looks as if it were."""
    if 0 < share < 0.005:
        return "<1%"
    if 0.995 <= share < 1:
        return ">99%"
    return f"{share:.0%}"


def number(value: float) -> str:
    """A number with as many digits as matter."""
    if value.is_integer() or abs(value) >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def counted(many: int, noun: str) -> str:
    """Such as "1 action" and "2 actions"."""
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def join_names(names: Sequence[Hashable], most: int = NAMED) -> str:
    """The first few names, with commas, each cut where it is long."""
    shown = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in map(str, names[:most])]
    return ", ".join(shown) + (", …" if len(names) > most else "")
