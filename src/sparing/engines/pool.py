"""Work on processes of this machine, which may be lost one by one."""

import multiprocessing
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from sparing.engines.engine import Engine, Item
from sparing.engines.threads import AHEAD, cores, in_order
from sparing.errors import EngineError

LOSSES = 3
"""Pools that may be lost on the same item before it counts as what kills them."""

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Each process is one worker: a matrix product in it does not start threads of its own."""


class Processes(Engine):
    """Processes of this machine. In a script, use it under `if __name__ == "__main__":`, which they import."""

    name = "processes"

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or cores()
        self._pool: ProcessPoolExecutor | None = None

    def __reduce__(self) -> Any:
        """Without the processes, which are of this one."""
        return Processes, (self._workers,)

    @property
    def workers(self) -> int:
        """As many as were asked for, or one a core."""
        return self._workers

    def results(self, work: Callable[[Item], Any], items: Sequence[Item]) -> Iterator[Any]:
        """In order. When a process dies, what was under way is done again by new ones."""
        done = losses = 0
        while done < len(items):
            before = done
            try:
                for result in self._run(work, items[done:]):
                    done += 1
                    yield result
            except BrokenProcessPool:
                self._pool = None
                losses = 1 if done > before else losses + 1
                if losses == LOSSES:
                    raise EngineError(
                        f"{LOSSES} times in a row a worker process died at part {done + 1} of {len(items)}; it was killed, "
                        "or ran out of memory. Use fewer workers, or the local engine"
                    ) from None

    def _run(self, work: Callable[[Item], Any], items: Sequence[Item]) -> Iterator[Any]:
        """On processes that stay for the next walk: they take a second to start."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.workers, multiprocessing.get_context("spawn"), initializer=_settle
            )
            weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
        kept = {name: os.environ.get(name) for name in ONE_THREAD}
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))  # a new process reads them when it starts
        try:
            yield from in_order(self._pool, work, items, AHEAD * self.workers)
        finally:
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _settle() -> None:
    """An interruption is the parent's to answer."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
