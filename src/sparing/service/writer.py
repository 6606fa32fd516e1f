"""Group commit: requests that arrive during a commit are written together in the next one, and answered once they are durable."""

import asyncio
import os
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sparing.errors import SparingError
from sparing.service import events
from sparing.service.errors import ServiceError, tell_operator, unavailable
from sparing.service.events import ChangeEvent, DecisionEvent, Event, OutcomeEvent
from sparing.service.registry import ExperimentRegistry
from sparing.service.store import Store, StoredDecision, WriteBatch
from sparing.service.store.driver import LostError, StoreError
from sparing.service.transactions import Activate, Decide, ExpirePending, Request, Reward, TransactionHandler

MAX_GROUP = 128  # requests per commit: bounds the wait of those behind it
IDLE_SECONDS = 1.0  # after the store failed
MAX_EXPIRED = 1000  # decisions closed in one transaction
MAX_RECENT = 4096  # decisions kept in memory for their rewards
MAX_RECENT_BYTES = 16 * 2**20  # of their contexts
EXIT_STORAGE_FAILED = 74
Result = TypeVar("Result")
QueuedRequest = tuple[Request, "asyncio.Future[Any]", float]


def exit_process(error: BaseException) -> None:
    """End the process; a restart reads the disk again."""
    tell_operator(f"the store failed, and the state of the last commit is unknown; stopping: {error!r}")
    os._exit(EXIT_STORAGE_FAILED)


