"""Columns of a table that are its index: they say which row is which, and are no features unless they are named."""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

UNNAMED = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name in a file."""

NAMELESS = re.compile(r"(Unnamed: \d+)?")
"""How row numbers stand at the head of text files that other tools write, and what pandas calls such a column."""


def indexes(schema: "pa.Schema", columns: Sequence[str]) -> dict[str, str]:
    """Those of some columns that are an index, and why each is left out."""
    told = _of_pandas(schema)
    found = {}
    for name in columns:
        if UNNAMED.fullmatch(name):
            found[name] = "left out, the row numbers that pandas wrote"
        elif name in told:
            found[name] = "left out, the index of a frame (name it in contexts to take it)"
        elif NAMELESS.fullmatch(name):
            found[name] = "left out, a column without a name"
    return found


def _of_pandas(schema: "pa.Schema") -> set[str]:
    """The columns that pandas' notes on a table call its index; none where there are no such notes."""
    try:
        notes = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        return {name for name in notes["index_columns"] if isinstance(name, str)}
    except (KeyError, TypeError, ValueError):
        return set()
