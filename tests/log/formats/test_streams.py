"""A log that is walked, from a file or into one, is the log that is read into memory and written from it."""

import gzip
import json

import numpy as np
import pytest
from dsjson_events import event, multi
from walked_logs import BLOCK, ROWS, Walked, assert_same, drawn, few

import other_formats
from each import for_each
from sparing.errors import LogError
from sparing.log import Log, convert, read_log, write_log
from sparing.log.formats import FORMATS, OTHERS, TABLE, records, scan
from sparing.log.log import Log as Whole
from sparing.log.passes import Statistic
from sparing.log.rows import InMemoryRows

ENDINGS = [("table", ".parquet"), ("table", ".csv"), ("table", ".arrow")]
FILES = [*other_formats.ENDINGS.items(), *ENDINGS]
WRITTEN = [(name, ending) for name, ending in FILES if FORMATS[name].writer]
LINES = ["vw", "vw-adf", "dsjson", "vw-json", "coba", "river", "open-bandit"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    few(monkeypatch)


def options_of(name, path):
    """Two ways to read a file of a format: as it is, and with names for its actions and features."""
    if name == "table":
        return [{}]
    if name in ("obp", "open-bandit"):
        return [{}, {"actions": list("abcde")}]
    log, _ = other_formats.read(path, name)
    return [
        {},
        {"features": log.feature_names[::-2]},
        {"actions": [*log.action_names, *([99] * (name != "vw"))]},
    ]


@for_each("support, packed", [("distribution", False), ("sets", False), ("unknown", False), ("sets", True)])
@pytest.mark.parametrize(("name", "ending"), FILES)
def test_a_file_that_is_scanned_is_the_log_that_was_written(name, ending, support, packed, tmp_path):
    if packed and ending in (".parquet", ".arrow", ".npz"):
        return  # is not read packed
    path = tmp_path / f"log{ending}"
    labels = [0, 1, 2, 3, 4] if name in ("obp", "open-bandit") else None
    given = drawn(support, labels=labels)
    other_formats.write(given, path, name)
    if packed:
        path = tmp_path / f"log{ending}.gz"
        path.write_bytes(gzip.compress((tmp_path / f"log{ending}").read_bytes()))
    for options in options_of(name, path):
        log, notes = other_formats.read(path, name, **options)
        rows, found = other_formats.opened(path, name, **options)
        assert found == notes
        assert_same(rows, log)
        assert np.array_equal(log.rewards, given.rewards)
        if "features" not in options:
            assert np.array_equal(log.contexts, given.contexts)
        if not options:
            assert [log.action_names[a] for a in log.actions] == [
                given.action_names[a] for a in given.actions
            ]
            assert name == "river" or np.array_equal(log.propensities, given.propensities)


@for_each("support", ["distribution", "sets", "unknown"])
@pytest.mark.parametrize(("name", "ending"), WRITTEN)
def test_a_walked_log_is_written_as_one_in_memory(name, ending, support, tmp_path):
    for labels in ([1, 2, 3, 4, 5], [*"vwxyz"]):
        log = drawn(support, labels=labels)
        one, other = tmp_path / f"one{ending}", tmp_path / f"other{ending}"
        assert write_log(Walked(log), one, name) == write_log(log, other, name)
        assert one.read_bytes() == other.read_bytes()


def plain_lines(log):
    """The lines of --cb without our writer."""
    shares = log.support.distribution()
    for i in range(log.n_rows):
        x, a, r, p = log.contexts[i], log.actions[i], log.rewards[i].item(), log.propensities[i].item()
        shown = [j for j in range(len(x)) if i == 0 or x[j] != 0 or np.signbit(x[j])]
        able = [log.action_names[j] for j in np.flatnonzero(shares[i])]
        others = "".join(f" {each}" for each in able if each != a + 1)
        told = "".join(f" x_{j}:{x[j].item()!r}" for j in shown)
        yield f"{a + 1}:{-r!r}:{p!r}{others} |{told}"


def test_lines_of_all_blocks_are_there_once_and_in_order(tmp_path):
    """Against lines made row by row from the arrays: block limits leave no trace."""
    log = drawn(ids=False)
    write_log(Walked(log), tmp_path / "log", "vw")
    assert (tmp_path / "log").read_text().splitlines() == list(plain_lines(log))


def test_rows_are_numbered_through_all_blocks(tmp_path):
    log = Walked(drawn("sets", labels=[0, 1, 2, 3, 4]))
    write_log(log, tmp_path / "log.dsjson")
    lines = (tmp_path / "log.dsjson").read_text().splitlines()
    assert [json.loads(line)["EventId"] for line in lines] == [str(i) for i in range(ROWS)]


@pytest.mark.parametrize("lone", [False, True])
def test_a_single_action_in_the_last_block_is_known_before_the_first(lone, tmp_path):
    """--cb cannot say that a row had one action only: then no row lists others, and the note says why."""
    sets = [[1, 2]] * (ROWS - 1) + [[1] if lone else [1, 2]]
    log = Log.from_arrays(
        np.ones((ROWS, 1)),
        [1] * ROWS,
        np.zeros(ROWS),
        propensities=np.full(ROWS, 0.5),
        eligible=sets,
        action_names=[1, 2],
    )
    lost = write_log(Walked(log), tmp_path / "log.vw")
    lines = (tmp_path / "log.vw").read_text().splitlines()
    assert set(lines) == {"1:-0.0:0.5 | x_0:1.0" if lone else "1:-0.0:0.5 2 | x_0:1.0"}
    assert any("a single action in some rows" in note for note in lost) == lone
    assert any("The last action is in no row" in note for note in lost) == lone


def test_arrays_are_written_as_numpy_writes_them(tmp_path):
    log = drawn(labels=[0, 1, 2, 3, 4])
    write_log(Walked(log), tmp_path / "one.npz")
    np.savez(tmp_path / "other.npz", **other_formats.to_feedback(log))
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()


@pytest.mark.parametrize("target", WRITTEN)
@pytest.mark.parametrize("source", [("dsjson", ".dsjson"), ("table", ".parquet")])
def test_convert_gives_what_reading_and_writing_give(source, target, tmp_path):
    path = tmp_path / f"log{source[1]}"
    write_log(drawn(), path, source[0])
    log, assumed = other_formats.read(path)
    one, other = tmp_path / f"one{target[1]}", tmp_path / f"other{target[1]}"
    lost = write_log(log, other, target[0])
    seen = []
    rows, *notes = convert(
        path, one, target_format=target[0], progress=lambda done, total: seen.append((done, total))
    )
    assert notes == [assumed, lost]
    assert one.read_bytes() == other.read_bytes()
    assert (rows.n_rows, rows.n_actions, rows.n_features) == (log.n_rows, log.n_actions, log.n_features)
    assert seen[-1] == (ROWS, ROWS)


def test_tables_of_a_folder_are_one_log(tmp_path):
    log = drawn()
    (tmp_path / "logs").mkdir()
    for place, rows in enumerate((slice(0, 250), slice(250, ROWS))):
        write_log(log.part(rows), tmp_path / "logs" / f"{place}.parquet")
    convert(tmp_path / "logs", tmp_path / "folder.dsjson")
    convert(str(tmp_path / "logs" / "*.parquet"), tmp_path / "pattern.dsjson")
    write_log(log, tmp_path / "whole.dsjson")
    assert (tmp_path / "folder.dsjson").read_bytes() == (tmp_path / "whole.dsjson").read_bytes()
    assert (tmp_path / "pattern.dsjson").read_bytes() == (tmp_path / "whole.dsjson").read_bytes()


def test_what_is_in_memory_is_converted_as_it_is(tmp_path):
    feedback = other_formats.to_feedback(drawn(labels=[0, 1, 2, 3, 4]))
    log, _, _ = convert(feedback, tmp_path / "log.parquet")
    assert isinstance(log, Whole)
    assert np.array_equal(log.contexts, feedback["context"])


@pytest.mark.parametrize("name", LINES)
def test_a_damaged_line_in_the_middle_is_named_and_nothing_is_left(name, tmp_path):
    path = tmp_path / "log.csv"
    other_formats.write(drawn("sets", labels=[0, 1, 2, 3, 4] if name == "open-bandit" else None), path, name)
    lines = path.read_text().split("\n")
    lines[400] = lines[400][: len(lines[400]) // 2].replace("|", "") + "\x00,,"
    path.write_text("\n".join(lines))
    with pytest.raises(LogError) as told:
        other_formats.read(path, name)
    with pytest.raises(LogError) as found:
        convert(path, tmp_path / "out.parquet", source_format=name)
    assert str(found.value) == str(told.value)
    if name != "open-bandit":  # Arrow counts rows, not lines
        assert "line 401" in str(told.value)
    assert list(tmp_path.iterdir()) == [path]


class Interrupted(Walked):
    """Stops in its third block."""

    def blocks(self):
        for first, block in super().blocks():
            if first >= 2 * BLOCK:
                raise KeyboardInterrupt
            yield first, block


@pytest.mark.parametrize(("name", "ending"), WRITTEN)
def test_an_interrupted_write_leaves_the_old_file(name, ending, tmp_path):
    path = tmp_path / f"log{ending}"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_log(Interrupted(drawn()), path, name)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@for_each("grows", [True, False])
@pytest.mark.parametrize("name", LINES)
def test_a_file_that_changes_between_walks_is_refused(name, grows, tmp_path):
    path = tmp_path / "log.csv"
    other_formats.write(drawn("sets", labels=[0, 1, 2, 3, 4] if name == "open-bandit" else None), path, name)
    rows, _ = other_formats.opened(path, name)
    lines = path.read_text().split("\n")
    ends = [i for i, line in enumerate(lines) if name != "vw-adf" or not line]
    after = lines[:-1] + lines[ends[-40] + 1 :] if grows else [*lines[: ends[-40] + 1], ""]
    path.write_text("\n".join(after))
    with pytest.raises(LogError, match="has changed since it was opened"):
        list(rows.blocks())


@pytest.mark.parametrize("change", [{"c": {"new": 1.0}}, {"ContextId": 7}])
def test_a_file_that_names_more_in_a_later_walk_is_refused(change, tmp_path):
    """As many rows, but a feature or a part more."""
    path = dsjson(tmp_path / "log.dsjson", [event() for _ in range(600)])
    rows, _ = other_formats.opened(path)
    last = event(**change)
    last["c"]["_multi"] = event()["c"]["_multi"]
    dsjson(path, [event() for _ in range(599)] + [last])
    with pytest.raises(LogError, match="has changed since it was opened"):
        list(rows.blocks())


def test_a_log_that_is_read_is_parsed_once(tmp_path, monkeypatch):
    """Its events are kept packed until the rows are built; a scan parses them again in every pass."""
    path = dsjson(tmp_path / "log.dsjson", [event() for _ in range(600)])
    parsed, load_json = [], records.load_json
    monkeypatch.setattr(records, "load_json", lambda line: parsed.append(line) or load_json(line))
    log = read_log(path)
    assert len(parsed) == 600
    assert scan(path).read().contexts.tobytes() == log.contexts.tobytes()
    assert len(parsed) == 3 * 600


def dsjson(path, events):
    path.write_text("\n".join(map(json.dumps, events)) + "\n")
    return path


def test_numbers_from_0_are_found_before_rows_are(tmp_path):
    """Only the last events tell that `a` begins at 0."""
    plain = [event(a=[2, 1], p=[0.5, 0.5], _label_Action=..., _labelIndex=...) for _ in range(700)]
    path = dsjson(tmp_path / "log.dsjson", [*plain, event(a=[0, 2, 1], _label_Action=..., _labelIndex=...)])
    log, notes = other_formats.read(path)
    rows, found = other_formats.opened(path)
    assert any("numbered from 0" in note for note in notes)
    assert found == notes
    assert_same(rows, log)


@pytest.mark.parametrize(("late", "kind"), [(2**63, "u"), (-1, "i"), ("seven", "U"), (2**70, "U")])
def test_ids_have_one_kind_in_all_blocks(late, kind, tmp_path):
    """Whichever the last one asks for: signed, unsigned or text."""
    events = [event(ContextId=i) for i in range(600)] + [event(ContextId=late)]
    path = dsjson(tmp_path / "log.dsjson", events)
    log, _ = other_formats.read(path)
    rows, _ = other_formats.opened(path)
    assert_same(rows, log)
    assert {each.context_ids.dtype.kind for each in (log, *(block for _, block in rows.blocks()))} == {kind}


def test_a_distribution_that_one_event_lacks_is_kept_of_none(tmp_path):
    events = [event() for _ in range(700)]
    events[650] = event(p=..., _label_probability=0.5)
    path = dsjson(tmp_path / "log.dsjson", events)
    log, notes = other_formats.read(path)
    rows, found = other_formats.opened(path)
    assert found == notes
    assert_same(rows, log)


def test_events_without_a_context_have_a_constant(tmp_path):
    lone = [{"i": {"id": name}} for name in "ABC"]
    path = dsjson(tmp_path / "log.dsjson", [event(c=multi(*lone)) for _ in range(600)])
    log, notes = other_formats.read(path)
    rows, found = other_formats.opened(path)
    assert found == notes
    assert_same(rows, log)


def test_lists_of_features_are_told_of_as_in_memory(tmp_path):
    """The note says how many actions a row has at most, which only all rows tell."""
    rng = np.random.default_rng(0)
    steps = [
        {
            "context": [1.0],
            "action": [i, 1],
            "reward": 1.0,
            "actions": [[i + j, 1] for j in range(rng.integers(1, 5))],
        }
        for i in range(600)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, steps)))
    log, notes = other_formats.read(path, "coba")
    rows, found = other_formats.opened(path, "coba")
    assert any("though no row has more than 4" in note for note in notes)
    assert found == notes
    assert_same(rows, log)


class _Sum(Statistic):
    def zero(self):
        return np.zeros(4)

    def update(self, state, block, first_row):
        return state + block.contexts.sum(axis=0)

    def merge(self, one, other):
        return one + other


@pytest.mark.parametrize("name", [each.name for each in (*OTHERS, TABLE)])
def test_what_is_summed_over_a_stream_has_the_bits_of_memory(name, tmp_path):
    path = tmp_path / ("log.parquet" if name == "table" else "log")
    labels = [0, 1, 2, 3, 4] if name in ("obp", "open-bandit") else None
    other_formats.write(drawn(labels=labels), path, name)
    log, _ = FORMATS[name].read(path)
    rows, _ = FORMATS[name].scan(path)
    assert rows.fold(_Sum()).tobytes() == InMemoryRows(log).fold(_Sum()).tobytes()
