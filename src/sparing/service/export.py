"""Decisions that have a reward and a context, exported as a log in a table.

`play_probability` is the log's propensity; `call_probability` and the other facts of a decision are extra columns. An
export opens the store by itself: it can run in a thread, or in another process, while the service runs.
"""

import asyncio
import os
from collections import Counter, deque
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sparing.errors import LogError, SparingError
from sparing.log.labels import identifiers, label_text, normalize_label, shorten
from sparing.log.log import Log
from sparing.log.support import SupportBuilder
from sparing.log.text_files import KINDS, WRITTEN
from sparing.service import events, experiment
from sparing.service import store as stores
from sparing.service.errors import not_found
from sparing.service.events import ChangeEvent, DecisionEvent, OutcomeEvent
from sparing.service.experiment import ExperimentState
from sparing.service.messages import Options
from sparing.service.registry import ExperimentRegistry
from sparing.service.store.store import Store

MAX_ROWS = 5_000_000  # of an export, which is built in memory
CHUNK_ROWS = 5000
# `served`: what was served, with its propensities. `all`: shadow calls too, which have none, so the log has none.
ROWS = ("served", "all")

ENDINGS = {KINDS[ending]: ending for ending in reversed(WRITTEN)}
FORMATS = tuple(reversed(ENDINGS))
ExtraColumns = Mapping[str, Sequence[Any]]  # columns (n,) by name: numbers or texts, some of them None

REWARDED = "o.seq <= $2 and o.kind in ('reward', 'default', 'unasked', 'learnt', 'corrected') and d.context is not null"
COUNTED = (
    "select count(*) from decisions d join outcomes o on o.decision_seq = d.seq and o.closes = 1 "
    f"where d.experiment = $1 and {REWARDED}"
)


class Exported(NamedTuple):
    """A file, its number of rows, and notes on them."""

    path: Path
    rows: int
    notes: list[str]


def check_format(format: str) -> str:
    """Return the ending of files of this format, or refuse one that is not exported."""
    if format not in ENDINGS:
        raise LogError(
            f"format={shorten(format)}; must be one of {', '.join(FORMATS)}. For another format, export a table and "
            "convert it with `sparing convert`"
        )
    return ENDINGS[format]


def export(
    folder: str | os.PathLike[str],
    experiment: str,
    format: str,
    path: str | os.PathLike[str],
    *,
    rows: str = "served",
    address: str | None = None,
) -> Exported:
    """Write an experiment's rewarded decisions as a log; `format` is one of `FORMATS`, and `rows` one of `ROWS`."""
    from sparing.log.writer import write  # with PyArrow, a tenth of a worker's start

    target, ending = Path(path), check_format(format)
    check_rows(rows)
    if KINDS.get(target.suffix.lower()) != format:
        raise LogError(f"{target}: the name of a {format} file must end in {ending}")

    async def read() -> tuple[Log, ExtraColumns, list[str]]:
        async with stores.open_store(Path(folder), address).reading() as store:
            return await rewarded(store, experiment, rows)

    log, columns, notes = asyncio.run(read())
    lost = write(log, target, extra_columns=columns, escape_formulas=True)
    return Exported(target, log.n_rows, [*notes, *lost])


def check_rows(rows: str) -> None:
    """Refuse rows that are not exported."""
    if rows not in ROWS:
        raise LogError(f"rows={shorten(rows)}; must be one of {', '.join(ROWS)}")


