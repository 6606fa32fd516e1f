"""What every learner promises to its caller, whatever its algorithm."""

import numpy as np
import pytest

import sparing
from each import for_each
from reference.cases import make_log, make_rounds, parameters, run, saved_bytes
from reference.factories import FACTORIES, build
from sparing.errors import DecisionError, LogError, SettingError

THETA = parameters(1)
LOG = make_log(1, THETA, rows=90, distinct=50)
ROUNDS = make_rounds(1, THETA, 80, log=LOG)
FRESH = make_rounds(3, THETA, 200)
CALLED = {"explore", "spot-check"}
REASONS = CALLED | {"supported", "log-beats", "certified", "confident", "pending", "not-worth-it", "spent"}


def until_called(learner, contexts=FRESH.contexts):
    """The first decision that needs its reward."""
    return next(d for d in map(learner.decide, contexts) if d.needs_reward)


def check(decision, learner, number, eligible):
    """A decision is valid in itself."""
    assert decision.id == number
    assert decision.action in eligible
    assert decision.reason in REASONS
    assert decision.needs_reward == (decision.reason in CALLED)
    assert decision.low <= decision.value <= decision.high
    assert 0 < decision.play_probability <= 1 + 1e-9
    assert 0 <= decision.call_probability <= decision.play_probability
    assert decision.call_probability > 0 or not decision.needs_reward
    with pytest.raises(AttributeError):
        decision.action = 0


@for_each("name", FACTORIES)
def test_decisions_are_valid_for_any_eligible_subset(name):
    learner = build(name, LOG)
    rng = np.random.default_rng(0)
    for t, x in enumerate(ROUNDS.contexts):
        eligible = rng.permutation(6)[: rng.integers(1, 7)].tolist()
        decision = learner.decide(x, eligible=eligible)
        check(decision, learner, t, eligible)
        if decision.needs_reward and t % 3:
            learner.update(decision, ROUNDS.rewards[t, decision.action])
    only = learner.decide(ROUNDS.contexts[0], eligible=[4])
    assert only.action == 4


@for_each("name", FACTORIES)
def test_rounds_and_calls_are_counted(name):
    learner = build(name, LOG)
    decisions = run(learner, ROUNDS)
    assert [decision.id for decision in decisions] == list(range(80))
    assert (learner.rounds, learner.calls) == (80, sum(d.needs_reward for d in decisions))
    assert learner.open == {}
    assert learner.sets.live.sum() == learner.calls
    assert f"{learner.calls} calls in 80 rounds" in repr(learner)


@for_each("name", FACTORIES)
def test_rewards_may_come_late_and_in_any_order(name):
    """Delayed rewards, in an order of their own, end in the same sums as in the order of the decisions."""
    learner = build(name, LOG)
    other = learner.copy()
    waiting = [d for d in map(learner.decide, ROUNDS.contexts) if d.needs_reward]
    assert waiting == [d for d in map(other.decide, ROUNDS.contexts) if d.needs_reward]
    assert len(learner.open) == len(waiting)
    for decision in waiting:
        learner.update(decision, ROUNDS.rewards[decision.id, decision.action])
    for number in np.random.default_rng(1).permutation(len(waiting)):
        decision = waiting[number]
        other.update(decision.id, ROUNDS.rewards[decision.id, decision.action])
    assert learner.open == other.open == {}
    assert np.allclose(learner.sets.gram, other.sets.gram, rtol=1e-12)
    assert np.allclose(learner.sets.theta, other.sets.theta, rtol=1e-8, atol=1e-10)


@for_each("name", FACTORIES)
def test_what_cannot_be_learnt_from_is_refused_and_changes_nothing(name, tmp_path):
    learner = build(name, LOG)
    stranger = build(name, LOG, seed=11)
    run(learner, ROUNDS)
    decision = until_called(learner)
    closed = until_called(learner, FRESH.contexts[::-1])
    learner.update(closed, 0.25)
    before = saved_bytes(learner, tmp_path)
    for reward in (np.nan, np.inf, -np.inf, "1.5", "much", None, [1.0, 2.0], 1j, 10**400, 1e200):
        with pytest.raises(DecisionError):
            learner.update(decision, reward)
    foreign = decision._replace(value=decision.value + 1, high=decision.high + 2)
    for wrong in (closed, closed.id, foreign, until_called(stranger), 10**6, -1, "0", None, [decision.id]):
        with pytest.raises(DecisionError):
            learner.update(wrong, 0.5)
        with pytest.raises(DecisionError):
            learner.forget(wrong)
    assert saved_bytes(learner, tmp_path) == before
    learner.update(decision, 0.5)
    assert saved_bytes(learner, tmp_path) != before


