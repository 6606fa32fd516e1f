"""Propensities and a target policy: identities of importance weights, and Proposition 1."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

import sparing
from sparing.auditing import overlap as overlapping
from sparing.auditing.counts import Propensities
from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.passes import SumOf
from sparing.log.rows import InMemoryRows, RewardSummary
from sparing.log.sketches import PowerSums
from sparing.policies.policy import ConstantPolicy, UniformPolicy
from sparing.simulation import LinearWorld, draw_log


class Table:
    """A policy of softmax-linear probabilities, its actions in an order of its own."""

    def __init__(self, action_names, theta):
        self.action_names, self.theta = tuple(action_names), theta

    def probabilities(self, contexts):
        weights = np.exp(contexts @ self.theta.T)
        return weights / weights.sum(axis=1, keepdims=True)


def drawn(support="region", unsupported=0.4, rows=4000, seed=0, k=6):
    world = LinearWorld(n_actions=k, n_features=3, noise=0.5, seed=seed)
    return world, draw_log(world, rows=rows, support=support, unsupported=unsupported, seed=seed)


def overlap(log, *, estimated):
    found = Propensities.of(log)
    return overlapping.overlap(found, estimated=estimated, exact=log.support.kind == "exact")


def audit_policy(log, policy, *, reward_range, estimated):
    overlapping.check_policy(InMemoryRows(log), policy)
    doing = InMemoryRows(log).fold(
        SumOf(partial(overlapping.PolicyCounts.of, policy=policy, never=log.counts == 0))
    )
    kind = log.support.kind
    rest = (kind, kind, RewardSummary.of(log), reward_range) if doing else ()
    return doing and overlapping.audit_policy(doing, *rest, estimated=estimated)


def test_quantiles_and_effective_sample_size_by_hand():
    log = Log.from_arrays(np.ones((4, 1)), list("abab"), np.zeros(4), propensities=[0.1, 0.2, 0.4, 0.8])
    found = overlap(log, estimated=False)
    weights = np.array([10, 5, 2.5, 1.25])
    assert found.effective_sample_size == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert list(found.quantiles) == [1, 10, 50, 90, 99]
    assert found.quantiles[50] == pytest.approx(0.3)
    assert found.percentile_ratio == pytest.approx(found.quantiles[90] / found.quantiles[10])
    assert (found.smallest, found.largest, found.source) == (0.1, 0.8, "logged")
    assert found.histogram.sum() == 4
    assert found.supported_mean == pytest.approx(weights.mean())


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_effective_sample_size_does_not_depend_on_scale(scale):
    assert PowerSums.of(scale * np.array([1.0, 2.0, 3.0])).effective == pytest.approx(36 / 14)
    assert PowerSums.of(np.zeros(3)).effective == 0.0
    assert PowerSums.of(np.full(7, scale)).effective == pytest.approx(7)


def test_equal_propensities_keep_the_whole_sample():
    _, log = drawn("never-logged", 0.5)
    found = overlap(log, estimated=False)
    assert found.effective_sample_size == pytest.approx(log.n_rows)
    assert found.percentile_ratio == 1
    assert len(found.histogram) == 1
    assert found.histogram[0] == log.n_rows


@pytest.mark.parametrize("support", ["region", "per-context", "never-logged", "sharpened"])
def test_inverse_propensities_count_the_supported_actions(support):
    """E[1/μ] is the mean size of the support: 4 standard errors over 20 seeds would be a bug."""
    for seed in range(20):
        _, log = drawn(support, 0.4, rows=500, seed=seed)
        mean, error = overlap(log, estimated=False).contradiction
        assert abs(mean) <= 4.5 * error + 1e-9


def test_propensities_that_contradict_the_support_are_noticed():
    rng = np.random.default_rng(0)
    names = list("abcdef")
    actions = [names[i] for i in rng.integers(0, 3, 300)]
    settings = {"eligible": [names] * 300, "action_names": names}
    log = Log.from_arrays(
        rng.random((300, 2)), actions, rng.random(300), propensities=[1 / 3] * 300, **settings
    )
    found = sparing.audit(log)
    assert any("contradict" in note and "no chance, or next to none" in note for note in found.notes)
    assert found.verdict == "deficient"
    assert "no chance, or next to none, of 50%" in found.headline
    small = Log.from_arrays(
        rng.random((300, 2)), actions, rng.random(300), propensities=[0.01] * 300, **settings
    )
    assert any("too small" in note for note in sparing.audit(small).notes)


def test_rare_actions_are_no_contradiction():
    """With probabilities of 1e-7 the mean of 1/μ misses most of the support, and its variance knows."""
    rng = np.random.default_rng(1)
    chances = np.tile([1 - 5e-7] + [1e-7] * 5, (400, 1))
    log = Log.from_arrays(
        rng.random((400, 2)), [0] * 400, rng.random(400), distribution=chances, action_names=range(6)
    )
    found = sparing.audit(log)
    assert not any("contradict" in note for note in found.notes)
    assert found.unsupported_share == 0


def test_unsupported_mass_is_the_sum_over_unsupported_pairs():
    world, log = drawn()
    policy = Table(reversed(world.action_names), np.random.default_rng(1).normal(size=(6, 3)))
    found = audit_policy(log, policy, reward_range=None, estimated=False)
    chances = policy.probabilities(log.contexts)[:, ::-1]
    mass = (chances * ~log.support.mask()).sum(axis=1)
    assert found.unsupported_mass == pytest.approx(mass.mean())
    assert found.mass_quantiles[90] == pytest.approx(np.quantile(mass, 0.9))
    weights = chances[np.arange(log.n_rows), log.actions] / log.propensities
    assert found.effective_sample_size == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert found.implied_mass[0] == pytest.approx(1 - weights.mean())
    assert abs(found.implied_mass[0] - mass.mean()) < 4 * found.implied_mass[1]
    same = audit_policy(log, chances, reward_range=None, estimated=False)
    assert same.unsupported_mass == pytest.approx(mass.mean())


@pytest.mark.parametrize("seed", range(5))
def test_the_bias_of_ips_lies_in_the_bound(seed):
    """Proposition 1: the exact bias −E Σ_{a∈𝓤} π·δ is in the bound when mean rewards are in the range."""
    world, log = drawn(seed=seed)
    policy = Table(world.action_names, np.random.default_rng(seed).normal(size=(6, 3)))
    means = world.means(log.contexts)
    bounds = (float(means.min()), float(means.max()))
    found = audit_policy(log, policy, reward_range=bounds, estimated=False)
    bias = -(policy.probabilities(log.contexts) * means * ~log.support.mask()).sum(axis=1).mean()
    assert found.bias[0] <= bias <= found.bias[1]
    assert found.bias == pytest.approx(
        (-found.unsupported_mass * bounds[1], -found.unsupported_mass * bounds[0])
    )
    assert found.range_given


def test_the_measured_bias_of_ips_agrees_with_proposition_1():
    """IPS on a large log misses the policy's value by the identity, within its own sampling error."""
    world, log = drawn(rows=60_000)
    policy = Table(world.action_names, np.random.default_rng(2).normal(size=(6, 3)))
    chances, means = policy.probabilities(log.contexts), world.means(log.contexts)
    terms = chances[np.arange(log.n_rows), log.actions] / log.propensities * log.rewards
    bias = -(chances * means * ~log.support.mask()).sum(axis=1).mean()
    missed = terms.mean() - (chances * means).sum(axis=1).mean()
    assert abs(missed - bias) < stats.norm.ppf(1 - 1e-5) * terms.std() / np.sqrt(log.n_rows)
    assert abs(bias) > 0.05


