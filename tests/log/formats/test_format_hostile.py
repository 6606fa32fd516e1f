"""Other tools' files that are damaged, of another task, or that contradict themselves."""

import io
import json
import struct
import zipfile

import numpy as np
import pytest

import other_formats
from each import for_each
from sparing.errors import LogError
from sparing.log.formats import FORMATS


@pytest.fixture
def file(tmp_path):
    def write(text, name="log.vw"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def feedback(**fields):
    return {
        "n_rounds": 4,
        "n_actions": 2,
        "context": np.arange(8.0).reshape(4, 2),
        "action": np.array([0, 1, 0, 1]),
        "reward": np.array([0.0, 1.0, 0.5, 2.0]),
        "pscore": np.full(4, 0.5),
        **fields,
    }


@for_each("position", [None, np.zeros(4, dtype=int), np.array([0, 1, 0, 1])])
@for_each(
    ("name", "values"),
    [
        ("reward", np.zeros(6)),
        ("reward", np.zeros(3)),
        ("reward", np.float64(1.0)),
        ("reward", np.zeros((4, 1))),
        ("context", np.zeros((6, 2))),
        ("context", np.float64(3.0)),
        ("context", np.zeros(4)),
        ("pscore", np.full(6, 0.5)),
        ("pscore", np.float64(0.5)),
    ],
)
def test_arrays_of_another_length_are_refused_not_cut(name, values, position):
    given = {} if position is None else {"position": position}
    chosen = None if position is None else 0
    with pytest.raises(LogError, match=f"{name} has shape .*expected"):
        FORMATS["obp"].read(feedback(**{name: values}, **given), position=chosen)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("action", np.int64(1), r"action has shape \(\)"),
        ("position", np.int64(0), r"position has shape \(\)"),
        ("position", np.array([0, 0, 0, 1e300]), "position is 1e.300 at row 3; expected one whole number"),
        ("n_actions", 1e300, "n_actions is 1e.300"),
        ("reward", np.array([1j, 0, 0, 0]), "reward are not all numbers, but complex"),
        ("reward", np.array([1, 2, 3, 4], dtype="datetime64[D]"), "reward are not all numbers, but dates"),
    ],
)
def test_fields_that_are_no_numbers_a_row(name, values, message):
    with pytest.raises(LogError, match=message):
        FORMATS["obp"].read(feedback(**{name: values}))


