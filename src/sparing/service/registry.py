"""The experiments of a store, each with its state, kept up to date with committed events."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sparing import archive
from sparing.errors import FileError
from sparing.online.decision import check_sizes
from sparing.service import comparison, events, state_files
from sparing.service.errors import not_found
from sparing.service.events import ChangeEvent, Event
from sparing.service.experiment import ExperimentState
from sparing.service.store import Store

FARTHEST = 5.0  # times the largest size in the log


@dataclass
class Experiment:
    """An experiment: number, name, how its learner is made (`config`), the floor of replays, and its state."""

    number: int
    name: str
    config: dict[str, Any]
    floor: int
    model: ExperimentState
    doubtful: bool = False  # a replay of the store gave another state: this one is not written
    unseen: int = 0  # decisions of this worker in contexts with values that the log never had
    compared_since: int = 0  # the last event that changed check or holdout: later decisions are compared
    _known: tuple[Any, Any, np.ndarray | None] = field(default=(None, None, None), repr=False)

    def limited(self, given: Any, x: np.ndarray) -> Any:
        """Return a context, of which x (d,) is the encoding, with numbers at most `FARTHEST` times as large as any in the log.

        One reward in a context far from all others would outweigh them for ever. Named columns of numbers have the log's range; this is for
        encoded numbers, raw ones and vectors. Experiments that older versions made have no limits until a log is imported.
        """
        limits, encoder = self._sizes(), self.model.learner.encoder
        if limits is None or (isinstance(given, dict) and not encoder.unlimited):
            return given
        if b"\0" not in (np.abs(x) <= limits).tobytes():  # in half the time of `all`
            return given
        check_sizes(x)
        if isinstance(given, dict):
            return encoder.limited(given, x, limits)
        return np.clip(x, -limits, limits)

    def _sizes(self) -> np.ndarray | None:
        """The largest size that each coordinate of a context (d,) may have."""
        about, encoder = self.config.get("about"), self.model.learner.encoder
        if self._known[0] is not about or self._known[1] is not encoder:
            reach, limits = (about or {}).get("reach"), None
            if reach is not None:
                # also of kernel features, which are smaller, and of what the log has only zeros of
                limits = np.full(encoder.size, FARTHEST)
                limits[encoder.logged[: len(reach)]] = [FARTHEST * (each or 1.0) for each in reach]
            self._known = about, encoder, limits
        return self._known[2]


class ExperimentRegistry:
    """All experiments; their states include every event up to `seq`."""

    def __init__(self, store: Store) -> None:
        self.store, self.seq = store, 0
        self._known: dict[int, Experiment] = {}
        self._names: dict[str, Experiment] = {}

    def __iter__(self) -> Iterator[Experiment]:
        return iter(self._known.values())

    def get(self, name: str) -> Experiment:
        if name not in self._names:
            known = ", ".join(sorted(self._names)[:8]) or "none exists yet"
            raise not_found(f"there is no experiment {name!r}; must be one of: {known}", "unknown_experiment")
        return self._names[name]

    def has(self, name: str) -> bool:
        return name in self._names

    def by_id(self, number: int) -> Experiment:
        return self._known[number]

    def add(self, experiment: Experiment) -> None:
        self._known[experiment.number] = self._names[experiment.name] = experiment

    async def catch_up(self, upto: int) -> None:
        """Apply events that others have committed, up to one."""
        if upto <= self.seq:
            return
        stored = await self.store.experiments()
        upto = max(
            [upto, *(floor for *_, floor in stored)]
        )  # a visible floor was committed with all events before it
        for number, name, config, floor in stored:
            known = self._known.get(number)
            if known is None or floor > self.seq:  # events below the floor cannot be replayed
                self.add(await self._read(upto, number, name, config, floor))
                continue
            known.config, known.floor = config, floor
            since = max(self.seq, known.model.seq)  # after a failure some experiments may be further on
            async for some in self.store.events(number, since, upto):
                for event in some:
                    self.apply(known, event)
        self.seq = upto

    async def state_at(self, number: int, upto: int) -> Experiment:
        """Read an experiment as it was after an event; the registry is unchanged."""
        for stored in await self.store.experiments():
            if stored[0] == number:
                return await self._read(upto, *stored)
        raise FileError(f"the store has no experiment number {number}")

    async def reread(self, numbers: set[int]) -> None:
        """Read experiments again, up to `seq`, to drop uncommitted changes."""
        if not numbers:
            return
        anew = []
        for stored in await self.store.experiments():
            number = stored[0]
            if number in numbers and any(base.seq <= self.seq for base in await self.bases(number)):
                anew.append(await self._read(self.seq, *stored))
        for number in numbers & self._known.keys():
            self._names.pop(self._known.pop(number).name, None)
        for experiment in anew:
            self.add(experiment)

    def apply(self, experiment: Experiment, event: Event, x: np.ndarray | None = None) -> None:
        if type(event) is not ChangeEvent:
            experiment.model.apply(event, x)
            return
        if event.kind == events.BASE:
            experiment.model = self.base(experiment.number, event)
        shares = comparison.shares(experiment.model.options)
        experiment.model.apply(event)
        if comparison.shares(experiment.model.options) != shares:
            experiment.compared_since = event.seq

    async def _read(
        self, upto: int, number: int, name: str, config: dict[str, Any], floor: int
    ) -> Experiment:
        model, since = await self.start(number, upto)
        if since < floor:
            raise FileError(
                f"experiment {name}: contexts before event {floor} were erased, and the state file of that event is missing or "
                f"damaged in {self.store.folder / 'snapshots'}. Restore it from a backup"
            )
        experiment = Experiment(number, name, config, floor, model)
        changes = await self.store.changes(number, events.OPTIONS)
        last = comparison.changed([one for one in changes if one.seq <= upto], config.get("options"))
        experiment.compared_since = last.seq if last else 0
        async for some in self.store.events(number, since, upto):
            for event in some:
                self.apply(experiment, event)
        return experiment

    async def start(self, number: int, upto: int) -> tuple[ExperimentState, int]:
        """Return the newest intact state at or before an event, and an event up to which it is the state."""
        bases = [base for base in await self.bases(number) if base.seq <= upto]
        for snapshot in await self.store.snapshots(number):
            if bases and bases[-1].seq > snapshot.seq:
                break
            path = self.store.folder / snapshot.path
            if snapshot.seq <= upto and path.exists() and state_files.file_hash(path) == snapshot.sha256:
                model = state_files.load(path, number, self.store.salt)
                return model, max(snapshot.seq, min(snapshot.through, upto))
        if not bases:
            raise FileError(
                f"experiment number {number} has no state file to start from. Restore the store from a backup"
            )
        model = self.base(number, bases[-1])
        model.apply(bases[-1])
        return model, bases[-1].seq

    async def bases(self, number: int) -> list[ChangeEvent]:
        return await self.store.changes(number, events.BASE)

    def base(self, number: int, event: ChangeEvent) -> ExperimentState:
        return self.state_of(number, event.read())

    def state_of(self, number: int, said: dict[str, Any]) -> ExperimentState:
        """Return the state that the body of `save_base` names."""
        path = self.store.folder / said["path"]
        if not path.exists():
            raise FileError(f"{path} is missing; the store needs it. Restore it from a backup")
        if state_files.file_hash(path).hex() != said["sha256"]:
            raise FileError(f"{path} was changed or damaged. Restore it from a backup")
        return state_files.load(path, number, self.store.salt)


def save_base(folder: Path, model: ExperimentState) -> dict[str, str]:
    """Write a base state; return the body of its event."""
    place = archive.folder(folder / "bases", private=True)
    draft = place / f"draft-{model.experiment}-{model.seq}.state"
    digest = state_files.save(model, draft)
    path = place / f"{digest.hex()}.state"
    draft.replace(path)
    return {"path": str(path.relative_to(folder)), "sha256": digest.hex(), "engine": state_files.engine()}
