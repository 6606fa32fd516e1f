"""Hashes of 64 bits that tell rows, contexts and ids apart, the same in every file, order and process."""

from typing import TYPE_CHECKING

import numpy as np

from sparing.hashing import GAMMA, fold_word, mix64

if TYPE_CHECKING:
    from sparing.log.log import Log

_ROWS, _HALF = 2048, np.uint64(32)


def context_hashes(contexts: np.ndarray) -> np.ndarray:
    """Of each context's bytes, −0.0 taken as 0.0, (n,); in pieces that stay in the cache."""
    hashes = np.zeros(len(contexts), dtype=np.uint64)
    for start in range(0, len(contexts), _ROWS):
        state = hashes[start : start + _ROWS]
        upper = np.empty_like(state)
        for words in (contexts[start : start + _ROWS] + 0.0).T.copy().view(np.uint64):
            state ^= words  # `fold_word`, without arrays of its own
            state *= GAMMA
            state ^= np.right_shift(state, _HALF, out=upper)
    return hashes


def id_hashes(ids: np.ndarray) -> np.ndarray:
    """Of each id's text, so that 17 and "17" are one; the zeros that fill NumPy's texts up are left out."""
    texts = np.ascontiguousarray(ids.astype(np.str_))
    hashes = np.zeros(len(ids), dtype=np.uint64)
    for letters in texts.view(np.uint32).reshape(len(ids), -1).T:
        hashes = np.where(letters > 0, fold_word(hashes, letters.astype(np.uint64)), hashes)
    return hashes


def group_hashes(log: "Log") -> np.ndarray:
    """Of what makes rows one context, (n,): its id where the log has ids, else its bytes; every bit is mixed."""
    ids = log.context_ids
    return mix64(hashes_of(log) if ids is None else id_hashes(ids))


def hashes_of(log: "Log") -> np.ndarray:
    """`context_hashes` of a log's rows, (n,), computed once: folds, splits and fingerprints all need them."""
    hashes: np.ndarray | None = log.__dict__.get("_context_hashes")
    if hashes is None:
        hashes = log.__dict__["_context_hashes"] = context_hashes(log.contexts)
    return hashes
