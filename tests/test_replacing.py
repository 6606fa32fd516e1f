"""Writing: what stands under a name is whole, keeps its permissions, and nothing is left beside it."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from sparing import archive
from sparing.archive import replacing
from sparing.errors import FileError


def put(path, text="new"):
    with replacing(path) as part:
        part.write_text(text)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("existed", [True, False])
def test_an_interrupted_write_leaves_what_was_there(tmp_path, interruption, existed):
    path = tmp_path / "file"
    if existed:
        path.write_text("old")

    def write():
        with replacing(path) as part:
            part.write_text("half of the ne")
            raise interruption

    with pytest.raises(interruption):
        write()
    assert [entry.name for entry in tmp_path.iterdir()] == (["file"] if existed else [])
    assert not existed or path.read_text() == "old"


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
        assert part.parent == path.parent
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_two_writers_do_not_share_a_temporary_file(tmp_path):
    with replacing(tmp_path / "file") as first, replacing(tmp_path / "file") as second:
        assert first != second


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_file_has_the_permissions_of_any_other(tmp_path, umask):
    before = os.umask(umask)
    try:
        archive.write(tmp_path / "file", "thing", 1, {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileError, match=r"the folder .*absent does not exist. Create it first"):
        archive.write(tmp_path / "absent" / "file", "thing", 1, {}, {})


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(FileError, match="it is a folder"):
        archive.write(tmp_path, "thing", 1, {}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_the_disk_refuses(tmp_path):
    with pytest.raises(FileError, match="cannot write"):
        archive.write(tmp_path / ("n" * 300), "thing", 1, {}, {})


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o644, 0o666, 0o400])
def test_a_file_that_is_replaced_hands_its_permissions_on(tmp_path, permissions):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(permissions)
    put(path)
    assert path.read_text() == "new"
    assert mode(path) == permissions


def test_a_secret_is_not_readable_on_its_way(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o600)
    with replacing(path) as part:
        assert mode(part) == 0o600


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed_and_stays(tmp_path, there):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    real, middle, link = folder / "real", tmp_path / "middle", tmp_path / "link"
    middle.symlink_to("elsewhere/real")
    link.symlink_to(middle)
    if there:
        real.write_text("old")
        real.chmod(0o600)
    with replacing(link) as part:
        assert part.parent == folder
        part.write_text("new")
    assert link.is_symlink()
    assert middle.is_symlink()
    assert real.read_text() == "new"
    assert not there or mode(real) == 0o600


def test_links_that_lead_nowhere(tmp_path):
    circle, astray = tmp_path / "circle", tmp_path / "astray"
    circle.symlink_to(circle)
    astray.symlink_to(tmp_path / "absent" / "file")
    with pytest.raises(FileError, match=r"cannot write .*circle"):
        put(circle)
    with pytest.raises(FileError, match=r"the folder .*absent does not exist"):
        put(astray)


def test_a_pipe_is_written_to(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    put(pipe, "x" * 100_000)
    reader.join(10)
    assert read == [b"x" * 100_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_device_is_written_to():
    """A terminal of our own: the test of a mistake must not cost the machine its /dev/null."""
    reader, writer = os.openpty()
    put(os.ttyname(writer), "page\n")
    assert os.read(reader, 100) == b"page\r\n"
    assert stat.S_ISCHR(Path(os.ttyname(writer)).stat().st_mode)
    os.close(reader)
    os.close(writer)


def test_our_own_streams_are_known_by_their_names():
    for name in ("/dev/stdout", "/dev/stderr", "/dev/fd/7", "/proc/self/fd/12", "/dev/null"):
        assert archive._is_stream(Path(name))
    for name in ("/dev/stdoutx", "/dev/fd/x", "dev/stdout", "/tmp", "/no/such/file"):
        assert not archive._is_stream(Path(name))


@pytest.mark.parametrize("name", ["/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("to", ["pipe", "file"])
def test_our_own_output(name, to, tmp_path):
    """In order with what is printed before and after; a file behind it is not replaced under our feet."""
    code = (
        "import sys\nfrom sparing.archive import replacing\nprint('before')\n"
        "with replacing(sys.argv[1]) as part:\n    part.write_text('page\\n')\nprint('after')"
    )
    with (tmp_path / "out").open("wb") as file:
        where = subprocess.PIPE if to == "pipe" else file
        done = subprocess.run([sys.executable, "-c", code, name], stdout=where, check=True)
    content = done.stdout if to == "pipe" else (tmp_path / "out").read_bytes()
    assert content == b"before\npage\nafter\n"


def test_a_failed_block_writes_nothing_to_a_stream(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def fail():
        with replacing(pipe) as part:
            part.write_text("half")
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert os.read(reader, 10) == b""
    os.close(reader)


KILLED = """
import sys, time
from sparing.archive import replacing
with replacing(sys.argv[1]) as part:
    part.write_text("half of the ne")
    print(part, flush=True)
    time.sleep(60)
