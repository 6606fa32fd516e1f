"""The planner: worlds from the posterior, calibrated intervals, an honest frontier."""

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import sparing
from sparing import confident, economical
from sparing.model.statistics import Statistics
from sparing.planning.plan import LEARNERS, LOG_ALONE, MOST_CONTEXTS, context_pool, plan
from sparing.planning.worlds import Worlds
from sparing.simulation import LinearWorld, draw_log, simulate

PRIOR_MEAN, PRIOR_SCALE, NOISE = np.array([0.3, 0.3, 0.3]), 0.8, 1.0
BELIEFS = {"noise": NOISE, "prior_scale": PRIOR_SCALE, "prior_mean": PRIOR_MEAN, "spot_check": 0.0}


def drawn_from_the_prior(seed, rows=80):
    """A world of 5 actions and 3 features, and a log of it that never tried action 0."""
    luck = np.random.default_rng([77, seed]).standard_normal((5, 3))
    world = LinearWorld(theta=PRIOR_MEAN + PRIOR_SCALE * luck, noise=NOISE)
    return world, draw_log(world, rows=rows, never=[0], seed=seed)


@pytest.fixture(scope="module")
def log():
    return drawn_from_the_prior(1)[1]


@pytest.fixture(scope="module")
def planned(log):
    return plan(
        log,
        horizon=200,
        worlds=29,
        tolerances=(0, 0.1, 0.3),
        learners=LEARNERS,
        radius_scale=0.2,
        workers=1,
        **BELIEFS,
    )


def test_worlds_have_the_posterior_mean_and_covariance(log):
    sums = Statistics.of(log)
    pull = NOISE**2 / PRIOR_SCALE**2
    possible = Worlds(confident(log, **BELIEFS).prior, sums, log.contexts, 0.0, seed=5)
    draws = np.array([possible.parameters(number) for number in range(4000)])
    for action in range(5):
        precision = (sums.gram[action] + pull * np.eye(3)) / NOISE**2
        covariance = np.linalg.inv(precision)
        mean = covariance @ (sums.response[action] + pull * PRIOR_MEAN) / NOISE**2
        # Mahalanobis: n·(m̂ − m)ᵀ Σ⁻¹ (m̂ − m) ~ χ²_3; whitened squares have mean d and variance 2d.
        off = draws[:, action].mean(axis=0) - mean
        assert 4000 * off @ precision @ off < stats.chi2.ppf(1 - 1e-4, 3)
        white = (draws[:, action] - mean) @ np.linalg.cholesky(precision)
        assert np.abs(white.T @ white / 4000 - np.eye(3)).max() < 4.5 * math.sqrt(2 / 4000)
    # Actions are independent of each other.
    flat = draws.reshape(4000, 15)
    correlation = np.corrcoef(flat.T)
    between = np.kron(np.eye(5), np.ones((3, 3))) == 0
    assert np.abs(correlation[between]).max() < 4.5 / math.sqrt(4000)


def test_worlds_meet_the_contexts_of_the_log_with_new_noise(log):
    prior, sums = confident(log, **BELIEFS).prior, Statistics.of(log)
    for misfit in (0.0, 0.6 * NOISE):
        possible = Worlds(prior, sums, log.contexts, misfit, seed=1)
        stream = possible.stream(3, 4000)
        rows = [np.flatnonzero((log.contexts == x).all(axis=1))[0] for x in stream.contexts]
        counts = np.bincount(rows, minlength=log.n_rows)
        assert stats.chisquare(counts).pvalue > 1e-4
        off = stream.means - stream.contexts @ possible.parameters(3).T
        # What the features cannot explain belongs to a context and an action, and takes its share of the noise.
        assert off.std() == pytest.approx(misfit, rel=0.15)
        np.testing.assert_array_equal(off[np.array(rows) == rows[0]].std(axis=0) < 1e-12, True)
        left = math.sqrt(NOISE**2 - misfit**2)
        assert abs(stream.draws.std() - left) < 4.5 * left / math.sqrt(2 * 4000)


def test_scales_that_few_actions_inform_differ_between_worlds():
    """One logged action of two says nothing of how actions differ: worlds have the hyperprior's scales, log-deviation .73."""
    rng = np.random.default_rng(0)
    x = np.c_[np.ones(400), rng.normal(size=(400, 2))]
    log = sparing.Log.from_indices(x, np.zeros(400, dtype=np.int32), rng.normal(size=400), (0, 1))
    prior, sums = economical(log, call_cost=0.01).prior, Statistics.of(log)
    possible = Worlds(prior, sums, x, 0.0, seed=0)
    away = np.array([np.subtract(*possible.parameters(number)[:, 0]) for number in range(3000)])
    # What they share is unknown too: both differ from it by s, and the logged one's own estimate by 1/√400.
    scales = np.hypot(math.sqrt(2) * 0.34 * np.exp(0.73 * rng.standard_normal(200_000)), 1 / math.sqrt(400))
    for level in (0.5, 0.8, 0.95):
        exact = np.quantile(np.abs(scales * rng.standard_normal(200_000)), level)
        assert np.quantile(np.abs(away), level) == pytest.approx(exact, rel=0.2)


