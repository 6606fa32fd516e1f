"""Logs of several blocks, and how to compare what is walked with what is in memory."""

import numpy as np

from sparing.log import Log
from sparing.log.rows import InMemoryRows, Rows

ROWS, BLOCK = 600, 64
"""The rows of a log, and of its blocks: 256 is the least that there is."""


def few(monkeypatch):
    """Several blocks, leaves and batches of few rows."""
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", 64)
    monkeypatch.setattr("sparing.log.passes.CHUNK_ROWS", 64)
    monkeypatch.setattr("sparing.log.formats.obp.BATCH_ROWS", 50)
    monkeypatch.setattr("sparing.log.tables.CSV_BLOCK", 2**14)


def drawn(support="distribution", *, ids=True, labels=None, names=None, rows=ROWS, seed=0):
    """A log whose last action and last feature turn up late, with zeros and −0.0."""
    rng = np.random.default_rng(seed)
    contexts = rng.integers(-64, 65, size=(rows, 4)) / 64
    contexts[rng.random((rows, 4)) < 0.4] = 0.0
    contexts[rng.random((rows, 4)) < 0.05] = -0.0
    contexts[: rows // 2, 3] = 0.0
    table = rng.integers(1, 9, size=(rows, 5)) / 8
    table[rng.random((rows, 5)) < 0.3] = 0.0
    table[:, :2] += 0.25
    table[: rows // 2, 4] = 0.0
    table /= table.sum(axis=1, keepdims=True)
    actions = (table.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    labels = labels or [1, 2, 3, 4, 5]
    known = {"distribution": table} if support == "distribution" else {}
    if support == "sets":
        known = {"eligible": [[labels[a] for a in np.flatnonzero(row)] for row in table]}
    return Log.from_arrays(
        contexts,
        [labels[a] for a in actions],
        rng.choice([0.0, 1.0, -2.5], size=rows),
        propensities=table[np.arange(rows), actions],
        action_names=labels,
        context_ids=[f"user {i % 97}" for i in range(rows)] if ids else None,
        feature_names=names,
        **known,
    )


class Walked(Rows):
    """A log in memory that knows nothing of being there."""

    def __init__(self, log):
        self.inner = InMemoryRows(log)
        self.header, self.n_rows = self.inner.header, log.n_rows

    def fold(self, statistic):
        return self.inner.fold(statistic)

    def blocks(self):
        for first, block in self.inner.blocks():
            yield first, block.take(np.arange(block.n_rows))


def assert_same(rows, log, *, distributions=True):
    """The blocks are parts of the log, of the size that they must have, and together all of it."""
    assert isinstance(rows, Rows)
    assert (rows.n_rows, rows.action_names, rows.feature_names) == (
        log.n_rows,
        log.action_names,
        log.feature_names,
    )
    assert (rows.header.propensities is None) == (log.propensities is None)
    assert (rows.header.context_ids is None) == (log.context_ids is None)
    assert rows.header.support.kind == log.support.kind
    sizes = [block.n_rows for _, block in rows.blocks()]
    assert sizes == [min(BLOCK, log.n_rows - first) for first in range(0, log.n_rows, BLOCK)]
    for first, block in rows.blocks():
        part = log.part(slice(first, first + block.n_rows))
        for name in ("contexts", "actions", "rewards", "propensities", "context_ids"):
            one, other = getattr(block, name), getattr(part, name)
            assert (one is None) == (other is None), name
            if one is not None:
                assert one.dtype.kind == other.dtype.kind
                assert np.array_equal(one, other), name
        assert np.array_equal(np.signbit(block.contexts), np.signbit(part.contexts))
        assert block.encoder.digest == log.encoder.digest
        assert block.support.kind == part.support.kind
        assert block.support.from_probabilities == part.support.from_probabilities
        if part.support.known:
            assert np.array_equal(block.support.mask(), part.support.mask())
            shares = part.support.distribution()
            assert (shares is None) == (block.support.distribution() is None)
            assert shares is None or np.array_equal(block.support.distribution(), shares)
