"""The ways to choose the set of ε-supported actions."""

import numpy as np
import pytest
from scipy import stats

from sparing.errors import SettingError
from sparing.log import Log
from sparing.model.confidence import (
    Assumptions,
    ConfidenceEllipsoids,
    certified_within,
    elbow,
    find_elbow,
    most_logged,
    supported_actions,
)
from sparing.model.statistics import Statistics

ASSUMED = Assumptions(noise=1.0, theta_bound=2.0, context_bound=2.0, ridge=0.5)


def log_of(counts, *, d=2, seed=0, noise=1.0, theta=None):
    rng = np.random.default_rng(seed)
    names = [f"a{i}" for i in range(len(counts))]
    theta = rng.normal(size=(len(counts), d)) if theta is None else theta
    actions = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    contexts = rng.uniform(size=(len(actions), d))
    rewards = np.einsum("ij,ij->i", contexts, theta[actions]) + noise * rng.normal(size=len(actions))
    return Log.from_arrays(contexts, [names[a] for a in actions], rewards, action_names=names)


def choose(supported, log, assumptions=ASSUMED):
    return supported(log, Statistics.of(log), assumptions)


def lstsq_of(log, action):
    chosen = log.actions == action
    return np.linalg.lstsq(log.contexts[chosen], log.rewards[chosen], rcond=None)[0]


def test_top_takes_the_most_logged_actions_with_their_least_squares():
    log = log_of([10, 40, 0, 25, 30])
    chosen = choose(most_logged(3), log)
    np.testing.assert_array_equal(chosen.actions, [1, 3, 4])
    for action, theta in zip(chosen.actions, chosen.theta, strict=True):
        np.testing.assert_allclose(theta, lstsq_of(log, action), rtol=1e-9)
    assert chosen.how == "top(3)"


@pytest.mark.parametrize("size", range(6))
def test_top_with_ties_takes_as_many_as_asked_and_always_the_same(size):
    log = log_of([10, 20, 20, 20, 5])
    chosen = choose(most_logged(size), log).actions
    assert len(set(chosen.tolist())) == size
    others = np.setdiff1d(np.arange(5), chosen)
    if size and len(others):
        assert log.counts[chosen].min() >= log.counts[others].max()
    np.testing.assert_array_equal(choose(most_logged(size), log).actions, chosen)


def test_top_of_none_is_empty():
    chosen = choose(most_logged(0), log_of([3, 3]))
    assert chosen.actions.shape == (0,)
    assert chosen.theta.shape == (0, 2)


def test_top_falls_back_to_ridge_where_the_gram_matrix_is_singular():
    log = Log.from_arrays([[1.0, 2.0]] * 3, ["a"] * 3, [1.0, 2.0, 3.0])
    expected = np.linalg.solve(0.5 * np.eye(2) + 3 * np.outer([1, 2], [1, 2]), 6 * np.array([1, 2]))
    np.testing.assert_allclose(choose(most_logged(1), log).theta, [expected], rtol=1e-12)


def test_top_refuses_an_action_without_rows_and_says_how_many_have_some():
    with pytest.raises(SettingError, match=r"'a1'.*Use most_logged\(2\)"):
        choose(most_logged(3), log_of([10, 0, 5]))


@pytest.mark.parametrize("size", [-1, 4, 100])
def test_top_out_of_range_is_refused(size):
    with pytest.raises(SettingError, match="between 0 and 3"):
        choose(most_logged(size), log_of([10, 10, 5]))


@pytest.mark.parametrize(("n_actions", "rows"), [(2, 50), (10, 100), (20, 200), (20, 3000), (100, 1000)])
def test_uniform_logging_never_shows_an_elbow(n_actions, rows):
    """As under the paper's own logging policy: all falls are chance."""
    for seed in range(200):
        counts = np.random.default_rng([3, seed]).multinomial(rows, np.full(n_actions, 1 / n_actions))
        assert find_elbow(counts, 5) is None


