"""Every interval holds its value and lies in the wider one; small samples are refused, marked, or widened."""

import numpy as np
import pytest
from scipy.special import softmax

import sparing
from each import for_each
from sparing.evaluation import evaluate
from sparing.evaluation.intervals import EXPECTED_OF_FEW, MIN_ROWS, EffectiveSample, WeightDeficit, widened
from sparing.log import Log

METHODS = ("dm", "ips", "clipped", "snips", "dr", "sndr", "cab", "mlips", "aipw")
PROBLEMS = ("random", "heavy", "light", "binary", "zeros", "positive", "one action", "tiny")


def adversarial(kind, seed, *, support):
    """A log and a table of probabilities whose weights are far from 1 on average, or few, or all the same."""
    rng = np.random.default_rng([seed, PROBLEMS.index(kind)])
    n, k = (int(rng.integers(2, 12)) if kind == "tiny" else 60), (2 if kind == "one action" else 4)
    contexts = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-2, 3)
    distribution = softmax(rng.normal(size=(n, k)) * rng.choice([0, 1, 4]), axis=1)
    distribution[:, -1] *= rng.random(n) < 0.5
    distribution /= distribution.sum(axis=1, keepdims=True)
    actions = (distribution.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    actions = np.where(distribution[np.arange(n), actions] > 0, actions, 0)
    policy = softmax(rng.normal(size=(n, k)) * 3, axis=1)
    if kind == "heavy":  # plays what was logged: a mean weight far above 1
        policy = 0.02 / k + 0.98 * np.eye(k)[actions]
    if kind == "light":
        policy = 0.98 * np.eye(k)[(actions + 1) % k] + 0.02 / k
    rewards = {
        "binary": (rng.random(n) < 0.1).astype(float),
        "zeros": np.zeros(n),
        "positive": 5 + rng.random(n),
        "one action": np.full(n, 0.7),
    }.get(kind, rng.standard_cauchy(n) if seed % 2 else rng.normal(size=n))
    given = (
        {"distribution": distribution} if support else {"propensities": distribution[np.arange(n), actions]}
    )
    return Log.from_arrays(contexts, actions, rewards, action_names=range(k), **given), policy


def beyond_chance(lack, *expected):
    """Of rows (n,)."""
    return WeightDeficit(lack.mean(), lack.std(ddof=1) / np.sqrt(len(lack))).beyond_chance(*expected)


def check(found, known):
    for each in found.estimates:
        assert each.low <= each.value <= each.high, each
        if each.support_low is not None:
            assert each.support_low <= each.low <= each.high <= each.support_high, each
        numbers = [each.value, each.low, each.high, each.support_low, each.support_high]
        if known is not None:
            assert all(known[0] <= number <= known[1] for number in numbers if number is not None), each
        assert each.refused == (each.interval != "bernstein" and np.isinf(each.high)) or known is not None
        assert not each.refused or "no interval" in str(each)
        assert f"effective rows {each.effective_sample_size:,.0f}" in str(each)


@for_each("kind", PROBLEMS)
@pytest.mark.parametrize("interval", ["normal", "bootstrap", "block-bootstrap"])
@pytest.mark.parametrize("band", ["range", "model"])
def test_every_interval_holds_its_value_and_lies_in_the_wider_one(kind, interval, band):
    for seed in range(2):
        for support in (False, True):
            log, policy = adversarial(kind, seed, support=support)
            for given in (None, (4.0, 5.5) if kind == "positive" else (-1.0, 2.0)):
                options = {"reward_range": given, "clip": 1.0 + 2 * (seed % 2)}
                found = evaluate(log, policy, interval=interval, band=band, **options)
                assert len(found.estimates) >= (0 if (kind, band) == ("zeros", "model") else 5)
                check(found, (0.0, 1.0) if found.binary_rewards else given)


@pytest.mark.parametrize("kind", ["binary", "zeros"])
def test_bernstein_too(kind):
    for support in (False, True):
        log, policy = adversarial(kind, 0, support=support)
        check(evaluate(log, policy, methods=["clipped"], interval="bernstein"), (0.0, 1.0))


def test_a_mean_weight_above_one_says_that_nothing_is_missing():
    log, policy = adversarial("heavy", 0, support=False)
    for reward_range in ((-50, 50), (1e-3, 50)):
        found = evaluate(log, policy, methods=["ips", "snips", "clipped"], reward_range=reward_range)
        for each in found.estimates:
            assert each.unsupported_mass == 0
            assert (each.support_low, each.support_high) == (each.low, each.high)


def test_nothing_seen_is_not_nothing():
    """No success in 98 rows bounds the rate by 1 − 0.025^(1/98), about 3.7/98."""
    log = Log.from_arrays(
        np.ones((196, 1)), [0, 1] * 98, np.zeros(196), propensities=[0.5] * 196, action_names=[0, 1]
    )
    policy = np.tile([1.0, 0.0], (196, 1))
    found = evaluate(log, policy, methods=["ips", "snips", "dr"])
    for each in found.estimates:
        assert each.value == each.low == 0
        assert each.effective_sample_size == pytest.approx(98)
        assert each.high == pytest.approx(1 - 0.025 ** (1 / 98))
    assert "all rewards are 0 or 1" in str(found)


def test_few_effective_rows_are_marked_and_fewer_have_no_interval():
    weights = {5: "refused", 20: "few", 200: "fine"}
    for rows, what in weights.items():
        n = 400
        actions = np.ones(n, dtype=int)
        actions[:rows] = 0
        rng = np.random.default_rng(0)
        log = Log.from_arrays(
            rng.random((n, 1)),
            actions,
            rng.normal(size=n),
            propensities=np.where(actions == 0, rows / n, 1 - rows / n),
        )
        (found,) = evaluate(log, np.tile([1.0, 0.0], (n, 1)), methods=["ips"]).estimates
        assert found.effective_sample_size == pytest.approx(rows)
        assert found.few_rows == (what != "fine")
        assert found.refused == (what == "refused") == np.isinf(found.high)
        assert found.refused == any("no interval" in note for note in found.notes)
        assert ("FEW ROWS" in str(found)) == found.few_rows


def test_weights_that_miss_their_mean_widen():
    lack = np.full(10_000, 0.3) + np.random.default_rng(0).normal(size=10_000) * 0.1
    assert beyond_chance(lack) == lack.mean()
    assert beyond_chance(-lack) == -beyond_chance(lack)
    assert beyond_chance(np.tile([1.0, -1.0], 50)) == 0
    given = {"reward_range": (-1.0, 3.0), "confidence": 0.95}
    filled = widened(0.9, 1.1, 1.0, sample=EffectiveSample(100.0, 0.25), **given)
    assert filled == pytest.approx((0.9 - 0.25 * 2, 1.1 + 0.25 * 2))
    zero = widened(0.9, 1.1, 1.0, sample=EffectiveSample(100.0, 0.25, imputed=False), **given)
    assert zero == pytest.approx((0.9 - 0.25, 1.1 + 0.25 * 3))
    over = widened(0.9, 1.1, 1.0, sample=EffectiveSample(100.0, -0.25, imputed=False), **given)
    assert over == pytest.approx((0.9 - 0.25 * 3, 1.1 + 0.25))
    assert widened(0.9, 1.1, 1.0, sample=EffectiveSample(MIN_ROWS - 0.1), **given) == (-np.inf, np.inf)


class Soft:
    """π(a|x) ∝ exp(x·θ_a)."""

    def __init__(self, theta):
        self.theta, self.action_names = theta, tuple(range(len(theta)))

    def probabilities(self, contexts):
        return softmax(contexts @ self.theta.T, axis=1)


def against(seed, sharp, n=2000, k=6, d=3, taste=1.5):
    """A log of a sharp logger that dislikes what the policy likes; the policy, and what it is worth."""
    rng = np.random.default_rng([seed, 77])
    theta = rng.normal(size=(k, d))
    policy, logger = Soft(taste * theta), Soft(-sharp * theta + 0.3 * rng.normal(size=(k, d)))
    contexts = rng.normal(size=(n, d))
    chances = logger.probabilities(contexts)
    actions = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    rewards = np.einsum("ij,ij->i", contexts, theta[actions]) + rng.normal(size=n)
    fresh = rng.normal(size=(20_000, d))
    truth = float((policy.probabilities(fresh) * (fresh @ theta.T)).sum(axis=1).mean())
    return (
        Log.from_arrays(contexts, actions, rewards, distribution=chances, action_names=range(k)),
        policy,
        truth,
    )


def mean_range(policy, taste):
    """The range of mean rewards in 20,000 contexts, of θ = the policy's over its taste."""
    means = np.random.default_rng(5).normal(size=(20_000, policy.theta.shape[1])) @ policy.theta.T / taste
    return float(means.min()), float(means.max())


@pytest.mark.parametrize("known", [False, True])
def test_a_sharp_logger_against_the_policy(known):
    """Median effective sample about 8 of 1,000: an interval holds the truth in nine of ten logs, or is refused."""
    methods = ("dm", "ips", "clipped", "snips", "dr", "sndr", "cab", "aipw")
    inside, refused, sizes, plain = {name: [] for name in methods}, [], [], []
    for seed in range(60):
        log, policy, truth = against(seed, 2.0, n=1000, taste=2.0)
        given = mean_range(policy, 2.0) if known else None
        found = evaluate(log, policy, methods=methods, reward_range=given)
        sizes.append(found["ips"].effective_sample_size)
        for each in found.estimates:
            inside[each.method].append(each.refused or each.low <= truth <= each.high)
            assert each.refused == any(note.startswith("no interval") for note in each.notes)
        refused.append(found["clipped"].refused)
        weights = policy.probabilities(log.contexts)[np.arange(1000), log.actions] / log.propensities
        terms = weights * log.rewards
        plain.append(abs(terms.mean() - truth) <= 1.96 * terms.std() / np.sqrt(1000))
    assert 7 < np.median(sizes) < 9
    assert np.mean(plain) < 0.5  # what the textbook's interval would have claimed
    assert (np.mean(refused) == 0) if known else (np.mean(refused) > 0.5)
    for name, held in inside.items():
        assert np.mean(held) >= 0.9, name


def test_a_range_of_other_rewards_says_nothing_of_the_policy():
    """Clipping leaves a policy to the range: of the rewards seen, if they are the policy's too; else the range must be given."""
    log, policy, _ = against(1, 2.0, n=1000, taste=2.0)
    (found,) = evaluate(log, policy, methods=["clipped"]).estimates
    assert found.clipped_mass > 0.5
    assert found.effective_sample_size > MIN_ROWS
    assert found.refused
    assert np.isinf([found.low, found.high]).all()
    assert any("Give the range of mean rewards" in note for note in found.notes)
    assert not evaluate(log, policy, methods=["clipped"], reward_range=(-9, 9))["clipped"].refused
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 5, 2000)
    uniform = Log.from_arrays(
        rng.random((2000, 1)), actions, rng.normal(size=2000), distribution=np.full((2000, 5), 0.2)
    )
    (kept,) = evaluate(
        uniform, np.tile([1.0, 0, 0, 0, 0], (2000, 1)), methods=["clipped"], clip=1.0
    ).estimates
    assert kept.clipped_mass == pytest.approx(0.8)
    assert not kept.refused


