"""The rule `log-beats`: which context a round is, what the log earned there, and what it answers."""

import numpy as np
import pytest

import sparing
from reference.log_beats import best_policies
from sparing.errors import DecisionError, LogError, SettingError

GIVEN = {"noise": 0.1, "theta_bound": 1.0, "context_bound": 1.5, "radius_scale": 0.001}


def learner_of(log, **more):
    """All sets hardly optimistic, so that a threshold above 0 fires."""
    return sparing.eps_moful_ips(log, supported=sparing.supported_actions([]), **{**GIVEN, "clip": 1, **more})


def log_of(contexts, actions, rewards, *, chances=None, **more):
    """A log over three actions, uniform unless `chances` says otherwise."""
    table = np.full((len(actions), 3), 1 / 3) if chances is None else chances
    return sparing.Log.from_arrays(
        contexts, actions, rewards, distribution=table, action_names=[0, 1, 2], **more
    )


def test_the_threshold_is_the_mean_over_a_contexts_rows_and_never_the_maximum():
    x = [0.5, 0.5]
    rewards = [3.0, -4.0, -2.0]
    learner = learner_of(log_of([x] * 3, [0, 1, 1], rewards))
    rule = learner.rules[0]
    assert rule.by_context.thresholds == pytest.approx([-1.0])
    assert learner.decide(x).reason == "explore"
    luckier = learner_of(log_of([x] * 3, [0, 1, 1], [3.0, -1.0, -1.0]))
    assert luckier.decide(x).reason == "log-beats"


def test_the_answer_is_the_logged_action_with_the_best_mean():
    x = [0.5, 0.5]
    decision = learner_of(log_of([x] * 4, [0, 0, 2, 1], [5.0, 0.0, 3.0, 1.0])).decide(x)
    assert (decision.action, decision.reason, decision.needs_reward) == (2, "log-beats", False)


def test_minus_zero_is_zero_and_anything_else_is_another_context():
    learner = learner_of(log_of([[0.0, 0.5]], [1], [2.0]))
    assert learner.decide([0.0, 0.5]).reason == "log-beats"
    assert learner.decide([-0.0, 0.5]).reason == "log-beats"
    assert learner.decide([0.0, np.nextafter(0.5, 1)]).reason == "explore"


@pytest.mark.parametrize("ids", [["p", "q"], [10, 20]])
def test_an_id_says_which_context_it_is_where_the_round_carries_one(ids):
    log = log_of([[0.5, 0.1], [0.5, 0.2]], [1, 2], [2.0, 2.0], context_ids=ids)
    learner = learner_of(log)
    elsewhere = [0.9, 0.9]
    assert learner.decide(elsewhere, context_id=ids[1]).action == 2
    assert learner.decide([0.5, 0.2], context_id=ids[0]).action == 1
    assert learner.decide([0.5, 0.2]).action == 2
    assert learner.decide([0.5, 0.2], context_id=-1).reason == "explore"
    assert learner.decide(elsewhere).reason == "explore"
    assert learner.decide(elsewhere, context_id=np.array(ids)[0]).action == 1


def test_an_id_that_cannot_be_one_is_refused():
    learner = learner_of(log_of([[0.5, 0.1]], [1], [2.0], context_ids=[10]))
    with pytest.raises(DecisionError, match="context_id"):
        learner.decide([0.5, 0.1], context_id=[10])
    assert learner.rounds == 0


def test_a_logged_answer_that_is_not_eligible_is_not_given():
    learner = learner_of(log_of([[0.5, 0.5]], [1], [2.0]))
    assert learner.decide([0.5, 0.5], eligible=[0, 2]).reason == "explore"
    assert learner.decide([0.5, 0.5], eligible=[1, 2]).action == 1


def test_log_beats_is_tested_before_supported():
    x = [0.5, 0.5]
    log = log_of([x], [1], [5.0])
    learner = sparing.eps_moful_ips(
        log, supported=sparing.supported_actions({0: [1.0, 1.0]}), **GIVEN, clip=1
    )
    assert learner.decide(x).reason == "log-beats"
    assert learner.decide([0.6, 0.5]).reason == "supported"


@pytest.mark.parametrize("clip", [1.0, 1.6])
def test_answers_by_policy_have_the_frequencies_of_pi_plus(clip):
    x, n = [0.5, 0.5], 6000
    chances = np.tile([0.5, 0.2, 0.3], (2, 1))
    log = log_of([x, x], [0, 1], [3.0, 2.0], chances=chances)
    learner = learner_of(log, clip=clip, answer="policy", seed=1)
    decisions = [learner.decide(x) for _ in range(n)]
    assert {decision.reason for decision in decisions} == {"log-beats"}
    shares = np.bincount([decision.action for decision in decisions], minlength=3) / n
    policy = best_policies(log, [np.array([0, 1])], clip)[0]
    assert (np.abs(shares - policy) <= 4 * np.sqrt(policy * (1 - policy) / n)).all()


def test_policy_answers_keep_to_the_eligible():
    x = [0.5, 0.5]
    learner = learner_of(log_of([x], [0], [3.0]), answer="policy")
    assert {learner.decide(x, eligible=[1, 2]).action for _ in range(100)} == {1, 2}


def test_unlogged_mass_goes_to_supported_actions_only():
    x = [0.5, 0.5]
    chances = np.array([[0.4, 0.0, 0.6]])
    learner = learner_of(log_of([x], [0], [3.0], chances=chances), answer="policy", seed=2)
    assert {learner.decide(x).action for _ in range(200)} == {0, 2}


def test_what_log_beats_cannot_be_built_from_is_refused():
    unknown = sparing.Log.from_arrays([[0.5, 0.5]], [0], [1.0], propensities=[0.5], action_names=[0, 1])
    assert learner_of(unknown).decide([0.5, 0.5]).reason == "log-beats"
    with pytest.raises(LogError, match="support"):
        learner_of(unknown, answer="policy")
    with pytest.raises(SettingError, match="answer"):
        learner_of(unknown, answer="best")
    without = sparing.Log.from_arrays([[0.5, 0.5]], [0], [1.0], action_names=[0, 1])
    with pytest.raises(LogError, match="propensities"):
        learner_of(without)
