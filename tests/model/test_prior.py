"""The prior that a log teaches: greatest evidence, invariances, what one action can say, and what is given."""

import numpy as np
import pytest

import sparing
from sparing.errors import SettingError
from sparing.log import Log
from sparing.model.prior import (
    MOST_BLOCKS,
    ActionSums,
    PriorScales,
    blocks_of,
    evidence_of,
    evidence_prior,
    fit,
)
from sparing.model.statistics import Statistics

D = 3


def log_of(counts, *, seed=0, spread=0.5, level=0.0, noise=1.0, theta=None):
    """A constant and two features; θ_a = level·e₀ + common + spread·normal."""
    rng = np.random.default_rng(seed)
    actions = np.repeat(np.arange(len(counts)), counts)
    if theta is None:
        theta = rng.normal(size=D) + np.array([level, 0, 0]) + spread * rng.normal(size=(len(counts), D))
    contexts = np.c_[np.ones(len(actions)), rng.normal(size=(len(actions), 2))]
    rewards = (contexts * np.asarray(theta)[actions]).sum(axis=1) + noise * rng.normal(size=len(actions))
    return Log.from_arrays(contexts, actions, rewards, action_names=range(len(counts)))


def sums_of(counts, **world):
    return Statistics.of(log_of(counts, **world))


def score(sums, prior, scales):
    """Log evidence and hyperprior, from the formulas of the page."""
    deviation = np.sqrt(sums.squares.sum() / sums.n_rows - (sums.response[:, 0].sum() / sums.n_rows) ** 2)
    size = np.sqrt(np.einsum("kii->i", sums.gram) / sums.n_rows)
    expected = deviation * np.array([0.34, 0.23]) / np.array([size[0], np.hypot(*size[1:])])
    away = np.log([*(scales.spread[:2] / expected), scales.noise / deviation]) / [0.73, 0.73, 1.0]
    ones = np.ones((sums.n_actions, 1))
    return fit(ActionSums.of(sums, ones, prior.flat, None), scales).evidence - 0.5 * away @ away


MANY = [[40] * 8 + [0], [3] * 30, [200]]


@pytest.mark.parametrize("counts", MANY)
def test_no_scales_near_by_have_more_evidence(counts):
    sums = sums_of(counts, level=2.0)
    prior, found = evidence_prior(sums), evidence_of(sums, blocks=blocks_of(sums))
    spread = np.array([found.spreads["constant"], *[found.spreads["features"]] * 2])
    best = score(sums, prior, PriorScales(found.noise, spread, prior.slope))
    for direction in np.vstack([np.eye(3), -np.eye(3), [[1, -1, 1], [-1, 1, -1], [1, 1, -1]]]):
        moved = np.exp(0.05 * direction)
        scales = PriorScales(found.noise * moved[2], spread * moved[[0, 1, 1]], prior.slope)
        assert score(sums, prior, scales) < best


@pytest.mark.parametrize("counts", MANY)
def test_the_spread_is_the_root_mean_square_over_the_posterior_of_the_scales(counts):
    """Against a fine grid over log s, at the noise of the mode: scales that few actions inform are integrated, not plugged in."""
    sums = sums_of(counts, level=2.0)
    prior, mode = evidence_prior(sums), evidence_of(sums, blocks=blocks_of(sums))
    steps = np.linspace(-3, 3, 41)
    level, slope = (mode.spreads[name] * np.exp(steps) for name in ("constant", "features"))
    logs = np.array(
        [
            [score(sums, prior, PriorScales(mode.noise, np.array([a, b, b]), prior.slope)) for b in slope]
            for a in level
        ]
    )
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    exact = np.sqrt([(weights.sum(axis=1) @ level**2), (weights.sum(axis=0) @ slope**2)])
    np.testing.assert_allclose(prior.spread[:2], exact, rtol=0.1)
    modes = np.array([mode.spreads["constant"], mode.spreads["features"]])
    if len(counts) == 1:
        assert (exact > 1.3 * modes).any()  # plugging the mode in would be too sure


