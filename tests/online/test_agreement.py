"""Every algorithm against its plain twin, which computes all from scratch: the same decisions to the last."""

import math
from collections import Counter

import numpy as np
import pytest

import sparing
from reference.cases import make_log, make_rounds, parameters
from reference.learners import Reference
from reference.luck import Luck

ROUNDS = 300
GIVEN = {"noise": 0.5, "theta_bound": 2.0, "context_bound": math.sqrt(3)}
RADII = ["determinant", "trace", "paper"]


def agree(learner, reference, rounds, *, eligible=None):
    """Play both on one stream, asserting equal decisions in every round; how often each reason was given."""
    counts = Counter()
    for t in range(len(rounds)):
        x = rounds.contexts[t]
        context_id = None if rounds.context_ids is None else rounds.context_ids[t]
        allowed = None if eligible is None else np.flatnonzero(eligible[t]).tolist()
        decision = learner.decide(x, eligible=allowed, context_id=context_id)
        expected = reference.decide(x, None if eligible is None else eligible[t], context_id)
        assert (decision.action, decision.needs_reward, decision.reason) == expected, f"round {t}"
        if decision.needs_reward:
            reward = rounds.rewards[t, decision.action]
            learner.update(decision, reward)
            reference.learn(decision.action, x, reward)
        counts[decision.reason] += 1
    return counts


def taught(learner):
    """What the twin of `confident` is told: the scales of its prior. Their fit is tested in tests/model/test_prior.py."""
    known = learner.prior.weights[0] if learner.prior.certain else 0.0
    return {"spread": learner.prior.spread, "flat": learner.prior.flat, "prior_mean": known}


def stream(seed, theta, log):
    """A fresh stream where the seed is even, the log's contexts where it is odd."""
    return make_rounds(seed, theta, ROUNDS, log=log if seed % 2 else None)


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("scale", [0.15, 1.0])
@pytest.mark.parametrize("algorithm", ["moful", "warm_started"])
def test_optimism(algorithm, radius, scale):
    for seed in (1, 2):
        theta = parameters(seed)
        log = make_log(seed, theta, never=[4])
        settings = {**GIVEN, "ridge": 0.8, "delta": 0.1, "radius": radius, "radius_scale": scale}
        learner = getattr(sparing, algorithm)(log, seed=seed, **settings)
        reference = Reference(algorithm, log, priority=learner.priority, **settings)
        assert agree(learner, reference, stream(seed, theta, log)) == {"explore": ROUNDS}


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("inflate", [0.0, 0.1])
def test_points(radius, inflate):
    theta = parameters(3)
    log = make_log(3, theta, rows=200)
    settings = {**GIVEN, "radius": radius, "radius_scale": 0.2, "inflate": inflate}
    top_two = np.argsort(-log.counts, kind="stable")[:2].tolist()
    near = {0: theta[0] + 0.05, 3: theta[3] - 0.05}
    for choice, supported in [
        (sparing.most_logged(2), dict.fromkeys(top_two)),
        (sparing.supported_actions(near), near),
        (sparing.supported_actions([1, 5]), {1: None, 5: None}),
    ]:
        learner = sparing.eps_moful(log, supported=choice, seed=3, **settings)
        reference = Reference("eps_moful", log, priority=learner.priority, supported=supported, **settings)
        assert set(agree(learner, reference, make_rounds(3, theta, ROUNDS))) == {"explore", "supported"}


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("clip", [1.0, 1.7, math.inf])
def test_log_beats_with_repeated_contexts(clip, ids):
    counts = Counter()
    for radius, seed in zip(RADII, (5, 6, 7), strict=True):
        theta = parameters(seed)
        log = make_log(seed, theta, rows=150, distinct=70, ids=ids)
        settings = {**GIVEN, "radius": radius, "radius_scale": 0.2, "clip": clip}
        supported = {0: theta[0], 1: theta[1]}
        learner = sparing.eps_moful_ips(
            log, supported=sparing.supported_actions(supported), seed=seed, **settings
        )
        reference = Reference(
            "eps_moful_ips", log, priority=learner.priority, supported=supported, **settings
        )
        counts += agree(learner, reference, make_rounds(seed, theta, ROUNDS, log=log))
    assert min(counts[reason] for reason in ("explore", "supported", "log-beats")) > 10


def test_log_beats_never_fires_on_fresh_contexts():
    theta = parameters(8)
    log = make_log(8, theta, rows=150)
    settings = {**GIVEN, "radius_scale": 0.2, "clip": math.inf}
    learner = sparing.eps_moful_ips(
        log, supported=sparing.supported_actions({0: theta[0]}), seed=8, **settings
    )
    supported = {0: theta[0]}
    reference = Reference("eps_moful_ips", log, priority=learner.priority, supported=supported, **settings)
    assert "log-beats" not in agree(learner, reference, make_rounds(8, theta, ROUNDS))
    assert "log-beats" in agree(learner, reference, make_rounds(8, theta, ROUNDS, log=log))