def test_few_weights_are_believed_less():
    """A mean that misses by one and a half standard errors: chance for many rows, for few what was not seen."""
    lack = np.array([1.0, -1.0] * 50) + 0.15
    assert beyond_chance(lack) == 0
    assert beyond_chance(lack, EXPECTED_OF_FEW) == pytest.approx(0.15)


def test_good_samples_keep_their_intervals():
    """With hundreds of effective rows the textbook's width grows by a few per cent."""
    world = sparing.simulation.LinearWorld(n_actions=5, n_features=3, noise=1.0, seed=0)
    ratios = []
    for seed in range(20):
        log = sparing.simulation.draw_log(world, rows=3000, unsupported=0.0, seed=seed)
        found = evaluate(log, Soft(2 * world.theta), methods=["ips"])["ips"]
        weights = Soft(2 * world.theta).probabilities(log.contexts)[np.arange(3000), log.actions] * 5
        half = 1.96 * (weights * log.rewards).std(ddof=1) / np.sqrt(3000)
        assert found.effective_sample_size > 300
        ratios.append((found.high - found.low) / 2 / half)
    assert min(ratios) >= 1
    assert np.median(ratios) < 1.02


def test_fitted_propensities_count_their_error():
    """MLIPS holds the truth as often as it says, and its interval is wider than the rows' own."""
    world = sparing.simulation.LinearWorld(n_actions=8, n_features=4, noise=0.5, seed=0)
    policy = Soft(2 * world.theta)
    fresh = world.contexts(50_000, np.random.default_rng(9))
    truth = float((policy.probabilities(fresh) * world.means(fresh)).sum(axis=1).mean())
    inside = []
    for seed in range(30):
        log = sparing.simulation.draw_log(world, rows=500, unsupported=0.0, seed=seed)
        found = evaluate(log, policy, methods=["mlips"])["mlips"]
        inside.append(found.low <= truth <= found.high)
        assert any("propensities were fitted" in note for note in found.notes)
    assert np.mean(inside) >= 0.95 - 3.3 * np.sqrt(0.95 * 0.05 / 30)