class RecentDecisions:
    """The last decisions by their ids, at most `MAX_RECENT` with contexts of at most `MAX_RECENT_BYTES`; the oldest go first.

    None of them has an outcome that closes it: closed ones are removed.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, DecisionEvent] = {}
        self._ids: OrderedDict[int, bytes] = OrderedDict()  # by their events, the oldest first
        self.size = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, decision_id: bytes) -> DecisionEvent | None:
        return self._known.get(decision_id)

    def add(self, event: DecisionEvent) -> None:
        self._known[event.decision_id], self._ids[event.seq] = event, event.decision_id
        self.size += stored_bytes(event)
        while len(self._ids) > MAX_RECENT or self.size > MAX_RECENT_BYTES:
            self.remove(next(iter(self._ids)))

    def remove(self, seq: int) -> None:
        """Remove the decision with this event, if it is there."""
        decision_id = self._ids.pop(seq, None)
        if decision_id is not None:
            self.size -= stored_bytes(self._known.pop(decision_id))

    def clear(self) -> None:
        self._known.clear()
        self._ids.clear()
        self.size = 0


def stored_bytes(event: DecisionEvent) -> int:
    """Return the bytes of the parts of a decision that have no fixed size."""
    return len(event.context or b"") + len(event.costs or b"") + len(event.eligible or b"")


class Writer:
    """The writer of this process."""

    def __init__(
        self,
        store: Store,
        registry: ExperimentRegistry,
        *,
        clock: Callable[[], int] = events.now,
        on_lost: Callable[[BaseException], None] = exit_process,
    ) -> None:
        self.store, self.registry, self.clock, self.lost = store, registry, clock, on_lost
        self._queue: deque[QueuedRequest] = deque()
        self._come = asyncio.Event()
        self._exclusive = asyncio.Lock()
        self._idle_until = 0.0
        self._spoilt: set[int] = set()
        self._recent = RecentDecisions()
        self._task: asyncio.Task[None] | None = None
        self.groups = self.decided = 0
        self.ahead = 0  # microseconds by which the last event was later than the clock
        self.decided_seconds = 0.0
        self.latencies: deque[float] = deque(maxlen=2000)  # seconds from a decision's request to its commit

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="writer")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """End the process if the writer has failed: nobody would answer requests any more."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.lost(error)

    async def stop(self) -> None:
        while self._queue:
            await asyncio.sleep(0.01)
        async with self._exclusive:
            if self._task is not None:
                self._task.cancel()

    @property
    def idle(self) -> bool:
        """Whether the store has just failed and is not written to for a moment."""
        return time.monotonic() < self._idle_until

    async def submit(self, work: Request) -> Any:
        """Return the answer to a request once its changes are durable."""
        future = asyncio.get_running_loop().create_future()
        self._queue.append((work, future, time.monotonic()))
        self._come.set()
        try:
            return await future
        finally:
            del future  # its exception refers to this frame: without this, a refused request stays in memory until the next collection

    async def submit_all(self, works: Sequence[Request]) -> list[Any]:
        """Return the answers in order, with an error in the place of a failed one."""
        loop, began = asyncio.get_running_loop(), time.monotonic()
        futures = [loop.create_future() for _ in works]
        self._queue.extend((work, future, began) for work, future in zip(works, futures, strict=True))
        self._come.set()
        return list(await asyncio.gather(*futures, return_exceptions=True))

    async def _run(self) -> None:
        while True:
            if not self._queue:
                self._come.clear()
                await self._come.wait()
            group = [self._queue.popleft() for _ in range(min(MAX_GROUP, len(self._queue)))]
            async with self._exclusive:
                await self._serve(group)
            del group  # nothing of it stays while the next one is waited for

    async def _serve(self, group: list[QueuedRequest]) -> None:
        answers: list[Any]

        async def perform(transaction: TransactionHandler) -> list[Any]:
            await self._load_decisions(transaction, [work for work, _, _ in group])
            return [_result_or_error(transaction, work) for work, _, _ in group]

        try:
            answers = await self._write(perform)
        except ServiceError as problem:
            answers = [problem] * len(group)
        except SparingError as problem:  # such as a missing state file
            tell_operator(f"requests failed: {problem}")
            answers = [unavailable("failed", "the store cannot be read; nothing was changed")] * len(group)
        done = time.monotonic()
        for (work, future, began), given in zip(group, answers, strict=True):
            if type(work) is Decide:
                self.latencies.append(done - began)
                self.decided += 1
                self.decided_seconds += done - began
            if future.done():
                continue
            if isinstance(given, BaseException):
                future.set_exception(given)
            else:
                future.set_result(given)

    async def _load_decisions(self, transaction: TransactionHandler, works: Sequence[Request]) -> None:
        ids: dict[bytes, list[tuple[str, str]]] = {}
        requests: dict[str, list[str]] = {}
        for work in works:
            if type(work) is Decide:
                if work.asked.request_id is not None:
                    requests.setdefault(work.experiment, []).append(work.asked.request_id)
                    if events.may_be_decision(work.asked.request_id):
                        ids.setdefault(events.id_bytes(work.asked.request_id) or b"", [])
            elif isinstance(work, Reward | Activate):
                identity = events.id_bytes(work.named)
                recent = self._recent.get(identity or b"")
                if recent is not None:
                    transaction.load([StoredDecision(recent, None)])
                elif identity is not None:
                    ids.setdefault(identity, []).append((work.experiment, work.named))
                else:
                    requests.setdefault(work.experiment, []).append(work.named)
            elif isinstance(work, ExpirePending):
                due = self.registry.get(work.experiment).model.expired_pending(transaction.ts, MAX_EXPIRED)
                transaction.load(await self.store.find("seq", due))
        if ids:
            found = await self.store.find("decision_id", list(ids))
            transaction.load(found)
            for missing in ids.keys() - {one.decision.decision_id for one in found}:
                for name, named in ids[missing]:  # a request id may look like a decision id
                    requests.setdefault(name, []).append(named)
        for name, some in requests.items():
            try:
                number = self.registry.get(name).number
            except ServiceError:
                continue
            again = await self.store.find_requests(number, some)
            transaction.load(again)
            if again and any(type(work) is Decide for work in works):  # they may have shadow calls
                calls = [events.shadow_id(self.store.salt, one.decision.decision_id) for one in again]
                transaction.load(await self.store.find("decision_id", calls))
        if any(type(work) is Reward and work.reward_id is not None for work in works):
            transaction.load_parts(await self.store.find_parts(transaction.decisions_of(works)))

    async def exclusive(self, operation: Callable[[TransactionHandler], Awaitable[Result]]) -> Result:
        async with self._exclusive:
            return await self._write(operation)

    async def between(self, act: Callable[[], Result]) -> Result:
        """Run a function in a thread between two transactions."""
        async with self._exclusive:
            return await asyncio.to_thread(act)

    async def catch_up(self) -> None:
        async with self._exclusive:
            if not self._spoilt:
                await self._apply_committed(await self.store.last_seq())

    async def _apply_committed(self, upto: int) -> None:
        if upto != self.registry.seq:
            self._recent.clear()
        await self.registry.catch_up(upto)

    async def _write(self, operation: Callable[[TransactionHandler], Awaitable[Result]]) -> Result:
        """Lock, catch up, run, write, commit; after a failure nothing has changed."""
        if self.idle:
            raise unavailable("store", "the store cannot be written at the moment. Try again")
        rows: WriteBatch | None = None
        transaction: TransactionHandler | None = None
        try:
            rows = await self.store.begin()
            await self.registry.reread(self._spoilt)
            self._spoilt = set()
            await self._apply_committed(rows.last_seq)
            now = self.clock()
            self.ahead = max(rows.last_ts - now, 0)
            transaction = TransactionHandler(self.registry, rows, now)
            result = await operation(transaction)
            await self.store.write(rows)
            await self.store.commit()
        except LostError as error:
            self.lost(error)
            await self._undo(rows, transaction)
            raise unavailable("store", "the store failed; the service stops") from error
        except BaseException as error:
            await self._undo(rows, transaction)
            if isinstance(error, StoreError):
                self._idle_until = time.monotonic() + IDLE_SECONDS
                raise unavailable("store", f"the store could not be written: {error}. Try again") from error
            if isinstance(error, SparingError) or not isinstance(error, Exception):
                raise
            tell_operator(f"requests were not written: {error!r}")
            raise unavailable("failed", "the request failed; nothing was changed") from error
        self.registry.seq = rows.last_seq
        self.groups += 1
        self._remember(rows.events)
        return result

    def _remember(self, written: Sequence[Event]) -> None:
        """Keep recent decisions, whose rewards come soon; drop them all after a change of an experiment."""
        for event in written:
            if type(event) is DecisionEvent:
                self._recent.add(event)
            elif type(event) is ChangeEvent:
                self._recent.clear()
            elif type(event) is OutcomeEvent and event.kind in events.CLOSING:
                self._recent.remove(event.decision_seq)

    async def _undo(self, rows: WriteBatch | None, transaction: TransactionHandler | None) -> None:
        if rows is None:
            return
        if transaction is not None:
            self._spoilt |= transaction.touched
        try:
            await self.store.rollback()
        except StoreError as error:
            tell_operator(f"the rollback failed: {error}")


def _result_or_error(transaction: TransactionHandler, work: Request) -> Any:
    try:
        return transaction.run(work)
    except SparingError as problem:
        # Frames of the transaction refer to the answers, so with its traceback a refused request would stay in memory until a collection.
        problem.__context__ = None
        return problem.with_traceback(None)