def archive(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for name, content in members.items():
            target.writestr(f"{name}.npy", content)
    return bytearray(buffer.getvalue())


def array(values):
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def patched(data, offset, *values):
    """The archive with a field of each local (from its start) and central header set."""
    local, central = offset
    for mark, place in ((b"PK\3\4", local), (b"PK\1\2", central)):
        at = data.find(mark)
        while at >= 0:
            struct.pack_into("<H", data, at + place, *values)
            at = data.find(mark, at + 4)
    return bytes(data)


WHOLE = {name: array(values) for name, values in feedback().items()}


@pytest.mark.parametrize(
    "data",
    [
        patched(archive(**WHOLE), (6, 8), 1),  # encrypted
        patched(archive(**WHOLE), (8, 10), 97),  # an unknown way of packing
        patched(archive(**WHOLE), (8, 10), 14),  # one that NumPy does not write
        bytes(archive(**WHOLE | {"action": b"\x93NUMPY\x01\x00v\x00{'descr': (((" + b" " * 100})),
        bytes(archive(**WHOLE | {"action": b"\x93NUMPY\x01\x00v\x00" + b"[" * 118})),
        bytes(archive(**WHOLE | {"action": b"\x93NUMPY\x09\x00v\x00" + b" " * 118})),
        bytes(archive(**WHOLE | {"action": b"\x93NUMPY\x01\x00\xff\xff{}"})),
        bytes(archive(**WHOLE | {"action": b"no array"})),
        bytes(
            archive(
                **WHOLE | {"action": WHOLE["action"].replace(b"(4,), }      ", b"(4" + b"0" * 6 + b",), }")}
            )
        ),
    ],
)
def test_odd_archives(data, file):
    with pytest.raises(LogError, match=r"no \.npz of plain arrays, or it is damaged"):
        other_formats.read(file(data, "log.npz"), "obp")


def test_an_array_that_stands_twice(file):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as target:
        for name, content in WHOLE.items():
            target.writestr(f"{name}.npy", content)
        with pytest.warns(UserWarning, match="Duplicate name"):
            target.writestr("reward.npy", array(np.zeros(4)))
    with pytest.raises(LogError, match="twice"):
        other_formats.read(file(buffer.getvalue(), "log.npz"))


HEADER = "item_id,position,click,propensity_score,user_feature_0"


@pytest.mark.parametrize("twice", ["click", "item_id", "user_feature_0", "timestamp,timestamp"])
def test_equal_columns_of_an_open_bandit_file(twice, file):
    row = "1,1,0,0.5,2" + ",1" * (1 + twice.count(","))
    with pytest.raises(LogError, match=f"two columns '{twice.split(',')[0]}'"):
        FORMATS["open-bandit"].read(file(f"{HEADER},{twice}\n{row}\n", "log.csv"))


@pytest.mark.parametrize(("column", "cell"), [(1, "1e300"), (0, "1e300"), (0, "1e17"), (1, "1.5"), (0, "-1")])
def test_items_and_positions_that_are_no_numbers_to_count_with(column, cell, file):
    cells = ["1", "1", "0", "0.5", "2"]
    cells[column] = cell
    with pytest.raises(LogError, match=r"line 2: (item_id|position)"):
        FORMATS["open-bandit"].read(file(f"{HEADER}\n{','.join(cells)}\n", "log.csv"))


class TestBlocksWithoutASharedLine:
    """`--cb_adf` blocks must not be taken for `--cb` lines."""

    ONE = "| a:1\n1:-1:0.5 | b:1\n| c:1\n"

    @pytest.mark.parametrize("text", [ONE, ONE + "\n" + ONE, "\n" + ONE + "\n\n", "1:-1:0.5 | b:1\n| a:1\n"])
    def test_they_are_recognised(self, text, file):
        log, notes = other_formats.read(file(text))
        assert log.n_actions == len({line for line in text.split("\n") if line})
        assert log.rewards.tolist() == [1.0] * text.count("-1:0.5")
        assert any("actions of a block" in note for note in notes)

    @pytest.mark.parametrize("text", [ONE, ONE + "\n" + ONE])
    def test_they_are_not_read_as_lines(self, text, file):
        with pytest.raises(LogError, match=r"line 2: one line with a label among lines without.*vw-adf"):
            FORMATS["vw"].read(file(text))

    def test_lines_with_blank_lines_between_are_still_lines(self, file):
        log, _ = other_formats.read(file("1:0:0.5 | a\n2:1:0.5 | b\n\n2:1:0.5 | a\n| b\n"))
        assert log.actions.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "ccb shared | s\nccb action | a\nccb slot 0:0.8:1.0 | z\n",
            r"several decisions in one event \(ccb\)",
        ),
        (
            "slates shared 0.8 | s\nslates action 0 | a\nslates slot 1:0.8 | z\n",
            r"several decisions .* \(slates\)",
        ),
        ("ca 185.1:0.6:6.2e-05 | a:1\n", r"continuous range \(ca\)"),
    ],
)
def test_other_tasks_in_text_are_named(text, message, file):
    with pytest.raises(LogError, match=f"line 1: .*{message}"):
        other_formats.read(file(text))
    for read in (FORMATS["vw"].read, FORMATS["vw-adf"].read):
        with pytest.raises(LogError, match=message):
            read(file(text))


def test_features_without_a_name(file):
    log, _ = FORMATS["vw"].read(file("1:0:0.5 |f :1 :2 | a :3\n2:1:0.5 |f 1:5\n"))
    assert log.feature_names == ("f^0", "f^1", "a", "0")
    assert log.contexts.tolist() == [[1.0, 2.0, 1.0, 3.0], [0.0, 5.0, 0.0, 0.0]]


class TestActionsThatAreFeatureLists:
    """Four actions whose features change are four, not one for each list ever seen."""

    @pytest.fixture
    def interactions(self):
        rng = np.random.default_rng(2)
        lists = [rng.normal(size=(4, 3)).tolist() for _ in range(200)]
        taken = rng.integers(4, size=200).tolist()
        return taken, [
            {"context": [1.0], "action": actions[i], "reward": 1.0, "actions": actions, "probability": 0.25}
            for i, actions in zip(taken, lists, strict=True)
        ]

    def test_the_notes_say_so(self, interactions):
        log, notes = FORMATS["coba"].read(interactions[1])
        assert log.n_actions == 800
        assert any("800 actions in all, though no row has more than 4" in note for note in notes)

    def test_their_place_tells_them(self, interactions):
        taken, records = interactions
        log, _ = FORMATS["coba"].read(records, action_id="position")
        assert log.action_names == (1, 2, 3, 4)
        assert log.actions.tolist() == taken

    def test_one_hot_actions_are_few(self):
        one_hot = [[1, 0], [0, 1]]
        records = [
            {"context": 1, "action": one_hot[i % 2], "actions": one_hot, "reward": 0} for i in range(6)
        ]
        log, notes = FORMATS["coba"].read(records)
        assert log.n_actions == 2
        assert not any("lists of features" in note for note in notes)

    def test_other_ways_to_tell_are_refused(self):
        with pytest.raises(LogError, match="can only be 'position'"):
            FORMATS["coba"].read([], action_id="id")
        with pytest.raises(LogError, match="stands 2 times"):
            FORMATS["coba"].read(
                [{"context": 1, "action": 1, "actions": [1, 1], "reward": 0}], action_id="position"
            )


