"""Which rows are one context, and finding a context again: by the exact bytes of its features, or by its id."""

from collections.abc import Hashable
from typing import Any

import numpy as np

SMALL = 2**18
"""Fewer rows than this are sorted by NumPy: a fifth of a second; loading the compiled kernels takes longer."""

SPARSE = 4
"""Ids from a range of so many numbers a row are counted, not sorted."""


class ContextIndex:
    """Where each of some distinct contexts stands: keys (m, d) are their features (−0.0 as 0.0), or (m,) ids."""

    def __init__(self, keys: np.ndarray) -> None:
        self._by_features, self._by_text = keys.ndim == 2, keys.dtype.kind == "U"
        listed: list[Hashable] = (context_keys(keys) if self._by_features else keys).tolist()
        self._places = {key: place for place, key in enumerate(listed)}
        self.repeats = len(self._places) < len(keys)

    def find(self, contexts: np.ndarray) -> np.ndarray:
        """The place of each context (n, d), (n,); −1 where it is unknown."""
        keys = context_keys(contexts).tolist()
        return np.fromiter((self._places.get(key, -1) for key in keys), dtype=np.int64, count=len(keys))

    def place(self, key: Any) -> int | None:
        """The place of one context (d,), or of one id, whichever the keys are; None if unknown."""
        if self._by_features:
            return self._places.get((key + 0.0).tobytes())
        return self._places.get(str(key) if self._by_text else key)


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each distinct context (m,), in the order of `groups_of`, and which each row is (n,)."""
    group = groups_of(keys)
    return np.unique(group, return_index=True)[1], group


def groups_of(keys: np.ndarray) -> np.ndarray:
    """The place of each row's context among the distinct ones, (n,), sorted by their bytes or their ids.

    keys are contexts (n, d), or ids (n,).
    """
    return context_groups(keys) if keys.ndim == 2 else id_groups(keys)


def context_keys(contexts: np.ndarray) -> np.ndarray:
    """The exact bytes of each context as one value, −0.0 taken as 0.0; (n,) of a void type."""
    plain = np.ascontiguousarray(contexts + 0.0)
    return plain.view(np.dtype((np.void, plain.itemsize * plain.shape[1]))).reshape(-1)


def context_groups(contexts: np.ndarray) -> np.ndarray:
    """The place of each row's context among the distinct ones, sorted by their bytes, (n,).

    The same as np.unique(context_keys(contexts), return_inverse=True)[1], for contexts (n, d).
    """
    if len(contexts) < SMALL:
        return np.unique(context_keys(contexts), return_inverse=True)[1].reshape(-1)
    from sparing.log.grouping import groups_of_rows

    return groups_of_rows((contexts + 0.0).view(np.uint64))


def id_groups(ids: np.ndarray) -> np.ndarray:
    """The place of each row's id among the distinct ones, sorted, (n,).

    Whole numbers from a range not much larger than their number need no sorting: one look at each tells
    which occur, and a running count their places.
    """
    if ids.dtype.kind in "iu" and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if high - low < SPARSE * len(ids):
            there = np.zeros(high - low + 1, dtype=np.bool_)
            offset = ids - low
            there[offset] = True
            return (np.cumsum(there) - 1)[offset]
    return np.unique(ids, return_inverse=True)[1].reshape(-1)
