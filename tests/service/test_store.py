"""What is written is read back bit for bit, whole groups or nothing, in both databases."""

import asyncio
import math
import struct

import apsw
import asyncpg
import msgspec
import pytest

import sparing
from service.workers import (
    CONTEXTS,
    decide,
    digests,
    make,
    opened,
    outcomes,
    replayed,
    reward,
    small_log,
    working,
)
from sparing.errors import FileError
from sparing.service import events
from sparing.service.errors import ServiceError
from sparing.service.events import ChangeEvent, DecisionEvent, OutcomeEvent
from sparing.service.store import driver
from sparing.service.store.driver import StoreError
from sparing.service.transactions import Activate, ChangeSettings, ExpirePending, Reward

REFUSED = (apsw.ConstraintError, asyncpg.IntegrityConstraintViolationError, OverflowError, ValueError)
"""What the databases say of rows that contradict others, or do not fit."""

LONG = "ключ-鍵-🔑-" * 20
TINY, THIRD, LARGE = 5e-324, 1 / 3, 1.7976931348623157e308

FULL = DecisionEvent(
    2, 1, 1_700_000_000_123_456, bytes(range(16)), LONG, bytes(range(32)), b"\0\xff", '"\\u0000"', b"v\0\0\xff",
    b"\x80", "policy", 5, True, "unsure", THIRD, math.nextafter(THIRD, 1), TINY, -LARGE, LARGE, -THIRD, 1, False, 2**62,
)  # fmt: skip
BARE = DecisionEvent(
    3, 1, 1_700_000_000_123_457, b"\xff" * 16, None, None, None, None, None,
    None, "holdout", 0, False, "known", 1.0, 0.0, 0.0, -1.5, 1.5, None, 2, True, None,
)  # fmt: skip
CLOSED = OutcomeEvent(4, 1, 1_700_000_000_123_458, 2, events.REWARD, math.nextafter(0.1, 1), 3)
PART = OutcomeEvent(5, 1, 1_700_000_000_123_459, 3, events.PARTIAL, -TINY)
LEARNT = OutcomeEvent(6, 1, 1_700_000_000_123_460, 3, events.IMPORTED, LARGE, None)
BASE = ChangeEvent(1, 1, 1_700_000_000_000_000, events.BASE, b'{"path":"\xc3\xa9"}', "clé")


def bits(event):
    """An event with every type and every bit of its numbers told apart."""
    values = msgspec.structs.astuple(event)
    return [(type(v).__name__, struct.pack("<d", v) if isinstance(v, float) else v) for v in values]


async def put(store, *found, config="{}"):
    """Write events as one group, of an experiment that is made with the first."""
    rows = await store.begin()
    if rows.last_seq == 0:
        await store.add_experiment("shop", config)
    for one in found:
        rows.events.append(one)
        rows.last_seq, rows.last_ts = one.seq, one.ts
        if type(one) is DecisionEvent:
            rows.count(one, decided=1, rewarded=1, value=THIRD)
    try:
        await store.write(rows)
        await store.commit()
    except BaseException:
        await store.rollback()
        raise


async def listed(store):
    """Every event of the first experiment."""
    return [one async for some in store.events(1, 0, await store.last_seq()) for one in some]


def test_every_event_is_read_back_bit_for_bit(stores):
    async def run():
        async with opened(stores) as store:
            await put(store, BASE, FULL, BARE)
            await put(store, CLOSED, PART, LEARNT)
            found = await listed(store)
            learnt = msgspec.structs.replace(LEARNT, action=0, context=None)
            assert list(map(bits, found)) == list(map(bits, [BASE, FULL, BARE, CLOSED, PART, learnt]))
            ((decision, closed),) = await store.record(1, "d.seq = $2", 2)
            assert bits(decision) == bits(FULL)
            assert (closed.seq, closed.kind, closed.value, closed.played) == (4, "reward", CLOSED.value, 3)
            assert await outcomes(store, 1) == {"reward": 1, "part": 1, "learnt": 1}
            assert await store.driver.size() > 0
        async with opened(stores) as store:
            assert list(map(bits, await listed(store))) == list(map(bits, found))

    asyncio.run(run())


