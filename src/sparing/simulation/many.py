"""Many runs over all cores."""

import os
import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, TypeVar

from sparing.errors import SettingError
from sparing.simulation.loop import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_many(
    run: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Call `run` on each item (a seed, a setting) in separate processes; results in the items' order.

    `run` must be a function defined at the top of a module, and a script that calls this must do so under
    `if __name__ == "__main__":`, because each process imports it anew. `workers=1` runs in this process.
    """
    if workers is not None and workers < 1:
        raise SettingError(f"workers={workers}; must be 1 or more, or None for one a core")
    listed = list(items)
    count = min(len(listed), workers or os.cpu_count() or 1)
    if count <= 1:
        results = []
        for done, item in enumerate(listed, start=1):
            results.append(run(item))
            if progress is not None:
                progress(done, len(listed))
        return results
    try:
        pickle.dumps(run)
    except (pickle.PicklingError, AttributeError, TypeError):
        raise SettingError(
            f"{run!r} cannot be sent to another process; define it at the top of a module, or pass workers=1"
        ) from None
    return _in_processes(run, listed, count, progress)


def _in_processes(
    run: Callable[[Any], Any], items: list[Any], workers: int, progress: Progress | None
) -> list[Any]:
    results: list[Any] = [None] * len(items)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(run, item): place for place, item in enumerate(items)}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                results[futures[future]] = future.result()
                if progress is not None:
                    progress(done, len(items))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results
