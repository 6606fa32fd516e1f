"""`log-beats` by a lower confidence limit: what it knows, when it answers, and where it cannot."""

import math
from collections import Counter

import numpy as np
import pytest

import sparing
from reference.cases import make_log, make_rounds, parameters, run, saved_bytes
from reference.learners import Reference
from sparing import archive
from sparing.errors import FileError, SettingError
from sparing.model.confidence import ConfidenceEllipsoids
from sparing.model.statistics import Statistics
from sparing.online.files import KIND, VERSION

GIVEN = {"noise": 0.5, "theta_bound": 2.0, "context_bound": math.sqrt(3)}
ROUNDS = 400


def limited(log, supported, **more):
    return sparing.eps_moful_ips(
        log, supported=sparing.supported_actions(supported), beats="limit", **{**GIVEN, **more}
    )


def both(seed, *, ids=False, **settings):
    """The learner, its plain twin, and a stream of the log's contexts."""
    theta = parameters(seed)
    log = make_log(seed, theta, rows=200, distinct=70, ids=ids)
    supported = {0: theta[0], 1: theta[1]}
    learner = limited(log, supported, seed=seed, **settings)
    given = {**GIVEN, **settings, "supported": supported, "beats": "limit"}
    return (
        learner,
        Reference("eps_moful_ips", log, priority=learner.priority, **given),
        make_rounds(seed, theta, ROUNDS, log=log),
    )


def agree(learner, reference, rounds, eligible):
    """Equal decisions in every round; how often each reason was given."""
    counts = Counter()
    for t, x in enumerate(rounds.contexts):
        context_id = None if rounds.context_ids is None else rounds.context_ids[t]
        decision = learner.decide(x, eligible=np.flatnonzero(eligible[t]).tolist(), context_id=context_id)
        expected = reference.decide(x, eligible[t], context_id)
        assert (decision.action, decision.needs_reward, decision.reason) == expected, f"round {t}"
        if decision.needs_reward:
            reward = rounds.rewards[t, decision.action]
            learner.update(decision, reward)
            reference.learn(decision.action, x, reward)
        counts[decision.reason] += 1
    return counts


@pytest.mark.parametrize("few", [False, True], ids=["everyone", "eligible subsets"])
@pytest.mark.parametrize("radius", ["determinant", "trace", "paper"])
def test_rounds_are_those_of_the_plain_reference(radius, few):
    counts = Counter()
    for seed, inflate in ((5, 0.0), (6, 0.05), (7, 0.0)):
        settings = {"radius": radius, "radius_scale": 0.1, "inflate": inflate}
        learner, reference, rounds = both(seed, ids=seed == 7, **settings)
        eligible = np.ones((ROUNDS, 6), dtype=bool)
        if few:
            eligible = np.random.default_rng(seed).random((ROUNDS, 6)) < 0.6
            eligible[np.arange(ROUNDS), np.arange(ROUNDS) % 6] = True
        counts += agree(learner, reference, rounds, eligible)
    assert min(counts[reason] for reason in ("explore", "supported", "log-beats")) > 10


def test_the_limit_is_the_highest_of_the_actions_logged_there():
    """x·θ̂_a − ρ_a·sqrt(xᵀV_a⁻¹x) by solving, with half of δ and every action in the union."""
    theta = parameters(8)
    log = make_log(8, theta, rows=200, distinct=70)
    rule = limited(log, [], ridge=0.7, delta=0.1).rules[0]
    for x, found, answer in zip(
        rule.by_context.keys, rule.by_context.thresholds, rule.by_context.answers, strict=True
    ):
        lows = {}
        for action in set(log.actions[(log.contexts == x).all(axis=1)].tolist()):
            rows, rewards = log.contexts[log.actions == action], log.rewards[log.actions == action]
            gram = 0.7 * np.eye(3) + rows.T @ rows
            volume = np.linalg.slogdet(gram / 0.7)[1] + 2 * math.log(6 / 0.05)
            radius = 0.5 * math.sqrt(volume) + math.sqrt(0.7) * 2.0
            reach = np.linalg.solve(gram, x)
            lows[action] = reach @ (rows.T @ rewards) - radius * math.sqrt(x @ reach)
        assert found == pytest.approx(max(lows.values()), rel=1e-9)
        assert lows[answer] == max(lows.values())