def test_decisions_are_found_by_what_they_are_named(stores):
    async def run():
        async with opened(stores) as store:
            await put(store, BASE, FULL, BARE, CLOSED)
            await store.begin()
            by_id = await store.find("decision_id", [BARE.decision_id, FULL.decision_id, bytes(16)])
            by_request = await store.find_requests(1, [LONG, "another"])
            by_seq = await store.find("seq", [2, 3, 4, 99])
            nothing = [
                *await store.find("decision_id", []),
                *await store.find_requests(2, [LONG]),
                *await store.find_requests(1, ["a\0b", ""]),
            ]
            await store.rollback()
            assert sorted(one.decision.seq for one in by_id) == [2, 3]
            assert [bits(one.decision) for one in by_request] == [bits(FULL)]
            assert {one.decision.seq: one.closed and one.closed.seq for one in by_seq} == {2: 4, 3: None}
            assert nothing == []
            assert await store.record(1, "d.request_id = $2", "a\0b") == []

    asyncio.run(run())


def test_totals_add_up(stores):
    async def run():
        async with opened(stores) as store:
            again = msgspec.structs.replace(BARE, seq=4, decision_id=bytes(16))
            await put(store, BASE, FULL, BARE)
            await put(store, again)
            found = {(one.arm, one.asked): one[4:8] for one in await store.totals(1)}
            square = THIRD * THIRD
            assert found["policy", 1] == (1, 1, THIRD, square)
            assert found["holdout", 0] == (2, 2, THIRD + THIRD, square + square)

    asyncio.run(run())


@pytest.mark.parametrize(
    "bad",
    [
        msgspec.structs.replace(BARE, seq=4),  # the id is used
        msgspec.structs.replace(FULL, seq=4, decision_id=bytes(16)),  # the request's id is used
        msgspec.structs.replace(BARE, seq=2, decision_id=bytes(16)),  # the number is used
        msgspec.structs.replace(BARE, seq=4, decision_id=b"short"),
        msgspec.structs.replace(BARE, seq=4, decision_id=bytes(16), experiment=7),
        msgspec.structs.replace(BARE, seq=4, decision_id=bytes(16), expires=2**63),
        OutcomeEvent(4, 1, BARE.ts, 99, events.REWARD, 1.0),  # of no decision
    ],
)
def test_a_group_is_written_whole_or_not_at_all(stores, bad):
    async def run():
        async with opened(stores) as store:
            await put(store, BASE, FULL, BARE)
            good = msgspec.structs.replace(BARE, seq=4, decision_id=b"\1" * 16)
            late = msgspec.structs.replace(bad, seq=5) if bad.seq == 4 else bad
            with pytest.raises(REFUSED):
                await put(store, good, late)
            assert await store.last_seq() == 3
            assert [one.seq for one in await listed(store)] == [1, 2, 3]
            assert sum(one.decisions for one in await store.totals(1)) == 2
            await put(store, good)  # and the next group is written
            assert [one.seq for one in await listed(store)] == [1, 2, 3, 4]

    asyncio.run(run())


def test_one_outcome_closes_a_decision(stores):
    async def run():
        async with opened(stores) as store:
            await put(store, BASE, FULL, CLOSED)
            with pytest.raises(REFUSED):
                await put(store, OutcomeEvent(5, 1, CLOSED.ts, 2, events.EXPIRED))
            await put(
                store,
                OutcomeEvent(5, 1, CLOSED.ts, 2, events.PARTIAL, 1.0),
                OutcomeEvent(6, 1, CLOSED.ts, 2, events.PARTIAL, 1.0),
            )

    asyncio.run(run())


def test_request_ids_are_unique_in_each_experiment(stores):
    async def run():
        async with opened(stores) as store:
            await put(store, BASE, FULL)
            await store.begin()
            assert await store.add_experiment("other", "{}") == 2
            await store.commit()
            await put(store, msgspec.structs.replace(FULL, seq=3, experiment=2, decision_id=bytes(16)))
            await put(store, msgspec.structs.replace(BARE, seq=4))
            await put(store, msgspec.structs.replace(BARE, seq=5, decision_id=b"\2" * 16))  # no id is no id
            with pytest.raises(REFUSED):
                await put(store, msgspec.structs.replace(FULL, seq=6, decision_id=b"\3" * 16))

    asyncio.run(run())


