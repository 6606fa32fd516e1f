"""A value that the log never had: it has the prior variance of its column, and what is learnt of it stays there."""

import numpy as np
import pytest

import sparing


def drawn(values, rows, rng, *, own=0.12, shared=0.12):
    """A log of three actions, and the mean rewards (values + 1, 3), the last of an unseen value."""
    means = 0.5 + own * rng.standard_normal((values + 1, 3)) + shared * rng.standard_normal((values + 1, 1))
    places, actions = rng.integers(values, size=rows), rng.integers(3, size=rows)
    rewards = means[places, actions] + 0.3 * rng.standard_normal(rows)
    table = {
        "age": rng.uniform(20, 60, rows),
        "country": [f"c{place}" for place in places],
        "action": actions.tolist(),
        "reward": rewards.tolist(),
    }
    return sparing.read_log(table, features="auto"), means


def deviation(learner, action, row):
    mean, low, high = learner.value(action, learner.context(row))
    assert high - mean == pytest.approx(mean - low)
    return (high - mean) / 1.959964


@pytest.mark.parametrize("values", [2, 50])
def test_it_has_at_least_the_variance_of_its_column(values):
    """However many values the log has; the constant's own variance would shrink with them."""
    log, _ = drawn(values, 3000, np.random.default_rng(values))
    learner = sparing.confident(log)
    scale = learner.prior.scales()["country"]
    for action in range(3):
        assert deviation(learner, action, {"age": 40, "country": "new"}) > 1.2 * scale
        assert deviation(learner, action, {"age": 40, "country": "c0"}) < scale


@pytest.mark.thorough
def test_intervals_of_unseen_values_hold():
    """200 worlds of eight countries: 95 % intervals of three actions in one of them, and in a ninth, where they are wide."""
    held = np.zeros((2, 3))
    for seed in range(200):
        log, means = drawn(8, 400, np.random.default_rng(seed))
        learner = sparing.confident(log)
        for which, (name, place) in enumerate((("new", -1), ("c0", 0))):
            for action in range(3):
                _, low, high = learner.value(action, learner.context({"age": 40, "country": name}))
                held[which, action] += low <= means[place, action] <= high
    unseen, known = held.mean(axis=1) / 200
    assert 0.93 <= unseen < 1
    assert 0.93 <= known <= 0.97


def test_what_is_learnt_there_stays_there():
    log, _ = drawn(4, 2000, np.random.default_rng(1))
    learner = sparing.confident(log, spot_check=0.0)
    new, known = ({"age": 40, "country": name} for name in ("new", "c1"))
    before = learner.value(0, learner.context(known))
    for _ in range(300):
        learner.observe(learner.open_call(0, new), 2.0)
    assert learner.value(0, learner.context(new))[0] > 1.9
    assert learner.value(0, learner.context(known)) == pytest.approx(before, abs=0.02)


@pytest.mark.parametrize("kernel", [None, 6])
def test_contexts_of_the_log_are_taken_as_they_are(kernel, tmp_path):
    """As numbers, in batches, by policies and after saving; unseen values in a row and in a frame to the same bits."""
    log, _ = drawn(4, 500, np.random.default_rng(2))
    learner = sparing.confident(log, kernel=kernel, seed=1)
    assert learner.n_features == log.n_features + 1 + (learner.encoder.kernel.size if kernel else 0)
    rows = [{"age": 30.0, "country": name} for name in ("c0", "new", "c3", "other")]
    single = np.array([learner.encoder.encode(row) for row in rows])
    frame = {name: [row[name] for row in rows] for name in ("age", "country")}
    assert np.array_equal(
        single[:, : log.n_features + 1], learner.encoder.encode_table(frame)[:, : log.n_features + 1]
    )
    assert single[1, learner.encoder.names.index("country is unseen")] == 1
    numbers = log.encoder.encode_table(frame)
    assert np.array_equal(learner.context(numbers[0]), single[0])
    assert learner.decide_many(numbers[:1]).values[0] == learner.decide_many(rows[:1]).values[0]
    policy = learner.policy()
    assert (
        policy.actions(log.contexts[:9]).tolist()
        == policy.actions(learner.encoder.completed(log.contexts[:9])).tolist()
    )
    if kernel is None:
        assert sparing.evaluate(log, policy, methods=["dm"])
    learner.save(tmp_path / "saved.sparing")
    again = sparing.load(tmp_path / "saved.sparing")
    assert again.encoder.digest == learner.encoder.digest != log.encoder.digest
    assert again.encoder.without_unseen().digest == learner.encoder.without_unseen().digest
    assert again.decide(rows[1]) == learner.decide(rows[1])
