"""Work on a Dask cluster: an address, or a client that is there already."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sparing.engines.engine import Engine, Item, Progress, State
from sparing.errors import EngineError, require

PATIENCE = "10s"
"""How long a scheduler may take to answer."""


class Dask(Engine):
    """A Dask cluster. What is joined is joined there, and only the end comes back."""

    name = "dask"

    def __init__(self, where: Any) -> None:
        self.client = _client(where)

    @property
    def workers(self) -> int:
        """Threads of all workers that are there now."""
        return sum(self.client.nthreads().values()) or 1

    @property
    def threads(self) -> int | None:
        """The cluster's are elsewhere."""
        return None

    def results(self, work: Callable[[Item], Any], items: Sequence[Item]) -> Iterator[Any]:
        """In order."""
        futures = self._submit(work, items)
        try:
            for future in futures:
                yield self._result(future)
        finally:
            self.client.cancel(futures)

    def fold(
        self,
        work: Callable[[Item], State],
        items: Sequence[Item],
        merge: Callable[[State, State], State],
        *,
        progress: Progress | None = None,
    ) -> State:
        """The tree of the seam as tasks of the cluster."""
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

    def _submit(self, work: Callable[[Item], Any], items: Sequence[Item]) -> list[Any]:
        # Sent once, as a task: what a lost worker held of it is made again, which scattered data is not.
        kept = self.client.submit(_itself, work, pure=False)
        return [
            self.client.submit(_apply, kept, item, pure=False, priority=-place)
            for place, item in enumerate(items)
        ]

    def _watch(self, leaves: list[Any], progress: Progress | None) -> None:
        """Tell how many parts are done, until all are, or one has failed."""
        import distributed

        if progress is None:
            return
        as_completed: Any = distributed.as_completed
        for done, future in enumerate(as_completed(leaves), start=1):
            if future.status == "error":
                return
            progress(done, len(leaves))

    def _result(self, future: Any, leaves: Sequence[Any] = ()) -> Any:
        """What a task has made; of several that failed, the first in the log tells why."""
        from distributed.scheduler import KilledWorker

        try:
            return future.result()
        except KilledWorker as error:
            raise EngineError(
                f"the cluster lost worker after worker on one part of the log: {str(error)[:200]}. Give its workers more memory"
            ) from None
        except Exception:
            for leaf in leaves:
                leaf.result()
            raise


def _itself(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return work


def _apply(work: Callable[[Any], Any], item: Any) -> Any:
    return work(item)


def _client(where: Any) -> Any:
    client: Any = require("distributed", extra="dask", purpose="the Dask engine").Client
    if isinstance(where, client):
        return where
    address = str(where).replace("dask://", "tcp://", 1)
    try:
        return client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise EngineError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}). Start one with `dask scheduler`, or pass a client"
        ) from None
