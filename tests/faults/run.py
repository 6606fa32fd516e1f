"""One run: clients at work on a store, one fault after another, and what the history says in the end."""

import asyncio
import contextlib
import math
import random
import shutil
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from faults.client import Client
from faults.history import Rules, violations
from faults.services import Server, SmallDisk, Supervised, free_port, verified

RECOVERY = 240.0
"""Seconds after a fault in which something must be acknowledged again."""

EXPERIMENTS = {"shop": Rules(budget=300, period=10.0), "parts": Rules(adds_up=True, may_expire=True)}
WINDOW = 4.0
"""Seconds in which parts are added up."""

DATABASE = "faults"


@dataclass
class Report:
    """What a run did, and what was wrong."""

    faults: Counter = field(default_factory=Counter)
    exits: Counter = field(default_factory=Counter)
    operations: Counter = field(default_factory=Counter)
    stored: int = 0
    recoveries: list = field(default_factory=list)
    wrong: list = field(default_factory=list)
    seconds: float = 0.0

    def text(self):
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        done = ", ".join(f"{count:,} {name}" for name, count in sorted(self.operations.items()))
        lines = [
            f"{self.faults.total()} faults in {self.seconds:,.0f} s: {kinds}",
            f"operations: {done}; {self.stored:,} decisions stored",
            f"ends of processes, by exit code: {dict(self.exits)}",
        ]
        if self.recoveries:
            lines.append(
                f"until something was acknowledged again: median {statistics.median(self.recoveries):.2f} s, "
                f"most {max(self.recoveries):.2f} s"
            )
        return "\n".join([*lines, f"{len(self.wrong)} violations", *self.wrong[:20]])


