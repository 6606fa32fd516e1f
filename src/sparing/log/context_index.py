"""Which rows are one context, and finding a context again: by the exact bytes of its features, or by its id."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from sparing.log.blocks import Blocks
from sparing.log.hashing import context_hashes

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

    The same as np.unique(context_keys(contexts), return_inverse=True)[1], for contexts (n, d): hashes are sorted in
    place of long rows, which takes half of the time.
    """
    words, hashes = (contexts + 0.0).view(np.uint64), context_hashes(contexts)
    order = np.argsort(hashes)
    ordered = hashes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    first, group = order[starts], np.empty(len(order), dtype=np.int64)
    group[order] = np.repeat(np.arange(len(first)), np.diff(starts, append=len(order)))
    for rows in Blocks.of(*words.shape):
        if (words[rows] != words[first[group[rows]]]).any():  # different contexts of one hash
            return np.unique(context_keys(contexts), return_inverse=True)[1].reshape(-1)
    place = np.empty(len(first), dtype=np.int64)
    place[_byte_order(words[first])] = np.arange(len(first))
    return place[group]


def _byte_order(words: np.ndarray) -> np.ndarray:
    """The order (m,) that sorts distinct rows (m, d) by their bytes: by the first column that varies, then ties by all."""
    column = words[:, (words != words[:1]).any(axis=0).argmax()]
    # The bytes of a little-endian number in their order are a big-endian number.
    keys = column.astype("<u8").view(">u8").astype(np.uint64)
    order = np.argsort(keys)
    same = np.diff(keys[order]) == 0
    tied = np.flatnonzero(np.append(False, same) | np.append(same, False))
    rows = order[tied]
    order[tied] = rows[np.argsort(context_keys(words[rows].view(np.float64)))]
    return order


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