@pytest.mark.parametrize("frequent", [1, 5, 12])
def test_a_clear_elbow_is_always_found(frequent):
    """Ten times the rate: 5,000 rows put the two kinds of counts many deviations apart."""
    rates = np.r_[np.full(frequent, 10.0), np.ones(20 - frequent)]
    for seed in range(200):
        rng = np.random.default_rng([4, seed])
        counts = rng.permutation(rng.multinomial(5000, rates / rates.sum()))
        assert find_elbow(counts, 5) == frequent


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1000, 900, 50, 40], 2),
        ([500, 0, 0], 1),
        ([1000, 400, 300, 10], 3),  # of two falls the larger
        ([1000, 700, 500, 360], None),  # no fall to a half
        ([9, 3, 1, 0], None),  # to a half, but within chance
        ([100], None),
        ([0, 0, 0], None),
        ([70, 70, 70], None),
    ],
)
def test_elbows_by_hand(counts, expected):
    assert find_elbow(np.array(counts), 3) == expected
    assert find_elbow(np.array(counts[::-1]), 3) == expected


def test_elbow_takes_the_actions_before_the_fall():
    log = log_of([4, 120, 3, 100, 110])
    chosen = choose(elbow(), log)
    np.testing.assert_array_equal(chosen.actions, [1, 3, 4])
    np.testing.assert_allclose(chosen.theta[0], lstsq_of(log, 1), rtol=1e-9)
    assert "3" in chosen.how


def test_elbow_says_that_there_is_none():
    with pytest.raises(SettingError, match=r"no sharp drop.*30 to 33.*most_logged\(L\)"):
        choose(elbow(), log_of([33, 30, 31]))


def error_bound(x, *, n_actions, assumptions):
    """ρ·sqrt(λ_max(V⁻¹)) from an action's rows, with K' = K."""
    d = x.shape[1]
    v = assumptions.ridge * np.eye(d) + x.T @ x
    log_det = np.log(np.linalg.det(v) / assumptions.ridge**d)
    radius = assumptions.noise * np.sqrt(log_det + 2 * np.log(n_actions / assumptions.delta))
    radius += np.sqrt(assumptions.ridge) * assumptions.theta_bound
    return radius * np.sqrt(np.linalg.eigvalsh(np.linalg.inv(v)).max())


def test_certified_errors_equal_the_formula_from_rows():
    log = log_of([200, 50, 1, 0], d=3)
    errors = ConfidenceEllipsoids(Statistics.of(log), ASSUMED).errors
    expected = [
        error_bound(log.contexts[log.actions == a], n_actions=4, assumptions=ASSUMED) for a in range(4)
    ]
    np.testing.assert_allclose(errors, expected, rtol=1e-9)
    # Without rows: (σ·sqrt(2·log(K/δ)) + √λ·S_θ)/√λ.
    np.testing.assert_allclose(errors[3], np.sqrt(2 * np.log(80) / 0.5) + 2, rtol=1e-12)


def test_certified_within_takes_the_actions_below_the_bound_with_ridge_estimates():
    log = log_of([400, 30, 900, 0])
    errors = ConfidenceEllipsoids(Statistics.of(log), ASSUMED).errors
    limit = float(np.sort(errors)[1])
    chosen = choose(certified_within(limit), log)
    np.testing.assert_array_equal(chosen.actions, [0, 2])
    for action, theta in zip(chosen.actions, chosen.theta, strict=True):
        rows = log.actions == action
        x, r = log.contexts[rows], log.rewards[rows]
        np.testing.assert_allclose(theta, np.linalg.solve(0.5 * np.eye(2) + x.T @ x, x.T @ r), rtol=1e-9)
    just_below = choose(certified_within(np.nextafter(limit, 0)), log)
    np.testing.assert_array_equal(just_below.actions, np.flatnonzero(errors < limit))
    assert choose(certified_within(1e-9), log).actions.shape == (0,)
    np.testing.assert_array_equal(choose(certified_within(1e9), log).actions, np.arange(4))


def test_the_certified_bound_ignores_a_scale_that_would_void_it():
    sums = Statistics.of(log_of([40, 40]))
    scaled = Assumptions(**{**vars(ASSUMED), "radius_scale": 0.1})
    np.testing.assert_array_equal(
        ConfidenceEllipsoids(sums, scaled).errors, ConfidenceEllipsoids(sums, ASSUMED).errors
    )