class Run:
    """Services on one store, their clients, and the faults that they may meet."""

    def __init__(self, seed=0, *, clients=4, pause=0.01):
        self.luck, self.clients, self.pause = random.Random(seed), clients, pause
        self.history, self.report, self.stop = [], Report(), asyncio.Event()
        self.services, self.connections = [], []
        self.folder = Path(tempfile.mkdtemp(prefix="sparing-faults-"))
        self.store, self.address = self.folder / "store", None
        self._tidy = contextlib.ExitStack()
        self._tidy.callback(shutil.rmtree, self.folder, ignore_errors=True)

    # What a subclass says: how many services, and which faults.

    async def prepare(self):
        raise NotImplementedError

    def kinds(self):
        """Faults by their names."""
        found = {"kill": self.kill, "freeze": self.freeze, "cut connections": self.cut}
        if all(each.can_jump for each in self.services):
            found |= {"clock jump": self.jump, "kill with a wrong clock": self.kill_in_jump}
        return found

    async def serve(self, count, *, address=None):
        self.address = address
        for _ in range(count):
            service = Supervised(self.store, address)
            self.services.append(service)
            await service.start()
            if len(self.services) == 1:
                await service.experiment(
                    "shop", check=0.3, holdout=0.1, reward_window=1e6, budget_calls=300, budget_period=10.0
                )
                await service.experiment("parts", check=1.0, aggregate="sum", reward_window=WINDOW)

    async def run(self, faults, *, seconds=math.inf):
        """Meet faults by their names, one after the other, for so long at most; the report."""
        began = time.monotonic()
        try:
            await self.prepare()
            ports = [each.port for each in self.services]
            clients = [
                Client(
                    number,
                    name,
                    ports,
                    self.history,
                    self.stop,
                    pause=self.pause,
                    parts=5 if rules.adds_up else 0,
                )
                for name, rules in EXPERIMENTS.items()
                for number in range(self.clients // 2)
            ]
            self.connections = [connection for each in clients for connection in each.connections]
            tasks = [asyncio.create_task(each.run()) for each in clients]
            try:
                await self.progress()
                for name in faults:
                    if time.monotonic() > began + seconds:
                        break
                    await self.kinds()[name]()
                    self.report.faults[name] += 1
                    if not await self.progress():
                        self.report.wrong.append(f"nothing was acknowledged for {RECOVERY:g} s after: {name}")
                        break
            finally:
                self.stop.set()
                await asyncio.gather(*tasks)
            await self.judge()
        finally:
            for each in self.services:
                self.report.exits += each.exits
                await each.stop()
            self._tidy.close()
        self.report.seconds = time.monotonic() - began
        return self.report

    async def progress(self, enough=30):
        """Wait until requests that were sent from now on are acknowledged."""
        now, start = time.monotonic(), len(self.history)
        while time.monotonic() < now + RECOVERY:
            good = [one.ended for one in self.history[start:] if one.status == 200 and one.began > now]
            if len(good) >= enough:
                self.report.recoveries.append(min(good) - now)
                return True
            await asyncio.sleep(0.02)
        return False

    async def judge(self):
        report = self.report
        report.operations = Counter(
            f"{one.kind} {'unknown' if one.status is None else one.status}" for one in self.history
        )
        for each in self.services:
            await each.until_ready()
        await asyncio.sleep(WINDOW + 1.0)  # parts are added up
        for name, rules in EXPERIMENTS.items():
            records = await self.services[0].records(name)
            report.stored += len(records)
            history = [one for one in self.history if one.experiment == name]
            report.wrong += [f"{name}: {text}" for text in violations(history, records, rules)]
            page = await self.services[0].ask("GET", f"/v1/{name}/summary")
            if page["decisions"] != len(records):
                report.wrong.append(f"{name}: the page counts {page['decisions']}, of {len(records)}")
        code, said = await asyncio.to_thread(verified, self.store, self.address)
        if code:
            report.wrong.append(f"sparing verify: {said}")

    # Faults of services.

    def one(self):
        return self.luck.choice(self.services)

    async def kill(self):
        self.one().kill()

    async def freeze(self):
        service = self.one()
        service.freeze()
        await asyncio.sleep(self.luck.uniform(0.2, 1.5))
        service.thaw()

    async def cut(self):
        for connection in self.connections:
            connection.drop()

    async def kill_in_jump(self):
        """A service starts while the clocks are wrong."""
        service = self.one()
        self._jump_all()
        service.kill()
        await asyncio.sleep(0.5)
        with contextlib.suppress(AssertionError):  # `progress` says so too
            await service.until_ready(RECOVERY)
        for each in self.services:
            each.jump("+0")

    def _jump_all(self):
        offset = self.luck.choice(["+366d", "-366d", "+2h", "-90s"])
        for service in self.services:
            service.jump(offset)

    async def jump(self):
        """The clocks go a year ahead or back for a while."""
        self._jump_all()
        await asyncio.sleep(self.luck.uniform(0.7, 1.5))
        for service in self.services:
            service.jump("+0")

    async def limit_files(self):
        """Every write to a file fails, as on a full or broken disk."""
        service = self.one()
        service.limit_files(1)
        await asyncio.sleep(self.luck.uniform(0.1, 0.5))
        service.limit_files(None)


class OnSqlite(Run):
    """One service on SQLite; with `disk`, in a file system of so many megabytes that can be filled (needs root)."""

    def __init__(self, *words, disk=None, **settings):
        super().__init__(*words, **settings)
        self.disk = disk

    async def prepare(self):
        if self.disk is not None:
            self.disk = SmallDisk(self.disk)
            self._tidy.callback(self.disk.remove)
            self.store = self.disk.path / "store"
        await self.serve(1)

    def kinds(self):
        found = super().kinds() | {"failing writes": self.limit_files}
        return found | ({} if self.disk is None else {"full disk": self.fill})

    async def fill(self):
        self.disk.fill()
        await asyncio.sleep(self.luck.uniform(0.2, 1.0))
        self.disk.empty()


class OnPostgres(Run):
    """Two services on PostgreSQL; with `standby`, a second server follows synchronously and takes over; with `disk`, as `OnSqlite`."""

    def __init__(self, *words, standby=False, disk=None, **settings):
        super().__init__(*words, **settings)
        self.wants_standby, self.megabytes, self.disks = standby, disk, {}
        self.primary = self.standby = None

    def _server(self):
        import pwd

        place = self.folder
        if self.megabytes is not None:
            disk = SmallDisk(self.megabytes, pwd.getpwnam("postgres"))
            self._tidy.callback(disk.remove)
            place = disk.path
        else:
            place = Path(tempfile.mkdtemp(prefix="sparing-postgres-"))
            self._tidy.callback(shutil.rmtree, place, ignore_errors=True)
            with contextlib.suppress(PermissionError, KeyError):
                shutil.chown(place, "postgres", "postgres")
        server = Server(place / "data", free_port())
        if self.megabytes is not None:
            self.disks[server] = disk
        self._tidy.callback(server.stop)
        return server

    async def prepare(self):
        self.primary = self._server()
        await asyncio.to_thread(self._create)
        ports = [self.primary.port]
        if self.wants_standby:
            self.standby = self._server()
            await asyncio.to_thread(self._follow)
            ports.append(self.standby.port)
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        await self.serve(2, address=f"postgresql://postgres@{hosts}/{DATABASE}")

    def _create(self):
        self.primary.create()
        self.primary.start()
        self.primary.sql(f"create database {DATABASE} encoding 'UTF8' template template0")

    def _follow(self):
        """Let the standby follow, and every commit wait for it."""
        self.standby.copy(self.primary)
        self.standby.start()
        self.primary.sql("alter system set synchronous_standby_names = '*'")
        self.primary.sql("select pg_reload_conf()")
        for _ in range(600):
            if self.primary.sql("select count(*) from pg_stat_replication where sync_state = 'sync'") == "1":
                return
            time.sleep(0.05)
        raise AssertionError("the standby does not follow")

    def kinds(self):
        found = super().kinds() | {
            "database crash": self.crash,
            "database connections ended": self.end,
            "database frozen": self.freeze_database,
        }
        if self.wants_standby:
            found["failover"] = self.fail_over
        if self.disks:
            found["full database disk"] = self.fill
        return found

    async def crash(self):
        self.primary.crash()
        await asyncio.sleep(self.luck.uniform(0.0, 1.0))
        await asyncio.to_thread(self.primary.start)

    async def end(self):
        await asyncio.to_thread(self.primary.end_connections)

    async def freeze_database(self):
        import os
        import signal

        from faults.services import descendants

        pids = descendants(self.primary.pid)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(self.luck.uniform(0.2, 1.5))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    async def fail_over(self):
        """The primary dies, the standby takes over, and a new standby is made where the primary was."""
        self.primary.crash()
        await asyncio.sleep(self.luck.uniform(0.0, 0.5))
        await asyncio.to_thread(self._take_over)

    def _take_over(self):
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary
        self.primary.sql("alter system set synchronous_standby_names = ''")
        self.primary.sql("select pg_reload_conf()")
        self._follow()

    async def fill(self):
        self.disks[self.primary].fill()
        await asyncio.sleep(self.luck.uniform(0.2, 1.0))
        self.disks[self.primary].empty()
        await asyncio.to_thread(self.primary.ensure)


def sequence(kinds, count, seed):
    """Names of faults in a random order, each about equally often."""
    luck = random.Random(seed)
    names = [name for _ in range(-(-count // len(kinds))) for name in luck.sample(sorted(kinds), len(kinds))]
    return names[:count]
