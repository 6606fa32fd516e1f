"""The training rows of a policy: recognised in any order and format, and split in the same way again."""

import json
from dataclasses import replace

import numpy as np
import pytest

import sparing
from sparing import archive
from sparing.errors import FileError, SettingError
from sparing.log import Log, passes
from sparing.log.rows import InMemoryRows
from sparing.policies import files
from sparing.policies import fingerprint as module
from sparing.policies.fingerprint import SKETCH, Split, TrainingFingerprint, row_hashes


def continuous(n=3000, seed=0, names=("a", "b", "c")):
    rng = np.random.default_rng(seed)
    return Log.from_arrays(
        rng.normal(size=(n, 4)), rng.choice(names, n), rng.normal(size=n), action_names=names
    )


def discrete(n=5000, seed=0):
    """48 different rows at most: any two such logs share their values."""
    rng = np.random.default_rng(seed)
    x, actions, rewards = rng.integers(0, 2, (n, 3)), rng.integers(0, 3, n), rng.integers(0, 2, n)
    return Log.from_arrays(x, actions, rewards, action_names=[0, 1, 2])


def test_a_hash_is_of_the_values_alone():
    log = continuous(500)
    shuffled = log.take(np.random.default_rng(1).permutation(500))
    assert np.array_equal(np.sort(row_hashes(log)), np.sort(row_hashes(shuffled)))
    renamed = Log.from_arrays(
        np.where(log.contexts == 0, -0.0, log.contexts),
        [log.action_names[a] for a in log.actions],
        log.rewards,
        action_names=["z", "c", "b", "a"],
    )
    assert np.array_equal(row_hashes(log), row_hashes(renamed))
    zeros = [Log.from_arrays([[zero, 1.0]], [1], [zero]) for zero in (0.0, -0.0)]
    assert np.array_equal(*map(row_hashes, zeros))
    texts = [Log.from_arrays([[1.0]], [label], [1.0]) for label in (7, "7")]  # as a CSV file may give it back
    assert np.array_equal(*map(row_hashes, texts))
    assert len(np.unique(row_hashes(log))) == 500


@pytest.mark.parametrize("changed", ["contexts", "actions", "rewards"])
def test_any_value_changes_a_hash(changed):
    parts = {"contexts": np.ones((1, 3)), "actions": ["a"], "rewards": [1.0]}
    other = {"contexts": np.array([[1.0, 1.0, np.nextafter(1, 2)]]), "actions": ["b"], "rewards": [1.5]}
    one = row_hashes(Log.from_arrays(**parts, action_names=["a", "b"]))
    two = row_hashes(Log.from_arrays(**parts | {changed: other[changed]}, action_names=["a", "b"]))
    assert one != two


def test_hashes_are_uniform():
    """Kolmogorov's distance of n uniform numbers is below 1.95/√n but for one time in a thousand."""
    for log in (continuous(4000), Log.from_arrays(np.arange(4000.0)[:, None], [0] * 4000, [0.0] * 4000)):
        place = np.sort(row_hashes(log)) / 2.0**64
        assert np.abs(place - np.arange(4000) / 4000).max() < 1.95 / np.sqrt(4000)


def test_the_sketch_is_the_smallest_distinct_hashes_with_their_counts():
    log = continuous(2000).take(np.random.default_rng(3).integers(0, 2000, 6000))
    found = TrainingFingerprint.of(log)
    values, counts = np.unique(row_hashes(log), return_counts=True)
    assert np.array_equal(found.sketch, values[:SKETCH])
    assert np.array_equal(found.counts, counts[:SKETCH])
    few = TrainingFingerprint.of(discrete())
    assert len(few.sketch) == 48
    assert few.counts.sum() == few.rows == 5000


def test_overlap_with_rows_that_are_their_own():
    log = continuous(20_000)
    whole, half = TrainingFingerprint.of(log), TrainingFingerprint.of(log.take(slice(0, 10_000)))
    assert whole.overlap(log) == half.overlap(log) == "some"
    assert half.overlap(log.take(slice(10_000, None))) == "none"
    assert half.overlap(log.take(slice(9_000, None))) == "some"
    assert whole.overlap(continuous(20_000, seed=1)) == "none"
    assert whole.overlap(log.take(slice(0, 1000))) == "some"  # a small part of what taught it
    assert TrainingFingerprint.of(log.take(slice(0, 0))).overlap(log) == "none"
    assert whole.overlap(log.take(slice(0, 1))) in ("some", "unclear")