async def rewarded(store: Store, name: str, wanted: str = "served") -> tuple[Log, ExtraColumns, list[str]]:
    """Return an experiment's decisions with a reward and a context as a log, its extra columns, and notes."""
    upto = await store.last_seq()
    known = {name: (number, config) for number, name, config, _ in await store.experiments()}
    if name not in known:
        raise not_found(f"there is no experiment {name!r}", "unknown_experiment")
    number, config = known[name]
    ((count,),) = await store.driver.read(COUNTED, number, upto)
    if count > MAX_ROWS:
        raise LogError(
            f"{count:,} rewarded decisions; an export has at most {MAX_ROWS:,} rows. Read the tables of the store instead"
        )
    model, since = await ExperimentRegistry(store).start(number, upto)
    began = msgspec.convert(config["options"], Options)
    history = await _history(store, model, began, since, upto)
    rows, after = _Rows(model, history, count, wanted == "all"), 0
    where = f"{REWARDED} and d.seq > $3"
    while some := await store.record(number, where, upto, after, limit=CHUNK_ROWS):
        for found in some:
            rows.add(*found)
        after = some[-1].decision.seq
        rows.end_chunk()
    if not rows.kept:
        why = "".join(f"; {count:,} {reason}" for reason, count in rows.left_out.items())
        raise LogError(
            f"experiment {name} has no decision with both a reward and a context{why}; there is nothing to export"
        )
    return rows.log(), rows.extra_columns(), rows.notes()


class _History:
    """The actions and options of an experiment at one event after another."""

    def __init__(
        self, names: Sequence[Hashable], first: int, options: Options, changes: list[ChangeEvent]
    ) -> None:
        self.names, self.options = tuple(names), options
        self._known, self._changes = first, deque(changes)
        self.active = np.arange(len(self.names)) < first

    def go_to(self, seq: int) -> None:
        """Apply the changes before an event; events come in their order."""
        while self._changes and self._changes[0].seq < seq:
            change = self._changes.popleft()
            body = change.read()
            if change.kind == events.OPTIONS:
                self.options = msgspec.convert(body, Options)
            elif change.kind == events.RETIRE:
                self.active[self.names.index(normalize_label(body["label"]))] = False
            elif change.kind in (events.ACTION, events.BASE):
                more = added(change)
                self.active[self._known : self._known + more] = True
                self._known += more

    def allowed(self, eligible: bytes | None) -> np.ndarray:
        """Return which actions a decision could choose from, (K,)."""
        mask = events.unpack_mask(eligible, len(self.names))
        return self.active.copy() if mask is None else mask

    def all_possible(self, row: DecisionEvent) -> bool:
        """Whether every allowed action had a positive probability."""
        options = self.options
        if row.arm in ("shadow", "fallback"):
            return options.fallback == experiment.UNIFORM
        explored = (
            options.explore > 0 and row.call_probability > 0
        )  # nothing is explored once the budget is spent
        return explored or (options.holdout > 0 and options.holdout_policy == experiment.UNIFORM)


def added(change: ChangeEvent) -> int:
    return 1 if change.kind == events.ACTION else int(change.read().get("new", 0))


async def _history(store: Store, model: ExperimentState, options: Options, since: int, upto: int) -> _History:
    kinds = (events.OPTIONS, events.RETIRE, events.ACTION, events.BASE)
    changes = [one for one in await store.changes(model.experiment, *kinds) if one.seq <= upto]
    growing = [one for one in changes if one.kind in (events.ACTION, events.BASE)]
    later = [one.read()["label"] for one in growing if one.kind == events.ACTION and one.seq > since]
    names = (*model.learner.action_names, *map(normalize_label, later))
    first = len(names) - sum(map(added, growing))
    return _History(names, first, options, changes)


