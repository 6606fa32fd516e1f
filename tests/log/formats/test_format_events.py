"""What all readers of events share."""

import itertools

import pytest

from sparing.errors import LogError
from sparing.log import Log
from sparing.log.formats import FORMATS, OTHERS
from sparing.log.formats.events import Event, Reader


def events(*counts):
    """Walks of as many events as `counts` says, one after the other."""
    walks = itertools.cycle(counts)
    return lambda: (Event(f"row {i}", {"a": float(i)}, i % 2, 1.0) for i in range(next(walks)))


class Walked(Reader):
    """A reader of the events that `walks` returns."""

    def __init__(self, walks):
        super().__init__("it")
        self.walks = walks

    def events(self):
        return self.walks()


def build(walks):
    return Walked(walks).read()


def test_two_walks_fill_the_log():
    log, _ = build(events(3))
    assert log.contexts.tolist() == [[0.0], [1.0], [2.0]]
    assert log.actions.tolist() == [0, 1, 0]


def test_a_log_that_changes_between_the_walks_is_refused():
    with pytest.raises(LogError, match="row 3: the log grew while it was read"):
        build(events(3, 4))
    with pytest.raises(LogError, match="the log shrank while it was read"):
        build(events(3, 2))


@pytest.mark.parametrize("name", [each.name for each in OTHERS])
def test_a_log_without_rows_is_written_and_refused_when_read(name, tmp_path):
    log = Log.from_arrays([[0.0]], [0], [0.0], distribution=[[1.0]], action_names=[0]).take([])
    FORMATS[name].write(log, tmp_path / "log")
    if name == "obp":
        assert FORMATS[name].read(tmp_path / "log")[0].n_rows == 0
    else:
        with pytest.raises(LogError, match=r"no labelled event|has no rows"):
            FORMATS[name].read(tmp_path / "log")


def test_a_feature_without_a_name_is_given_one(tmp_path):
    log = Log.from_arrays([[1.0, 2.0]], [1], [1.0], propensities=[1.0], feature_names=["", "a"])
    for name in ("vw", "vw-adf", "dsjson", "coba", "river"):
        notes = FORMATS[name].write(log, tmp_path / "log")
        assert any("x_0, x_1, … because '' cannot" in note for note in notes)
        assert FORMATS[name].read(tmp_path / "log")[0].contexts.tolist() == [[1.0, 2.0]]
