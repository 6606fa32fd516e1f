"""Support estimated from what was tried: right where it can be, undecided elsewhere, and never sure."""

import numpy as np
import pytest

import sparing
from sparing.auditing import estimate_support
from sparing.auditing.support import support_bar
from sparing.errors import LogError, MissingExtraError
from sparing.log import Log
from sparing.simulation import LinearWorld, draw_log


def stripped(log, *, propensities=False, ids=False):
    """The log without its support."""
    return Log.from_arrays(
        log.contexts,
        log.actions,
        log.rewards,
        action_names=log.action_names,
        propensities=log.propensities if propensities else None,
        context_ids=log.context_ids if ids else None,
    )


def drawn(support, unsupported, rows, *, k=8, d=3, seed=0):
    world = LinearWorld(n_actions=k, n_features=d, seed=seed)
    return draw_log(world, rows=rows, support=support, unsupported=unsupported, seed=seed)


@pytest.fixture
def no_scikit_learn(monkeypatch):
    """Propensities cannot be fitted; the support can be estimated without them."""

    def missing(*words, **settings):
        raise MissingExtraError("scikit-learn is not installed")

    monkeypatch.setattr("sparing.auditing.support.fit_propensities", missing)


def test_the_bar_stays_below_the_uniform_share():
    assert support_bar(0.01, 20) == 0.01
    assert support_bar(0.01, 1000) == 0.0005


def test_never_logged_actions_are_found():
    log = drawn("never-logged", 0.25, 2000)
    estimated, estimate = estimate_support(stripped(log))
    np.testing.assert_array_equal(estimated.support.mask(), log.support.mask())
    assert estimated.support.kind == "estimated"
    assert estimate.undecided_share < 0.05
    np.testing.assert_array_equal(estimate.unsupported, (log.counts == 0).astype(float))


def test_regions_are_found_roughly():
    log = drawn("region", 0.4, 20_000, k=4, d=2, seed=3)
    estimated, _ = estimate_support(stripped(log))
    found, blind = ~estimated.support.mask(), ~log.support.mask()
    assert (found & blind).sum() > 0.5 * blind.sum()
    assert (found & blind).sum() > 0.9 * found.sum()


def test_logged_actions_are_always_supported():
    log = stripped(drawn("sharpened", 0.5, 3000))
    estimated, _ = estimate_support(log)
    assert estimated.support.contains(np.arange(log.n_rows), log.actions).all()
    np.testing.assert_array_equal(estimated.contexts, log.contexts)
    np.testing.assert_array_equal(estimated.rewards, log.rewards)


def test_actions_tried_everywhere_are_hardly_ever_called_unsupported(no_scikit_learn):
    """Every pair has a share of 1/8: a gap in a log would be a 5 % event at the very most."""
    wrong = []
    for seed in range(20):
        _, estimate = estimate_support(stripped(drawn("never-logged", 0.0, 2000, seed=seed)))
        wrong.append(estimate.unsupported.mean())
    assert max(wrong) == 0


def test_a_share_at_the_bar_is_called_unsupported_in_at_most_five_per_cent(no_scikit_learn):
    """Pairs whose true share is exactly the bar: the limit is below it with probability ≤ 5 %."""
    called = trials = 0
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        chances = np.array([0.02] * 5 + [0.3] * 3)
        actions = rng.choice(8, 2400, p=chances / chances.sum())
        log = Log.from_arrays(rng.random((2400, 2)), actions, np.zeros(2400), action_names=range(8))
        _, estimate = estimate_support(log, rare=0.02)
        called += estimate.unsupported[:5].sum()
        trials += 5
    # Shares of rows within a log are positively dependent: 300 pairs count for 60 logs at the least.
    assert called / trials <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)
    assert called > 0


def test_few_rows_are_refused_and_more_are_undecided():
    with pytest.raises(LogError, match=r"100 rows are too few .* from 322 rows on, .* below a share of 0.05"):
        estimate_support(stripped(drawn("region", 0.3, 100)))
    _, estimate = estimate_support(stripped(drawn("sharpened", 0.5, 700)))
    assert estimate.undecided_share > 0.1


def test_a_log_with_support_is_refused():
    with pytest.raises(LogError, match="exact already"):
        estimate_support(drawn("region", 0.3, 700))


def test_propensities_are_estimated_or_kept():
    log = drawn("sharpened", 0.4, 3000)
    bare, estimate = estimate_support(stripped(log))
    assert estimate.propensities is not None
    np.testing.assert_array_equal(bare.propensities, estimate.propensities.logged)
    assert ((bare.propensities > 0) & (bare.propensities <= 1)).all()
    kept, estimate = estimate_support(stripped(log, propensities=True))
    np.testing.assert_array_equal(kept.propensities, log.propensities)
    assert estimate.propensities is None


def test_without_scikit_learn_only_the_propensities_are_missing(no_scikit_learn):
    log = stripped(drawn("never-logged", 0.25, 2000))
    estimated, estimate = estimate_support(log)
    assert estimated.propensities is None
    assert estimated.support.unsupported_share == pytest.approx(0.25)
    assert any("scikit-learn is not installed" in note for note in estimate.notes)
    assert "propensities: none logged" in str(sparing.audit(log))


def test_recurring_contexts_reveal_hidden_sets():
    """Three of six actions a context: two of its rows agree in 1/3 of pairs, where the features say 1/6."""
    rng = np.random.default_rng(0)
    contexts = rng.random((400, 3))
    allowed = np.array([rng.permutation(6)[:3] for _ in range(400)])
    rows = np.repeat(np.arange(400), 4)
    actions = allowed[rows, rng.integers(0, 3, 1600)]
    hidden = Log.from_arrays(contexts[rows], actions, np.zeros(1600), action_names=range(6))
    _, estimate = estimate_support(hidden)
    measured, expected, z = estimate.agreement
    assert measured == pytest.approx(1 / 3, abs=0.03)
    assert expected == pytest.approx(1 / 6, abs=0.03)
    assert z > 4
    assert estimate.narrower
    assert any("narrower than estimated" in note for note in estimate.notes)
    free = Log.from_arrays(contexts[rows], rng.integers(0, 6, 1600), np.zeros(1600), action_names=range(6))
    _, estimate = estimate_support(free)
    assert not estimate.narrower


def test_no_recurring_context_is_said():
    _, estimate = estimate_support(stripped(drawn("region", 0.3, 1500)))
    assert estimate.agreement is None
    assert any("No context recurs" in note for note in estimate.notes)


def test_same_seed_same_estimate():
    log = stripped(drawn("region", 0.3, 1500))
    first, second = (estimate_support(log, seed=4)[0] for _ in range(2))
    np.testing.assert_array_equal(first.support.mask(), second.support.mask())
    np.testing.assert_array_equal(first.propensities, second.propensities)


def test_an_estimated_log_is_called_so_after_writing_and_reading(tmp_path):
    estimated, _ = estimate_support(stripped(drawn("never-logged", 0.25, 1000)))
    sparing.write_log(estimated, tmp_path / "log.parquet")
    again = sparing.audit(sparing.read_log(tmp_path / "log.parquet"))
    assert again.support == "estimated"
    assert again.unsupported_share is None
    assert again.estimated_unsupported_share == pytest.approx(0.25)
