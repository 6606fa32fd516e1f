"""Logging policies with deficient support: the share asked for, the shape promised, and what is recorded."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from sparing.errors import SettingError
from sparing.simulation import LOGGING, LinearWorld, draw_log, logging_policy
from sparing.simulation.logging_policies import SAMPLE

SURE = 4.5
"""Standard errors: a normal estimate strays farther once in 150,000 checks."""

WORLD = LinearWorld(n_actions=10, n_features=3, noise=1.0, seed=5)


def drawn(support, unsupported, *, rows=4000, seed=2, world=WORLD):
    return draw_log(world, rows=rows, support=support, unsupported=unsupported, seed=seed)


@pytest.mark.parametrize("unsupported", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("support", LOGGING)
def test_the_measured_unsupported_share_is_the_one_asked_for(support, unsupported):
    """Error: of the rows, and of the sample of contexts by which thresholds are set."""
    log = drawn(support, unsupported)
    shares = 1 - log.support.sizes / 10
    error = shares.std() * np.sqrt(1 / log.n_rows + 1 / SAMPLE)
    assert abs(shares.mean() - unsupported) <= SURE * error + 1e-9
    assert log.support.unsupported_share == pytest.approx(shares.mean())


@pytest.mark.parametrize("support", LOGGING)
def test_nothing_unsupported_means_nothing_at_all(support):
    """Also in the corners of the cube, beyond any sample by which thresholds could be set."""
    policy = logging_policy(support, WORLD, unsupported=0.0, seed=2)
    corners = np.indices((2, 2, 2)).reshape(3, 8).T
    assert (policy.probabilities(corners) > 0).all()


@pytest.mark.parametrize("support", LOGGING)
def test_every_row_supports_an_action_even_when_almost_nothing_is(support):
    log = drawn(support, 0.97, rows=1500)
    assert log.support.sizes.min() >= 1
    np.testing.assert_allclose(log.support.distribution().sum(axis=1), 1)


@pytest.mark.parametrize("support", LOGGING)
def test_propensities_are_the_distribution_at_the_logged_action(support):
    log = drawn(support, 0.4)
    policy = logging_policy(support, WORLD, unsupported=0.4, seed=2)
    table = policy.probabilities(log.contexts)
    rows = np.arange(log.n_rows)
    np.testing.assert_allclose(log.support.distribution(), table, rtol=1e-9)
    np.testing.assert_allclose(log.propensities, table[rows, log.actions], rtol=1e-9)
    np.testing.assert_array_equal(log.support.mask(), table > 0)
    assert log.support.kind == "exact"


@pytest.mark.parametrize("support", LOGGING)
def test_actions_are_drawn_from_the_distribution(support):
    """Σ_i 1{a_i = a} − μ(a|x_i) has variance Σ μ(1 − μ), for each action."""
    log = drawn(support, 0.4)
    table = log.support.distribution()
    error = np.sqrt((table * (1 - table)).sum(axis=0))
    assert (np.abs(log.counts - table.sum(axis=0)) <= SURE * error).all()
    other = logging_policy(support, WORLD, unsupported=0.4, seed=2).indices(
        log.contexts, np.random.default_rng(77)
    )
    assert log.support.contains(np.arange(log.n_rows), other).all()


@pytest.mark.parametrize("support", LOGGING)
def test_one_seed_gives_one_log(support):
    first, again, other = (drawn(support, 0.3, rows=200, seed=seed) for seed in (1, 1, 2))
    for name in ("contexts", "actions", "rewards", "propensities"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert (first.rewards != other.rewards).any()


def test_rewards_are_those_of_the_logged_actions():
    log = drawn("per-context", 0.4, world=LinearWorld(n_actions=5, n_features=3, noise=0, seed=1))
    theta = LinearWorld(n_actions=5, n_features=3, seed=1).theta
    np.testing.assert_allclose(log.rewards, (log.contexts * theta[log.actions]).sum(axis=1))
    np.testing.assert_array_equal(log.context_ids, np.arange(log.n_rows))


class TestPerContext:
    def test_a_context_keeps_its_set_and_contexts_have_sets_of_their_own(self):
        policy = logging_policy("per-context", WORLD, unsupported=0.3, seed=4)
        contexts = np.random.default_rng(0).random((300, 3))
        contexts[0, 0] = 0.0
        table = policy.probabilities(contexts)
        order = np.random.default_rng(1).permutation(300)
        np.testing.assert_array_equal(policy.probabilities(contexts[order]), table[order])
        minus = contexts[:1].copy()
        minus[0, 0] = -0.0
        np.testing.assert_array_equal(policy.probabilities(minus), table[:1])
        same_policy = logging_policy("per-context", WORLD, unsupported=0.3, seed=4)
        np.testing.assert_array_equal(same_policy.probabilities(contexts), table)
        assert len({row.tobytes() for row in table}) > 90, "120 sets of 3 in 10, nearly all met"

    @pytest.mark.parametrize("unsupported", [0.2, 0.5, 0.8])
    def test_uniform_on_what_is_left(self, unsupported):
        log = drawn("per-context", unsupported)
        removed = round(unsupported * 10)
        assert set(log.support.sizes) == {10 - removed}
        np.testing.assert_allclose(log.propensities, 1 / (10 - removed))

    @pytest.mark.parametrize("unsupported", [0.2, 0.8])
    def test_every_action_is_logged_as_often_whatever_the_share(self, unsupported):
        log = drawn("per-context", unsupported)
        assert stats.chisquare(log.counts).pvalue > 1e-4

    def test_an_action_is_unsupported_independently_of_the_context(self):
        """Membership does not follow a feature: the sets are random, not regions."""
        log = drawn("per-context", 0.5)
        for column in log.support.mask().T:
            for feature in log.contexts.T:
                assert abs(np.corrcoef(column, feature)[0, 1]) < SURE / np.sqrt(log.n_rows)

    def test_pairs_of_actions_share_sets_as_random_sets_do(self):
        """P(a and b unsupported) = m(m − 1)/(K(K − 1)) for sets of m in K."""
        mask = ~drawn("per-context", 0.5).support.mask()
        both = mask.T.astype(float) @ mask / len(mask)
        expected = 5 * 4 / (10 * 9)
        error = np.sqrt(expected * (1 - expected) / len(mask))
        assert np.abs(both[~np.eye(10, dtype=bool)] - expected).max() < SURE * error


class TestNeverLogged:
    def test_exactly_the_unsupported_actions_have_no_rows(self):
        log = drawn("never-logged", 0.3)
        never = ~log.support.mask()
        assert (never == never[0]).all()
        assert never[0].sum() == 3
        np.testing.assert_array_equal(log.counts == 0, never[0])
        assert stats.chisquare(log.counts[log.counts > 0]).pvalue > 1e-4
        np.testing.assert_allclose(log.propensities, 1 / 7)

    def test_the_set_is_random(self):
        sets = {drawn("never-logged", 0.3, rows=500, seed=seed).counts.argmin() for seed in range(12)}
        assert len(sets) > 3

    def test_named_actions_are_the_ones_never_logged(self):
        log = draw_log(WORLD, rows=2000, never=[3, 8], seed=0)
        assert np.flatnonzero(log.counts == 0).tolist() == [3, 8]
        np.testing.assert_allclose(log.propensities, 1 / 8)

    def test_naming_none_logs_all(self):
        np.testing.assert_allclose(draw_log(WORLD, rows=200, never=[]).propensities, 1 / 10)


def test_a_region_is_a_half_space():
    """Each action's supported contexts are separated from its unsupported ones by a plane (an LP)."""
    log = drawn("region", 0.3, rows=800)
    mask = log.support.mask()
    assert log.support.sizes.min() > 1, "no row leans on the rule that something must be supported"
    sides = [np.where(mask[:, a], 1.0, -1.0) for a in range(10)]
    for side in sides:
        assert abs((side < 0).mean() - 0.3) < SURE * np.sqrt(0.3 * 0.7 * (1 / 800 + 1 / SAMPLE))
        assert separated(log.contexts, side)
    assert not separated(log.contexts, np.random.default_rng(0).permutation(sides[0])), "the LP can say no"


