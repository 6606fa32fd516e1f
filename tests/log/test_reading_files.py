"""Reading files that are whole, and refusing those that are not."""

import numpy as np
import pyarrow as pa
import pytest

from reference.tables import ROWS, many_rows, write_csv, write_file
from sparing.errors import LogError
from sparing.log import Log, read_log, tables, write_log


def test_a_table_without_rows(tmp_path, ending):
    path = tmp_path / f"log.{ending}"
    if ending == "csv":
        path.write_text("x_0,action,reward\n")
    else:
        write_file(
            path, {"x_0": pa.array([], pa.float64()), "action": pa.array([], pa.string()), "reward": []}
        )
    for options in ({}, {"actions": ["a"]}):
        with pytest.raises(LogError, match=r"has no rows.*Log\.empty"):
            read_log(path, **options)


@pytest.mark.parametrize("name", ["log.docx", "log", "log.gz"])
def test_a_wrong_ending(tmp_path, name):
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(LogError, match=r"unknown ending '.*'; known are \.parquet, "):
        read_log(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path, ending):
    with pytest.raises(LogError, match=f"absent.{ending} does not exist or is not a file"):
        read_log(tmp_path / f"absent.{ending}")


def test_a_folder_without_tables(tmp_path, ending):
    (tmp_path / f"folder.{ending}").mkdir()
    with pytest.raises(LogError, match=r"no table at .*folder"):
        read_log(tmp_path / f"folder.{ending}")


def test_an_empty_file(tmp_path, ending):
    (tmp_path / f"log.{ending}").touch()
    with pytest.raises(LogError, match=r"is empty \(0 bytes\)"):
        read_log(tmp_path / f"log.{ending}")


@pytest.mark.parametrize("wrong", ["parquet", "arrow"])
def test_a_file_of_another_format(tmp_path, ending, wrong):
    if ending == wrong:
        ending = "csv"
    other = write_file(tmp_path / f"other.{ending}", ROWS)
    path = other.rename(tmp_path / f"log.{wrong}")
    with pytest.raises(LogError, match=f"log.{wrong} cannot be read as {wrong}"):
        read_log(path)


@pytest.mark.parametrize("other", ["parquet", "arrow"])
def test_a_binary_file_named_csv(tmp_path, other):
    path = write_file(tmp_path / f"other.{other}", ROWS).rename(tmp_path / "log.csv")
    with pytest.raises(LogError, match=r"log\.csv"):
        read_log(path)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_truncated_binary_file(tmp_path, kind, share):
    path = write_file(tmp_path / f"log.{kind}", many_rows(2000))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(LogError, match=rf"log\.{kind} (cannot be read as|is truncated or damaged)"):
        read_log(path)


@pytest.mark.parametrize(
    "kept", ["0.1,0.2", "0.1,0.2,0.3,1", '0.1,0.2,0.3,1,"[0, 1', '0.1,0.2,0.3,1,"[0, 1]"']
)
def test_a_text_file_that_ends_within_a_row(tmp_path, kept):
    path = write_csv(tmp_path / "log.csv", many_rows(100))
    path.write_text(path.read_text() + kept)
    with pytest.raises(
        LogError, match=r"log\.csv, line 102 has .* If the file was cut off there, delete the line"
    ):
        read_log(path)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_damaged_file_gives_an_error_or_numbers_but_no_crash(tmp_path, kind):
    """A flipped byte of a number cannot be noticed; anything else must be refused in our own words."""
    rng = np.random.default_rng(0)
    log = Log.from_arrays(
        rng.random((40, 2)),
        [("a", "b")[i] if i < 2 else ("c", i) for i in rng.integers(4, size=40)],
        rng.random(40),
        eligible=[["a", "b", ("c", 2), ("c", 3)]] * 40,
        context_ids=rng.integers(9, size=40).astype(str),
    )
    path = tmp_path / f"log.{kind}"
    write_log(log, path)
    whole = path.read_bytes()
    refused = 0
    for position in range(0, len(whole), 23):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            assert read_log(path).n_rows == 40
        except LogError:
            refused += 1
    assert refused


def test_a_text_file_whose_numbers_change_their_look_far_into_it(tmp_path):
    """Whole numbers for well over a megabyte, then fractions, exponents and labels that are words."""
    n = 80_000
    rewards = ["1"] * (n - 3) + ["0.5", "-1e-3", "2"]
    actions = ["1"] * (n - 1) + ["other"]
    rows = {"x_0": range(n), "x_1": ["7"] * n, "action": actions, "reward": rewards, "context_id": range(n)}
    path = write_csv(tmp_path / "log.csv", rows)
    assert path.stat().st_size > 1.1 * 2**20
    log = read_log(path)
    np.testing.assert_array_equal(log.rewards, np.array(rewards, dtype=float))
    np.testing.assert_array_equal(log.contexts[:, 0], np.arange(n))
    assert log.action_names == ("1", "other")
    assert log.counts.tolist() == [n - 1, 1]


@pytest.mark.parametrize("block", [150, 1000, 2**24])
def test_text_files_are_read_block_by_block(monkeypatch, tmp_path, block):
    monkeypatch.setattr(tables, "CSV_BLOCK", block)
    rows = many_rows(300)
    rows["reward"][299] = "tall"
    path = write_csv(tmp_path / "log.csv", rows)
    with pytest.raises(LogError, match="reward at row 299 is 'tall'"):
        read_log(path)
    rows["reward"][299] = 0.5
    log = read_log(write_csv(path, rows))
    np.testing.assert_array_equal(log.rewards, rows["reward"])
    assert log.actions.tolist() == rows["action"]


def test_a_text_file_from_a_spreadsheet(tmp_path):
    """A byte order mark, Windows line ends, quotes where none are needed, blanks and a blank last line."""
    text = 'x_0,"x_1",action,reward\r\n"0.5", 1 ,"a b",1\r\n1.5,2,"c, d",0\r\n\r\n'
    (tmp_path / "log.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    log = read_log(tmp_path / "log.csv")
    np.testing.assert_array_equal(log.contexts, [[0.5, 1.0], [1.5, 2.0]])
    assert log.action_names == ("a b", "c, d")


def test_a_text_file_in_another_encoding(tmp_path):
    for text in ("x_0,action,reward\n1,é,1\n", "x_é,action,reward\n1,a,1\n"):
        (tmp_path / "log.csv").write_bytes(text.encode("latin-1"))
        with pytest.raises(LogError, match=r"log\.csv is not text in UTF-8.*encoding='cp1252'"):
            read_log(tmp_path / "log.csv", encoding="utf-8")


@pytest.mark.parametrize(
    "notes",
    [
        b'{"actions": [',
        b"\xff",
        b"[]",
        b'{"actions": 3}',
        b'{"actions": [{"tupel": []}]}',
        b'{"features": []}',
    ],
)
def test_damaged_notes_are_refused(notes):
    noted = pa.table(ROWS).replace_schema_metadata({tables.METADATA: notes})
    with pytest.raises(LogError, match="damaged metadata"):
        read_log(noted)
