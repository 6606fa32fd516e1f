"""Logs to write, and how to compare what comes back."""

import numpy as np
import pytest

from sparing.log import Log

N, D, K = 60, 4, 5


def bits(array):
    """The bytes of an array of floats: −0.0 is not 0.0."""
    return np.ascontiguousarray(array, dtype=np.float64).tobytes()


@pytest.fixture
def same():
    """Compare two logs: rows bit for bit, actions by label, supports as far as `sets` and `distributions` say."""

    def compare(
        back, log, *, propensities=True, sets=True, distributions=False, ids=False, names=True, labels=True
    ):
        assert bits(back.contexts) == bits(log.contexts)
        assert bits(back.rewards) == bits(log.rewards)
        if labels:
            assert [back.action_names[a] for a in back.actions] == [log.action_names[a] for a in log.actions]
            assert back.action_names == log.action_names
        assert back.actions.tolist() == log.actions.tolist()
        if propensities and log.propensities is not None:
            assert bits(back.propensities) == bits(log.propensities)
        else:
            assert back.propensities is None
        if sets and log.support.kind == "exact":
            assert back.support.kind == "exact"
            assert (back.support.mask() == log.support.mask()).all()
        if distributions and log.support.probabilities is not None:
            assert bits(back.support.distribution()) == bits(log.support.distribution())
        if ids:
            assert back.context_ids.tolist() == log.context_ids.tolist()
        if names:
            assert back.feature_names == log.feature_names

    return compare


def draw(seed=0, *, support="distribution", ids=False, labels=None, names=None):
    """A log with zeros, −0.0, tiny and huge values, rows of nothing but zeros, and deficient support."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(N, D)) * 10.0 ** rng.integers(-300, 49, size=(N, D))
    contexts[rng.random((N, D)) < 0.3] = 0.0
    contexts[rng.random((N, D)) < 0.05] = -0.0
    contexts[7] = 0.0
    table = rng.dirichlet(np.ones(K), size=N)
    table[rng.random((N, K)) < 0.3] = 0.0
    table[np.arange(N), rng.integers(K - 1, size=N)] += 0.5
    table[:, 0] += 0.25
    table /= table.sum(axis=1, keepdims=True)
    actions = (table.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)
    labels = list(range(1, K + 1)) if labels is None else labels
    known = {}
    if support == "distribution":
        known = {"distribution": table}
    elif support == "sets":
        known = {"eligible": [[labels[a] for a in np.flatnonzero(row)] for row in table]}
    return Log.from_arrays(
        contexts,
        [labels[a] for a in actions],
        rng.choice([0.0, 1.0, -0.0, -2.5, 1e-17], size=N),
        propensities=None if support == "nothing" else table[np.arange(N), actions],
        action_names=labels,
        context_ids=[f"user {i % 9}" for i in range(N)] if ids else None,
        feature_names=names,
        **known,
    )


@pytest.fixture(name="draw")
def draw_fixture():
    return draw