def test_tables_are_made_once(stores):
    async def run():
        async with opened(stores) as store:
            first, applied = (store.store_id, store.salt), await migrations(store)
            await put(store, BASE)
        async with opened(stores) as store:
            assert (store.store_id, store.salt) == first
            assert await migrations(store) == applied
            assert await store.last_seq() == 1

    asyncio.run(run())


@pytest.mark.parametrize("first", [1, 2])
def test_keys_and_rewards_of_older_tables_are_kept(stores, monkeypatch, first):
    known = driver.scripts()
    monkeypatch.setattr(driver, "scripts", lambda: {n: known[n] for n in range(1, first + 1)})
    keys = [
        (bytes([n]), role, role, None, 1, None, None) for n, role in enumerate(("read", "write", "admin"))
    ]

    async def run():
        async with opened(stores) as store:
            await store.exclusive(
                ("insert into api_keys values ($1, $2, $3, $4, $5, $6, $7)", keys),
                ("insert into experiments values ($1, $2, $3, 0)", [(1, "shop", "{}")]),
                (
                    "insert into decisions (seq, experiment, ts, decision_id, arm, action, needs_reward, reason, play_probability, "
                    "call_probability, value, low, high, model_seq, active) values ($1, 1, 1, $2, 'policy', 0, 1, 'x', 1, 1, 0, 0, 0, 0, 1)",
                    [(2, bytes(16))],
                ),
                (
                    "insert into outcomes values ($1, 1, 1, 2, 'part', $2, null, 0)",
                    [(3, 0.5), (4, 0.5)],
                ),
            )
        monkeypatch.undo()
        async with opened(stores) as store:
            assert [(one.name, one.role) for one in await store.keys()] == [(key[1], key[2]) for key in keys]
            assert await outcomes(store, 1) == {"part": 2}
            new = (b"new", "new", "decide", None, 2, None, None)
            await store.exclusive(("insert into api_keys values ($1, $2, $3, $4, $5, $6, $7)", [new]))
            for bad in (new, (b"other", "other", "root", None, 2, None, None)):
                with pytest.raises(REFUSED):
                    await store.exclusive(("insert into api_keys values ($1, $2, $3, $4, $5, $6, $7)", [bad]))

    asyncio.run(run())


def test_a_partial_reward_that_is_sent_again_counts_once(stores):
    """Before and after a restart, twice in one group, and after the window has closed."""
    clock = [1_700_000_000_000_000]

    async def status(writer, *sent):
        found = await writer.submit_all(sent)
        return [one.code if isinstance(one, ServiceError) else (one.status, one.seq) for one in found]

    async def run():
        async with working(stores, clock=lambda: clock[0]) as writer:
            await make(writer, aggregate="sum", reward_window=60.0, check=1.0)
            one = await writer.submit(decide(0, request_id="visit"))
            other = await writer.submit(decide(1))
            first, again = reward(one, 0.25, reward_id="a"), reward(one, 0.25, reward_id="a")
            (taken, repeated) = await status(writer, first, again)
            assert taken[0] == "part"
            assert repeated == ("duplicate", taken[1])
            assert (await status(writer, Reward("shop", "visit", 0.25, reward_id="a"))) == [repeated]
            assert await status(writer, reward(one, 0.5, reward_id="a")) == ["reward_conflict"]
            assert [kind for kind, _ in await status(writer, reward(other, 0.25, reward_id="a"))] == ["part"]
            assert [kind for kind, _ in await status(writer, *[reward(one, 0.25)] * 2)] == ["part", "part"]
        async with working(stores, clock=lambda: clock[0]) as writer:
            assert await status(writer, first, reward(one, 1.0, reward_id="b")) == [repeated, ("part", 8)]
            clock[0] += 61 * events.SECOND
            await writer.submit(ExpirePending("shop"))
            ((_, closed),) = await writer.store.record(1, "d.request_id = $2", "visit")
            assert (closed.kind, closed.value) == ("reward", 0.25 + 2 * 0.25 + 1.0)
            assert await status(writer, first, reward(one, 1.0, reward_id="c")) == [
                repeated,
                "already_rewarded",
            ]
            assert await status(writer, Reward("nothing", "visit", 1.0, reward_id="a")) == [
                "unknown_experiment"
            ]

    asyncio.run(run())


