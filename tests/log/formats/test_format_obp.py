"""Open Bandit Pipeline's feedback: dict and .npz."""

import numpy as np
import pytest

from each import for_each
from sparing.errors import LogError
from sparing.log import Log
from sparing.log.formats import FORMATS


def feedback(**fields):
    """Four rounds of three actions, with changes."""
    plain = {
        "n_rounds": 4,
        "n_actions": 3,
        "context": np.arange(8.0).reshape(4, 2),
        "action": np.array([0, 2, 1, 0]),
        "position": None,
        "reward": np.array([1, 0, 1, 0]),
        "pscore": np.array([0.5, 0.25, 0.25, 0.5]),
    }
    return {name: value for name, value in {**plain, **fields}.items() if value is not ...}


TABLE = np.array([[0.5, 0.5, 0.0], [0.75, 0.0, 0.25], [0.5, 0.25, 0.25], [0.5, 0.0, 0.5]])


def test_pscore_alone_leaves_the_support_unknown():
    log, notes = FORMATS["obp"].read(feedback())
    assert log.action_names == (0, 1, 2)
    assert log.actions.tolist() == [0, 2, 1, 0]
    assert log.contexts.tolist() == np.arange(8.0).reshape(4, 2).tolist()
    assert log.propensities.tolist() == [0.5, 0.25, 0.25, 0.5]
    assert log.support.kind == "unknown"
    assert any("pscore alone" in note for note in notes)


@pytest.mark.parametrize("shape", [(4, 3, 1), (4, 3)])
def test_pi_b_gives_the_support(shape):
    log, notes = FORMATS["obp"].read(feedback(pi_b=TABLE.reshape(shape)))
    assert log.support.kind == "exact"
    assert log.support.distribution().tolist() == TABLE.tolist()
    assert notes == []


def test_names_and_fields_that_are_not_kept():
    extra = {"action_context": np.eye(3), "expected_reward": np.zeros((4, 3))}
    log, notes = FORMATS["obp"].read(feedback(**extra), actions=["a", "b", "c"])
    assert log.action_names == ("a", "b", "c")
    assert any("Not kept: action_context, expected_reward." in note for note in notes)
    log, notes = FORMATS["obp"].read(feedback(n_actions=..., n_rounds=..., pscore=None))
    assert log.n_actions == 3
    assert log.propensities is None
    assert any("No n_actions" in note for note in notes)


def test_one_position_is_read_and_several_must_be_chosen_from():
    one, notes = FORMATS["obp"].read(feedback(position=np.full(4, 2)))
    assert one.n_rows == 4
    several = feedback(
        position=np.array([0, 1, 0, 1]), pi_b=np.stack([TABLE, TABLE[:, ::-1]], axis=2), pscore=None
    )
    with pytest.raises(LogError, match=r"positions \[0, 1\]; .* position=0"):
        FORMATS["obp"].read(several)
    log, notes = FORMATS["obp"].read(several, position=1)
    assert log.actions.tolist() == [2, 0]
    assert log.support.distribution().tolist() == TABLE[[1, 3], ::-1].tolist()
    assert any("Only position 1 was read: 2 of 4 rows." in note for note in notes)
    with pytest.raises(LogError, match=r"only \[0, 1\]"):
        FORMATS["obp"].read(several, position=5)
    with pytest.raises(LogError, match="has no positions"):
        FORMATS["obp"].read(feedback(), position=0)


