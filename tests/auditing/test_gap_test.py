"""Gaps in logs without support: found where they are, not called where there is none, and their least size is said."""

import itertools
import json
import re

import numpy as np
import pytest
from scipy.stats import binom

import sparing
from sparing.auditing import estimate_support
from sparing.auditing import page as report
from sparing.auditing.segments import DEPTH, Binned
from sparing.auditing.support import DEPTH_WEIGHTS, GapTest, count_families, rows_needed
from sparing.errors import MissingExtraError
from sparing.log import Log


@pytest.fixture(autouse=True)
def no_propensities(monkeypatch):
    """None are fitted: these tests are about support, and fitting takes most of the time."""

    def missing(*words, **settings):
        raise MissingExtraError("scikit-learn is not installed")

    monkeypatch.setattr("sparing.auditing.support.fit_propensities", missing)


def people(rng, n, d):
    """Ages from 18 to 90, and other columns that mean nothing."""
    return np.column_stack([rng.uniform(18, 90, n), *rng.normal(size=(d - 1, n))])


def logged(rng, contexts, chances, *, propensities=False):
    n, k = chances.shape
    actions = np.minimum((rng.random(n)[:, None] > chances.cumsum(axis=1)).sum(axis=1), k - 1)
    shown = chances[np.arange(n), actions] if propensities else None
    rewards = (rng.random(n) < 0.3).astype(float)
    names = ["low", "middle", "high"] if k == 3 else range(k)
    features = ["age", *(f"x_{j}" for j in range(1, contexts.shape[1]))]
    return Log.from_arrays(
        contexts,
        [names[a] for a in actions],
        rewards,
        propensities=shown,
        action_names=names,
        feature_names=features,
    )


def doses(rows, seed, *, d=3, above=70.0, k=3, propensities=False):
    """Nobody above this age gets the last action; others get each with at least 0.9/K, and more of it with age."""
    rng = np.random.default_rng([rows, d, k, seed])
    contexts = people(rng, rows, d)
    slope = 1 / (1 + np.exp((54 - contexts[:, 0]) / 18))
    chances = np.full((rows, k), 0.9 / k)
    chances[:, 0] += 0.1 * (1 - slope)
    chances[:, -1] += 0.1 * slope
    chances[contexts[:, 0] > above, -1] = 0
    chances /= chances.sum(axis=1, keepdims=True)
    return logged(rng, contexts, chances, propensities=propensities)


def full(rows, k, seed, *, least=None, d=3):
    """A softmax policy with propensities of `least` or more, and many near it; or a uniform one."""
    rng = np.random.default_rng([rows, k, seed, 1])
    contexts = people(rng, rows, d)
    scaled = (contexts - contexts.mean(axis=0)) / contexts.std(axis=0)
    chances = np.full((rows, k), 1 / k)
    if least is not None:
        scores = np.exp(2 * scaled @ rng.normal(size=(d, k)))
        chances = least + (1 - k * least) * scores / scores.sum(axis=1, keepdims=True)
    return logged(rng, contexts, chances)


def found_last(log, above=70.0):
    """Whether the estimate has the gap of the last action above this age, most of it and little else."""
    _, estimate = estimate_support(log)
    inside, marked = log.contexts[:, 0] > above, np.zeros(log.n_rows, dtype=bool)
    for action, segment in estimate.gaps:
        if action != log.n_actions - 1:
            return False
        marked |= segment.contains(log.contexts)
    return (marked & inside).sum() > 0.7 * inside.sum() and (marked & ~inside).sum() < 0.2 * inside.sum()


@pytest.mark.parametrize("rows", [800, 1200, 1500, 2000])
def test_a_hole_of_a_quarter_of_the_rows_is_found(rows):
    assert sum(found_last(doses(rows, seed)) for seed in range(20)) >= 19


def test_the_audit_names_the_hole():
    found = sparing.audit(doses(1500, 0))
    (gap,) = found.gap_map.gaps
    assert gap.actions == ("high",)
    assert re.fullmatch(r"age > (69|70)(\.\d+)?", gap.where)
    assert gap.tried <= 4
    assert found.verdict == "deficient"
    assert "action high was" in found.recommendation
    assert "No gap" not in f"{found}{found.headline}"


def test_full_logs_have_no_gap():
    """At most 5 % of such logs may have one; of 240 more than 20 would be a bug."""
    alarms = 0
    for seed, rows, (k, least) in itertools.product(
        range(20), (800, 3000), [(3, None), (8, None), (3, 0.05), (3, 0.1), (5, 0.05), (8, 0.05)]
    ):
        alarms += bool(estimate_support(full(rows, k, seed, least=least))[1].gaps)
    assert alarms <= 20


def test_large_logs_are_split_and_have_no_gap_either():
    for seed in range(8):
        _, estimate = estimate_support(full(24_000, 5, seed, least=0.05))
        assert estimate.gaps == ()
        assert estimate.rows_searched + estimate.rows_counted == 24_000
    assert found_last(doses(24_000, 0, above=85.0), above=85.0)


