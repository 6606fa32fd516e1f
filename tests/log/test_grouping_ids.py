"""Rows of one id: counted or sorted, the same numbers."""

import numpy as np

from each import for_each
from sparing.hashing import SPARSE, id_groups


@for_each("low", [0, -50, 10**12])
@for_each("span", [5, 300, 300 * SPARSE, 10**7])
@for_each("kind", [np.int64, np.int32, np.uint64])
def test_numbers(low, span, kind):
    if (kind is np.int32 and low > 10**9) or (kind is np.uint64 and low < 0):
        low = 7
    ids = (np.random.default_rng(span).integers(0, span, 300) + low).astype(kind)
    assert np.array_equal(id_groups(ids), np.unique(ids, return_inverse=True)[1])


def test_text_and_nothing():
    assert id_groups(np.array(["b", "a", "b"])).tolist() == [1, 0, 1]
    assert len(id_groups(np.empty(0, dtype=np.int64))) == 0