def test_a_long_log_lends_a_part_of_its_contexts():
    contexts = np.random.default_rng(0).random((MOST_CONTEXTS + 1000, 2))
    pool = context_pool(contexts, np.random.default_rng(0))
    assert len(pool) == len(np.unique(pool, axis=0)) == MOST_CONTEXTS
    np.testing.assert_array_equal(context_pool(contexts[:100], np.random.default_rng(0)), contexts[:100])


@pytest.mark.thorough
def test_intervals_hold_what_really_happens():
    """Worlds drawn from the prior: the truth is one more draw from the posterior, so it falls into the
    interval of W = 19 worlds with probability (W − 1)/(W + 1) = 0.9 (more for calls, which tie), and the gain
    that is expected is on average the one that comes.
    """
    trials, held, off = 40, Counter(), []
    spare = {name: value for name, value in BELIEFS.items() if name != "spot_check"}
    for trial in range(trials):
        world, log = drawn_from_the_prior(trial)
        terms = {"call_cost": 0.2, "horizon": 200}
        planned = plan(
            log,
            **terms,
            worlds=19,
            tolerances=[0.2],
            learners=["economical", "confident"],
            seed=trial,
            workers=1,
            **BELIEFS,
        )
        assert planned.coverage == pytest.approx(0.9)
        live = (
            economical(log, **{**terms, "calls": 0}, **spare),
            economical(log, **terms, seed=1000 + trial, **spare),
            confident(log, tolerance=0.2, seed=1000 + trial, **BELIEFS),
        )
        alone, *real = (simulate(learner, world, rounds=200, seed=500 + trial) for learner in live)
        for option, trace in zip(planned.options[1:], real, strict=True):
            came = alone.regret[-1] - trace.regret[-1]
            held[option.name, "calls"] += within(trace.calls[-1], option.calls_at())
            held[option.name, "regret"] += within(trace.regret[-1], option.regret_at())
            held[option.name, "gain"] += within(came, planned.gain(option))
            off.append(came - planned.gain(option).mean)
    low, high = stats.binom.ppf([0.001, 0.999], trials, 0.9)
    for (_, what), count in held.items():
        assert low <= count <= (trials if what == "calls" else high)
    for found in (off[::2], off[1::2]):
        assert abs(np.mean(found)) < 3.5 * np.std(found, ddof=1) / math.sqrt(trials)


def within(value, summary):
    return summary.low <= value <= summary.high


def test_frontier_buys_less_regret_with_more_calls(planned):
    frontier = planned.frontier
    calls = [option.calls_at().mean for option in frontier]
    regret = [option.regret_at().mean for option in frontier]
    assert calls == sorted(calls)
    assert (np.diff(regret) < 0).all()
    for option in planned.options:
        beaten = any(
            other.calls_at().mean <= option.calls_at().mean
            and other.regret_at().mean <= option.regret_at().mean
            and other is not option
            for other in planned.options
        )
        assert (option in frontier) == (not beaten)


@pytest.mark.parametrize("name", ["confident", "certified"])
def test_a_smaller_tolerance_is_not_cheaper(planned, name):
    options = [option for option in planned.options if option.name == name]
    assert [option.tolerance for option in options] == [0, 0.1, 0.3]
    for smaller, larger in itertools.pairwise(options):
        saved = larger.calls[:, -1] - smaller.calls[:, -1]  # in the same worlds
        assert saved.mean() < 3 * saved.std(ddof=1) / math.sqrt(len(saved))
    assert options[0].calls_at().mean > 1.2 * options[-1].calls_at().mean


def test_limits_of_the_learners(planned):
    by_name = {option.name: option for option in planned.options}
    assert set(by_name) == {LOG_ALONE, *LEARNERS}
    assert planned.alone is by_name[LOG_ALONE]
    assert (planned.alone.calls == 0).all()
    for name in ("moful", "warm_started"):
        assert (by_name[name].calls == np.array(planned.checkpoints)).all()
    for option in planned.options:
        assert (np.diff(option.calls, axis=1) >= 0).all()
        assert (np.diff(option.regret, axis=1) >= 0).all()
        assert (option.calls <= np.array(planned.checkpoints)).all()
    assert planned.checkpoints[-1] == planned.horizon == 200


