"""Several workers on one PostgreSQL: one order without gaps, whatever happens to connections and to the server."""

import asyncio
import contextlib
import time

import msgspec
import pytest

from service.clusters import PASSWORD, SHARED, USER
from service.workers import Place, decide, digests, make, opened, replayed, reward, working
from sparing.errors import FileError, SettingError, SparingError
from sparing.service import events
from sparing.service.errors import ServiceError
from sparing.service.events import DecisionEvent, OutcomeEvent
from sparing.service.messages import DecideAnswer, DecideRequest, RewardAnswer
from sparing.service.store import driver, postgres
from sparing.service.store.driver import LostError, StoreError
from sparing.service.store.postgres import translated
from sparing.service.transactions import Reward


@contextlib.asynccontextmanager
async def two_workers(place, **options):
    """Two workers, and an experiment that the first has made and the second knows."""
    async with working(place) as one, working(place) as two:
        await make(one, **options)
        await two.catch_up()
        yield one, two


async def settled(place, *writers):
    """What all agree on: the states of writers that have caught up, and of a fresh replay. All events in their order."""
    for writer in writers:
        await writer.catch_up()
    again, found = await replayed(place)
    for writer in writers:
        assert digests(writer.registry) == again
    assert [one.seq for one in found] == list(range(1, len(found) + 1))
    return found


def stubborn(writer, work, *, until):
    """Submit again and again, as a client does that gets a 503."""

    async def trying():
        while True:
            try:
                return await writer.submit(work)
            except ServiceError as problem:
                if problem.status != 503 or time.monotonic() > until:
                    raise
                await asyncio.sleep(0.05)

    return trying()


def hurried(*stores):
    """Let the connections that stores have wait less long for an answer."""
    for store in stores:
        for connection in (store.driver._writer, *store.driver._idle):
            connection._config = connection._config._replace(command_timeout=0.5)


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch):
    monkeypatch.setattr("sparing.service.writer.IDLE_SECONDS", 0.02)


# Two workers.


def test_two_writers_leave_no_gap_and_agree(on_postgres):
    """A reader that follows `seq > s` misses nothing, and everyone's state is the fold of the same order."""

    async def run():
        async with two_workers(on_postgres) as (one, two), opened(on_postgres) as third:
            stop, followed = asyncio.Event(), [1]

            async def follow():
                while not (stop.is_set() and followed[-1] == await third.last_seq()):
                    async for some in third.events(1, followed[-1], await third.last_seq()):
                        followed.extend(event.seq for event in some)

            async def client(writer, number):
                for turn in range(25):
                    answer = await writer.submit(decide(number + turn))
                    if answer.needs_reward and turn % 3:
                        await writer.submit(reward(answer, 0.1 * turn))

            following = asyncio.create_task(follow())
            await asyncio.gather(*(client((one, two)[i % 2], i) for i in range(12)))
            stop.set()
            await following
            assert min(one.groups, two.groups) > 10
            found = await settled(on_postgres, one, two)
            assert followed == [event.seq for event in found]
            assert sum(type(event) is DecisionEvent for event in found) == 300

    asyncio.run(run())


