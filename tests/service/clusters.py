"""A PostgreSQL server of the tests' own: Debian's, in a folder that goes away, on a free port of loopback."""

import asyncio
import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import asyncpg
import pytest

USER, PASSWORD, SHARED = "keeper", "a word that is never shown", "stores"
ADDRESS = "postgresql://{user}:{password}@127.0.0.1:{port}/{name}"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "32MB",
}
PATIENCE = "60"
"""Seconds that the server may take to start or to stop."""


def find_programs():
    """The folder of the newest server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        pytest.fail("no PostgreSQL to test with: install it (make database)")
    return found[-1].parent


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Cluster:
    """A server. `stop` and `start` are for tests of what happens then; it is running whenever a test begins."""

    def __init__(self):
        self.programs, self.port = find_programs(), free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="sparing-postgres-"))
        self._numbers = itertools.count(1)
        self._as = {}
        if os.getuid() == 0:  # a server refuses to run as root
            owner = pwd.getpwnam("postgres")
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
            self._as = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        try:
            self._make()
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def _make(self):
        words = self.folder / "password"
        words.write_text(PASSWORD, encoding="utf-8")
        words.chmod(0o644)
        self._run(
            "initdb",
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
            "--auth=scram-sha-256",
            f"--username={USER}",
            f"--pwfile={words}",
        )
        self.start()
        self.execute(f"create database {SHARED}")

    def _run(self, program, *arguments):
        """Run one of the server's programs on its folder."""
        command = [str(self.programs / program), "-D", str(self.folder / "data"), *arguments]
        with (self.folder / f"{program}.out").open(
            "w"
        ) as out:  # a pipe would stay open as long as the server
            done = subprocess.run(
                command, stdout=out, stderr=out, cwd="/", check=False, timeout=120, **self._as
            )
        assert done.returncode == 0, (self.folder / f"{program}.out").read_text(encoding="utf-8")

    def start(self):
        said = " ".join(f"-c {name}='{value}'" for name, value in SETTINGS.items())
        log = str(self.folder / "server.log")
        self._run("pg_ctl", "start", "-w", "-t", PATIENCE, "-l", log, "-o", f"-p {self.port} {said}")

    def stop(self, mode="fast"):
        """Stop in an orderly way, or as in a crash ("immediate")."""
        self._run("pg_ctl", "stop", "-w", "-t", PATIENCE, "-m", mode)

    def remove(self):
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def freeze(self, pids):
        """Let server processes say nothing more, until what is returned is called; those that have ended meanwhile stay so."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

        def thaw():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

        return thaw

    def postmaster(self):
        """The id of the process that takes connections."""
        return int((self.folder / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0])

    def address(self, name, *, user=USER, password=PASSWORD, port=None):
        quoted = password.replace(" ", "%20")
        return ADDRESS.format(user=user, password=quoted, port=port or self.port, name=name)

    def database(self, how):
        """A new database, made in a way: its address."""
        name = f"database_{next(self._numbers)}"
        self.execute(f"create database {name} {how}")
        return self.address(name)

    def schema(self):
        """A new empty schema, which is as good as a database and much quicker to have: its address."""
        name = f"schema_{next(self._numbers)}"
        self.execute(f"create schema {name}", self.address(SHARED))
        return self.address(f"{SHARED}?search_path={name}")

    def execute(self, statement, address=None):
        """Run a statement as the owner of all; the rows."""
        return asyncio.run(self.run(statement, address))

    async def end_connections(self):
        """End all connections of stores, as an administrator or a firewall does."""
        await self.run(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{SHARED}'")

    async def run(self, statement, address=None):
        """As `execute`, inside a test's own loop."""
        connection = await asyncpg.connect(address or self.address("postgres"))
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()
