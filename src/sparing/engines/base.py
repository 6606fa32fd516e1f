"""The engine interface, the tree along which partial results are merged, and the engine of local threads.

The shape of the tree depends on the number of items alone, so that no engine, and no number of workers, changes the
order of additions: results are equal to the last bit.
"""

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")

# Called with the number of items done and the number of all items.
Progress = Callable[[int, int], None]

# Items per worker that are started or finished before their turn, at most: early results take memory.
QUEUED = 2


@dataclass
class ProgressCounter:
    """Counts steps, and calls `report` with the steps done and all steps."""

    report: Progress | None = None
    total: int = 1
    done: int = 0

    def step(self) -> None:
        self.done += 1
        if self.report is not None:
            self.report(min(self.done, self.total), self.total)

    def finish(self) -> None:
        """Report all steps as done, even if some were not needed."""
        if self.report is not None and self.done < self.total:
            self.report(self.total, self.total)
        self.done = self.total


class TreeReduce(Generic[S]):
    """Merges states that arrive in order, along a binary tree.

    Parameters
    ----------
    merge : callable
        Merges two adjacent states, the earlier one first.
    """

    def __init__(self, merge: Callable[[S, S], S]) -> None:
        self._merge = merge
        self._waiting: list[tuple[int, S]] = []

    def add(self, state: S) -> None:
        """Add the next state.

        Parameters
        ----------
        state : S
            The state that follows all added ones.
        """
        level = 0
        while self._waiting and self._waiting[-1][0] == level:
            state = self._merge(self._waiting.pop()[1], state)
            level += 1
        self._waiting.append((level, state))

    def total(self) -> S:
        (_, state), *others = reversed(self._waiting)
        for _, before in others:
            state = self._merge(before, state)
        return state


class Engine(ABC):
    """Runs work on items, in order-preserving parallel workers.

    Attributes
    ----------
    name : str
        "local" or "dask".
    workers : int
        Number of items that are processed at once.
    """

    name: str

    @property
    @abstractmethod
    def workers(self) -> int: ...

    @property
    def threads(self) -> int | None:
        """Threads that computations in this process, outside the engine, may use; None means one per core."""
        return self.workers

    @property
    def alone(self) -> bool:
        """Whether the caller's thread does all work, so that splitting it gains nothing."""
        return False

    @abstractmethod
    def results(self, work: Callable[[T], Any], items: Sequence[T]) -> Iterator[Any]:
        """Yield the results of the items, in their order; only a few are computed in advance.

        Parameters
        ----------
        work : callable
            Computes the result of one item.
        items : sequence
            Arguments of `work`.
        """

    def map(
        self, work: Callable[[T], Any], items: Sequence[T], *, progress: Progress | None = None
    ) -> list[Any]:
        """Return the results of all items, in their order.

        Parameters
        ----------
        work : callable
            Computes the result of one item.
        items : sequence
        progress : callable, optional
            Called with the number of items done and the number of all items.

        Returns
        -------
        list
        """
        return list(_reported(self.results(work, items), len(items), progress))

    def fold(
        self,
        work: Callable[[T], S],
        items: Sequence[T],
        merge: Callable[[S, S], S],
        *,
        progress: Progress | None = None,
    ) -> S:
        """Return the merged results of all items.

        Parameters
        ----------
        work : callable
            Computes the result of one item.
        items : sequence
        merge : callable
            Merges two results; it must change neither.
        progress : callable, optional
            Called with the number of items done and the number of all items.

        Returns
        -------
        object
            The order of merges depends on the number of items alone.
        """
        tree: TreeReduce[S] = TreeReduce(merge)
        for state in _reported(self.results(work, items), len(items), progress):
            tree.add(state)
        return tree.total()

    def __repr__(self) -> str:
        return f"{self.name} engine ({self.workers} worker{'s' if self.workers > 1 else ''})"


def _reported(results: Iterator[Any], total: int, progress: Progress | None) -> Iterator[Any]:
    for done, result in enumerate(results, start=1):
        if progress is not None:
            progress(done, total)
        yield result


class LocalEngine(Engine):
    """Threads of this process; by default one per core."""

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or cores()

    @property
    def workers(self) -> int:
        return self._workers

    @property
    def alone(self) -> bool:
        return self._workers == 1

    def results(self, work: Callable[[T], Any], items: Sequence[T]) -> Iterator[Any]:
        if self.alone or len(items) < 2:
            yield from map(work, items)
            return
        pool = ThreadPoolExecutor(min(self.workers, len(items)), thread_name_prefix="sparing")
        waiting: deque[Future[Any]] = deque()
        try:
            for item in items:
                if len(waiting) == QUEUED * self.workers:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(work, item))
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error, or if the caller stops early, pending items are cancelled
            pool.shutdown(wait=True, cancel_futures=True)


def cores() -> int:
    """Number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