@pytest.mark.parametrize("error", [0.0, -1.0, float("nan"), float("inf")])
def test_certified_within_needs_a_positive_error(error):
    with pytest.raises(SettingError, match="certified_within="):
        certified_within(error)


def test_certified_errors_hold_for_all_actions_at_once():
    """‖θ̂_a − θ*_a‖ ≤ bound for every a, in at least 1 − δ of the logs."""
    logs, delta, noise = 200, 0.05, 1.0
    broken = tight = 0
    for seed in range(logs):
        rng = np.random.default_rng([21, seed])
        theta = rng.normal(size=(6, 2))
        log = log_of([150, 80, 40, 20, 5, 0], seed=[22, seed], noise=noise, theta=theta)
        sums = Statistics.of(log)
        assumptions = Assumptions(
            noise, float(np.linalg.norm(theta, axis=1).max()), 2**0.5, ridge=1.0, delta=delta
        )
        bound = ConfidenceEllipsoids(sums, assumptions).errors
        estimates = choose(certified_within(1e9), log, assumptions).theta
        errors = np.linalg.norm(estimates - theta, axis=1)
        broken += bool((errors > bound).any())
        tight += bool((errors > bound / 5).any())
    assert broken <= stats.binom.ppf(1 - 1e-4, logs, delta)
    # The bound is not so wide that this could not fail: a fifth of it breaks nearly always.
    assert tight > 0.9 * logs


def test_given_labels_are_fitted():
    log = log_of([30, 20, 10])
    chosen = choose(supported_actions(["a2", "a0"]), log)
    np.testing.assert_array_equal(chosen.actions, [0, 2])
    for action, theta in zip(chosen.actions, chosen.theta, strict=True):
        np.testing.assert_allclose(theta, lstsq_of(log, action), rtol=1e-9)


def test_given_parameters_are_kept_and_need_no_rows():
    log = log_of([30, 0, 10])
    chosen = choose(supported_actions({"a2": None, "a1": [5, 6], "a0": (1.0, 2.0)}), log)
    np.testing.assert_array_equal(chosen.actions, [0, 1, 2])
    np.testing.assert_array_equal(chosen.theta[:2], [[1, 2], [5, 6]])
    np.testing.assert_allclose(chosen.theta[2], lstsq_of(log, 2), rtol=1e-9)


def test_given_can_be_used_again_and_be_empty():
    log = log_of([30, 20])
    supported = supported_actions(iter(["a1"]))
    for _ in range(2):
        np.testing.assert_array_equal(choose(supported, log).actions, [1])
    assert choose(supported_actions([]), log).theta.shape == (0, 2)
    assert choose(supported_actions({}), log).actions.shape == (0,)


def test_given_numbers_match_numpys_numbers():
    log = Log.from_arrays(np.eye(2), [3, 7], [1.0, 2.0])
    np.testing.assert_array_equal(choose(supported_actions(np.array([7])), log).actions, [1])


@pytest.mark.parametrize("actions", [["a0", "b"], {"b": [1.0, 2.0]}, [0]])
def test_given_unknown_label_is_refused(actions):
    with pytest.raises(SettingError, match="not one of the log's 2 actions"):
        choose(supported_actions(actions), log_of([5, 5]))


@pytest.mark.parametrize("theta", [[1.0], [1.0, 2.0, 3.0], 1.0, [[1.0, 2.0]], [1.0, float("nan")]])
def test_given_parameters_of_the_wrong_shape_or_not_finite_are_refused(theta):
    with pytest.raises(SettingError, match=r"'a0'.*expected 2 finite numbers"):
        choose(supported_actions({"a0": theta}), log_of([5, 5]))


@pytest.mark.parametrize("actions", [["a1"], {"a1": None}])
def test_given_labels_without_rows_need_parameters(actions):
    with pytest.raises(SettingError, match="'a1' has no rows to fit"):
        choose(supported_actions(actions), log_of([5, 0]))