@for_each("name", FACTORIES)
def test_a_skipped_decision_takes_no_reward(name, tmp_path):
    learner = build(name, LOG)
    skipped = [d for d in run(learner, ROUNDS) if not d.needs_reward]
    never = name.split()[0] in ("moful", "warm_started", "linucb", "lints") or name == "certified never"
    never = never or name == "economical budget"  # it is nearly for nothing, and lasts
    assert never == (not skipped)
    before = saved_bytes(learner, tmp_path)
    for decision in skipped[:3]:
        with pytest.raises(DecisionError, match="needs no reward"):
            learner.update(decision, 1.0)
        with pytest.raises(DecisionError):
            learner.update(decision.id, 1.0)
    assert saved_bytes(learner, tmp_path) == before


@for_each("name", FACTORIES)
def test_a_context_that_does_not_fit_is_refused_and_changes_nothing(name, tmp_path):
    learner = build(name, LOG)
    run(learner, ROUNDS)
    before = saved_bytes(learner, tmp_path)
    good = ROUNDS.contexts[0]
    for x in ([1.0, 2.0], [1.0] * 4, [[1.0, 2.0, 3.0]], 1.0, [], [1.0, np.nan, 0.0], [np.inf, 0, 0]):
        with pytest.raises(DecisionError):
            learner.decide(x)
    for x in (
        ["a", "b", "c"],
        ["1", "2", "3"],
        "abc",
        None,
        [None] * 3,
        [[1], [2, 3], 4],
        [1e200, 0, 0],
        [1j, 0, 0],
    ):
        with pytest.raises(DecisionError):
            learner.decide(x)
    for eligible in ([], ["nobody"], [0, 99], [None], [[1, 2]], [{1}], 3):
        with pytest.raises(DecisionError):
            learner.decide(good, eligible=eligible)
    assert saved_bytes(learner, tmp_path) == before


@for_each("name", FACTORIES)
def test_contexts_may_come_as_any_numbers(name):
    learner = build(name, LOG)
    twin = learner.copy()
    for x in (
        [1, 0, 1],
        (1.0, 0.0, 1.0),
        np.array([1, 0, 1], dtype=np.int8),
        np.array([1, 0, 1], dtype=np.float32),
    ):
        assert learner.decide(x).value == twin.decide([1.0, 0.0, 1.0]).value


@for_each("name", FACTORIES)
def test_a_callers_array_is_not_kept(name):
    learner = build(name, LOG)
    x = ROUNDS.contexts[0].copy()
    twin = learner.copy()
    for _ in range(20):
        decision, other = learner.decide(x), twin.decide(ROUNDS.contexts[0])
        assert decision == other
        x[:] = 77.0
        if decision.needs_reward:
            learner.update(decision, 1.0)
            twin.update(other, 1.0)
        x[:] = ROUNDS.contexts[0]
    assert np.array_equal(learner.sets.gram, twin.sets.gram)


@for_each("name", FACTORIES)
def test_one_seed_gives_one_run(name):
    assert run(build(name, LOG), ROUNDS) == run(build(name, LOG), ROUNDS)


@for_each("name", FACTORIES)
def test_saving_and_loading_goes_on_bit_for_bit(name, tmp_path):
    """Open decisions, random streams and all: the loaded twin stays a twin."""
    learner = build(name, LOG)
    for t, x in enumerate(ROUNDS.contexts[:40]):
        decision = learner.decide(x)
        if decision.needs_reward and t % 4:
            learner.update(decision, ROUNDS.rewards[t, decision.action])
    learner.save(tmp_path / "learner")
    twin = sparing.load(tmp_path / "learner")
    assert saved_bytes(twin, tmp_path) == saved_bytes(learner, tmp_path)
    assert (twin.assumptions, twin.guarantee, repr(twin)) == (
        learner.assumptions,
        learner.guarantee,
        repr(learner),
    )
    for decision in [one.decision for one in learner.open.values()]:
        learner.update(decision, 0.1 * decision.id)
        twin.update(decision, 0.1 * decision.id)
    assert run(twin, ROUNDS) == run(learner, ROUNDS)
    assert saved_bytes(twin, tmp_path) == saved_bytes(learner, tmp_path)


