"""PostgreSQL through asyncpg: several workers, one writer at a time; every commit is durable before it is answered."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, TypeAlias

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from sparing.errors import FileError, SettingError, SparingError
from sparing.service.store.driver import LostError, SqlRow, StoreError

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

OLDEST = 15  # oldest supported server
LOCK = int.from_bytes(b"sparing!")  # advisory lock of the writer
# Seconds to wait for a connection, an answer, the lock of the writer, and an idle writer.
CONNECT_S, COMMAND_S, LOCK_S, IDLE_S = 5.0, 20.0, 5, 60
READERS = 4
# `power`: a commit survives the loss of power; `process`: the end of the process.
SYNCHRONOUS = {"power": "on", "process": "off"}

SETTINGS = {
    "application_name": "sparing",
    "jit": "off",
    "lock_timeout": f"{LOCK_S}s",
    "idle_in_transaction_session_timeout": f"{IDLE_S}s",
}

# Unlogged: empty after a crash of the server, and on a standby that takes over. Both may have lost commits.
LIFE = "create unlogged table if not exists server_life(token blob not null)"

# Types of SQLite and PostgreSQL.
WORDS = {
    r"\s+strict\b(, without rowid)?": "",
    r"\bblob\b": "bytea",
    r"\binteger\b": "bigint",
    r"\breal\b": "double precision",
    r"\blength\(": "octet_length(",
}

# Why there is no connection, by the class of SQLSTATE.
REFUSED = {
    "28": "the database server refuses the user or password in the store's address. Check both",
    "3D": "the database in the store's address does not exist. Create it (createdb), or use another",
    "53": "the database server has no free connection. Raise its max_connections, or run fewer workers",
    "57": "the database server is starting or stopping. Try again",
}

# What may succeed later, by the class of SQLSTATE.
FAILED = {
    "08": "the connection to the database was lost",
    "25": "the database undid the transaction",
    "40": "the database undid the transaction",
    "53": "the database server has run out of disk, memory or connections",
    "55": "another worker holds the write lock for too long",
    "57": "the database server ended the command or the connection",
    "58": "the database server could not read or write its files",
}

FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
UNSURE = ("08", "57")  # classes of SQLSTATE after which it is unknown whether a commit happened
# Why a database cannot hold a store, by SQLSTATE.
UNFIT = {
    "42501": "its user may not create tables. Make the user the owner of the database",
    "42P07": "it contains tables of another program. Use a separate database for sparing",
    "3F000": "its search_path has no existing schema. Create one, or change search_path",
}


class Postgres:
    """One connection to write, a few to read. The address may contain a password and is never shown."""

    kind = "PostgreSQL"

    def __init__(self, address: str, durability: str = "power") -> None:
        self._address, self._synchronous = address, SYNCHRONOUS[durability]
        self._writer: Connection | None = None
        self._idle: list[Connection] = []
        self._view: Connection | None = None  # of `one_view`
        self._turns = asyncio.Semaphore(READERS)
        self._life: bytes | None = None

    async def connect(self, *, create: bool, read_only: bool = False) -> None:  # readers never write
        self._writer = await self._open()
        try:
            await self._check(self._writer, create)
        except BaseException:
            self._writer.terminate()
            raise

    async def _open(self, **settings: str) -> Connection:
        try:
            connection = await asyncpg.connect(
                self._address,
                timeout=CONNECT_S,
                command_timeout=COMMAND_S,
                server_settings={**SETTINGS, "synchronous_commit": self._synchronous, **settings},
                target_session_attrs=SessionAttribute.primary,
            )
        except (*FAILURES, ValueError) as error:
            raise _refused(error) from None
        version, encoding = connection.get_server_version(), connection.get_settings().server_encoding
        if version.major >= OLDEST and encoding == "UTF8":
            return connection
        connection.terminate()
        if version.major < OLDEST:
            raise SettingError(
                f"the database server is PostgreSQL {version.major}; must be {OLDEST} or newer"
            )
        raise SettingError(
            f"the database's encoding is {encoding}; must be UTF8. Create another database (createdb -E UTF8)"
        )

    async def _check(self, connection: Connection, create: bool) -> None:
        """Refuse a server without durability, and a database of another program."""
        with _translate_errors(connection):
            fsync, there, ours = await connection.fetchrow(  # type: ignore[misc]
                "select current_setting('fsync'), to_regclass('schema_migrations') is not null, exists (select 1 from pg_attribute "
                "where attrelid = to_regclass('schema_migrations') and attname = 'sha256')"
            )
        if fsync == "off" and self._synchronous == "on":
            raise SettingError(
                "the database server has fsync = off, so a loss of power loses data; must be on. Turn it on, or "
                "use --durability process"
            )
        if there and not ours:
            raise FileError(f"cannot use the database: {UNFIT['42P07']}")
        if not there and not create:
            raise FileError("the database contains no store. `sparing serve` creates one")

    async def close(self) -> None:
        for connection in (self._writer, *self._idle):
            if connection is not None:
                try:
                    await connection.close(timeout=CONNECT_S)
                except FAILURES:
                    connection.terminate()
        self._idle = []

    async def begin(self) -> None:
        """Wait for the lock in a statement of its own, so that the next one sees everything committed before."""
        if self._writer is None or self._writer.is_closed():
            self._writer = await self._again()
        try:
            if self._life is None:
                self._life = await self._recognised()
            await self._lock()
        except BaseException:
            self._writer.terminate()
            raise

    async def _lock(self) -> None:
        connection = self._own()
        with _translate_errors(connection):
            await connection.execute(
                f"begin isolation level read committed read write; select pg_advisory_xact_lock({LOCK})"
            )

    async def _recognised(self) -> bytes:
        """Return the token of this life of the server; the first worker creates it."""
        await self._lock()
        await self.script(LIFE)
        if not await self.rows("select token from server_life"):
            await self.many("insert into server_life values ($1)", [(os.urandom(16),)])
        ((life,),) = await self.rows("select token from server_life")
        await self.commit()
        return bytes(life)

    async def _again(self) -> Connection:
        """Reconnect, to a server that has not crashed since."""
        try:
            connection = await self._open()
        except SparingError as error:
            raise StoreError(str(error)) from None
        if self._life is None:
            return connection
        try:
            with _translate_errors(connection):
                lives = [row["token"] for row in await connection.fetch("select token from server_life")]
        except BaseException:
            connection.terminate()
            raise
        if lives != [self._life]:
            connection.terminate()
            raise LostError("the database server restarted after a crash, or another server replaced it")
        return connection

    async def commit(self) -> None:
        connection = self._own()
        try:
            done = await connection.execute("commit")
        except FAILURES as error:
            code = getattr(error, "sqlstate", None)
            if code is None or code[:2] in UNSURE:
                connection.terminate()
                raise LostError("the connection to the database was lost in a commit") from error
            raise StoreError(f"the database refused the commit (SQLSTATE {code})") from error
        if done != "COMMIT":
            raise StoreError(FAILED["40"])

    async def rollback(self) -> None:
        """Undo; if the connection cannot, terminate it, and the server undoes it."""
        connection = self._writer
        if connection is None or connection.is_closed() or not connection.is_in_transaction():
            return
        try:
            await connection.execute("rollback", timeout=CONNECT_S)
        except BaseException as error:
            connection.terminate()
            if not isinstance(error, Exception):
                raise

    def _own(self) -> Connection:
        if self._writer is None or self._writer.is_closed():
            raise StoreError(FAILED["08"])
        return self._writer

    async def rows(self, statement: str, *values: Any) -> list[SqlRow]:
        connection = self._own()
        with _translate_errors(connection):
            return list(map(tuple, await connection.fetch(statement, *values)))

    async def many(self, statement: str, values: Sequence[SqlRow]) -> None:
        connection = self._own()
        with _translate_errors(connection):
            await connection.executemany(statement, values)

    async def script(self, statements: str) -> None:
        connection = self._own()
        try:
            with _translate_errors(connection):
                await connection.execute(translated(statements))
        except asyncpg.PostgresError as error:
            if error.sqlstate not in UNFIT:
                raise
            raise FileError(f"cannot use the database: {UNFIT[error.sqlstate]}") from None

    async def matching(
        self, statement: str, column: str, values: Sequence[Any], *others: Any
    ) -> list[SqlRow]:
        kept = list(filter(_storable, values))
        return await self.rows(f"{statement} {column} = any(${1 + len(others)})", *others, kept)

    @contextlib.asynccontextmanager
    async def one_view(self) -> AsyncIterator[None]:
        """All reads inside see the store as it was at the first of them, while others write. One task may use it."""
        self._view = await self._reader()
        try:
            with _translate_errors(self._view):
                await self._view.execute(
                    "set idle_in_transaction_session_timeout = 0; begin isolation level repeatable read read only"
                )
            yield
        finally:
            self._view.terminate()
            self._view = None

    async def read(self, statement: str, *values: Any) -> list[SqlRow]:
        if not all(map(_storable, values)):
            return []
        if self._view is not None:
            with _translate_errors(self._view):
                return list(map(tuple, await self._view.fetch(statement, *values)))
        try:
            async with asyncio.timeout(COMMAND_S):  # `wait_for` may lose a cancellation
                await self._turns.acquire()
        except TimeoutError:
            raise StoreError("too many reads at once") from None
        try:
            connection = await self._reader()
            try:
                with _translate_errors(connection):
                    found = await connection.fetch(statement, *values)
            except BaseException:
                connection.terminate()
                raise
            self._idle.append(connection)
        finally:
            self._turns.release()
        return list(map(tuple, found))

    async def _reader(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        try:
            return await self._open(default_transaction_read_only="on")
        except SparingError as error:
            raise StoreError(str(error)) from None

    async def time(self) -> int:
        """Return the server's time of day, in microseconds."""
        ((now,),) = await self.read("select (extract(epoch from clock_timestamp()) * 1000000)::bigint")
        return int(now)

    async def size(self) -> int:
        ((size,),) = await self.read("select pg_database_size(current_database())")
        return int(size)


