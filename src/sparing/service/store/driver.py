"""What both database drivers share: errors, and migrations (numbered scripts, each run once, in order, and never changed).

Statements use $1, $2, … for values, in the order of their first appearance. `rows`, `many`, `script` and `matching` run in the
transaction between `begin` (as the only writer) and `commit` or `rollback`; `read` gets committed rows.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeAlias

from sparing.errors import FileError

if TYPE_CHECKING:
    from sparing.service.store.postgres import Postgres
    from sparing.service.store.sqlite import Sqlite

Driver: TypeAlias = "Sqlite | Postgres"
SqlRow = tuple[Any, ...]

MIGRATIONS_TABLE = "create table if not exists schema_migrations(version integer primary key, sha256 blob not null, applied integer not null)"


class StoreError(Exception):
    """The database failed now (disk full, busy, connection lost). Nothing was written."""


class LostError(BaseException):
    """It is unknown whether a commit reached the disk; a restart reads the disk again."""


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Translate errors of the database for commands that only read it."""
    try:
        yield
    except LostError as error:
        raise FileError(
            f"the database of the store is damaged: {error}. Restore a backup; `sparing backup` makes them"
        ) from None
    except StoreError as error:
        raise FileError(f"the store cannot be used: {error}") from None


def scripts() -> dict[int, str]:
    folder = resources.files("sparing.service.store") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name)
    return {int(file.name[:4]): file.read_text(encoding="utf-8") for file in files}


async def migrate(driver: Driver) -> None:
    """Bring a store to the newest tables; refuse one of a newer version or with other scripts."""
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


def newest_version() -> int:
    return max(scripts())


def check_version(found: list[tuple[Any, ...]]) -> None:
    version, newest = found[0][0], newest_version()
    if version != newest:
        raise FileError(
            f"the store's tables have version {version}; must be {newest}. Run `sparing serve` once with this version of sparing, "
            "or install the version that serves the store"
        )


def _missing(applied: dict[int, bytes]) -> list[tuple[int, str, bytes]]:
    """Return number, text and SHA-256 of the scripts still to run."""
    known = {version: (text, hashlib.sha256(text.encode()).digest()) for version, text in scripts().items()}
    for version, digest in applied.items():
        if version not in known:
            raise FileError(
                f"the store's tables have version {version}; this sparing supports up to {max(known)}. Install a newer sparing"
            )
        if known[version][1] != digest:
            raise FileError(
                f"the store's tables of version {version} were created by another script; this is not a store of this sparing"
            )
    return [(version, *known[version]) for version in known if version not in applied]
