"""Features that a peer's file names, `user.country=NZ` and `user.age`, as the raw columns that they came from."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sparing.log.formats import table
from sparing.log.log import Log
from sparing.log.scan import Wanted

MISSING = " is missing"


def encoded(log: Log, wanted: Wanted) -> Log:
    """The log with its raw columns encoded anew, as `wanted` says: words are categories, numbers are scaled, a constant is added."""
    columns = raw_columns(log)
    roles = {role: _free(role, columns) for role in ("action", "reward")}
    rounds = {roles["action"]: np.zeros(log.n_rows, dtype=np.int64), roles["reward"]: np.zeros(log.n_rows)}
    none: Any = dict.fromkeys(("propensity", "distribution", "eligible", "context_id"))
    found, _ = table.read({**columns, **rounds}, features=wanted, contexts=list(columns), **roles, **none)
    return replace(log, contexts=found.contexts, encoder=found.encoder)


def raw_columns(log: Log) -> dict[str, Any]:
    """The columns by name: a word or None a row where the file has words, else numbers, NaN where they are missing."""
    places = {name: place for place, name in enumerate(log.encoder.names)}
    words: dict[str, dict[str, int]] = {}
    for name, place in places.items():
        column, equals, value = name.partition("=")
        if equals and column not in places:
            words.setdefault(column, {})[value] = place
    columns: dict[str, Any] = {}
    for name, place in places.items():
        column = name.partition("=")[0]
        if column in words:
            if column not in columns:
                columns.update(_words(log.contexts, column, words[column]))
        elif not name.endswith(MISSING) or name.removesuffix(MISSING) not in {*places, *words}:
            gap = places.get(f"{name}{MISSING}")
            numbers = log.contexts[:, place]
            columns[name] = numbers if gap is None else np.where(log.contexts[:, gap] > 0, np.nan, numbers)
    return columns


def _words(contexts: np.ndarray, column: str, values: Mapping[str, int]) -> dict[str, Any]:
    """The column of words, or, where a row has two of them or half of one, the numbers as they are."""
    block = contexts[:, list(values.values())]
    if not np.isin(block, (0, 1)).all() or block.sum(axis=1).max(initial=0) > 1:
        return {f"{column}={value}": contexts[:, place] for value, place in values.items()}
    listed = np.array([*values, None], dtype=object)
    return {column: listed[np.where(block.any(axis=1), block.argmax(axis=1), len(values))].tolist()}


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """A name that no column has."""
    return name if name not in taken else _free(f"{name}_", taken)