def test_the_scales_are_found_again():
    """60 actions: s is known to 1/√(2·60), σ to 1/√(2·12000); three deviations of each."""
    prior = evidence_prior(sums_of([200] * 60, spread=0.5, level=3.0, noise=0.8))
    assert prior.noise == pytest.approx(0.8, rel=3 / np.sqrt(2 * 12_000))
    for value in prior.scales().values():
        assert value == pytest.approx(0.5, rel=3 / np.sqrt(2 * 60))
    assert prior.informative == (True, True)
    assert prior.actions == 60


def test_equal_actions_have_hardly_any_spread():
    """Corrected for estimation noise: actions that do not differ are seen not to."""
    prior = evidence_prior(sums_of([100] * 40, spread=0.0, noise=1.0))
    assert max(prior.scales().values()) < 0.1
    assert prior.informative == (True, True)


def test_rewards_in_other_units_change_the_scales_by_the_same_factor():
    log = log_of([30, 50, 20, 4, 0], level=1.0)
    other = Log.from_arrays(log.contexts, log.actions, 100 * log.rewards, action_names=range(5))
    one, two = (evidence_prior(Statistics.of(each)) for each in (log, other))
    assert two.noise == pytest.approx(100 * one.noise, rel=1e-5)
    np.testing.assert_allclose(two.spread, 100 * one.spread, rtol=1e-4)
    np.testing.assert_allclose(two.weights, 100 * one.weights, rtol=1e-4, atol=1e-6)


def test_features_in_other_units_change_theirs():
    log = log_of([30, 50, 20, 4, 0], level=1.0)
    unit = np.array([1.0, 50.0, 50.0])
    other = Log.from_arrays(log.contexts * unit, log.actions, log.rewards, action_names=range(5))
    one, two = (evidence_prior(Statistics.of(each)) for each in (log, other))
    np.testing.assert_allclose(two.spread * unit, one.spread, rtol=1e-4)
    np.testing.assert_allclose(two.centers() * unit, one.centers(), rtol=1e-4, atol=1e-6)


