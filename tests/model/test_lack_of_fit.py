"""The test of linearity: its identities, its level where rewards are linear, its power where they are cubic."""

import numpy as np
import pytest
from scipy import stats

from sparing import confident, load, moful
from sparing.errors import LogError, MissingExtraError, SettingError
from sparing.log import Log
from sparing.model import linearity as module
from sparing.model.linearity import lack_of_fit, linear_residuals


def make(rows, seed, *, cubic=0.0, noise="normal", k=4, d=3):
    rng = np.random.default_rng([seed, 5])
    x = np.column_stack([rng.uniform(-1, 1, (rows, d)), np.ones(rows)])
    actions = rng.integers(0, k, rows)
    means = np.einsum("nd,nd->n", x, rng.standard_normal((k, d + 1))[actions])
    means += cubic * np.einsum("nd,nd->n", x[:, :d], rng.standard_normal((k, d))[actions]) ** 3
    luck = (
        rng.standard_normal(rows) if noise == "normal" else (rng.exponential(size=rows) - 1) * (1 + x[:, 0])
    )
    return Log.from_arrays(x, actions, means + luck, propensities=np.full(rows, 1 / k))


@pytest.mark.parametrize("noise", ["normal", "skewed and uneven"])
def test_where_rewards_are_linear_it_rarely_fires(noise):
    """60 worlds: no oftener than a coin of the nominal level would in 999 of 1,000 cases."""
    values = np.array([lack_of_fit(make(300, s, noise=noise), boosted=False).p_value for s in range(60)])
    for level in (0.01, 0.05, 0.2):
        assert (values < level).sum() <= stats.binom.ppf(0.999, 60, level)


def test_where_rewards_are_cubic_it_fires():
    found = [lack_of_fit(make(800, seed, cubic=1.0), boosted=False) for seed in range(5)]
    assert all(each.found for each in found)
    assert all(0.02 < each.explained < 1 for each in found)
    assert "NOT linear in the features" in str(found[0])


def test_trees_see_it_too_and_the_smaller_p_counts_twice():
    crooked = lack_of_fit(make(800, 0, cubic=1.0))
    assert crooked.boosted is not None
    assert crooked.boosted > 3
    assert crooked.p_value == pytest.approx(2 * stats.norm.sf(max(crooked.kernel, crooked.boosted)))
    straight = lack_of_fit(make(800, 0))
    assert not straight.found
    assert str(straight).startswith("no sign")


def test_lines_leave_nothing_that_a_feature_tells():
    log = make(100, 1)
    left = linear_residuals(log, np.random.default_rng(0).normal(size=100))
    for action in range(4):
        own = log.actions == action
        np.testing.assert_allclose(left[own] @ log.contexts[own], 0, atol=1e-10)


def test_adding_any_linear_reward_changes_nothing():
    """z is a function of the part of the rewards that no line explains."""
    log = make(400, 2, cubic=0.3)
    moved = Log.from_arrays(
        log.contexts,
        log.actions,
        log.rewards + log.contexts @ [5.0, -3.0, 2.0, 11.0],
        propensities=log.propensities,
    )
    one, other = lack_of_fit(log, boosted=False), lack_of_fit(moved, boosted=False)
    assert other.kernel == pytest.approx(one.kernel, abs=1e-8)


def test_a_learner_names_what_the_log_says_of_its_model(tmp_path):
    bent, straight = confident(make(2000, 0, cubic=1.0)), confident(make(2000, 0))
    assert "the log shows that rewards are NOT linear in the features" in bent.guarantee
    assert "kernel='auto'" in bent.guarantee
    assert "the log shows no sign that rewards are not linear" in straight.guarantee
    bent.save(tmp_path / "l.sparing")
    assert load(tmp_path / "l.sparing").guarantee == bent.guarantee == bent.copy().guarantee
    assert "too few rows to test" in confident(make(6, 0)).guarantee
    assert "linear in the features" not in moful(n_actions=2, n_features=2).guarantee


def test_without_scikit_learn_the_kernel_speaks_alone(monkeypatch):
    def missing(*_, **__):
        raise MissingExtraError("needs sklearn")

    monkeypatch.setattr(module, "grow", missing)
    assert lack_of_fit(make(200, 0)).boosted is None
    with pytest.raises(MissingExtraError):
        lack_of_fit(make(200, 0), boosted=True)


def test_what_it_cannot_do_is_told():
    with pytest.raises(LogError, match="four rows for each of 4 features"):
        lack_of_fit(make(12, 0))
    with pytest.raises(SettingError, match="level"):
        lack_of_fit(make(200, 0), level=0)
