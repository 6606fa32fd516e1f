"""The pure core: proposals change nothing, and what is learnt is a function of the ordered rewards."""

import numpy as np
import pytest
from scipy.stats import norm

import sparing
from each import for_each
from reference.cases import make_log, make_rounds, parameters, saved_bytes
from reference.factories import FACTORIES, build
from sparing.errors import DecisionError
from sparing.online import drift

THETA = parameters(6)
LOG = make_log(6, THETA, rows=24, distinct=20)
ROUNDS = make_rounds(6, THETA, 160, log=LOG)


def luck(number):
    return f"round {number}".encode()


def live(learner, *, every=3, wait=5):
    """A service's day through the core: calls open for a while, some of them expire. The ordered rewards."""
    waiting, rewards = [], []
    for t, x in enumerate(ROUNDS.contexts):
        proposal = learner.propose(x, entropy=luck(t))
        action = t % 6 if t % 4 == 0 else proposal.action  # now and then somebody else chooses
        if proposal.needs_reward or t % 4 == 0:
            waiting.append((t, action, x, learner.begin(action, x)))
        while waiting and waiting[0][0] + wait <= t:
            made, action, context, predicted = waiting.pop(0)
            if made % every == 0:
                learner.cancel(action, context, predicted)
            else:
                reward = float(ROUNDS.rewards[made, action])
                learner.finish(action, context, reward, predicted)
                rewards.append((action, context, reward))
    return rewards


def learn(learner, rewards):
    """The same rewards one after another, each at once."""
    for action, x, reward in rewards:
        learner.finish(action, x, reward, learner.begin(action, x))


def settled(learner):
    """All that rewards have taught, as bytes."""
    sets = learner.sets
    arrays = (sets.gram, sets.response, sets.inverse, sets.theta, sets.log_det, sets.radius, sets.live)
    noise = () if learner.monitor is None else (learner.monitor.calls, learner.monitor.total)
    return b"".join(array.tobytes() for array in arrays), noise, learner.digest()


@for_each("name", FACTORIES)
def test_replaying_the_ordered_rewards_gives_equal_bits(name, tmp_path):
    """Whatever was open, expired or saved in between; a permuted order gives other bits."""
    learner = build(name, LOG)
    rewards = live(learner)
    assert len(rewards) > 20
    again, stopped = build(name, LOG), build(name, LOG)
    learn(again, rewards)
    assert settled(again) == settled(learner)
    half = len(rewards) // 2
    learn(stopped, rewards[:half])
    stopped.save(tmp_path / "half")
    stopped = sparing.load(tmp_path / "half")
    learn(stopped, rewards[half:])
    assert settled(stopped) == settled(learner)
    permuted = build(name, LOG)
    learn(permuted, rewards[::-1])
    assert permuted.digest() != learner.digest()
    assert np.allclose(permuted.sets.gram, learner.sets.gram, rtol=1e-9)


@for_each("name", FACTORIES)
def test_the_ledger_is_the_core(name):
    """decide, update and forget with late rewards leave what propose, begin, finish and cancel leave."""
    learner, core = build(name, LOG, seed=5), build(name, LOG, seed=5)
    for twin in (learner, core):
        twin.spot_check = 0.0
        twin.set_actions(twin.action_names)
    if learner.explore == "sampled" or "policy" in name:
        return  # a learner's own luck is another one than that of the caller's bytes
    made = {}
    for t, x in enumerate(ROUNDS.contexts):
        drift.pass_round(core, 0)  # what fades or is reviewed before this round
        decision, proposal = learner.decide(x), core.propose(x)
        assert decision[2:-1] == proposal[2:-1]
        assert decision.action == core.action_names[proposal.action]
        if core.rounds == core.next_entry:
            core.enter_context(x)
        core.add_counts(
            rounds=1, calls=int(proposal.needs_reward)
        )  # one that uses_voi calls must know the time
        if proposal.needs_reward:
            made[t] = decision, proposal.action, x, core.begin(proposal.action, x)
        for number in [n for n in made if n + 4 * (n % 3) <= t]:
            decision, action, context, predicted = made.pop(number)
            if number % 5 == 0:
                learner.forget(decision)
                core.cancel(action, context, predicted)
            else:
                reward = float(ROUNDS.rewards[number, action])
                learner.update(decision, reward)
                core.finish(action, context, reward, predicted)
    assert settled(learner) == settled(core)
    assert learner.sets.waiting.tolist() == core.sets.waiting.tolist()


