"""SQLite through apsw, which bundles its own version: one writer, concurrent readers, durable commits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw

from sparing.errors import FileError, SettingError
from sparing.service.store.driver import LostError, SqlRow, StoreError

OLDEST = 3_051_003  # older ones can damage a write-ahead log that two processes write
BUSY_MS, BRIEF_MS = 5000, 50
# Compiled statements that are kept. Each row of a group counts as a use, and the least recently used go.
STATEMENTS = 1024
# `power`: a commit survives the loss of power; `process`: the end of the process.
SYNCHRONOUS = {"power": "full", "process": "normal"}


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (apsw.FullError, apsw.BusyError, apsw.ReadOnlyError, apsw.LockedError, apsw.IOError) as error:
        raise StoreError(str(error)) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise LostError(str(error)) from error


class Sqlite:
    """One file with a write-ahead log. `thread` runs commits, which wait for the disk."""

    kind = "SQLite"

    def __init__(self, path: Path, durability: str = "power") -> None:
        if apsw.SQLITE_VERSION_NUMBER < OLDEST:
            raise SettingError(
                f"apsw has SQLite {apsw.sqlite_lib_version()}, which can damage its write-ahead log; must be 3.51.3 or newer. "
                "Run: pip install --upgrade apsw"
            )
        self.path, self._synchronous = path, SYNCHRONOUS[durability]

    async def connect(self, *, create: bool, read_only: bool = False) -> None:
        if not create and not self.path.exists():
            raise FileError(f"{self.path} does not exist. `sparing serve` creates a store")
        try:
            if create:
                self.path.touch(mode=0o600)  # the files beside it get the same mode from SQLite
            self._writer = (
                self._read_only()
                if read_only
                else apsw.Connection(str(self.path), statementcachesize=STATEMENTS)
            )
            self._reader = self._writer if read_only else apsw.Connection(str(self.path))
            if not read_only:
                self._prepare(self._writer)
                self._prepare(self._reader)
            self._reader.pragma("query_only", True)
            known = self._reader.execute("select 1 from sqlite_master where name = 'schema_migrations'")
            if not create and not known.fetchall():
                raise FileError(f"{self.path} is not a store of sparing: its tables are missing")
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise FileError(f"{self.path} is not a store of sparing, or is damaged: {error}") from None
        except apsw.ReadOnlyError:
            raise FileError(
                f"{self.path} cannot be written, and this needs to write. Run it where the store can be written"
            ) from None
        except (apsw.CantOpenError, OSError) as error:
            raise FileError(f"cannot open {self.path}: {error}") from None
        self._thread = ThreadPoolExecutor(1, "commit")

    def _read_only(self) -> apsw.Connection:
        """Open the database without writing, also where no file can be created beside it."""
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(BUSY_MS)
        try:
            connection.execute("select 1 from sqlite_master").fetchall()
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            connection.close()
        else:
            return connection
        log = self.path.with_name(self.path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise FileError(
                f"{log} has events that are not yet in the database, and nothing can be written in its folder. Copy the folder to where it "
                "can be written"
            )
        address = f"{self.path.resolve().as_uri()}?immutable=1"
        return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(BUSY_MS)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", self._synchronous)
        connection.pragma("foreign_keys", True)
        connection.pragma("secure_delete", True)

    async def close(self) -> None:
        self._thread.shutdown()
        self._reader.close()
        self._writer.close()  # closing it twice does nothing

    async def begin(self) -> None:
        with _translate_errors():
            self._writer.execute("begin immediate")

    async def commit(self) -> None:
        """Make the transaction durable. Raises StoreError if it was rolled back, LostError if that is unknown."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._writer.execute, "commit")
        except apsw.IOError as error:
            raise LostError(str(error)) from error  # an fsync that failed once must not be tried again
        except apsw.Error as error:
            raise StoreError(str(error)) from error

    async def rollback(self) -> None:
        if self._writer.in_transaction:
            with _translate_errors():
                self._writer.execute("rollback")

    async def rows(self, statement: str, *values: Any) -> list[SqlRow]:
        with _translate_errors():
            return self._writer.execute(statement, values).fetchall()

    async def many(self, statement: str, values: Sequence[SqlRow]) -> None:
        with _translate_errors():
            self._writer.executemany(statement, values)

    async def script(self, statements: str) -> None:
        with _translate_errors():
            self._writer.execute(statements)

    async def matching(
        self, statement: str, column: str, values: Sequence[Any], *others: Any
    ) -> list[SqlRow]:
        """Run a statement that ends in `where` for rows whose column has one of these values; `others` are its $1, $2, …"""
        found: list[SqlRow] = []
        with _translate_errors():
            for value in values:
                full = f"{statement} {column} = ${1 + len(others)}"
                found += self._writer.execute(full, (*others, value)).fetchall()
        return found

    async def read(self, statement: str, *values: Any) -> list[SqlRow]:
        with _translate_errors():
            return self._reader.execute(statement, values).fetchall()

    @contextlib.asynccontextmanager
    async def one_view(self) -> AsyncIterator[None]:
        """All reads inside see the store as it was at the first of them, while others write."""
        self._reader.execute("begin")
        try:
            yield
        finally:
            self._reader.execute("rollback")

    async def time(self) -> None:
        """There is no clock but the machine's."""

    async def size(self) -> int:
        log = self.path.with_name(self.path.name + "-wal")
        return sum(path.stat().st_size for path in (self.path, log) if path.exists())

    def settle(self) -> bool:
        """Write the log back and empty it, so that nothing erased is left in it. False while a reader needs it."""
        self._writer.set_busy_timeout(BRIEF_MS)  # writers wait meanwhile
        try:
            with _translate_errors():
                ((busy, _, _),) = self._writer.execute("pragma wal_checkpoint(truncate)").fetchall()
        finally:
            self._writer.set_busy_timeout(BUSY_MS)
        return not busy

    def backup(self, path: Path) -> None:
        target = apsw.Connection(str(path))
        try:
            with _translate_errors(), target.backup("main", self._reader, "main") as copy:
                copy.step()
        finally:
            target.close()
