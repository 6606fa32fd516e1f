"""Files that are whole or not there, and that nobody has touched."""

import contextlib
import io
import json
import zipfile

import numpy as np
import pytest

from each import for_each
from sparing import archive
from sparing.errors import FileError

HEADER = {"name": "é", "numbers": [1, 2.5, None, True], "nested": {"a": {"b": 0.1}}}
ARRAYS = {
    "matrix": np.arange(12.0).reshape(3, 4),
    "sets/words": np.array([2**63, 0], dtype=np.uint64),
    "texts": np.array(["a", "é"]),
    "nothing": np.empty((0, 3)),
    "scalar": np.array(2.5),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "thing.sparing"
    archive.write(path, "thing", 3, HEADER, ARRAYS)
    return path


def entries(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def rewrite(path, contents, *, checksum=None):
    """Write these entries, as a forger would if it is asked for: their sizes listed, and their checksum."""
    if checksum:
        contents = {name: content for name, content in contents.items() if name != archive.CHECKSUM}
        with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError):
            header = json.loads(contents[archive.HEADER])
            sizes = {name: len(content) for name, content in contents.items() if name != archive.HEADER}
            contents[archive.HEADER] = json.dumps({**header, archive.SIZES: sizes}).encode()
        contents = {**contents, archive.CHECKSUM: archive._checksum(contents).encode()}
    with zipfile.ZipFile(path, "w") as file:
        for name, content in contents.items():
            file.writestr(name, content)


def with_header(path, **changes):
    contents = entries(path)
    header = json.loads(contents[archive.HEADER])
    return {**contents, archive.HEADER: json.dumps({**header, **changes}).encode()}


def test_what_was_written_is_read(saved):
    header, arrays = archive.read(saved, "thing", 3)
    assert header == HEADER
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array, strict=True)


def test_one_content_is_one_file(saved, tmp_path):
    """Neither the clock nor the writer's name stands in the file."""
    again = tmp_path / "again"
    archive.write(again, "thing", 3, HEADER, ARRAYS)
    assert again.read_bytes() == saved.read_bytes()


def test_an_older_version_is_read(saved):
    assert archive.read(saved, "thing", 4)[0] == HEADER


def test_a_newer_version_is_refused(saved):
    with pytest.raises(FileError, match="has format version 3; this sparing reads up to 2"):
        archive.read(saved, "thing", 2)


@pytest.mark.parametrize("version", [None, "3", 2.5, [3]])
def test_a_version_is_a_number(saved, version):
    rewrite(saved, with_header(saved, version=version), checksum=True)
    with pytest.raises(FileError, match="format version"):
        archive.read(saved, "thing", 3)


def test_another_kind_is_refused(saved):
    with pytest.raises(FileError, match="contains a thing; expected a learner"):
        archive.read(saved, "learner", 3)


@pytest.mark.parametrize("size", [0, 1, 10, 0.3, 0.7, -100, -1])
def test_a_truncated_file_is_refused(saved, size):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(size * len(whole)) if isinstance(size, float) else size])
    with pytest.raises(FileError, match=r"thing\.sparing is truncated, damaged"):
        archive.read(saved, "thing", 3)


def test_no_flipped_byte_gives_another_content(saved):
    """A damaged byte is noticed, or stands where the file format itself does not look."""
    whole = saved.read_bytes()
    noticed = 0
    for position in range(0, len(whole), 7):
        saved.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            header, arrays = archive.read(saved, "thing", 3)
        except FileError:
            noticed += 1
            continue
        assert header == HEADER
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(arrays[name], array, strict=True)
    assert noticed > len(whole) / 7 / 2


def test_an_edited_header_is_refused(saved):
    rewrite(saved, with_header(saved, name="e"))
    with pytest.raises(FileError, match="checksum does not match"):
        archive.read(saved, "thing", 3)


def test_an_edited_array_is_refused(saved):
    contents = entries(saved)
    buffer = io.BytesIO()
    np.save(buffer, ARRAYS["matrix"] + 1e-9)
    rewrite(saved, {**contents, "matrix.npy": buffer.getvalue()})
    with pytest.raises(FileError, match="checksum does not match"):
        archive.read(saved, "thing", 3)


@pytest.mark.parametrize("gone", ["matrix.npy", archive.CHECKSUM])
def test_a_removed_entry_is_refused(saved, gone):
    rewrite(saved, {name: content for name, content in entries(saved).items() if name != gone})
    with pytest.raises(FileError, match="was changed or damaged after it was saved"):
        archive.read(saved, "thing", 3)


def test_swapped_arrays_are_refused(saved):
    contents = entries(saved)
    contents["matrix.npy"], contents["columns.npy"] = contents["columns.npy"], contents["matrix.npy"]
    rewrite(saved, contents)
    with pytest.raises(FileError, match="was changed or damaged after it was saved"):
        archive.read(saved, "thing", 3)