def translated(statements: str) -> str:
    """Translate SQLite's table definitions."""
    for theirs, ours in WORDS.items():
        statements = re.sub(theirs, ours, statements)
    return statements


def _storable(value: Any) -> bool:
    if not isinstance(value, str):
        return True
    return "\0" not in value and (value.isascii() or value.encode(errors="ignore").decode() == value)


def _refused(error: Exception) -> SparingError:
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or "unknown"
        said = REFUSED.get(code[:2], f"the database server refuses the connection (SQLSTATE {code})")
        return SettingError(said) if code[:2] == "28" else FileError(said)
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return SettingError("the database server is a read-only standby. Use the address of the primary")
    if isinstance(error, OSError):
        return FileError(
            "the database server cannot be reached at the store's address. Check that it runs and listens there"
        )
    return SettingError(
        "the store's address is not valid; must be a PostgreSQL address, such as "
        "postgresql://user:password@host:5432/name"
    )


@contextlib.contextmanager
def _translate_errors(connection: Connection) -> Iterator[None]:
    """Translate errors of the database; terminate a connection that gave no answer."""
    try:
        yield
    except asyncpg.PostgresError as error:
        code = error.sqlstate or ""
        if code in ("XX001", "XX002"):
            raise LostError(f"the database is damaged (SQLSTATE {code})") from error
        if isinstance(error, asyncpg.InvalidCachedStatementError):
            raise StoreError("the store's tables were changed just now") from error
        if code[:2] == "22":
            raise ValueError("a value does not fit its column") from None  # the error itself would show it
        if code[:2] in FAILED:
            raise StoreError(f"{FAILED[code[:2]]} (SQLSTATE {code})") from error
        raise
    except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        connection.terminate()
        raise StoreError(FAILED["08"]) from error
