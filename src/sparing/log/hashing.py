"""Hashes of rows, contexts and ids (64 bits, the same in every file, order and process), and groups of equal contexts."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.hashing import GAMMA, fold_word, mix64
from sparing.log.passes import Blocks

if TYPE_CHECKING:
    from sparing.log.log import Log

# Rows that are hashed at a time, few enough for the processor's cache.
_ROWS = 8192
_HALF = np.uint64(32)

# Integer ids from a range of at most this many numbers per row are counted instead of sorted.
SPARSE = 4


def context_hashes(contexts: np.ndarray) -> np.ndarray:
    """Hashes (n,) of the bytes of contexts (n, d), with −0.0 taken as 0.0."""
    hashes = np.zeros(len(contexts), dtype=np.uint64)
    size = min(len(contexts), _ROWS)
    numbers, shifted = np.empty((contexts.shape[1], size)), np.empty(size, dtype=np.uint64)
    for start in range(0, len(contexts), _ROWS):
        state = hashes[start : start + _ROWS]
        upper = shifted[: len(state)]
        columns = np.add(contexts[start : start + _ROWS].T, 0.0, out=numbers[:, : len(state)])
        for words in columns.view(np.uint64):
            np.bitwise_xor(state, words, out=state)  # `fold_word`, in place
            np.multiply(state, GAMMA, out=state)
            np.bitwise_xor(state, np.right_shift(state, _HALF, out=upper), out=state)
    return hashes


def id_hashes(ids: np.ndarray) -> np.ndarray:
    """Hashes (n,) of the text of ids, so that 17 and "17" are equal; NumPy's padding zeros are left out."""
    texts = np.ascontiguousarray(ids.astype(np.str_))
    hashes = np.zeros(len(ids), dtype=np.uint64)
    for letters in texts.view(np.uint32).reshape(len(ids), -1).T:
        hashes = np.where(letters > 0, fold_word(hashes, letters.astype(np.uint64)), hashes)
    return hashes


def group_hashes(log: "Log") -> np.ndarray:
    """Mixed hashes (n,) of each row's context: of its id if the log has ids, else of its bytes."""
    ids = log.context_ids
    return mix64(hashes_of(log) if ids is None else id_hashes(ids))


def hashes_of(log: "Log") -> np.ndarray:
    """`context_hashes` of a log's rows, (n,), computed once: folds, splits and fingerprints all need them."""
    hashes: np.ndarray | None = log.__dict__.get("_context_hashes")
    if hashes is None:
        hashes = log.__dict__["_context_hashes"] = context_hashes(log.contexts)
    return hashes


class ContextIndex:
    """Position of each of some distinct contexts; keys are features (m, d), with −0.0 as 0.0, or ids (m,)."""

    def __init__(self, keys: np.ndarray) -> None:
        self._by_features, self._by_text = keys.ndim == 2, keys.dtype.kind == "U"
        listed: list[Hashable] = (context_keys(keys) if self._by_features else keys).tolist()
        self._places = {key: place for place, key in enumerate(listed)}
        self.repeats = len(self._places) < len(keys)

    def find(self, contexts: np.ndarray) -> np.ndarray:
        """The position (n,) of each context (n, d); −1 if it is unknown."""
        keys = context_keys(contexts).tolist()
        return np.fromiter((self._places.get(key, -1) for key in keys), dtype=np.int64, count=len(keys))

    def place(self, key: Any) -> int | None:
        """The position of one context (d,), or of one id if the keys are ids; None if it is unknown."""
        if self._by_features:
            return self._places.get((key + 0.0).tobytes())
        return self._places.get(str(key) if self._by_text else key)


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each distinct context (m,), in the order of `groups_of`, and the group of each row (n,)."""
    group = groups_of(keys)
    return np.unique(group, return_index=True)[1], group


def groups_of(keys: np.ndarray) -> np.ndarray:
    """The position of each row's context among the distinct ones, (n,), sorted by their bytes or their ids.

    `keys` are contexts (n, d) or ids (n,).
    """
    return context_groups(keys) if keys.ndim == 2 else id_groups(keys)


def context_keys(contexts: np.ndarray) -> np.ndarray:
    """The exact bytes of each context as one value, with −0.0 taken as 0.0; (n,) of a void type."""
    plain = np.ascontiguousarray(contexts + 0.0)
    return plain.view(np.dtype((np.void, plain.itemsize * plain.shape[1]))).reshape(-1)


def context_groups(contexts: np.ndarray) -> np.ndarray:
    """The position of each row's context among the distinct ones, sorted by their bytes, (n,).

    Equal to np.unique(context_keys(contexts), return_inverse=True)[1] for contexts (n, d). Sorting hashes instead of
    long rows takes half of the time.
    """
    words = (contexts + 0.0).view(np.uint64)
    found, group = np.unique(context_hashes(contexts), return_inverse=True)
    one, place = np.empty((2, len(found)), dtype=np.int64)  # a row of each group, and its rank
    one[group] = np.arange(len(group))
    for rows in Blocks.of(*words.shape) if len(found) < len(group) else ():
        if (words[rows] != words[one[group[rows]]]).any():  # different contexts with one hash
            return np.unique(context_keys(contexts), return_inverse=True)[1].reshape(-1)
    place[_byte_order(words[one])] = np.arange(len(one))
    return place[group]


def _byte_order(words: np.ndarray) -> np.ndarray:
    """The order (m,) that sorts distinct rows (m, d) by bytes: by the first column that varies, then ties by all."""
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
    """The position of each row's id among the distinct ones, sorted, (n,).

    Integers from a range not much larger than their number are not sorted: a running count over the range gives
    their positions.
    """
    if ids.dtype.kind in "iu" and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if high - low < SPARSE * len(ids):
            there = np.zeros(high - low + 1, dtype=np.bool_)
            offset = ids - low
            there[offset] = True
            return (np.cumsum(there) - 1)[offset]
    return np.unique(ids, return_inverse=True)[1].reshape(-1)
