"""A small file must not fill the memory, and what was saved must load."""

import io
import json
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from sparing import archive
from sparing.errors import FileError, SettingError

MEGABYTE = 2**20


@pytest.fixture
def small(monkeypatch):
    """A limit that a test can reach."""
    monkeypatch.setattr(archive, "LIMIT", 4 * MEGABYTE)


def forged(path, entries, sizes=None):
    """A whole file, checksum and all, of these entries."""
    header = {"kind": "thing", "version": 1}
    if sizes is not None:
        header[archive.SIZES] = sizes
    entries = {archive.HEADER: json.dumps(header).encode(), **entries}
    entries[archive.CHECKSUM] = archive._checksum(entries).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def peak(path, **options):
    tracemalloc.start()
    try:
        with pytest.raises(FileError) as refused:
            archive.read(path, "thing", 1, **options)
        return tracemalloc.get_traced_memory()[1], str(refused.value)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("listed", [True, False])
def test_a_bomb_is_refused_before_it_is_inflated(small, listed, tmp_path):
    path = tmp_path / "bomb"
    content = npy(np.zeros(8 * MEGABYTE))
    forged(path, {"x.npy": content}, {"x.npy": len(content)} if listed else None)
    assert path.stat().st_size < MEGABYTE / 8
    used, message = peak(path)
    assert used < MEGABYTE
    assert "once inflated; the limit is 4,194,304. If you trust the file, raise the limit" in message


def test_a_bomb_that_declares_too_little_is_not_inflated_further(small, tmp_path):
    path = tmp_path / "bomb"
    content = npy(np.zeros(8 * MEGABYTE))
    forged(path, {"x.npy": content})
    whole = path.read_bytes()
    assert whole.count(struct.pack("<L", len(content))) >= 2
    path.write_bytes(whole.replace(struct.pack("<L", len(content)), struct.pack("<L", 1000)))
    used, _ = peak(path)
    assert used < MEGABYTE


def test_the_limit_can_be_raised(small, tmp_path, monkeypatch):
    path = tmp_path / "zeros"
    forged(path, {"x.npy": npy(np.zeros(MEGABYTE))})
    with pytest.raises(FileError, match="the limit is"):
        archive.read(path, "thing", 1)
    monkeypatch.setenv("SPARING_FILE_LIMIT", str(9 * MEGABYTE))
    assert len(archive.read(path, "thing", 1)[1]["x"]) == MEGABYTE
    monkeypatch.setenv("SPARING_FILE_LIMIT", "1000")
    with pytest.raises(FileError, match="the limit is 1,000"):
        archive.read(path, "thing", 1)
    monkeypatch.setenv("SPARING_FILE_LIMIT", "lots")
    with pytest.raises(SettingError, match="SPARING_FILE_LIMIT='lots'"):
        archive.read(path, "thing", 1)


@pytest.mark.parametrize("fill", [np.zeros, np.random.default_rng(0).random])
@pytest.mark.parametrize("size", [1000, MEGABYTE // 2, MEGABYTE])
def test_what_was_saved_loads_whatever_its_size(small, fill, size, tmp_path):
    """Zeros deflate 1000 : 1, so what is large is not deflated and its own size vouches for it."""
    array = fill(size)
    archive.write(tmp_path / "file", "thing", 1, {}, {"x": array})
    np.testing.assert_array_equal(archive.read(tmp_path / "file", "thing", 1)[1]["x"], array)


def test_a_large_older_file_of_real_numbers_loads(small, tmp_path):
    """It was deflated and has no list; numbers that are not all equal deflate a little."""
    array = np.random.default_rng(0).random(MEGABYTE)
    forged(tmp_path / "file", {"x.npy": npy(array)})
    np.testing.assert_array_equal(archive.read(tmp_path / "file", "thing", 1)[1]["x"], array)


@pytest.mark.parametrize("sizes", [{}, {"x.npy": 1}, {"x.npy": "many"}, {"x.npy": None, "y.npy": 3}, [], 7])
def test_arrays_are_those_that_the_header_lists(sizes, tmp_path):
    forged(tmp_path / "file", {"x.npy": npy(np.ones(3))}, sizes)
    with pytest.raises(FileError, match="differ from those in its header"):
        archive.read(tmp_path / "file", "thing", 1)


@pytest.mark.parametrize(
    "described",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }",
        "{'descr': '|V0', 'fortran_order': False, 'shape': (10000000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1.0), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,), }",
        "(" * 5000,
        "",
    ],
)
def test_an_array_that_claims_more_than_there_is(described, tmp_path):
    """NumPy would set the memory aside first."""
    text = described.encode().ljust(118 if len(described) < 118 else len(described)) + b"\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(8)
    forged(tmp_path / "file", {"x.npy": content})
    used, message = peak(tmp_path / "file")
    assert used < 4 * MEGABYTE
    assert "contains no plain array x.npy" in message


def test_the_levels_of_trust_are_as_stated():
    """430 MB of a learner's numbers load by default; 21 MB that inflate to 4.4 GB do not."""
    assert archive.LIMIT >= 4 * 430 * 10**6
    assert max(archive.LIMIT, archive.RATIO * 21 * 10**6) < 4.4e9
    zeros = len(zlib.compress(bytes(MEGABYTE), 1))
    assert MEGABYTE / zeros > archive.RATIO, "or zeros could be judged by a ratio alone"
