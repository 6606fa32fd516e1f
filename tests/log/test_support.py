"""Support against a dense boolean reference, however it is stored."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparing.errors import LogError
from sparing.log import Support, passes, support
from sparing.log.support import SupportBuilder

EXAMPLES = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
}
STORAGE = ["kept once", "kept apart", "found out halfway"]


@pytest.fixture(params=STORAGE)
def storage(request, monkeypatch):
    """Whether equal sets are looked for: always, never, or until the first batches are mostly distinct."""
    trial = {"kept once": 10**9, "kept apart": 0, "found out halfway": 4}[request.param]
    monkeypatch.setattr(support, "DEDUPLICATION_TRIAL", trial)
    return request.param


def random_mask(rng, rows, actions, *, distinct):
    """Rows drawn from a few distinct sets, none of them empty."""
    sets = rng.random((distinct, actions)) < rng.uniform(0.1, 0.9)
    sets[np.arange(distinct), rng.integers(actions, size=distinct)] = True
    return sets[rng.integers(distinct, size=rows)]


def random_distribution(rng, mask):
    weights = np.where(mask, rng.integers(1, 4, size=mask.shape), 0)
    return weights / weights.sum(axis=1, keepdims=True)


def assert_agrees(found, mask):
    """Every question about the support has the answer of the dense matrix."""
    rows, actions = mask.shape
    assert (found.n_rows, found.n_actions) == mask.shape
    assert found.known
    np.testing.assert_array_equal(found.mask(), mask)
    np.testing.assert_array_equal(found.mask(slice(1, 4)), mask[1:4])
    np.testing.assert_array_equal(found.mask(np.arange(rows)[::-2]), mask[::-2])
    row, action = np.divmod(np.arange(rows * actions), actions)
    np.testing.assert_array_equal(found.contains(row, action), mask.ravel())
    np.testing.assert_array_equal(found.sizes, mask.sum(axis=1))
    np.testing.assert_allclose(found.shares, mask.mean(axis=0), rtol=1e-12)
    assert found.unsupported_share == pytest.approx(1 - mask.mean(), abs=1e-12)


@settings(max_examples=60, **EXAMPLES)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 40),
    actions=st.integers(1, 35),
    distinct=st.integers(1, 40),
    batch=st.integers(1, 40),
    cells=st.integers(1, 200),
)
def test_sets_agree_with_a_dense_matrix(storage, seed, rows, actions, distinct, batch, cells):
    rng = np.random.default_rng(seed)
    mask = random_mask(rng, rows, actions, distinct=distinct)
    by_mask, by_sets = SupportBuilder(actions), SupportBuilder(actions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "CELLS", cells)
        for start in range(0, rows, batch):
            part = mask[start : start + batch]
            by_mask.add(part)
            by_sets.add_sets(part.sum(axis=1), np.nonzero(part)[1])
        for found in (by_mask.build(), by_sets.build()):
            assert_agrees(found, mask)
            assert found.distribution() is None
            chosen = rng.integers(rows, size=7)
            assert_agrees(found.take(chosen), mask[chosen])


@settings(max_examples=40, **EXAMPLES)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 30),
    actions=st.integers(1, 20),
    distinct=st.integers(1, 30),
    batch=st.integers(1, 30),
)
def test_distributions_agree_with_a_dense_matrix(storage, seed, rows, actions, distinct, batch):
    rng = np.random.default_rng(seed)
    mask = random_mask(rng, rows, actions, distinct=distinct)
    distribution = random_distribution(rng, mask)
    builder = SupportBuilder(actions)
    for start in range(0, rows, batch):
        builder.add_distribution(distribution[start : start + batch])
    found = builder.build()
    assert_agrees(found, mask)
    np.testing.assert_array_equal(found.distribution(), distribution)
    np.testing.assert_array_equal(found.distribution(slice(1, 3)), distribution[1:3])
    chosen = rng.integers(rows, size=7)
    assert_agrees(found.take(chosen), mask[chosen])
    np.testing.assert_array_equal(found.take(chosen).distribution(), distribution[chosen])


@pytest.mark.parametrize("batch", [3, 100])
def test_beyond_the_limit_distributions_are_let_go_and_their_support_kept(monkeypatch, storage, batch):
    rng = np.random.default_rng(0)
    mask = random_mask(rng, 100, 13, distinct=60)
    distribution = random_distribution(rng, mask)
    monkeypatch.setattr(support, "DENSE_LIMIT", 20 * 13 * 8)
    builder = SupportBuilder(13)
    for start in range(0, 100, batch):
        builder.add_distribution(distribution[start : start + batch])
    found = builder.build()
    assert found.distribution() is None
    assert_agrees(found, mask)


def test_equal_sets_are_stored_once():
    mask = random_mask(np.random.default_rng(1), 5000, 12, distinct=9)
    found = Support.from_mask(mask)
    assert len(found.table) == len(np.unique(mask, axis=0)) <= 9
    assert_agrees(found, mask)


def test_mostly_distinct_sets_are_no_longer_looked_up(monkeypatch):
    """The lookup table of a log without repeats would cost more than the sets themselves."""
    monkeypatch.setattr(support, "DEDUPLICATION_TRIAL", 100)
    mask = np.random.default_rng(2).random((400, 64)) < 0.5
    builder = SupportBuilder(64)
    for start in range(0, 400, 100):
        builder.add(mask[start : start + 100])
    builder.add(mask[:50])
    found = builder.build()
    assert len(found.table) == 450
    assert_agrees(found, np.concatenate([mask, mask[:50]]))


@pytest.mark.parametrize("chosen", [[2, 0, 2], [], [True, False, True]])
@pytest.mark.parametrize("make", [Support.from_mask, Support.from_distribution])
def test_take_by_indices_or_by_a_boolean_mask(make, chosen):
    mask = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]], dtype=bool)
    rows = np.array(chosen, dtype=bool if True in chosen else int)
    found = make(mask).take(rows)
    assert found.n_rows == len(mask[rows])
    np.testing.assert_array_equal(found.mask(), mask[rows])


@pytest.mark.parametrize("kind", ["exact", "estimated"])
@pytest.mark.parametrize("make", [Support.from_mask, Support.from_distribution])
def test_the_kind_is_kept(make, kind):
    found = make(np.eye(3), kind=kind)
    assert found.kind == kind
    assert found.take(np.array([1])).kind == kind
    assert kind in repr(found)


def test_one_set_for_every_row():
    assert_agrees(Support.constant(np.array([True, False, True]), 6), np.tile([True, False, True], (6, 1)))
    assert_agrees(Support.everything(6, 11), np.ones((6, 11), dtype=bool))
    assert Support.everything(6, 11).kind == "exact"
    assert Support.everything(6, 11).unsupported_share == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.mask(),
        lambda s: s.sizes,
        lambda s: s.shares,
        lambda s: s.unsupported_share,
        lambda s: s.contains(np.array([0]), np.array([0])),
        lambda s: s.take(np.array([0])).mask(),
    ],
)
def test_an_unknown_support_is_never_guessed(ask):
    with pytest.raises(LogError, match=r"support is unknown.*`eligible` or `p_<action>`"):
        ask(Support.unknown(3, 2))


def test_an_unknown_support_says_what_it_is():
    unknown = Support.unknown(3, 2)
    assert not unknown.known
    assert unknown.kind == "unknown"
    assert unknown.distribution() is None
    assert unknown.take(np.array([0, 1])).n_rows == 2
    assert "unknown" in repr(unknown)


@pytest.mark.parametrize("name", ["table", "index", "probabilities", "sizes", "shares"])
@pytest.mark.parametrize("taken", [False, True])
def test_what_a_support_holds_is_read_only(name, taken):
    found = Support.from_distribution(np.array([[0.5, 0.5], [0.5, 0.5], [1, 0]]))
    found = found.take(np.array([0, 2])) if taken else found
    with pytest.raises(ValueError, match="read-only"):
        getattr(found, name)[0] = 0


def test_the_callers_distribution_is_left_alone():
    given = np.array([[0.25, 0.75], [1.0, 0.0]])
    found = Support.from_distribution(given)
    given[:] = [0.5, 0.5]
    np.testing.assert_array_equal(found.distribution(), [[0.25, 0.75], [1.0, 0.0]])


@pytest.mark.parametrize("batch", [1, 2, 10])
def test_an_empty_set_is_named_with_its_row_in_the_log(batch):
    sets = [[0], [0, 1], [1], [], [0]]
    builder = SupportBuilder(2)

    def add_all():
        for start in range(0, 5, batch):
            part = sets[start : start + batch]
            lengths = np.array([len(actions) for actions in part])
            builder.add_sets(lengths, np.array([a for actions in part for a in actions], dtype=int))

    with pytest.raises(LogError, match="no supported action at row 3"):
        add_all()


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4)])
@pytest.mark.parametrize("make", [Support.from_mask, Support.from_distribution])
def test_a_support_is_a_matrix(make, shape):
    with pytest.raises(LogError, match=r"expected \(rows, actions\)"):
        make(np.ones(shape))


def test_a_batch_has_the_builders_width():
    with pytest.raises(LogError, match=r"support of shape \(2, 3\); expected \(rows, 4\)"):
        SupportBuilder(4).add(np.ones((2, 3), dtype=bool))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, np.nan], "row 3 has a negative or non-finite probability"),
        ([np.inf, 0.5], "row 3 has a negative or non-finite probability"),
        ([1.5, -0.5], r"row 3 has a negative or non-finite probability \(-0.5\)"),
        ([0.5, 0.6], "row 3 sums to 1.1; it must sum to 1"),
        ([0.0, 0.0], "row 3 sums to 0; it must sum to 1"),
    ],
)
def test_what_is_no_distribution_is_named_with_its_row(row, message):
    builder = SupportBuilder(2)
    builder.add_distribution(np.array([[0.5, 0.5], [0.0, 1.0]]))
    with pytest.raises(LogError, match=message):
        builder.add_distribution(np.array([[1.0, 0.0], row]))


def test_single_precision_distributions_are_distributions():
    """A thousand shares, each rounded to 24 bits, sum to 1 within 1000·2⁻²⁵/1000 of it."""
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.ones(1000), size=50).astype(np.float32)
    assert Support.from_distribution(shares).n_rows == 50


def test_a_support_without_rows():
    empty = SupportBuilder(5).build()
    assert empty.mask().shape == (0, 5)
    assert empty.sizes.shape == (0,)
    np.testing.assert_array_equal(empty.shares, np.zeros(5))


@pytest.mark.parametrize("limit", [0, 2**30], ids=["dropped", "kept"])
def test_support_remembers_where_its_sets_came_from(limit, monkeypatch):
    """A probability of 0 and ineligibility are different reasons, also where distributions are not kept."""
    monkeypatch.setattr("sparing.log.support.DENSE_LIMIT", limit)
    zero = Support.from_distribution(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    assert zero.from_probabilities
    assert (zero.probabilities is None) == (limit == 0)
    assert zero.take(np.array([1])).from_probabilities
    assert not Support.from_mask(np.array([[True, False]])).from_probabilities
    assert not Support.unknown(2, 3).from_probabilities