@pytest.mark.parametrize(("rows", "k"), [(800, 3), (1500, 8), (24_000, 3)])
def test_a_gap_half_as_large_again_as_the_least_is_found(rows, k):
    share = estimate_support(full(rows, k, 0))[1].visible_share
    above = 90 - 72 * 1.5 * share
    assert sum(found_last(doses(rows, seed, above=above, k=k), above) for seed in range(15)) >= 12
    above = 90 - 72 * 0.5 * share
    assert sum(found_last(doses(rows, seed, above=above, k=k), above) for seed in range(3)) <= 1


def test_no_gap_says_how_small_one_could_have_been_seen(tmp_path):
    log = full(1500, 3, 0)
    found = sparing.audit(log)
    share = found.metrics["smallest_visible_gap"]
    # 2·3 sides for each of 3 actions, and half of the error for one condition; none of the rows is a hit.
    assert share == rows_needed(0.05, 0.05 * 0.5 / (3 * 6) / 2) / 1500
    limit = f"aps below {100 * share:.2g}% of rows cannot be seen with 1,500 rows"
    report.write(found, tmp_path / "audit.html")
    values = json.loads(json.dumps(found.to_dict()))
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    for text in (found.recommendation, found.headline, str(found), page, values["recommendation"]):
        assert limit in text
    assert values["estimate"]["visible_share"] == values["metrics"]["smallest_visible_gap"] == share
    few = sparing.audit(log.take(range(100)))
    assert few.support == "unknown"
    assert "with 100 rows no gap can be seen" in few.headline


def test_rows_needed_is_the_rule_of_three():
    for share, error in ((0.01, 0.05), (0.05, 1e-4)):
        m = rows_needed(share, error)
        assert (1 - share) ** m <= error < (1 - share) ** (m - 1)
    assert rows_needed(0.01, 0.05) == 299


def test_families_of_nested_segments_are_enough():
    """Two features with 3 and 4 values, all boxes of at most three sides, counted one by one."""
    cuts = {(0, "low"): 2, (0, "high"): 2, (1, "low"): 3, (1, "high"): 3}
    bound = count_families(np.array([3, 4]))
    for many in range(1, DEPTH + 1):
        families = 0
        for sides in itertools.combinations(cuts, many):
            ways = [cuts[side] for side in sides]
            families += np.prod(ways) // max(ways)
        assert families <= bound[many] <= 2 * families
    assert bound[0] == 1
    assert (count_families(np.array([1, 1])) == 1).all()  # constant features have no sides


def test_nested_segments_share_one_error_probability():
    """The best of all segments {x > c} passes in at most the error that the family has, at the very share tested against."""
    rng, rows = np.random.default_rng(0), 400
    contexts = np.arange(rows, dtype=float)[:, None]
    log = Log.from_arrays(contexts, [0, 1] * 200, np.zeros(rows), action_names=range(2))
    test = GapTest.of(log, Binned(contexts), bar=0.05, error=0.4)
    assert test.errors == pytest.approx(0.4 * DEPTH_WEIGHTS / (2 * count_families(np.array([rows]))))
    sizes, passed = np.arange(1, rows + 1), 0
    for _ in range(4000):
        hits = np.cumsum(rng.random(rows) < 0.05)
        passed += (binom.cdf(hits, sizes, 0.05) <= test.allowed(1, hits)).any()
    assert 0 < passed <= 4000 * test.errors[1] + 4 * np.sqrt(4000 * test.errors[1])


def test_logged_propensities_decide():
    """270 items, some of them rare, all possible everywhere: one number for what is missing, and no gaps but never-logged items."""
    rng = np.random.default_rng(0)
    contexts = people(rng, 10_000, 3)
    popular = np.exp(-np.arange(270) / 60) * np.exp(0.5 * rng.normal(size=270))
    tilt = np.exp(0.02 * np.outer(contexts[:, 0] - 54, rng.normal(size=270)))
    chances = popular * tilt / (popular * tilt).sum(axis=1, keepdims=True)
    log = logged(rng, contexts, chances, propensities=True)
    found = sparing.audit(log, policy=np.full((10_000, 270), 1 / 270))
    never = len(found.never_logged)
    assert found.gap_map.found == (never > 0)
    implied = found.metrics["implied_unsupported_share"]
    assert found.estimated_unsupported_share == pytest.approx(max(0, implied))
    assert found.policy.unsupported_mass == pytest.approx(max(0, found.policy.implied_mass[0]))
    assert [a.supported for a in found.per_action] == [min(1, a.implied) for a in found.per_action]
    assert "other gap" not in found.recommendation
    assert "by estimate" not in f"{found}"
    assert len(re.findall(r"lacks? [^;]*%", str(found))) == 1
    holed = sparing.audit(
        doses(1500, 0, propensities=True)
    )  # what is never logged with 0.3 or more is missing
    (gap,) = holed.gap_map.gaps
    assert (gap.actions, holed.verdict) == (("high",), "deficient")


def test_propensities_too_small_are_called_inconsistent():
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 3, 1500)
    log = Log.from_arrays(
        people(rng, 1500, 2), actions, np.zeros(1500), propensities=np.full(1500, 0.03), action_names=range(3)
    )
    (note,) = (note for note in sparing.audit(log).notes if "inconsistent" in note)
    assert "mean weight 11.1" in note
