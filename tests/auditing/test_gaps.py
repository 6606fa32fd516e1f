"""The gap map finds what was planted, says nothing else, and its upside bounds what is lost."""

import numpy as np
import pytest

import sparing
from sparing.auditing.gaps import find_gaps
from sparing.log import Log
from sparing.model.confidence import Assumptions, ConfidenceEllipsoids
from sparing.model.statistics import Statistics
from sparing.simulation import LinearWorld, draw_log
from sparing.simulation.logging_policies import LoggingPolicy, uniform_on


def gaps_of(log, **settings):
    sums = Statistics.of(log)
    return find_gaps(log, ConfidenceEllipsoids(sums, Assumptions.resolve(sums)), **settings)


def marked(log, gap_map):
    """The (row, action) pairs that the map calls gaps, (n, K)."""
    table = np.zeros((log.n_rows, log.n_actions), dtype=bool)
    for gap in gap_map.gaps:
        columns = [log.action_names.index(name) for name in gap.actions]
        table[:, columns] |= gap.segment.contains(log.contexts)[:, None]
    return table


def planted(rows=6000, seed=0):
    """Actions 1 and 4 closed where x_0 > 0.6 and x_2 ≤ 0.5; action 2 open only where x_1 > 0.3."""
    world = LinearWorld(n_actions=6, n_features=3, noise=1.0, seed=seed)

    def table(contexts):
        mask = np.ones((len(contexts), 6), dtype=bool)
        mask[np.ix_((contexts[:, 0] > 0.6) & (contexts[:, 2] <= 0.5), [1, 4])] = False
        mask[contexts[:, 1] <= 0.3, 2] = False
        return uniform_on(mask)

    return draw_log(world, rows=rows, policy=LoggingPolicy(world.action_names, table), seed=seed)


def test_planted_boxes_are_recovered_and_described():
    log = planted()
    found = gaps_of(log)
    assert sorted(gap.actions for gap in found.gaps) == [(1, 4), (2,)]
    assert (marked(log, found) != ~log.support.mask()).mean() < 0.001
    assert found.coverage > 0.999
    for gap in found.gaps:
        inside = gap.segment.contains(log.contexts)
        assert gap.rows == inside.sum()
        assert gap.share == inside.mean()
        assert (gap.tried, gap.supported) == (0, 0.0)
        assert "never tried" in str(gap)
    box = next(gap for gap in found.gaps if gap.actions == (1, 4))
    assert {bound.terms[0][0] for bound in box.segment.bounds} == {0, 2}
    assert str(box).startswith("where x_0 > 0.6")
    assert "actions 1, 4" in str(box)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_half_spaces_of_region_logging_are_recovered(d):
    """Each action's unsupported half-space: most of it is marked, and hardly anything else."""
    world = LinearWorld(n_actions=6, n_features=d, noise=1.0, seed=0)
    log = draw_log(world, rows=4000, support="region", unsupported=0.3, seed=3)
    marks, blind = marked(log, gaps_of(log, limit=100)), ~log.support.mask()
    assert (marks & blind).sum() > 0.8 * blind.sum()
    assert (marks & blind).sum() > 0.95 * marks.sum()
    assert ((marks & blind).sum(axis=0) > 0.6 * blind.sum(axis=0)).all()


def test_never_logged_actions_are_one_gap_everywhere():
    world = LinearWorld(n_actions=20, n_features=5, seed=0)
    log = draw_log(world, rows=3000, support="never-logged", unsupported=0.2, seed=1)
    found = gaps_of(log)
    (gap,) = found.gaps
    assert gap.actions == tuple(np.flatnonzero(log.counts == 0).tolist())
    assert (gap.where, gap.rows, gap.share, gap.tried) == ("everywhere", 3000, 1.0, 0)
    assert str(gap) == "everywhere: actions 6, 7, 16, 19 never tried; 100% of rows"
    assert found.coverage == 1.0


