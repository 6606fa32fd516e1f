"""Spoilt files: every reader gives a log that holds what it promises, or an error of ours; never anything else.

Each case has a seed of its own, so that a failure repeats. `SPARING_FUZZ=100 pytest tests/fuzz` runs a hundred
times as many cases; `SPARING_FUZZ_FIRST=5000` begins at another case.
"""

import functools
import gzip
import io
import os
import resource
import zlib

import numpy as np
import openpyxl
import pytest

import other_formats
from fuzz import reader_mutations as spoil
from sparing.errors import SparingError
from sparing.log import Log
from sparing.log.labels import label_text
from sparing.log.limits import LARGEST, MAX_ACTIONS

CASES = round(80 * float(os.environ.get("SPARING_FUZZ", "1")))
FIRST = int(os.environ.get("SPARING_FUZZ_FIRST", "0"))
MEGABYTES = 300
"""What reading one kind of these small files may take at most, on top of what is there."""

PARQUET_MEGABYTES = 2500
"""The same of Parquet: Arrow believes what a page says of its size, up to 2 GB."""

LONGEST_MESSAGE = 2000

TEXT = [spoil.bytes_of, spoil.text_tokens]
JSON = [spoil.bytes_of, spoil.json_lines]
CSV = [spoil.bytes_of, spoil.csv_cells]
FILES = {
    "table.arrow": [spoil.bytes_of, functools.partial(spoil.table_columns, parquet=False)],
    "table.csv": CSV,
    "sets.arrow": [spoil.bytes_of, functools.partial(spoil.table_columns, parquet=False)],
    "sets.csv": CSV,
    "open-bandit.csv": CSV,
    "obp.npz": [spoil.bytes_of, spoil.npz_members, spoil.zip_members],
    "vw.vw": TEXT,
    "vw-adf.adf": TEXT,
    "dsjson.dsjson": JSON,
    "vw-json.json": JSON,
    "coba.jsonl": JSON,
    "river.jsonl": JSON,
    "table.xlsx": [spoil.bytes_of, spoil.zip_members],
    "table.parquet": [spoil.bytes_of, functools.partial(spoil.table_columns, parquet=True)],
    "sets.parquet": [spoil.bytes_of, functools.partial(spoil.table_columns, parquet=True)],
}
"""Parquet comes last, so that the memory it takes does not hide what the others take."""

PACKED = ["table.csv", "open-bandit.csv", "vw.vw", "dsjson.dsjson", "river.jsonl"]


def small_log(*, sets):
    rng = np.random.default_rng(7)
    table = np.array([[0.5, 0.25, 0.25], [0.0, 0.75, 0.25], [0.625, 0.375, 0.0]])[np.arange(9) % 3]
    actions = (table.cumsum(axis=1) > rng.random((9, 1))).argmax(axis=1)
    names = ["a", "b", "c"] if sets else [0, 1, 2]
    support = (
        {"eligible": [[names[a] for a in np.flatnonzero(row)] for row in table]}
        if sets
        else {"distribution": table}
    )
    return Log.from_arrays(
        rng.normal(size=(9, 3)).round(3),
        [names[a] for a in actions],
        rng.normal(size=9).round(3),
        propensities=table[np.arange(9), actions],
        action_names=names,
        context_ids=np.arange(9) // 2,
        **support,
    )


def number(cell):
    """A cell of a sheet, with the type that a spreadsheet gives it."""
    try:
        return float(cell)
    except ValueError:
        return cell.strip('"')


@functools.cache
def good(name, folder):
    """The bytes of an unspoilt file, packed always in the same way."""
    path = folder / f"good-{name}"
    format_name = name.partition(".")[0]
    known = format_name if format_name not in ("table", "sets") else "table"
    if name.endswith(".xlsx"):
        book = openpyxl.Workbook()
        for line in good("table.csv", folder).decode().splitlines():
            book.active.append([number(cell) for cell in line.split(",")])
        book.save(path)
        return path.read_bytes()
    other_formats.write(small_log(sets=format_name == "sets"), path, known)
    return path.read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def peak():
    """The most memory that this process has had so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check(log):
    """What everyone behind the readers relies on."""
    assert isinstance(log, Log)
    assert np.abs(log.contexts).max(initial=0) <= LARGEST
    assert np.abs(log.rewards).max(initial=0) <= LARGEST
    assert 0 < log.n_actions <= MAX_ACTIONS
    assert log.counts.sum() == log.n_rows > 0
    assert log.propensities is None or ((log.propensities > 0) & (log.propensities <= 1)).all()
    for text in (*map(label_text, log.action_names[:100]), *log.feature_names[:100], repr(log)):
        text.encode()


@pytest.mark.parametrize("name", FILES)
def test_an_unspoilt_file_is_read(name, folder):
    path = folder / name
    path.write_bytes(good(name, folder))
    log, _ = other_formats.read(path)
    assert log.n_rows == 9
    check(log)


def messages(path, case):
    """What the reader says of a spoilt file: its notes, or its error."""
    try:
        log, notes = other_formats.read(path)
        check(log)
    except SparingError as error:
        return [str(error)]
    except BaseException as error:
        raise AssertionError(f"case {case} of {path.name}: {type(error).__name__}") from error
    return notes


def run(name, path, pack):
    data, spoilers = good(name, path.parent), FILES[name]
    before = peak()
    for case in range(FIRST, FIRST + CASES):
        rng = np.random.default_rng([zlib.crc32(path.name.encode()), case])
        path.write_bytes(pack(spoilers[case % len(spoilers)](data, rng), rng))
        longest = max(map(len, messages(path, case)), default=0)
        assert longest < LONGEST_MESSAGE, f"case {case} of {path.name}: a message of {longest} characters"
    assert peak() - before < (PARQUET_MEGABYTES if "parquet" in name else MEGABYTES)


@pytest.mark.parametrize("name", FILES)
def test_a_spoilt_file_is_a_log_or_an_error_of_ours(name, folder):
    run(name, folder / name, lambda data, rng: data)


@pytest.mark.parametrize("name", PACKED)
def test_a_spoilt_file_that_is_packed(name, folder):
    def pack(data, rng):
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
            file.write(data)
        packed = buffer.getvalue()
        return spoil.bytes_of(packed, rng) if rng.random() < 0.5 else packed

    run(name, folder / f"{name}.gz", pack)