def test_the_order_of_actions_and_features_does_not_matter():
    sums, order, places = sums_of([30, 50, 20, 4, 0]), [3, 1, 4, 0, 2], [2, 0, 1]
    other = Statistics(
        sums.counts[order],
        sums.gram[order][:, places][:, :, places],
        sums.response[order][:, places],
        sums.squares[order],
        1.0,
    )
    one, two = evidence_prior(sums), evidence_prior(other)
    np.testing.assert_allclose(two.spread, one.spread[places], rtol=1e-5)
    np.testing.assert_allclose(two.weights[0], one.weights[0, places], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rows", [1, 5, 400])
def test_one_logged_action_leaves_the_spread_to_the_hyperprior(rows):
    sums = sums_of([rows, 0, 0], level=5.0)
    prior = evidence_prior(sums, noise=1.0)
    assert prior.informative == (False, False)
    assert "the hyperprior’s" in str(prior)
    assert "1 action" in str(prior)
    matrix, pull = prior.unlogged_action()
    if rows == 400:  # an untried action is expected where the logged one is, give or take the spread twice
        expected = np.linalg.solve(sums.gram[0], sums.response[0])
        np.testing.assert_allclose(np.linalg.solve(matrix, pull), expected, atol=0.2)
        deviation = np.sqrt(np.diag(np.linalg.inv(matrix)))
        np.testing.assert_allclose(deviation, np.sqrt(2) * prior.spread, rtol=0.1)


def test_actions_with_few_rows_count():
    """Two rows each, fewer than features: together they still tell the level and the noise."""
    prior = evidence_prior(sums_of([2] * 300, spread=0.3, level=4.0, noise=0.5))
    assert prior.weights[0, 0] == pytest.approx(4.0, abs=1.5)
    assert prior.noise == pytest.approx(0.5, rel=0.3)
    assert max(prior.scales().values()) == pytest.approx(0.3, rel=0.5)


def test_a_given_noise_stays():
    assert evidence_prior(sums_of([30, 40, 50]), noise=0.7).noise == 0.7


def test_a_given_scale_replaces_all_spreads_and_leaves_the_mean_to_the_log():
    """Otherwise offset rewards lock never-logged actions out."""
    sums = sums_of([200] * 6, level=5.0, noise=0.1)
    prior = evidence_prior(sums, scale=1.0)
    np.testing.assert_array_equal(prior.spread, np.ones(D))
    assert prior.weights[0, 0] == pytest.approx(5.0, abs=2)
    assert not prior.certain
    assert str(prior) == "deviation 1, given; learnt from 6 actions"


def test_a_given_mean_leaves_no_doubt_about_it():
    sums = sums_of([50] * 4)
    mean = np.array([1.0, 2.0, 3.0])
    prior = evidence_prior(sums, mean=mean)
    mean[0] = 99
    np.testing.assert_array_equal(prior.weights, [[1, 2, 3]])
    assert prior.certain
    assert prior.noise > 0
    both = evidence_prior(sums, mean=[1, 2, 3], scale=0.5, noise=2.0)
    matrix, pull = both.unlogged_action()
    np.testing.assert_allclose(matrix, 16 * np.eye(D))
    np.testing.assert_allclose(pull, [16, 32, 48])


@pytest.mark.parametrize(
    "mean", [[1.0], [1.0, 2.0], 1.0, [[1.0, 2.0, 3.0]], [1.0, 2.0, float("nan")], [float("inf"), 0.0, 0.0]]
)
def test_a_mean_of_the_wrong_shape_or_not_finite_is_refused(mean):
    with pytest.raises(SettingError, match="prior_mean"):
        evidence_prior(sums_of([20, 20]), mean=mean)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_not_positive_is_refused(scale):
    with pytest.raises(SettingError, match="prior_scale="):
        evidence_prior(sums_of([20, 20]), scale=scale)


def test_without_rows_scale_and_noise_must_be_given():
    nothing = Statistics.zero(3, D)
    with pytest.raises(SettingError, match=r"noise=\.\.\. and prior_scale="):
        evidence_prior(nothing)
    with pytest.raises(SettingError, match="prior_scale="):
        evidence_prior(nothing, noise=1.0)
    prior = evidence_prior(nothing, noise=1.0, scale=0.5)
    np.testing.assert_array_equal(prior.weights, np.zeros((1, D)))
    assert prior.certain


def test_rewards_that_are_all_nothing_ask_for_noise():
    sums = sums_of([20, 20], theta=np.zeros((2, D)), noise=0.0)
    with pytest.raises(SettingError, match="noise="):
        evidence_prior(sums)
    assert evidence_prior(sums, noise=1.0).noise == 1.0


def test_constant_features_are_a_block_of_their_own():
    sums = sums_of([30, 40, 0, 7])
    assert blocks_of(sums).names == ("constant", "features")
    np.testing.assert_array_equal(blocks_of(sums).of, [0, 1, 1])
    assert blocks_of(Statistics.zero(2, 2)).names == ("features",)


def test_many_blocks_are_joined_and_the_constant_stays_apart():
    log = log_of([50, 50])
    wide = np.c_[log.contexts[:, 0], np.random.default_rng(0).random((100, 30))]
    sums = Statistics.of(Log.from_arrays(wide, log.actions, log.rewards))
    names = ["bias", *(f"column {min(i // 2, 12)}" for i in range(30))]
    blocks = blocks_of(sums, names)
    assert len(blocks.names) == MOST_BLOCKS
    assert {"bias", "others", "column 12"} <= set(blocks.names)
    assert (blocks.of == blocks.names.index("bias")).sum() == 1
    with pytest.raises(SettingError, match="block names"):
        blocks_of(sums, names[1:])


@pytest.mark.parametrize("noise", [1e-9, None])
def test_collinear_features_without_noise(noise):
    rng = np.random.default_rng(0)
    contexts = 10 * np.c_[np.ones(300), np.eye(3)[rng.integers(0, 3, 300)]]
    theta, actions = rng.standard_normal((5, 4)), rng.integers(0, 5, 300)
    sums = Statistics.of(Log.from_arrays(contexts, actions, (contexts * theta[actions]).sum(axis=1)))
    prior = evidence_prior(sums, noise=noise)
    matrix, pull = prior.start(sums.gram, sums.response, prior.items)
    assert np.isfinite(matrix).all()
    assert np.isfinite(pull).all()


def test_standardised_features_of_one_action_are_no_level():
    """An encoder's features have mean square 1, as its constant has: only the constant explains the rewards' level."""
    rng = np.random.default_rng(3)
    contexts = rng.standard_normal((300, 2))
    contexts = np.c_[np.ones(300), (contexts - contexts.mean(axis=0)) / contexts.std(axis=0)]
    rewards = contexts @ [5.0, 2.0, 1.0] + 0.1 * rng.standard_normal(300)
    sums = Statistics.of(Log.from_arrays(contexts, [0] * 300, rewards, action_names=range(2)))
    prior = evidence_prior(sums, blocks=blocks_of(sums, ["constant", "age", "age"]))
    expected = rewards.std() / np.array([1, np.sqrt(2)])
    np.testing.assert_allclose(list(prior.scales().values())[::-1], expected, rtol=0.7)
    assert prior.scales()["age"] > 0.5


def test_raw_features_without_a_constant_take_what_is_between_the_well_logged_actions():
    rng = np.random.default_rng(8)
    x = rng.uniform(0, 1, (600, 3))
    theta = rng.normal(size=(5, 3))
    actions = np.repeat([0, 1, 2, 3], 150)
    rewards = np.einsum("nd,nd->n", x, theta[actions]) + rng.normal(0, 0.1, 600)
    log = sparing.Log.from_arrays(x, actions, rewards, action_names=range(5))
    fitted = np.array(
        [np.linalg.lstsq(x[actions == a], rewards[actions == a], rcond=None)[0] for a in range(4)]
    )
    learner = sparing.confident(log, noise=0.1)
    scale = np.sqrt(fitted.var(axis=0, ddof=1).mean())
    np.testing.assert_allclose(learner.prior.spread, scale, rtol=1e-9)
    np.testing.assert_allclose(learner.prior.weights[0], fitted.mean(axis=0), rtol=1e-9)
    untried = learner.sets.theta[4]
    np.testing.assert_allclose(untried, fitted.mean(axis=0), rtol=1e-9)
    assert "as between the well-logged actions" in learner.guarantee
    with_constant = sparing.Log.from_arrays(
        np.column_stack([np.ones(600), x]), actions, rewards, action_names=range(5)
    )
    assert "between" not in sparing.confident(with_constant, noise=0.1).prior.given
    assert "between" not in sparing.confident(log.take(actions < 2), noise=0.1).prior.given


def test_a_noise_that_is_only_a_bound_leaves_the_spreads_as_they_are():
    rng = np.random.default_rng(9)
    x = np.column_stack([np.ones(900), rng.normal(size=(900, 2))])
    actions = rng.integers(0, 6, 900)
    theta = rng.normal(0, 0.3, (6, 3))
    rewards = np.einsum("nd,nd->n", x, theta[actions]) + rng.normal(0, 0.1, 900)
    sums = Statistics.of(sparing.Log.from_arrays(x, actions, rewards))
    own, bound = evidence_prior(sums), evidence_prior(sums, noise=2.0)
    np.testing.assert_allclose(
        bound.spread, own.spread, rtol=0.25
    )  # the hyperprior is wider, the log says the same
    assert bound.noise == 2.0