def test_an_eligible_action_that_was_never_logged_is_a_gap_too():
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    log = Log.from_arrays(
        rng.random((200, 2)), ["a", "b"] * 100, rng.random(200), eligible=[names] * 200, action_names=names
    )
    (gap,) = gaps_of(log).gaps
    assert (gap.actions, gap.where, gap.supported) == (("c",), "everywhere", 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_random_sets_make_no_segment(seed):
    """Under per-context logging any segment would be luck, and none is reported."""
    world = LinearWorld(n_actions=10, n_features=4, seed=seed)
    log = draw_log(world, rows=2000, support="per-context", unsupported=0.5, seed=seed)
    found = gaps_of(log)
    assert (found.gaps, found.found, found.coverage) == ((), 0, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_recurring_contexts_do_not_pass_for_many(seed):
    """30 contexts of 40 rows: windows of a few contexts without an action are luck."""
    rng = np.random.default_rng(seed)
    contexts = np.repeat(rng.random((30, 2)), 40, axis=0)
    sets = np.repeat([rng.permutation(6) < 3 for _ in range(30)], 40, axis=0)
    actions = [int(rng.choice(np.flatnonzero(row))) for row in sets]
    log = Log.from_arrays(
        contexts, actions, rng.random(1200), distribution=uniform_on(sets), action_names=range(6)
    )
    assert gaps_of(log).gaps == ()


def test_no_gaps_where_everything_is_supported():
    world = LinearWorld(n_actions=5, n_features=2, seed=0)
    found = gaps_of(draw_log(world, rows=500, unsupported=0.0, seed=0))
    assert (found.gaps, found.coverage, found.supported.shape) == ((), None, (0, 5))


def test_the_upside_is_its_formula():
    """mean over the segment of max(0, max_a U_a − max over supported b of L_b), from rows, action by action."""
    log = planted(rows=1500, seed=2)
    sums = Statistics.of(log)
    assumed = Assumptions.resolve(sums, noise=1.0, theta_bound=2.0, ridge=0.7, delta=0.1, radius_scale=0.3)
    low, high = np.empty((1500, 6)), np.empty((1500, 6))
    for a in range(6):
        x, r = log.contexts[log.actions == a], log.rewards[log.actions == a]
        v = 0.7 * np.eye(3) + x.T @ x
        radius = np.sqrt(np.log(np.linalg.det(v) / 0.7**3) + 2 * np.log(6 / 0.1)) + np.sqrt(0.7) * 2.0
        mean = log.contexts @ np.linalg.solve(v, x.T @ r)
        width = np.sqrt([c @ np.linalg.solve(v, c) for c in log.contexts])
        low[:, a], high[:, a] = mean - 0.3 * radius * width, mean + 0.3 * radius * width
    best = np.where(log.support.mask(), low, -np.inf).max(axis=1)
    found = find_gaps(log, ConfidenceEllipsoids(sums, assumed))
    assert len(found.gaps) == 2
    for gap in found.gaps:
        inside = gap.segment.contains(log.contexts)
        top = high[inside][:, list(gap.actions)].max(axis=1)
        assert gap.upside == pytest.approx(np.maximum(0, top - best[inside]).mean(), rel=1e-9)
    upsides = [gap.upside for gap in found.gaps]
    assert upsides == sorted(upsides, reverse=True)


def test_the_upside_bounds_the_true_loss():
    """With true noise and bounds it exceeds the gap's true advantage, up to δ; here in all of 30 logs."""
    for seed in range(30):
        world = LinearWorld(n_actions=6, n_features=3, noise=1.0, seed=seed)
        log = draw_log(world, rows=600, support="region", unsupported=0.4, seed=seed)
        sums = Statistics.of(log)
        bound = float(np.linalg.norm(world.theta, axis=1).max())
        assumed = Assumptions.resolve(sums, noise=1.0, theta_bound=bound, context_bound=3**0.5)
        means = world.means(log.contexts)
        best = np.where(log.support.mask(), means, -np.inf).max(axis=1)
        for gap in find_gaps(log, ConfidenceEllipsoids(sums, assumed)).gaps:
            inside = gap.segment.contains(log.contexts)
            true = np.maximum(0, means[inside][:, list(gap.actions)].max(axis=1) - best[inside]).mean()
            assert gap.upside >= true


def test_a_known_range_of_rewards_cuts_the_upside():
    log = planted(rows=800)
    sums = Statistics.of(log)
    assumed = Assumptions.resolve(sums)
    sets = ConfidenceEllipsoids(sums, assumed)
    free, cut = find_gaps(log, sets), find_gaps(log, sets, reward_range=(0.0, 0.5))
    assert max(gap.upside for gap in cut.gaps) <= 0.5
    assert max(gap.upside for gap in free.gaps) > 0.5


def test_without_assumptions_the_largest_come_first():
    log = planted(rows=2000)
    found = find_gaps(log, None)
    assert [gap.upside for gap in found.gaps] == [None, None]
    assert found.gaps[0].rows > found.gaps[1].rows


def test_only_so_many_are_listed_and_measured_on_all_rows(monkeypatch):
    monkeypatch.setattr("sparing.auditing.segments.SEARCHED_ROWS", 1000)
    log = planted(rows=6000)
    found = gaps_of(log, limit=1, seed=5)
    assert (len(found.gaps), found.found, found.searched) == (1, 2, 1000)
    inside = found.gaps[0].segment.contains(log.contexts)
    assert found.gaps[0].rows == inside.sum()
    np.testing.assert_allclose(found.supported[0], log.support.mask()[inside].mean(axis=0), rtol=1e-6)
    assert gaps_of(log, limit=0).gaps == ()


def test_the_same_seed_finds_the_same():
    log = planted(rows=2000)
    assert [str(gap) for gap in gaps_of(log, seed=3).gaps] == [str(gap) for gap in gaps_of(log, seed=3).gaps]


def test_names_of_features_and_actions_are_used():
    log = planted(rows=3000)
    named = Log.from_arrays(
        log.contexts,
        [f"offer {a}" for a in log.actions],
        log.rewards,
        distribution=log.support.distribution(),
        action_names=[f"offer {a}" for a in range(6)],
        feature_names=["age", "income", "visits"],
    )
    words = " / ".join(str(gap) for gap in sparing.audit(named).gap_map.gaps)
    assert "age > 0.6" in words
    assert "income ≤ 0.3" in words
    assert "actions offer 1, offer 4 never tried" in words