def test_the_direct_method_is_checked_by_the_doubly_robust_one():
    """Rewards that are far from linear: dm's interval reaches dr's; without propensities a note says what it rests on."""
    rng = np.random.default_rng(0)
    n = 3000
    contexts = rng.normal(size=(n, 2))
    actions = rng.integers(0, 3, n)
    rewards = (contexts[:, 0] ** 2) * (actions == 1) + 3 + 0.1 * rng.normal(size=n)
    log = Log.from_arrays(contexts, actions, rewards, propensities=np.full(n, 1 / 3), action_names=range(3))
    policy = np.eye(3)[np.where(np.abs(contexts[:, 0]) > 1, 1, 0)]
    found = evaluate(log, policy, methods=["dm", "dr"])
    assert found["dm"].low <= found["dr"].low
    assert found["dm"].high >= found["dr"].high
    assert abs(found["dm"].value - found["dr"].value) > 2
    assert any("Add a constant feature" in note for note in found["dm"].notes)
    blind = Log.from_arrays(contexts, actions, rewards, action_names=range(3))
    (alone,) = evaluate(blind, policy, methods=["dm"]).estimates
    assert any("only if rewards are linear" in note for note in alone.notes)


def test_nothing_leaves_the_known_range():
    log, policy = adversarial("heavy", 1, support=True)
    clicks = Log.from_arrays(
        log.contexts, log.actions, (log.rewards > 0).astype(float), distribution=log.support.distribution()
    )
    found = evaluate(clicks, policy, methods=["ips", "dr", "snips"])
    assert found.reward_range == (0.0, 1.0)
    assert found.binary_rewards
    assert found["ips"].value <= 1


def test_progress_is_told():
    log, policy = adversarial("random", 0, support=True)
    told = []
    evaluate(log, policy, progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_what_clipping_leaves_to_the_model_is_bounded_too():
    log, policy = adversarial("random", 0, support=True)
    found = evaluate(log, policy, methods=["cab"], clip=1.0, reward_range=(-9, 9))["cab"]
    assert found.clipped_mass > 0.1
    assert found.support_high - found.support_low >= 9 * found.clipped_mass
