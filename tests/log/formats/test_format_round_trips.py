"""A log written in each format and read back is the log, as far as the format can carry it."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as arrays

from sparing.errors import LogError
from sparing.log import Log
from sparing.log.formats import FORMATS

CARRIES = {
    "obp": {"sets": False, "distributions": True},
    "vw": {},
    "vw-adf": {},
    "dsjson": {"distributions": True},
}
SUPPORTS = ["distribution", "sets", "unknown", "nothing"]


def there_and_back(name, log, path, **options):
    written = FORMATS[name].write(log, path)
    back, assumed = FORMATS[name].read(path, **options)
    return back, written, assumed


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("name", CARRIES)
def test_what_is_carried_comes_back_bit_for_bit(name, support, draw, same, tmp_path):
    log = draw(support=support, labels=list(range(5) if name == "obp" else range(1, 6)))
    if support == "nothing" and name != "obp":
        with pytest.raises(LogError, match="needs the probability of every logged action"):
            FORMATS[name].write(log, tmp_path / "log")
        assert not list(tmp_path.iterdir())
        return
    if name == "vw" and support in ("distribution", "sets"):
        log = log.take(log.support.sizes > 1)
    options = {} if name == "obp" else {"actions": log.action_names}
    back, _, _ = there_and_back(name, log, tmp_path / "log", **options)
    same(back, log, **CARRIES[name])


@pytest.mark.parametrize("name", CARRIES)
def test_unknown_support_stays_unknown_or_the_notes_say_so(name, draw, tmp_path):
    log = draw(support="unknown")
    back, written, _ = there_and_back(name, log, tmp_path / "log")
    if back.support.known:
        assert any("unknown" in note and "as if" in note for note in written)
    else:
        assert back.support.kind == "unknown"


@pytest.mark.parametrize("name", CARRIES)
def test_an_estimated_support_is_never_written_as_known(name, draw, tmp_path):
    log = draw(support="distribution")
    estimated = Log.from_indices(
        np.array(log.contexts),
        np.array(log.actions),
        np.array(log.rewards),
        log.action_names,
        propensities=np.array(log.propensities),
        support=type(log.support).from_distribution(log.support.distribution(), kind="estimated"),
    )
    back, written, _ = there_and_back(name, estimated, tmp_path / "log")
    assert back.support.probabilities is None
    assert not back.support.known or back.support.mask().all()
    assert any("estimated" in note or "lost" in note for note in written)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("obp", ["actions=[...]", "Feature names", "Context ids"]),
        ("vw", ["actions=[...]", "context_id='tag'", "distribution"]),
        ("vw-adf", ["in no row ('z')", "context_id='tag'", "distribution", "sorted"]),
        ("dsjson", ["in no row ('z')", "sorted"]),
    ],
)
def test_notes_name_what_is_lost(name, words, tmp_path):
    log = Log.from_arrays(
        [[1.0, 2.0], [3.0, 4.0]],
        ["c", "b"],
        [1.0, 0.0],
        distribution=[[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]],
        action_names=["c", "b", "z"],
        context_ids=["u", "v"],
        feature_names=["age", "height"],
    )
    notes = FORMATS[name].write(log, tmp_path / "log")
    for word in words:
        assert any(word in note for note in notes), (word, notes)
    assert len(notes) == len(words)


def test_context_ids_come_back_where_they_are_carried(draw, same, tmp_path):
    log = draw(ids=True)
    for name, options in {
        "vw-adf": {"context_id": "tag"},
        "dsjson": {},
    }.items():
        back, _, _ = there_and_back(name, log, tmp_path / name, **options)
        same(back, log, ids=True, distributions=name == "dsjson")
    whole = log.take(log.support.sizes > 1)
    back, _, _ = there_and_back("vw", whole, tmp_path / "vw", context_id="tag")
    same(back, whole, ids=True)


def test_whole_context_ids_stay_numbers(tmp_path):
    log = Log.from_arrays([[1.0], [2.0]], [1, 2], [0.0, 1.0], propensities=[0.5, 0.5], context_ids=[7, 2**40])
    back, _, _ = there_and_back("dsjson", log, tmp_path / "log")
    assert back.context_ids.tolist() == [7, 2**40]
    assert back.context_ids.dtype.kind == "i"


@pytest.mark.parametrize("name", ["vw", "vw-adf", "dsjson"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_names_labels_and_numbers_survive(name, data):
    text = st.text(max_size=6)
    d = data.draw(st.integers(1, 3))
    contexts = data.draw(arrays.arrays(float, (3, d), elements=st.floats(-1e50, 1e50)))
    names = data.draw(st.lists(text.filter(bool), min_size=d, max_size=d, unique=True))
    labels = data.draw(
        st.one_of(
            st.lists(text, min_size=2, max_size=3, unique=True),
            st.lists(st.integers(-9, 99), min_size=2, max_size=3, unique=True),
        )
    )
    if name == "dsjson":
        names = [f"f{n}" for n in names]
    log = Log.from_arrays(
        contexts,
        [labels[0], labels[-1], labels[0]],
        [1.0, 0.0, -1.5],
        propensities=[0.5, 0.25, 1.0],
        action_names=labels,
        feature_names=names,
    )
    with tempfile.TemporaryDirectory() as folder:
        back, _, _ = there_and_back(name, log, Path(folder) / "log", actions=labels)
    assert back.contexts.tobytes() == log.contexts.tobytes()
    assert back.feature_names == log.feature_names
    assert back.action_names == log.action_names
    assert back.actions.tolist() == log.actions.tolist()


@pytest.mark.parametrize("name", CARRIES)
def test_a_failed_write_leaves_the_old_file(name, draw, tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_text("old")
    log = draw()
    monkeypatch.setattr(type(log.support), "distribution", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        FORMATS[name].write(log, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["vw", "dsjson"])
def test_more_rows_than_a_batch(name, tmp_path, monkeypatch):
    """Batches of a few rows must fill the same arrays."""
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", 7)
    monkeypatch.setattr("sparing.log.passes.CELLS", 16)
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.ones(3), size=50)
    log = Log.from_arrays(
        rng.normal(size=(50, 2)),
        rng.integers(3, size=50),
        rng.normal(size=50),
        distribution=table,
        action_names=range(3),
    )
    back, _, _ = there_and_back(name, log, tmp_path / "log", actions=range(3))
    assert back.contexts.tobytes() == log.contexts.tobytes()
    assert back.actions.tolist() == log.actions.tolist()
    if name == "dsjson":
        assert (back.support.distribution() == table).all()