async def migrations(store):
    return await store.driver.read("select version, sha256, applied from schema_migrations order by version")


def test_newer_tables_are_refused(stores):
    async def run():
        async with opened(stores) as store:
            await store.exclusive(("insert into schema_migrations values ($1, $2, $3)", [(9999, b"x", 1)]))
        with pytest.raises(FileError, match=r"version 9999.*Install a newer sparing"):
            async with opened(stores):
                pass

    asyncio.run(run())


def test_tables_of_another_script_are_refused(stores, monkeypatch):
    async def run():
        async with opened(stores):
            pass
        changed = {number: text + "\n" for number, text in driver.scripts().items()}
        monkeypatch.setattr(driver, "scripts", lambda: changed)
        with pytest.raises(FileError, match="another script"):
            async with opened(stores):
                pass

    asyncio.run(run())


def test_a_script_that_fails_leaves_nothing(stores, monkeypatch):
    async def run():
        async with opened(stores):
            pass
        known = driver.scripts()
        bad = known | {
            max(known) + 1: "create table extra(one integer) strict; create table extra(one integer) strict;"
        }
        with monkeypatch.context() as patched:
            patched.setattr(driver, "scripts", lambda: bad)
            with pytest.raises((FileError, apsw.SQLError)):
                async with opened(stores):
                    pass
        good = known | {max(known) + 1: "create table extra(one integer) strict;"}
        monkeypatch.setattr(driver, "scripts", lambda: good)
        async with opened(stores) as store:
            assert len(await migrations(store)) == len(good)

    asyncio.run(run())


def test_a_store_that_is_not_there_is_not_made_by_reading(stores):
    async def run():
        with pytest.raises(FileError, match="`sparing serve` creates"):
            await stores().open()

    asyncio.run(run())


def test_writers_of_one_process_take_turns(stores):
    async def run():
        async with opened(stores) as store:
            await put(store, BASE)

            async def work(number):
                await store.begin()
                await store.driver.many("update store set last_backup = $1", [(number,)])
                await asyncio.sleep(0.001)
                assert await store.driver.rows("select last_backup from store") == [(number,)]
                await (store.commit() if number % 2 else store.rollback())

            await asyncio.gather(*map(work, range(10)))
            assert await store.driver.read("select last_backup from store") == [(9,)]

    asyncio.run(run())


def test_a_life_with_all_kinds_of_events_is_replayed(stores):
    async def run():
        now = [1_700_000_000 * events.SECOND]
        async with working(stores, clock=lambda: now[0]) as writer:
            plan = {
                "reward_window": 60.0,
                "learn_unasked": True,
                "allow_mismatch": True,
                "check": 0.2,
                "holdout": 0.1,
            }
            await make(writer, **plan)
            economical = sparing.economical(small_log(), call_cost=0.05, horizon=1000)
            await make(writer, "frugal", economical, aggregate="sum", reward_window=60.0, default_reward=0.25)
            for name in ("shop", "frugal"):
                answers = await writer.submit_all(
                    [decide(i, name=name, request_id=f"r{i}") for i in range(40)]
                )
                deferred = [decide(i, name=name)._replace(active=False) for i in range(4)]
                waiting = await writer.submit_all(deferred)
                label = answers[0].action
                rewards = [
                    Reward(name, f"r{i}", THIRD * i, label if i % 5 == 0 else None) for i in range(0, 40, 2)
                ]
                await writer.submit_all([*rewards, *rewards])
                await writer.submit_all([Activate(name, one.decision_id) for one in waiting[:2]])
                await writer.submit(ChangeSettings(name, events.MODE, {"mode": "shadow"}, "test"))
                await writer.submit_all([decide(i, name=name, eligible=[label]) for i in range(5)])
                now[0] += 61 * events.SECOND
                await writer.submit(ExpirePending(name))
            live = digests(writer.registry)
        again, found = await replayed(stores)
        assert live == again
        assert [one.seq for one in found] == list(range(1, len(found) + 1))
        assert {"base", "mode", "reward", "part", "default", "expired", "void", "activated"} <= {
            one.kind for one in found if type(one) is not DecisionEvent
        }

    asyncio.run(run())


