"""Verify a store by replaying it, and back it up while it is served."""

import math
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from sparing import archive
from sparing.errors import FileError, SparingError
from sparing.service import corrections, events, state_files
from sparing.service import store as stores
from sparing.service.events import ChangeEvent, DecisionEvent, Event
from sparing.service.experiment import ExperimentState
from sparing.service.registry import Experiment, ExperimentRegistry
from sparing.service.store import Store, WriteBatch
from sparing.service.store.driver import LostError, StoreError
from sparing.service.store.sqlite import Sqlite

FIRST_COMPARED = DecisionEvent.__struct_fields__.index("arm")
COMPARED = [name for name in DecisionEvent.__struct_fields__[FIRST_COMPARED:] if name != "active"]
MAX_FAULTS = 20

TRIES = 3  # an erasure may remove a state file during the copy
DUMP = (
    "This backup does not contain the database. Run pg_dump before this command, and keep the dump with this folder. "
    "A dump made after it could refer to state files that are not in this folder."
)


@dataclass
class VerificationResult:
    """Result of replaying an experiment; `faults` are sentences."""

    experiment: str
    events: int = 0
    decisions: int = 0
    recomputed: int = 0
    by_another_engine: int = 0
    below_floor: int = 0
    snapshots: int = 0
    seq: int = 0
    digest: str = ""
    faults: list[str] = field(default_factory=list)

    def blame(self, sentence: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(sentence)


async def verify(
    store: Store, progress: Callable[[int, int], None] | None = None
) -> list[VerificationResult]:
    """Replay every experiment of an open store: recompute decisions, add up totals again. Nothing is changed.

    It sees the store at one moment, so a service may go on writing.
    """
    async with store.driver.one_view():
        last = await store.last_seq()
        verdicts = [await _replay(store, last, progress, *stored) for stored in await store.experiments()]
        await _gapless(store, last, verdicts)
    return verdicts


async def _replay(
    store: Store,
    last: int,
    progress: Callable[[int, int], None] | None,
    number: int,
    name: str,
    config: dict[str, Any],
    floor: int,
) -> VerificationResult:
    """Replay the events of an experiment up to `last`."""
    registry, verdict = ExperimentRegistry(store), VerificationResult(name)
    model, start, engine = await _start(registry, number, name, floor)
    experiment = Experiment(number, name, config, floor, model)
    marks = {one.seq: one for one in await store.snapshots(number)}
    rows, corrected = WriteBatch(0, 0), await store.corrections(number, last)
    known: dict[int, DecisionEvent] = {}
    async for some in store.events(number, 0, last):
        for event in some:
            _add(rows, known, event, corrected)
            verdict.events += 1
            if isinstance(event, DecisionEvent):
                verdict.decisions += 1
            if event.seq <= start:
                verdict.below_floor += isinstance(event, DecisionEvent)
                continue
            if isinstance(event, ChangeEvent) and event.kind == events.BASE:
                engine = event.read()["engine"]
                await _check_correction(registry, experiment, event, verdict)
            elif isinstance(event, DecisionEvent):
                _recompute(experiment.model, event, engine, verdict)
            registry.apply(experiment, event)
            mark = marks.get(event.seq)
            if mark is not None and all(map(state_files.is_this_engine, (mark.engine, engine))):
                verdict.snapshots += 1
                if mark.digest != experiment.model.digest:
                    verdict.blame(f"the snapshot at event {event.seq} differs from a replay")
        if progress is not None and some:
            progress(some[-1].seq, last)
    verdict.seq, verdict.digest = experiment.model.seq, experiment.model.digest.hex()
    await _totals(store, number, rows, verdict)
    return verdict


async def _start(
    registry: ExperimentRegistry, number: int, name: str, floor: int
) -> tuple[ExperimentState, int, str]:
    """Return the state to replay from (the first base, or the snapshot at the floor), its event, and its engine."""
    store = registry.store
    if floor:
        for mark in await store.snapshots(number):
            if mark.seq == floor:
                return state_files.load(store.folder / mark.path, number, store.salt), mark.seq, mark.engine
        raise FileError(
            f"experiment {name}: the snapshot at event {floor} is missing. Restore it from a backup"
        )
    first = (await registry.bases(number))[0]
    return registry.base(number, first), first.seq - 1, first.read()["engine"]


def _recompute(
    model: ExperimentState, stored: DecisionEvent, engine: str, verdict: VerificationResult
) -> None:
    if not state_files.is_this_engine(engine):
        verdict.by_another_engine += 1
        return
    if stored.context is None:
        verdict.below_floor += 1
        return
    verdict.recomputed += 1
    x = model.context(stored.context)
    again = model.decide(msgspec.structs.replace(stored), x)
    if (again.low, again.high) != (stored.low, stored.high):
        with model.learner.intervals_of_0_2():
            before = model.decide(msgspec.structs.replace(stored), x)
        again = before if (before.low, before.high) == (stored.low, stored.high) else again
    for name in COMPARED:
        was, now = getattr(stored, name), getattr(again, name)
        if was != now:
            verdict.blame(f"decision {stored.seq}: {name} is {was!r}, but a replay gives {now!r}")


async def _check_correction(
    registry: ExperimentRegistry, experiment: Experiment, base: ChangeEvent, verdict: VerificationResult
) -> None:
    """Rebuild the state of a correction, and compare it with the stored one."""
    body = base.read()
    if "corrected" not in body or not state_files.is_this_engine(body["engine"]):
        return
    rebuilt = await corrections.RebuiltState.start(
        registry, experiment.number, experiment.floor, base.seq - 1
    )
    await rebuilt.go_on(registry.store, base.seq - 1)
    if rebuilt.model.digest != registry.base(experiment.number, base).digest:
        verdict.blame(f"the state at event {base.seq}, of a corrected reward, differs from a replay")


def _add(
    rows: WriteBatch, known: dict[int, DecisionEvent], event: Event, corrected: dict[int, float]
) -> None:
    if isinstance(event, DecisionEvent):
        known[event.seq] = event
        rows.count(event, decided=1)
    elif not isinstance(event, ChangeEvent) and event.kind in events.CLOSING - {events.CORRECTED}:
        decision = known.pop(event.decision_seq)
        if event.kind in events.REWARDED:
            value = corrected.get(event.decision_seq, event.value) or 0.0
            rows.count(decision, rewarded=1, value=value)


async def _totals(store: Store, number: int, rows: WriteBatch, verdict: VerificationResult) -> None:
    stored: dict[Any, Any] = {
        (number, one.hour, one.reason, one.arm, int(one.asked)): one[4:] for one in await store.totals(number)
    }
    for key in stored.keys() | rows.totals.keys():
        was, now = stored.get(key, (0, 0, 0.0, 0.0)), rows.totals.get(key, [0, 0, 0.0, 0.0])
        if not all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(was, now, strict=True)):
            verdict.blame(f"totals of {key[2]} in hour {key[1]}: stored {list(was)}, recounted {now}")


async def _gapless(store: Store, last: int, verdicts: list[VerificationResult]) -> None:
    ((count, least, most),) = await store.driver.read(
        "select count(*), min(seq), max(seq) from (select seq from decisions union all select seq from outcomes "
        "union all select seq from changes) as every_event where seq <= $1",
        last,
    )
    if (count, least or 1, most or 0) != (last, 1, last):
        for verdict in verdicts:
            verdict.blame(
                f"got {count} events, numbered {least} to {most}; expected {last}, numbered from 1 without gaps"
            )


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

    Of a store in PostgreSQL only the state files are copied; a note explains how to copy the database.
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
        notes = [] if address is None else [DUMP]
        notes += await _take_note(store)
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
    else:
        last_seq, found = await store.last_seq(), await states_of(store)
    return last_seq, sum(_copy(store.folder, part, one) for one in found)


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
    archive.folder(target.parent)
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


async def _take_note(store: Store) -> list[str]:
    try:
        await store.exclusive(("update store set last_backup = $1", [(events.now(),)]))
    except StoreError as error:
        return [f"The time of this backup was not recorded in the store: {error}."]
    return []
