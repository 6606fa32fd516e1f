"""Dumps of a store's database in PostgreSQL, by its own pg_dump, as the database was at the beginning of a view."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from sparing.errors import FileError
from sparing.service.store import Store
from sparing.service.store.postgres import Postgres

DATABASE_DUMP = "database.dump"
PROGRAMS = "/usr/lib/postgresql"  # where Debian has those that are not on the path
# Settings of an address, and the variables by which PostgreSQL's programs take them. So no password is on a command line.
VARIABLES = {
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "host": "PGHOST",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "database": "PGDATABASE",
    "passfile": "PGPASSFILE",
    "service": "PGSERVICE",
    "sslmode": "PGSSLMODE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
}


async def dump(store: Store, path: Path) -> None:
    """Dump the database of a store, inside a view of it, into a file for pg_restore, and read the file's contents again."""
    driver = store.driver
    assert isinstance(driver, Postgres)
    assert store.address is not None
    ((view, schema),) = await driver.read("select pg_export_snapshot(), current_schema()")
    words = [
        "--format=custom",
        "--no-owner",
        "--no-privileges",
        "--no-unlogged-table-data",
        f"--snapshot={view}",
        f"--file={path}",
    ]
    if schema != "public":  # which every database has already
        quoted = schema.replace('"', '""')
        words.append(f'--schema="{quoted}"')
    await asyncio.to_thread(_run, "pg_dump", words, variables(store.address))
    await asyncio.to_thread(_run, "pg_restore", ["--list", str(path)], {})
    path.chmod(0o600)


def variables(address: str) -> dict[str, str]:
    """Return the environment variables that make PostgreSQL's programs connect to an address."""
    parts = urlsplit(address)
    who, _, where = parts.netloc.rpartition("@")
    user, _, password = who.partition(":")
    hosts, ports = [], []
    for each in filter(None, where.split(",")):
        host, colon, port = each.rpartition(":")
        bare = not colon or each.endswith("]")  # an IPv6 address has colons of its own
        hosts.append(unquote(each if bare else host).strip("[]"))
        ports.append("" if bare else port)
    given = {
        "user": unquote(user),
        "password": unquote(password),
        "host": ",".join(hosts),
        "port": ",".join(ports) if any(ports) else "",
        "dbname": unquote(parts.path.lstrip("/")),
    }
    given |= {name: value for name, value in parse_qsl(parts.query) if name in VARIABLES}
    return {VARIABLES[name]: value for name, value in given.items() if value}


def _run(name: str, words: list[str], more: dict[str, str]) -> None:
    command = [_program(name), *words]
    done = subprocess.run(
        command,
        env={**os.environ, **more, "PGAPPNAME": "sparing backup", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise FileError(f"cannot copy the database: {said}")


def _program(name: str) -> str:
    """Return the path of a program of PostgreSQL, the newest if there are several."""
    found = shutil.which(name)
    if found is not None:
        return found
    others = [path for path in Path(PROGRAMS).glob(f"*/bin/{name}") if path.parts[-3].isdecimal()]
    if not others:
        raise FileError(
            f"{name} is not installed; a backup of a store in PostgreSQL needs it. Install the server's client programs "
            "(Debian: postgresql-client), of the server's version or newer"
        )
    return str(max(others, key=lambda path: int(path.parts[-3])))
