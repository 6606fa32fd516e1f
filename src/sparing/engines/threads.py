"""Work on the threads of this process."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from sparing.engines.engine import Engine, Item

AHEAD = 2
"""Items under way or done for each worker, at most: what is done early waits, and takes memory."""


class Local(Engine):
    """Threads of this process; one of them is the caller's own."""

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or cores()

    @property
    def workers(self) -> int:
        """As many as were asked for, or one a core."""
        return self._workers

    @property
    def alone(self) -> bool:
        """With one worker."""
        return self._workers == 1

    def results(self, work: Callable[[Item], Any], items: Sequence[Item]) -> Iterator[Any]:
        """In order; nothing is started beyond a few items ahead."""
        if self.alone or len(items) < 2:
            yield from map(work, items)
            return
        pool = ThreadPoolExecutor(min(self.workers, len(items)), thread_name_prefix="sparing")
        try:
            yield from in_order(pool, work, items, AHEAD * self.workers)
        finally:  # an error, or a caller who has enough, does not wait for what has not begun
            pool.shutdown(wait=True, cancel_futures=True)


def in_order(pool: Executor, work: Callable[[Item], Any], items: Sequence[Item], ahead: int) -> Iterator[Any]:
    """Results of a pool in the order of the items, so many of which are under way at most."""
    waiting: deque[Future[Any]] = deque()
    try:
        for item in items:
            if len(waiting) == ahead:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, item))
        while waiting:
            yield waiting.popleft().result()
    finally:  # an error, or a caller who has enough
        for future in waiting:
            future.cancel()


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
