"""Backups: a folder that can be served, taken while others write; whole or not there."""

import asyncio
import json
import os
import subprocess
import sys

import apsw
import pytest
from typer.testing import CliRunner

from service.building import NAME, contexts, decide, live, ran, replayed, reward, same, trial
from service.clusters import PASSWORD
from sparing.cli import app
from sparing.errors import FileError
from sparing.service import dumps, erasure, experiments, maintenance, snapshots
from sparing.service.maintenance import backup
from sparing.service.messages import Options
from sparing.service.registry import ExperimentRegistry
from sparing.service.store import open_store
from sparing.service.store.driver import StoreError


def only(writer):
    return writer.registry.get(NAME)


async def opened(folder):
    """The state in a store, as a start has it, after every decision was recomputed."""
    store = open_store(folder)
    await store.open()
    try:
        (verdict,) = await maintenance.verify(store)
        assert not verdict.faults
        registry = ExperimentRegistry(store)
        await registry.catch_up(await store.last_seq())
        return registry.get(NAME).model
    finally:
        await store.close()


def test_a_backup_is_a_store_that_goes_on(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            await live(writer, 1, 20, late=5, missing=0.2)
            waiting = await decide(writer, contexts(9, 1)[0])
            await snapshots.snapshot_here(writer, only(writer))
            await live(writer, 2, 10)
            seq = only(writer).model.seq
            done = await backup(tmp_path / "store", tmp_path / "copy")
            assert (done.path, done.last_seq, done.files, done.notes) == (tmp_path / "copy", seq, 2, [])
            before = await replayed(writer)
            ((when,),) = await writer.store.driver.read("select last_backup from store")
            assert when is not None
            await live(writer, 3, 5)
        same(await opened(tmp_path / "copy"), before)
        async with trial(tmp_path / "copy") as writer:
            await live(writer, 3, 10)
            assert (await reward(writer, waiting, 0.5)).status == "taken"
            same(await replayed(writer), only(writer).model)
        assert {path.name for path in (tmp_path / "copy").iterdir()} == {"store.sqlite", "bases", "snapshots"}
        assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
        assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "store"]

    ran(run())


def test_it_is_consistent_while_others_write(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=0.5)) as writer:
            await live(writer, 1, 10)
            words = [
                sys.executable,
                "-m",
                "sparing",
                "backup",
                str(tmp_path / "store"),
                str(tmp_path / "copy"),
            ]
            child = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
            seed = 2
            while child.returncode is None and seed < 500:
                await live(writer, seed, 5)
                seed += 1
                await asyncio.sleep(0.01)
            said, _ = await child.communicate()
            assert child.returncode == 0
            assert said.startswith(b"Backup: ")
        model = await opened(tmp_path / "copy")
        assert 10 <= model.rounds <= 10 + 5 * seed

    ran(run())


def test_after_an_erasure_and_an_import(tmp_path):
    """The states that were removed are not missed, and those at the floor are there."""
    from service.test_importing import OTHER, given

    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            answers = await live(writer, 1, 10, missing=0.5)
            await experiments.import_log(writer, NAME, given(OTHER), None, "test")
            await erasure.erase(writer, NAME, decision_id=answers[3].decision_id, who="test")
            await live(writer, 2, 5)
            for _ in range(3):
                await live(writer, 3, 2)
                await snapshots.snapshot_here(writer, only(writer))
            done = await backup(tmp_path / "store", tmp_path / "copy")
            assert done.files == 3  # the first base, the snapshot at the floor, the newest
            same(await opened(tmp_path / "copy"), only(writer).model)
            (tmp_path / "store" / "snapshots" / f"1-{only(writer).floor}.state").unlink()
            with pytest.raises(FileError, match="is missing; the store needs it"):
                await backup(tmp_path / "store", tmp_path / "second")
            assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "store"]

    ran(run())


