"""The tables of a store: numbered scripts, run once each, in order, and never changed afterwards."""

import hashlib
import os
import time
from importlib import resources
from typing import Any

from sparing.errors import FileError
from sparing.service.store.driver import Driver

LEDGER = "create table if not exists schema_migrations(version integer primary key, sha256 blob not null, applied integer not null)"


def scripts() -> dict[int, str]:
    """The scripts by their numbers."""
    folder = resources.files("sparing.service.store") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name)
    return {int(file.name[:4]): file.read_text(encoding="utf-8") for file in files}


async def migrate(driver: Driver) -> None:
    """Bring a store to the newest tables; refuse one that is newer than this version, or that was made by other scripts."""
    await driver.begin()
    try:
        await driver.script(LEDGER)
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
