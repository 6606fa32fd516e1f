"""Online learners that start from a log that is walked: what they believe and do is what a log in memory makes them."""

import numpy as np
import pytest

import sparing
from sparing.errors import SettingError
from sparing.log import Log, passes
from sparing.log.sketches import sample_contexts
from sparing.model.confidence import most_logged
from sparing.model.linearity import fit_sentence
from sparing.online.start import SummaryWithFit

LEARNERS = ("moful", "warm_started", "certified", "confident", "economical", "linucb", "lints")


def made(n=3000, seed=0):
    """Contexts of k/64 and a constant; four actions, the last of which is never logged; rewards are not quite linear."""
    rng = np.random.default_rng(seed)
    x = np.c_[np.ones(n), np.round(rng.normal(size=(n, 2)) * 64) / 64]
    theta, actions = rng.normal(size=(3, 3)), rng.choice(3, n, p=[0.6, 0.3, 0.1])
    r = np.einsum("nd,nd->n", x, theta[actions]) + np.sin(3 * x[:, 1]) + rng.normal(size=n)
    return Log.from_arrays(
        x,
        np.array(list("abc"))[actions],
        np.round(r * 64) / 64,
        propensities=np.array([0.6, 0.3, 0.1])[actions],
        action_names=list("abcd"),
    )


@pytest.fixture
def short_blocks(monkeypatch):
    """Blocks of 256 rows, leaves of 512: a few thousand rows make a tree."""
    monkeypatch.setattr(passes, "BATCH_ROWS", 256)
    monkeypatch.setattr(passes, "CHUNK_ROWS", 512)


def scanned(log, folder, engine="local", workers=2):
    sparing.write_log(log, folder / "log.parquet")
    return sparing.scan(folder / "log.parquet", engine=engine, workers=workers)


def same(one, other, contexts):
    """Two learners, by what they believe, promise and decide."""
    assert one.guarantee == other.guarantee
    assert one.assumptions == other.assumptions
    assert np.array_equal(one.sets.theta, other.sets.theta)
    assert np.array_equal(one.sets.inverse, other.sets.inverse)
    assert one.encoder.digest == other.encoder.digest
    for x in contexts:
        found, wanted = (learner.decide(x) for learner in (one, other))
        assert found[:7] == wanted[:7]
        assert found.worth == wanted.worth
        if found.needs_reward:
            reward = float(x[1] * "abcd".index(found.action))
            one.update(found, reward)
            other.update(wanted, reward)
    assert np.array_equal(one.sets.theta, other.sets.theta)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_scan_starts_a_learner_as_memory_does(short_blocks, tmp_path, name, workers):
    log = made()
    contexts = np.c_[np.ones(1000), np.random.default_rng(1).normal(size=(1000, 2))]
    own = {"call_cost": 0.01} if name == "economical" else {}
    make = getattr(sparing, name)
    one, other = (make(each, **own) for each in (log, scanned(log, tmp_path, workers=workers)))
    same(one, other, contexts)


@pytest.mark.parametrize("name", ["confident", "certified"])
def test_one_block_is_as_ever(tmp_path, name):
    """The sample that the fit is tested by is that of a log in memory, too."""
    log = made()
    one, other = (getattr(sparing, name)(each) for each in (log, scanned(log, tmp_path)))
    assert fit_sentence(log) in one.guarantee
    assert "NOT linear" in one.guarantee
    same(one, other, log.contexts[:200])


def test_the_contexts_to_come_are_those_of_all_rows(short_blocks, tmp_path):
    log = made()
    found = SummaryWithFit.of(scanned(log, tmp_path))
    assert np.array_equal(found.context_sample, sample_contexts(log.contexts))
    assert found.fit.n_rows == 2048
    assert found.n_rows == 3000


def test_an_economical_budget_is_priced_alike(short_blocks, tmp_path):
    log = made()
    one, other = (sparing.economical(each, calls=40) for each in (log, scanned(log, tmp_path)))
    assert one.rules[0].header() == other.rules[0].header()


def test_what_needs_rows_says_so(tmp_path):
    scan = scanned(made(300), tmp_path)
    for make in (sparing.eps_moful, sparing.eps_moful_ips):
        with pytest.raises(SettingError, match="needs the log's rows, and a scan never holds them all"):
            make(scan, supported=most_logged(2))
    for kernel in (16, "auto"):
        for make in (sparing.confident, sparing.warm_started, sparing.certified):
            with pytest.raises(SettingError, match="scan it with features="):
                make(scan, kernel=kernel)
    with pytest.raises(SettingError, match="leave out n_actions"):
        sparing.moful(scan, n_actions=4)


def test_at_its_real_size(tmp_path):
    log = made(200_000)
    scan = scanned(log, tmp_path, engine=sparing.engines.local(2))
    assert scan.n_rows > scan.partition.block
    same(sparing.confident(log), sparing.confident(scan), log.contexts[:100])
