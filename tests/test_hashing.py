"""Hashes are persisted: the words recorded with the first release, for arrays and in compiled code."""

from pathlib import Path

import numpy as np
import pytest

from sparing import hashing
from sparing.online.engine import random_stream

RECORDED = np.load(Path(__file__).with_name("hashing.npz"))
WORDS = RECORDED["words"]


@pytest.mark.parametrize("name", ["mix64", "splitmix64", "row_keys"])
def test_words_are_those_recorded(name):
    assert np.array_equal(getattr(hashing, name)(WORDS), RECORDED[name])


def test_folded_words_are_those_recorded():
    assert np.array_equal(hashing.fold_word(WORDS, RECORDED["others"]), RECORDED["fold_word"])


def test_the_engine_compiles_the_same_function():
    assert [random_stream.mix64(word) for word in WORDS] == RECORDED["mix64"].tolist()
    assert [random_stream.splitmix64(word) for word in WORDS] == RECORDED["splitmix64"].tolist()
    keys = (WORDS >> np.uint64(1)).astype(np.int64).tolist()
    assert [random_stream.stream_key(key, place) for place, key in enumerate(keys)] == RECORDED[
        "round_key"
    ].tolist()
    assert [random_stream.uniform(key, place % 40) for place, key in enumerate(keys)] == RECORDED[
        "uniform"
    ].tolist()
