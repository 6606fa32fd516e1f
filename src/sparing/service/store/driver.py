"""What a database must do for the store: a writer that is alone while it writes, and readers of what is committed."""

import hashlib
import os
import time
from collections.abc import Sequence
from importlib import resources
from typing import Any, Protocol

from sparing.errors import FileError

SqlRow = tuple[Any, ...]

MIGRATIONS_TABLE = "create table if not exists schema_migrations(version integer primary key, sha256 blob not null, applied integer not null)"


class StoreError(Exception):
    """The database could not do it now: its disk is full, it is busy, or the connection was lost. Nothing was written."""


class LostError(BaseException):
    """Nobody can say whether what was written is on the disk: only a new start from it can."""


class Driver(Protocol):
    """Statements have $1, $2, … where values go, in the order of their first appearance."""

    kind: str

    async def connect(self, *, create: bool) -> None:
        """Open the database; make it if it is not there and may be made."""

    async def close(self) -> None:
        """Leave it."""

    async def begin(self) -> None:
        """Wait until nobody else writes; from now on nobody does."""

    async def commit(self) -> None:
        """Make all since `begin` durable. Raises StoreError if it was rolled back, LostError if nobody can say."""

    async def rollback(self) -> None:
        """Undo all since `begin`."""

    async def rows(self, statement: str, *values: Any) -> list[SqlRow]:
        """Run a statement as the writer."""

    async def many(self, statement: str, values: Sequence[SqlRow]) -> None:
        """Run a statement with each of these values, as the writer."""

    async def script(self, statements: str) -> None:
        """Run statements as the writer."""

    async def matching(
        self, statement: str, column: str, values: Sequence[Any], *others: Any
    ) -> list[SqlRow]:
        """As the writer, what a statement finds that ends in `where` and is continued by: this column has one of these values.

        `others` are the values of $1, $2, … in the statement itself.
        """

    async def read(self, statement: str, *values: Any) -> list[SqlRow]:
        """What is committed."""

    async def size(self) -> int:
        """Bytes that the database takes."""


def scripts() -> dict[int, str]:
    """The scripts by their numbers."""
    folder = resources.files("sparing.service.store") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name)
    return {int(file.name[:4]): file.read_text(encoding="utf-8") for file in files}


async def migrate(driver: Driver) -> None:
    """Bring a store to the newest tables; refuse one that is newer than this version, or that was made by other scripts."""
    await driver.begin()
    try:
        await driver.script(MIGRATIONS_TABLE)
        found = await driver.rows("select version, sha256 from schema_migrations order by version")
        applied = {int(version): bytes(digest) for version, digest in found}
        for version, text, digest in _missing(applied):
            await driver.script(text)
            row = (version, digest, time.time_ns() // 1000)
            await driver.many("insert into schema_migrations values ($1, $2, $3)", [row])
        if not await driver.rows("select one from store"):
            fresh = (os.urandom(16), os.urandom(32))
            await driver.many("insert into store values (1, $1, $2, 0, 0, null)", [fresh])
        await driver.commit()
    except BaseException:
        await driver.rollback()
        raise


def check_version(found: list[tuple[Any, ...]]) -> None:
    """Refuse to read tables that are newer or older than those of this version."""
    version, newest = found[0][0], max(scripts())
    if version != newest:
        raise FileError(
            f"the store has tables of version {version}, this sparing those of {newest}. Serve it with this sparing once, "
            "or install the one that serves it"
        )


def _missing(applied: dict[int, bytes]) -> list[tuple[int, str, bytes]]:
    """The scripts that were not run yet: number, text and SHA-256."""
    known = {version: (text, hashlib.sha256(text.encode()).digest()) for version, text in scripts().items()}
    for version, digest in applied.items():
        if version not in known:
            raise FileError(
                f"the store has tables of version {version}, this sparing knows up to {max(known)}. Install a newer sparing"
            )
        if known[version][1] != digest:
            raise FileError(
                f"the store's tables of version {version} were made by another script; it is not a store of this sparing"
            )
    return [(version, *known[version]) for version in known if version not in applied]