def test_log_beats_answers_by_policy_where_one_action_carries_it_all():
    """With rewards above 0 and no clipping, π⁺ puts everything on one logged action."""
    theta = parameters(9, offset=4.0)
    log = make_log(9, theta, rows=150, distinct=70)
    assert log.rewards.min() > 0
    settings = {**GIVEN, "radius_scale": 0.2, "clip": math.inf, "answer": "policy"}
    learner = sparing.eps_moful_ips(log, supported=sparing.supported_actions([]), seed=9, **settings)
    reference = Reference("eps_moful_ips", log, priority=learner.priority, **settings)
    counts = agree(learner, reference, make_rounds(9, theta, ROUNDS, log=log))
    assert counts["log-beats"] > 0


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("explore", ["leader", "wider"])
def test_certified(radius, explore):
    counts = Counter()
    for seed, tolerance in [(10, 0.2), (11, 0.5), (12, 1.0)]:
        theta = parameters(seed)
        log = make_log(seed, theta, never=[2])
        settings = {**GIVEN, "ridge": 1.3, "radius": radius, "radius_scale": 0.5}
        settings |= {"tolerance": tolerance, "explore": explore}
        learner = sparing.certified(log, seed=seed, **settings)
        reference = Reference("certified", log, priority=learner.priority, **settings)
        counts += agree(learner, reference, stream(seed, theta, log))
    assert min(counts["explore"], counts["certified"]) > 100


@pytest.mark.parametrize(
    "items", [None, np.random.default_rng(0).standard_normal((6, 2))], ids=["common", "items"]
)
def test_certified_around_learnt_centres(items):
    counts = Counter()
    for seed in (10, 11, 12):
        theta = parameters(seed, offset=0.8)
        log = make_log(seed, theta, never=[2])
        settings = {**GIVEN, "ridge": 1.3, "radius_scale": 0.5, "tolerance": 0.5}
        learner = sparing.certified(log, seed=seed, center="learnt", items=items, **settings)
        centers = learner.prior.centers()
        assert np.abs(centers).max() > 0.3
        reference = Reference("certified", log, priority=learner.priority, center=centers, **settings)
        counts += agree(learner, reference, stream(seed, theta, log))
    assert min(counts["explore"], counts["certified"]) > 50


@pytest.mark.parametrize("explore", ["optimistic", "wider", "sampled"])
@pytest.mark.parametrize(("misfit", "strict"), [(0.0, False), (0.15, False), (0.0, True)])
def test_confident(explore, misfit, strict):
    counts = Counter()
    for seed, believed in [(13, 0.5), (14, 0.5), (15, 0.2)]:
        theta = parameters(seed)
        log = make_log(seed, theta, never=[3])
        settings = {
            "tolerance": 0.05,
            "confidence": 0.9,
            "explore": explore,
            "misfit": misfit,
            "strict": strict,
        }
        settings |= {"noise": believed, "theta_bound": 1.0, "context_bound": 1.0}
        learner = sparing.confident(log, spot_check=0, seed=seed, **settings)
        settings |= taught(learner)
        reference = Reference("confident", log, priority=learner.priority, luck=Luck(learner.key), **settings)
        counts += agree(learner, reference, stream(seed, theta, log))
        assert learner.monitor.inflation == pytest.approx(reference.inflation(), rel=1e-9)
    assert min(counts["explore"], counts["confident"]) > 50


def test_confident_with_noise_that_is_too_small_widens_alike():
    theta = parameters(16)
    log = make_log(16, theta, noise=1.0)
    settings = {"noise": 0.3, "prior_scale": 1.5, "prior_mean": [0.1, 0.0, -0.1], "tolerance": 0.02}
    learner = sparing.confident(log, spot_check=0, theta_bound=1.0, context_bound=1.0, seed=3, **settings)
    settings |= {"explore": "optimistic", "spread": settings.pop("prior_scale")}
    reference = Reference("confident", log, priority=learner.priority, **settings)
    agree(learner, reference, make_rounds(16, theta, ROUNDS, noise=1.0))
    assert reference.inflation() > 2


@pytest.mark.parametrize("algorithm", ["linucb", "lints"])
def test_baselines(algorithm):
    for seed in (17, 18):
        theta = parameters(seed)
        log = make_log(seed, theta)
        own = {"alpha": 0.7} if algorithm == "linucb" else {}
        learner = getattr(sparing, algorithm)(log, seed=seed, **GIVEN, **own)
        reference = Reference(
            algorithm, log, priority=learner.priority, luck=Luck(learner.key), **GIVEN, **own
        )
        agree(learner, reference, stream(seed, theta, log))


@pytest.mark.parametrize("algorithm", ["moful", "eps_moful", "eps_moful_ips", "certified", "confident"])
def test_eligible_subsets(algorithm):
    theta = parameters(19)
    log = make_log(19, theta, rows=150, distinct=60)
    eligible = np.random.default_rng(19).random((ROUNDS, 6)) < 0.5
    eligible[np.arange(ROUNDS), np.arange(ROUNDS) % 6] = True
    settings, own = {**GIVEN, "radius_scale": 0.2}, {}
    chosen = {}
    if algorithm.startswith("eps"):
        own, chosen = {"supported": {0: theta[0]}}, {"supported": sparing.supported_actions({0: theta[0]})}
    if algorithm == "eps_moful_ips":
        settings["clip"] = math.inf
    if algorithm in ("certified", "confident"):
        settings["tolerance"] = 0.1
    if algorithm == "confident":
        settings["explore"], chosen = "optimistic", {"spot_check": 0}
    learner = getattr(sparing, algorithm)(log, seed=1, **settings, **chosen)
    own |= taught(learner) if algorithm == "confident" else {}
    reference = Reference(algorithm, log, priority=learner.priority, **settings, **own)
    agree(learner, reference, make_rounds(19, theta, ROUNDS, log=log), eligible=eligible)
