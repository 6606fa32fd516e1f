"""Which rows are the same context: by exact comparison, numbered in the order of their bytes."""

import numpy as np

SMALL = 2**18
"""Fewer rows than this are sorted by NumPy: a fifth of a second; loading the compiled kernels takes longer."""


SPARSE = 4
"""Ids from a range of so many numbers a row are counted, not sorted."""


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
    from sparing.log import grouping_kernels as kernels

    words = (contexts + 0.0).view(np.uint64)
    first, groups = kernels.distinct_rows(words, kernels.MULTIPLIER)
    # The bytes of a little-endian number in their order are a big-endian number.
    ordered = words[first].astype("<u8").view(">u8").astype(np.uint64)
    keys, column = kernels.leading_keys(ordered)
    order = np.argsort(keys)
    kernels.settle_ties(ordered, keys, order, column)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[groups]


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