def test_a_state_that_goes_away_meanwhile_means_another_try(tmp_path, monkeypatch):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            await live(writer, 1, 5, missing=0.5)
            whole, gone = maintenance._copy, []

            def once(folder, part, state):
                if not gone:
                    gone.append(state)
                    raise maintenance.GoneError("gone")
                return whole(folder, part, state)

            monkeypatch.setattr(maintenance, "_copy", once)
            assert (await backup(tmp_path / "store", tmp_path / "copy")).files == 1
            assert gone

    ran(run())


def test_a_damaged_state_or_database_is_refused_and_nothing_is_left(tmp_path, monkeypatch):
    async def run():
        async with trial(tmp_path / "store") as writer:
            await live(writer, 1, 5)
        (base,) = (tmp_path / "store" / "bases").iterdir()
        content = base.read_bytes()
        base.write_bytes(content[:-1])
        with pytest.raises(FileError, match="was changed or damaged; the store needs it"):
            await backup(tmp_path / "store", tmp_path / "copy")
        base.write_bytes(content)

        def overwritten(self, path):
            path.write_bytes((tmp_path / "store" / "store.sqlite").read_bytes())
            with path.open("r+b") as file:
                file.seek(4096 * 3)
                file.write(b"\xff" * 4096 * 4)

        def contradicting(self, path):
            path.write_bytes((tmp_path / "store" / "store.sqlite").read_bytes())
            connection = apsw.Connection(str(path))
            connection.execute("pragma ignore_check_constraints = on; update store set one = 2")
            connection.close()

        for fault in (overwritten, contradicting):
            with monkeypatch.context() as patched:
                patched.setattr("sparing.service.store.sqlite.Sqlite.backup", fault)
                with pytest.raises(FileError, match="the copy of the database is damaged"):
                    await backup(tmp_path / "store", tmp_path / "copy")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
        await backup(tmp_path / "store", tmp_path / "copy")

    ran(run())


def test_what_stands_in_the_way_is_said(tmp_path):
    async def run():
        async with trial(tmp_path / "store"):
            (tmp_path / "copy").mkdir()
            with pytest.raises(FileError, match="already exists; a backup needs a new folder"):
                await backup(tmp_path / "store", tmp_path / "copy")
            with pytest.raises(FileError, match=r"does not exist\. Create it first"):
                await backup(tmp_path / "store", tmp_path / "no" / "copy")
            with pytest.raises(FileError, match="does not exist"):
                await backup(tmp_path / "nothing", tmp_path / "second")
            (tmp_path / "other").mkdir()
            connection = apsw.Connection(str(tmp_path / "other" / "store.sqlite"))
            connection.execute("create table cakes(name)")
            connection.close()
            with pytest.raises(FileError, match="is not a store of sparing"):
                await backup(tmp_path / "other", tmp_path / "second")

    ran(run())


def test_a_store_that_cannot_be_written_to_is_backed_up_all_the_same(tmp_path, monkeypatch):
    async def refuse(self):
        raise StoreError("attempt to write a readonly database")

    async def run():
        async with trial(tmp_path / "store"):
            pass
        monkeypatch.setattr("sparing.service.store.sqlite.Sqlite.begin", refuse)
        done = await backup(tmp_path / "store", tmp_path / "copy")
        assert done.notes == [
            "The time of this backup was not recorded in the store: attempt to write a readonly database."
        ]

    ran(run())


async def restored(folder, address):
    """The state in a store in PostgreSQL after a verification, as a start has it."""
    store = open_store(folder, address)
    await store.open()
    try:
        (verdict,) = await maintenance.verify(store)
        assert not verdict.faults
        registry = ExperimentRegistry(store)
        await registry.catch_up(await store.last_seq())
        return registry.get(NAME).model, verdict
    finally:
        await store.close()


