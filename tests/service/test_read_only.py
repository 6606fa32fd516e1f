"""Stores that cannot be written, and damaged ones: what only reads works, and the rest says why it does not."""

import ctypes
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from service.building import NAME, live, ran, trial
from sparing.cli import app
from sparing.errors import FileError
from sparing.service import snapshots

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


@pytest.fixture
def kept(tmp_path):
    """A store that was stopped in order: there is no write-ahead log."""

    async def run():
        async with trial(tmp_path / "store") as writer:
            await live(writer, 1, 10)
            await snapshots.snapshot_here(writer, writer.registry.get(NAME))

    ran(run())
    return tmp_path / "store"


@pytest.fixture
def locked(kept):
    """The store, in which nobody may write: neither a file nor one beside it."""
    paths = [kept, *kept.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield kept
    for path in paths:
        path.chmod(0o755)


def as_everybody():
    """Obey permissions, also as root: give up CAP_DAC_OVERRIDE."""
    if os.getuid() == 0:
        assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) == 0


def command(*words):
    """A command; its exit code, and what it says as one line."""
    done = subprocess.run(
        [sys.executable, "-m", "sparing", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=as_everybody,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_reading_commands_work_where_nothing_can_be_written(locked, tmp_path):
    code, said = command("verify", locked)
    assert (code, "all as stored" in said) == (0, True), said
    assert command("keys", "list", locked)[0] == 0
    code, said = command("backup", locked, tmp_path / "copy")
    assert code == 0, said
    assert "The time of this backup was not recorded in the store" in said
    assert command("verify", tmp_path / "copy")[0] == 0
    code, said = command("keys", "add", locked, "web")
    assert (code, "cannot be written" in said, "Traceback" in said) == (2, True, False), said


def test_events_in_the_write_ahead_log_are_not_passed_over(kept, request):
    """Without its index SQLite cannot read the log where it cannot write; a reader must not see less than there is."""
    (kept / "store.sqlite-wal").write_bytes(b"x" * 4096)
    code, said = command("verify", request.getfixturevalue("locked"))
    assert code == 2
    assert "events that are not yet in the database" in said


@pytest.mark.parametrize("words", [["verify"], ["keys", "list"], ["backup"]])
@pytest.mark.parametrize("where", ["the first page", "the middle"])
def test_a_damaged_database_is_said(kept, tmp_path, words, where):
    path = kept / "store.sqlite"
    size = path.stat().st_size
    with path.open("r+b") as file:
        if where == "the middle":
            file.seek(4096 * 2)
        file.write(b"\xa5" * (4096 if where == "the first page" else size - 8192))
    more = [str(tmp_path / "copy")] if words == ["backup"] else []
    done = CliRunner().invoke(app, [*words, str(kept), *more])
    assert isinstance(done.exception, FileError), done.exception
    assert "damaged" in str(done.exception)
