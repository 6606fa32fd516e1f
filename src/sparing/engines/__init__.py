"""Where a log is walked: `local` threads, `processes` of this machine, or a `dask` cluster."""

from typing import Any

from sparing.engines.engine import Engine, Progress, Tree
from sparing.errors import SettingError

__all__ = ["Engine", "Progress", "Tree", "dask", "engine_of", "local", "processes"]


def local(workers: int | None = None) -> Engine:
    """Threads of this process, by default one a core."""
    from sparing.engines.threads import Local

    return Local(_count(workers))


def processes(workers: int | None = None) -> Engine:
    """Processes of this machine, by default one a core; a process that dies costs only its work."""
    from sparing.engines.pool import Processes

    return Processes(_count(workers))


def dask(where: Any) -> Engine:
    """A Dask cluster, by its scheduler's address (tcp://host:8786) or a `distributed.Client`."""
    from sparing.engines.cluster import Dask

    return Dask(where)


def engine_of(wanted: Any, workers: int | None = None) -> Engine:
    """The engine that is meant: one as it is, a client, or a name: local, processes, dask://host:8786."""
    if isinstance(wanted, Engine):
        return wanted
    if wanted in (None, "local"):
        return local(workers)
    if wanted == "processes":
        return processes(workers)
    if isinstance(wanted, str) and "://" in wanted:
        return dask(wanted)
    if hasattr(wanted, "submit") and hasattr(wanted, "scheduler_info"):
        return dask(wanted)
    raise SettingError(
        f"engine={wanted!r}; must be 'local', 'processes', the address of a Dask scheduler such as "
        "dask://host:8786, or what sparing.engines gives"
    )


def _count(workers: int | None) -> int | None:
    from sparing import validation

    if workers is not None:
        validation.integer("workers", workers, least=1, hint=", or None for all cores")
    return workers