def test_own_lows_are_those_of_all_actions():
    log = make_log(9, parameters(9), rows=150, never=[2])
    sums = Statistics.of(log)
    sets = ConfidenceEllipsoids(sums, sparing.moful(log, **GIVEN).assumptions)
    expected = sets.limits(log.contexts)[0][np.arange(150), log.actions]
    np.testing.assert_allclose(sets.own_lows(log.contexts, log.actions), expected, rtol=1e-12)


def test_no_limit_is_above_its_own_actions_top():
    """Where all sets hold, L_a(x) ≤ x·θ*_a ≤ U_a(x): asked to beat the leader itself, a limit could never fire."""
    learner, _, rounds = both(10)
    memory = learner.rules[0].by_context
    run(learner, rounds)
    mean, spread = (np.array(each) for each in zip(*map(learner.sets.evaluate, memory.keys), strict=True))
    learnt = ~learner.sets.frozen[memory.answers]
    tops = (mean + spread)[np.arange(len(memory.keys)), memory.answers]
    assert learnt.sum() > 20
    assert (tops > memory.thresholds)[learnt].all()


def test_a_point_that_is_too_low_is_what_a_skip_can_cost():
    """θ*_0 = 1 is in 𝓛 with its point at 0.8; the log has seen 0.9 of action 1 a hundred thousand times: 0.1 ≤ ε·S_x = 0.2."""
    n = 100_000
    rewards = 0.9 + 0.01 * np.random.default_rng(0).standard_normal(n)
    log = sparing.Log.from_arrays(np.ones((n, 1)), np.ones(n, dtype=int), rewards, action_names=[0, 1])
    given = {"noise": 0.01, "theta_bound": 1.0, "context_bound": 1.0, "beats": "limit"}
    decided = {}
    for inflate in (0.0, 0.2):
        learner = sparing.eps_moful_ips(
            log, supported=sparing.supported_actions({0: [0.8]}), inflate=inflate, **given
        )
        decided[inflate] = learner.decide([1.0])
    assert (decided[0.0].action, decided[0.0].reason) == (1, "log-beats")
    assert decided[0.2].reason != "log-beats", "ε·S_x more, and the point is a valid top"


def test_the_only_eligible_action_is_answered_without_a_call_where_it_was_logged():
    log = sparing.Log.from_arrays([[0.5, 0.5]], [1], [2.0], action_names=[0, 1, 2])
    learner = sparing.eps_moful_ips(log, supported=sparing.supported_actions([]), beats="limit", **GIVEN)
    assert learner.decide([0.5, 0.5], eligible=[1]).reason == "log-beats"
    assert learner.decide([0.5, 0.5], eligible=[2]).reason == "explore"
    assert learner.decide([0.5, 0.4], eligible=[1]).reason == "explore"


def test_an_id_says_nothing_of_a_limit():
    """It may stand for another x than was logged, where the limit does not hold."""
    given = {"action_names": [0, 1], "context_ids": [7]}
    log = sparing.Log.from_arrays([[0.5, 0.5]], [1], [2.0], **given)
    learner = sparing.eps_moful_ips(log, supported=sparing.supported_actions([]), beats="limit", **GIVEN)
    assert learner.decide([0.1, 0.9], eligible=[1], context_id=7).reason == "explore"
    assert learner.decide([0.5, 0.5], eligible=[1], context_id=8).reason == "log-beats"


