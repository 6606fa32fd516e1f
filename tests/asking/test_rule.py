"""The rule: the largest gain above the price over rows and actions, calls before it pending; equal to plain NumPy."""

import time

import numpy as np
import pytest

import sparing
from reference.asking import HyperpriorWorld, greedy_queue
from sparing.asking import pool as pools
from sparing.errors import LogError, SettingError


def small(seed=0, rows=40):
    world = HyperpriorWorld(seed, binary=False, actions=4, features=3, rows=rows)
    return world, world.log


@pytest.mark.parametrize("about", [[3], [0, 1, 2, 3]])
def test_equal_to_a_plain_reference(about):
    world, log = small()
    queue = sparing.ask(log, calls=12, call_cost=0.05, horizon=2000, actions=about, candidates=4)
    expected = greedy_queue(queue.learner, world.contexts, log.actions, about, 12)
    assert [(call.row, call.action) for call in queue.calls] == [pair[:2] for pair in expected]
    found = [call.worth for call in queue.calls]
    assert found == pytest.approx([worth for *_, worth in expected], rel=1e-6)
    assert len(queue) == 12


def test_it_stops_where_nothing_repays_itself_and_asks_no_pair_twice():
    world, log = small()
    dear = sparing.ask(log, calls=40, call_cost=30.0, horizon=2000)
    expected = greedy_queue(dear.learner, world.contexts, log.actions, [0, 1, 2, 3], 40)
    assert 0 < len(dear) < 40
    assert [(call.row, call.action) for call in dear.calls] == [pair[:2] for pair in expected]
    assert not sparing.ask(log, calls=5, call_cost=1e6, horizon=2000).calls
    cheap = sparing.ask(log, calls=150, call_cost=0.0, horizon=10**6)
    pairs = [(call.row, call.action) for call in cheap.calls]
    assert len(set(pairs)) == len(pairs)
    assert all(log.actions[row] != action for row, action in pairs), "the log has this reward already"


def test_equal_seeds_give_equal_queues_and_a_large_pool_is_sampled(monkeypatch):
    _, log = small(rows=300)
    settings = {"calls": 8, "call_cost": 0.01, "horizon": 5000}
    one, two = (sparing.ask(log, seed=3, **settings) for _ in range(2))
    assert [call.id for call in one.calls] == [call.id for call in two.calls]
    assert [call.id for call in one.calls] != [call.id for call in sparing.ask(log, seed=4, **settings).calls]
    monkeypatch.setattr(pools, "MOST_ROWS", 100)
    part = sparing.ask(log, **settings)
    assert len(part.request.pool.contexts) == 100
    assert "100 of the pool's 300 rows" in part.notes[0]
    row = part.calls[0].row
    assert part.calls[0].cells == tuple(log.contexts[row].tolist())


def test_a_pool_has_its_own_contexts_and_columns_and_weighs_the_gain():
    rng = np.random.default_rng(0)
    table = {"age": rng.integers(20, 60, 200), "city": rng.choice(["a", "b"], 200)}
    table |= {"action": rng.choice(["x", "y"], 200), "reward": rng.standard_normal(200)}
    log = sparing.read_log({name: list(column) for name, column in table.items()}, features="auto")
    pool = {"note": ["=1+1", "two", "three"], "age": [30, 40, 55], "city": ["a", "a", "b"]}
    queue = sparing.ask(log, calls=9, call_cost=0.0, horizon=10**5, pool=pool, actions=["y", "new"])
    assert queue.columns == ("note", "age", "city")
    assert {call.cells for call in queue.calls} <= set(zip(*pool.values(), strict=True))
    assert queue.learner.action_names == ("x", "y", "new")
    assert {call.action for call in queue.calls} == {"y", "new"}
    sample = queue.learner.sets.arrays.context_sample
    assert {tuple(x) for x in sample} == {tuple(x) for x in queue.request.pool.contexts}
    with pytest.raises(LogError, match="no column 'city'"):
        sparing.ask(log, call_cost=0.1, pool={"age": [30]})
    own = sparing.ask(log, calls=2, call_cost=0.0, table=table)
    assert own.columns == ("age", "city")


def test_refused_settings():
    _, log = small()
    with pytest.raises(SettingError, match="call_cost"):
        sparing.ask(log)
    with pytest.raises(SettingError, match="calls=0"):
        sparing.ask(log, calls=0, call_cost=0.1)
    queue = sparing.ask(log, calls=2, call_cost=0.001, horizon=10_000)
    with pytest.raises(
        SettingError, match="calls=0"
    ):  # the verdict would say that no further answer is worth it
        queue.tell([None] * len(queue), calls=0)
    with pytest.raises(SettingError, match="list of one label"):
        sparing.ask(log, call_cost=0.1, actions="new")
    with pytest.raises(SettingError, match="Give one of them"):
        sparing.ask(log, call_cost=0.1, pool={}, table={})
    named = sparing.Log.from_arrays([[1.0]] * 4, ["small", "large"] * 2, [0.0, 1.0, 0.5, 0.2])
    with pytest.raises(SettingError, match="one spelling"):
        sparing.ask(named, call_cost=0.1, actions=["Large"])


@pytest.mark.thorough
def test_a_large_pool_takes_seconds():
    rng = np.random.default_rng(0)
    contexts = np.c_[np.ones(100_000), rng.standard_normal((100_000, 31))]
    actions = rng.integers(19, size=100_000)
    log = sparing.Log.from_arrays(
        contexts,
        actions,
        rng.standard_normal(100_000) + contexts[:, 1] * (actions % 3),
        action_names=range(20),
    )
    sparing.ask(log.take(np.arange(500)), calls=2, call_cost=0.01)
    began = time.process_time()
    assert len(sparing.ask(log, calls=200, call_cost=0.0, horizon=10**6)) == 200
    assert time.process_time() - began < 30
