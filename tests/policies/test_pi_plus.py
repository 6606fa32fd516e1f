"""π⁺: the closed form solves the linear program, and its limits are those of the mathematics."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from each import for_each
from sparing.errors import LogError, SettingError
from sparing.log import Log
from sparing.policies.pi_plus import UNLOGGED, clip_constant, pi_plus

SOLVER_TOLERANCE = 1e-7
"""How far HiGHS lets a variable leave its constraints."""

ROUNDING = 1e-12
"""A sum of a context's propensities this near to 1 is 1: with M = inf the remainder would take any mass."""

CLIPS = [1.0, 1.5, 3.0, float("inf")]
KNOWLEDGE = ["distribution", "eligible", "propensities"]


def draw(seed, knowledge):
    """Few contexts, many repeats, rewards of both signs and 0, supports of every size."""
    rng = np.random.default_rng(seed)
    n_actions, n_contexts = int(rng.integers(1, 7)), int(rng.integers(1, 6))
    rows = int(rng.integers(1, 16))
    supported = rng.random((n_contexts, n_actions)) < 0.7
    supported[np.arange(n_contexts), rng.integers(0, n_actions, n_contexts)] = True
    mu = rng.uniform(0.05, 1, size=(n_contexts, n_actions)) * supported
    mu /= mu.sum(axis=1, keepdims=True)
    which = rng.integers(0, n_contexts, rows)
    actions = np.array([rng.choice(n_actions, p=mu[c]) for c in which])
    rewards = rng.normal(size=rows) * (rng.random(rows) < 0.85)
    return build(rng.normal(size=(n_contexts, 2))[which], actions, rewards, mu[which], knowledge)


def build(contexts, actions, rewards, mu, knowledge):
    """A log that knows the distributions mu (n, K), or only its logged entries and the sets, or not even those."""
    n_actions = mu.shape[1]
    known = {"propensities": mu[np.arange(len(actions)), actions]}
    if knowledge == "distribution":
        known = {"distribution": mu}
    elif knowledge == "eligible":
        known["eligible"] = [np.flatnonzero(row).tolist() for row in mu]
    return Log.from_arrays(contexts, actions, rewards, action_names=list(range(n_actions)), **known)


def solve(log, clip):
    """The linear program's value by HiGHS, and Σ|r_i/μ_i|.

    Variables: with full distributions every supported (context, action); otherwise the logged pairs and,
    where some supported action was never logged in a context, one more of cap M·(1 − Σ logged μ).
    """
    gain, cap, owner = [], [], []
    for group in range(int(log.groups.max()) + 1):
        rows = np.flatnonzero(log.groups == group)
        share = {}
        for row in rows:
            action = int(log.actions[row])
            share[action] = min(share.get(action, 1.0), log.propensities[row])
        size = int(log.support.sizes[rows].max()) if log.support.known else log.n_actions
        full = log.support.distribution(rows[:1])
        if full is not None:
            share = {a: p for a, p in enumerate(full[0]) if p > 0}
        elif len(share) < size and sum(share.values()) < 1 - ROUNDING:
            share[UNLOGGED] = 1 - sum(share.values())
        for action, propensity in share.items():
            paid = [row for row in rows if log.actions[row] == action]
            gain.append(sum(log.rewards[row] / log.propensities[row] for row in paid))
            cap.append(min(clip * propensity, 1.0))
            owner.append(group)
    sums = sparse.csr_matrix((np.ones(len(owner)), (owner, np.arange(len(owner)))))
    # M = 1 leaves one feasible point; rounding must not take it away.
    bounds = [(0, c * (1 + ROUNDING)) for c in cap]
    result = linprog(-np.array(gain), A_eq=sums, b_eq=np.ones(sums.shape[0]), bounds=bounds, method="highs")
    assert result.status == 0, result.message
    return -result.fun, np.abs(log.rewards / log.propensities).sum()