def test_observed_range_is_used_where_none_is_given():
    world, log = drawn()
    found = audit_policy(log, UniformPolicy(world.action_names), reward_range=None, estimated=False)
    assert found.reward_range == (log.rewards.min(), log.rewards.max())
    assert not found.range_given
    assert found.unsupported_mass == pytest.approx(log.support.unsupported_share)


def test_unknown_support_says_nothing_of_mass_but_of_what_was_never_logged():
    log = Log.from_arrays(np.ones((4, 1)), list("aabb"), np.zeros(4), action_names=list("abc"))
    found = audit_policy(log, ConstantPolicy(tuple("abc"), "c"), reward_range=None, estimated=False)
    assert (found.unsupported_mass, found.bias, found.mass_quantiles) == (None, None, None)
    assert found.never_logged_mass == 1.0
    assert found.effective_sample_size is None
    assert (
        audit_policy(log.take([]), ConstantPolicy(tuple("abc"), "c"), reward_range=None, estimated=False)
        is None
    )


def test_a_policy_of_fewer_actions_plays_the_others_never():
    _, log = drawn()
    found = audit_policy(log, UniformPolicy((0, 1)), reward_range=None, estimated=False)
    expected = (~log.support.mask()[:, :2]).mean()
    assert found.unsupported_mass == pytest.approx(expected)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (UniformPolicy((0, 1, 99)), "has action 99"),
        (np.ones((4000, 5)), "policy of shape"),
        (np.full((4000, 6), 0.2), "row 0 sum to 1.2"),
        (np.tile([1.5, -0.5, 0, 0, 0, 0], (4000, 1)), "smallest -0.5"),
        (np.full((4000, 6), np.nan), "row 0 sum to nan"),
    ],
)
def test_policies_that_do_not_fit_are_refused(policy, message):
    with pytest.raises(SettingError, match=message):
        audit_policy(drawn()[1], policy, reward_range=None, estimated=False)


def test_a_policy_that_answers_with_the_wrong_shape_is_refused():
    policy = Table(range(6), np.zeros((5, 3)))
    with pytest.raises(SettingError, match=r"gave shape \(4000, 5\)"):
        audit_policy(drawn()[1], policy, reward_range=None, estimated=False)
