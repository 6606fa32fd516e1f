"""The store: every SQL statement once, for both databases."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from sparing import archive
from sparing.service import events
from sparing.service.events import ChangeEvent, DecisionEvent, Event, OutcomeEvent
from sparing.service.store.driver import Driver, SqlRow, check_version, migrate, newest_version
from sparing.service.subject_sums import COLUMNS, SUMS, Count, SubjectKey, SubjectSums, SumsByHour, settle

CHUNK = 2000  # events read at once
AT_ONCE = 200  # decisions found by their numbers at once
DECISION = ", ".join(f"d.{name}" for name in DecisionEvent.__struct_fields__)
FOUND = f"select {DECISION}, o.seq, o.kind, o.value, o.played from decisions d left join outcomes o on o.decision_seq = d.seq and o.closes = 1 where"
OUTCOMES = (
    "select o.seq, o.experiment, o.ts, o.decision_seq, o.kind, o.value, o.played, "
    "case when o.kind = 'learnt' then coalesce(o.played, d.action) end, d.context from outcomes o "
    "left join decisions d on d.seq = o.decision_seq and o.kind = 'learnt' where o.experiment = $1 and o.seq > $2 and o.seq <= $3 order by o.seq limit $4"
)
PARTS = "select seq, experiment, ts, decision_seq, kind, value, played, null, null, reward_id from outcomes where reward_id is not null and"
CHANGES = "select seq, experiment, ts, kind, body, who from changes"
PUT_DECISIONS = f"insert into decisions values ({', '.join(f'${i + 1}' for i in range(len(DecisionEvent.__struct_fields__)))})"
SUBJECT_SUMS = f"select subject, since, last, {', '.join(SUMS)} from subject_sums where experiment = $1 and"
PUT_SUBJECT_SUMS = (
    f"insert into subject_sums(experiment, subject, since, last, {', '.join(SUMS)}) "
    f"values ({', '.join(f'${i + 1}' for i in range(4 + len(SUMS)))}) on conflict (experiment, subject) do update set "
    f"{', '.join(f'{name} = excluded.{name}' for name in ('since', 'last', *SUMS))}"
)
ADD_COMPARED = (
    f"insert into comparison(experiment, since, arm, hour, {', '.join(COLUMNS)}) "
    f"values ({', '.join(f'${i + 1}' for i in range(4 + len(COLUMNS)))}) on conflict (experiment, since, hour, arm) do update set "
    f"{', '.join(f'{name} = comparison.{name} + excluded.{name}' for name in COLUMNS)}"
)

TotalKey = tuple[int, int, str, str, int]  # experiment, hour, reason, arm, asked


class StoredDecision(NamedTuple):
    """A stored decision, and the outcome that closed it."""

    decision: DecisionEvent
    closed: OutcomeEvent | None


class HourlyTotal(NamedTuple):
    """Decisions and rewards, less known costs, of an hour, a reason and a variant."""

    hour: int
    reason: str
    arm: str
    asked: bool
    decisions: int
    rewarded: int
    reward_sum: float
    reward_squares: float
    expired: int = 0


class StoredSnapshot(NamedTuple):
    """A state file; the experiment has no event after `seq` up to `through`."""

    seq: int
    ts: int
    engine: str
    digest: bytes
    sha256: bytes
    path: str
    through: int = 0

    @property
    def reaches(self) -> int:
        return max(self.seq, self.through)


class StoredKey(NamedTuple):
    """An API key without its secret."""

    sha256: bytes
    name: str
    role: str
    experiment: str | None
    created: int
    expires: int | None
    revoked: int | None


@dataclass
class WriteBatch:
    """Events and totals of one transaction."""

    last_seq: int
    last_ts: int
    events: list[Event] = field(default_factory=list)
    totals: dict[TotalKey, list[float]] = field(default_factory=dict)
    compared: list[Count] = field(default_factory=list)

    def count(
        self,
        decision: DecisionEvent,
        *,
        decided: int = 0,
        rewarded: int = 0,
        value: float = 0.0,
        expired: int = 0,
    ) -> None:
        key = (
            decision.experiment,
            decision.ts // events.HOUR,
            decision.reason,
            decision.arm,
            int(decision.needs_reward),
        )
        if rewarded and decision.cost is not None:
            value -= decision.cost
        total = self.totals.setdefault(key, [0, 0, 0.0, 0.0, 0])
        total[0] += decided
        total[1] += rewarded
        total[2] += value
        total[3] += value * value
        total[4] += expired


class Store:
    """A database and a folder of state files; there is one writer between `begin` and `commit` or `rollback`."""

    def __init__(self, folder: Path, driver: Driver, address: str | None = None) -> None:
        self.folder, self.driver, self.address = folder, driver, address
        self._turn = asyncio.Lock()

    async def open(self, *, create: bool = False) -> None:
        if create:
            archive.folder(self.folder, private=True)
        await self.driver.connect(create=create)
        try:
            await migrate(self.driver)
            ((self.store_id, self.salt),) = await self.driver.rows("select store_id, salt from store")
        except BaseException:
            await self.driver.close()
            raise

    @contextlib.asynccontextmanager
    async def reading(self, *, migrating: bool = False) -> AsyncIterator[Self]:
        """Connect read-only, while another process may write; `migrating`: bring an old store to the newest tables first."""
        await self._connect_to_read(migrating=migrating)
        try:
            yield self
        finally:
            await self.close()

    async def _connect_to_read(self, *, migrating: bool) -> None:
        await self.driver.connect(create=False, read_only=True)
        try:
            found = await self.driver.read("select max(version) from schema_migrations")
            if migrating and found[0][0] < newest_version():
                await self.driver.close()
                await self.open()
                await self.driver.close()
                await self.driver.connect(create=False, read_only=True)
            else:
                check_version(found)
            ((self.store_id, self.salt),) = await self.driver.read("select store_id, salt from store")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self.driver.close()

    # Writing.

    async def begin(self) -> WriteBatch:
        """Become the only writer of all processes. If it fails, no transaction is open."""
        await self._turn.acquire()
        try:
            await self.driver.begin()
            ((seq, ts),) = await self.driver.rows("select last_seq, last_ts from store")
        except BaseException:
            await self.rollback()
            raise
        return WriteBatch(seq, ts)

    async def write(self, rows: WriteBatch) -> None:
        decided = [msgspec.structs.astuple(one) for one in rows.events if type(one) is DecisionEvent]
        if decided:
            await self.driver.many(PUT_DECISIONS, decided)
        closed = [
            (*msgspec.structs.astuple(one)[:7], int(one.kind in events.CLOSING), one.reward_id)
            for one in rows.events
            if type(one) is OutcomeEvent
        ]
        if closed:
            await self.driver.many("insert into outcomes values ($1, $2, $3, $4, $5, $6, $7, $8, $9)", closed)
        changed = [msgspec.structs.astuple(one) for one in rows.events if type(one) is ChangeEvent]
        if changed:
            await self.driver.many("insert into changes values ($1, $2, $3, $4, $5, $6)", changed)
        if rows.totals:
            await self.driver.many(
                "insert into totals values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (experiment, hour, reason, arm, asked) "
                "do update set decisions = totals.decisions + excluded.decisions, rewarded = totals.rewarded + excluded.rewarded, "
                "reward_sum = totals.reward_sum + excluded.reward_sum, reward_squares = totals.reward_squares + excluded.reward_squares, "
                "expired = totals.expired + excluded.expired",
                [(*key, *total) for key, total in rows.totals.items()],
            )
        if rows.compared:
            await self.add_compared(rows.compared, rows.last_ts // events.HOUR)
        if rows.events:
            await self.driver.many(
                "update store set last_seq = $1, last_ts = $2", [(rows.last_seq, rows.last_ts)]
            )

    async def add_compared(self, counts: Sequence[Count], hour: int) -> None:
        """Add counts to the sums from which policy and holdout are compared, in the transaction."""
        subjects: dict[int, set[bytes]] = {}
        for one in counts:
            if one.subject is not None:
                subjects.setdefault(one.experiment, set()).add(one.subject)
        known: dict[SubjectKey, SubjectSums] = {}
        for number, some in subjects.items():
            found = await self.driver.matching(SUBJECT_SUMS, "subject", sorted(some), number)
            known |= {(number, bytes(one)): (since, last, sums) for one, since, last, *sums in found}
        added, changed = settle(counts, known)
        if changed:
            rows = [(*key, since, last, *sums) for key, (since, last, sums) in changed.items()]
            await self.driver.many(PUT_SUBJECT_SUMS, rows)
        await self.driver.many(ADD_COMPARED, [(*arm, hour, *sums) for arm, sums in added.items()])

    async def commit(self) -> None:
        await self.driver.commit()
        self._turn.release()

    async def rollback(self) -> None:
        try:
            await self.driver.rollback()
        finally:
            self._turn.release()

    async def find(self, column: str, values: Sequence[Any]) -> list[StoredDecision]:
        """Return the decisions with one of these values in a column, in the transaction."""
        return list(map(_found, await self.driver.matching(FOUND, f"d.{column}", values)))

    async def find_requests(self, experiment: int, requests: Sequence[str]) -> list[StoredDecision]:
        start = f"{FOUND} d.experiment = $1 and"
        return list(map(_found, await self.driver.matching(start, "d.request_id", requests, experiment)))

    async def find_parts(self, decisions: Sequence[int]) -> list[OutcomeEvent]:
        """Return the partial rewards with an id of these decisions, in the transaction."""
        found = await self.driver.matching(PARTS, "decision_seq", decisions)
        return [OutcomeEvent(*row) for row in found]

    async def add_experiment(self, name: str, config: str) -> int:
        """Add an experiment in the transaction; return its number."""
        ((number,),) = await self.driver.rows("select coalesce(max(experiment), 0) + 1 from experiments")
        await self.driver.many(
            "insert into experiments(experiment, name, config, summed) values ($1, $2, $3, 1)",
            [(number, name, config)],
        )
        return int(number)

    async def configure(self, experiment: int, config: str) -> None:
        await self.driver.many(
            "update experiments set config = $1 where experiment = $2", [(config, experiment)]
        )

    async def raise_floor(self, experiment: int, floor: int, erased: int) -> None:
        """Note in the transaction that contexts from the decision `erased` on are erased; replays begin at the state of event `floor`."""
        known = await self.erased_from(experiment)
        first = erased if known is None else min(known, erased)
        await self.driver.many(
            "update experiments set floor = $1, erased_from = $2 where experiment = $3",
            [(floor, first, experiment)],
        )

    async def exclusive(self, *statements: tuple[str, Sequence[SqlRow]]) -> None:
        """Run statements, each with its values, in a transaction of their own."""
        await self.begin()
        try:
            for statement, values in statements:
                await self.driver.many(statement, values)
            await self.commit()
        except BaseException:
            await self.rollback()
            raise

    # Reading committed rows.

    async def last_seq(self) -> int:
        ((seq,),) = await self.driver.read("select last_seq from store")
        return int(seq)

    async def seq_before(self, ts: int, after: int = 0) -> int:
        """Return the last event before a time, or `after` if that is later. Times never go backwards, so it is found by bisection."""
        low, high = (
            after,
            await self.last_seq(),
        )  # of the events up to `low` it is known, of those after `high` too
        while low < high:
            middle = (low + high + 1) // 2
            found = await self.driver.read(
                "select seq, ts from decisions where seq <= $1 and seq > $2 order by seq desc limit 1",
                middle,
                low,
            )
            if found and found[0][1] >= ts:
                high = found[0][0] - 1
            else:
                low = middle
        return low

    async def experiments(self) -> list[tuple[int, str, dict[str, Any], int]]:
        """Return number, name, config and floor of each experiment."""
        found = await self.driver.read(
            "select experiment, name, config, floor from experiments order by experiment"
        )
        return [(number, name, msgspec.json.decode(config), floor) for number, name, config, floor in found]

    async def erased_to(self, experiment: int) -> int:
        """Return the event up to which no context is left."""
        ((known,),) = await self.driver.read(
            "select erased_to from experiments where experiment = $1", experiment
        )
        return int(known)

    async def note_erased_to(self, experiment: int, seq: int) -> None:
        """Note that no context is left up to an event."""
        await self.exclusive(
            (
                "update experiments set erased_to = $1 where experiment = $2 and erased_to < $3",
                [(seq, experiment, seq)],
            )
        )

    async def erased_from(self, experiment: int) -> int | None:
        """Return the first decision, in the transaction, whose context is erased."""
        ((known,),) = await self.driver.rows(
            "select erased_from from experiments where experiment = $1", experiment
        )
        return None if known is None else int(known)

    async def events(self, experiment: int, after: int, upto: int) -> AsyncIterator[list[Event]]:
        """Yield events with after < seq ≤ upto in order, in chunks."""
        while after < upto:
            values = (experiment, after, upto, CHUNK)
            where = "where experiment = $1 and seq > $2 and seq <= $3 order by seq limit $4"
            decided = await self.driver.read(f"select {DECISION} from decisions d {where}", *values)
            closed = await self.driver.read(OUTCOMES, *values)
            changed = await self.driver.read(f"{CHANGES} {where}", *values)
            full = [rows[-1][0] for rows in (decided, closed, changed) if len(rows) == CHUNK]
            end = min(full, default=upto)
            found: list[Event] = [*map(_decided, decided)]
            found += [OutcomeEvent(*row) for row in closed]
            found += [ChangeEvent(*row) for row in changed]
            found = sorted((one for one in found if one.seq <= end), key=lambda one: one.seq)
            after = end
            yield found
            await asyncio.sleep(0)

    async def record(
        self, experiment: int, where: str, *values: Any, limit: int = 1000, newest: bool = False
    ) -> list[StoredDecision]:
        """Return decisions of an experiment with their closing outcome, in order or the newest first."""
        order = f"order by d.seq {'desc ' if newest else ''}limit {limit:d}"
        found = await self.driver.read(f"{FOUND} d.experiment = $1 and {where} {order}", experiment, *values)
        return list(map(_found, found))

    async def records(self, seqs: Sequence[int]) -> list[StoredDecision]:
        """Return the decisions of these numbers with their closing outcome, in order."""
        found: list[StoredDecision] = []
        for start in range(0, len(seqs), AT_ONCE):
            some = seqs[start : start + AT_ONCE]
            marks = ", ".join(f"${i + 1}" for i in range(len(some)))
            found += map(_found, await self.driver.read(f"{FOUND} d.seq in ({marks}) order by d.seq", *some))
        return found

    async def totals(self, experiment: int) -> list[HourlyTotal]:
        found = await self.driver.read(
            f"select {', '.join(HourlyTotal._fields)} from totals where experiment = $1 order by hour, reason, arm",
            experiment,
        )
        return [HourlyTotal(*row) for row in found]

    async def compared(self, experiment: int, since: int) -> SumsByHour:
        """Return the sums of policy and holdout over decisions after the event `since`."""
        found = await self.driver.read(
            f"select hour, arm, {', '.join(COLUMNS)} from comparison where experiment = $1 and since = $2 order by hour",
            *(experiment, since),
        )
        return SumsByHour.of([(hour, arm, sums) for hour, arm, *sums in found])

    async def changes(self, experiment: int, *kinds: str) -> list[ChangeEvent]:
        """Return the changes of these kinds in order."""
        listed = ", ".join(f"${i + 2}" for i in range(len(kinds)))
        where = f"experiment = $1 and kind in ({listed}) order by seq"
        found = await self.driver.read(f"{CHANGES} where {where}", experiment, *kinds)
        return [ChangeEvent(*row) for row in found]

    async def corrections(self, experiment: int, upto: int) -> dict[int, float]:
        """Return the right rewards of decisions corrected up to an event, by the number of the decision."""
        found = await self.driver.read(
            "select decision_seq, value from outcomes where experiment = $1 and seq <= $2 and kind = $3 order by seq",
            experiment,
            upto,
            events.CORRECTED,
        )
        return dict(found)  # the newest counts

    async def snapshots(self, experiment: int, *, within: bool = False) -> list[StoredSnapshot]:
        """Return the snapshots, newest first; `within` the transaction, or those committed."""
        query = self.driver.rows if within else self.driver.read
        columns = ", ".join(StoredSnapshot._fields)
        statement = f"select {columns} from snapshots where experiment = $1 order by seq desc"
        return [StoredSnapshot(*row) for row in await query(statement, experiment)]

    async def keys(self) -> list[StoredKey]:
        found = await self.driver.read(
            "select key_sha256, name, role, experiment, created, expires, revoked from api_keys order by created"
        )
        return [StoredKey(*row) for row in found]

    async def workers(self, experiment: int, since: int) -> list[tuple[str, int, bytes]]:
        """Return name, last event and digest of workers that reported since a time."""
        found = await self.driver.read(
            "select worker, seq, digest from workers where experiment = $1 and ts >= $2 order by worker",
            experiment,
            since,
        )
        return [(name, seq, bytes(digest)) for name, seq, digest in found]


def _decided(row: SqlRow) -> DecisionEvent:
    found = DecisionEvent(*row)
    found.needs_reward, found.active = bool(found.needs_reward), bool(found.active)
    return found


def _found(row: SqlRow) -> StoredDecision:
    decision = _decided(row[:-4])
    seq, kind, value, played = row[-4:]
    if seq is None:
        return StoredDecision(decision, None)
    return StoredDecision(
        decision, OutcomeEvent(seq, decision.experiment, 0, decision.seq, kind, value, played)
    )
