"""Storage of events and totals: SQLite in a folder, or PostgreSQL."""

from pathlib import Path

from sparing.service.store.store import Store, StoredDecision, WriteBatch

__all__ = ["Store", "StoredDecision", "WriteBatch", "open_store"]


def open_store(folder: Path, address: str | None = None, *, durability: str = "power") -> Store:
    """Return the store in a folder, or at an address such as postgresql://user@host/name; state files stay in the folder."""
    if address is None:
        from sparing.service.store.sqlite import Sqlite

        return Store(folder, Sqlite(folder / "store.sqlite", durability))
    from sparing.service.store.postgres import Postgres

    return Store(folder, Postgres(address, durability), address)