def test_on_fresh_contexts_it_is_eps_moful_with_half_of_delta():
    theta = parameters(11)
    log = make_log(11, theta, rows=150)
    fresh = make_rounds(11, theta, 200)
    settings = {**GIVEN, "supported": sparing.supported_actions({0: theta[0]}), "radius_scale": 0.2}
    one = run(sparing.eps_moful_ips(log, beats="limit", delta=0.1, **settings), fresh)
    other = run(sparing.eps_moful(log, delta=0.05, **settings), fresh)
    assert [decision[:4] for decision in one] == [decision[:4] for decision in other]


def test_it_is_saved_and_loaded_and_files_without_a_word_are_samples(tmp_path):
    learner, _, rounds = both(12, radius_scale=0.1)
    run(learner, rounds)
    learner.save(tmp_path / "limit.sparing")
    loaded = sparing.load(tmp_path / "limit.sparing")
    assert (loaded.rules[0].beats, loaded.guarantee) == ("limit", learner.guarantee)
    assert saved_bytes(loaded, tmp_path) == saved_bytes(learner, tmp_path)
    contexts = learner.rules[0].by_context.keys
    answers = [one.decide_many(contexts).reasons.tolist() for one in (learner, loaded)]
    assert answers[0] == answers[1]
    assert "log-beats" in answers[0]
    header, arrays = archive.read(tmp_path / "limit.sparing", KIND, VERSION)
    header["rules"][0][1]["beats"] = "luck"
    archive.write(tmp_path / "odd.sparing", KIND, VERSION, header, arrays)
    with pytest.raises(FileError, match="luck"):
        sparing.load(tmp_path / "odd.sparing")
    sample = sparing.eps_moful_ips(make_log(1, parameters(1)), supported=sparing.most_logged(2), **GIVEN)
    assert (sample.rules[0].header(), sample.rules[0].beats) == ({}, "sample")


def test_compiled_runs_are_the_rounds_one_by_one():
    from sparing.simulation import LinearWorld, draw_log, simulate

    world = LinearWorld(n_actions=5, n_features=3, noise=0.5, seed=4)
    log = draw_log(world, rows=800, seed=4)
    settings = {
        "supported": sparing.most_logged(1),
        "beats": "limit",
        "noise": 0.5,
        "radius_scale": 0.2,
        "seed": 4,
    }
    fast, slow = (sparing.eps_moful_ips(log, **settings) for _ in range(2))
    trace = simulate(fast, world, rounds=500, seed=4, stream="in-log", log=log)
    stream = world.live_stream(500, np.random.default_rng([4, 3]), log)
    for t, x in enumerate(stream.contexts):
        decision = slow.decide(x)
        assert (decision.action, decision.reason) == (trace.actions[t], trace.reasons[t])
        if decision.needs_reward:
            slow.update(decision, stream.reward(t, decision.action))
    assert fast.digest() == slow.digest()
    assert min(trace.reason_counts()[reason] for reason in ("log-beats", "explore")) > 20


@pytest.mark.parametrize(
    "wrong", [{"answer": "policy"}, {"clip": "inf"}, {"beats": "mean"}, {"answer": "best"}]
)
def test_what_does_not_go_together_is_refused(wrong):
    log = make_log(1, parameters(1))
    with pytest.raises(SettingError, match=next(iter(wrong))):
        sparing.eps_moful_ips(log, supported=sparing.most_logged(2), **{"beats": "limit", **GIVEN, **wrong})


def test_the_promise_says_what_a_skip_costs_and_how_surely():
    log = make_log(1, parameters(1))
    promise = sparing.eps_moful_ips(
        log, supported=sparing.most_logged(2), beats="limit", delta=0.1, **GIVEN
    ).guarantee
    assert "with probability 0.9 " in promise
    assert "log-beats cost up to ε·S_x" in promise
    small = {"beats": "limit", "radius_scale": 0.5, **GIVEN}
    assert (
        "none: radius_scale"
        in sparing.eps_moful_ips(log, supported=sparing.most_logged(2), **small).guarantee
    )
