"""The pruned search equals the full one, step for step; bounds hold; rank-one updates do not drift."""

from types import SimpleNamespace

import numpy as np
import pytest

from each import for_each
from reference.kernels import best
from reference.rules import Round, optimism, planned
from sparing.model.confidence import Assumptions
from sparing.model.statistics import Statistics
from sparing.native import vectors
from sparing.native.compile import compiled
from sparing.online import rules
from sparing.online.confidence_sets import ConfidenceSets
from sparing.online.engine import choice, packed, runs, search

BOUNDS = ["none", "shared", "quick"]
NOBODY_OUT = np.empty(0, dtype=np.bool_)


def random_sets(
    rng, k, d, *, rows, radius="determinant", constant=None, bounds="quick", share_touched=1.0, **more
):
    """Sets of a log with `rows` rows an action on average, some actions without any."""
    gram, response = np.zeros((k, d, d)), np.zeros((k, d))
    counts = rng.poisson(rows, k) * (rng.random(k) < share_touched)
    for a in np.flatnonzero(counts):
        x = rng.random((counts[a], d))
        gram[a] = x.T @ x
        response[a] = x.T @ (x @ rng.standard_normal(d) + 0.5 * rng.standard_normal(counts[a]))
    sums = Statistics(counts, gram, response, np.ones(k), np.sqrt(d))
    given = Assumptions(noise=0.5, theta_bound=1.0, context_bound=np.sqrt(d), radius=radius, radius_scale=0.2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparing.online.confidence_sets.BOUNDED_FROM", 10**12 if bounds == "none" else 0)
        patch.setattr("sparing.online.confidence_sets.QUICK_FROM", 0 if bounds == "quick" else 10**12)
        sets = ConfidenceSets(sums, given, constant=constant, **more)
    assert (len(sets.arrays.bounds32) > 0, len(sets.arrays.inverse32) > 0) == (
        bounds != "none",
        bounds == "quick",
    )
    sets.prioritise(rng.permutation(k))
    return sets


def chosen(sets, plan, x, eligible=NOBODY_OUT, threshold=np.nan, logged=0, *, ahead=False):
    """What compiled code decides by a plan, in one of the two views."""
    sets.apply_rules(rules.compile_rules(*plan, 0.0))
    sets.scratch.work.threshold, sets.scratch.work.answer = threshold, logged
    action, reason, *rest = choice.choose(
        sets.scratch.pending if ahead else sets.scratch.observed, x, eligible, sets.bounds
    )
    return action, rules.REASONS[reason], *rest


def full_choice(sets, plan, x, eligible, threshold, logged, *, ahead=False):
    """The rules in NumPy over all actions: action and reason."""
    used, explore, least = plan
    mean, spread = sets.evaluate(x, pending=ahead)
    allowed = eligible if len(eligible) else np.ones(len(mean), dtype=bool)
    bold = optimism(used, explore, least, allowed)
    seen = Round(mean, spread, bold, allowed, sets.arrays.priority, sets.frozen, threshold, logged)
    return planned(used, explore, seen)


BEATS = SimpleNamespace(name="log-beats", code=choice.LOG_BEATS)
LIMITS = SimpleNamespace(name="log-beats", code=choice.LOG_BEATS, beats="limit", tolerance=0.0)
POINTS = rules.SupportedRule(np.empty(0))
PLANS = {
    "none": ([], "leader", 1.0),
    "points": ([BEATS, POINTS], "leader", 1.0),
    "limits": ([LIMITS, POINTS], "leader", 1.0),
    "certified": ([rules.CertifiedRule(0.3)], "leader", 1.0),
    "wider": ([rules.CertifiedRule(0.1)], "wider", 1.0),
    "confident": ([rules.ConfidentRule(0.1, 0.95)], "optimistic", 2.5),
    "rival": ([rules.ConfidentRule(0.1, 0.95)], "wider-rival", 2.5),
}
STEPS = 700


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("plan", PLANS)
@for_each(
    ("k", "d", "rows", "radius"),
    [(3, 1, 2, "trace"), (12, 3, 30, "determinant"), (40, 6, 60, "paper"), (40, 6, 0, "determinant")],
)
def test_the_pruned_choice_is_the_full_one(k, d, rows, radius, plan, bounds):
    """Ties, tiny gaps, frozen points, untouched actions, open calls, eligible subsets and odd contexts among them."""
    seed = [k, list(PLANS).index(plan), BOUNDS.index(bounds)]
    rng = np.random.default_rng(seed)
    constant = 0.5 if plan in ("confident", "rival") else None
    sets = random_sets(
        rng, k, d, rows=rows, radius=radius, constant=constant, bounds=bounds, share_touched=0.7
    )
    if plan in ("points", "limits"):
        sets.freeze(rng.choice(k, k // 3, replace=False), rng.standard_normal((k // 3, d)))
    seen, fixed, waiting = set(), rng.random((4, d)), []
    for step in range(STEPS):
        x = rng.random(d) if step % 3 else fixed[rng.integers(4)]
        x = x * 10.0 ** rng.choice([0, 0, 0, -3, 6, -40, 40]) if step % 10 == 0 else x
        x = np.zeros(d) if step % 97 == 0 else x
        eligible = NOBODY_OUT
        if step % 4 == 1:
            eligible = rng.random(k) < rng.random()
            eligible[rng.integers(k)] = True
        threshold = rng.choice([np.nan, 0.0, 1.0])
        logged = int(rng.integers(k))
        for ahead in (True, False):
            given = sets, PLANS[plan], x, eligible, threshold, logged
            action, reason, mean, spread = chosen(*given, ahead=ahead)
            assert (action, reason) == full_choice(*given, ahead=ahead)
            assert (mean, spread) == tuple(array[action] for array in sets.evaluate(x, pending=ahead))
        seen.add(reason)
        if step % 7 == 0 and not sets.frozen[action]:
            row = fixed[rng.integers(4)]
            waiting.append((action, row, sets.open_call(action, row)))
        elif step % 7 == 3 and waiting:
            opened, row, predicted = waiting.pop(rng.integers(len(waiting)))
            left = [(other, value) for action, other, value in waiting if action == opened]
            if rng.random() < 0.5:
                sets.close_call(opened, row, predicted, left)
            else:
                sets.add_observation(opened, row, 1.0)
                sets.close_call(opened, row, predicted, left, 1.0)
        if (reason == "explore" or step % 5 == 0) and not sets.frozen[action]:
            # Rewards on a grid and repeated contexts make sets that differ in the last bits, or not at all.
            sets.add_observation(action, x if np.abs(x).max() < 1e3 else fixed[0], float(rng.integers(-1, 2)))
    assert len(seen) >= (1 if plan == "none" else 2)


def test_many_equal_sets_and_tiny_gaps():
    """Copies of one set, and copies moved by one unit in the last place: order decides, then the last bit."""
    rng = np.random.default_rng(7)
    k, d = 60, 8
    for bounds in BOUNDS:
        sets = random_sets(rng, k, d, rows=40, bounds=bounds)
        a = sets.arrays
        for slot in range(2, k + 1):
            for array in (a.gram, a.inverse, a.theta, a.response, a.log_det, a.radius, a.metric_factor):
                array[slot] = array[1]
        for slot in range(2, k + 1, 3):
            a.theta[slot, slot % d] = np.nextafter(a.theta[1, slot % d], rng.choice([-9.0, 9.0]))
        for slot in range(k + 1):
            search.write_bounds_row(sets.scratch.observed, slot)
        for _ in range(1500):
            x = rng.random(d)
            got = chosen(sets, PLANS["certified"], x)
            assert got[:2] == full_choice(sets, PLANS["certified"], x, NOBODY_OUT, np.nan, 0)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_best_mean_among_gaps_too_small_for_single_precision(bounds):
    """θ̂ that differ by less than a float can hold: only the exact means say which is the best."""
    rng = np.random.default_rng(9)
    sets = random_sets(rng, 20, 4, rows=40, constant=0.5, bounds=bounds)
    theta = sets.arrays.theta
    theta[1:21] = theta[1] + 1e-12 * rng.standard_normal((20, 4))
    for slot in range(21):
        search.write_bounds_row(sets.scratch.observed, slot)
    plan = ([rules.ConfidentRule(np.inf, 0.95)], "optimistic", 2.5)
    for x in rng.random((150, 4)):
        action, reason = chosen(sets, plan, x)[:2]
        assert reason == "confident"
        assert action == best(sets.evaluate(x)[0], np.ones(20, dtype=bool), sets.arrays.priority)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_large_sets_with_close_actions(bounds):
    """300 actions, 24 features, nearly equal parameters: where pruning has most to do."""
    rng = np.random.default_rng(11)
    k, d = 300, 24
    sets = random_sets(rng, k, d, rows=50, constant=1.0, bounds=bounds)
    for plan in ("none", "certified", "confident"):
        for _ in range(700):
            x = rng.random(d)
            got = chosen(sets, PLANS[plan], x)
            assert got[:2] == full_choice(sets, PLANS[plan], x, NOBODY_OUT, np.nan, 0)
            sets.add_observation(got[0], x, float(rng.standard_normal()))


def test_fifty_thousand_steps_of_one_growing_learner():
    """The chosen action is the full argmax at every step, from cold to well explored."""
    rng = np.random.default_rng(3)
    k, d = 30, 5
    sets = random_sets(rng, k, d, rows=0)
    theta = rng.standard_normal((k, d))
    mean, spread, everyone = np.empty(k), np.empty(k), np.ones(k, dtype=bool)
    for x in rng.random((50_000, d)):
        action = chosen(sets, PLANS["none"], x)[0]
        search.evaluate(sets.scratch.observed, x, mean, spread)
        assert action == best(mean + spread, everyone, sets.arrays.priority)
        sets.add_observation(action, x, float(theta[action] @ x + 0.5 * rng.standard_normal()))


@pytest.mark.parametrize("bounds", ["shared", "quick"])
def test_no_set_reaches_above_its_bounds(bounds):
    """upper ≥ top for every touched action, after many updates and under a changing metric."""
    rng = np.random.default_rng(5)
    k, d = 25, 7
    sets = random_sets(rng, k, d, rows=20, bounds=bounds, misfit=0.1)
    mean, spread = np.empty(k), np.empty(k)
    for step in range(4000):
        x = rng.standard_normal(d) * 10.0 ** rng.integers(-2, 3)
        if step % 10 == 0:
            norm = search.scan_bounds(sets.scratch.observed, x, 1.7, NOBODY_OUT, sets.bounds)
            search.evaluate(sets.scratch.observed, x, mean, spread)
            top, slot = mean + 1.7 * spread, sets.arrays.observed_slot
            assert (sets.scratch.work.upper[slot] >= top)[slot > 0].all()
            if bounds == "quick":
                products = sets.scratch.work.products / (norm * norm)
                sets.scratch.work.rough_products[:] = products
                for a in np.flatnonzero(slot):
                    assert not search.pruned(sets.scratch.observed, slot[a], norm, 1.7, top[a])
                    clearly = top[a] + 1.7 * 0.1 + 0.01 * (norm + abs(top[a]))  # the misfit, and rounding
                    assert search.pruned(sets.scratch.observed, slot[a], norm, 1.7, clearly)
        sets.add_observation(
            int(rng.integers(k)), x if np.abs(x).max() < 50 else x / 100, float(rng.standard_normal())
        )


def test_certificates_bound_the_inverse():
    """V⁻¹ ⪯ c·M for every slot: the largest eigenvalue of M⁻¹V⁻¹ is at most c."""
    rng = np.random.default_rng(6)
    sets = random_sets(rng, 12, 5, rows=15, share_touched=0.7)
    for _ in range(3000):
        sets.add_observation(int(rng.integers(12)), rng.standard_normal(5) * rng.choice([0.1, 3.0]), 0.0)
    rows, columns = np.triu_indices(5)
    span = np.zeros((5, 5))
    span[rows, columns] = span[columns, rows] = sets.arrays.metric_inverse[:15]
    for slot in range(sets.arrays.used):
        inverse = np.zeros((5, 5))
        inverse[rows, columns] = inverse[columns, rows] = sets.arrays.inverse[slot, :15]
        largest = np.linalg.eigvals(span @ inverse).real.max()
        assert largest <= sets.arrays.metric_factor[slot] ** 2 <= 6 * largest


@compiled
def dot(a, b):
    return vectors.dot(a, b)


def test_the_order_of_a_sum():
    """Eight interleaved sums added half to half, then the leftover: equal to the last bit."""
    rng = np.random.default_rng(0)
    for n in [*range(1, 40), 528, 2080]:
        a, b = rng.standard_normal(n), rng.standard_normal(n)
        sums, rest = np.zeros(8), 0.0
        for i in range(0, n - n % 8, 8):
            sums = sums + a[i : i + 8] * b[i : i + 8]
        for i in range(n - n % 8, n):
            rest += a[i] * b[i]
        while len(sums) > 1:
            sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
        assert dot(a, b) == sums[0] + rest


@pytest.mark.parametrize("d", [1, 2, 5, 16, 33])
def test_packed_algebra(d):
    rng = np.random.default_rng(d)
    x, rows = rng.standard_normal(d), rng.standard_normal((d + 3, d))
    full = rows.T @ rows + np.eye(d)
    upper = np.triu_indices(d)
    triangle, inverse = full[upper], np.empty(len(upper[0]))
    products, out = np.empty(len(triangle)), np.empty(d)
    size = np.linalg.norm(full) * (x @ x)
    packed.outer(x, products)
    assert dot(triangle, products) == pytest.approx(x @ full @ x, abs=4 * d * size * 2.0**-53)
    rough = packed.rough_dot(triangle.astype(np.float32), products.astype(np.float32))
    assert rough == pytest.approx(x @ full @ x, abs=(len(triangle) + 4) * size * 2.0**-24)
    packed.times(triangle, x, out)
    assert np.allclose(
        out, full @ x, rtol=0, atol=4 * d * 2.0**-53 * np.linalg.norm(full) * np.linalg.norm(x)
    )
    log_det = packed.invert(triangle, inverse, np.empty((d, d)), 0.5) - d * np.log(2)
    rounding = 10 * d * d * np.linalg.cond(full) * 2.0**-53
    assert log_det == pytest.approx(np.linalg.slogdet(full)[1], abs=rounding)
    expected = np.linalg.inv(full)
    assert np.abs(inverse - expected[upper]).max() <= rounding * np.linalg.norm(expected)
    y, other = rng.standard_normal(d), triangle.copy()
    packed.add_both(triangle, x, other, y, 2.0)
    assert np.allclose(triangle, (full + np.outer(x, x))[upper])
    assert np.allclose(other, (full + 2 * np.outer(y, y))[upper])


def test_a_singular_matrix_is_told_and_changes_nothing():
    inverse = np.array([7.0, 8.0, 9.0])
    assert np.isnan(packed.invert(np.array([1.0, 1.0, 1.0]), inverse, np.empty((2, 2)), 1.0))
    assert inverse.tolist() == [7.0, 8.0, 9.0]


@pytest.mark.parametrize("spread", [1.0, 1e4])
def test_a_million_updates_do_not_drift(spread):
    """V·V⁻¹ stays at I, and θ̂ at the least-squares solution, also where features differ in scale."""
    rng = np.random.default_rng(8)
    sets = random_sets(rng, 1, 3, rows=0)
    scale = np.array([1.0, 1.0, spread])
    contexts = rng.standard_normal((1000, 3)) * scale
    rewards = contexts @ (np.array([1.0, -2.0, 3.0]) / scale) + rng.standard_normal(1000)
    for start in range(1000):
        repeat(sets.scratch.observed, contexts, rewards, start)
    assert sets.live[0] == 1_000_000
    gram = np.eye(3) + 1000 * contexts.T @ contexts
    assert np.allclose(sets.gram[0], gram, rtol=1e-9)
    assert not sets.inconsistent()
    fresh = np.linalg.inv(sets.gram[0])
    assert np.abs(sets.inverse[0] / fresh - 1).max() <= 1e-9
    theta = np.linalg.solve(sets.gram[0], sets.response[0])
    assert np.allclose(sets.theta[0] * scale, theta * scale, rtol=1e-9, atol=1e-9)


def repeat(table, contexts, rewards, start):
    """One pass over the rows, from another beginning each time."""
    order = (np.arange(len(rewards)) + start) % len(rewards)
    means = rewards[order, None]
    runs.run(
        table, contexts[order], means, np.zeros(len(order)), False,
        np.full(len(order), np.nan), np.zeros(len(order), dtype=np.int64), 0, 0,
        0, len(order), -1, np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64), 1,
    )  # fmt: skip


def test_a_hundred_thousand_cold_actions_take_little_memory():
    import tracemalloc

    import sparing

    tracemalloc.start()
    learner = sparing.moful(n_actions=100_000, n_features=64)
    rng = np.random.default_rng(0)
    for _ in range(300):
        decision = learner.decide(rng.random(64))
        learner.update(decision, 1.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6
    assert learner.sets.arrays.used <= 301