def test_a_repeated_request_gives_one_decision(stores):
    async def run():
        async with working(stores) as writer:
            await make(writer)
            first, second = await writer.submit_all([decide(0, request_id="a"), decide(0, request_id="a")])
            third = await writer.submit(decide(0, request_id="a"))
            assert first == second == third
            with pytest.raises(ServiceError, match="another request"):
                await writer.submit(decide(1, request_id="a"))

    asyncio.run(run())


def test_what_was_not_committed_is_forgotten(stores, monkeypatch, capsys):
    """A commit that fails changes neither the store nor the state; what comes after it is as if it had never been."""

    async def run():
        async with working(stores) as writer:
            await make(writer)
            await writer.submit_all([decide(i) for i in range(10)])
            before = digests(writer.registry)
            with monkeypatch.context() as patched:
                patched.setattr(writer.store.driver, "commit", failing)
                with pytest.raises(ServiceError) as problem:
                    await writer.submit(decide(1))
                assert (problem.value.status, problem.value.code) == (503, "store")
                monkeypatch.setattr(writer, "_idle_until", 0.0)
                with pytest.raises(ServiceError):
                    await make(writer, "second")
            monkeypatch.setattr(writer, "_idle_until", 0.0)
            async with working(stores) as other:  # takes the number that the failed one had
                await make(other, "third")
                await other.submit(decide(2, name="third"))
            await writer.submit_all([decide(i) for i in range(5)])
            assert sorted(one.name for one in writer.registry) == ["shop", "third"]
            live = digests(writer.registry)
            assert live["shop"] != before["shop"]
        again, _ = await replayed(stores)
        assert live == again

    async def failing():
        raise StoreError("no")

    asyncio.run(run())


def test_a_catch_up_that_fails_half_way_takes_nothing_in_twice(stores, monkeypatch):
    async def run():
        async with working(stores) as one, working(stores) as two:
            await make(one)
            await make(one, "second")
            await two.catch_up()
            for name in ("shop", "second"):
                await one.submit_all([decide(i, name=name) for i in range(20)])
            read, count = two.store.driver.read, iter(range(100))

            async def sometimes(statement, *values):
                if next(count) in (5, 9):
                    raise StoreError("no")
                return await read(statement, *values)

            monkeypatch.setattr(two.store.driver, "read", sometimes)
            for _ in range(2):
                with pytest.raises(StoreError):
                    await two.catch_up()
            await two.catch_up()
            assert digests(two.registry) == digests(one.registry)

    asyncio.run(run())


def test_a_missing_state_is_an_answer_and_not_a_hang(stores, capsys):
    async def run():
        async with working(stores) as one, working(stores) as two:
            await make(one)
            for path in (stores.folder / "bases").iterdir():
                path.unlink()
            with pytest.raises(ServiceError) as problem:
                await asyncio.wait_for(two.submit(decide(0)), 10)
            assert (problem.value.status, problem.value.code) == (503, "failed")
            assert str(stores.folder) not in problem.value.detail

    asyncio.run(run())
    assert "Restore it from a backup" in capsys.readouterr().err


def test_contexts_keep_their_bits(stores):
    async def run():
        async with working(stores) as writer:
            await make(writer)
            await writer.submit_all([decide(i) for i in range(len(CONTEXTS))])
        _, found = await replayed(stores)
        kept = [events.unpack_context(one.context) for one in found if type(one) is DecisionEvent]
        assert [one.tobytes() for one in kept] == [struct.pack("<3d", *context) for context in CONTEXTS]

    asyncio.run(run())
