"""The engine of a Dask cluster, given by its address or by a client."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparing.engines import Engine, Progress, S, T
from sparing.errors import EngineError, require

TIMEOUT = "10s"


class DaskEngine(Engine):
    """A Dask cluster. States are merged there, and only the last one is sent back."""

    name = "dask"

    def __init__(self, where: Any) -> None:
        self.client = _client(where)

    @property
    def workers(self) -> int:
        """Threads of all workers that are connected now."""
        return sum(self.client.nthreads().values()) or 1

    @property
    def threads(self) -> int | None:
        return None  # the cluster's threads are not this process's

    def results(self, work: Callable[[T], Any], items: Sequence[T]) -> Iterator[Any]:
        futures = self._submit(work, items)
        try:
            for future in futures:
                yield self._result(future)
        finally:
            self.client.cancel(futures)

    def fold(
        self,
        work: Callable[[T], S],
        items: Sequence[T],
        merge: Callable[[S, S], S],
        *,
        progress: Progress | None = None,
    ) -> S:
        """Merge along the tree of `TreeReduce`, as tasks of the cluster."""
        leaves = level = self._submit(work, items)
        tasks = list(leaves)
        while len(level) > 1:
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [
                self.client.submit(merge, *pair, pure=False) if len(pair) == 2 else pair[0] for pair in pairs
            ]
            tasks += level
        try:
            self._watch(leaves, progress)
            return self._result(level[0], leaves)
        finally:
            self.client.cancel(tasks)

    def _submit(self, work: Callable[[T], Any], items: Sequence[T]) -> list[Any]:
        # Sent once, as a task: the result of a task is recomputed if its worker is lost; scattered data is not.
        sent = self.client.submit(_identity, work, pure=False)
        return [
            self.client.submit(_apply, sent, item, pure=False, priority=-place)
            for place, item in enumerate(items)
        ]

    def _watch(self, leaves: list[Any], progress: Progress | None) -> None:
        """Report the number of items done, until all are done or one has failed."""
        import distributed

        if progress is None:
            return
        as_completed: Any = distributed.as_completed
        for done, future in enumerate(as_completed(leaves), start=1):
            if future.status == "error":
                return
            progress(done, len(leaves))

    def _result(self, future: Any, leaves: Sequence[Any] = ()) -> Any:
        """The result of a task; if several items failed, the error of the first is raised."""
        from distributed.scheduler import KilledWorker

        try:
            return future.result()
        except KilledWorker as error:
            raise EngineError(
                f"the cluster lost several workers on one part of the log: {str(error)[:200]}. Give its workers more memory"
            ) from None
        except Exception:
            for leaf in leaves:
                leaf.result()
            raise


def _identity(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return work


def _apply(work: Callable[[Any], Any], item: Any) -> Any:
    return work(item)


def _client(where: Any) -> Any:
    client: Any = require("distributed", extra="dask", purpose="the Dask engine").Client
    if isinstance(where, client):
        return where
    address = str(where).replace("dask://", "tcp://", 1)
    try:
        return client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise EngineError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}). Start one with `dask scheduler`, or pass a client"
        ) from None
