"""What all readers of events share."""

import numpy as np
import pytest

import other_formats
from sparing.errors import LogError
from sparing.log import Log, passes
from sparing.log.formats import FORMATS, OTHERS
from sparing.log.formats.events import Event, EventReader


class Listed(EventReader):
    """A reader of the events of a list."""

    def __init__(self, events):
        super().__init__("it", alone_means_all=True)
        self.listed = events

    def events(self):
        return iter(self.listed)

    def read(self, **options):
        rows, notes = self.scan(**options)
        return rows.read(), notes


def drawn(rng, count, *, distributions):
    """Events whose features and actions turn up late, in no order; every third lists no actions."""
    for row in range(count):
        known = np.arange(2 + row // 3)
        listed = rng.permutation(known)[: rng.integers(1, len(known) + 1)].tolist()
        shares = rng.dirichlet(np.ones(len(listed))).tolist()
        alone = row % 3 == 2 and not distributions
        yield Event(
            f"row {row}",
            {f"f{i}": float(rng.normal()) for i in rng.permutation(known)[:3]},
            f"a{listed[0]}",
            float(rng.normal()),
            propensity=shares[0],
            eligible=None if alone else [f"a{i}" for i in listed],
            probabilities=shares if distributions else None,
            context_id=row // 2,
        )


@pytest.mark.parametrize("batch", [1, 7, 4096])
@pytest.mark.parametrize("distributions", [True, False])
def test_what_turns_up_late_is_in_every_row(batch, distributions, monkeypatch):
    """The log is that of full tables, however few rows are collected at a time."""
    monkeypatch.setattr(passes, "BATCH_ROWS", batch)
    given = list(drawn(np.random.default_rng(batch), 60, distributions=distributions))
    log, _ = Listed(given).read()
    assert list(log.feature_names) == list(dict.fromkeys(name for each in given for name in each.features))
    labels = {each.action for each in given}.union(*(each.eligible or () for each in given))
    assert log.action_names == tuple(sorted(labels))
    contexts = [[each.features.get(name, 0.0) for name in log.feature_names] for each in given]
    assert log.contexts.tolist() == contexts
    assert [log.action_names[i] for i in log.actions] == [each.action for each in given]
    assert log.rewards.tolist() == [each.reward for each in given]
    assert log.propensities.tolist() == [each.propensity for each in given]
    assert log.context_ids.tolist() == [each.context_id for each in given]
    sets = [set(each.eligible or labels) for each in given]
    assert [{log.action_names[i] for i in np.flatnonzero(row)} for row in log.support.mask()] == sets
    if distributions:
        shares = [dict(zip(each.eligible, each.probabilities, strict=True)) for each in given]
        table = [[row.get(name, 0.0) for name in log.action_names] for row in shares]
        assert log.support.distribution().tolist() == table
    else:
        assert log.support.probabilities is None
    assert log.support.from_probabilities == distributions


def test_distributions_that_some_events_lack_are_kept_as_sets(monkeypatch):
    """Whichever part the first event without one falls in."""
    monkeypatch.setattr(passes, "BATCH_ROWS", 5)
    given = list(drawn(np.random.default_rng(0), 20, distributions=True))
    given[12].probabilities = None
    log, notes = Listed(given).read()
    assert log.support.probabilities is None
    assert not log.support.from_probabilities
    assert log.support.sizes.tolist() == [len(each.eligible) for each in given]
    assert any("Some events have no full distribution (row 12)" in note for note in notes)


def test_the_first_event_with_an_unknown_action_is_named():
    given = list(drawn(np.random.default_rng(1), 20, distributions=False))
    seen = next(i for i, each in enumerate(given) if "a4" in [each.action, *(each.eligible or ())])
    with pytest.raises(LogError, match=rf"row {seen}: unknown action 'a4'; the 4 known ones are"):
        Listed(given).read(actions=["a0", "a1", "a2", "a3"])


@pytest.mark.parametrize("name", [each.name for each in OTHERS])
def test_a_file_without_rows_is_refused(name, tmp_path):
    log = Log.from_arrays([[0.0]], [0], [0.0], distribution=[[1.0]], action_names=[0]).take([])
    other_formats.write(log, tmp_path / "log", name)
    if name == "obp":
        assert FORMATS[name].read(tmp_path / "log")[0].n_rows == 0
    else:
        with pytest.raises(LogError, match=r"no labelled event|has no rows"):
            FORMATS[name].read(tmp_path / "log")


def test_a_feature_without_a_name_is_given_one(tmp_path):
    log = Log.from_arrays([[1.0, 2.0]], [1], [1.0], propensities=[1.0], feature_names=["", "a"])
    for name in ("vw", "vw-adf", "dsjson"):
        notes = FORMATS[name].write(log, tmp_path / "log")
        assert any("x_0, x_1, … because '' cannot" in note for note in notes)
        assert FORMATS[name].read(tmp_path / "log")[0].contexts.tolist() == [[1.0, 2.0]]
