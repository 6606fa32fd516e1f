"""The Open Bandit Dataset's CSV."""

import csv

import numpy as np
import pytest

import other_formats
from sparing.errors import LogError
from sparing.log import Log
from sparing.log.formats import FORMATS

HEADER = [
    "",
    "timestamp",
    "item_id",
    "position",
    "click",
    "propensity_score",
    "user_feature_0",
    "user_feature_1",
]
ROWS = [
    [0, "2019-11-24 00:00:17", 2, 1, 0, 0.0875, "cef3", "03a5", 0.0, 0.5, 0.0],
    [1, "2019-11-24 00:00:18", 0, 3, 1, 0.5, "81ce", "03a5", 0.0, 0.0, 0.25],
    [2, "2019-11-24 00:00:19", 2, 1, 0, 0.25, "81ce", "2d03", 1.0, 0.0, 0.0],
]
AFFINITIES = [f"user-item_affinity_{i}" for i in range(3)]


@pytest.fixture
def file(tmp_path):
    def write(rows=ROWS, header=(*HEADER, *AFFINITIES)):
        path = tmp_path / "all.csv"
        with path.open("w", newline="") as target:
            csv.writer(target).writerows([header, *rows])
        return path

    return write


def changed(row, column, value):
    """The rows with one cell changed."""
    at = [*HEADER, *AFFINITIES].index(column)
    return [
        [value if (i, j) == (row, at) else cell for j, cell in enumerate(cells)]
        for i, cells in enumerate(ROWS)
    ]


def test_rows_by_hand(file):
    log, notes = FORMATS["open-bandit"].read(file())
    assert log.feature_names == (
        "user_feature_0=81ce",
        "user_feature_0=cef3",
        "user_feature_1=03a5",
        "user_feature_1=2d03",
        "position=1",
        "position=3",
    )
    assert log.contexts.tolist() == [[0, 1, 1, 0, 1, 0], [1, 0, 1, 0, 0, 1], [1, 0, 0, 1, 1, 0]]
    assert log.action_names == (0, 1, 2)
    assert log.actions.tolist() == [2, 0, 2]
    assert log.rewards.tolist() == [0.0, 1.0, 0.0]
    assert log.propensities.tolist() == [0.0875, 0.5, 0.25]
    assert log.support.kind == "unknown"
    assert any("position is one-hot" in note for note in notes)
    assert any("support is unknown" in note for note in notes)
    assert any("timestamps and affinities" in note for note in notes)


def test_one_position_only(file):
    log, notes = FORMATS["open-bandit"].read(file(), position=1)
    assert log.n_rows == 2
    assert log.rewards.tolist() == [0.0, 0.0]
    assert not any(name.startswith("position") for name in log.feature_names)
    assert any("Only position 1" in note for note in notes)


def test_affinities_are_numbers(file):
    log, _ = FORMATS["open-bandit"].read(file(), affinities=True)
    assert log.feature_names[-3:] == tuple(AFFINITIES)
    assert log.contexts[:, -3:].tolist() == [row[-3:] for row in ROWS]


def test_the_other_name_of_the_propensity_and_none(file):
    header = ["action_prob" if name == "propensity_score" else name for name in [*HEADER, *AFFINITIES]]
    assert FORMATS["open-bandit"].read(file(header=header))[0].propensities.tolist() == [0.0875, 0.5, 0.25]
    header[5] = "something"
    log, notes = FORMATS["open-bandit"].read(file(header=header))
    assert log.propensities is None
    assert any("no propensities" in note for note in notes)


def test_without_affinities_the_items_are_those_logged(file):
    path = file([row[:8] for row in ROWS], HEADER)
    log, notes = FORMATS["open-bandit"].read(path)
    assert log.n_actions == 3
    assert any("No affinity columns: 3 items" in note for note in notes)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert FORMATS["open-bandit"].read(path, actions=["a", "b", "c", "d"])[0].action_names == (
        "a",
        "b",
        "c",
        "d",
    )


