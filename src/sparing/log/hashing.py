"""Hashes of 64 bits that tell rows, contexts and ids apart, the same in every file, order and process."""

import numpy as np

from sparing.hashing import GAMMA, fold_word, mix64
from sparing.log.log import Log

MULTIPLIER, folded, mixed = GAMMA, fold_word, mix64

_ROWS = 4096


def context_hashes(contexts: np.ndarray, *, many: bool = False) -> np.ndarray:
    """Of each context's bytes, −0.0 taken as 0.0; by a compiled kernel where they are many, here or in other parts."""
    if not many:
        return plain_hashes(contexts)
    from sparing.log.grouping import hash_rows

    return hash_rows(np.ascontiguousarray(contexts).view(np.uint64), MULTIPLIER)


def plain_hashes(contexts: np.ndarray) -> np.ndarray:
    """The same without the kernel, in pieces that stay in the cache."""
    hashes = np.zeros(len(contexts), dtype=np.uint64)
    for start in range(0, len(contexts), _ROWS):
        piece = slice(start, start + _ROWS)
        for words in (contexts[piece] + 0.0).T.copy().view(np.uint64):
            hashes[piece] = folded(hashes[piece], words)
    return hashes


def id_hashes(ids: np.ndarray) -> np.ndarray:
    """Of each id's text, so that 17 and "17" are one; the zeros that fill NumPy's texts up are left out."""
    texts = np.ascontiguousarray(ids.astype(np.str_))
    hashes = np.zeros(len(ids), dtype=np.uint64)
    for letters in texts.view(np.uint32).reshape(len(ids), -1).T:
        hashes = np.where(letters > 0, folded(hashes, letters.astype(np.uint64)), hashes)
    return hashes


def group_hashes(log: Log, *, many: bool = False) -> np.ndarray:
    """Of what makes rows one context, (n,): its id where the log has ids, else its bytes; every bit is mixed."""
    ids = log.context_ids
    return mixed(context_hashes(log.contexts, many=many) if ids is None else id_hashes(ids))