@for_each("name", FACTORIES)
def test_a_proposal_changes_nothing_and_is_repeatable(name, tmp_path):
    learner = build(name, LOG)
    live(learner)
    before = saved_bytes(learner, tmp_path)
    first = [learner.propose(x, entropy=luck(t)) for t, x in enumerate(ROUNDS.contexts)]
    again = [learner.propose(x, entropy=luck(t)) for t, x in enumerate(ROUNDS.contexts)]
    assert first == again
    assert saved_bytes(learner, tmp_path) == before
    for proposal in first:
        assert 0 <= proposal.call_probability <= proposal.play_probability <= 1 + 1e-9
        assert proposal.low <= proposal.value <= proposal.high


@for_each("name", FACTORIES)
def test_a_value_does_not_depend_on_what_was_looked_at_before(name):
    learner = build(name, LOG)
    live(learner)
    for x, other in zip(ROUNDS.contexts[:20], ROUNDS.contexts[20:40], strict=True):
        mean, spread = learner.sets.evaluate(x)
        learner.propose(other)
        learner.sets.evaluate(other)
        for action in range(6):
            half = learner.half_widths * spread[action]
            expected = mean[action], mean[action] - half, mean[action] + half
            assert learner.value(action, x) == pytest.approx(expected, rel=1e-12)


def test_luck_decides_where_there_is_any():
    learner = build("lints", LOG)
    x = ROUNDS.contexts[0]
    assert len({learner.propose(x, entropy=luck(t)).action for t in range(200)}) > 1
    assert len({learner.propose(x, entropy=b"same").action for _ in range(20)}) == 1
    certain = build("linucb", LOG)
    assert len({certain.propose(x, entropy=luck(t)).action for t in range(50)}) == 1


def test_an_open_call_counts_in_what_is_asked_next_and_not_in_what_is_known():
    """begin lowers the width ahead, leaves the settled sets as they are; cancel and finish end it."""
    learner = build("linucb", LOG)
    x = ROUNDS.contexts[0]
    action = learner.propose(x).action
    known = learner.sets.evaluate(x)
    predicted = learner.begin(action, x)
    assert predicted == pytest.approx(known[0][action])
    mean, width = learner.sets.evaluate(x, pending=True)
    assert mean[action] == pytest.approx(known[0][action], rel=1e-12)
    assert width[action] == pytest.approx(
        known[1][action] / np.sqrt(1 + (known[1][action] / 0.5) ** 2), rel=1e-9
    )
    assert np.array_equal(learner.sets.evaluate(x), known)
    second = learner.begin(action, ROUNDS.contexts[1])
    learner.cancel(action, ROUNDS.contexts[1], second)
    assert learner.sets.evaluate(x, pending=True)[1][action] == pytest.approx(width[action], rel=1e-9)
    learner.finish(action, x, 2.0, predicted)
    assert learner.sets.waiting.sum() == 0
    assert np.array_equal(learner.sets.evaluate(x, pending=True), learner.sets.evaluate(x))


def test_what_was_open_and_came_is_as_if_it_had_come_at_once():
    """With others still open, the sets ahead hold the reward in the place of its prediction."""
    learner, plain = build("linucb", LOG), build("linucb", LOG)
    opened = [(2, x, learner.begin(2, x)) for x in ROUNDS.contexts[:6]]
    for (action, x, predicted), reward in zip(opened[:4], [1.0, -2.0, 0.5, 3.0], strict=True):
        learner.finish(action, x, reward, predicted)
        plain.finish(action, x, reward, plain.begin(action, x))
    rest = [(action, x, plain.begin(action, x)) for action, x, _ in opened[4:]]
    point = ROUNDS.contexts[9]
    assert np.allclose(
        learner.sets.evaluate(point, pending=True)[1], plain.sets.evaluate(point, pending=True)[1], rtol=1e-9
    )
    theta = np.linalg.solve(
        plain.sets.gram[2] + sum(np.outer(x, x) for _, x, _ in rest),
        plain.sets.response[2]
        + sum(predicted * x for (_, x, _), (_, _, predicted) in zip(rest, opened[4:], strict=True)),
    )
    assert learner.sets.evaluate(point, pending=True)[0][2] == pytest.approx(float(point @ theta), rel=1e-9)


