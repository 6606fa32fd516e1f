"""Who serves: probabilities are those of the draws, budgets hold, a subject stays in its arm."""

import collections

import numpy as np
import pytest
from scipy import stats

from service.building import LEARNERS, LOG, contexts
from sparing.service import events, experiment, experiments
from sparing.service.events import DecisionEvent
from sparing.service.experiment import ExperimentState
from sparing.service.messages import Options

SALT = bytes(range(32))
DRAWS = 4000


def model_of(learner, options, **settings):
    made = experiments.make_learner(learner, LOG, {**LEARNERS[learner], **settings})
    return ExperimentState(1, made, options, SALT)


def decided(model, number, x, *, allowed=None, subject=None, ts=1):
    eligible, context = events.pack_mask(allowed), events.pack_context(x)
    event = DecisionEvent(0, 1, ts, number.to_bytes(16), None, None, subject, None, context, eligible)
    return model.decide(event, x)


@pytest.mark.parametrize(
    ("learner", "policy", "masked"),
    [
        ("confident", "logged", False),
        ("confident", "uniform", True),
        ("lints", "logged", True),
        ("lints", "action:2", False),
        ("economical", "action:2", True),
        ("economical", "logged", False),
    ],
)
def test_probabilities_are_those_of_the_draws(learner, policy, masked):
    """Each action comes as often as its probability says, alone and asked about; those that never come have next to none."""
    settings = {"tolerance": 5.0} if learner == "confident" else {}
    model = model_of(learner, Options(holdout=0.2, explore=0.1, check=0.3, holdout_policy=policy), **settings)
    (x,) = contexts(5, 1)
    allowed = np.array([True, False, True, True, False, True]) if masked else None
    # Each draw of Thompson's has an integral for its chance.
    draws = DRAWS // 3 if learner == "lints" else DRAWS
    drawn = [decided(model, number, x, allowed=allowed) for number in range(draws)]
    plays, calls = collections.Counter(), collections.Counter()
    chances = {}
    for one in drawn:
        plays[one.action] += 1
        calls[one.action] += one.needs_reward
        chances.setdefault(one.action, (one.play_probability, one.call_probability))
        assert chances[one.action] == pytest.approx((one.play_probability, one.call_probability), rel=1e-12)
    for action, (play, call) in chances.items():
        for seen, chance in ((plays[action], play), (calls[action], call)):
            assert stats.binomtest(seen, draws, min(chance, 1.0)).pvalue > 1e-5, (
                action,
                seen / draws,
                chance,
            )
    assert 1 - 20 / draws < sum(play for play, _ in chances.values()) < 1 + 1e-9
    if masked:
        assert {0, 2, 3, 5} >= set(plays)


@pytest.mark.parametrize("check", [0.0, 0.25])
def test_a_check_asks_about_a_share_of_what_is_skipped(check):
    model = model_of("confident", Options(check=check), tolerance=50.0, spot_check=0.0)
    (x,) = contexts(5, 1)
    drawn = [decided(model, number, x) for number in range(DRAWS)]
    reasons = collections.Counter(one.reason for one in drawn)
    assert set(reasons) <= {"confident", "check"}
    assert stats.binomtest(reasons["check"], DRAWS, check).pvalue > 1e-4 if check else not reasons["check"]
    assert {one.call_probability for one in drawn} == {check}
    assert all(one.needs_reward == (one.reason == "check") for one in drawn)


def test_a_subject_stays_in_its_arm():
    model = model_of("confident", Options(holdout=0.3))
    (x,) = contexts(5, 1)
    for subject in range(50):
        who = subject.to_bytes(16)
        found = {decided(model, number, x, subject=who).arm for number in range(10)}
        assert len(found) == 1
    shares = [decided(model, 0, x, subject=who.to_bytes(16)).arm == "holdout" for who in range(DRAWS)]
    assert stats.binomtest(sum(shares), DRAWS, 0.3).pvalue > 1e-4


def test_luck_is_uniform_and_each_draw_its_own():
    draws = {
        tag: [experiment.keyed_uniform(SALT, tag, i.to_bytes(16)) for i in range(DRAWS)] for tag in ("a", "b")
    }
    for values in draws.values():
        assert stats.kstest(values, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(draws["a"], draws["b"])[0, 1]) < 5 / np.sqrt(DRAWS)
    assert experiment.keyed_uniform(bytes(32), "a", bytes(16)) != experiment.keyed_uniform(
        SALT, "a", bytes(16)
    )


@pytest.mark.parametrize("mode", ["shadow", "fallback"])
def test_the_fallback_serves_in_its_modes_and_only_a_shadow_asks(mode):
    model = model_of("confident", Options(fallback="action:3"))
    model.mode = mode
    (x,) = contexts(5, 1)
    one = decided(model, 1, x)
    assert (one.arm, one.action, one.reason, one.play_probability) == (mode, 3, "fallback", 1.0)
    assert (one.needs_reward, one.call_probability) == ((True, 1.0) if mode == "shadow" else (False, 0.0))
    masked = decided(model, 1, x, allowed=np.array([True, True, False, False, False, False]))
    assert masked.action in (0, 1)
    assert masked.play_probability == 0.5


@pytest.mark.parametrize(
    ("options", "most"),
    [
        (Options(budget_calls=7, budget_period=100.0, holdout=0.2, check=0.5, explore=0.2), 7),
        (Options(most_open=3), 3),
        (Options(budget_calls=0), 0),
    ],
)
@pytest.mark.parametrize("learner", ["warm_started", "lints", "confident"])
def test_a_budget_is_never_exceeded(learner, options, most):
    model = model_of(learner, options)
    seq = 0
    for period in range(2):
        calls = []
        for number, x in enumerate(contexts(period, 60)):
            ts = (period * 100 + number) * events.SECOND
            one = decided(model, number, x, ts=ts)
            seq += 1
            one.seq = seq
            calls.append(one.needs_reward)
            spent = model.budget_exhausted(ts)
            if spent:
                assert not one.needs_reward
                assert one.call_probability == 0
            if one.reason == "budget" and one.arm == "policy":
                means, _ = model.learner.sets.evaluate(x)
                assert means[one.action] == means.max()
            model.apply(one, x)
        limit = most if options.budget_calls is not None or not period else 0
        assert sum(calls) == limit if learner != "confident" else sum(calls) <= limit


def test_holdouts_of_two_experiments_are_independent_unless_they_share_a_group():
    held = {}
    for group in ("one", "two", None):
        model = model_of("confident", Options(holdout=0.5, holdout_group=group))
        drawn = [
            decided(model, number, contexts(5, 1)[0], subject=number.to_bytes(16)) for number in range(600)
        ]
        held[group] = np.array([one.arm == "holdout" for one in drawn])
    table = np.histogram2d(held["one"], held["two"], bins=2)[0]
    assert stats.fisher_exact(table).pvalue > 1e-3
    assert all(0.4 < one.mean() < 0.6 for one in held.values())
    # Without a group the draw is that of older stores, whose decisions can be replayed.
    old = [experiment.keyed_uniform(SALT, "holdout", number.to_bytes(16)) < 0.5 for number in range(600)]
    assert held[None].tolist() == old
