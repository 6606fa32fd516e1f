"""Finding contexts again: by their bytes or their ids, one or many, and which rows are one context."""

import numpy as np
import pytest

from sparing.hashing import ContextIndex, distinct


def test_many_contexts_are_found_by_their_bytes_and_others_are_not():
    rng = np.random.default_rng(0)
    known = rng.normal(size=(500, 3))
    index = ContextIndex(known)
    order = rng.permutation(500)
    np.testing.assert_array_equal(index.find(known[order]), order)
    np.testing.assert_array_equal(index.find(np.nextafter(known, np.inf)), -1)
    assert [index.place(known[row]) for row in order[:20]] == order[:20].tolist()
    assert index.place(known[0] + 1) is None


def test_minus_zero_is_zero():
    index = ContextIndex(np.array([[0.0, 1.0], [-0.0, 2.0]]))
    np.testing.assert_array_equal(index.find(np.array([[-0.0, 1.0], [0.0, 2.0]])), [0, 1])
    assert index.place(np.array([-0.0, 1.0])) == 0


def test_an_index_of_nothing_finds_nothing():
    np.testing.assert_array_equal(ContextIndex(np.empty((0, 2))).find(np.ones((3, 2))), -1)


@pytest.mark.parametrize("ids", [[7, 3, 5], ["7", "3", "5"], [7.0, 3.0, 5.0]])
def test_ids_are_found_as_numbers_or_as_the_text_they_stand_for(ids):
    index = ContextIndex(np.array(ids))
    assert [index.place(key) for key in (7, 3, 5, 4)] == [0, 1, 2, None]
    assert index.place(np.array(ids)[1]) == 1


def test_an_id_that_cannot_be_looked_up_is_an_error():
    with pytest.raises(TypeError):
        ContextIndex(np.array([1, 2])).place([1])


def test_repeats_are_reported():
    assert ContextIndex(np.array([[0.0], [-0.0]])).repeats
    assert ContextIndex(np.array([1, 2, 1])).repeats
    assert not ContextIndex(np.array([[0.0], [1.0]])).repeats


@pytest.mark.parametrize("by_id", [False, True])
def test_distinct_contexts_are_sorted_and_stand_where_they_first_occur(by_id):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 9, 200) if by_id else rng.integers(0, 3, (200, 2)).astype(float)
    first, group = distinct(keys)
    np.testing.assert_array_equal(keys[first][group], keys)
    assert all((group[:row] != group[row]).all() for row in first)
    np.testing.assert_array_equal(group[first], np.arange(len(first)))
