"""The audit of a log that is walked: the same bits wherever its rows lie, and numbers that plain NumPy has too."""

from importlib import import_module

import numpy as np
import pytest
from scipy import stats

import sparing
from scanning.tables import write
from sparing import engines
from sparing.auditing import gaps
from sparing.auditing.counts import column_sums, count_segments
from sparing.auditing.segments import Bound, Segment
from sparing.errors import LogError, SettingError
from sparing.hashing import context_hashes, fold_word
from sparing.log import Log, passes, sketches
from sparing.log.rows import InMemoryRows
from sparing.log.sketches import Moments, PowerSums
from sparing.policies.policy import SoftmaxPolicy, UniformPolicy

KINDS = ["propensities", "distributions", "eligible", "nothing"]

looking = import_module("sparing.auditing.audit")  # the package has a function of this name


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(passes, "BATCH_ROWS", 256)
    monkeypatch.setattr(passes, "CHUNK_ROWS", 512)


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(looking, "SAMPLED_ROWS", 2000)


def drawn(kind, rows=5000):
    """A log that lacks actions 1 and 4 in a box, and another one along a line, and says so in one of four ways."""
    rng = np.random.default_rng(0)
    contexts = rng.random((rows, 3))
    weights = np.array([8.0, 4.0, 2.0, 2.0, 1.0, 1.0]) * (1 + (contexts[:, :1] > 0.3))
    weights[contexts[:, 0] > 0.6] *= [1, 0, 1, 1, 0, 1]
    weights[contexts[:, 1] + contexts[:, 2] > 1.4] *= [1, 1, 0, 1, 1, 1]
    weights[:, 3] += np.round(contexts[:, 1], 1)
    chances = weights / weights.sum(axis=1, keepdims=True)
    actions = (chances.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    rewards = contexts[:, 0] * (actions == 0) + rng.normal(size=rows)
    told = {"distributions": {"distribution": chances}, "nothing": {}}.get(
        kind, {"propensities": chances[np.arange(rows), actions]}
    )
    if kind == "eligible":
        told["eligible"] = [np.flatnonzero(row).tolist() for row in chances]
    return Log.from_arrays(contexts, actions, rewards, action_names=range(6), **told)


def soft(log):
    theta = np.random.default_rng(3).normal(size=(log.n_actions, log.n_features))
    return SoftmaxPolicy(log.action_names, theta)


def same(one, other):
    """All that two audits say, to the last bit."""
    assert one.to_dict() == other.to_dict()
    assert np.array_equal(one.gap_map.supported, other.gap_map.supported)
    assert str(one) == str(other)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_scan_is_audited_as_the_log_in_memory(tmp_path, small_blocks, monkeypatch, kind, part, workers):
    if part:
        monkeypatch.setattr(looking, "SAMPLED_ROWS", 2000)
    log = drawn(kind)
    sparing.write_log(log, tmp_path / "log.parquet")
    scanned = sparing.scan(tmp_path / "log.parquet", workers=workers)
    expected = sparing.audit(log, policy=soft(log))
    assert expected.gap_map.gaps
    same(sparing.audit(scanned, policy=soft(log)), expected)
    same(sparing.audit(scanned), sparing.audit(log))


def test_threads_audit_as_one_does(tmp_path):
    path = write(tmp_path / "log.parquet", 270_000)  # more than a sample
    log = sparing.read_log(path)
    policy = UniformPolicy(log.action_names)
    expected = sparing.audit(log, policy=policy)
    for engine in (sparing.engines.local(1), sparing.engines.local(2)):
        same(sparing.audit(sparing.scan(path, engine=engine), policy=policy), expected)


def test_long_logs_are_the_sum_of_their_rows(small_blocks, small_sample):
    log = drawn("distributions")
    policy = soft(log)
    found = sparing.audit(log, policy=policy, rare=0.2)
    mask, chances, mu = log.support.mask(), log.support.distribution(), log.propensities
    assert found.distinct_contexts == len(np.unique(log.contexts, axis=0))
    assert (found.reward_mean, found.reward_range) == (
        pytest.approx(log.rewards.mean(), rel=1e-12),
        (log.rewards.min(), log.rewards.max()),
    )
    assert found.unsupported_share == pytest.approx(1 - mask.mean(), rel=1e-12)
    assert found.unsupported_sizes == {
        size: int((6 - mask.sum(axis=1) == size).sum()) for size in np.unique(6 - mask.sum(axis=1)).tolist()
    }
    np.testing.assert_allclose(
        [a.rare for a in found.per_action], ((chances > 0) & (chances < 0.2)).mean(axis=0)
    )
    overlap = found.overlap
    for percent, value in overlap.quantiles.items():
        assert value == np.quantile(mu, percent / 100)
    assert np.array_equal(overlap.histogram, np.histogram(mu, overlap.edges)[0])
    assert overlap.effective_sample_size == pytest.approx((1 / mu).sum() ** 2 / (mu**-2.0).sum())
    assert overlap.supported_error == pytest.approx((1 / mu).std() / np.sqrt(len(mu)))
    one_over = np.divide(1, chances, out=np.zeros_like(chances), where=mask).sum(axis=1)
    spread = (one_over - mask.sum(axis=1) ** 2).sum()
    assert overlap.contradiction == pytest.approx(
        ((1 / mu - mask.sum(axis=1)).mean(), np.sqrt(spread) / len(mu)), rel=1e-9, abs=1e-12
    )
    table = policy.probabilities(log.contexts)
    mass = (table * ~mask).sum(axis=1)
    weights = table[np.arange(len(mu)), log.actions] / mu
    assert found.policy.unsupported_mass == pytest.approx(mass.mean())
    assert found.policy.mass_quantiles[90] == pytest.approx(np.quantile(mass, 0.9))
    assert found.policy.effective_sample_size == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert found.policy.implied_mass == pytest.approx(
        (1 - weights.mean(), weights.std() / np.sqrt(len(weights)))
    )
    for gap, supported in zip(found.gap_map.gaps, found.gap_map.supported, strict=True):
        inside = gap.segment.contains(log.contexts)
        places = [log.action_names.index(name) for name in gap.actions]
        assert (gap.rows, gap.tried) == (inside.sum(), np.isin(log.actions[inside], places).sum())
        np.testing.assert_allclose(supported, mask[inside].mean(axis=0))


@pytest.mark.parametrize("kind", ["propensities", "nothing"])
def test_an_estimate_from_a_part_says_so_and_is_close(small_blocks, monkeypatch, kind):
    log = drawn(kind, rows=12_000)
    whole = sparing.audit(log)
    monkeypatch.setattr(looking, "SAMPLED_ROWS", 6000)
    part = sparing.audit(log)
    said = "estimated on a random 6,000 of 12,000 rows"
    assert any(said in note for note in part.notes)
    assert not any("estimated on a random" in note for note in whole.notes)
    assert part.estimated_unsupported_share == pytest.approx(whole.estimated_unsupported_share, abs=0.05)
    assert part.overlap.rows == (12_000 if kind == "propensities" else 6000)
    assert sum(part.unsupported_sizes.values()) == (0 if kind == "propensities" else 6000)
    assert list(part.counts.values()) == log.counts.tolist()
    for gap in part.gap_map.gaps:
        inside = gap.segment.contains(log.contexts)
        assert (gap.rows, gap.share) == (inside.sum(), inside.mean())
    # Shares of the sample's rows, not just whether an action was tried at all.
    assert not np.isin(part.gap_map.supported, [0, 1]).all()


def test_an_array_is_a_policy_of_a_log_in_memory(tmp_path, small_blocks, small_sample):
    log = drawn("nothing")
    table = soft(log).probabilities(log.contexts)
    by_table, by_policy = sparing.audit(log, policy=table), sparing.audit(log, policy=soft(log))
    assert by_table.policy.unsupported_mass == pytest.approx(by_policy.policy.unsupported_mass)
    assert by_table.policy.never_logged_mass == pytest.approx(by_policy.policy.never_logged_mass)
    sparing.write_log(log, tmp_path / "log.parquet")
    scanned = sparing.scan(tmp_path / "log.parquet")
    with pytest.raises(SettingError, match=r"object with probabilities\(contexts\)"):
        sparing.audit(scanned, policy=table)
    with pytest.raises(LogError, match=r"log\.sample"):
        sparing.estimate_support(scanned)
    off = table.copy()
    off[1234] = 0.3
    with pytest.raises(SettingError, match=r"at row 1234 sum to 1\.8"):
        sparing.audit(log, policy=off)


def test_the_sample_is_uniform(small_blocks, small_sample):
    """Rows of every part of the log are as likely: a χ² test over ten parts and twenty seeds."""
    rows = InMemoryRows(drawn("eligible"))
    parts = np.zeros(10)
    for seed in range(20):
        seen = looking.first_pass(rows, 0.01, seed)
        assert len(np.unique(seen.numbers)) == seen.sample.n_rows == 2000
        assert np.array_equal(seen.sample.contexts, rows.log.contexts[seen.numbers])
        assert np.array_equal(seen.sample.support.mask(), rows.log.support.mask(seen.numbers))
        parts += np.histogram(seen.numbers, 10, (0, 5000))[0]
    assert stats.chisquare(parts).pvalue > 1e-4


def test_many_contexts_are_counted_about(small_blocks, monkeypatch):
    monkeypatch.setattr(sketches, "MAX_DISTINCT", 1024)
    found = sparing.audit(drawn("eligible"))
    assert not found.contexts_counted
    assert abs(found.distinct_contexts / 5000 - 1) < 5 / np.sqrt(1024)
    assert f"about {found.distinct_contexts:,} distinct contexts" in str(found)
    assert any(note.startswith("There are about") for note in found.notes)


def test_hashes_fold_every_word_and_take_minus_zero_as_zero():
    rng = np.random.default_rng(0)
    contexts = rng.integers(-2, 3, (5003, 4)) * rng.choice([1.0, 0.3, -0.0], (5003, 4))
    expected = np.zeros(5003, dtype=np.uint64)
    for words in (contexts + 0.0).T.copy().view(np.uint64):
        expected = fold_word(expected, words)
    assert np.array_equal(context_hashes(contexts), expected)
    assert np.array_equal(context_hashes(np.where(contexts == 0, 0.0, contexts)), expected)


def test_sketches_join_to_those_of_all(monkeypatch):
    monkeypatch.setattr(sketches, "MAX_VALUES", 100)
    monkeypatch.setattr(sketches, "MAX_DISTINCT", 300)
    rng = np.random.default_rng(1)
    values, hashes = rng.exponential(size=4000), rng.integers(0, 2**63, 4000, dtype=np.uint64)
    values[:50] = 0.0
    parts = np.split(np.arange(4000), [10, 700, 701, 2500])
    joined, distinct = sketches.QuantileSketch(), sketches.DistinctSketch()
    for part in parts:
        joined, distinct = (
            joined + sketches.QuantileSketch.of(values[part]),
            distinct + sketches.DistinctSketch.of(hashes[part]),
        )
    kept = values.view(np.uint64) >> np.uint64(joined.shift)
    keys, counts = np.unique(kept, return_counts=True)
    assert np.array_equal(joined.keys, keys)
    assert np.array_equal(joined.counts, counts)
    assert (
        len(keys)
        <= 100
        < len(
            np.unique(
                kept << np.uint64(1) | (values.view(np.uint64) >> np.uint64(joined.shift - 1)) & np.uint64(1)
            )
        )
    )
    assert joined.numbers[0] == 0.0
    assert np.array_equal(distinct.hashes, np.unique(hashes)[:300])


def test_moments_and_weights_join_to_those_of_all():
    values = np.random.default_rng(2).exponential(size=1000) + 1e6
    parts = [np.array([])[:0], *np.split(values, [1, 300, 640])]
    moments, weights = Moments(), PowerSums()
    for part in parts[1:]:
        moments, weights = moments + Moments.of(part), weights + PowerSums.of(part)
    weights = weights + PowerSums.of(parts[0])
    assert moments.mean == pytest.approx(values.mean(), rel=1e-14)
    assert moments.error == pytest.approx(values.std() / np.sqrt(1000), rel=1e-9)
    assert weights.effective == pytest.approx(values.sum() ** 2 / (values**2).sum())
    assert PowerSums.of(np.zeros(3)).effective == 0


@pytest.mark.parametrize("encoded", [False, True])
def test_a_walk_that_looks_at_few_features_reads_no_others(tmp_path, small_blocks, encoded):
    path = write(tmp_path / "raw.parquet", 1000)
    if encoded:
        sparing.write_log(sparing.read_log(path), tmp_path / "log.parquet")
        path = tmp_path / "log.parquet"
    scanned = sparing.scan(path)
    few = scanned.select(features={1, 3})
    assert len(few.layout.columns.contexts) == 2
    assert set(few.layout.columns.contexts) < set(scanned.layout.columns.contexts)
    all_of_it, looked_at = scanned.read(), few.read()
    assert np.array_equal(looked_at.contexts[:, [1, 3]], all_of_it.contexts[:, [1, 3]])
    assert all_of_it.contexts[:, 2].any()
    assert not looked_at.contexts[:, 2].any()
    assert np.array_equal(looked_at.actions, all_of_it.actions)
    everything = set(range(scanned.n_features))
    assert np.array_equal(scanned.select(features=everything).read().contexts, all_of_it.contexts)


@pytest.mark.parametrize("kind", ["eligible", "nothing"])
def test_a_segment_is_measured_as_its_bounds_say(small_blocks, kind):
    log = drawn(kind)
    sum_of_two = Bound(((0, 1.0), (2, -0.5)), high=0.1)
    segments = [Segment(), Segment((Bound(((1, 1.0),), low=0.2), sum_of_two)), Segment((sum_of_two,))]
    found = count_segments(InMemoryRows(log), segments)
    for place, segment in enumerate(segments):
        inside = segment.contains(log.contexts)
        assert found.sizes[place] == inside.sum()
        assert np.array_equal(found.tried[place], np.bincount(log.actions[inside], minlength=6))
        if log.support.known:
            assert np.array_equal(found.supported[place], log.support.mask()[inside].sum(axis=0))
        else:
            assert found.supported is None


@pytest.mark.parametrize("workers", [1, 3])
def test_an_audit_takes_no_more_threads_than_the_log_was_given(workers, tmp_path, monkeypatch):
    """Of the search for gaps too, which goes on here whatever the engine."""
    started = []

    class Pool(engines.ThreadPoolExecutor):
        def __init__(self, size, **named):
            started.append(size)
            super().__init__(size, **named)

    monkeypatch.setattr(engines, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(7), raising=False)
    monkeypatch.setattr(gaps, "SHORT_CELLS", 0)
    log = drawn("nothing")
    expected = sparing.audit(log)
    assert max(started) == 7
    started.clear()
    path = tmp_path / "log.parquet"
    sparing.write_log(log, path)
    same(sparing.audit(sparing.scan(path, workers=workers)), expected)
    assert max(started, default=1) == workers


@pytest.mark.parametrize("rows", [0, 1, 255, 256, 1021])
def test_columns_are_counted(rows):
    bits = np.random.default_rng(rows).integers(0, 2, (rows, 7), dtype=np.uint8)
    bits[:, 0] = 1  # 255 of them fill a byte
    np.testing.assert_array_equal(column_sums(bits), bits.astype(int).sum(axis=0))
