"""Where a log is scanned: `local` threads, or a `dask` cluster."""

from typing import Any

from sparing.engines.base import Engine, Progress, ProgressCounter, TreeReduce
from sparing.errors import SettingError

__all__ = ["Engine", "Progress", "ProgressCounter", "TreeReduce", "dask", "engine_of", "local"]


def local(workers: int | None = None) -> Engine:
    """Threads of this process, by default one per core."""
    from sparing import validation
    from sparing.engines.base import LocalEngine

    if workers is not None:
        validation.integer("workers", workers, least=1, hint=", or None for all cores")
    return LocalEngine(workers)


def dask(where: Any) -> Engine:
    """A Dask cluster, by its scheduler's address (tcp://host:8786) or a `distributed.Client`."""
    from sparing.engines.cluster import DaskEngine

    return DaskEngine(where)


def engine_of(wanted: Any, workers: int | None = None) -> Engine:
    """The engine meant by an engine, a Dask client, or a name: local, dask://host:8786."""
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
        "or what sparing.engines gives"
    )
