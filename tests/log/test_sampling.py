"""Samples of rows and of contexts: uniform, and the same however the log is cut and read."""

import itertools
from functools import reduce

import numpy as np

from sparing.hashing import row_keys
from sparing.log import Log
from sparing.log.rows import InMemoryRows
from sparing.log.sketches import CONTEXT_SAMPLE_SIZE, ContextSample, RowSample, sample_contexts


def test_keys_are_splitmix64():
    """Recorded values: samples in files and learners' lookahead contexts follow from them."""
    assert row_keys(np.arange(3)).tolist() == [16294208416658607535, 7960286522194355700, 487617019471545679]
    assert row_keys(np.arange(2), 7).tolist() == [1666833969347876293, 11529068210322789898]


def test_the_sample_of_contexts_does_not_depend_on_the_way_it_is_read():
    contexts = np.random.default_rng(0).random((1000, 3))
    whole = sample_contexts(contexts)
    assert whole.shape == (CONTEXT_SAMPLE_SIZE, 3)
    assert len(np.unique(whole[:, 0])) == CONTEXT_SAMPLE_SIZE
    sample, parts = ContextSample(3), []
    for start, stop in ((700, 1000), (0, 350), (350, 700)):
        state = sample.zero()
        for first in range(start, stop, 50):
            state = sample.update(state, contexts[first : first + 50], first)
        parts.append(state)
    assert np.array_equal(reduce(sample.merge, parts).contexts, whole)
    assert sorted(sample_contexts(contexts[:50])[:, 0]) == sorted(contexts[:50, 0])
    # Means of a uniform sample: within four standard errors of those of all rows.
    error = contexts.std() / np.sqrt(CONTEXT_SAMPLE_SIZE)
    assert np.allclose(whole.mean(axis=0), contexts.mean(axis=0), atol=4 * error)


def test_one_more_row_exchanges_one_row_at_most(monkeypatch):
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", 256)
    rng = np.random.default_rng(1)
    x, zeros = rng.random((3001, 1)), np.zeros(3001)
    log = Log.from_arrays(x, zeros.astype(int), x[:, 0], action_names=range(2))
    samples = [
        set(InMemoryRows(log.part(slice(0, rows))).sample(500, seed=3).rewards)
        for rows in (499, 500, 501, 3000, 3001)
    ]
    assert [len(each) for each in samples] == [499, 500, 500, 500, 500]
    for one, two in itertools.pairwise(samples):
        if len(two - one) > 1:
            assert (one, two) == (samples[2], samples[3])
    keys = row_keys(np.arange(3001), 3)
    assert samples[-1] == set(x[np.argsort(keys)[:500], 0])
    state = RowSample(log.part(slice(0, 0)), 3001, 500, 3)
    assert len(InMemoryRows(log).fold(state).keys) < 700  # candidates of all blocks take little memory