def test_the_newest_call_counts_as_pending_once_another_reward_has_come():
    learner, x = build("linucb", LOG), ROUNDS.contexts[0]
    first, newest = (learner.decide(x, eligible=[name]) for name in learner.action_names[:2])
    learner.update(first, 1.0)
    action = learner.index(newest.action)
    _, observed = learner.sets.evaluate(x)
    _, pending = learner.sets.evaluate(x, pending=True)
    leverage = x @ np.linalg.solve(learner.sets.gram[action], x)
    assert pending[action] == pytest.approx(observed[action] / np.sqrt(1 + leverage), rel=1e-9)


def test_pending_is_said_where_only_open_calls_would_skip():
    """The settled sets ask; with enough calls open the answer is `pending`, and no reward is asked for."""
    learner = build("certified", LOG)
    x = next(x for x in ROUNDS.contexts if learner.propose(x).needs_reward)
    reasons = []
    for _ in range(2000):
        proposal = learner.propose(x)
        reasons.append(proposal.reason)
        if not proposal.needs_reward:
            break
        learner.begin(proposal.action, x)
    assert reasons[-1] == "pending"
    assert set(reasons[:-1]) == {"explore"}
    assert proposal.call_probability == 0.0


def test_the_core_refuses_what_does_not_fit():
    learner = build("linucb", LOG)
    x = ROUNDS.contexts[0]
    for action in (-1, 6, True, "a", 1.0, None):
        with pytest.raises(DecisionError, match="index"):
            learner.begin(action, x)
    with pytest.raises(DecisionError, match="no open call"):
        learner.finish(0, x, 1.0, 0.0)
    with pytest.raises(DecisionError, match="no open call"):
        learner.cancel(0, x, 0.0)
    for mask in (np.ones(5, dtype=bool), np.zeros(6, dtype=bool), np.ones(6), [1] * 6):
        with pytest.raises(DecisionError, match="allowed"):
            learner.propose(x, allowed=mask)
    with pytest.raises(DecisionError, match="finite"):
        learner.begin(0, [1e200, 0.0, 0.0])


@for_each("name", FACTORIES)
def test_no_compile_after_the_warm_up(name):
    """Every entry that a round can reach has its machine code."""
    from numba.core import event

    learner = build(name, LOG)
    learner.warm_up()
    x = ROUNDS.contexts[0]
    frozen = ROUNDS.contexts[:10].copy()
    frozen.flags.writeable = False
    with event.install_recorder("numba:compile") as recorder:
        live(learner)
        learner.decide_many(frozen)
        for context in (x.tolist(), frozen[0], x.astype(np.float32)):
            decision = learner.decide(context, eligible=[0, 2, 3])
            if decision.needs_reward:
                learner.update(decision, 1)
        allowed = np.array([True] * 3 + [False] * (learner.n_actions - 3))
        proposal = learner.propose(x, allowed=allowed, spot_checks=False)
        learner.value(learner.best(x, allowed), x)
        learner.check_learnable(0, x)
        if learner.explore == "sampled" and proposal.needs_reward:
            assert 0 <= learner.chance(1, x, allowed) <= 1
    assert recorder.buffer == []


def test_the_best_is_that_of_the_highest_mean_among_the_allowed():
    core = build("confident", LOG)
    for x in ROUNDS.contexts[:20]:
        means = core.sets.theta @ x
        assert means[core.best(x)] == pytest.approx(means.max(), rel=1e-12)
        allowed = np.arange(core.n_actions) != means.argmax()
        assert means[core.best(x, allowed)] == pytest.approx(means[allowed].max(), rel=1e-12)
        mean, low, high = core.value(2, x)
        assert mean == pytest.approx(means[2], rel=1e-12)
        assert (high - low) / 2 == pytest.approx(norm.ppf(0.975) * core.sets.evaluate(x)[1][2], rel=1e-12)