@pytest.mark.parametrize("where", ["a database", "a schema"])
def test_a_backup_of_postgresql_is_of_one_moment(cluster, on_postgres, tmp_path, monkeypatch, where):
    """Retention replaces the state file at the floor while the database is dumped; the copy has the one that the dump needs."""
    address = cluster.database("") if where == "a database" else on_postgres.address
    plain, late = dumps._run, []

    async def run():
        options = Options(explore=1.0)
        async with trial(None, store=open_store(tmp_path / "store", address), options=options) as writer:
            answers = await live(writer, 1, 10, missing=0.3)
            await erasure.erase(writer, NAME, decision_id=answers[0].decision_id, who="test")
            await live(writer, 2, 5)
            before, loop = await replayed(writer), asyncio.get_running_loop()

            async def meanwhile():
                await live(writer, 3, 5)
                await erasure.erase(writer, NAME, decision_id=answers[1].decision_id, who="test")

            def slowly(name, words, more):
                assert PASSWORD not in " ".join(words)
                if name == "pg_dump":
                    late.append(asyncio.run_coroutine_threadsafe(meanwhile(), loop).result())
                plain(name, words, more)

            monkeypatch.setattr(dumps, "_run", slowly)
            done = await backup(tmp_path / "store", tmp_path / "copy", address=address)
            assert late
            assert (done.last_seq, done.files, done.notes) == (before.seq, 2, [])
            return before

    before = ran(run())
    assert (tmp_path / "copy" / "database.dump").stat().st_mode & 0o077 == 0
    target = cluster.database("")
    command = [
        dumps._program("pg_restore"),
        "--no-owner",
        "--exit-on-error",
        "--dbname=",
        str(tmp_path / "copy" / "database.dump"),
    ]
    command[3] = f"--dbname={target.rsplit('/', 1)[1]}"
    subprocess.run(command, env={**os.environ, **dumps.variables(target)}, check=True)
    if where == "a schema":
        target += "?" + address.split("?")[1]
    model, verdict = ran(restored(tmp_path / "copy", target))
    same(model, before)
    assert verdict.recomputed == 5


def test_a_dump_that_fails_leaves_nothing(on_postgres, tmp_path, monkeypatch):
    async def run():
        async with trial(None, store=on_postgres()) as writer:
            await live(writer, 1, 3)
            monkeypatch.setattr(dumps, "_program", lambda name: "false")
            with pytest.raises(FileError, match="cannot copy the database"):
                await backup(on_postgres.folder, tmp_path / "copy", address=on_postgres.address)
            monkeypatch.undo()
            monkeypatch.setenv("PATH", "")
            monkeypatch.setattr(dumps, "PROGRAMS", str(tmp_path))
            with pytest.raises(FileError, match="pg_dump is not installed"):
                await backup(on_postgres.folder, tmp_path / "copy", address=on_postgres.address)
            assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]

    ran(run())


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (
            "postgresql://u:p%40w@db.example:5433/shop",
            {"USER": "u", "PASSWORD": "p@w", "HOST": "db.example", "PORT": "5433"},
        ),
        (
            "postgres://[::1]:5432/shop?sslmode=require&search_path=x",
            {"HOST": "::1", "PORT": "5432", "SSLMODE": "require"},
        ),
        ("postgresql://u@a:1,b/shop", {"USER": "u", "HOST": "a,b", "PORT": "1,"}),
        ("postgresql:///shop?host=/run/sockets&user=u", {"HOST": "/run/sockets", "USER": "u"}),
    ],
)
def test_programs_connect_where_the_service_does(address, expected):
    assert dumps.variables(address) == {f"PG{name}": value for name, value in expected.items()} | {
        "PGDATABASE": "shop"
    }


def test_the_command(tmp_path):
    async def run():
        async with trial(tmp_path / "store") as writer:
            await live(writer, 1, 5)
            return only(writer).model.seq

    seq = ran(run())
    words = ["backup", str(tmp_path / "store"), str(tmp_path / "copy")]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["path"], said["last_seq"], said["files"], said["notes"]) == (
        str(tmp_path / "copy"),
        seq,
        1,
        [],
    )
    assert said["size"] == sum(
        path.stat().st_size for path in (tmp_path / "copy").rglob("*") if path.is_file()
    )
    assert isinstance(CliRunner().invoke(app, words).exception, FileError)