class TestJsonLines:
    """Vowpal Wabbit's --json: the object is the context."""

    MULTI = ({"i": {"id": "A"}}, {"i": {"id": "B"}})

    def read(self, file, *records):
        return other_formats.read(file("".join(json.dumps(record) + "\n" for record in records), "log.json"))

    @pytest.mark.parametrize(
        "record",
        [
            {
                "_label_cost": -1,
                "_label_probability": 0.5,
                "_label_Action": 2,
                "_labelIndex": 1,
                "_multi": MULTI,
            },
            {"_label_cost": -1, "_label_probability": 0.5, "_label_action": 2, "_multi": MULTI},
            {"_multi": [MULTI[0], {**MULTI[1], "_label": {"Action": 2, "Cost": -1, "Probability": 0.5}}]},
            {"_multi": [MULTI[0], {**MULTI[1], "_label": "0:-1:0.5"}]},
        ],
    )
    def test_with_actions(self, record, file):
        log, notes = self.read(
            file, {"u": {"age": 3, "land": "CH"}, **record}, {"u": {"age": 4}, "_multi": self.MULTI}
        )
        assert log.feature_names == ("u.age", "u.land=CH")
        assert log.contexts.tolist() == [[3.0, 1.0]]
        assert (log.action_names, log.actions.tolist()) == (("A", "B"), [1])
        assert (log.rewards.tolist(), log.propensities.tolist()) == ([1.0], [0.5])
        assert log.support.mask().all()
        assert "1 lines without a label were skipped." in notes

    @pytest.mark.parametrize(
        "label",
        [
            {"_label": {"Action": 2, "Cost": -1, "Probability": 0.5}},
            {"_label_Action": 2, "_label_Cost": -1, "_label_Probability": 0.5},
            {"_label": "2:-1:0.5"},
        ],
    )
    def test_without_actions(self, label, file):
        log, notes = self.read(file, {**label, "u": {"age": 3}})
        assert (log.action_names, log.actions.tolist()) == ((1, 2), [1])
        assert (log.rewards.tolist(), log.propensities.tolist()) == ([1.0], [0.5])
        assert "Actions are named 1 to 2, the largest number in the file." in notes

    @pytest.mark.parametrize(
        ("record", "message"),
        [
            ({"_label_cost": 1, "_labelIndex": 2, "_multi": MULTI}, "do not name one of the 2 actions"),
            ({"_label_cost": 1, "_labelIndex": 0, "_label_Action": 2, "_multi": MULTI}, "do not name one"),
            ({"_label_cost": 1, "_multi": MULTI}, "the label names no action"),
            ({"_label_cost": 1, "_labelIndex": "0", "_multi": MULTI}, "expected a whole number"),
            ({"_label_cost": 1, "_labelIndex": 0, "_multi": 3}, "_multi is '3'"),
            (
                {"_label_cost": 1, "_labelIndex": 0, "_multi": [{"_label": "0:1:1", "id": 1}]},
                "2 labels in one event",
            ),
            ({"_label": {"Action": 0, "Cost": 1}}, "the label's action is 0"),
            ({"_label": "x:1:1"}, "label 'x:1:1'"),
            ({"_label_ca": {}, "x": 1}, "continuous range"),
            ({"_outcomes": [], "_multi": MULTI}, "several decisions"),
        ],
    )
    def test_bad_lines_are_named(self, record, message, file):
        with pytest.raises(LogError, match=f"line 1: .*{message}"):
            self.read(file, record)

    def test_lines_of_both_kinds(self, file):
        one, other = (
            {"_label": "2:-1:0.5", "u": 1},
            {"_label_cost": 1, "_labelIndex": 0, "_multi": self.MULTI},
        )
        with pytest.raises(LogError, match="line 2: some lines have a list of actions"):
            self.read(file, one, other)
