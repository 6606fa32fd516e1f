"""64-bit hashes of words, contexts and ids, and groups of equal contexts, in plain NumPy.

Functions of words take `uint64` arrays, or scalars in compiled code: `online.engine` compiles `mix64` from here.
Hashes are persisted (fingerprints, splits, digests, replays), so they never change.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np

# 2⁶⁴ divided by the golden ratio, odd: its multiples are spread evenly over all words.
GAMMA = np.uint64(0x9E3779B97F4A7C15)

# Rows that are hashed at a time, few enough for the processor's cache.
_ROWS = 8192
_HALF = np.uint64(32)

# Integer ids from a range of at most this many numbers per row are counted instead of sorted.
SPARSE = 4


def mix64(z: np.ndarray) -> np.ndarray:
    """Mix words: every bit of one flips about half of the others (the finaliser of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def splitmix64(z: np.ndarray) -> np.ndarray:
    """One step of splitmix64 from the states `z`."""
    return mix64(z + GAMMA)


def row_keys(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Pseudo-random keys (n,) of row numbers (n,), all distinct: the sequence of splitmix64 from state 0.

    Another seed gives other keys.
    """
    rows = np.asarray(rows, dtype=np.uint64)
    if seed:
        rows = rows ^ row_keys(np.array([seed], dtype=np.uint64))
    return mix64((rows + np.uint64(1)) * GAMMA)


def fold_word(state: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Hashes extended by one word each."""
    state = (state ^ words) * GAMMA
    return state ^ (state >> np.uint64(32))


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
    for start in range(0, len(words), _ROWS) if len(found) < len(group) else ():
        rows = slice(start, start + _ROWS)
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
