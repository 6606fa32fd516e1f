"""The three radii: hand-worked numbers, and the order between them."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparing.model import confidence as formulas
from sparing.model.confidence import RADII, Assumptions, radii
from sparing.native.compile import compiled

BOUNDS = SimpleNamespace(noise=2.0, ridge=4.0, delta=0.05, theta_bound=3.0, context_bound=1.5)
SETTING = {"d": 2, "total": 10, "learnt": 5, "bounds": BOUNDS}


def radius(name, log_det, counts, *, d, total, learnt, bounds):
    """By the formulas themselves, from the numbers that they take."""
    shared = (bounds.noise, bounds.ridge**0.5 * bounds.theta_bound, 2 * np.log(learnt / bounds.delta))
    growth = bounds.context_bound**2 / bounds.ridge
    if name == "determinant":
        return formulas.determinant(np.asarray(log_det), *shared)
    if name == "trace":
        return formulas.trace(np.asarray(counts), growth / d, d, *shared)
    return np.full(len(counts), formulas.paper(total, growth, d, *shared))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 2·√(3 + 2·log 100) + √4·3 = 2·√12.2103404 + 6
        ("determinant", 12.988659491),
        # 2·√(2·log(1 + 4·2.25/8) + 2·log 100) + 6 = 2·√(1.5075436 + 9.2103404) + 6
        ("trace", 12.547635902),
        # 2·√(2·log(5·(1 + 10·2.25/4)/0.05)) + 6 = 2·√(2·log 662.5) + 6 = 2·√12.9920411 + 6
        ("paper", 13.208894816),
    ],
)
def test_hand_worked_numbers(name, expected):
    np.testing.assert_allclose(radius(name, [3.0], [4], **SETTING), [expected], rtol=1e-10)


def test_every_action_has_its_own_radius_but_the_papers():
    log_det, counts = np.array([0.0, 3.0, 7.0]), np.array([0, 4, 90])
    for name in ("determinant", "trace"):
        values = radius(name, log_det, counts, **SETTING)
        assert values.shape == (3,)
        assert (np.diff(values) > 0).all()
    values = radius("paper", log_det, counts, **SETTING)
    np.testing.assert_array_equal(values, values[0])


def test_without_rows_only_the_union_bound_and_the_bias_are_left():
    # 2·√(2·log 100) + 6
    for name in ("determinant", "trace"):
        np.testing.assert_allclose(radius(name, [0.0], [0], **SETTING), [12.069708518], rtol=1e-10)


def test_without_noise_the_bias_is_left():
    bounds = SimpleNamespace(**{**vars(BOUNDS), "noise": 0.0})
    for name in RADII:
        values = radius(name, [3.0, 0.0], [4, 0], **{**SETTING, "bounds": bounds})
        np.testing.assert_array_equal(values, [6.0, 6.0])


def test_determinant_is_the_tightest():
    """Σ log(1 + e_i/λ) ≤ d·log(1 + Σe_i/(λd)) by AM–GM, Σe_i ≤ N·S_x²; the paper's has d ≥ 2 logs of K'/δ."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        d, n_actions, rows = int(rng.integers(1, 8)), int(rng.integers(1, 6)), int(rng.integers(0, 60))
        contexts = rng.normal(size=(n_actions, rows, d)) * rng.uniform(0.1, 3, size=d)
        norms = np.linalg.norm(contexts, axis=2)
        bounds = SimpleNamespace(
            noise=rng.uniform(0.1, 3),
            ridge=10 ** rng.uniform(-3, 3),
            delta=rng.uniform(0.01, 0.5),
            theta_bound=rng.uniform(0, 3),
            context_bound=float(norms.max()) if norms.size else 1.0,
        )
        gram = np.einsum("kni,knj->kij", contexts, contexts)
        log_det = np.linalg.slogdet(np.eye(d) + gram / bounds.ridge)[1]
        counts = np.full(n_actions, rows)
        setting = {"d": d, "total": n_actions * rows, "learnt": n_actions, "bounds": bounds}
        tightest = radius("determinant", log_det, counts, **setting)
        assert (tightest <= radius("trace", log_det, counts, **setting) * (1 + 1e-12)).all()
        if d >= 2:
            assert (tightest <= radius("paper", log_det, counts, **setting) * (1 + 1e-12)).all()


def test_determinant_equals_trace_where_the_contexts_fill_every_direction_alike():
    """AM–GM is an equality: rows S_x·e_i, equally often."""
    d, repeats = 3, 4
    counts = np.array([d * repeats])
    log_det = np.array([d * np.log(1 + repeats * BOUNDS.context_bound**2 / BOUNDS.ridge)])
    setting = {"d": d, "total": int(counts[0]), "learnt": 1, "bounds": BOUNDS}
    tightest = radius("determinant", log_det, counts, **setting)
    np.testing.assert_allclose(tightest, radius("trace", log_det, counts, **setting), rtol=1e-14)


@pytest.mark.parametrize("name", RADII)
def test_all_actions_are_learnt_from_all_rows_where_the_sets_come_from_a_log(name):
    log_det, counts = np.array([0.0, 3.0, 7.0, 1.0, 2.0]), np.array([0, 4, 3, 1, 2])
    bounds = Assumptions(**vars(BOUNDS))
    expected = radius(name, log_det, counts, **SETTING)
    np.testing.assert_allclose(radii(name, log_det, counts, 2, bounds), expected, rtol=1e-15)


@pytest.mark.parametrize("name", RADII)
def test_the_formulas_compile_as_they_stand(name):
    formula = getattr(formulas, name)
    first = {"determinant": (3.0,), "trace": (4, 0.3, 2), "paper": (10, 0.6, 2)}[name]
    assert compiled(formula)(*first, 2.0, 6.0, 9.2) == pytest.approx(
        formula(*first, 2.0, 6.0, 9.2), rel=1e-15
    )