def test_regions_are_uniform_on_the_supported():
    log = drawn("region", 0.3, rows=800)
    np.testing.assert_allclose(log.propensities, 1 / log.support.sizes)


def separated(contexts, side):
    """Whether some plane has side_i·(x_i·w − b) ≥ 1 for all i."""
    rows = -side[:, None] * np.column_stack([contexts, np.ones(len(contexts))])
    free = [(None, None)] * rows.shape[1]
    return linprog(np.zeros(rows.shape[1]), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=free).status == 0


def test_sharpened_is_a_softmax_of_linear_scores_that_is_zero_only_below_a_cut():
    """log μ(a|x) − log μ(b|x) is linear in x wherever both are supported; the scores recovered from
    that (up to what is common to all actions) give the softmax before the cut, and one number parts
    what was cut from what was kept, except a row's best, which is always kept.
    """
    log = drawn("sharpened", 0.4)
    table = log.support.distribution()
    best = table.argmax(axis=1)
    reference = int(np.bincount(best).argmax())
    scores = np.zeros_like(table)
    for action in range(10):
        both = (table[:, action] > 0) & (table[:, reference] > 0)
        assert both.sum() > 30, "enough rows to recover three numbers"
        ratio = np.log(table[both, action] / table[both, reference])
        slope, *_ = np.linalg.lstsq(log.contexts[both], ratio, rcond=None)
        np.testing.assert_allclose(log.contexts[both] @ slope, ratio, atol=1e-7)
        scores[:, action] = log.contexts @ slope
    whole = np.exp(scores - scores.max(axis=1, keepdims=True))
    whole /= whole.sum(axis=1, keepdims=True)
    kept = table > 0
    np.testing.assert_array_equal(whole.argmax(axis=1), best)
    kept_by_size = kept.copy()
    kept_by_size[np.arange(len(kept)), best] = False
    assert whole[~kept].max() < whole[kept_by_size].min() + 1e-9
    again = np.where(kept, whole, 0)
    np.testing.assert_allclose(table, again / again.sum(axis=1, keepdims=True), atol=1e-7)


