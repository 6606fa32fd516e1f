"""Engines that scan a log: `local` threads, or a `dask` cluster; and the tree along which partial results are merged.

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

from sparing import validation
from sparing.errors import SettingError

__all__ = ["Engine", "Progress", "ProgressCounter", "TreeReduce", "dask", "engine_of", "local"]

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
    alone : bool
        The caller's thread does all work, so that splitting it gains nothing.
    """

    name: str
    alone: bool = False

    @property
    @abstractmethod
    def workers(self) -> int: ...

    @property
    def threads(self) -> int | None:
        """Threads that computations in this process, outside the engine, may use; None means one per core."""
        return self.workers

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

    def fold(
        self,
        work: Callable[[T], S],
        items: Sequence[T],
        merge: Callable[[S, S], S],
        *,
        progress: Progress | None = None,
    ) -> S:
        """Return the merged results of all items; the order of merges depends on the number of items alone.

        Parameters
        ----------
        work, items
            As in `results`.
        merge : callable
            Merges two results; it must change neither.
        progress : callable, optional
            Called with the number of items done and the number of all items.
        """
        tree: TreeReduce[S] = TreeReduce(merge)
        for done, state in enumerate(self.results(work, items), start=1):
            if progress is not None:
                progress(done, len(items))
            tree.add(state)
        return tree.total()

    def __repr__(self) -> str:
        return f"{self.name} engine ({self.workers} worker{'s' if self.workers > 1 else ''})"


class LocalEngine(Engine):
    """Threads of this process; by default one per core."""

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        if workers is None:
            affinity = getattr(os, "sched_getaffinity", None)
            workers = len(affinity(0)) if affinity else os.cpu_count() or 1
        self._workers, self.alone = workers, workers == 1

    @property
    def workers(self) -> int:
        return self._workers

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


def local(workers: int | None = None) -> Engine:
    """Scan logs with threads of this process.

    Parameters
    ----------
    workers : int, optional
        Number of threads, at least 1; by default one per core.

    Examples
    --------
    >>> import sparing
    >>> sparing.engines.local(2)
    local engine (2 workers)
    """
    if workers is not None:
        validation.integer("workers", workers, least=1, hint=", or None for all cores")
    return LocalEngine(workers)


def dask(where: Any) -> Engine:
    """Scan logs on a Dask cluster.

    Parameters
    ----------
    where : str or distributed.Client
        The scheduler's address, such as tcp://host:8786, or a client.

    Raises
    ------
    EngineError
        If no scheduler answers at the address.
    MissingExtraError
        If `distributed` is not installed.
    """
    from sparing.engines.cluster import DaskEngine

    return DaskEngine(where)


def engine_of(wanted: Any, workers: int | None = None) -> Engine:
    """Return an engine.

    Parameters
    ----------
    wanted : Engine, str, distributed.Client or None
        An engine; "local" or None; the address of a Dask scheduler (dask://host:8786); or a Dask client.
    workers : int, optional
        Threads of the local engine; by default one per core.

    Raises
    ------
    SettingError
        If `wanted` is none of these.
    """
    if isinstance(wanted, Engine):
        return wanted
    if wanted in (None, "local"):
        return local(workers)
    if isinstance(wanted, str) and "://" in wanted:
        return dask(wanted)
    if hasattr(wanted, "submit") and hasattr(wanted, "scheduler_info"):
        return dask(wanted)
    if isinstance(wanted, str) and wanted == "processes":
        raise SettingError(
            "engine='processes' was removed in 0.2. Use 'local' (threads), or a Dask scheduler: dask://host:8786"
        )
    raise SettingError(
        f"engine={wanted!r}; must be 'local', the address of a Dask scheduler such as dask://host:8786, "
        "or an engine of sparing.engines"
    )
