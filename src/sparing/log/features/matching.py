"""Columns that do not match those of an encoder, in words: which are missing, which unknown, and what to do."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from sparing.errors import DecisionError
from sparing.log.labels import brief, meant

SHOWN = 8
"""Columns of a kind that a message names."""


def difference(known: Sequence[str], names: Collection[Hashable], index: Collection[Hashable] = ()) -> str:
    """Which of the known columns are missing among some names, and which names are unknown.

    `index` are the names of a frame's index, which is not looked at.
    """
    missing = [name for name in known if name not in names]
    unknown = [name for name in names if name not in known]
    parts = [
        f"{what} {listed(some, SHOWN)}"
        for what, some in (("no column", missing), ("unknown column", unknown))
        if some
    ]
    pairs = [(name, meant(name, unknown)) for name in missing[:SHOWN]]
    guess = ", ".join(f"{brief(name)} by {brief(near)}" for name, near in pairs if near is not None)
    asked = f"; did you mean {guess}? The" if guess else "; the"
    hidden = [name for name in missing if name in index]
    mend = "Give each by its name, None (null in JSON) where it is missing"
    if hidden:
        mend = f"The frame's index, which is not looked at, has {listed(hidden, SHOWN)}: pass frame.reset_index()"
    return f"{' and '.join(parts)}{asked} columns are {listed(known, 12)}. {mend}"


def must_be_mappings(rows: Sequence[Any]) -> None:
    """Refuse rows of which the first is a mapping of columns, and another is not."""
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DecisionError(f"row {place} is {brief(row)}; expected a mapping of columns, as row 0 is")


def listed(names: Sequence[Hashable], most: int) -> str:
    """Names with commas between them, no more than so many."""
    return ", ".join(map(brief, names[:most])) + (", …" if len(names) > most else "")
