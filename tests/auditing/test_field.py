"""Logs on which other tools are known to fail."""

import numpy as np
import pytest

import sparing
from sparing.log import Log
from sparing.policies.policy import ConstantPolicy
from sparing.simulation import LinearWorld, draw_log

K = 6


def three_of_six(rows=1800, *, repeats=1):
    """Every context only ever sees three of six actions, its own three."""
    rng = np.random.default_rng(0)
    contexts = rng.random((rows // repeats, 4))
    allowed = np.array([rng.permutation(K)[:3] for _ in contexts])
    at = np.repeat(np.arange(len(contexts)), repeats)
    actions = allowed[at, rng.integers(0, 3, len(at))]
    rewards = contexts[at].sum(axis=1) + rng.normal(size=len(at))
    return contexts[at], actions, rewards, allowed[at]


def test_three_of_six_with_support_is_flagged():
    contexts, actions, rewards, allowed = three_of_six()
    found = sparing.audit(Log.from_arrays(contexts, actions, rewards, eligible=allowed.tolist()))
    assert found.unsupported_share == pytest.approx(0.5)
    assert found.unsupported_sizes == {3: 1800}
    assert found.verdict == "deficient"
    assert found.per_action[0].ineligible == pytest.approx(0.5, abs=0.05)
    assert found.per_action[0].zero is None
    assert "could not have taken 50% of the 6 actions" in found.headline


@pytest.mark.parametrize("repeats", [1, 3])
def test_three_of_six_without_support_is_never_called_full(repeats):
    contexts, actions, rewards, _ = three_of_six(repeats=repeats)
    found = sparing.audit(Log.from_arrays(contexts, actions, rewards, action_names=range(K)))
    assert found.support == "estimated"
    assert found.verdict == "unknown"
    assert found.unsupported_share is None
    assert found.metrics["unsupported_share"] is None
    text = f"{found.headline}\n{found}"
    assert "does not say which actions a row could have taken" in text
    assert "a single context may lack more" in text
    assert ("No context recurs" if repeats == 1 else "narrower than estimated") in text
    for word in ("healthy", "full support", "Every action could have been logged", "100%"):
        assert word not in text


def test_three_of_six_is_flagged_by_its_propensities_alone():
    """1/μ = 3 in every row: by E[1/μ] three of six actions have a chance."""
    contexts, actions, rewards, _ = three_of_six()
    log = Log.from_arrays(contexts, actions, rewards, propensities=[1 / 3] * 1800, action_names=range(K))
    found = sparing.audit(log, policy=np.full((1800, K), 1 / K))
    assert found.verdict == "deficient"
    assert found.implied_unsupported == (pytest.approx(0.5), pytest.approx(0, abs=1e-9))
    assert "no chance, or next to none, of 50% of the 6 actions" in found.headline
    assert found.policy.implied_mass[0] == pytest.approx(0.5)
    assert [action.implied for action in found.per_action] == pytest.approx([0.5] * K, abs=0.06)


@pytest.mark.parametrize("known", [True, False])
def test_a_missing_arm_is_named(known):
    rng = np.random.default_rng(1)
    arms = ["red", "green", "blue", "yellow"]
    actions = rng.choice(["red", "green", "yellow"], 1200)
    chances = np.tile([1 / 3, 1 / 3, 0, 1 / 3], (1200, 1)) if known else None
    log = Log.from_arrays(
        rng.random((1200, 3)), actions, rng.random(1200), action_names=arms, distribution=chances
    )
    found = sparing.audit(log)
    assert found.never_logged == ("blue",)
    assert found.verdict == "deficient"
    assert "never tried: 1 action (blue)" in str(found)
    assert "1 action never tried (blue)" in found.headline
    assert found.gap_map.gaps[0].actions == ("blue",)
    assert found.gap_map.gaps[0].where == "everywhere"
    share = found.unsupported_share if known else found.estimated_unsupported_share
    assert share == pytest.approx(0.25)


@pytest.mark.parametrize("support", ["exact", "estimated"])
def test_a_policy_on_deficient_actions_shows_its_mass(support):
    """Three of ten actions never logged, a policy with 60 % on them: IPS misses at least that much."""
    world = LinearWorld(n_actions=10, n_features=5, noise=0.3, seed=0, offset=2.0)
    log = draw_log(world, rows=4000, never=[0, 1, 2], seed=0)
    if support == "estimated":
        log = Log.from_arrays(log.contexts, log.actions, log.rewards, action_names=log.action_names)
    chances = np.tile([0.2] * 3 + [0.4 / 7] * 7, (4000, 1))
    found = sparing.audit(log, policy=chances, reward_range=(0.0, 6.0))
    assert found.policy.support == support
    assert found.policy.unsupported_mass == pytest.approx(0.6)
    assert found.policy.never_logged_mass == pytest.approx(0.6)
    assert found.policy.bias == pytest.approx((-3.6, 0.0))
    exact = found.metrics["policy_unsupported_mass"]
    assert exact == (pytest.approx(0.6) if support == "exact" else None)
    assert "60% of its decisions are unsupported" in str(found)
    alone = sparing.audit(log, policy=ConstantPolicy(log.action_names, 1))
    assert alone.policy.unsupported_mass == 1.0
    if support == "exact":
        assert alone.policy.effective_sample_size == 0.0
