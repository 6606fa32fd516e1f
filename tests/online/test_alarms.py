"""Alarms: the capital is what the definition says, false alarms are rare however long one looks, and changes are found."""

import gc
import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import sparing
from sparing.online import alarms
from sparing.online.alarms import ALL_WEIGHTS, BETS, BLOCK, CAPITAL, CLIP, REFERENCE, TOLERANCE, Watch

ROUNDS, ACTIONS = 100_000, 10
NOISES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: rng.standard_exponential(n) - 1,
    "rare clicks": lambda rng, n: ((rng.random(n) < 0.05) - 0.05) / math.sqrt(0.05 * 0.95),
    "heavy tails": lambda rng, n: rng.standard_t(4, n) / math.sqrt(2),
}


def counted(values, actions=None, n_actions=ACTIONS):
    """A watch that has counted standardised residuals of actions."""
    watch = Watch(n_actions, 1.0, 1.0, None)
    who = np.zeros(len(values), dtype=np.int64) if actions is None else actions
    alarms.COUNT_REWARDS.call(watch.rewards, watch.reward_marks, who, values, np.arange(len(values)))
    return watch


def found(watch):
    return watch.alarms(tuple(range(len(watch.rewards) - 1)), ())


def factor(rate, xi):
    return math.exp(rate * xi + (math.log1p(-rate) + rate) * xi * xi)


def test_no_bet_gains_on_average():
    """exp(λξ − ψ(λ)ξ²) ≤ 1 + λξ for all ξ ≥ −1, so its mean is at most 1 if that of ξ is at most 0; and all bets together begin with 1."""
    for _, rate in BETS:
        for xi in np.r_[np.linspace(-1, 1, 401), np.linspace(1, 30, 200)]:
            assert factor(rate, xi) <= 1 + rate * xi + 1e-12
    begun = sum(j**-alarms.FADING for j in range(1, 200_000))
    rest = 200_000 ** (1 - alarms.FADING) / (alarms.FADING - 1)  # ∫ from the last on
    assert begun + rest <= ALL_WEIGHTS * 1.001
    assert begun + rest >= ALL_WEIGHTS * 0.99


def test_the_capital_is_that_of_bets_that_begin_at_every_block():
    rng = np.random.default_rng(0)
    values = np.clip(rng.normal(0.3, 1.3, REFERENCE + 20 * BLOCK), -CLIP, CLIP)
    row = counted(values).rewards[0]
    first, later = values[:REFERENCE], values[REFERENCE:].reshape(20, BLOCK)
    mean = first.sum() / (REFERENCE + alarms.SHRINKAGE)
    square = ((first**2).sum() + alarms.SHRINKAGE) / (REFERENCE + alarms.SHRINKAGE)
    square += alarms.VARIANCE_ERROR * (first**2).std() / math.sqrt(REFERENCE)
    for place, (side, rate) in enumerate(BETS):
        if side == alarms.NOISIER:
            xi = later**2 / (alarms.VARIANCE_RATIO * square) - 1
        else:
            sign = 1 if side == alarms.HIGHER else -1
            xi = (sign * (later - mean) - TOLERANCE) / (CLIP + 1 + TOLERANCE)
        assert (xi >= -1).all()
        gains = [math.prod(factor(rate, one) for one in block) for block in xi]
        capital = sum((j + 1) ** -1.2 / ALL_WEIGHTS * math.prod(gains[j:]) for j in range(20))
        assert row[CAPITAL + place] == pytest.approx(math.log(capital), rel=1e-9)


def test_an_alarm_is_raised_when_a_capital_reaches_the_number_of_bets_over_the_level():
    """Bets of all actions and of all together share the level."""
    values = np.random.default_rng(4).normal(size=REFERENCE + 50 * BLOCK)
    values[REFERENCE:] += 0.8
    limit, most, raised = math.log((ACTIONS + 1) * len(BETS) / 0.05), -math.inf, 0
    for n in range(REFERENCE + BLOCK, len(values) + 1, BLOCK):
        watch = counted(values[:n])
        most = max(most, watch.rewards[0, CAPITAL : CAPITAL + len(BETS)].max())
        assert bool(found(watch)) == (most >= limit)
        raised += most >= limit
    assert 10 < raised < 40