@for_each("name", FACTORIES)
def test_a_copy_is_independent(name, tmp_path):
    learner = build(name, LOG)
    run(learner, ROUNDS)
    open_one = until_called(learner)
    before = saved_bytes(learner, tmp_path)
    twin = learner.copy()
    assert saved_bytes(twin, tmp_path) == before
    run(twin, ROUNDS)
    twin.update(open_one, 1.0)
    assert saved_bytes(twin, tmp_path) != before
    assert saved_bytes(learner, tmp_path) == before


@for_each("name", FACTORIES)
def test_a_forgotten_decision_teaches_nothing(name):
    learner = build(name, LOG)
    decision = until_called(learner)
    gram = learner.sets.gram.copy()
    learner.forget(decision)
    assert decision.id not in learner.open
    assert np.array_equal(learner.sets.gram, gram)


@for_each("name", FACTORIES)
def test_the_policy_is_greedy_and_does_not_learn_on(name):
    learner = build(name, LOG)
    run(learner, ROUNDS)
    policy = learner.policy()
    table = policy.probabilities(ROUNDS.contexts)
    assert table.shape == (80, 6)
    assert np.array_equal(np.sort(table, axis=1), np.tile([0, 0, 0, 0, 0, 1], (80, 1)))
    scores = ROUNDS.contexts @ learner.sets.theta.T
    best = scores.max(axis=1)
    assert np.allclose((table * scores).sum(axis=1), best, rtol=1e-12)
    run(learner, ROUNDS)
    assert np.array_equal(policy.probabilities(ROUNDS.contexts), table)


WORLDS = {
    "one action": (parameters(2, 1, 3), {"rows": 20}),
    "one feature": (parameters(2, 4, 1), {"rows": 30}),
    "one of each": (parameters(2, 1, 1), {"rows": 5}),
    "negative rewards": (parameters(2, offset=-5.0), {"rows": 60}),
    "duplicate contexts": (parameters(2), {"rows": 60, "distinct": 3}),
    "a single row": (parameters(2), {"rows": 1}),
    "actions without rows": (parameters(2), {"rows": 60, "never": [0, 3]}),
    "more features than rows": (parameters(2, 4, 12), {"rows": 6}),
}


@for_each("name", FACTORIES)
@for_each("world", WORLDS)
def test_odd_worlds(name, world, tmp_path):
    theta, shape = WORLDS[world]
    log = make_log(2, theta, **shape)
    learner = build(name, log)
    rounds = make_rounds(2, theta, 25, log=log)
    for number, decision in enumerate(run(learner, rounds)):
        check(decision, learner, number, log.action_names)
    learner.save(tmp_path / "odd")
    assert run(sparing.load(tmp_path / "odd"), rounds) == run(learner, rounds)


@for_each("name", FACTORIES)
def test_an_empty_log_with_noise_and_bounds_given(name):
    empty = sparing.Log.empty(action_names=["a", "b", "c"], n_features=3)
    if name in ("eps_moful_ips", "eps_moful_ips policy"):
        with pytest.raises(LogError, match="propensities"):
            build(name, empty)
        return
    if name.startswith("economical"):
        with pytest.raises(SettingError, match="logged contexts"):
            build(name, empty)
        return
    learner = build(name, empty)
    rounds = make_rounds(2, parameters(2, 3, 3), 25)
    for number, decision in enumerate(run(learner, rounds)):
        check(decision, learner, number, "abc")


@for_each("name", FACTORIES)
def test_a_zero_context_is_a_context(name):
    learner = build(name, LOG)
    for number in range(5):
        decision = learner.decide(np.zeros(3))
        check(decision, learner, number, LOG.action_names)
        if decision.needs_reward:
            learner.update(decision, 1.0)
