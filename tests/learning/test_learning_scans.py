"""Learning by passes: equal bits from a scan and from memory at every size, and equal to plain arrays."""

import numpy as np
import pytest

import sparing
from sparing.errors import SettingError
from sparing.learning.learn import BY_PASSES, METHODS
from sparing.log import Log, passes
from sparing.log.rows import FilteredRows, InMemoryRows
from sparing.model import statistics
from sparing.model.crossfitting import Folds, errors_up_to_scale
from sparing.model.statistics import Statistics
from sparing.policies.fingerprint import SplitFilter, TrainingFingerprint, row_hashes

RIDGES = (1.0, 0.1, 10.0, 100.0)


def made(n=3000, seed=0, *, contexts=None, noise=1.0, ids=False):
    """Contexts of k/64, some of which repeat; four actions, the last of which is never logged."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(contexts or n, 3)) * 64) / 64
    x = x[rng.integers(0, len(x), n)]
    theta = rng.normal(size=(3, 3)) + np.array([0.5, 0, 0])
    actions = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    r = np.round(64 * (2 + np.einsum("nd,nd->n", x, theta[actions]) + noise * rng.normal(size=n))) / 64
    return Log.from_arrays(
        x,
        np.array(list("abc"))[actions],
        r,
        propensities=np.array([0.6, 0.3, 0.1])[actions],
        action_names=list("abcd"),
        context_ids=np.arange(n) % 700 if ids else None,
    )


@pytest.fixture
def short_blocks(monkeypatch):
    """Blocks of 256 rows, leaves of 512: a few thousand rows make a tree."""
    monkeypatch.setattr(passes, "BATCH_ROWS", 256)
    monkeypatch.setattr(passes, "CHUNK_ROWS", 512)


@pytest.fixture
def scanned(tmp_path):
    """A log as it lies in a file, walked by so many threads."""

    def write(log, workers=2, **how):
        sparing.write_log(log, tmp_path / "log.parquet")
        return sparing.scan(tmp_path / "log.parquet", engine="local", workers=workers, **how)

    return write


def same(one, other):
    """Two policies, number by number."""
    assert type(one) is type(other)
    assert one.notes == other.notes
    assert one.encoder.digest == other.encoder.digest
    for name in ("theta", "priority", *(("inverse", "radius") if one.method == "pessimistic" else ())):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert np.array_equal(one.support.elsewhere, other.support.elsewhere)
    same_rows(one.trained_on, other.trained_on)


def same_rows(one, other):
    """Two fingerprints, number by number."""
    assert (one.rows, one.split) == (other.rows, other.split)
    assert np.array_equal(one.sketch, other.sketch)
    assert np.array_equal(one.counts, other.counts)


@pytest.mark.parametrize("method", BY_PASSES)
@pytest.mark.parametrize("rows", [3, 100, 5_000, 131_073])
def test_a_scan_gives_the_policy_of_the_log_in_memory(scanned, rows, method):
    """At sizes of one block and of two."""
    log = made(rows)
    scan = scanned(log)
    options = {"noise": 1.0} if method == "pessimistic" else {}
    for holdout in (0.0, 0.3) if rows >= 100 else (0.0,):
        same(*(sparing.learn(each, method, holdout=holdout, seed=3, **options) for each in (log, scan)))


@pytest.mark.parametrize("method", BY_PASSES)
@pytest.mark.parametrize("ids", [False, True])
def test_so_it_does_from_many_blocks_and_workers(short_blocks, scanned, method, ids):
    log = made(ids=ids)
    scan = scanned(log, 1 + ids, **({"context_id": "context_id"} if ids else {}))
    for holdout in (0.0, 0.3):
        one, other = (sparing.learn(each, method, holdout=holdout, seed=3) for each in (log, scan))
        same(one, other)
    assert one.trained_on.split.by == ("context_id" if ids else "context")
    held = log.take(one.trained_on.split.held_out(log))
    for found in (one.held_out(log), one.held_out(scan).read()):
        for name in ("contexts", "actions", "rewards", "propensities"):
            assert np.array_equal(getattr(found, name), getattr(held, name))


def reference(log, folds=3, seed=0):
    """The ridge as `choose_ridge` describes it, from all rows at once."""
    fold_of = Folds.of(log, folds, seed).assign_folds(log)
    predicted = np.empty((len(RIDGES), log.n_rows))
    for fold in range(folds):
        for choice, ridge in enumerate(RIDGES):
            theta = np.zeros((log.n_actions, log.n_features))
            for action in range(log.n_actions):
                rows = (fold_of != fold) & (log.actions == action)
                x = np.vstack([log.contexts[rows], np.sqrt(ridge) * np.eye(3)])
                theta[action] = np.linalg.lstsq(x, np.append(log.rewards[rows], np.zeros(3)), rcond=None)[0]
            held = fold_of == fold
            predicted[choice, held] = (theta[log.actions[held]] * log.contexts[held]).sum(axis=1)
    plain = ((log.rewards - predicted) ** 2).sum(axis=1)
    scaled = np.array([errors_up_to_scale(log.rewards, p) for p in predicted])
    best, first = int(plain.argmin()), int(scaled.mean(axis=1).argmin())
    gain = scaled[best] - scaled[first]
    if gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)):
        return RIDGES[first], "squared error up to shift and scale"
    return RIDGES[best], "squared error"


def logs():
    """Logs of all kinds, of which some choose each ridge and some choose by each error."""
    for seed in range(24):
        contexts, noise = (30, 300, None)[seed % 3], (0.5, 5.0, 30.0)[seed // 8]
        yield made(600 + 40 * seed, seed, contexts=contexts, noise=noise)


@pytest.mark.parametrize("batch", [256, 131_072])
def test_the_ridge_is_that_of_plain_arrays(short_blocks, monkeypatch, batch):
    monkeypatch.setattr(passes, "BATCH_ROWS", batch)
    found = []
    for seed, log in enumerate(logs()):
        ridge, how = reference(log, seed=seed)
        policy = sparing.learn(log, "greedy", seed=seed)
        assert policy.notes[-1] == f"ridge = {ridge:.4g} of 4 settings, by {how} on held-out contexts"
        theta = np.zeros((4, 3))
        for action in range(3):
            x, r = log.contexts[log.actions == action], log.rewards[log.actions == action]
            theta[action] = np.linalg.solve(x.T @ x + ridge * np.eye(3), x.T @ r)
        theta[3] = theta[:3].mean(axis=0)
        assert np.allclose(policy.theta, theta, rtol=1e-11)
        found.append((ridge, how))
    assert len({ridge for ridge, _ in found}) >= 3
    assert len({how for _, how in found}) == 2


def test_squared_error_alone_may_choose(short_blocks):
    """Though up to shift and scale another ridge is clearly better."""
    log = judged_otherwise()
    assert "shift and scale" in sparing.learn(log, "greedy").notes[-1]
    assert "by squared error on" in sparing.learn(log, "greedy", score="squared-error").notes[-1]


def judged_otherwise():
    """The first log of those above whose ridge is chosen up to shift and scale."""
    return next(log for seed, log in enumerate(logs()) if "shift" in reference(log, seed=seed)[1])


def test_a_given_ridge_or_a_single_context_leaves_nothing_to_choose(short_blocks):
    log = made(1500)
    given = sparing.learn(log, "greedy", ridge=2.0)
    assert given.notes == ("1 action that was never logged is never chosen",)
    sums = Statistics.of(log)
    assert np.array_equal(
        given.theta[0], np.linalg.solve(sums.gram + 2 * np.eye(3), sums.response[:, :, None])[0, :, 0]
    )
    alone = sparing.learn(made(1500, contexts=1), "greedy")
    assert alone.notes[-1] == "one context only, none to hold out: ridge = 1 taken unseen"


def test_pessimistic_is_that_of_the_sums(short_blocks):
    log = made()
    policy = sparing.learn(log, "pessimistic", noise=1.0, theta_bound=2.0, context_bound=4.0)
    sums = Statistics.of(log)
    inverse = np.linalg.inv(sums.gram + np.eye(3))
    assert np.allclose(policy.theta, np.einsum("kij,kj->ki", inverse, sums.response), rtol=1e-12)
    assert np.allclose(policy.inverse, inverse, rtol=1e-12)


def test_compiled_sums_teach_the_same_to_rounding(short_blocks, scanned, monkeypatch):
    log = made()
    by_numpy = sparing.learn(log, "greedy")
    monkeypatch.setattr(statistics, "COMPILED_CELLS", 0)
    compiled = sparing.learn(log, "greedy")
    same(compiled, sparing.learn(scanned(log), "greedy"))
    assert np.allclose(compiled.theta, by_numpy.theta, rtol=1e-12)


@pytest.mark.parametrize("batch", [256, 131_072])
def test_few_contexts_are_held_out_by_place(scanned, monkeypatch, batch):
    monkeypatch.setattr(passes, "BATCH_ROWS", batch)
    log = made(contexts=20)
    scan = scanned(log)
    one, other = (sparing.learn(each, "greedy", holdout=0.3) for each in (log, scan))
    assert one.trained_on.split.by == "place"
    same(one, other)
    held = one.held_out(log)
    assert abs(held.n_rows / log.n_rows - 0.3) < 6 * np.sqrt(0.21 / log.n_rows)
    assert np.array_equal(one.held_out(scan).read().rewards, held.rewards)


def test_all_methods_learn_from_a_long_log_in_memory(short_blocks):
    log = made(1200, contexts=20)
    policy = sparing.learn(log, "poem", holdout=0.3, clip=np.inf, penalty=0.0, l2=0.01)
    assert policy.trained_on.split.by == "place"
    assert policy.held_out(log).n_rows + policy.trained_on.rows == 1200
    assert sparing.learn(log, "greedy", score="support-aware").method == "greedy"


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(BY_PASSES)))
def test_methods_that_need_all_rows_say_so(scanned, method):
    scan = scanned(made(300))
    with pytest.raises(
        SettingError, match=r"needs all rows in memory at once.*log.sample\(200_000\).*read_log"
    ):
        sparing.learn(scan, method)


def test_so_does_a_score_that_does(scanned):
    with pytest.raises(SettingError, match=r"support-aware.*needs all rows in memory at once"):
        sparing.learn(scanned(made(300)), "greedy", score="support-aware")


def test_a_given_support_is_kept_to_and_checked(short_blocks, scanned):
    log = made()
    scan = scanned(log)
    one, other = (sparing.learn(each, "greedy", support=list("abcd")) for each in (log, scan))
    same(one, other)
    assert one.support.elsewhere.all()
    outside = int((log.actions == 2).sum())
    with pytest.raises(
        SettingError, match=rf"leaves out action 'c' where it was logged; {outside} rows in all"
    ):
        sparing.learn(scan, "pessimistic", support=["a", "b"])


def test_nothing_much_is_no_holdout(short_blocks):
    with pytest.raises(SettingError, match="too few to evaluate on"):
        sparing.learn(made(600, contexts=20), "greedy", holdout=1e-9)


def test_a_fingerprint_is_that_of_all_rows_at_once(short_blocks, scanned):
    for log in (made(), made(contexts=3, noise=0.0), made(5000, 1)):
        sketch, counts = np.unique(row_hashes(log), return_counts=True)
        for each in (log, scanned(log)):
            found = TrainingFingerprint.of(each)
            assert found.rows == log.n_rows
            assert np.array_equal(found.sketch, sketch[:256])
            assert np.array_equal(found.counts, counts[:256])
            assert found.overlap(each) == "some"
            assert found.overlap(made(4000, 9)) == "none"


def test_progress_counts_to_the_end(short_blocks):
    told = []
    sparing.learn(made(), "greedy", progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def test_rows_that_are_sifted_stay_cut_as_they_were(short_blocks, scanned):
    log = made(ids=True)
    policy = sparing.learn(log, "greedy", holdout=0.3)
    part = SplitFilter(policy.trained_on.split)
    rows = FilteredRows(InMemoryRows(log), part)
    assert rows.partition == InMemoryRows(log).partition
    walked = FilteredRows(scanned(log, context_id="context_id"), part)
    assert walked.n_rows == rows.n_rows == policy.held_out(log).n_rows
    one, other = Statistics.of(rows), Statistics.of(walked)
    assert np.array_equal(one.gram, other.gram)
    assert np.array_equal(one.gram, Statistics.of(rows.read()).gram)  # numbers of k/64 add up exactly
    assert np.array_equal(rows.sample(100).contexts, walked.sample(100).contexts)