def test_a_sharpened_logger_has_learnt_something():
    """It earns more than the uniform policy in every world: it was trained."""
    for seed in range(5):
        world = LinearWorld(n_actions=10, n_features=3, noise=1.0, seed=seed)
        log = drawn("sharpened", 0.2, world=world, rows=1000)
        means = world.means(log.contexts)
        assert (log.support.distribution() * means).sum(axis=1).mean() > means.mean() + 0.3


class TestArguments:
    @pytest.mark.parametrize("unsupported", [1.0, -0.1, np.nan])
    def test_a_share_outside_its_range(self, unsupported):
        with pytest.raises(SettingError, match=r"unsupported=.*\[0, 1\)"):
            drawn("per-context", unsupported)

    def test_an_unknown_name_lists_the_known_ones(self):
        with pytest.raises(SettingError, match=r"'everywhere'.*per-context.*never-logged.*region.*sharpened"):
            drawn("everywhere", 0.2)

    @pytest.mark.parametrize("never", [range(10), [3, 99]])
    def test_never_must_be_some_and_not_all(self, never):
        with pytest.raises(SettingError, match="some, not all"):
            draw_log(WORLD, rows=10, never=never)

    def test_never_and_a_policy_contradict(self):
        policy = logging_policy("region", WORLD, unsupported=0.2)
        with pytest.raises(SettingError, match="never and policy"):
            draw_log(WORLD, rows=10, never=[1], policy=policy)

    def test_a_random_policy_wants_a_generator(self):
        with pytest.raises(SettingError, match="rng="):
            logging_policy("region", WORLD, unsupported=0.2).indices(np.ones((1, 3)))


def test_a_policy_of_ones_own_is_used():
    policy = logging_policy("never-logged", WORLD, unsupported=0.5, seed=123)
    log = draw_log(WORLD, rows=1000, policy=policy, seed=0)
    np.testing.assert_array_equal(log.counts == 0, policy.probabilities(np.ones((1, 3)))[0] == 0)