def test_residuals_are_in_deviations_of_the_reward_around_its_prediction():
    """(r − m)/√(σ² + s²): m before cost, s half an interval in its units; at an end of the range σ² is (m − low)(high − m), or 5 % of it."""
    told = [(0.7, 0.4, 0.6, 0.1), (0.7, 0.4, 0.6, None), (1.0, 0.8, 1.2, 0.0), (0.0, 0.01, 0.02, 0.0)]
    for reward_range in (None, (0.0, 1.0)):
        watch = Watch(len(told), 0.3, 2.0, reward_range)
        for action, (reward, value, high, cost) in enumerate(told):
            watch.reward(action, reward, value, high, cost, action)
        watch.flush()
        for action, (reward, value, high, cost) in enumerate(told):
            mean, variance = value + (cost or 0.0), 0.3**2
            if reward_range and reward in reward_range:
                variance = max(mean * (1 - mean), 0.05)
            expected = (reward - mean) / math.sqrt(variance + ((high - value) / 2) ** 2)
            assert watch.rewards[action, alarms.MEAN] == pytest.approx(expected, rel=1e-12)
        assert watch.rewards[-1, alarms.MEAN] == pytest.approx(
            watch.rewards[:-1, alarms.MEAN].sum(), rel=1e-12
        )


def looked_at_daily(values, actions):
    """Whether a z-test of each action's mean residual, at 5 % shared by all actions, rejects at any of many looks."""
    limit = 2.807  # 0.25 % on each side
    for action in range(ACTIONS):
        own = values[actions == action]
        sums, n = np.cumsum(own)[99::20], np.arange(100, len(own) + 1, 20)
        if (np.abs(sums) > limit * np.sqrt(n) * own.std()).any():
            return True
    return False


@pytest.mark.parametrize("noise", NOISES)
def test_false_alarms_are_rare_over_a_hundred_thousand_rounds(noise):
    worlds, wrong, control = 40, 0, 0
    for seed in range(worlds):
        rng = np.random.default_rng([seed, 1])
        values, actions = NOISES[noise](rng, ROUNDS), rng.integers(0, ACTIONS, ROUNDS)
        wrong += bool(found(counted(values, actions)))
        control += looked_at_daily(values, actions)
    assert wrong <= 0.05 * worlds
    assert control > 2 * 0.05 * worlds  # a test for one look, looked at daily


@pytest.mark.parametrize(
    ("change", "alarm", "within"),
    [
        (lambda late: late + 1.0, "higher", 400),
        (lambda late: late - 1.0, "lower", 400),
        (lambda late: late * 2.5, "noisier", 400),
    ],
)
def test_a_change_is_found_and_dated(change, alarm, within):
    for seed in range(20):
        rng = np.random.default_rng([seed, 2])
        values = rng.normal(size=3000 + within)
        values[3000:] = change(values[3000:])
        first = found(counted(values))[0]
        assert first.change == alarm
        assert abs(first.since - 3000) <= within
        assert 3000 < first.raised < 3000 + within


def test_what_is_within_the_tolerance_is_no_alarm():
    rng = np.random.default_rng(3)
    values = rng.normal(size=ROUNDS)
    values[2000:] += 0.9 * TOLERANCE
    assert not found(counted(values))
    values[50_000:] += 1.5 * TOLERANCE
    assert found(counted(values))[0].raised > 50_000


WORLD = sparing.simulation.LinearWorld(n_actions=4, n_features=3, noise=0.5, seed=0)


def learner_of(**settings):
    rng = np.random.default_rng(0)
    x = np.c_[np.ones(800), rng.normal(size=(800, 2))]
    actions = rng.integers(0, 4, 800)
    rewards = (x * WORLD.theta[actions]).sum(axis=1) + rng.normal(0, 0.5, 800)
    log = sparing.Log.from_arrays(x, actions, rewards, action_names=range(4))
    return sparing.confident(log, tolerance=0.01, spot_check=0.5, seed=1, **settings)


def lived(learner, begin, end, *, shift=0.0, moved=0.0, look=0):
    for number in range(begin, end):
        rng = np.random.default_rng([number, 5])
        x = np.array([1.0, rng.normal() + moved, rng.normal()])
        decision = learner.decide(x)
        if decision.needs_reward:
            mean = x @ WORLD.theta[decision.action]
            learner.update(decision, float(mean + rng.normal(0, 0.5) + shift))
        if look and number % look == 0:
            _ = learner.alarms
    return learner


def same_watch(one, other):
    for name, array in one.watch.state().items():
        np.testing.assert_array_equal(array, other.watch.state()[name], err_msg=name)


def test_a_learner_says_what_changed(tmp_path):
    learner = lived(learner_of(), 0, 1500)
    assert learner.alarms == []
    moved = lived(learner.copy(), 1500, 2600, moved=1.0)
    contexts = [one for one in moved.alarms if one.about == "contexts"]
    assert [(one.name, one.change) for one in contexts] == [(learner.encoder.names[1], "higher")]
    assert abs(contexts[0].since - 1500) < 200
    shifted = lived(learner, 1500, 3500, shift=-1.0)
    rewards = [one for one in shifted.alarms if one.about == "rewards"]
    assert rewards[0].change == "lower"
    assert "higher" not in {one.change for one in rewards}
    assert not [one for one in shifted.alarms if one.about == "contexts"]
    assert all(one.raised >= 1500 for one in rewards)