"""


def test_what_a_killed_writer_left_is_removed_and_a_living_ones_is_not(tmp_path):
    path, other = tmp_path / "file", tmp_path / "file2"
    path.write_text("old")
    start = [sys.executable, "-c", KILLED]
    writers = [
        subprocess.Popen([*start, place], stdout=subprocess.PIPE, text=True) for place in (path, path, other)
    ]
    dead, living, others = (Path(writer.stdout.readline().strip()) for writer in writers)
    writers[0].send_signal(signal.SIGKILL)
    writers[0].wait()
    assert dead.exists()
    put(path)
    assert not dead.exists()
    assert living.exists()
    assert others.exists()
    for writer in writers[1:]:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    put(path)
    assert sorted(tmp_path.iterdir()) == sorted([path, others])
    for writer in writers:
        writer.stdout.close()


def test_writers_side_by_side_leave_one_whole_file(tmp_path):
    """Every write sweeps; none may take another's temporary file away."""
    path, failed = tmp_path / "file", []

    def write(number):
        try:
            for _ in range(40):
                put(path, f"{number}" * 1000)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert path.read_text() in {f"{number}" * 1000 for number in range(4)}
    assert list(tmp_path.iterdir()) == [path]


def test_other_files_are_not_swept(tmp_path):
    names = [".file.part", ".file.0123abcd.part", "file.part", ".file.abc"]
    for name in names:
        (tmp_path / name).write_text("mine")
    put(tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "file"])


@pytest.mark.parametrize("name", ["n" * 250, "é" * 120, os.fsdecode(b"log\xff.parquet"), "a b?*[x]"])
def test_any_name_that_the_disk_takes(tmp_path, name):
    with replacing(tmp_path / name) as part:
        part.write_text("new")
        part.name.encode()  # a name that other libraries can open
    assert (tmp_path / name).read_text() == "new"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_a_full_disk_names_the_file(tmp_path, number):
    """What the system raises from a write has no name in it."""
    path = tmp_path / "file"
    path.write_text("old")

    def fill():
        with replacing(path):
            raise OSError(number, os.strerror(number))

    with pytest.raises(FileError, match=f"cannot write {path}: {os.strerror(number)}"):
        fill()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_archive_on_a_disk_that_fills_up(tmp_path):
    """The limit on a file's size stands in for the end of a disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(FileError, match=f"cannot write {tmp_path / 'file'}: File too large"):
            archive.write(
                tmp_path / "file", "thing", 1, {}, {"noise": np.random.default_rng(0).random(100_000)}
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_another_error_of_the_block_is_left_alone(tmp_path):
    def look():
        with replacing(tmp_path / "file"):
            (tmp_path / "absent").read_text()

    with pytest.raises(FileNotFoundError):
        look()


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is locked there")
@pytest.mark.parametrize("moment", ["fcntl.flock", "pathlib.Path.exists"])
def test_an_interruption_as_soon_as_the_file_is_there_leaves_nothing(tmp_path, monkeypatch, moment):
    def interrupted(*_):
        if any(tmp_path.iterdir()):
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(moment, interrupted)
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "log.csv"):
        pass
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())