def test_the_chances_of_a_learner_that_samples_add_up():
    core = build("lints", LOG)
    x = ROUNDS.contexts[0]
    chances = [core.chance(action, x) for action in range(core.n_actions)]
    assert sum(chances) == pytest.approx(1, abs=1e-6)
    proposal = core.propose(x, entropy=b"one")
    assert proposal.play_probability == chances[proposal.action]


def test_what_is_open_counts_with_its_prediction_whatever_became_of_the_others():
    """One call settled, one taken back, one left: ahead, θ̂ = (V + xxᵀ)⁻¹(b + x·predicted) of the settled V and b."""
    core = build("linucb", LOG)
    rng = np.random.default_rng(8)
    for _ in range(20):
        rows = rng.random((3, LOG.n_features))
        first, second, third = (core.begin(0, x) for x in rows)
        core.finish(0, rows[0], float(rng.normal(0.0, 3.0)), first)
        core.cancel(0, rows[1], second)
        sets, x = core.sets, rows[2]
        gram, response = sets.gram[0] + np.outer(x, x), sets.response[0] + third * x
        z = rng.random(LOG.n_features)
        mean, _ = sets.evaluate(z, pending=True)
        assert mean[0] == pytest.approx(z @ np.linalg.solve(gram, response), rel=1e-9, abs=1e-12)
        core.cancel(0, x, third)


def test_the_digest_tells_the_order_of_rewards_of_different_actions():
    """What each action has learnt is the same either way; the order is not."""
    x, digests = np.full(LOG.n_features, 0.3), []
    for order in ((0, 1), (1, 0)):
        core = build("linucb", LOG)
        for action in order:
            core.finish(action, x, 1.0, core.begin(action, x))
        digests.append(core.digest())
    assert digests[0] != digests[1]


def test_a_call_is_found_by_its_number_however_many_are_pending(monkeypatch):
    """No search: the other calls of the action are looked at only where its pending copy must be rebuilt."""
    core, twin = build("linucb", LOG), build("linucb", LOG)
    xs = np.tile(ROUNDS.contexts[:40], (25, 1))
    calls = [core.open_call(0, x) for x in xs]
    predicted = [twin.begin(0, x) for x in xs]

    def searched(self, action):
        raise AssertionError("the pending calls were searched")
        yield

    monkeypatch.setattr(type(core), "_imputed_of", searched)
    for number in np.random.default_rng(0).permutation(len(xs))[:500]:
        if number % 3:
            core.observe(calls[number], float(number % 5))
        else:
            core.cancel_call(calls[number])
    monkeypatch.undo()
    for number in np.random.default_rng(0).permutation(len(xs))[:500]:
        if number % 3:
            twin.finish(0, xs[number], float(number % 5), predicted[number])
        else:
            twin.cancel(0, xs[number], predicted[number])
    assert settled(core) == settled(twin)
    assert len(core.pending_calls()) == 500
    for close in (core.cancel_call, core.impute, lambda call: core.observe(call, 1.0)):
        with pytest.raises(DecisionError, match="not pending"):
            close(len(xs))


def test_a_deferred_call_counts_once_it_is_imputed(tmp_path):
    core = build("linucb", LOG)
    x = ROUNDS.contexts[0]
    before = core.sets.evaluate(x, pending=True)
    call = core.open_call(2, x, deferred=True)
    assert np.array_equal(core.sets.evaluate(x, pending=True), before)
    assert core.pending_calls() == []
    assert core.impute(call) == core.pending_call(call).predicted == before[0][2]
    assert core.sets.evaluate(x, pending=True)[1][2] < before[1][2]
    dropped = core.open_call(2, x, deferred=True)
    core.cancel_call(dropped)
    core.observe(call, 1.0)
    assert core.sets.live[2] == 1
