"""The service as processes that are started again whenever they end, and the databases that they write to."""

import asyncio
import base64
import contextlib
import os
import pwd
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import ClassVar

from faults.client import Connection, UnknownError

ROOT = Path(__file__).parents[2]
FAKETIME = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
READY = 300.0
"""Seconds that a service may take until it is ready."""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def descendants(pid):
    """A process and all that it started, the youngest first."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += descendants(int(child))
    return [*found, pid]


def killed(pid):
    """kill -9 of a process and of all that it started."""
    for each in descendants(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def example_log():
    """A log in base64: red and blue were played, green and gold never."""
    luck = random.Random(0)
    lines = ["age,country,device,banner,clicked"]
    for _ in range(600):
        country, banner = luck.choice(["NZ", "CH", "AU", "DE"]), luck.choice(["red", "blue"])
        chance = (0.3 if banner == "red" else 0.15) + 0.15 * (country == "NZ")
        lines.append(
            f"{luck.randint(18, 80)},{country},{luck.choice(['phone', 'laptop'])},{banner},{int(luck.random() < chance)}"
        )
    return base64.b64encode("\n".join(lines).encode()).decode()


class Supervised:
    """`sparing serve` on a port of its own; it is started again when it ends. `jump` moves its clock, if libfaketime is there."""

    def __init__(self, folder, address=None, *, clock=True):
        self.port, self.pid, self.exits = free_port(), None, Counter()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._words = [sys.executable, "-m", "sparing", "serve", str(folder), "--port", str(self.port)]
        self._over, self._task = False, None
        self._times = None
        self._environment = {name: text for name, text in os.environ.items() if name != "SPARING_STORE"}
        if address is not None:
            self._environment["SPARING_STORE"] = address
        if clock and FAKETIME is not None:
            descriptor, path = tempfile.mkstemp(prefix="sparing-clock-")
            os.close(descriptor)
            self._times = Path(path)
            self._times.write_text("+0\n", encoding="utf-8")
            self._environment |= {
                "LD_PRELOAD": str(FAKETIME),
                "FAKETIME_TIMESTAMP_FILE": path,
                "FAKETIME_NO_CACHE": "1",
                "NO_FAKE_STAT": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1",
            }

    async def start(self):
        self._task = asyncio.create_task(self._supervise())
        await self.until_ready()

    async def _supervise(self):
        while not self._over:
            process = await asyncio.create_subprocess_exec(
                *self._words, stdout=self.log, stderr=self.log, env=self._environment, cwd=ROOT
            )
            self.pid = process.pid
            self.exits[await process.wait()] += 1
            await asyncio.sleep(0.1)

    async def until_ready(self, seconds=READY):
        connection = Connection(self.port)
        for _ in range(round(seconds / 0.05)):
            with contextlib.suppress(UnknownError):
                if (await connection.ask("GET", "/readyz"))[0] == 200:
                    connection.drop()
                    return
            await asyncio.sleep(0.05)
        raise AssertionError(f"the service does not get ready:\n{self.said()}")

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-4000:]

    async def ask(self, method, path, body=None):
        """The document of an answer that must be a good one."""
        connection = Connection(self.port, READY)
        try:
            status, answer = await connection.ask(method, path, body)
        finally:
            connection.drop()
        assert status in (200, 201), (path, status, answer)
        return answer

    async def experiment(self, name, **options):
        log = {"content": example_log(), "filename": "log.csv", "actions": ["red", "blue", "green", "gold"]}
        log["columns"] = {"action": "banner", "reward": "clicked"}
        body = {"name": name, "log": log, "learner": "confident", "options": options}
        await self.ask("POST", "/v1/experiments", body)

    async def records(self, name):
        """Every stored decision of an experiment."""
        found, after = [], 0
        while after is not None:
            page = await self.ask("GET", f"/v1/{name}/decisions?after={after}&limit=1000")
            found += page["decisions"]
            after = page["next"]
        return found

    def kill(self):
        killed(self.pid)

    def freeze(self):
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def limit_files(self, size):
        """No file may grow beyond `size` bytes; None: as it was."""
        most = resource.RLIM_INFINITY if size is None else size
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

    @property
    def can_jump(self):
        return self._times is not None

    def jump(self, offset):
        """Let its clock show another time: such as +366d, or +0."""
        self._times.write_text(f"{offset}\n", encoding="utf-8")

    async def stop(self):
        self._over = True
        if self._task is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
                os.kill(self.pid, signal.SIGCONT)
            try:
                await asyncio.wait_for(self._task, 60)
            except TimeoutError:
                self.kill()
        if self._times is not None:
            self._times.unlink()
        self.log.close()


def verified(folder, address=None):
    """Exit code and words of `sparing verify`."""
    environment = os.environ | ({} if address is None else {"SPARING_STORE": address})
    command = [sys.executable, "-m", "sparing", "verify", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    return done.returncode, done.stdout + done.stderr


class SmallDisk:
    """A folder of limited size, which a ballast can fill; needs root."""

    def __init__(self, megabytes, owner=None):
        self.path = Path(tempfile.mkdtemp(prefix="sparing-disk-"))
        how = f"size={megabytes}m" + (f",uid={owner.pw_uid},gid={owner.pw_gid}" if owner else "")
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", how, "tmpfs", self.path], check=True, capture_output=True
        )

    def fill(self):
        for size in (2**20, 2**12):
            with contextlib.suppress(OSError), (self.path / "ballast").open("ab", buffering=0) as file:
                while file.write(bytes(size)):
                    pass

    def empty(self):
        (self.path / "ballast").unlink(missing_ok=True)

    def remove(self):
        subprocess.run(["umount", "-l", self.path], check=True)
        self.path.rmdir()


class Server:
    """A PostgreSQL server in a folder, on a port; `standby_of` makes it a standby."""

    SETTINGS: ClassVar = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "shared_buffers": "32MB",
        "max_wal_size": "64MB",
        "wal_level": "replica",
        "max_wal_senders": "6",
        "hot_standby": "on",
    }

    def __init__(self, folder, port):
        self.folder, self.port = Path(folder), port
        self.programs = sorted(
            Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parts[-2])
        )[-1]
        self._as = {}
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            self._as = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}

    def run(self, program, *words, check=True):
        with tempfile.TemporaryFile() as out:  # a pipe would stay open as long as the server
            done = subprocess.run(
                [self.programs / program, *map(str, words)],
                stdout=out, stderr=out, cwd="/", env=os.environ | {"LC_ALL": "C"}, check=False, timeout=120, **self._as,
            )  # fmt: skip
            out.seek(0)
            said = out.read().decode()
        assert not check or done.returncode == 0, (program, said)
        return said

    def create(self):
        self.run(
            "initdb",
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
            "--auth=trust",
            "--username=postgres",
            "-D",
            self.folder,
        )
        with (self.folder / "pg_hba.conf").open("a") as file:
            file.write("host replication all 127.0.0.1/32 trust\n")

    def copy(self, other):
        """Become a standby of another server."""
        shutil.rmtree(self.folder, ignore_errors=True)
        where = f"host=127.0.0.1 port={other.port} user=postgres application_name=standby"
        self.run("pg_basebackup", "-D", self.folder, "-d", where, "-R", "-c", "fast", "-X", "stream")

    def start(self):
        said = " ".join(f"-c {name}='{value}'" for name, value in self.SETTINGS.items())
        log = self.folder / "server.log"
        self.run(
            "pg_ctl", "start", "-D", self.folder, "-w", "-t", 60, "-l", log, "-o", f"-p {self.port} {said}"
        )

    @property
    def pid(self):
        """The process that takes connections; None if there is none."""
        try:
            pid = int((self.folder / "postmaster.pid").read_text().split()[0])
            os.kill(pid, 0)
        except (OSError, ValueError, IndexError):
            return None
        return pid

    def crash(self):
        if self.pid is not None:
            killed(self.pid)
        (self.folder / "postmaster.pid").unlink(missing_ok=True)

    def ensure(self):
        """Start it again if it has ended."""
        if self.pid is None:
            (self.folder / "postmaster.pid").unlink(missing_ok=True)
            self.start()

    def promote(self):
        self.run("pg_ctl", "promote", "-D", self.folder, "-w", "-t", 60)

    def sql(self, statement, name="postgres"):
        return self.run(
            "psql", "-h", "127.0.0.1", "-p", self.port, "-U", "postgres", "-AtX", "-d", name, "-c", statement
        ).strip()

    def end_connections(self):
        self.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sparing'")

    def stop(self):
        if self.pid is not None:
            self.run("pg_ctl", "stop", "-D", self.folder, "-m", "immediate", "-w", check=False)
