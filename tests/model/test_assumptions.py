"""Assumptions: what is given is checked, what is missing is estimated and named."""

import numpy as np
import pytest

from each import for_each
from sparing.errors import SettingError
from sparing.log import Log
from sparing.model.confidence import Assumptions
from sparing.model.statistics import Statistics, residual_noise

GIVEN = {"noise": 1.0, "theta_bound": 2.0, "context_bound": 3.0}
NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def sums():
    rng = np.random.default_rng(0)
    log = Log.from_arrays(rng.normal(size=(60, 2)), rng.integers(0, 3, 60), rng.normal(size=60))
    return Statistics.of(log)


@for_each(
    ("name", "value"),
    [
        *(("delta", value) for value in (0.0, 1.0, -0.1, 1.5, NAN, INF)),
        *(("ridge", value) for value in (0.0, -1.0, NAN, INF, -INF)),
        *(("radius_scale", value) for value in (0.0, -1.0, NAN, INF)),
        *(("noise", value) for value in (-1e-9, NAN, INF, -INF)),
        *(("theta_bound", value) for value in (-1.0, NAN, INF)),
        *(("context_bound", value) for value in (-1.0, NAN, INF)),
        *(("radius", value) for value in ("", "Determinant", "beta", None)),
    ],
)
@pytest.mark.parametrize("rows", [False, True])
def test_a_value_out_of_range_is_refused_by_name(sums, name, value, rows):
    with pytest.raises(SettingError, match=f"^{name}="):
        Assumptions.resolve(sums if rows else None, **{**GIVEN, name: value})


@for_each("missing", ["noise", "theta_bound", "context_bound"])
@pytest.mark.parametrize("empty", [None, Statistics.zero(3, 2)])
def test_a_missing_value_cannot_be_estimated_without_rows(missing, empty):
    with pytest.raises(SettingError, match=f"pass {missing}=") as raised:
        Assumptions.resolve(empty, **{**GIVEN, missing: None})
    assert not any(f"{name}=" in str(raised.value) for name in GIVEN if name != missing)


def test_all_missing_values_are_named_at_once():
    with pytest.raises(SettingError, match=r"noise=.*theta_bound=.*context_bound="):
        Assumptions.resolve(None)


def test_what_is_given_is_kept_and_needs_no_rows(sums):
    for rows in (None, Statistics.zero(3, 2), sums):
        resolved = Assumptions.resolve(rows, **GIVEN, ridge=4, delta=0.1, radius="paper", radius_scale=0.2)
        assert resolved == Assumptions(1.0, 2.0, 3.0, 4.0, 0.1, "paper", 0.2)
        assert resolved.estimated == ()
        assert resolved.conditions == ""
        assert "estimated" not in str(resolved)


def test_zero_noise_and_zero_bounds_are_values_not_gaps(sums):
    resolved = Assumptions.resolve(sums, noise=0.0, theta_bound=0.0, context_bound=0.0)
    assert (resolved.noise, resolved.theta_bound, resolved.context_bound) == (0, 0, 0)
    assert resolved.estimated == ()


def test_missing_values_are_estimated_and_named(sums):
    resolved = Assumptions.resolve(sums, ridge=2.0)
    assert resolved.estimated == ("noise", "theta_bound", "context_bound")
    assert resolved.noise == residual_noise(sums, 2.0)
    theta = [np.linalg.solve(2 * np.eye(2) + sums.gram[a], sums.response[a]) for a in range(3)]
    np.testing.assert_allclose(resolved.theta_bound, max(np.linalg.norm(t) for t in theta), rtol=1e-12)
    assert resolved.context_bound == sums.largest
    for name in resolved.estimated:
        value = f"{getattr(resolved, name):.4g}"
        assert f"{name} = {value}" in resolved.conditions
        assert f"{name} {value} (estimated)" in str(resolved)


@pytest.mark.parametrize("missing", ["noise", "theta_bound", "context_bound"])
def test_one_missing_value_leaves_the_others_as_given(sums, missing):
    resolved = Assumptions.resolve(sums, **{**GIVEN, missing: None})
    assert resolved.estimated == (missing,)
    assert missing in resolved.conditions
    for name, value in GIVEN.items():
        if name != missing:
            assert getattr(resolved, name) == value
            assert name not in resolved.conditions


def test_too_few_rows_to_estimate_the_noise_ask_for_it():
    log = Log.from_arrays(np.eye(2), [0, 1], [1.0, 2.0])
    sums = Statistics.of(log)
    with pytest.raises(SettingError, match="pass noise="):
        Assumptions.resolve(sums, ridge=1e-9)
    assert Assumptions.resolve(sums, ridge=1e-9, noise=1.0).estimated == ("theta_bound", "context_bound")


def test_assumed_values_are_a_condition_too():
    resolved = Assumptions(**GIVEN, assumed=("theta_bound",))
    assert resolved.conditions == "conditional on estimated or assumed theta_bound = 2"
    assert "theta_bound 2 (assumed)" in str(resolved)


def test_the_text_names_every_value_and_the_radius():
    text = str(Assumptions(**GIVEN, ridge=4.0, delta=0.01, radius="trace", radius_scale=0.25))
    assert text.startswith("noise 1, theta_bound 2, context_bound 3, ridge 4, delta 0.01, ")
    assert "trace" in text
    assert "0.25" in text
    assert "radius" not in str(Assumptions(**GIVEN))  # unless it was chosen
