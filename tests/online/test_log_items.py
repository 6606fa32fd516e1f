"""Items of a log reach its learners: features of the actions by name, new actions by their row of the item table."""

import numpy as np
import pytest

import sparing
from sparing.errors import DecisionError, SettingError


def clicks_and_banners(n=600, seed=0):
    rng = np.random.default_rng(seed)
    banners = {"banner": list("abcdefgh"), "price": rng.normal(size=8), "style": ["plain", "loud"] * 4}
    logged = rng.integers(0, 6, n)
    age = rng.normal(size=n)
    worth = np.array(banners["price"])[logged] * (1 + 0.5 * age) + rng.normal(0, 0.1, n)
    rows = {"age": age, "banner": [banners["banner"][a] for a in logged], "gain": worth}
    return rows, banners


@pytest.fixture(scope="module")
def log():
    rows, banners = clicks_and_banners()
    return sparing.read_log(rows, action="banner", reward="gain", items=banners)


def test_items_of_the_log_are_those_of_the_learner(log):
    by_log = sparing.confident(log, spot_check=0)
    by_hand = sparing.confident(log, items=log.items.features, spot_check=0)
    np.testing.assert_array_equal(by_log.sets.theta, by_hand.sets.theta)
    _, banners = clicks_and_banners()
    # The price is nearly all that matters, so that banners never logged are known by theirs.
    value = by_log.decide({"age": 0.0}).value
    assert value == pytest.approx(max(banners["price"]), abs=0.2)


@pytest.mark.parametrize("name", ["confident", "certified"])
def test_a_new_action_by_its_row_of_the_table(log, name, tmp_path):
    settings = {"growing": True} if name == "certified" else {}
    learner, twin = (getattr(sparing, name)(log, **settings) for _ in range(2))
    row = {"price": 3.0, "style": "loud"}
    learner.save(tmp_path / "l.sparing")
    learner = sparing.load(tmp_path / "l.sparing")
    learner.add_action("new", row)
    twin.add_action("new", log.items.encoder.encode(row))
    np.testing.assert_array_equal(learner.sets.theta, twin.sets.theta)
    assert learner.decide({"age": 1.0}) == twin.decide({"age": 1.0})
    with pytest.raises(DecisionError, match="no column 'style'"):
        learner.add_action("other", {"price": 1.0})
    with pytest.raises(SettingError, match="expects"):
        learner.add_action("other")


def test_a_tolerance_is_a_share_of_the_rewards_deviation(log):
    spread = float(np.std(log.rewards))
    assert sparing.certified(log).rules[0].tolerance == pytest.approx(0.05 * spread, rel=1e-6)
    with pytest.warns(sparing.errors.UnitWarning, match="is more than half of"):
        sparing.confident(log, tolerance=0.6 * spread)


def test_kernel_features_come_with_the_learner():
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (1500, 2))
    actions = rng.integers(0, 3, 1500)
    means = np.stack([np.sin(4 * x[:, 0]), np.cos(4 * x[:, 1]), x[:, 0] * x[:, 1]], axis=1)
    rewards = means[np.arange(1500), actions] + rng.normal(0, 0.1, 1500)
    table = {"a": x[:, 0], "b": x[:, 1], "action": actions, "reward": rewards}
    log = sparing.read_log(table)
    wide = sparing.with_kernel(log, "auto")
    assert wide.encoder.kernel is not None
    learner = sparing.confident(log, kernel="auto", spot_check=0)
    assert learner.encoder.digest == wide.encoder.digest
    row = {"a": 0.3, "b": -0.2}
    one, two = learner.copy().decide(row), learner.copy().decide(log.encoder.encode(row))
    assert one == two
    fresh = rng.uniform(-1, 1, (500, 2))
    best = np.stack([np.sin(4 * fresh[:, 0]), np.cos(4 * fresh[:, 1]), fresh[:, 0] * fresh[:, 1]], axis=1)
    frame = {"a": fresh[:, 0], "b": fresh[:, 1]}
    chosen = best[np.arange(500), learner.policy().indices(frame)]
    linear = best[np.arange(500), sparing.confident(log).policy().indices(frame)]
    assert (best.max(axis=1) - chosen).mean() < 0.25 * (best.max(axis=1) - linear).mean()
    np.testing.assert_array_equal(
        learner.policy().indices(log.encoder.encode_table(frame)), learner.policy().indices(frame)
    )
    flat = sparing.read_log({**table, "reward": x[:, 0] * (actions == 1) + rng.normal(0, 0.1, 1500)})
    assert sparing.with_kernel(flat).encoder.kernel is None
    for wrong, message in ((True, "kernel=True"), ("many", "kernel='many'"), (-1, "landmarks=-1")):
        with pytest.raises(SettingError, match=message):
            sparing.with_kernel(log, wrong)
    with pytest.raises(SettingError, match="has kernel features already"):
        sparing.with_kernel(wide)
