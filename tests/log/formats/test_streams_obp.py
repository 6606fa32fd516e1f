"""The arrays of an .npz are read some rounds at a time, as they are read into memory."""

import numpy as np
import pytest
from walked_logs import ROWS, assert_same, few

import other_formats
from sparing.errors import LogError
from sparing.log import convert


@pytest.fixture(autouse=True)
def small(monkeypatch):
    few(monkeypatch)


def feedback(rows=ROWS, slots=3):
    """A feedback with several positions."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(4), size=(rows, slots)).transpose(0, 2, 1)
    places = rng.integers(slots, size=rows)
    actions = rng.integers(4, size=rows)
    return {
        "n_rounds": rows,
        "n_actions": 4,
        "context": rng.integers(0, 9, size=(rows, 3)),
        "action": actions.astype(np.int32),
        "position": places,
        "reward": rng.integers(2, size=rows).astype(bool),
        "pscore": shares[np.arange(rows), actions, places],
        "pi_b": np.ascontiguousarray(shares),
        "expected_reward": rng.random((rows, 4)),
    }


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("slot", [0, 2])
def test_rounds_of_one_position_are_read_some_at_a_time(slot, save, tmp_path):
    save(tmp_path / "log.npz", **feedback())
    given = feedback()
    log, notes = other_formats.read(given, position=slot)
    at = given["position"] == slot
    assert np.array_equal(log.contexts, given["context"][at])
    assert np.array_equal(log.propensities, given["pscore"][at])
    assert np.array_equal(log.support.distribution(), given["pi_b"][at, :, slot])
    rows, found = other_formats.opened(tmp_path / "log.npz", position=slot)
    assert found == notes
    assert_same(rows, log)


@pytest.mark.parametrize(
    "changes",
    [
        {"context": np.asfortranarray(np.random.default_rng(1).random((ROWS, 3)))},
        {"context": np.zeros((ROWS, 1), order="F")},
        {"n_actions": None, "pi_b": None, "pscore": None},
    ],
)
def test_arrays_in_any_order_are_those_of_the_dict(changes, tmp_path):
    fields = {**feedback(slots=1), **changes}
    np.savez(tmp_path / "log.npz", **{name: value for name, value in fields.items() if value is not None})
    log, notes = other_formats.read(fields)
    rows, found = other_formats.opened(tmp_path / "log.npz")
    assert found == notes
    assert_same(rows, log)


@pytest.mark.parametrize(
    "changes",
    [
        {"action": np.r_[np.zeros(ROWS - 1), 4.0]},
        {"action": np.r_[np.zeros(ROWS - 1), 0.5]},
        {"action": np.zeros((ROWS, 1))},
        {"position": np.zeros(ROWS - 1)},
        {"reward": np.zeros(ROWS - 1)},
        {"pi_b": np.full((ROWS, 5, 3), 0.2)},
        {"n_rounds": 7},
        {"context": None},
        {"position": None},
        {"position": np.arange(ROWS) % 3 + 4},
    ],
)
def test_arrays_that_do_not_fit_are_told_as_in_memory(changes, tmp_path):
    fields = {**feedback(), **changes}
    np.savez(tmp_path / "log.npz", **{name: value for name, value in fields.items() if value is not None})
    with pytest.raises(LogError) as told:
        other_formats.read(tmp_path / "log.npz", position=0)
    with pytest.raises(LogError) as found:
        convert(tmp_path / "log.npz", tmp_path / "out.parquet", position=0)
    assert str(found.value) == str(told.value)
    assert [each.name for each in tmp_path.iterdir()] == ["log.npz"]


def test_a_flipped_bit_in_an_array_is_noticed(tmp_path):
    """Late in the contexts, after blocks were written."""
    path = tmp_path / "log.npz"
    np.savez(path, **feedback(slots=1))
    content = bytearray(path.read_bytes())
    content[content.index(b"action.npy") - 200] ^= 1
    path.write_bytes(content)
    with pytest.raises(LogError, match="it is damaged: Bad CRC-32"):
        convert(path, tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == [path]