def entries(plus, group):
    """π⁺ of one distinct context: {action: mass}."""
    chosen = slice(plus.offsets[group], plus.offsets[group + 1])
    return dict(zip(plus.entry_actions[chosen].tolist(), plus.entry_mass[chosen].tolist(), strict=True))


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
@for_each("clip", CLIPS)
def test_the_closed_form_reaches_the_linear_programs_value(clip, knowledge):
    for seed in range(25):
        log = draw(seed, knowledge)
        expected, scale = solve(log, clip)
        value = pi_plus(log, clip).weights @ log.rewards
        assert abs(value - expected) <= SOLVER_TOLERANCE * (1 + scale), seed


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
@for_each("clip", CLIPS)
def test_the_policy_is_feasible(clip, knowledge):
    for seed in range(40):
        log = draw(seed, knowledge)
        plus = pi_plus(log, clip)
        assert plus.clip == clip
        for group in range(int(log.groups.max()) + 1):
            rows = np.flatnonzero(log.groups == group)
            mass = entries(plus, group)
            assert len(mass) == plus.offsets[group + 1] - plus.offsets[group]
            assert sum(mass.values()) == pytest.approx(1, abs=1e-12)
            assert min(mass.values()) >= 0
            logged = dict(zip(log.actions[rows].tolist(), log.propensities[rows].tolist(), strict=True))
            rest = mass.pop(UNLOGGED, 0.0)
            assert set(mass) == set(logged)
            for action, propensity in logged.items():
                assert mass[action] <= clip * propensity * (1 + 1e-12)
            if log.support.known and len(logged) == log.support.sizes[rows[0]]:
                assert rest == 0
            elif rest:
                assert rest <= clip * (1 - sum(logged.values())) * (1 + 1e-9)
            for row in rows:
                carried = mass[int(log.actions[row])]
                assert plus.weights[row] * log.propensities[row] == pytest.approx(carried, abs=1e-15)
        np.testing.assert_allclose(plus.thresholds, log.rewards * np.minimum(plus.weights, clip), rtol=1e-12)


def test_a_larger_cap_never_earns_less():
    for seed in range(60):
        log = draw(seed, "distribution")
        values = [float(pi_plus(log, clip).weights @ log.rewards) for clip in (1, 1.2, 1.5, 2, 5, "inf")]
        assert (np.diff(values) >= -1e-12 * np.abs(log.rewards / log.propensities).sum()).all()


