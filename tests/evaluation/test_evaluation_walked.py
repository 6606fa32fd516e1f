"""`evaluate` of logs of several blocks: the same bits wherever they lie, and the numbers that plain NumPy gives."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import sparing
from sparing.errors import SettingError
from sparing.evaluation import passes
from sparing.log import Log
from sparing.log.rows import InMemoryRows
from sparing.log.sketches import PowerSums
from sparing.model.crossfitting import Folds, FoldSums, leave_one_fold_out
from sparing.policies.fingerprint import Split, TrainingFingerprint
from sparing.policies.policy import ConstantPolicy

ROWS, ACTIONS, FEATURES = 1500, 4, 3
KINDS = ["distribution", "propensities", "eligible", "unknown"]


class Leaning:
    """Leans to an action by the sign of a feature, more or less; has some of everything."""

    def __init__(self, n_actions=ACTIONS, lean=0.6):
        self.action_names, self.lean = tuple(range(n_actions)), lean

    def probabilities(self, contexts):
        k = len(self.action_names)
        chances = np.full((len(contexts), k), (1 - self.lean) / k)
        chances[np.arange(len(contexts)), (contexts[:, 0] > 0) * 2] += self.lean
        return chances


class Inside(Leaning):
    """The same, never with the last action."""

    def probabilities(self, contexts):
        chances = super().probabilities(contexts)
        chances[:, -1] = 0
        return chances / chances.sum(axis=1, keepdims=True)


def drawn(kind, rows=ROWS, seed=0, contexts=None, n_actions=ACTIONS):
    """A log of this kind, whose contexts come again, and which has an action without rows."""
    rng = np.random.default_rng(seed)
    some = rng.integers(-64, 65, size=(contexts or rows // 3, FEATURES)) / 64
    x = some[rng.integers(len(some), size=rows)]
    x[:, -1] = 1
    likely = np.exp(x @ rng.normal(size=(FEATURES, n_actions)))
    likely[:, -1] = 0
    if kind == "distribution":
        likely[x[:, 1] > 0.5, 1] = 0
    likely /= likely.sum(axis=1, keepdims=True)
    a = (likely.cumsum(axis=1) < rng.random((rows, 1)) * (1 - 1e-9)).sum(axis=1)
    level = (x @ rng.normal(size=(FEATURES, n_actions)))[np.arange(rows), a]
    r = np.round((level + rng.normal(size=rows)) * 2**16) / 2**16
    given = {}
    if kind in ("propensities", "eligible"):
        given["propensities"] = likely[np.arange(rows), a]
    if kind == "distribution":
        given["distribution"] = likely
    if kind == "eligible":
        given["eligible"] = [
            list(range(n_actions)) if odd else list(range(n_actions - 1)) for odd in x[:, 1] > 0
        ]
    return Log.from_arrays(x, a, r, action_names=range(n_actions), **given)


def scanned(log, folder, **options):
    path = folder / "log.parquet"
    sparing.write_log(log, path)
    return sparing.scan(path, actions=log.action_names, **options)


def same(one, other):
    """All numbers with the same bits, all words alike."""
    assert type(one) is type(other) or isinstance(one, float)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for each, its in zip(one, other, strict=True):
            same(each, its)
    elif isinstance(one, float):
        assert np.array_equal(one, other, equal_nan=True)
    else:
        assert one == other


@pytest.fixture
def small(monkeypatch):
    """Blocks of 256 rows, two of them a leaf."""
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", 256)
    monkeypatch.setattr("sparing.log.passes.CHUNK_ROWS", 512)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("interval", ["normal", "bootstrap", "block-bootstrap", "bernstein"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_scan_is_evaluated_as_the_log_in_memory(kind, interval, workers, small, tmp_path):
    log, policy = drawn(kind), Leaning()
    options = {"interval": interval, "seed": 5, "clip": 3}
    there = sparing.evaluate(scanned(log, tmp_path, workers=workers), policy, **options)
    here = sparing.evaluate(log, policy, **options)
    same(there.to_dict(), here.to_dict())
    usable = {"bernstein": 1, "normal": 8, "bootstrap": 8, "block-bootstrap": 8}[interval]
    expected = usable + (kind == "distribution" and interval != "bernstein")
    assert len(here.estimates) == (expected if kind != "unknown" else 2 * (interval != "bernstein"))


@pytest.mark.parametrize("kind", ["distribution", "propensities"])
def test_a_scan_with_the_models_band(kind, small, tmp_path):
    log, policy = drawn(kind), Leaning()
    there = sparing.evaluate(scanned(log, tmp_path, workers=2), policy, band="model")
    same(there.to_dict(), sparing.evaluate(log, policy, band="model").to_dict())


@pytest.mark.parametrize("by", ["context", "context_id"])
def test_rows_held_out_judge_a_scan_too(by, small, tmp_path, monkeypatch):
    log = drawn("distribution", contexts=400)
    if by == "context_id":
        ids = np.unique(log.contexts, axis=0, return_inverse=True)[1].reshape(-1)
        given = {"distribution": log.support.distribution(), "action_names": log.action_names}
        log = Log.from_arrays(log.contexts, log.actions, log.rewards, context_ids=ids, **given)
    with monkeypatch.context() as large:
        large.setattr("sparing.log.passes.BATCH_ROWS", 2**17)
        policy = sparing.learn(log, "greedy", holdout=0.3)
        whole = sparing.evaluate(log, policy)
    assert policy.trained_on.split.by == by
    there = sparing.evaluate(scanned(log, tmp_path, workers=2), policy, interval="bootstrap")
    here = sparing.evaluate(log, policy, interval="bootstrap")
    same(there.to_dict(), here.to_dict())
    assert here.held_out
    assert (here.rows, here.rows_given) == (whole.rows, ROWS)
    assert here["dr"].value == pytest.approx(whole["dr"].value)
    allowed = sparing.evaluate(log, policy, training_rows="allow")
    assert allowed["ips"].in_sample
    assert allowed.rows == ROWS


def test_the_rewards_of_rows_not_held_out_bound_the_others(small):
    log = drawn("distribution", contexts=400)
    policy = sparing.learn(log, "greedy", holdout=0.3)
    held = policy.trained_on.split.held_out(log)
    rewards = np.where(held, (log.rewards > 1) * 1.0, log.rewards)
    mixed = Log.from_arrays(
        log.contexts,
        log.actions,
        rewards,
        distribution=log.support.distribution(),
        action_names=log.action_names,
    )
    taught = sparing.learn(mixed, "greedy", holdout=0.3)
    found = sparing.evaluate(mixed, taught, methods=["ips"])
    assert found.held_out
    assert not found.binary_rewards
    assert found.reward_range == (rewards.min(), rewards.max())


def test_single_rows_held_out_need_all_rows(small, tmp_path):
    """By their values, as in policy files of release 0.1."""
    log, split = drawn("distribution", contexts=50), Split(0.3, by="row")
    part = log.take(~split.held_out(log))
    policy = replace(sparing.learn(part, "greedy"), trained_on=TrainingFingerprint.of(part, split))
    assert sparing.evaluate(log, policy, methods=["ips"]).held_out
    with pytest.raises(SettingError, match=r"single rows were held out.*read_log"):
        sparing.evaluate(scanned(log, tmp_path), policy)


@pytest.mark.parametrize("interval", ["normal", "block-bootstrap"])
def test_threads_at_the_real_size(interval, tmp_path):
    log, policy = drawn("distribution", rows=200_000, contexts=30_000), Leaning()
    there = scanned(log, tmp_path, engine=sparing.engines.local(2))
    assert len(list(there.blocks())) == 2
    methods = ["dm", "ips", "snips", "dr", "aipw"]
    same(
        sparing.evaluate(there, policy, methods=methods, interval=interval).to_dict(),
        sparing.evaluate(log, policy, methods=methods, interval=interval).to_dict(),
    )


@pytest.mark.parametrize("band", ["range", "model"])
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_change_no_number_but_by_rounding(kind, band, monkeypatch):
    """Folds do not depend on blocks, so those that are cross-fitted stay too."""
    log, policy = drawn(kind, rows=3000), Leaning()
    once = sparing.evaluate(log, policy, band=band)
    for batch in (256, 1024):
        monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", batch)
        again = sparing.evaluate(log, policy, band=band)
        assert again.unusable == once.unusable
        assert again.logged_mean == pytest.approx(once.logged_mean)
        for one, other in zip(once.estimates, again.estimates, strict=True):
            assert (one.notes, one.flagged, one.refused) == (other.notes, other.flagged, other.refused)
            names = (
                "value",
                "low",
                "high",
                "support_low",
                "support_high",
                "unsupported_mass",
                "clipped_mass",
            )
            for name in names:
                a, b = getattr(one, name), getattr(other, name)
                assert (a is None and b is None) or a == pytest.approx(b, rel=1e-9, abs=1e-9), (one, name)


def reference(log, policy):
    """IPS, SNIPS and DR and their half-widths, each from the whole arrays."""
    n, at = log.n_rows, np.arange(log.n_rows)
    chances = policy.probabilities(log.contexts)
    w = chances[at, log.actions] / log.propensities
    theta = np.zeros((log.n_actions, log.n_features))
    for action in range(log.n_actions):
        x, r = log.contexts[log.actions == action], log.rewards[log.actions == action]
        theta[action] = np.linalg.solve(x.T @ x + np.eye(log.n_features), x.T @ r)
    predicted = log.contexts @ theta.T
    snips = (w * log.rewards).sum() / w.sum()
    rows = {
        "ips": w * log.rewards,
        "snips": snips + w * (log.rewards - snips) / w.mean(),
        "dr": (chances * predicted).sum(axis=1) + w * (log.rewards - predicted[at, log.actions]),
    }
    for name, terms in rows.items():
        squares = (terms - terms.mean()) ** 2
        freedom = squares.sum() ** 2 / (squares**2).sum() - 1
        yield name, terms.mean(), stats.t.ppf(0.975, freedom) * np.sqrt(squares.sum() / (n - 1) / n)


def test_plain_numpy_gives_the_same(small):
    log = drawn("eligible", seed=3, rows=1700)
    policy = Inside(lean=0.3)
    found = sparing.evaluate(log, policy, reward_range=(-100, 100))
    for method, value, half in reference(log, policy):
        estimate = found[method]
        assert estimate.value == pytest.approx(value, rel=1e-12)
        assert not any("beyond chance" in note for note in estimate.notes)
        assert (estimate.low, estimate.high) == pytest.approx((value - half, value + half), rel=1e-9)


@pytest.mark.parametrize(
    "interval",
    ["normal", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("bootstrap", "block-bootstrap"))],
)
def test_intervals_of_several_blocks_cover(interval, small):
    """200 logs of four blocks or more, 95 %: at least 89 % of the intervals hold the value, but for a chance of 10⁻⁴."""
    rng, policy = np.random.default_rng(8), Leaning(3)
    theta, hits = np.array([[1.0, 0.0], [-1.0, 0.5], [0.5, 0.5]]), dict.fromkeys(("ips", "snips", "dr"), 0)
    many = rng.normal(size=(400_000, 2))
    truth = (policy.probabilities(many) * (many @ theta.T)).sum(axis=1).mean()
    for seed in range(200):
        x = rng.normal(size=(1100, 2))
        likely = rng.dirichlet([3, 3, 3], size=1100)
        a = (likely.cumsum(axis=1) < rng.random((1100, 1))).sum(axis=1).clip(max=2)
        r = (x @ theta.T)[np.arange(1100), a] + rng.normal(size=1100)
        log = Log.from_arrays(x, a, r, distribution=likely, action_names=range(3))
        found = sparing.evaluate(
            log, policy, methods=list(hits), interval=interval, reward_range=(-9, 9), seed=seed
        )
        for method in hits:
            hits[method] += found[method].low <= truth <= found[method].high
    assert min(hits.values()) >= 178, hits
    assert max(hits.values()) < 200, hits


def test_no_context_is_judged_by_a_model_that_has_seen_it(small):
    log = drawn("propensities")
    folds = Folds.of(log, 3, 7)
    fold_of = folds.assign_folds(log)
    parts = [folds.assign_folds(block) for _, block in InMemoryRows(log).blocks()]
    assert np.array_equal(np.concatenate(parts), fold_of)
    groups = log.groups
    assert all(len(np.unique(fold_of[groups == group])) == 1 for group in range(log.n_contexts))
    assert np.bincount(fold_of).min() > ROWS / 6
    for fold in range(3):
        odd = np.where(fold_of == fold, 1e9, log.rewards)
        other = Log.from_arrays(log.contexts, log.actions, odd, action_names=log.action_names)
        known, moved = (
            leave_one_fold_out(InMemoryRows(each).fold(FoldSums(InMemoryRows(each), folds)))
            for each in (log, other)
        )
        assert np.array_equal(known[fold].response, moved[fold].response)
        assert not np.array_equal(known[fold - 1].response, moved[fold - 1].response)
        assert known[fold].n_rows == (fold_of != fold).sum()


def test_resamples_are_the_seeds(small):
    log, policy = drawn("distribution"), Leaning()
    for interval in ("bootstrap", "block-bootstrap"):
        one, two, other = (
            sparing.evaluate(log, policy, methods=["ips"], interval=interval, seed=seed)["ips"].low
            for seed in (1, 1, 2)
        )
        assert one == two != other


@pytest.mark.parametrize("interval", ["bootstrap", "block-bootstrap"])
def test_luck_is_another_in_every_block(interval, small):
    """Sixteen blocks of the same rows: luck that came again would make the interval four times as wide."""
    part = drawn("distribution", rows=256, seed=2)
    at = np.tile(np.arange(256), 16)
    log, policy = part.take(at), Leaning()
    exact, drew = (
        sparing.evaluate(log, policy, methods=["ips", "snips"], reward_range=(-9, 9), interval=each)
        for each in ("normal", interval)
    )
    for method in ("ips", "snips"):
        assert drew[method].high - drew[method].low == pytest.approx(
            exact[method].high - exact[method].low, rel=0.15
        )


def test_what_weights_are_short_of_beyond_chance(monkeypatch):
    """A quarter of the policy is on an action that may be taken in half of the rows, and never is: more than chance explains."""
    log, policy = drawn("eligible"), Leaning(lean=0.0)
    once = sparing.evaluate(log, policy, methods=["ips", "dr"], reward_range=(-20, 20))
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", 256)
    walked = sparing.evaluate(log, policy, methods=["ips", "dr"], reward_range=(-20, 20))
    for method in ("ips", "dr"):
        assert any("beyond chance" in note for note in once[method].notes)
        assert walked[method].notes == once[method].notes
        assert walked[method].low == pytest.approx(once[method].low)
        assert walked[method].high == pytest.approx(once[method].high)


def test_memory_does_not_grow_with_the_blocks(monkeypatch, tmp_path):
    """Forty blocks in a scan take about as much as ten, and far less than their rows at once."""
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", 2048)
    monkeypatch.setattr("sparing.log.passes.CHUNK_ROWS", 2048)
    monkeypatch.setattr(passes, "SAMPLE_ROWS", 256)
    policy = Leaning()

    def peak(log):
        tracemalloc.start()
        sparing.evaluate(log, policy)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    log = drawn("distribution", rows=40 * 2048, contexts=1000)
    (tmp_path / "few").mkdir()
    few, many = (
        scanned(log.part(slice(0, 10 * 2048)), tmp_path / "few", workers=1),
        scanned(log, tmp_path, workers=1),
    )
    sparing.evaluate(few, policy)  # what is loaded once
    short, long = peak(few), peak(many)
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", 2**17)
    assert long < 1.5 * short
    assert long < peak(log) / 4


@pytest.mark.parametrize("sample", [2**18, 400])
def test_tables_and_boosted_rewards_work_for_scans(sample, small, tmp_path, monkeypatch):
    """With fewer rows than there are in the sample, and with more."""
    monkeypatch.setattr(passes, "SAMPLE_ROWS", sample)
    log = drawn("distribution")
    there, table = scanned(log, tmp_path, workers=2), Leaning().probabilities(log.contexts)
    one, two, three = (
        sparing.evaluate(
            rows, policy, reward_model="boosted", methods=["dm", "cab", "mlips", "aipw"], folds=3
        )
        for rows, policy in ((log, table), (there, table), (there, Leaning()))
    )
    same(one.to_dict(), two.to_dict())
    same(one.to_dict(), three.to_dict())
    assert any("sample of 400 rows" in note for note in one["aipw"].notes) == (sample == 400)
    with pytest.raises(SettingError, match=r"policy of shape \(1499, 4\)"):
        sparing.evaluate(there, table[1:])


ROWS_OF_ALL_SIZES = [3, 100, 5000, 131_073]


@pytest.mark.parametrize("rows", ROWS_OF_ALL_SIZES)
@pytest.mark.parametrize(
    "interval",
    [
        "normal",
        "bootstrap",
        *(pytest.param(one, marks=pytest.mark.thorough) for one in ("block-bootstrap", "bernstein")),
    ],
)
def test_a_scan_and_the_log_have_the_same_bits_at_every_size(rows, interval, tmp_path):
    log = drawn("distribution", rows=rows, contexts=max(3, rows // 3))
    found = sparing.evaluate(log, Leaning(), interval=interval, seed=3)
    same(
        sparing.evaluate(scanned(log, tmp_path), Leaning(), interval=interval, seed=3).to_dict(),
        found.to_dict(),
    )
    assert len(found.estimates) == (1 if interval == "bernstein" else 9)


def ends_of(found):
    """The finite ends of all intervals, and the width of the one each is of, by method."""
    for each in found.estimates:
        yield from ((each.low, each.high - each.low), (each.high, each.high - each.low))
        if each.support_low is not None:
            width = each.support_high - each.support_low
            yield from ((each.support_low, width), (each.support_high, width))


@pytest.mark.parametrize(("block", "batch"), [(256, 256), (131_072, 2**17)])
@pytest.mark.parametrize("interval", ["normal", "bootstrap", "block-bootstrap"])
def test_one_more_row_moves_no_interval_far(block, batch, interval, monkeypatch):
    """Around a block's size no end moves by more than 5 % of its interval's width."""
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", batch)
    monkeypatch.setattr("sparing.log.passes.CHUNK_ROWS", batch)
    log = drawn("distribution", rows=block + 1, contexts=block)
    options = {"interval": interval, "reward_range": (-9, 9), "clip": 3}
    before, *after = (
        sparing.evaluate(log.part(slice(0, rows)), Inside(), **options)
        for rows in (block - 1, block, block + 1)
    )
    for later in after:
        assert [each.method for each in later.estimates] == [each.method for each in before.estimates]
        for (one, width), (two, _) in zip(ends_of(before), ends_of(later), strict=True):
            assert abs(one - two) < 0.05 * width
        before = later


def test_a_policy_that_is_none_is_refused_by_the_row_of_the_log(small):
    class Odd(Leaning):
        def probabilities(self, contexts):
            return super().probabilities(contexts) * np.where(contexts[:, :1] == 77, 2, 1)

    log = drawn("propensities")
    contexts = log.contexts.copy()
    contexts[1303, 0] = 77
    log = Log.from_arrays(
        contexts, log.actions, log.rewards, propensities=log.propensities, action_names=log.action_names
    )
    with pytest.raises(SettingError, match="at row 1303 sum to 2"):
        sparing.evaluate(log, Odd())


def test_methods_that_cannot_be_used_say_why(small):
    log = drawn("propensities", contexts=1)
    found = sparing.evaluate(log, Leaning())
    assert set(found.unusable) >= {"cab", "mlips", "aipw"}
    assert "folds=5" in found.unusable["aipw"]
    with pytest.raises(SettingError, match="folds=1"):
        sparing.evaluate(drawn("propensities"), Leaning(), methods=["aipw"], folds=1)
    with pytest.raises(SettingError, match=r"clip=0\.5"):
        sparing.evaluate(log, Leaning(), clip=0.5)


def test_a_policy_that_never_agrees(small):
    log = drawn("propensities")
    apart = ConstantPolicy(log.action_names, ACTIONS - 1)
    for interval in ("normal", "bootstrap", "block-bootstrap"):
        found = sparing.evaluate(log, apart, methods=None, interval=interval)
        assert "never agrees" in found.unusable["snips"]
        assert found["ips"].refused
    with pytest.raises(SettingError, match="never agrees"):
        sparing.evaluate(log, apart, methods=["snips"], interval="bootstrap")


@pytest.mark.parametrize("most", [16, 200, 2**17])
def test_the_clip_threshold_is_exact_at_every_size(most, small, monkeypatch):
    """The ratio of quantiles, also where the sketch of the first pass keeps few values and is refined."""
    monkeypatch.setattr("sparing.log.sketches.MAX_VALUES", most)
    log = drawn("propensities")
    low, high = np.percentile(log.propensities, [10, 90])
    found, given = (
        sparing.evaluate(log, Leaning(lean=0.9), methods=["clipped"], clip=clip)["clipped"]
        for clip in ("percentile-ratio", high / low)
    )
    assert found == given


def test_old_names_still_work_and_warn():
    log = drawn("propensities", rows=300)
    with pytest.warns(DeprecationWarning, match="training_rows="):
        found = sparing.evaluate(log, Leaning(), methods=["ips"], taught="allow")
    assert "untold" in found["ips"].to_dict()
    with pytest.warns(DeprecationWarning, match="unknown"):
        assert not found["ips"].untold


def test_progress_is_told_pass_by_pass(small):
    told = []
    sparing.evaluate(drawn("distribution"), Leaning(), progress=lambda *now: told.append(now))
    assert told == [(done, 17) for done in range(1, 18)]  # nine methods, five folds, three passes


def test_powers_are_those_of_all_numbers():
    values = np.random.default_rng(0).normal(3, 2, 1000)
    for scale in (1.0, 1e200, 1e-200):
        parts = [
            PowerSums.of(scale * values[:10]),
            PowerSums(),
            PowerSums.of(np.zeros(5)),
            PowerSums.of(scale * values[10:]),
        ]
        both = sum(parts, PowerSums())
        every = np.append(values, np.zeros(5))
        assert both.rows == 1005
        assert both.mean == pytest.approx(scale * every.mean())
        assert both.effective == pytest.approx(every.sum() ** 2 / (every**2).sum())
        assert both.freedom == pytest.approx((every**2).sum() ** 2 / (every**4).sum() - 1)
    assert PowerSums.of(values).variance == pytest.approx((values**2).sum() / 999)