def test_a_reward_that_two_workers_get_at_once_counts_once(on_postgres):
    async def run():
        async with two_workers(on_postgres) as (one, two):
            asked = [
                answer
                for answer in await one.submit_all([decide(i) for i in range(60)])
                if answer.needs_reward
            ]
            assert len(asked) > 10
            taken = duplicates = conflicts = 0
            for place, answer in enumerate(asked):
                values = (1.0, 1.0) if place % 2 else (1.0, 0.5)
                both = await asyncio.gather(
                    one.submit(reward(answer, values[0])),
                    two.submit(reward(answer, values[1])),
                    return_exceptions=True,
                )
                taken += sum(isinstance(each, RewardAnswer) and each.status == "taken" for each in both)
                duplicates += sum(
                    isinstance(each, RewardAnswer) and each.status == "duplicate" for each in both
                )
                conflicts += sum(
                    isinstance(each, ServiceError) and each.code == "already_rewarded" for each in both
                )
            assert (taken, duplicates) == (len(asked), len(asked) // 2)
            assert conflicts == len(asked) - duplicates
            found = await settled(on_postgres, one, two)
            closing = [
                each.decision_seq
                for each in found
                if type(each) is OutcomeEvent and each.kind in events.CLOSING
            ]
            assert len(closing) == len(set(closing)) == len(asked)

    asyncio.run(run())


def test_a_request_that_two_workers_get_at_once_is_decided_once(on_postgres):
    async def run():
        async with two_workers(on_postgres) as (one, two):
            for place in range(25):
                first, second = await asyncio.gather(
                    one.submit(decide(place, request_id=f"r{place}")),
                    two.submit(decide(place, request_id=f"r{place}")),
                )
                assert first == second
            found = await settled(on_postgres, one, two)
            assert len(found) == 1 + 25

    asyncio.run(run())


def test_a_budget_is_one_for_all_workers(on_postgres):
    async def run():
        async with two_workers(on_postgres, budget_calls=17, holdout=0.5) as (one, two):
            works = [writer.submit(decide(i)) for i in range(40) for writer in (one, two)]
            answers = await asyncio.gather(*works)
            assert sum(answer.needs_reward for answer in answers) == 17
            assert sum(answer.reason == events.BUDGET for answer in answers) > 5
            await settled(on_postgres, one, two)

    asyncio.run(run())


def test_experiments_made_by_one_are_served_by_the_other(on_postgres):
    async def run():
        async with working(on_postgres) as one, working(on_postgres) as two:
            made = await asyncio.gather(make(one, "a"), make(two, "b"), make(one, "c"))
            assert sorted(each.number for each in made) == [1, 2, 3]
            both = await asyncio.gather(make(one, "same"), make(two, "same"), return_exceptions=True)
            assert sorted(type(each).__name__ for each in both) == ["Experiment", "ServiceError"]
            for name in ("a", "b", "c", "same"):
                for writer in (one, two):
                    assert isinstance(await writer.submit(decide(0, name=name)), DecideAnswer)
            await settled(on_postgres, one, two)

    asyncio.run(run())


# Connections that are lost.


def test_a_connection_lost_between_groups_is_replaced(cluster, on_postgres):
    async def run():
        async with two_workers(on_postgres) as (one, two):
            before = await one.submit(decide(0))
            await cluster.end_connections()
            await asyncio.sleep(0.05)
            assert isinstance(await one.submit(decide(1)), DecideAnswer)
            assert (await two.submit(reward(before))).status in ("taken", "unasked")
            await settled(on_postgres, one, two)

    asyncio.run(run())


@pytest.mark.parametrize("at", ["rows", "matching", "many", "read"])
def test_a_connection_lost_within_a_group_undoes_it(cluster, on_postgres, monkeypatch, at):
    async def run():
        async with two_workers(on_postgres) as (one, two):
            kept = await one.submit_all([decide(i) for i in range(10)])
            await two.submit(decide(0))
            driver = one.store.driver
            real = getattr(driver, at)

            async def cut(*given):
                await cluster.end_connections()
                return await real(*given)

            with monkeypatch.context() as patched:
                patched.setattr(driver, at, cut)
                with pytest.raises(ServiceError) as problem:
                    await one.submit(decide(1, request_id="a"))
            assert (problem.value.status, problem.value.code) == (503, "store")
            until = time.monotonic() + 10
            answer = await stubborn(one, decide(1, request_id="a"), until=until)
            assert answer == await stubborn(two, decide(1, request_id="a"), until=until)
            found = await settled(on_postgres, one, two)
            stored = {events.id_text(each.decision_id) for each in found if type(each) is DecisionEvent}
            assert stored == {each.decision_id for each in (*kept, answer)} | {
                events.id_text(found[11].decision_id)
            }

    asyncio.run(run())


def test_what_was_answered_is_there_whatever_is_cut(cluster, on_postgres):
    """Connections end all the time, also in commits; whoever got an answer finds it, and all states are the replay's."""
    lost = []

    async def run():
        async with (
            working(on_postgres, on_lost=lost.append) as one,
            working(on_postgres, on_lost=lost.append) as two,
        ):
            await make(one)
            answered, until = [], time.monotonic() + 30

            async def client(writer, number):
                for turn in range(12):
                    work = decide(turn, request_id=f"{number}-{turn}")
                    answered.append(await stubborn(writer, work, until=until))

            async def cut():
                while True:
                    await asyncio.sleep(0.03)
                    await cluster.end_connections()

            cutting = asyncio.create_task(cut())
            clients = [asyncio.create_task(client((one, two)[i % 2], i)) for i in range(6)]
            await asyncio.sleep(1.5)
            cutting.cancel()
            await asyncio.gather(cutting, return_exceptions=True)
            await asyncio.gather(*clients)
            for writer in (one, two):
                await stubborn(writer, decide(0), until=until)
            found = await settled(on_postgres, one, two)
            stored = [events.id_text(each.decision_id) for each in found if type(each) is DecisionEvent]
            assert len(stored) == len(answered) + 2 == 74
            assert {each.decision_id for each in answered} <= set(stored)

    asyncio.run(run())


@pytest.mark.parametrize("ended", [True, False])
def test_a_commit_without_an_answer_is_said_to_be_lost(cluster, on_postgres, ended):
    """The connection ends before it is answered, or nothing comes: only a new start knows what is there."""

    async def run():
        async with opened(on_postgres) as store:
            await store.begin()
            pid = store.driver._writer.get_server_pid()
            hurried(store)
            thaw = cluster.freeze([pid])
            try:
                committing = asyncio.create_task(store.commit())
                await asyncio.sleep(0.05)
                if ended:
                    await cluster.run(f"select pg_terminate_backend({pid})")
                    thaw()
                with pytest.raises(LostError, match="in a commit"):
                    await committing
            finally:
                thaw()
            await store.rollback()

    asyncio.run(run())


def test_a_connection_lost_before_a_commit_undoes_it(cluster, on_postgres):
    async def run():
        async with opened(on_postgres) as store:
            await store.begin()
            await store.driver.many("update store set last_backup = $1", [(1,)])
            await cluster.end_connections()
            await asyncio.sleep(0.05)
            with pytest.raises(StoreError, match="was lost"):
                await store.commit()
            await store.rollback()
            assert await store.driver.read("select last_backup from store") == [(None,)]

    asyncio.run(run())


def test_a_commit_of_what_was_undone_is_not_taken_for_one(on_postgres):
    """PostgreSQL answers ROLLBACK, and no error, to a commit after a statement that failed."""

    async def run():
        async with opened(on_postgres) as store:
            await store.begin()
            await store.driver.many("update store set last_backup = $1", [(1,)])
            with pytest.raises(Exception, match="does not fit"):
                await store.driver.rows("select 1 / 0")
            with pytest.raises(StoreError, match="undid"):
                await store.commit()
            await store.rollback()
            assert await store.driver.read("select last_backup from store") == [(None,)]

    asyncio.run(run())


def test_a_worker_that_waits_for_another_gives_up(on_postgres, monkeypatch):
    monkeypatch.setitem(postgres.SETTINGS, "lock_timeout", "200ms")

    async def run():
        async with two_workers(on_postgres) as (one, two):
            await one.store.begin()
            began = time.monotonic()
            with pytest.raises(ServiceError, match="another worker") as problem:
                await two.submit(decide(0))
            assert problem.value.status == 503
            assert time.monotonic() - began < 5
            assert len(await two.store.experiments()) == 1  # reading goes on
            await one.store.rollback()
            assert isinstance(await stubborn(two, decide(0), until=time.monotonic() + 10), DecideAnswer)
            await settled(on_postgres, one, two)

    asyncio.run(run())


def test_a_writer_that_says_nothing_is_put_out(on_postgres):
    async def run():
        async with two_workers(on_postgres) as (one, two):
            await one.store.begin()
            await one.store.driver.script("set idle_in_transaction_session_timeout = '200ms'")
            assert isinstance(await two.submit(decide(0)), DecideAnswer)
            with pytest.raises(StoreError):
                await one.store.commit()
            await one.store.rollback()
            assert isinstance(await one.submit(decide(0)), DecideAnswer)
            await settled(on_postgres, one, two)

    asyncio.run(run())


# A server that stops, crashes, or says nothing.


def test_a_stopped_server_gives_errors_and_is_found_again(cluster, on_postgres):
    async def run():
        async with two_workers(on_postgres) as (one, two):
            await one.submit_all([decide(i) for i in range(10)])
            await asyncio.to_thread(cluster.stop)
            try:
                began = time.monotonic()
                for writer in (one, two):
                    with pytest.raises(ServiceError, match=r"cannot be reached|was lost"):
                        await writer.submit(decide(0))
                    with pytest.raises(StoreError):
                        await writer.catch_up()
                assert time.monotonic() - began < 10
            finally:
                await asyncio.to_thread(cluster.start)
            until = time.monotonic() + 20
            for writer in (one, two):
                assert isinstance(await stubborn(writer, decide(0), until=until), DecideAnswer)
            assert len(await settled(on_postgres, one, two)) == 1 + 10 + 2

    asyncio.run(run())


def test_a_server_that_crashed_may_have_forgotten_and_is_not_written_to(cluster, on_postgres):
    lost = []

    async def run():
        async with working(on_postgres, on_lost=lost.append) as one:
            await make(one)
            await one.submit(decide(0))
            await asyncio.to_thread(cluster.stop, "immediate")
            await asyncio.to_thread(cluster.start)
            with pytest.raises(ServiceError, match="the service stops"):
                await one.submit(decide(0))
            assert "crash" in str(lost[0])
            async with working(on_postgres) as two:  # a new start reads the truth
                assert isinstance(await two.submit(decide(0)), DecideAnswer)
                await settled(on_postgres, two)
        assert len(await settled(on_postgres)) == 3

    asyncio.run(run())


def test_a_server_that_says_nothing_is_not_waited_for(cluster, on_postgres, monkeypatch):
    async def run():
        async with two_workers(on_postgres) as (one, two):
            hurried(one.store, two.store)
            listed = await cluster.run(f"select pid from pg_stat_activity where datname = '{SHARED}'")
            thaw = cluster.freeze([cluster.postmaster(), *(pid for (pid,) in listed)])
            try:
                with monkeypatch.context() as patched:
                    patched.setattr(postgres, "CONNECT_S", 0.5)
                    began = time.monotonic()
                    for writer in (one, two):
                        with pytest.raises(ServiceError) as problem:
                            await writer.submit(decide(0))
                        assert problem.value.status == 503
                        with pytest.raises(StoreError):
                            await writer.catch_up()
                    assert time.monotonic() - began < 10
            finally:
                thaw()
            until = time.monotonic() + 20
            for writer in (one, two):
                assert isinstance(await stubborn(writer, decide(0), until=until), DecideAnswer)
            await settled(on_postgres, one, two)

    asyncio.run(run())


# What is said of databases that cannot hold a store.


def refused(address, folder, **settings):
    """What is said when a store is opened there; never a part of the address."""

    async def run():
        with pytest.raises(SparingError) as problem:
            async with opened(Place(folder, address), **settings):
                pass
        assert isinstance(problem.value, FileError | SettingError)
        for secret in (PASSWORD, PASSWORD.replace(" ", "%20"), "127.0.0.1", USER):
            assert secret not in str(problem.value)
        assert problem.value.__cause__ is None
        return str(problem.value)

    return asyncio.run(run())


def test_errors_teach_and_hide_the_address(cluster, tmp_path):
    there = cluster.address(SHARED)
    assert "cannot be reached" in refused(cluster.address(SHARED, port=1), tmp_path)
    assert "user or password" in refused(cluster.address(SHARED, password="another"), tmp_path)
    assert "user or password" in refused(cluster.address(SHARED, user="nobody"), tmp_path)
    assert "createdb" in refused(cluster.address("not_there"), tmp_path)
    assert "is not valid" in refused(there.replace(str(cluster.port), "port"), tmp_path)
    assert "is not valid" in refused(there + "?sslmode=sometimes", tmp_path)
    assert "SQLSTATE 42704" in refused(there + "?no_such_setting=1", tmp_path)
    assert "no existing schema" in refused(there + "?search_path=not_there", tmp_path)
    latin = cluster.database("encoding 'LATIN1' template template0")
    assert "encoding is LATIN1" in refused(latin, tmp_path)


def test_old_servers_are_refused(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(postgres, "OLDEST", 99)
    assert "must be 99 or newer" in refused(cluster.address(SHARED), tmp_path)


def test_a_server_without_fsync_keeps_no_promise_of_power(cluster, on_postgres):
    async def told(word):
        await cluster.run(f"alter system set fsync = {word}")
        await cluster.run("select pg_reload_conf()")
        while await cluster.run("show fsync") != [(word,)]:
            await asyncio.sleep(0.01)

    async def run():
        async with opened(on_postgres, durability="process"):
            pass

    asyncio.run(told("off"))
    try:
        assert "fsync = off" in refused(on_postgres.address, on_postgres.folder)
        asyncio.run(run())
    finally:
        asyncio.run(told("on"))


def test_tables_of_others_are_left_alone(cluster, tmp_path):
    taken, half = cluster.schema(), cluster.schema()
    cluster.execute("create table schema_migrations(version text primary key)", taken)
    assert "another program" in refused(taken, tmp_path)
    cluster.execute("create table decisions(id int)", half)
    assert "another program" in refused(half, tmp_path)
    for address in (taken, half):
        found = cluster.execute(
            "select tablename from pg_tables where schemaname = current_schema()", address
        )
        assert {name for (name,) in found} <= {"schema_migrations", "decisions", "server_life"}


def test_a_user_who_may_not_create_tables_is_refused(cluster, tmp_path):
    cluster.execute("create role guest login password 'guest'")
    guest = cluster.address(SHARED, user="guest", password="guest")
    assert "may not create tables" in refused(guest, tmp_path)


def test_durability_is_the_servers(cluster, on_postgres):
    async def run():
        for durability, said in (("power", "on"), ("process", "off")):
            async with opened(on_postgres, durability=durability) as store:
                assert await store.driver.rows("show synchronous_commit") == [(said,)]

    asyncio.run(run())


def test_reading_changes_nothing_and_many_read_at_once(on_postgres):
    async def run():
        async with opened(on_postgres) as store:
            with pytest.raises(StoreError):
                await store.driver.read("update store set last_backup = 1")
            found = await asyncio.gather(*(store.last_seq() for _ in range(40)))
            assert found == [0] * 40
            assert len(store.driver._idle) <= postgres.READERS

    asyncio.run(run())


def test_reading_can_be_cancelled_at_any_point(on_postgres):
    """A cancellation that got lost would let a task go on for ever, and the service never stop."""

    async def run():
        async with opened(on_postgres) as store:

            async def follow():
                while True:
                    await store.last_seq()

            for steps in range(60):
                following = asyncio.create_task(follow())
                for _ in range(steps):
                    await asyncio.sleep(0)
                following.cancel()
                done, _ = await asyncio.wait([following], timeout=5)
                assert done, f"it goes on after a cancellation at step {steps}"
                assert following.cancelled()
            assert await store.last_seq() == 0

    asyncio.run(run())


def test_writing_can_be_cancelled_at_any_point(on_postgres):
    """What was begun is undone or done, the lock is free, and the next one writes."""

    async def run():
        async with opened(on_postgres) as store:
            for steps in range(40):
                writing = asyncio.create_task(
                    store.exclusive(("update store set last_backup = $1", [(steps,)]))
                )
                for _ in range(steps):
                    await asyncio.sleep(0)
                await asyncio.sleep(0.0002 * (steps % 20))
                writing.cancel()
                done, _ = await asyncio.wait([writing], timeout=10)
                assert done, f"it goes on after a cancellation at step {steps}"
                async with asyncio.timeout(10):
                    await store.exclusive(("update store set last_backup = $1", [(-steps,)]))
                assert await store.driver.read("select last_backup from store") == [(-steps,)]

    asyncio.run(run())


def test_values_are_what_python_means(on_postgres):
    """Types as SQLite gives them, but −0.0 and NaN, which PostgreSQL keeps; a value that does not fit is never shown."""

    async def run():
        async with opened(on_postgres) as store:
            asked = "select $1::bigint, $2::float8, $3::bytea, $4::text, $5::bigint, $6::float8"
            ((*found,),) = await store.driver.read(asked, True, -0.0, b"\0\xff", "é", None, 3)
            assert repr(found) == "[1, -0.0, b'\\x00\\xff', 'é', None, 3.0]"
            assert type((await store.driver.read("select 1::bigint"))[0]) is tuple
            assert await store.driver.read("select $1::text", "\ud800") == []
            with pytest.raises(ValueError, match="does not fit") as problem:
                await store.driver.read("select $1::bigint", "a secret")
            assert "secret" not in str(problem.value)

    asyncio.run(run())


def test_no_text_of_a_request_fails_its_group(on_postgres):
    async def run():
        async with two_workers(on_postgres) as (one, _):
            works = [
                Reward("shop", "a\0b", 1.0),
                decide(0, request_id="é" * 256),
                Reward("shop", "\ud800", 1.0),
            ]
            bad, good, worse = await one.submit_all(works)
            assert isinstance(good, DecideAnswer)
            assert (bad.status, worse.status) == (404, 404)

    asyncio.run(run())
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"context": [], "request_id": "a\\u0000b"}', type=DecideRequest)


def test_every_word_of_sqlite_is_translated():
    for text in [driver.MIGRATIONS_TABLE, *driver.scripts().values(), postgres.LIFE]:
        for word in ("strict", "rowid", "blob", "integer", "real ", " length("):
            assert word not in translated(text)
    kept = "create table strictly(blobs text, realm text);"
    assert translated(kept) == kept
