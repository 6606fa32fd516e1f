"""Group commit: whatever has come while the disk was busy is written at once, and answered when it is on the disk."""

import asyncio
import itertools
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sparing.errors import SparingError
from sparing.service import events
from sparing.service.errors import ServiceError, unavailable
from sparing.service.events import Change, Decided, Event
from sparing.service.registry import Book
from sparing.service.store import Found, Rows, Store
from sparing.service.store.driver import LostError, StoreError
from sparing.service.transactions import Activate, Decide, Ledger, Reward, Sweep, Work

GROUP = 128
"""Requests in a group, at most: those who wait behind it should not wait long."""

REST = 1.0
"""Seconds without a try after the store failed."""

SWEPT = 1000
"""Decisions closed at once, at most."""

RECENT = 4096
"""Decisions kept at hand for their rewards, at most."""

DISK_LOST = 74
"""The exit code where the disk no longer says what is on it."""

Result = TypeVar("Result")
Pending = tuple[Work, "asyncio.Future[Any]", float]


def leave(error: BaseException) -> None:
    """End the process: what is on the disk is the truth, and only a new start reads it."""
    print(f"sparing: the store is lost, stopping: {error}", file=sys.stderr, flush=True)
    os._exit(DISK_LOST)


class Writer:
    """The one who writes, for this process."""

    def __init__(
        self,
        store: Store,
        book: Book,
        *,
        clock: Callable[[], int] = events.now,
        on_lost: Callable[[BaseException], None] = leave,
    ) -> None:
        self.store, self.book, self.clock, self._on_lost = store, book, clock, on_lost
        self._queue: deque[Pending] = deque()
        self._come = asyncio.Event()
        self._alone = asyncio.Lock()
        self._resting = 0.0
        self._spoilt: set[int] = set()
        self._recent: dict[bytes, Decided] = {}
        self._task: asyncio.Task[None] | None = None
        self.groups = self.decided = 0
        self.decided_seconds = 0.0
        self.latencies: deque[float] = deque(maxlen=2000)
        """Seconds from a decision's request to its commit, of the last ones."""

    def start(self) -> None:
        """Begin to take requests."""
        self._task = asyncio.create_task(self._run(), name="writer")

    async def stop(self) -> None:
        """Finish what has come, and take no more."""
        while self._queue:
            await asyncio.sleep(0.01)
        async with self._alone:
            if self._task is not None:
                self._task.cancel()

    @property
    def resting(self) -> bool:
        """Whether the store has just failed, and is not written to for a moment."""
        return time.monotonic() < self._resting

    async def submit(self, work: Work) -> Any:
        """The answer to a request, once what it changed is on the disk."""
        future = asyncio.get_running_loop().create_future()
        self._queue.append((work, future, time.monotonic()))
        self._come.set()
        return await future

    async def submit_all(self, works: Sequence[Work]) -> list[Any]:
        """The answers to requests, in their order; a problem in the place of an answer."""
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
            group = [self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))]
            async with self._alone:
                await self._serve(group)

    async def _serve(self, group: list[Pending]) -> None:
        """Perform a group, and answer it once it is on the disk."""
        answers: list[Any]

        async def perform(ledger: Ledger) -> list[Any]:
            await self._look(ledger, [work for work, _, _ in group])
            return [_tried(ledger, work) for work, _, _ in group]

        try:
            answers = await self._write(perform)
        except ServiceError as problem:
            answers = [problem] * len(group)
        except SparingError as problem:  # such as a state that is missing
            print(f"sparing: a group was not performed: {problem}", file=sys.stderr, flush=True)
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

    async def _look(self, ledger: Ledger, works: Sequence[Work]) -> None:
        """Find the stored decisions that a group speaks of."""
        ids: dict[bytes, list[tuple[str, str]]] = {}
        requests: dict[str, list[str]] = {}
        for work in works:
            if type(work) is Decide:
                if work.asked.request_id is not None:
                    requests.setdefault(work.experiment, []).append(work.asked.request_id)
            elif isinstance(work, Reward | Activate):
                identity = events.id_bytes(work.named)
                recent = self._recent.get(identity or b"")
                if recent is not None and recent.seq in self.book.numbered(recent.experiment).model.open:
                    ledger.know([Found(recent, None)])
                elif identity is not None:
                    ids.setdefault(identity, []).append((work.experiment, work.named))
                else:
                    requests.setdefault(work.experiment, []).append(work.named)
            elif isinstance(work, Sweep):
                due = self.book.get(work.experiment).model.due(ledger.ts)[:SWEPT]
                ledger.know(await self.store.find_seqs(due))
        if ids:
            found = await self.store.find(list(ids))
            ledger.know(found)
            for missing in ids.keys() - {one.decision.decision_id for one in found}:
                for name, named in ids[missing]:  # a request's id may look like a decision's
                    requests.setdefault(name, []).append(named)
        for name, some in requests.items():
            try:
                number = self.book.get(name).number
            except ServiceError:
                continue
            ledger.know(await self.store.find_requests(number, some))

    async def alone(self, operation: Callable[[Ledger], Awaitable[Result]]) -> Result:
        """Run an operation as a group of its own."""
        async with self._alone:
            return await self._write(operation)

    async def between(self, act: Callable[[], Result]) -> Result:
        """Run something between two groups, in a thread."""
        async with self._alone:
            return await asyncio.to_thread(act)

    async def catch_up(self) -> None:
        """Take in what other workers have committed."""
        async with self._alone:
            if not self._spoilt:
                await self._take_in(await self.store.last_seq())

    async def _take_in(self, upto: int) -> None:
        """Take in what others have committed up to an event; they may have changed what is stored of the decisions at hand."""
        if upto != self.book.seq:
            self._recent.clear()
        await self.book.catch_up(upto)

    async def _write(self, operation: Callable[[Ledger], Awaitable[Result]]) -> Result:
        """Lock, catch up, perform, write, commit; on failure nothing has happened."""
        if self.resting:
            raise unavailable("store", "the store cannot be written to at the moment; try again")
        rows: Rows | None = None
        ledger: Ledger | None = None
        try:
            rows = await self.store.begin()
            await self.book.reread(self._spoilt)
            self._spoilt = set()
            await self._take_in(rows.last_seq)
            ledger = Ledger(self.book, rows, self.clock())
            result = await operation(ledger)
            await self.store.write(rows)
            await self.store.commit()
        except LostError as error:
            self._on_lost(error)
            await self._undo(rows, ledger)
            raise unavailable("store", "the store is lost; the service stops") from error
        except BaseException as error:
            await self._undo(rows, ledger)
            if isinstance(error, StoreError):
                self._resting = time.monotonic() + REST
                raise unavailable("store", f"the store could not be written: {error}") from error
            if isinstance(error, SparingError) or not isinstance(error, Exception):
                raise
            print(f"sparing: a group was not written: {error!r}", file=sys.stderr, flush=True)
            raise unavailable("failed", "the request could not be performed; nothing was changed") from error
        self.book.seq = rows.last_seq
        self.groups += 1
        self._remember(rows.events)
        return result

    def _remember(self, written: Sequence[Event]) -> None:
        """Keep the newest decisions at hand: rewards come soon. Where anything else changed, read all anew."""
        for event in written:
            if type(event) is Decided:
                self._recent[event.decision_id] = event
            elif type(event) is Change:
                self._recent.clear()
        for old in list(itertools.islice(self._recent, max(0, len(self._recent) - RECENT))):
            del self._recent[old]

    async def _undo(self, rows: Rows | None, ledger: Ledger | None) -> None:
        """Forget what was not committed, if anything was begun."""
        if rows is None:
            return
        if ledger is not None:
            self._spoilt |= ledger.touched
        try:
            await self.store.rollback()
        except StoreError as error:
            print(f"sparing: the store could not undo: {error}", file=sys.stderr, flush=True)


def _tried(ledger: Ledger, work: Work) -> Any:
    """The answer, or the problem; one bad request never fails its group."""
    try:
        return ledger.perform(work)
    except SparingError as problem:
        return problem
