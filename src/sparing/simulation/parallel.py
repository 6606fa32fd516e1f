"""Independent runs in processes or threads."""

import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

from sparing.engines import Progress
from sparing.errors import SettingError, SparingError
from sparing.validation import integer

Item = TypeVar("Item")
R = TypeVar("R")


def run_many(
    run: Callable[[Item], R],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    each: Callable[[int, R], None] | None = None,
) -> list[R]:
    """Call `run` on each item (a seed, a setting) in separate processes.

    Parameters
    ----------
    run : callable
        Defined at the top of a module, because each process imports it. Scripts need `if __name__ == "__main__":`.
    items : iterable
    workers : int, optional
        Number of processes; by default one per core. 1 runs in this process.
    progress : callable, optional
        Called with the items done and the items in all.
    each : callable, optional
        Called in this process with the index and the result of every item as it arrives.

    Returns
    -------
    list
        The results in the order of the items. An interruption or an error ends all processes.
    """
    listed = list(items)
    count = _count(listed, workers)
    arriving = _here(run, listed) if count <= 1 else _in_processes(run, listed, count)
    return _gathered(arriving, len(listed), progress, each)


def run_in_threads(
    run: Callable[[Item, Progress | None], R],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[R]:
    """Call `run` on each item in threads, for runs that are mostly compiled; return results in order.

    `run` also gets a function to call now and then, as `play` does; it raises after an interruption or an error elsewhere.
    """
    listed = list(items)
    count = _count(listed, workers)
    arriving = _here(lambda item: run(item, None), listed) if count <= 1 else _in_threads(run, listed, count)
    return _gathered(arriving, len(listed), progress)


def _count(items: list[Any], workers: int | None) -> int:
    if workers is None:
        workers = os.cpu_count() or 1
    return min(len(items), integer("workers", workers, least=1, hint=", or None for one per core"))


def _gathered(
    arriving: Generator[tuple[int, Any]],
    total: int,
    progress: Progress | None,
    each: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    results: list[Any] = [None] * total
    with contextlib.closing(arriving):
        for done, (place, result) in enumerate(arriving, start=1):
            results[place] = result
            if each is not None:
                each(place, result)
            if progress is not None:
                progress(done, total)
    return results


def _limited(threads: int) -> contextlib.AbstractContextManager[Any]:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    limits: contextlib.AbstractContextManager[Any] = threadpool_limits(threads)
    return limits


def _here(run: Callable[[Any], Any], items: list[Any]) -> Generator[tuple[int, Any]]:
    for place, item in enumerate(items):
        with _limited(1):
            result = run(item)
        yield place, result


def _in_threads(
    run: Callable[[Any, Progress | None], Any], items: list[Any], workers: int
) -> Generator[tuple[int, Any]]:
    ended = threading.Event()

    def go_on(*_: int) -> None:
        if ended.is_set():
            raise SparingError("another run was interrupted or failed")

    with _limited(1), ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(run, item, go_on): place for place, item in enumerate(items)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            ended.set()
            pool.shutdown(cancel_futures=True)
            raise


def _in_processes(run: Callable[[Any], Any], items: list[Any], workers: int) -> Generator[tuple[int, Any]]:
    try:
        pickle.dumps(run)
    except (pickle.PicklingError, AttributeError, TypeError):
        raise SettingError(
            f"{run!r} cannot be sent to another process; define it at the top of a module, or pass workers=1"
        ) from None
    others = set(active_children())
    deaf: Any = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), **deaf) as pool:
        try:
            with _interruptions_wait(), _one_thread_each():
                futures = {pool.submit(run, item): place for place, item in enumerate(items)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException as error:
            for process in set(active_children()) - others:
                process.terminate()
            pool.shutdown(cancel_futures=True)  # waits: a pool left running breaks interpreter exit
            if isinstance(error, BrokenProcessPool):
                raise SparingError(
                    "a process ended without an answer: for want of memory (try fewer workers), or because the "
                    'script that called this has no if __name__ == "__main__": around it, which it needs because '
                    "each process imports it"
                ) from None
            raise


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Run linear algebra of processes started inside in one thread each.

    More would compete for the cores, and the last digits would depend on the number of processes.
    """
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ[name] for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def _interruptions_wait() -> Iterator[None]:
    """Block SIGINT while processes start, until each ignores it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
