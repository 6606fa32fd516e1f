"""A store's backup: a folder that `sparing serve` can start from, taken while the service goes on, whole or not there."""

import os
import secrets
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from sparing import archive
from sparing.errors import FileError, SparingError
from sparing.service import events, states
from sparing.service import store as stores
from sparing.service.store import Store
from sparing.service.store.driver import LostError, StoreError
from sparing.service.store.sqlite import Sqlite

TRIES = 3
"""How often to copy again because an erasure removed a state meanwhile."""

DUMP = (
    "The database itself is not in this backup: run pg_dump on it before you run this command, and keep the dump with this folder. "
    "Dumped after it, the database could refer to states that are not here."
)


class Backup(NamedTuple):
    """A backup: its folder, the last event in it, how many states and bytes it has, and what is to be known of it."""

    path: Path
    last_seq: int
    files: int
    size: int
    notes: list[str]


class State(NamedTuple):
    """A state on disk that the database refers to, and whether a start needs it."""

    path: str
    sha256: str
    needed: bool


class GoneError(SparingError):
    """A state was removed after the database was copied."""


async def backup(
    folder: str | os.PathLike[str], destination: str | os.PathLike[str], *, address: str | None = None
) -> Backup:
    """Copy a store into a new folder, check the copy, and take note of it in the store.

    Of a store in PostgreSQL only the states are copied, and a note says how to copy the database.
    """
    source, target = Path(folder), Path(destination)
    if target.exists() or target.is_symlink():
        raise FileError(f"{target} exists already; a backup is a new folder. Name another")
    if not target.parent.is_dir():
        raise FileError(f"the folder {target.parent} does not exist. Create it first")
    store = stores.at(source, address)
    await store.look()
    try:
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            last_seq, files = await _copied_again(store, part)
            _flush(part)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        notes = [] if address is None else [DUMP]
        notes += await _take_note(store)
    finally:
        await store.close()
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return Backup(target, last_seq, files, size, notes)


async def _copied_again(store: Store, part: Path) -> tuple[int, int]:
    """Copy, and once more if a state went away meanwhile; the last event and how many states there are."""
    for left in reversed(range(TRIES)):
        try:
            return await _copied(store, part)
        except GoneError as error:
            shutil.rmtree(part)
            if not left:
                raise FileError(f"{error}. Restore it from an older backup, or try again") from None
    raise AssertionError  # the last try returned, or raised


async def _copied(store: Store, part: Path) -> tuple[int, int]:
    try:
        part.mkdir(mode=0o700)
    except OSError as error:
        raise FileError(f"cannot make the folder {part}: {error.strerror or error}") from None
    copy = store
    if isinstance(store.driver, Sqlite):
        try:
            store.driver.backup(part / store.driver.path.name)
        except (StoreError, LostError) as error:
            raise FileError(f"the database could not be copied: {error}") from None
        _check_database(part / store.driver.path.name)
        copy = Store(part, Sqlite(part / store.driver.path.name))
        await copy.look()
    try:
        last_seq, found = await copy.last_seq(), await states_of(copy)
    finally:
        if copy is not store:
            await copy.close()
    return last_seq, sum(_copy(store.folder, part, one) for one in found)


async def states_of(store: Store) -> list[State]:
    """The states that a database refers to: every base, the newest snapshot, and that at the replay's floor.

    A start needs the newest of them at or above the replay's floor; the others it can do without.
    """
    found = []
    for number, _, _, floor in await store.experiments():
        bases = await store.driver.read(
            "select seq, body from changes where experiment = $1 and kind = $2 order by seq",
            number,
            events.BASE,
        )
        said = [(seq, msgspec.json.decode(body)) for seq, body in bases]
        snapshots = await store.snapshots(number)
        last = said[-1][0]
        marks = [one for one in snapshots if one.seq == floor or one is snapshots[0]]
        found += [State(body["path"], body["sha256"], seq == last and (seq >= floor)) for seq, body in said]
        found += [State(one.path, one.sha256.hex(), one.seq >= floor > last) for one in marks]
    return found


def _copy(folder: Path, part: Path, state: State) -> bool:
    """Copy a state and compare its hash; whether it was there. One that an erasure removed is left out."""
    source, target = folder / state.path, part / state.path
    archive.folder(target.parent)
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        if state.needed:
            raise GoneError(f"{source} is missing; the store needs it") from None
        return False
    if states.file_hash(target).hex() != state.sha256:
        if state.needed:
            raise FileError(
                f"{source} was changed or damaged; the store needs it. Restore it from an older backup"
            )
        target.unlink()
        return False
    return True


def _check_database(path: Path) -> None:
    """Refuse a copy that the database itself does not find whole."""
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
    """See to it that everything is on the disk before the folder has its name."""
    for path in [*folder.rglob("*"), folder, folder.parent]:
        number: Any = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


async def _take_note(store: Store) -> list[str]:
    """Write down when the last backup was; a store that cannot be written to is backed up all the same."""
    try:
        await store.alone(("update store set last_backup = $1", [(events.now(),)]))
    except StoreError as error:
        return [f"The store does not know of this backup, because it could not be written to: {error}."]
    return []