@pytest.mark.parametrize("header", [None, b"", b"[]", b"{}", b'"kind"', b"\xff", b'{"kind": "thing"}'])
def test_a_damaged_header_is_refused(saved, header):
    contents = {name: content for name, content in entries(saved).items() if name != archive.HEADER}
    rewrite(saved, contents if header is None else {**contents, archive.HEADER: header}, checksum=True)
    with pytest.raises(FileError, match="is not a sparing file, or its header is damaged; expected thing"):
        archive.read(saved, "thing", 3)


@pytest.mark.parametrize("content", [b"not a zip", b"PK\x03\x04", b"\x80\x04K\x01."])
def test_what_is_no_archive_is_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(FileError, match="truncated, damaged, or not a sparing file"):
        archive.read(path, "thing", 3)


def test_a_folder_or_nothing_is_refused(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        archive.read(tmp_path / "nothing", "thing", 3)
    with pytest.raises(FileError, match="not a sparing file"):
        archive.read(tmp_path, "thing", 3)


class Trap:
    """Unpickling this raises."""

    def __reduce__(self):
        return pytest.fail, ("something was unpickled",)


@pytest.mark.parametrize("content", ["object array", "pickle", "too short", "text"])
def test_nothing_is_unpickled(saved, content):
    """Not even from a file whose checksum fits."""
    buffer = io.BytesIO()
    trap = np.array([Trap()], dtype=object)
    if content == "object array":
        np.lib.format.write_array(buffer, trap, allow_pickle=True)
    elif content == "pickle":
        buffer.write(trap.dumps())
    elif content == "too short":
        np.save(buffer, np.ones(3))
        buffer.truncate(len(buffer.getvalue()) - 4)
    else:
        buffer.write(b"1, 2, 3")
    rewrite(saved, {**entries(saved), "matrix.npy": buffer.getvalue()}, checksum=True)
    with pytest.raises(FileError, match=r"contains no plain array matrix\.npy"):
        archive.read(saved, "thing", 3)


def test_object_arrays_are_not_written(saved):
    before = saved.read_bytes()
    with pytest.raises(ValueError, match="Object arrays"):
        archive.write(saved, "thing", 3, {}, {"trap": np.array([Trap()], dtype=object)})
    assert saved.read_bytes() == before


@for_each(
    "array",
    [
        np.arange(6.0).reshape(2, 3, order="F"),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(12.0).reshape(3, 4)[::2, ::-1],
        np.arange(4, dtype=">f8"),
        np.array(["ä", "b"], dtype=">U3"),
        np.broadcast_to(np.float32(2), (3, 2)),
        np.frombuffer(b"\x01\x02\x03", dtype=np.uint8),
        np.array(1 + 2j),
        np.empty((3, 0, 2), dtype=">i4"),
        np.array([(1, 2.5)], dtype=[("a", ">i2"), ("b", "<f8")]),
    ],
    ids=str,
)
@for_each("older", [False, True])
def test_what_is_read_is_our_own(array, older, tmp_path):
    """Writable, contiguous in C order, of native byte order, whatever was given or stands in an older file."""
    path = tmp_path / "file"
    archive.write(path, "thing", 1, {}, {"array": array})
    if older:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array)
        rewrite(path, {**entries(path), "array.npy": buffer.getvalue()}, checksum=True)
    found = archive.read(path, "thing", 1)[1]["array"]
    assert found.flags.writeable
    assert found.flags.owndata or found.base.flags.owndata
    assert found.flags.c_contiguous
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.shape == array.shape
    assert found.tolist() == array.tolist()


def test_labels_that_are_no_text_are_kept(tmp_path):
    """A lone half of a surrogate pair has no UTF-8; JSON has a way to write it."""
    header = {"names": ["\udcff", "é", "\U0001f600"]}
    archive.write(tmp_path / "file", "thing", 1, header, {})
    assert archive.read(tmp_path / "file", "thing", 1)[0] == header


@pytest.mark.parametrize("name", ["matrix.npy", archive.HEADER, archive.CHECKSUM])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_that_is_there_twice_is_refused(saved, name):
    contents = entries(saved)
    with zipfile.ZipFile(saved, "a") as file:
        file.writestr(name, contents[name])
    with pytest.raises(FileError, match="contains an entry twice"):
        archive.read(saved, "thing", 3)


def test_two_entries_cannot_be_one_array(saved):
    """Without this, `matrix` and `matrix.npy` would be told apart by their order."""
    contents = entries(saved)
    rewrite(saved, {**contents, "matrix": contents["matrix.npy"]}, checksum=True)
    with pytest.raises(FileError, match="contains an entry 'matrix'"):
        archive.read(saved, "thing", 3)


@pytest.mark.parametrize("header", ["[" * 100_000, '{"kind": ' * 50_000])
def test_a_header_that_is_nested_too_deep_is_refused(saved, header):
    rewrite(saved, {**entries(saved), archive.HEADER: header.encode()}, checksum=True)
    with pytest.raises(FileError, match="header is damaged"):
        archive.read(saved, "thing", 3)
