"""`confident`: over worlds drawn from its own prior, at most 1 − confidence of the skips are bad.

Bad means worse than the tolerance. The promise is on the pooled share, E[bad]/E[skips], not on each world;
its upper 95 % limit (a ratio estimate, worlds as clusters) must lie below the nominal share.
"""

import numpy as np
import pytest

from sparing import confident, simulate
from sparing.simulation import LinearWorld, draw_log

pytestmark = pytest.mark.thorough

WORLDS, ROUNDS = 100, 120
K, D, NOISE, TOLERANCE = 8, 3, 1.0, 0.1
PRIOR_MEAN, PRIOR_SCALE = np.array([1.0, -0.5, 0.3]), 0.7


def given(told):
    """The prior and the noise as they are, or as they are told to be."""
    return {"prior_mean": PRIOR_MEAN, "prior_scale": told * PRIOR_SCALE, "noise": told * NOISE}


def pooled(confidence, *, told=1.0, learnt=False, never=None, **settings):
    """Share of bad skips, its standard error, and the share of rounds that were skipped."""
    skips, bad = np.zeros(WORLDS), np.zeros(WORLDS)
    for seed in range(WORLDS):
        rng = np.random.default_rng([seed, 29])
        mean = PRIOR_MEAN + (rng.standard_normal(D) if learnt else 0)
        theta = mean + PRIOR_SCALE * rng.standard_normal((K, D))
        world = LinearWorld(noise=NOISE, theta=theta)
        log = draw_log(world, rows=400, support="never-logged", unsupported=0.25, never=never, seed=seed)
        prior = {} if learnt else given(told)
        learner = confident(log, tolerance=TOLERANCE, confidence=confidence, seed=seed, **prior, **settings)
        losses = simulate(learner, world, rounds=ROUNDS, seed=seed).skipped_losses
        skips[seed], bad[seed] = len(losses), (losses > TOLERANCE).sum()
    share = bad.sum() / skips.sum()
    error = np.sqrt(WORLDS) * (bad - share * skips).std(ddof=1) / skips.sum()
    return share, error, skips.mean() / ROUNDS


@pytest.mark.parametrize("settings", [{"spot_check": 0.0}, {}], ids=["no-spot-checks", "default"])
@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95])
def test_bad_skips_are_no_more_than_doubted(confidence, settings):
    share, error, skipped = pooled(confidence, **settings)
    assert share + 1.645 * error < 1 - confidence
    assert share > 0, "doubt is not so cautious that nothing ever goes wrong"
    assert skipped > 0.25


@pytest.mark.parametrize("explore", ["wider", "sampled"])
def test_the_promise_does_not_rest_on_how_it_explores(explore):
    share, error, skipped = pooled(0.9, explore=explore, spot_check=0.0)
    assert share + 1.645 * error < 0.1
    assert skipped > 0.25


@pytest.mark.parametrize("never", [None, range(2, K), range(1, K)], ids=["six", "two", "one"])
def test_the_promise_holds_with_a_prior_that_the_log_teaches(never):
    """Noise, mean and spread are those of greatest evidence, from six logged actions, two or one."""
    share, error, skipped = pooled(0.8, learnt=True, never=never, spot_check=0.0)
    assert share + 1.645 * error < 0.2
    assert skipped > 0.2


def test_strict_skips_less_and_errs_less():
    """√2 times the deviation of a difference covers any correlation between two estimates."""
    plain, strict = (pooled(0.8, learnt=True, spot_check=0.0, strict=strict) for strict in (False, True))
    assert strict[0] < plain[0]
    assert 0.1 < strict[2] < plain[2]


def test_overstated_knowledge_breaks_the_promise():
    """So the tests above can fail: deviations told at a quarter of their size give too many bad skips."""
    share, error, _ = pooled(0.95, told=0.25, spot_check=0.0)
    assert share - 1.645 * error > 0.05