def test_alarms_do_not_depend_on_looks_and_survive_saving(tmp_path):
    plain, looked = lived(learner_of(), 0, 700), lived(learner_of(), 0, 700, look=37)
    same_watch(plain, looked)
    assert plain.digest() == looked.digest()
    plain.save(tmp_path / "learner")
    loaded = sparing.load(tmp_path / "learner")
    same_watch(lived(plain, 700, 1400, shift=1.0), lived(loaded, 700, 1400, shift=1.0))
    assert plain.alarms == loaded.alarms


def test_a_learner_notes_what_it_was_told_and_keeps_no_objects_alive():
    learner = learner_of()
    learner.set_costs({action: 0.1 * action for action in range(4)})
    told = Watch.of(learner.sets, learner.reward_range)

    def live(begin, end):
        for number in range(begin, end):
            x, value = np.random.default_rng([number, 6]).normal(size=(2, 3))
            x[0] = 1.0
            decision = learner.decide(x)
            told.context(x, number)
            if decision.needs_reward:
                learner.update(decision if number % 2 else decision.id, value[0])
                cost = 0.1 * decision.action
                told.reward(decision.action, value[0], decision.value, decision.high, cost, number)

    live(0, 1500)
    same_watch(learner, SimpleNamespace(watch=told))
    live(1537, 1600)
    gc.collect()
    before = len(gc.get_objects())
    live(1600, 2000)
    gc.collect()
    assert len(gc.get_objects()) - before < 40


@pytest.mark.parametrize("shift", ["auto", 0.3, 3.0])
def test_contexts_are_compared_with_the_log_whatever_shift_is_assumed(shift):
    plain, shifting = learner_of().watch, learner_of(shift=shift).watch
    np.testing.assert_allclose(shifting.mean, plain.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(shifting.scale, plain.scale, rtol=1e-9)
    assert (plain.scale > 0).tolist() == [False, True, True]


def test_contexts_of_rounds_with_shadow_calls_are_watched():
    served, shadow = lived(learner_of(), 0, 100), lived(learner_of(), 0, 100)
    for number in range(100, 1500):
        rng = np.random.default_rng([number, 5])
        x = np.array([1.0, rng.normal() + 1.0, rng.normal()])
        served.decide(x)
        shadow.decide_in_shadow(x)
    np.testing.assert_array_equal(shadow.watch.state()["contexts"], served.watch.state()["contexts"])
    assert [(one.name, one.change) for one in shadow.alarms] == [(shadow.encoder.names[1], "higher")]


def test_a_learner_saved_without_alarms_begins_anew(tmp_path):
    from sparing.online import files

    header, arrays = files.parts(lived(learner_of(), 0, 100))
    old = {name: array for name, array in arrays.items() if not name.startswith("alarms/")}
    loaded = files.from_parts("old", header, old)
    assert not loaded.watch.begun
    assert loaded.alarms == []
    for name, wrong in (("alarms/rewards", np.zeros((2, 3))), ("alarms/noise", np.array([-1.0, 1.0]))):
        with pytest.raises(ValueError, match="alarms"):
            files.from_parts("new", header, {**arrays, name: wrong})


def test_added_actions_are_watched_too():
    learner = lived(learner_of(), 0, 200)
    before = learner.watch.state()["rewards"].copy()
    learner.add_action(4)
    after = learner.watch.state()["rewards"]
    assert len(after) == len(before) + 1
    np.testing.assert_array_equal(after[[0, 1, 2, 3, 5]], before)
    assert not after[4].any()


def test_contexts_may_be_counted_in_any_parts():
    rng = np.random.default_rng(11)
    contexts, when, mean, scale = rng.normal(1.0, 1.0, (300, 5)), np.arange(300), np.zeros(5), np.ones(5)
    scale[3] = 0.0
    found = []
    for ends in ([0, 300], [0, 1, 7, 8, 9, 100, 300], list(range(301))):
        rows, marks = alarms._fresh(5)
        for start, stop in pairwise(ends):
            part = np.ascontiguousarray(contexts[start:stop])
            alarms.COUNT_CONTEXTS.call(rows, marks, mean, scale, part, when[start:stop], 0.1)
        found.append((rows, marks))
    for rows, marks in found[1:]:
        np.testing.assert_array_equal(rows, found[0][0])
        np.testing.assert_array_equal(marks, found[0][1])
    rows, marks = found[0]
    assert (rows[[0, 1, 2, 4]][:, alarms.SEEN] == 300).all()
    assert not rows[3].any()
    assert (marks[:, 1 + alarms.N_BETS : 1 + 2 * alarms.N_BETS].max(axis=1) >= 0).sum() == 4  # raised
