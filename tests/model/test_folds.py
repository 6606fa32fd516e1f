"""Folds of contexts: balanced, unseen, and the same however the rows are ordered, cut and merged."""

from functools import reduce

import numpy as np
import pytest

from sparing.errors import SettingError
from sparing.log import Log
from sparing.model import crossfitting
from sparing.model.crossfitting import ContextKeys, Folds


def log_of(contexts, ids=None):
    """A log of contexts (n,) of one feature."""
    x = np.asarray(contexts, dtype=float).reshape(-1, 1)
    zeros = np.zeros(len(x))
    return Log.from_arrays(x, zeros.astype(int), zeros, action_names=range(2), context_ids=ids)


def repeated(contexts, seed=0):
    """Each context once, and as many again at random."""
    rng = np.random.default_rng(seed)
    return rng.permutation(np.append(np.arange(contexts), rng.integers(contexts, size=contexts)))


@pytest.mark.parametrize(("contexts", "folds"), [(2, 2), (3, 5), (7, 5), (1001, 5), (4096, 3)])
def test_few_contexts_are_exactly_balanced(contexts, folds):
    log = log_of(repeated(contexts))
    found = Folds.of(log, folds, seed=3)
    assert found.count == min(folds, contexts)
    of_context = np.full(contexts, -1)
    of_context[log.contexts[:, 0].astype(int)] = found.assign_folds(log)
    assert (of_context[log.contexts[:, 0].astype(int)] == found.assign_folds(log)).all()  # one fold a context
    sizes = np.bincount(of_context, minlength=found.count)
    assert sizes.max() - sizes.min() <= 1


def test_many_contexts_are_balanced_to_within_the_sample():
    found = Folds.of(log_of(np.arange(50_000)), 5)
    sizes = np.bincount(found.assign_folds(log_of(np.arange(50_000))), minlength=5) / 50_000
    error = np.sqrt(0.2 * 0.8 / crossfitting.FOLD_CONTEXTS)
    assert np.abs(sizes - 0.2).max() < 4 * error
    assert error == pytest.approx(0.00625)


@pytest.mark.parametrize("by", ["features", "ids"])
def test_neither_order_nor_blocks_nor_merges_change_a_fold(by, monkeypatch):
    monkeypatch.setattr(crossfitting, "FOLD_CONTEXTS", 64)
    values = repeated(1000)
    log = log_of(values, None if by == "features" else values)
    expected = Folds.of(log, 5, seed=1)
    keys, parts = ContextKeys(1), []
    for start in (1500, 0, 700):
        state = keys.zero()
        for first in range(start, {1500: 2000, 0: 700, 700: 1500}[start], 100):
            state = keys.update(state, log.part(slice(first, first + 100)), first)
        parts.append(state)
    merged = Folds.from_keys(reduce(keys.merge, parts), 5, 1)
    mixed = Folds.of(log.take(np.random.default_rng(5).permutation(2000)), 5, seed=1)
    assert np.array_equal(merged.cuts, expected.cuts)
    assert np.array_equal(mixed.cuts, expected.cuts)
    halves = [expected.assign_folds(log.part(rows)) for rows in (slice(0, 900), slice(900, 2000))]
    assert np.array_equal(np.concatenate(halves), expected.assign_folds(log))
    assert not np.array_equal(Folds.of(log, 5, seed=2).assign_folds(log), expected.assign_folds(log))


@pytest.mark.parametrize("rows", [50, 63, 64, 65, 500])
def test_one_more_row_changes_one_sampled_context_and_few_folds(rows, monkeypatch):
    monkeypatch.setattr(crossfitting, "FOLD_CONTEXTS", 64)
    keys, few, more = ContextKeys(0), log_of(np.arange(rows)), log_of(np.arange(rows + 1))
    one, two = (keys.update(keys.zero(), log, 0) for log in (few, more))
    assert len(np.setdiff1d(one, two)) <= 1
    assert len(np.setdiff1d(two, one)) <= 1
    before, after = (Folds.from_keys(state, 5, 0).assign_folds(few) for state in (one, two))
    # A cut point moves by one sampled context at most, which stands for rows/64 of them.
    assert (before != after).sum() <= 4 * max(1, 4 * rows / 64)


def test_what_cannot_be_held_out_is_refused():
    with pytest.raises(
        SettingError, match="folds=5; must be between 2 and the number of distinct contexts, 1"
    ):
        Folds.of(log_of([3, 3, 3]), 5)
    with pytest.raises(SettingError, match="folds=1"):
        Folds.of(log_of(np.arange(9)), 1)
