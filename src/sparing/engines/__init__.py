"""Engines that scan a log: `local` threads, or a `dask` cluster."""

from typing import Any

from sparing.engines.base import Engine, Progress, ProgressCounter, TreeReduce
from sparing.errors import SettingError

__all__ = ["Engine", "Progress", "ProgressCounter", "TreeReduce", "dask", "engine_of", "local"]


def local(workers: int | None = None) -> Engine:
    """Scan logs with threads of this process.

    Parameters
    ----------
    workers : int, optional
        Number of threads, at least 1; by default one per core.

    Returns
    -------
    Engine

    Examples
    --------
    >>> import sparing
    >>> sparing.engines.local(2)
    local engine (2 workers)
    """
    from sparing import validation
    from sparing.engines.base import LocalEngine

    if workers is not None:
        validation.integer("workers", workers, least=1, hint=", or None for all cores")
    return LocalEngine(workers)


def dask(where: Any) -> Engine:
    """Scan logs on a Dask cluster.

    Parameters
    ----------
    where : str or distributed.Client
        The scheduler's address, such as tcp://host:8786, or a client.

    Returns
    -------
    Engine

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

    Returns
    -------
    Engine

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