@for_each(
    ("fields", "message"),
    [
        ({"context": ...}, "no 'context'"),
        ({"action": np.array([0, 3, 1, 0])}, "action 3 at row 1; expected 0 to 2"),
        ({"action": np.array([0, -1, 1, 0])}, "action -1 at row 1"),
        ({"action": np.array([0, 0.5, 1, 0])}, "action is 0.5 at row 1"),
        ({"action": np.array([0, np.nan, 1, 0])}, "action is nan at row 1"),
        ({"action": np.zeros((4, 1))}, r"action has shape \(4, 1\)"),
        ({"action": np.array(["a", "b", "c", "d"])}, "values of action are not all numbers"),
        ({"n_rounds": 5}, "n_rounds is 5, but there are 4 actions"),
        ({"n_actions": np.array([3, 3])}, "n_actions has 2 values"),
        ({"reward": np.array([1, np.nan, 1, 0])}, "reward at row 1 is nan"),
        ({"pscore": np.array([0.5, 0, 0.25, 0.5])}, r"propensity 0.0 at row 1; must be in \(0, 1\]"),
        ({"pscore": np.array([0.5, 0.5, 0.25, 0.5]), "pi_b": TABLE}, "propensity 0.5 at row 1 contradicts"),
        ({"context": np.full((4, 2), np.inf)}, "context feature 0 at row 0 is inf"),
        ({"context": [["a", "b"]] * 4}, "values of context are not all numbers"),
        ({"pi_b": TABLE[:, :2]}, r"pi_b of shape \(4, 2, 1\)"),
        ({"pi_b": TABLE * 2}, "sums to 2"),
        ({"pi_b": np.stack([TABLE, TABLE], axis=2)}, "a position to choose its last axis by"),
        ({"pi_b": np.stack([TABLE, TABLE], axis=2), "position": np.full(4, 7)}, "position 7 is outside pi_b"),
        ({"position": np.zeros(3)}, "3 positions for 4 actions"),
    ],
)
def test_bad_feedback_is_refused(fields, message):
    with pytest.raises(LogError, match=message):
        FORMATS["obp"].read(feedback(**fields))


def test_other_mistakes(tmp_path):
    with pytest.raises(LogError, match="2 names in actions"):
        FORMATS["obp"].read(feedback(), actions=["a", "b"])
    with pytest.raises(LogError, match="from int"):
        FORMATS["obp"].read(3)
    with pytest.raises(LogError, match="does not exist"):
        FORMATS["obp"].read(tmp_path / "none.npz")


def written_arrays(log, folder):
    notes = FORMATS["obp"].write(log, folder / "written.npz")
    with np.load(folder / "written.npz") as arrays:
        return dict(arrays), notes


def test_arrays_of_the_same_shape_are_written(draw, tmp_path):
    log = draw(labels=range(5))
    written, notes = written_arrays(log, tmp_path)
    assert written["n_rounds"] == 60
    assert written["n_actions"] == 5
    assert "position" not in written
    assert written["pi_b"].shape == (60, 5, 1)
    assert (written["pi_b"][:, :, 0] == log.support.distribution()).all()
    assert (written["pscore"] == log.propensities).all()
    assert notes == []


def test_sets_without_distributions_are_lost_and_said_to_be(draw, tmp_path):
    written, notes = written_arrays(draw(support="sets", labels=range(5)), tmp_path)
    assert "pi_b" not in written
    assert any("sets of available actions are lost" in note for note in notes)
    written, notes = written_arrays(draw(support="nothing", labels=range(5)), tmp_path)
    assert "pscore" not in written
    assert any("no propensities" in note for note in notes)


def test_the_file_holds_plain_arrays_and_is_the_same_each_time(tmp_path, draw):
    log = draw(labels=range(5))
    for name in ("one.npz", "two.npz"):
        FORMATS["obp"].write(log, tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with np.load(tmp_path / "one.npz", allow_pickle=False) as archive:
        assert set(archive.files) == {
            "n_rounds",
            "n_actions",
            "context",
            "action",
            "reward",
            "pscore",
            "pi_b",
        }


def test_pickled_and_damaged_files_are_refused(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, **{name: np.array(value, dtype=object) for name, value in feedback().items()})
    with pytest.raises(LogError, match=r"no \.npz of plain arrays"):
        FORMATS["obp"].read(path)
    FORMATS["obp"].write(Log.from_arrays(np.ones((50, 3)), [0] * 50, [1.0] * 50), path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"PK\3\4 no", whole[:200] + b"\0\0\0\0" + whole[204:]):
        path.write_bytes(damaged)
        with pytest.raises(LogError, match=r"no \.npz of plain arrays"):
            FORMATS["obp"].read(path)
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(LogError, match=r"no \.npz of plain arrays"):
        FORMATS["obp"].read(tmp_path / "one.npy")