def test_small_batches_fill_the_same_arrays(file, monkeypatch):
    rng = np.random.default_rng(0)
    rows = [
        [
            i,
            "t",
            *rng.integers(3, size=1),
            rng.integers(1, 4),
            0,
            0.5,
            *rng.choice(["a", "b"], 2),
            *rng.random(3),
        ]
        for i in range(200)
    ]
    path = file(rows)
    whole, _ = FORMATS["open-bandit"].read(path, affinities=True)
    second, _ = FORMATS["open-bandit"].read(path, position=2)
    monkeypatch.setattr("sparing.log.tables.CSV_BLOCK", 1024)
    parts, _ = FORMATS["open-bandit"].read(path, affinities=True)
    assert parts.contexts.tobytes() == whole.contexts.tobytes()
    assert parts.actions.tolist() == whole.actions.tolist() == [int(row[2]) for row in rows]
    assert FORMATS["open-bandit"].read(path, position=2)[0].contexts.tobytes() == second.contexts.tobytes()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (changed(1, "item_id", 3), "line 3: item_id 3; expected 0 to 2"),
        (changed(1, "item_id", -1), "line 3: item_id is '-1'; expected .* 0 or more"),
        (changed(1, "item_id", "x"), "line 3: item_id is 'x'"),
        (changed(1, "item_id", 0.5), "line 3: item_id is '0.5'; expected a whole number"),
        (changed(2, "click", ""), "line 4: click is ''"),
        (changed(2, "click", "nan"), "line 4: click is 'nan'"),
        (changed(0, "propensity_score", 0), r"line 2: propensity_score is '0'; expected .* in \(0, 1\]"),
        (changed(0, "propensity_score", 1.5), r"expected a number in \(0, 1\]"),
        (changed(0, "position", "top"), "line 2: position is 'top'"),
        ([*ROWS, ROWS[0][:4]], "line 5 has 4 cells .* the header has"),
        ([], "has no rows"),
    ],
)
def test_bad_rows_are_named(rows, message, file):
    with pytest.raises(LogError, match=message):
        FORMATS["open-bandit"].read(file(rows))


def test_other_mistakes(file, tmp_path):
    path = file()
    with pytest.raises(LogError, match=r"no rows with position 2; its positions are \[1, 3\]"):
        FORMATS["open-bandit"].read(path, position=2)
    with pytest.raises(LogError, match="user_feature_0 has more than 1 values"):
        FORMATS["open-bandit"].read(path, max_categories=1)
    with pytest.raises(LogError, match="line 2: user-item_affinity_1 is 'x'"):
        FORMATS["open-bandit"].read(file(changed(0, "user-item_affinity_1", "x")), affinities=True)
    with pytest.raises(LogError, match="does not exist"):
        FORMATS["open-bandit"].read(tmp_path / "none.csv")
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(LogError, match="is not text in UTF-8"):
        FORMATS["open-bandit"].read(path)
    path.write_text("")
    with pytest.raises(LogError, match="no column 'item_id'"):
        FORMATS["open-bandit"].read(path)
    path.write_text("item_id,click\n1,0\n")
    with pytest.raises(LogError, match="no user features"):
        FORMATS["open-bandit"].read(path)
    with pytest.raises(LogError, match="no column position"):
        FORMATS["open-bandit"].read(path, position=1)


def test_many_numbers_in_a_user_feature_stay_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr("sparing.log.tables.CSV_BLOCK", 1024)
    values = np.random.default_rng(2).normal(size=(50, 1))
    log = Log.from_arrays(values, np.zeros(50, int), np.zeros(50), feature_names=["user_feature_0"])
    other_formats.write(log, tmp_path / "log.csv", "open-bandit")
    back, notes = FORMATS["open-bandit"].read(tmp_path / "log.csv", max_categories=10)
    assert back.contexts.tobytes() == values.tobytes()
    assert any("kept as numbers: user_feature_0" in note for note in notes)