def test_values_that_repeat_are_no_proof():
    log = discrete()
    assert TrainingFingerprint.of(log).overlap(discrete(seed=1)) == "unclear"
    assert TrainingFingerprint.of(log).overlap(log.take(np.random.default_rng(0).permutation(5000))) == "some"


@pytest.mark.parametrize("ids", [None, "whole", "text"])
def test_a_split_keeps_contexts_whole_and_is_made_again_from_any_order(ids):
    log = continuous(4000)
    log = log.take(np.random.default_rng(2).integers(0, 4000, 8000))
    if ids is not None:
        given = log.groups if ids == "whole" else [f"user-{group}" for group in log.groups]
        log = Log.from_arrays(
            np.zeros_like(log.contexts), log.actions, log.rewards, action_names=range(3), context_ids=given
        )
    split, count = Split.of(log, 0.3, seed=5)
    assert split.by == ("context" if ids is None else "context_id")
    held = split.held_out(log)
    assert held.sum() == count
    shares = np.bincount(log.groups, held) / np.bincount(log.groups)
    assert set(shares) == {0.0, 1.0}
    error = np.sqrt(0.3 * 0.7 / log.n_contexts)
    assert abs(shares.mean() - 0.3) < 4 * error
    order = np.random.default_rng(4).permutation(8000)
    assert np.array_equal(split.held_out(log.take(order)), held[order])
    assert np.array_equal(split.held_out(log.take(order[:77])), held[order[:77]])
    other = Split(0.3, 6, split.by).held_out(log)
    assert abs((held & other).mean() - 0.09) < 0.05
    wider = Split(0.5, 5, split.by).held_out(log)
    assert (wider | ~held).all()  # a larger share holds the same rows and more


def test_ids_are_one_as_numbers_and_as_texts():
    log = continuous(300)
    both = [
        Log.from_arrays(log.contexts, log.actions, log.rewards, action_names=range(3), context_ids=ids)
        for ids in (np.arange(300), [str(i) for i in range(300)], [f"{i}" for i in range(299)] + ["x" * 40])
    ]
    masks = [Split(0.3, by="context_id").held_out(each) for each in both]
    assert np.array_equal(masks[0], masks[1])
    assert np.array_equal(masks[0][:299], masks[2][:299])
    with pytest.raises(SettingError, match="has none; name the column"):
        Split(0.3, by="context_id").held_out(log)


def few_contexts(n=3000):
    """8 contexts and rewards that do not repeat: far more rows than a sketch keeps."""
    log = discrete(n)
    return replace(log, rewards=np.random.default_rng(7).normal(size=n))


@pytest.mark.parametrize("batch", [131_072, 256])
def test_a_split_by_place_checks_the_order_of_the_rows(batch, tmp_path, monkeypatch):
    """Also where the rows that trade places are not in the sketch, and in a file."""
    monkeypatch.setattr(passes, "BATCH_ROWS", batch)
    log = few_contexts()
    sparing.save_policy(sparing.learn(log, "greedy", holdout=0.3, seed=4), tmp_path / "p.sparing")
    policy = sparing.load_policy(tmp_path / "p.sparing")
    split = policy.trained_on.split
    assert (split.share, split.seed, split.by) == (0.3, 4, "place")
    out = split.held_out(log)
    assert abs(out.mean() - 0.3) < 6 * np.sqrt(0.21 / log.n_rows)
    for found in (policy.held_out(log), policy.held_out(InMemoryRows(log)).read()):
        assert np.array_equal(found.rewards, log.rewards[out])
    assert set(policy.held_out(log).rewards).isdisjoint(log.rewards[~out])
    hashes = row_hashes(log)
    trained = np.flatnonzero(~out & ~np.isin(hashes, policy.trained_on.sketch))[0]
    order = np.arange(log.n_rows)
    order[[trained, np.flatnonzero(out)[0]]] = order[[np.flatnonzero(out)[0], trained]]
    kept = TrainingFingerprint.of(log.take(order).take(~out))
    assert np.array_equal(kept.sketch, policy.trained_on.sketch)  # which alone would not see it
    for moved in (log.take(order), log.take(np.roll(np.arange(log.n_rows), 1)), few_contexts(2999)):
        for each in (moved, InMemoryRows(moved)):
            with pytest.raises(SettingError, match="in the same order"):
                policy.held_out(each)


