"""Snapshots: states from which a start is quick, written by this process or by a child process.

`python -m sparing.service.snapshots FOLDER EXPERIMENT SEQ` is the child. It replays the store up to an event and writes
the state. The snapshot counts once its digest equals this process's own at that event.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from sparing import archive
from sparing.errors import FileError, SparingError
from sparing.service import events, state_files, store
from sparing.service.experiment import ExperimentState
from sparing.service.registry import Experiment, ExperimentRegistry
from sparing.service.store.driver import StoreError
from sparing.service.store.store import Store, StoredSnapshot
from sparing.service.transactions import TransactionHandler
from sparing.service.writer import Writer

# Environment variable with the address of the database, which may contain a password.
ADDRESS = "SPARING_STORE"

FOLDER, ENDING = "snapshots", ".state"
KEPT = 2  # snapshots kept per experiment: the newest, and one in case it is damaged
MILESTONES, SPACING = 32, 20_000  # older ones that are kept, and the least number of events between them
ROOM = 2**26  # bytes that they may take in any case
EVERY, BEHIND = (
    20_000,
    200_000,
)  # events after which a state is written, and those after which the child does not keep up
NICE = 10
PATIENCE = 120.0  # seconds of a child


class MismatchError(SparingError):
    """The state of this process differs from a replay of the store."""


def write(folder: Path, model: ExperimentState) -> StoredSnapshot:
    """Write a snapshot file; it counts once the store refers to it."""
    path = Path(FOLDER) / f"{model.experiment}-{model.seq}{ENDING}"
    archive.folder(folder / FOLDER, private=True)
    sha256 = state_files.save(model, folder / path)
    return StoredSnapshot(model.seq, 0, state_files.engine(), model.digest, sha256, str(path))


# Within this process.


async def snapshot_here(writer: Writer, experiment: Experiment) -> StoredSnapshot:
    """Write and register a snapshot of the present state, unless there is one."""

    async def operation(transaction: TransactionHandler) -> StoredSnapshot:
        return await snapshot_within(writer.store, transaction, writer.registry.by_id(experiment.number))

    found = await writer.exclusive(operation)
    await delete_old_snapshots(writer, experiment)
    return found


async def snapshot_within(
    store: Store, transaction: TransactionHandler, experiment: Experiment
) -> StoredSnapshot:
    """Write and register a snapshot inside a transaction, during which the state does not change."""
    model = experiment.model
    for known in await store.snapshots(experiment.number, within=True):
        path = store.folder / known.path
        if known.seq == model.seq and path.exists() and state_files.file_hash(path) == known.sha256:
            return known
    found = await asyncio.to_thread(write, store.folder, model)
    return await _insert(store, experiment.number, found._replace(ts=transaction.ts))


async def _insert(store: Store, number: int, found: StoredSnapshot) -> StoredSnapshot:
    # An earlier one at this event has a damaged or missing file.
    await store.driver.many("delete from snapshots where experiment = $1 and seq = $2", [(number, found.seq)])
    await store.driver.many(
        "insert into snapshots values ($1, $2, $3, $4, $5, $6, $7, $8)", [(number, *found)]
    )
    return found


async def keep_up(writer: Writer, experiment: Experiment) -> bool:
    """Let a state on disk follow the events, so that a start stays quick; return whether a child process wrote one now.

    If the child falls behind, this process writes the state, which makes requests wait meanwhile, and a FileError says so.
    """
    number = experiment.number
    behind = writer.registry.seq - await _newest(writer, number)
    if behind < EVERY or await _still(writer, number):
        return False
    if behind < BEHIND or experiment.doubtful:
        return await snapshot_by_child(writer, experiment) is not None
    await snapshot_here(writer, experiment)
    raise FileError(
        f"the newest state file of experiment {experiment.name} was {behind:,} events old: the process that writes it does not keep up. "
        "The service wrote it, and requests waited meanwhile. Give the service another core"
    )


async def shorten_tail(writer: Writer, experiment: Experiment) -> None:
    """Write the state after a start that replayed many events, so that the next one is quick."""
    if writer.registry.seq - await _newest(writer, experiment.number) >= EVERY:
        await snapshot_here(writer, experiment)


async def _newest(writer: Writer, number: int) -> int:
    """Return the event up to which no start replays events."""
    known = await writer.store.snapshots(number)
    return max(known[0].reaches if known else 0, (await writer.registry.bases(number))[-1].seq)


async def _still(writer: Writer, number: int) -> bool:
    """Note that the newest snapshot is still the state, if only other experiments have had events since."""

    async def note(transaction: TransactionHandler) -> bool:
        known = await writer.store.snapshots(number, within=True)
        if not known or known[0].seq != writer.registry.by_id(number).model.seq:
            return False
        row = (transaction.rows.last_seq, number, known[0].seq)
        await writer.store.driver.many(
            "update snapshots set through = $1 where experiment = $2 and seq = $3", [row]
        )
        return True

    return await writer.exclusive(note)


# By a child.


async def snapshot_by_child(
    writer: Writer, experiment: Experiment, *, patience: float = PATIENCE
) -> StoredSnapshot | None:
    """Let a child process write a snapshot of the present state.

    Return None if it no longer counts: contexts were erased, or the experiment was restarted, meanwhile. Raises MismatchError if
    the child's state differs from this process's own, and FileError if the child failed.
    """

    async def present(transaction: TransactionHandler) -> tuple[int, bytes]:
        model = writer.registry.by_id(experiment.number).model
        return model.seq, model.digest

    seq, digest = await writer.exclusive(present)  # nothing uncommitted
    said = await _child(writer.store, experiment.number, seq, patience)
    if (said.seq, said.digest) != (seq, digest):
        (writer.store.folder / said.path).unlink(missing_ok=True)
        experiment.doubtful = True
        raise MismatchError(
            f"experiment {experiment.name} at event {seq}: a replay of the store gives the digest {said.digest.hex()}, but this process has "
            f"{digest.hex()}. Restart the process: it reads the store again"
        )

    async def operation(transaction: TransactionHandler) -> StoredSnapshot | None:
        floor = writer.registry.by_id(experiment.number).floor
        path = writer.store.folder / said.path
        bases = await writer.registry.bases(experiment.number)
        if seq < floor or seq < bases[-1].seq or not path.exists():
            return None
        if state_files.file_hash(path) != said.sha256:
            raise FileError(f"{path} was changed or damaged after it was written")
        return await _insert(writer.store, experiment.number, said._replace(ts=transaction.ts))

    try:
        return await writer.exclusive(operation)
    finally:
        await delete_old_snapshots(writer, experiment)


async def _child(store: Store, number: int, seq: int, patience: float) -> StoredSnapshot:
    address = {} if store.address is None else {ADDRESS: store.address}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "sparing.service.snapshots",
        *map(str, (store.folder, number, seq)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**{name: value for name, value in os.environ.items() if name != ADDRESS}, **address},
    )
    try:
        said, complained = await asyncio.wait_for(process.communicate(), patience)
    except TimeoutError:
        raise FileError(f"the snapshot of experiment number {number} took more than {patience:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        last = complained.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise FileError(
            f"the snapshot of experiment number {number} at event {seq} was not written: {last[0]}"
        )
    return msgspec.json.decode(said, type=StoredSnapshot)


async def replayed(folder: Path, number: int, seq: int, address: str | None = None) -> ExperimentState:
    """Return the state after an event, replayed read-only from the newest one on disk."""
    async with store.open_store(folder, address).reading() as kept:
        model = (await ExperimentRegistry(kept).state_at(number, seq)).model
    if model.seq != seq:
        raise FileError(
            f"experiment number {number} has no event {seq}; its last event before that is {model.seq}"
        )
    return model


def main(folder: str, number: str, seq: str) -> None:
    """Replay an experiment up to an event, write the state, and report it as a line of JSON."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(NICE)
    try:
        model = asyncio.run(replayed(Path(folder), int(number), int(seq), os.environ.get(ADDRESS)))
        said = write(Path(folder), model)
    except (SparingError, StoreError) as error:
        sys.exit(f"sparing: {error}")
    print(msgspec.json.encode(said).decode(), flush=True)


