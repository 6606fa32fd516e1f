"""Many runs over all cores."""

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

from sparing.errors import SettingError, SparingError
from sparing.settings import whole
from sparing.simulation.simulate import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_many(
    run: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    each: Callable[[int, Result], None] | None = None,
) -> list[Result]:
    """Call `run` on each item (a seed, a setting) in separate processes; results in the items' order.

    `run` must be a function defined at the top of a module, and a script that calls this must do so under
    `if __name__ == "__main__":`, because each process imports it anew. `workers=1` runs in this process.
    `each` is given the place and the result of every item as soon as it is there, in this process. An
    interruption or an error ends the other processes at once.
    """
    listed = list(items)
    count = _count(listed, workers)
    arriving = _here(run, listed) if count <= 1 else _in_processes(run, listed, count)
    return _gathered(arriving, len(listed), progress, each)


def run_in_threads(
    run: Callable[[Item, Progress | None], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Call `run` on each item in threads of this process, for runs that are mostly compiled; results in the items' order.

    `run` is also given what it should call now and then, as `play` does, and that ends it: after an interruption, or an error elsewhere.
    `workers=1` runs in this thread.
    """
    listed = list(items)
    count = _count(listed, workers)
    arriving = _here(lambda item: run(item, None), listed) if count <= 1 else _in_threads(run, listed, count)
    return _gathered(arriving, len(listed), progress)


def _count(items: list[Any], workers: int | None) -> int:
    if workers is None:
        workers = os.cpu_count() or 1
    return min(len(items), whole("workers", workers, least=1, hint=", or None for one a core"))


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
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_deaf) as pool:
        try:
            with _interruptions_wait(), _one_thread_each():
                futures = {pool.submit(run, item): place for place, item in enumerate(items)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException as error:
            for process in set(active_children()) - others:
                process.terminate()
            pool.shutdown(
                cancel_futures=True
            )  # to its end: the interpreter would trip over what is left of it
            if isinstance(error, BrokenProcessPool):
                raise SparingError(
                    "a process ended without an answer: for want of memory (try fewer workers), or because the "
                    'script that called this has no if __name__ == "__main__": around it, which it needs because '
                    "each process imports it"
                ) from None
            raise


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile do their linear algebra in one thread: more would stand in each other's way.

    It also makes the last digits the same for any number of processes.
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


def _deaf() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def _interruptions_wait() -> Iterator[None]:
    """Hold interruptions back while processes start, so that none of them is hit before it is deaf."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
