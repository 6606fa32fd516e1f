"""A service that starts while a clock is wrong: windows, budgets and retention go on with the right time."""

import asyncio

import pytest

from service.building import ran
from service.serving import made
from sparing.service import clock_file, events
from sparing.service.server import ServerSettings, Service

YEAR = 366 * 24 * events.HOUR
NEAR = 30 * events.SECOND


def machine(ahead=0):
    """The clock of a machine that is wrong by so much."""
    return events.SteadyClock(lambda: events.now() + ahead)


async def crashed(service):
    """End a service as kill -9 does: nothing is finished, nothing tidied."""
    for task in service._tasks:
        task.cancel()
    await asyncio.gather(*service._tasks, return_exceptions=True)
    await service.writer.stop()
    await service.store.close()


def ahead(service):
    return service.clock() - events.now()


@pytest.mark.parametrize("wrong", [YEAR, -YEAR])
def test_a_start_after_a_crash_goes_on_with_the_time_of_before(tmp_path, wrong):
    settings = made(ServerSettings(tmp_path / "store", durability="process"))

    async def story():
        first = Service(settings, clock=machine())
        await first.start()
        await crashed(first)
        for _ in range(2):
            again = Service(settings, clock=machine(wrong))
            await again.start()
            assert abs(ahead(again)) < NEAR
            assert any("clock of this machine jumped" in text for text in again.alarms_of(None))
            await crashed(again)
        note = settings.folder / clock_file.NAME
        assert note.stat().st_mode & 0o777 == 0o600
        last = Service(settings, clock=machine(wrong))
        await last.start()
        await last.stop()  # on purpose: now the machine's clock counts
        assert not note.exists()
        new = Service(settings, clock=machine(wrong))
        await new.start()
        assert abs(ahead(new) - wrong) < NEAR
        assert not any("jumped" in text for text in new.alarms_of(None))
        await new.stop()

    ran(story())


@pytest.mark.parametrize("wrong", [YEAR, -YEAR])
def test_a_worker_starts_with_the_clock_of_the_database(on_postgres, wrong):
    settings = made(ServerSettings(on_postgres.folder, on_postgres.address))

    async def story():
        service = Service(settings, clock=machine(wrong))
        await service.open()
        assert abs(ahead(service)) < NEAR
        assert any("clock of this machine jumped" in text for text in service.alarms_of(None))
        await service.store.close()

    ran(story())


def test_of_two_clocks_that_disagree_the_one_nearer_to_the_last_event_is_right():
    hour, now = events.HOUR, 1000 * events.HOUR
    for other, last, expected in [
        (None, 10 * hour, 1000),  # there is no other
        (500 * hour, 0, 1000),  # there is no event
        (now + 30 * events.SECOND, 10 * hour, 1000),  # they agree
        (900 * hour, 899 * hour, 900),
        (900 * hour, 2000 * hour, 1000),
        (5000 * hour, 4990 * hour, 5000),
        (5000 * hour, 10 * hour, 1000),
    ]:
        clock = events.SteadyClock(lambda: now, lambda: 7)
        clock.start(other, last)
        assert clock() // hour == expected
        assert clock.jump == now - clock()


def test_a_note_of_another_boot_or_a_damaged_one_counts_as_none(tmp_path, monkeypatch):
    assert clock_file.read_offset(tmp_path) is None
    clock_file.write_offset(tmp_path, 123)
    assert clock_file.read_offset(tmp_path) == 123
    boot = tmp_path / "boot"
    boot.write_text("another\n")
    monkeypatch.setattr(clock_file, "BOOT", boot)
    assert clock_file.read_offset(tmp_path) is None
    clock_file.write_offset(tmp_path, 5)
    assert clock_file.read_offset(tmp_path) == 5
    (tmp_path / clock_file.NAME).write_bytes(b'{"boot": "ano')
    assert clock_file.read_offset(tmp_path) is None
    boot.unlink()
    clock_file.remove(tmp_path)
    clock_file.write_offset(tmp_path, 5)  # a system without ids of boots
    assert not (tmp_path / clock_file.NAME).exists()


def test_events_after_the_present_are_an_alarm(tmp_path):
    settings = made(ServerSettings(tmp_path / "store", durability="process"))

    async def nothing(transaction):
        return None

    async def story():
        service = Service(settings, clock=machine())
        await service.start()
        for later in (0, YEAR):
            await service.store.exclusive(("update store set last_ts = $1", [(events.now() + later,)]))
            await service.writer.exclusive(nothing)
            assert any("after this machine's time" in text for text in service.alarms_of(None)) == bool(later)
        await service.stop()

    ran(story())