async def delete_old_snapshots(writer: Writer, experiment: Experiment) -> None:
    """Delete states that no start and no verification needs, and temporary files of killed processes.

    States from the first erased context up to the floor are deleted, because they may contain it. Also run at a start, since an erasure
    may have been interrupted.
    """
    number, kept = experiment.number, writer.store

    async def forget(transaction: TransactionHandler) -> None:
        floor, known = writer.registry.by_id(number).floor, await kept.snapshots(number, within=True)
        begin, sizes = await kept.erased_from(number), [_size(kept.folder, one) for one in known]
        staying = (
            {one.seq for one in known[:KEPT]} | {floor} | milestones(known, sizes, await kept.driver.size())
        )
        gone = [
            (number, one.seq)
            for one in known
            if (begin is not None and begin <= one.seq < floor) or one.seq not in staying
        ]
        await kept.driver.many("delete from snapshots where experiment = $1 and seq = $2", gone)

    async def remove(transaction: TransactionHandler) -> None:
        await asyncio.to_thread(_remove, kept.folder, number, await _wanted(kept))

    await writer.exclusive(forget)
    await writer.exclusive(remove)  # only once nothing refers to them


def milestones(known: Sequence[StoredSnapshot], sizes: Sequence[int], space: int) -> set[int]:
    """Choose older snapshots, at most `MILESTONES`, evenly spaced, that stay for verification by ranges; return their events.

    Together they take at most as much `space` (bytes) as the database, or `ROOM`. As events come, the spacing doubles and every second one goes.
    """
    most = min(MILESTONES, max(space, ROOM) // max(1, *sizes)) if any(sizes) else 0
    spacing = SPACING
    while True:
        # Newest first, so the oldest of each stretch stays; the base is the first stretch's.
        found = {one.seq // spacing: one.seq for one in known if one.seq >= spacing}
        if len(found) <= most:
            return set(found.values())
        spacing *= 2


def _size(folder: Path, one: StoredSnapshot) -> int:
    try:
        return (folder / one.path).stat().st_size
    except OSError:
        return 0


async def _wanted(kept: Store) -> set[Path]:
    """Return the state files that must stay: snapshots, first bases, those at or above the floor, and those before any erased context.

    A first base has no live context. A later one has those of the calls pending when it was written.
    """
    found = await kept.driver.rows("select path from snapshots")
    wanted = {kept.folder / path for (path,) in found}
    first: set[int] = set()
    for number, seq, body, floor, erased in await kept.driver.rows(
        "select c.experiment, c.seq, c.body, e.floor, e.erased_from from changes c join experiments e on e.experiment = c.experiment "
        "where c.kind = $1 order by c.seq",
        events.BASE,
    ):
        if number not in first or seq >= floor or (erased is not None and seq < erased):
            said = msgspec.json.decode(body)
            wanted |= {kept.folder / each["path"] for each in (said, said.get("origin")) if each}
        first.add(number)
    return wanted


def _remove(folder: Path, number: int, wanted: set[Path]) -> None:
    """Delete state files that are not wanted, and temporary files of processes that are gone."""
    found: list[Any] = [
        *(folder / FOLDER).glob(f"{number}-*{ENDING}"),
        *(folder / "bases").glob(f"*{ENDING}"),
    ]
    for path in found:
        if path not in wanted:
            path.unlink(missing_ok=True)
    for place in (folder / FOLDER, folder / "bases"):
        archive.sweep(place)


if __name__ == "__main__":
    main(*sys.argv[1:])