def test_a_learnt_policy_knows_its_rows(tmp_path):
    log = continuous()
    policy = sparing.learn(log, "greedy", holdout=0.25, seed=3)
    held = policy.held_out(log)
    assert policy.trained_on.rows + held.n_rows == log.n_rows
    assert policy.trained_on.overlap(held) == "none"
    again = sparing.learn(log.take(~policy.trained_on.split.held_out(log)), "greedy", seed=3)
    assert np.array_equal(again.theta, policy.theta)  # the held-out rows taught it nothing
    sparing.save_policy(policy, tmp_path / "policy")
    loaded = sparing.load_policy(tmp_path / "policy")
    assert (loaded.trained_on.rows, loaded.trained_on.split) == (
        policy.trained_on.rows,
        policy.trained_on.split,
    )
    assert np.array_equal(loaded.trained_on.sketch, policy.trained_on.sketch)
    assert np.array_equal(loaded.trained_on.counts, policy.trained_on.counts)
    whole = sparing.learn(log, "greedy")
    assert whole.trained_on.split is None
    with pytest.warns(DeprecationWarning, match="trained_on"):
        assert whole.taught is whole.trained_on
    with pytest.raises(SettingError, match="nothing was held out"):
        whole.held_out(log)


def test_files_of_the_first_version_load_without_a_fingerprint(tmp_path):
    policy = sparing.learn(continuous(), "greedy")
    header, arrays = files._encoded(policy, "", False)
    archive.write(tmp_path / "old", files.KIND, 1, {"policy": header}, arrays)
    old = sparing.load_policy(tmp_path / "old")
    assert old.trained_on is None
    assert np.array_equal(old.theta, policy.theta)
    with pytest.raises(SettingError, match="no record of its training rows"):
        old.held_out(continuous())


@pytest.mark.parametrize(
    "change",
    [{"rows": -1}, {"rows": 3}, {"split": {"share": 2.0, "seed": 0, "by": "row"}}, {"split": {"by": "x"}}],
)
def test_a_damaged_fingerprint_is_refused(change, tmp_path):
    sparing.save_policy(sparing.learn(continuous(), "greedy"), tmp_path / "policy")
    header, arrays = archive.read(tmp_path / "policy", files.KIND, files.VERSION)
    header["policy"]["taught"] |= change
    archive.write(tmp_path / "bad", files.KIND, files.VERSION, json.loads(json.dumps(header)), arrays)
    with pytest.raises(FileError):
        sparing.load_policy(tmp_path / "bad")


@pytest.mark.parametrize("holdout", [-0.1, 1.0, 0.0001, 0.9999])
def test_a_holdout_that_leaves_nothing_is_refused(holdout):
    with pytest.raises(SettingError, match="holdout"):
        sparing.learn(continuous(200), "greedy", holdout=holdout)


def test_a_sketch_must_ascend():
    hashes = np.array([5, 3], dtype=np.uint64)
    with pytest.raises(SettingError, match="ascend"):
        TrainingFingerprint(2, hashes, np.ones(2, dtype=np.int64))
    with pytest.raises(SettingError, match="64-bit"):
        TrainingFingerprint(2, hashes.astype(float), np.ones(2, dtype=np.int64))
    assert module.SKETCH == 256


def test_a_split_by_place_is_of_the_row_numbers():
    """In parts as in one piece; and another seed holds out other rows."""
    log = discrete(2000)
    numbers = np.flatnonzero(Split(0.25, 4, "place").held_out(log))
    parts = [
        Split(0.25, 4, "place").held_out(log.part(slice(at, at + 500)), at) for at in range(0, 2000, 500)
    ]
    assert np.array_equal(np.flatnonzero(np.concatenate(parts)), numbers)
    others = Split(0.25, 5, "place").held_out(log)
    assert abs(others[numbers].mean() - 0.25) < 6 * np.sqrt(0.25 * 0.75 / len(numbers))


def test_an_overlap_is_counted_block_by_block(monkeypatch):
    """As from all rows at once: none, some, or unclear."""
    log, other = continuous(3000), continuous(3000, 1)
    half = Log.from_arrays(
        np.concatenate([log.contexts[:1500], other.contexts[:1500]]),
        [log.action_names[a] for a in np.concatenate([log.actions[:1500], other.actions[:1500]])],
        np.concatenate([log.rewards[:1500], other.rewards[:1500]]),
        action_names=log.action_names,
    )
    taught, few = TrainingFingerprint.of(log), TrainingFingerprint.of(discrete())
    for rows in (131_072, 256):
        monkeypatch.setattr(passes, "BATCH_ROWS", rows)
        found = [taught.overlap(each) for each in (log, other, half)]
        assert found == ["some", "none", "some"]
        assert [few.overlap(each) for each in (discrete(), discrete(5000, 1))] == ["some", "unclear"]