def test_the_log_alone_is_the_best_mean_of_the_posterior(log):
    planned = plan(log, horizon=50, worlds=19, learners=["moful"], seed=3, workers=1, **BELIEFS)
    sums, pull = Statistics.of(log), NOISE**2 / PRIOR_SCALE**2
    mean = np.linalg.solve(sums.gram + pull * np.eye(3), (sums.response + pull * PRIOR_MEAN)[..., None])[
        ..., 0
    ]
    believed = confident(log, **BELIEFS)
    np.testing.assert_allclose(believed.sets.theta, mean)
    for place, number in enumerate(planned.alone.strata.numbers.tolist()):
        stream = Worlds(believed.prior, sums, log.contexts, 0.0, seed=3).stream(number, 50)
        chosen = stream.means[np.arange(50), (stream.contexts @ mean.T).argmax(axis=1)]
        expected = (stream.means.max(axis=1) - chosen).sum()
        assert planned.alone.regret[place, -1] == pytest.approx(expected)


def test_the_same_for_a_seed_in_any_number_of_threads(log):
    def run(seed, workers):
        chosen = ["confident", "eps_moful"]
        return plan(
            log,
            horizon=40,
            worlds=19,
            learners=chosen,
            tolerances=[0.1],
            seed=seed,
            workers=workers,
            **BELIEFS,
        )

    seen = []
    first = run(4, 1)
    assert first.to_dict() == run(4, 2).to_dict() == run(4, None).to_dict()
    assert first.to_dict() != run(5, 1).to_dict()
    plan(
        log,
        horizon=5,
        worlds=19,
        learners="moful",
        workers=1,
        progress=lambda done, total: seen.append((done, total)),
        **BELIEFS,
    )
    assert seen == [(done, 22) for done in range(1, 23)]


@pytest.mark.parametrize(
    ("worlds", "confidence", "coverage"),
    [(19, 0.9, 0.9), (40, 0.9, 0.9), (59, 0.9, 1 - 4 / 59), (39, 0.95, 0.95)],
)
def test_coverage_is_at_least_what_was_asked(log, worlds, confidence, coverage):
    found = plan(
        log, horizon=2, worlds=worlds, confidence=confidence, learners=["moful"], workers=1, **BELIEFS
    )
    assert found.coverage == pytest.approx(coverage)
    assert found.coverage >= confidence - 1e-12


def test_what_is_printed_and_what_machines_get(planned):
    shown = str(planned)
    for label in ("offline policy", "economical at 0.01", "confident, τ 0.1", "certified, τ 0.3", "moful"):
        assert label in shown
    for word in (
        "exchangeable",
        "contexts are like the log's 80",
        "deviation 1 everywhere (given)",
        "voids their guarantee",
    ):
        assert word in shown
    result = json.loads(json.dumps(planned.to_dict(), allow_nan=False))
    assert len(result["options"]) == len(planned.options) == 14
    assert result["options"][0]["checkpoints"][-1]["calls"] == result["options"][0]["calls"]
    marked = {option["label"] for option in result["options"] if option["frontier"]}
    assert set(result["frontier"]) == marked


def test_bounded_rewards_do_not_stop_a_plan(log):
    wide = (float(log.rewards.min()), float(log.rewards.max()))
    found = plan(log, horizon=60, worlds=19, reward_range=wide, workers=1, prior_scale=0.8)
    assert found.noise < (wide[1] - wide[0]) / 2  # a deviation, not half of the range


def test_planned_worlds_break_ties_each_in_its_own_way(monkeypatch):
    """A live learner's order of ties is as unknown as the world: no action is favoured in all of them."""
    from sparing.planning import plan as planning

    seen = []
    played = planning.play

    def noting(learner, stream, **given):
        seen.append((tuple(learner.priority), tuple(learner.sets.arrays.order), learner.key))
        return played(learner, stream, **given)

    monkeypatch.setattr(planning, "play", noting)
    world = LinearWorld(n_actions=6, n_features=3, seed=1)
    log = draw_log(world, rows=300, seed=1)
    plan(log, horizon=20, worlds=20, seed=0, workers=1)
    orders = {priority for priority, _, _ in seen}
    assert len(orders) >= 7
    assert len({key for *_, key in seen}) >= 7
    for priority, order, _ in seen:
        assert [priority[action] for action in order] == sorted(priority)


def test_rewards_that_never_vary_can_be_planned_from():
    """Red always earns 1 and blue 0: the noise is estimated as 0 and raised until the posterior is exact."""
    x = np.tile([[1.0, 1, 0], [1, 0, 1], [1, 1, 0]], (40, 1))
    actions, rewards = np.tile([0, 1, 1], 40), np.tile([1.0, 0, 0], 40)
    log = sparing.Log.from_indices(x, actions.astype(np.int32), rewards, ("red", "blue", "gold"))
    assert plan(log, horizon=20, call_cost=0.05, learners="economical", worlds=19, workers=1).options
