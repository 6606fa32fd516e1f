"""The plain contenders do the same work as ours."""

import numpy as np
import pytest

import sparing
from research.bench.ours import plain
from research.bench.ours.data import visits, write_table
from research.bench.ours.kernels import run_loop
from research.bench.peers import worlds
from sparing.simulation import LinearWorld

SPEC = {"actions": 7, "features": 4, "seed": 3}


def test_numpy_loop_plays_what_moful_plays():
    """Ties, of untried actions, go by priority in ours and by number in the loop: number them by it."""
    k, d, length = 6, 3, 400
    learner = sparing.moful(n_actions=k, n_features=d, noise=0.5, seed=1)
    world = LinearWorld(n_actions=k, n_features=d, noise=0.5, seed=2)
    order = np.argsort(learner.priority)
    stream = world.live_stream(length, np.random.default_rng([5, 3]))
    loop = run_loop(stream.contexts, stream.means[:, order], stream.draws, noise=0.5)
    trace = sparing.simulate(learner, world, rounds=length, seed=5)
    np.testing.assert_array_equal(order[loop], trace.actions)
    assert len(set(loop.tolist())) == k


def test_numba_learns_what_numpy_learns():
    one = worlds.Steps(SPEC, plain.CONTENDERS["NumPy, one product"])
    other = worlds.Steps(SPEC, plain.CONTENDERS["Numba, all arms"])
    for contender in (one, other):
        contender.run(300)
    np.testing.assert_allclose(one.agent.theta, other.agent.theta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.agent.inverse, other.agent.inverse, rtol=1e-9, atol=1e-12)


def test_a_fresh_contender_begins_anew():
    contender = worlds.Steps({**SPEC, "fresh": True}, plain.OneProduct)
    first = contender.agent
    contender.renew()
    assert contender.agent is first  # only the untimed first step has been made
    contender.run(5)
    contender.renew()
    assert contender.agent is not first
    assert np.count_nonzero(contender.agent.theta.any(axis=1)) <= 1


def test_visits_are_a_valid_log_whose_contexts_repeat():
    data = visits({"rows": 1000, "actions": 4, "repeats": 5, "seed": 0})
    table = data.pop("table")
    assert np.allclose(table.sum(axis=1), 1)
    assert np.array_equal(table[data["context_ids"], data["actions"]], data["propensities"])
    log = sparing.Log.from_indices(**data)
    assert (log.n_rows, log.n_contexts) == (1000, 200)
    assert np.bincount(log.groups).tolist() == [5] * 200
    # E[1/μ(a)] = K for a ~ μ: the actions are drawn from the propensities they are logged with.
    weight = 1 / data["propensities"]
    assert abs(weight.mean() - 4) < 5 * weight.std() / np.sqrt(1000)


def test_the_table_is_read_as_a_log(tmp_path):
    path = tmp_path / "log.parquet"
    write_table(path, rows=300, actions=5, features=2, seed=0)
    log = sparing.read_log(path)
    assert (log.n_rows, log.n_actions, log.n_features) == (300, 5, 2)


def test_logged_rows_are_equally_many():
    contexts, actions, rewards = worlds.Rounds(SPEC).logged(9, 0)
    assert contexts.shape == (63, 4)
    assert np.bincount(actions).tolist() == [9] * 7
    assert rewards.shape == (63,)


@pytest.mark.parametrize("name", ["target", "behaviour"])
def test_feedback_policies_are_policies(name):
    data = worlds.Feedback({"rows": 500, "actions": 4, "features": 3, "seed": 0})
    table = getattr(data, name)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert table.min() > 0
