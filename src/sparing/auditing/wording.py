"""Numbers and lists in words."""

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


def named(names: Sequence[Hashable]) -> str:
    """The first few names, with commas, each cut where it is long."""
    shown = [text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in map(str, names[:NAMED])]
    return ", ".join(shown) + (", …" if len(names) > NAMED else "")


def counted(number: int, noun: str) -> str:
    """Such as "1 action" and "2 actions"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
