"""Learners handed to other processes: whatever the bytes lie in, a learner owns what it writes to."""

import copy
import pickle

import numpy as np
import pytest

from reference.cases import make_log, make_rounds, parameters, run
from reference.factories import FACTORIES, build

THETA = parameters(1)
LOG = make_log(1, THETA, rows=60, distinct=40)
ROUNDS = make_rounds(1, THETA, 60, log=LOG)


def through_buffers(learner):
    """Pickled with its arrays apart, and put together over bytes that must not be written to."""
    buffers = []
    body = pickle.dumps(learner, protocol=5, buffer_callback=buffers.append)
    frozen = [bytes(buffer.raw()) for buffer in buffers]
    return pickle.loads(body, buffers=frozen), frozen


def through_a_mapped_file(learner, folder):
    """As joblib hands large arrays to its workers: mapped from a file that is open for reading only."""
    import joblib

    joblib.dump(learner, folder / "dumped")
    return joblib.load(folder / "dumped", mmap_mode="r")


@pytest.mark.parametrize("name", FACTORIES)
def test_a_learner_goes_on_from_wherever_it_was_put(name, tmp_path):
    learner = build(name, LOG)
    run(learner, ROUNDS)
    waiting = [d for d in map(learner.decide, ROUNDS.contexts[:20]) if d.needs_reward]
    buffered, frozen = through_buffers(learner)
    before = [bytes(part) for part in frozen]
    others = [
        buffered,
        through_a_mapped_file(learner, tmp_path),
        copy.deepcopy(learner),
        copy.copy(learner).copy(),
    ]
    for decision in waiting:
        learner.update(decision, 0.5)
    expected = run(learner, ROUNDS)
    for other in others:
        for decision in waiting:
            other.update(decision.id, 0.5)
        assert run(other, ROUNDS) == expected
        assert other.digest() == learner.digest()
    assert frozen == before


def test_contexts_that_cannot_be_written_to_are_read(tmp_path):
    learner = build("certified", LOG)
    np.save(tmp_path / "contexts.npy", ROUNDS.contexts)
    mapped = np.load(tmp_path / "contexts.npy", mmap_mode="r")
    plain = learner.decide_many(ROUNDS.contexts)
    for contexts in (mapped, np.asfortranarray(ROUNDS.contexts), ROUNDS.contexts.astype(">f8"), mapped[::1]):
        assert np.array_equal(learner.decide_many(contexts).actions, plain.actions)
    assert [learner.propose(x) for x in mapped] == [learner.propose(x) for x in ROUNDS.contexts]


def test_a_copy_shares_nothing():
    """A copy shares nothing with its model."""
    learner = build("linucb", LOG)
    twin = learner.copy()
    others = twin.sets.arrays.places()
    for name, place in learner.sets.arrays.places().items():
        assert np.array_equal(place, others[name])
        assert not np.shares_memory(place, others[name])