class _Rows:
    def __init__(self, model: ExperimentState, history: _History, count: int, with_calls: bool) -> None:
        self.model, self.history, self.with_calls, self.kept = model, history, with_calls, 0
        self.contexts = np.empty((count, model.learner.n_features))
        self.rows: list[tuple[Any, ...]] = []
        self.ids: list[Any] = []
        self.sets: SupportBuilder | None = SupportBuilder(len(history.names))
        self.masks: list[np.ndarray] = []
        self.left_out: Counter[str] = Counter()

    def add(self, row: DecisionEvent, outcome: OutcomeEvent | None) -> None:
        """Add a decision, or count why it is left out."""
        assert outcome is not None
        assert row.context is not None
        self.history.go_to(row.seq)
        if outcome.played is not None:
            self.left_out[
                "rewards are of another action than the decided one, and its probability is unknown"
            ] += 1
            return
        if row.served_id is not None and not self.with_calls:
            self.left_out[
                "rewards are of shadow calls, which have no propensity (export them with rows=all)"
            ] += 1
            return
        if row.served_id is None and not row.play_probability > 0:
            self.left_out["decisions have a probability that rounds to 0"] += 1
            return
        try:
            self.contexts[self.kept] = self.model.context(row.context)
        except SparingError:
            self.left_out["contexts do not fit the experiment's present features"] += 1
            return
        allowed = self.history.allowed(row.eligible)
        self._add_support(row, allowed)
        narrow = None
        if row.eligible is not None:
            names = [label_text(self.history.names[number]) for number in np.flatnonzero(allowed)]
            narrow = msgspec.json.encode(names).decode()
        played = None if row.served_id is not None else min(row.play_probability, 1.0)
        seen = (row.action, outcome.value, played)
        called = None if row.served_id is not None else row.call_probability
        extra = (called, row.reason, row.arm, outcome.kind, events.time_text(row.ts))
        served = None if row.served_id is None else events.id_text(row.served_id)
        self.rows.append((*seen, *extra, events.id_text(row.decision_id), narrow, row.cost, served))
        self.ids.append(None if row.context_id is None else msgspec.json.decode(row.context_id))
        self.kept += 1

    def _add_support(self, row: DecisionEvent, allowed: np.ndarray) -> None:
        # Other actions' probabilities are not stored: the support is known only if all or one were possible.
        if self.with_calls:
            self.sets = None
        elif self.history.all_possible(row):
            self.masks.append(allowed)
        elif row.play_probability >= 1:
            self.masks.append(np.arange(len(allowed)) == row.action)
        else:
            self.sets = None

    def end_chunk(self) -> None:
        if self.sets is not None and self.masks:
            self.sets.add(np.array(self.masks))
        self.masks = []

    def log(self) -> Log:
        columns = list(zip(*self.rows, strict=True))
        return Log.from_indices(
            self.contexts[: self.kept],
            np.array(columns[0], dtype=np.int32),
            np.array(columns[1], dtype=np.float64),
            self.history.names,
            propensities=None if self.with_calls else np.array(columns[2], dtype=np.float64),
            support=None if self.sets is None else self.sets.build(),
            context_ids=None if None in self.ids else identifiers(self.ids, self.kept),
            encoder=self.model.learner.encoder,
        )

    def extra_columns(self) -> ExtraColumns:
        """Return the extra columns; `allowed`, if any row has it, lists the eligible actions of a row as JSON.

        `cost`, if any row has it, is the known cost of the action; rewards are before cost. With shadow calls (variant `also`) the
        `play_probability` is an extra column too: they have none.
        """
        names = (
            "call_probability",
            "reason",
            "arm",
            "outcome",
            "time",
            "decision_id",
            "allowed",
            "cost",
            "served_id",
        )
        found = dict(zip(("play_probability", *names), list(zip(*self.rows, strict=True))[2:], strict=True))
        if not self.with_calls:
            del found["play_probability"], found["served_id"]
        for name in ("allowed", "cost"):
            if all(one is None for one in found[name]):
                del found[name]
        return found

    def notes(self) -> list[str]:
        notes = [
            "The rows are the decisions with a known reward. If rewards come only from reward calls, weight each row by "
            "1 / call_probability to estimate a mean over all decisions."
        ]
        if self.with_calls:
            notes = [
                "Rows of the variant `also` are shadow calls: nobody was served them, and they have no propensity. So the log has none. For "
                "estimates that weight by propensities export rows=served."
            ]
        notes += [f"Left out: {count} {why}." for why, count in self.left_out.items()]
        defaults = sum(row[6] == events.DEFAULT for row in self.rows)
        if defaults:
            notes.append(
                f"{defaults} rewards are the default reward, because none arrived in time (outcome `default`)."
            )
        if self.sets is None and not self.with_calls:
            notes.append(
                "The support is unknown: for some decisions, other actions had probabilities that are not stored. It is known "
                "with the option `explore`, or with a uniform holdout."
            )
        missing = sum(one is None for one in self.ids)
        if 0 < missing < self.kept:
            notes.append(f"Context ids are not exported: {missing} of {self.kept} decisions have none.")
        if self.model.learner.item_encoder is not None:
            notes.append("The item features are not exported: pass items= to read_log again.")
        return notes
