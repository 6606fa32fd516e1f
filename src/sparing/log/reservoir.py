"""A few logged contexts that stand for all of a log's: a uniform sample that does not depend on how the log was read.

Every row has a key that follows from its number alone; the rows with the smallest keys are the sample. Parts of a log can so be
sampled one by one, in any order, and the smallest keys of all parts are those of the whole.
"""

from collections.abc import Callable

import numpy as np

from sparing.hashing import row_keys

keys_of = row_keys

SIZE = 128
"""Contexts in a reservoir: the mean of a bounded gain over them is within a tenth of its deviation of the mean over all."""

Rows = Callable[[np.ndarray], np.ndarray]
"""Contexts (m, d) by their places in a part of the log."""


class Reservoir:
    """The sampled contexts of a part of a log, by their keys (m,): contexts (m, d)."""

    def __init__(self, n_features: int, size: int = SIZE) -> None:
        self.size = size
        self.keys = np.empty(0, dtype=np.uint64)
        self.contexts = np.empty((0, n_features))

    def offer(self, first_row: int, many: int, rows: Rows) -> None:
        """Take in a part of so many rows that begins with a row of this number."""
        keys = keys_of(np.arange(first_row, first_row + many, dtype=np.uint64))
        places = np.flatnonzero(keys < self.keys[-1]) if len(self.keys) == self.size else np.arange(many)
        if (
            len(places) > 4 * self.size
        ):  # no two keys are equal, so that any part with the smallest is the one
            places = places[np.argpartition(keys[places], self.size)[: self.size]]
        places = places[np.argsort(keys[places], kind="stable")[: self.size]]
        if len(places):
            self._keep(keys[places], rows(places))

    def merged(self, other: "Reservoir") -> "Reservoir":
        """What both parts have sampled; neither is changed."""
        both = Reservoir(self.contexts.shape[1], self.size)
        both.keys, both.contexts = self.keys, self.contexts
        both._keep(other.keys, other.contexts)
        return both

    def _keep(self, keys: np.ndarray, contexts: np.ndarray) -> None:
        joined = np.concatenate([self.keys, keys])
        order = np.argsort(joined, kind="stable")[: self.size]
        self.keys, self.contexts = joined[order], np.concatenate([self.contexts, contexts])[order]


def sampled(contexts: np.ndarray) -> np.ndarray:
    """The reservoir of all contexts (n, d) of a log, (m, d)."""
    found = Reservoir(contexts.shape[1])
    found.offer(0, len(contexts), lambda places: contexts[places])
    return found.contexts
