"""A log's rows: none, one or some of them, their counts and groups, and that nothing changes them."""

import numpy as np
import pytest

from each import for_each
from sparing.errors import LogError
from sparing.hashing import context_keys
from sparing.log import Log

SHARES = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])


def make(contexts=((0.0, 1.0), (2.0, 3.0), (4.0, 5.0)), **more):
    return Log.from_arrays(contexts, ["a", "b", "a"], [1.0, 0.0, -2.5], **more)


def test_an_empty_log():
    log = Log.empty(action_names=["a", "b"], n_features=4)
    assert (log.n_rows, log.n_actions, log.n_features) == (0, 2, 4)
    assert log.counts.tolist() == [0, 0]
    assert log.groups.shape == (0,)
    assert not log.support.known
    assert len(log.take([])) == 0


def test_an_empty_log_names_its_actions():
    with pytest.raises(LogError, match="no actions"):
        Log.from_arrays(np.empty((0, 2)), [], [])


def test_an_empty_log_with_everything():
    log = Log.from_arrays(
        np.empty((0, 2)),
        [],
        [],
        distribution=np.empty((0, 2)),
        propensities=[],
        context_ids=[],
        action_names=["a", "b"],
    )
    assert log.support.kind == "exact"
    assert log.propensities.shape == log.context_ids.shape == (0,)


def test_a_log_of_one_row():
    log = Log.from_arrays([[1.5]], ["a"], [2.0], distribution=[[1.0]], context_ids=["u"])
    assert (log.n_rows, log.n_actions, log.n_features) == (1, 1, 1)
    assert log.groups.tolist() == [0]
    assert log.support.unsupported_share == 0
    assert log.propensities.tolist() == [1.0]


FIELDS = ["contexts", "actions", "rewards", "propensities", "context_ids", "counts", "groups"]


@for_each("name", FIELDS)
@for_each("taken", [False, True])
def test_a_log_is_read_only(name, taken):
    log = make(propensities=[1.0, 1.0, 1.0], context_ids=[1, 2, 3])
    log = log.take([0, 1]) if taken else log
    with pytest.raises(ValueError, match="read-only"):
        getattr(log, name)[0] = 1
    with pytest.raises(AttributeError):
        setattr(log, name, None)


def test_the_callers_arrays_are_copied():
    given = {
        "contexts": np.arange(6.0).reshape(3, 2),
        "actions": np.array([0, 1, 0]),
        "rewards": np.array([1.0, 0.0, -2.5]),
        "propensities": np.array([0.5, 0.75, 1.0]),
        "distribution": SHARES.copy(),
        "context_ids": np.array([4, 5, 6]),
    }
    log = Log.from_arrays(**given)
    before = [log.contexts, log.actions, log.rewards, log.propensities, log.context_ids]
    before = [array.copy() for array in [*before, log.support.distribution()]]
    for array in given.values():
        array[:] = 0
    after = [log.contexts, log.actions, log.rewards, log.propensities, log.context_ids]
    for old, new in zip(before, [*after, log.support.distribution()], strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("rows", [[2, 0, 2], [], [True, False, True], slice(1, None), [-1]])
def test_take_selects_rows_of_everything(rows):
    log = make(
        distribution=SHARES,
        context_ids=["u", "v", "w"],
        action_names=["a", "b"],
        feature_names=["age", "size"],
    )
    chosen = rows if isinstance(rows, slice) else np.array(rows, dtype=bool if True in rows else int)
    part = log.take(chosen)
    for name in ("contexts", "actions", "rewards", "propensities", "context_ids"):
        np.testing.assert_array_equal(getattr(part, name), getattr(log, name)[chosen])
    np.testing.assert_array_equal(part.support.distribution(), SHARES[chosen])
    np.testing.assert_array_equal(part.counts, np.bincount(log.actions[chosen], minlength=2))
    assert (part.action_names, part.feature_names) == (log.action_names, log.feature_names)


def test_take_of_a_log_that_lacks_what_is_optional():
    part = make().take([1])
    assert part.propensities is None
    assert part.context_ids is None
    assert part.support.kind == "unknown"


def test_counts_are_rows_of_each_action():
    actions = np.random.default_rng(0).integers(7, size=500)
    log = Log.from_arrays(np.ones((500, 1)), actions, np.ones(500), action_names=range(9))
    assert log.counts.tolist() == [int((actions == a).sum()) for a in range(9)]


def test_equal_contexts_are_one_group():
    rng = np.random.default_rng(1)
    contexts = rng.integers(-1, 2, size=(200, 3)).astype(float)
    groups = Log.from_arrays(contexts, ["a"] * 200, np.zeros(200)).groups
    alike = (contexts[:, None] == contexts[None]).all(axis=2)
    np.testing.assert_array_equal(groups[:, None] == groups[None], alike)
    assert sorted(set(groups.tolist())) == list(range(groups.max() + 1))


def test_negative_zero_is_zero():
    assert len(set(make([[0.0, 1.0], [-0.0, 1.0], [1.0, -0.0]]).groups.tolist())) == 2
    keys = context_keys(np.array([[-0.0], [0.0]]))
    assert keys[0].tobytes() == keys[1].tobytes() == np.zeros(1).tobytes()


def test_contexts_that_differ_in_their_last_bit_are_two():
    assert make([[0.1 + 0.2], [0.3], [0.3]]).groups.tolist() in ([0, 1, 1], [1, 0, 0])


@pytest.mark.parametrize("ids", [[5, 3, 5], ["u", "a", "u"], np.array([5, 3, 5], dtype=np.uint64)])
def test_ids_say_which_context_a_row_is(ids):
    """Equal ids are one context even if the vectors differ, and equal vectors two if the ids do."""
    log = make([[1.0], [1.0], [2.0]], context_ids=ids)
    assert log.groups.tolist() == [1, 0, 1]
    assert log.context_ids.tolist() == list(ids)


def test_mixed_ids_are_texts():
    log = make(context_ids=[1, "a", 1])
    assert log.context_ids.tolist() == ["1", "a", "1"]


def test_ids_beyond_63_bits_are_kept():
    assert make(context_ids=[2**64 - 1, 1, 2]).context_ids.tolist() == [2**64 - 1, 1, 2]
