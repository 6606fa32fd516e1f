"""Back up a store while it is served, and verify it."""

import os
import secrets
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from sparing import archive
from sparing.errors import FileError, SparingError
from sparing.service import events, state_files
from sparing.service import store as stores
from sparing.service.dumps import DATABASE_DUMP, dump
from sparing.service.store import Store
from sparing.service.store.driver import LostError, StoreError
from sparing.service.store.sqlite import Sqlite
from sparing.service.verification import VerificationResult, verify

__all__ = ["Backup", "VerificationResult", "backup", "verify"]

TRIES = 3  # an erasure may remove a state file during the copy


class Backup(NamedTuple):
    """The folder of a backup, its last event, number of state files, size in bytes, and notes for the operator."""

    path: Path
    last_seq: int
    files: int
    size: int
    notes: list[str]


class BackedUpState(NamedTuple):
    """A state file that the database refers to; `needed`: a start needs it."""

    path: str
    sha256: str
    needed: bool


class GoneError(SparingError):
    """A state file was removed after the database was copied."""


async def backup(
    folder: str | os.PathLike[str], destination: str | os.PathLike[str], *, address: str | None = None
) -> Backup:
    """Copy a store into a new folder, check the copy, and record the time in the store.

    A database in PostgreSQL is copied by pg_dump, as it was when its state files were listed, into `DATABASE_DUMP`.
    """
    source, target = Path(folder), Path(destination)
    if target.exists() or target.is_symlink():
        raise FileError(f"{target} already exists; a backup needs a new folder. Choose another name")
    if not target.parent.is_dir():
        raise FileError(f"the folder {target.parent} does not exist. Create it first")
    async with stores.open_store(source, address).reading() as store:
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            last_seq, files = await _copied_again(store, part)
            _flush(part)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    notes = await _take_note(source, address)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return Backup(target, last_seq, files, size, notes)


async def _copied_again(store: Store, part: Path) -> tuple[int, int]:
    """Copy again if a state file was removed meanwhile; return the last event and the number of state files."""
    for _ in range(TRIES):
        try:
            return await _copied(store, part)
        except GoneError as error:
            shutil.rmtree(part)
            gone = error
    raise FileError(f"{gone}. Try again, or restore it from an older backup")


async def _copied(store: Store, part: Path) -> tuple[int, int]:
    try:
        part.mkdir(mode=0o700)
    except OSError as error:
        raise FileError(f"cannot create the folder {part}: {error.strerror or error}") from None
    if isinstance(store.driver, Sqlite):
        path = part / store.driver.path.name
        try:
            store.driver.backup(path)
        except (StoreError, LostError) as error:
            raise FileError(f"cannot copy the database: {error}") from None
        _check_database(path)
        async with Store(part, Sqlite(path)).reading() as copy:
            last_seq, found = await copy.last_seq(), await states_of(copy)
        return last_seq, sum(_copy(store.folder, part, one) for one in found)
    async with store.driver.one_view():  # of the files and of the dump
        last_seq, found = await store.last_seq(), await states_of(store)
        files = sum(_copy(store.folder, part, one) for one in found)  # first: an erasure deletes some
        await dump(store, part / DATABASE_DUMP)
    return last_seq, files


async def states_of(store: Store) -> list[BackedUpState]:
    """List the state files that a database refers to: every base, the newest snapshot, and the one at the floor.

    A start needs the newest of them at or above the floor.
    """
    found = []
    for number, _, _, floor in await store.experiments():
        bases = [(one.seq, one.read()) for one in await store.changes(number, events.BASE)]
        snapshots = await store.snapshots(number)
        last = bases[-1][0]
        marks = [one for one in snapshots if one.seq == floor or one is snapshots[0]]
        found += [
            BackedUpState(body["path"], body["sha256"], seq == last and seq >= floor) for seq, body in bases
        ]
        origins = [body["origin"] for _, body in bases if "origin" in body]
        found += [BackedUpState(origin["path"], origin["sha256"], False) for origin in origins]
        found += [BackedUpState(one.path, one.sha256.hex(), one.seq >= floor > last) for one in marks]
    return found


def _copy(folder: Path, part: Path, state: BackedUpState) -> bool:
    """Copy a state file and compare its hash; return False for one that an erasure removed."""
    source, target = folder / state.path, part / state.path
    archive.folder(target.parent, private=True)
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        if state.needed:
            raise GoneError(f"{source} is missing; the store needs it") from None
        return False
    if state_files.file_hash(target).hex() != state.sha256:
        if state.needed:
            raise FileError(
                f"{source} was changed or damaged; the store needs it. Restore it from an older backup"
            )
        target.unlink()
        return False
    return True


def _check_database(path: Path) -> None:
    connection = apsw.Connection(str(path))
    try:
        found = connection.execute("pragma quick_check").fetchall()
    except apsw.Error as error:
        raise FileError(f"the copy of the database is damaged: {error}") from None
    finally:
        connection.close()
    if found != [("ok",)]:
        raise FileError(f"the copy of the database is damaged: {found[0][0]}")


def _flush(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder, folder.parent]:
        number: Any = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


async def _take_note(folder: Path, address: str | None) -> list[str]:
    """Record the time in the store; return a note if that is not possible."""
    store = stores.open_store(folder, address)
    try:
        await store.driver.connect(create=False)
        try:
            await store.exclusive(("update store set last_backup = $1", [(events.now(),)]))
        finally:
            await store.close()
    except (StoreError, FileError) as error:
        return [f"The time of this backup was not recorded in the store: {error}."]
    return []