def test_what_is_known_of_unlogged_actions_does_not_change_the_weights():
    """Supported but unlogged actions are one of value 0, whether their propensities are known or not."""
    for seed in range(40):
        known, sets = (pi_plus(draw(seed, kind), 1.7) for kind in ("distribution", "eligible"))
        np.testing.assert_allclose(known.weights, sets.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
@for_each("clip", [1.0, 1.1, 1.5, 2.0, 3.0, 10.0, float("inf")])
@for_each("size", [1, 2, 3, 7, 20])
def test_uniform_logging_on_one_row(size, clip, knowledge):
    mu = np.zeros((2, 24))
    mu[:, 2 : 2 + size] = 1 / size
    log = build(np.eye(2), np.array([2, 2]), np.array([1.5, -0.5]), mu, knowledge)
    plus = pi_plus(log, clip)
    gained = min(clip, size)
    avoided = 1 if size == 1 else max(0, size - clip * (size - 1))
    np.testing.assert_allclose(plus.weights, [gained, avoided], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(plus.thresholds, [1.5 * gained, -0.5 * avoided], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_uniform_logging_makes_the_percentile_ratio_1_and_the_policy_that_of_the_log(knowledge):
    rng = np.random.default_rng(4)
    n_actions, size, n_contexts = 20, 16, 400
    mu = np.zeros((n_contexts, n_actions))
    for row in mu:
        row[rng.choice(n_actions, size, replace=False)] = 1 / size
    which = rng.integers(0, n_contexts, 900)
    actions = np.array([rng.choice(n_actions, p=mu[c]) for c in which])
    contexts = rng.normal(size=(n_contexts, 3))
    log = build(contexts[which], actions, rng.normal(size=900), mu[which], knowledge)
    plus = pi_plus(log, "percentile-ratio")
    assert plus.clip == 1
    np.testing.assert_allclose(plus.weights, 1, rtol=1e-12)
    np.testing.assert_allclose(plus.thresholds, log.rewards, rtol=1e-12)
    for group in range(int(log.groups.max()) + 1):
        mass = entries(plus, group)
        rest = mass.pop(UNLOGGED, 0.0)
        np.testing.assert_allclose(list(mass.values()), 1 / size, rtol=1e-12)
        assert rest == pytest.approx(1 - len(mass) / size, abs=1e-12)


def test_percentile_ratio_of_known_propensities():
    """Of 0.1, 0.2, …, 1.0 the 10th percentile is 0.19 and the 90th 0.91."""
    log = Log.from_arrays(np.eye(10), np.zeros(10, int), np.ones(10), propensities=np.arange(1, 11) / 10)
    assert clip_constant(log, "percentile-ratio") == pytest.approx(0.91 / 0.19, rel=1e-12)
    assert pi_plus(log).clip == clip_constant(log, "percentile-ratio")
    assert clip_constant(log, "inf") == float("inf")
    assert clip_constant(log, "2.5") == clip_constant(log, 2.5) == 2.5
    assert clip_constant(log, 1) == 1


@for_each("clip", [0.99, 0, -1, float("nan"), float("-inf"), "0.5", "ten", "", None])
def test_a_cap_below_1_or_no_number_is_refused(clip):
    log = Log.from_arrays(np.eye(2), [0, 1], [1.0, 2.0], propensities=[0.5, 0.5])
    with pytest.raises(SettingError, match=r"^clip="):
        pi_plus(log, clip)


@pytest.mark.parametrize("clip", ["percentile-ratio", 2.0])
def test_a_log_without_propensities_or_rows_is_refused(clip):
    with pytest.raises(LogError, match="propensities"):
        pi_plus(Log.from_arrays(np.eye(2), [0, 1], [1.0, 2.0]), clip)
    with pytest.raises(LogError, match="propensities"):
        pi_plus(Log.from_arrays(np.eye(2), [0, 1], [1.0, 2.0], eligible=[[0, 1], [0, 1]]), clip)
    empty = Log.from_arrays(np.empty((0, 2)), [], [], propensities=[], action_names=["a"])
    with pytest.raises(LogError, match="without rows"):
        pi_plus(empty, clip)


def test_repeats_with_differing_propensities_are_capped_by_the_smallest():
    """μ(a) = 0.2 and 0.4, M = 1.5: cap 0.3, so the ratios are 1.5 and 0.75."""
    log = Log.from_arrays(
        [[1.0], [1.0], [2.0]],
        ["a", "a", "a"],
        [1.0, 2.0, 1.0],
        propensities=[0.2, 0.4, 0.4],
        action_names=["a", "b"],
    )
    plus = pi_plus(log, 1.5)
    np.testing.assert_allclose(plus.weights, [1.5, 0.75, 1.5], rtol=1e-12)
    np.testing.assert_allclose(plus.thresholds, [1.5, 1.5, 1.5], rtol=1e-12)
    assert entries(plus, plus.groups[0]) == pytest.approx({0: 0.3, UNLOGGED: 0.7})
    assert entries(plus, plus.groups[2]) == pytest.approx({0: 0.6, UNLOGGED: 0.4})


def test_repeats_with_differing_supports_keep_what_either_supports():
    """Rows could take {a, b} and {b, c}; a and b were logged, so the mass left to c is not theirs."""
    log = Log.from_arrays(
        [[1.0], [1.0]],
        ["a", "b"],
        [1.0, 2.0],
        distribution=[[0.6, 0.4, 0.0], [0.0, 0.3, 0.7]],
        action_names=["a", "b", "c"],
    )
    plus = pi_plus(log, 1.0)
    assert entries(plus, 0) == pytest.approx({0: 0.6, 1: 0.3, UNLOGGED: 0.1})
    np.testing.assert_allclose(plus.weights, 1, rtol=1e-12)


def test_differing_repeats_solve_the_linear_program_with_the_smallest_propensities():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = 12
        mu = rng.dirichlet(np.full(5, 3.0), size=rows)
        actions = np.array([rng.choice(4, p=row[:4] / row[:4].sum()) for row in mu])
        contexts = rng.normal(size=(3, 1))[rng.integers(0, 3, rows)]
        log = build(contexts, actions, rng.normal(size=rows), mu, "propensities")
        for clip in CLIPS[1:]:
            expected, scale = solve(log, clip)
            plus = pi_plus(log, clip)
            assert abs(plus.weights @ log.rewards - expected) <= SOLVER_TOLERANCE * (1 + scale)
            assert (plus.weights <= clip * (1 + 1e-12)).all()


def test_caps_too_small_for_a_policy_still_make_one():
    """Both actions logged, smallest propensities 0.5 and 0.2: at M = 1 no policy fits, the nearest is taken."""
    log = Log.from_arrays([[1.0], [1.0]], ["a", "b"], [1.0, 1.0], distribution=[[0.5, 0.5], [0.8, 0.2]])
    plus = pi_plus(log, 1.0)
    assert entries(plus, 0) == pytest.approx({0: 0.5 / 0.7, 1: 0.2 / 0.7})
    np.testing.assert_array_equal(plus.thresholds, [1.0, 1.0])


def test_contexts_are_told_apart_by_id_where_the_log_has_ids():
    shared = {"propensities": [0.5, 0.5], "action_names": ["a", "b"]}
    together = Log.from_arrays([[1.0], [1.0]], ["a", "b"], [2.0, 1.0], **shared)
    apart = Log.from_arrays([[1.0], [1.0]], ["a", "b"], [2.0, 1.0], context_ids=[7, 8], **shared)
    np.testing.assert_allclose(pi_plus(together, "inf").weights, [2, 0])
    np.testing.assert_allclose(pi_plus(apart, "inf").weights, [2, 2])


def test_a_context_keeps_its_policy_however_large_the_log_around_it_is():
    rng = np.random.default_rng(9)
    n_contexts, n_actions = 20_000, 6
    which = np.repeat(np.arange(n_contexts), 3)
    contexts = np.arange(n_contexts, dtype=float)[:, None]
    mu = rng.dirichlet(np.ones(n_actions), size=n_contexts)
    actions = np.concatenate([rng.choice(n_actions, 3, p=row) for row in mu])
    log = build(contexts[which], actions, rng.normal(size=3 * n_contexts), mu[which], "propensities")
    plus = pi_plus(log, 1.3)
    total = np.add.reduceat(plus.entry_mass, plus.offsets[:-1])
    np.testing.assert_allclose(total, 1, atol=1e-14)
    for context in (0, 1, n_contexts // 2, n_contexts - 1):
        rows = np.flatnonzero(which == context)
        np.testing.assert_allclose(pi_plus(log.take(rows), 1.3).weights, plus.weights[rows], rtol=1e-13)


def test_no_mass_on_unlogged_actions_where_all_were_logged():
    """Unknown support, every action logged in the one context, μ differing between repeats."""
    log = Log.from_arrays(
        np.ones((3, 1)), [0, 0, 1], [-1.0, -1.0, -1.0], propensities=[0.5, 0.3, 0.5], context_ids=[7, 7, 7]
    )
    plus = pi_plus(log, "inf")
    assert sorted(plus.entry_actions.tolist()) == [0, 1]
    assert plus.entry_mass.sum() == pytest.approx(1)
