"""Limits that keep one request, one key or one failing task from harming the others."""

import asyncio
import heapq
import socket
import stat
import threading

import httpx
import numpy as np
import pytest

from service.building import NAME, asking, contexts, decide, ran, reward, trial
from service.serving import added_key, made, posted, refused, running
from sparing.errors import SettingError
from sparing.service import erasure, events, experiments, server
from sparing.service.errors import ServiceError
from sparing.service.http import endpoint
from sparing.service.messages import Options
from sparing.service.server import LimitedProtocol, ServerSettings, Service
from sparing.service.store.driver import LostError
from sparing.service.writer import Writer

X = contexts(3, 1)[0]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    settings = ServerSettings(tmp_path_factory.mktemp("limits") / "store", durability="process")
    made(settings)
    service = Service(settings)
    with running(service) as url:
        yield service, url


def test_a_session_request_is_short(served):
    with httpx.Client(base_url=served[1]) as http:
        body = {"key": "k" * 5000}
        assert refused(posted(http, body, "/session"), 413, "too_large") == "the request exceeds 4 KiB"


def test_a_large_body_is_decoded_outside_of_the_event_loop(served, monkeypatch):
    where = []

    def decoded(decoder, raw):
        where.append((len(raw) > endpoint.DECODED_HERE, threading.current_thread()))
        return plain(decoder, raw)

    plain = endpoint._decoded
    monkeypatch.setattr(endpoint, "_decoded", decoded)
    with httpx.Client(base_url=served[1]) as http:
        assert posted(http, {"context": [0.1] * 100_000}, "/v1/shop/decide").status_code == 422
        assert posted(http, {"context": [0.5, -0.25, 1.0]}, "/v1/shop/decide").status_code == 200
    (large, elsewhere), (small, loop) = where
    assert (large, small) == (True, False)
    assert elsewhere is not loop


def head(url, size):
    """The first line of the answer to a request whose head has so many bytes."""
    port = int(url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        try:
            for _ in range(size // 8192):
                line.sendall(b"x" * 8192)
            line.sendall(b"\r\n\r\n")
        except OSError:
            pass  # it was closed
        try:
            return line.recv(100).split(b"\r\n")[0]
        except OSError:
            return b""


def test_the_head_of_a_request_is_limited(served):
    url = served[1]
    assert head(url, 16 * 1024) == b"HTTP/1.1 200 OK"
    assert head(url, 4 * 2**20) in (b"HTTP/1.1 431 Request Header Fields Too Large", b"")
    assert head(url, 16 * 1024) == b"HTTP/1.1 200 OK"


def test_expired_decisions_in_order_without_visiting_the_others(tmp_path):
    async def whole():
        async with trial(tmp_path, options=Options(reward_window=60.0), learner="warm_started") as writer:
            model = writer.registry.get(NAME).model
            rng = np.random.default_rng(0)
            times = rng.integers(0, 1000, 400)
            model._expiring = []
            for seq, expires in enumerate(times.tolist()):
                heapq.heappush(model._expiring, (expires, seq))
            model.open = dict.fromkeys(np.flatnonzero(rng.random(400) < 0.7).tolist())
            for now in (-1, 0, 250, 999):
                due = [
                    seq
                    for expires, seq in sorted(zip(times.tolist(), range(400), strict=True))
                    if expires <= now and seq in model.open
                ]
                assert model.expired_pending(now, 10_000) == due
                assert model.expired_pending(now, 7) == due[:7]

            class Watched(list):
                looks = 0

                def __getitem__(self, place):
                    Watched.looks += 1
                    return super().__getitem__(place)

            model._expiring = Watched(model._expiring)
            assert len(model.expired_pending(1000, 5)) == 5
            assert Watched.looks < 60
            model._expiring, model.open = [], {}

    ran(whole())


def test_a_failing_task_is_an_alarm_until_it_succeeds(served):
    service, url = served
    assert httpx.get(f"{url}/readyz").status_code == 200

    async def whole():
        broken = [True]

        async def task():
            if broken[0]:
                raise ServiceError(503, "store", "no space")

        running_task = asyncio.create_task(service._repeat("sweep", 0.001, task))
        await asyncio.sleep(0.05)
        answer = await asyncio.to_thread(httpx.get, f"{url}/readyz")
        assert (answer.status_code, answer.text) == (503, "the sweep failed: no space\n")
        page = (await asyncio.to_thread(httpx.get, f"{url}/v1/shop/summary")).json()
        assert page["health"]["status"] == "degraded"
        assert "the sweep failed: no space" in [
            one["text"] for one in page["look"] if one["level"] == "alarm"
        ]
        metrics = (await asyncio.to_thread(httpx.get, f"{url}/metrics")).text
        assert "sparing_alarms 1.0" in metrics
        broken[0] = False
        await asyncio.sleep(0.05)
        assert (await asyncio.to_thread(httpx.get, f"{url}/readyz")).status_code == 200
        running_task.cancel()

    ran(whole())


def test_a_lost_store_ends_the_process_whoever_sees_it_first(tmp_path):
    ended = []

    async def whole():
        service = Service(ServerSettings(tmp_path / "store"))
        service.writer = Writer(service.store, service.registry, on_lost=ended.append)

        async def task():
            raise LostError("the server was replaced")

        await asyncio.wait_for(service._repeat("heartbeat", 0.001, task), 5)

    ran(whole())
    assert [str(error) for error in ended] == ["the server was replaced"]


def test_a_key_of_a_missing_experiment_learns_no_other_names(tmp_path):
    settings = made(ServerSettings(tmp_path / "store", durability="process"))
    key = added_key(settings, "ghost", "read", "nope")
    with running(settings) as url:
        for path in ("/v1/nope", "/v1/nope/summary", "/v1/experiments"):
            answer = httpx.get(url + path, headers={"Authorization": f"Bearer {key}"})
            assert "shop" not in answer.text


def test_a_new_store_is_for_its_owner_alone(tmp_path):
    made(ServerSettings(tmp_path / "store", durability="process"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "store").glob("*.sqlite*")}
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    assert modes
    assert set(modes.values()) == {0o600}


def test_a_retention_beyond_all_times_is_refused_and_never_fails(tmp_path):
    async def whole():
        async with trial(tmp_path, learner="warm_started") as writer:
            experiment = writer.registry.get(NAME)
            with pytest.raises(SettingError, match="a century"):
                experiments.check_options(Options(retention=1e13), experiment.model.learner)
            await decide(writer, X)
            experiment.model.options = Options(retention=1e13)  # as an older version stored it
            assert await erasure.expire_contexts(writer, experiment, events.now()) is None
            experiment.model.options = Options()

    ran(whole())


def test_a_request_id_cannot_be_the_id_of_another_decision(tmp_path):
    async def whole():
        async with trial(tmp_path, learner="warm_started") as writer:
            first = await writer.submit(asking(X)._replace(decision_id=events.new_id()))
            with pytest.raises(ServiceError) as caught:
                await writer.submit(asking(X, request_id=first.decision_id))
            assert caught.value.code == "request_conflict"
            again = await writer.submit(asking(X, request_id="0192f0c1-2345-7abc-8def-0123456789ab"))
            same = await writer.submit(asking(X, request_id="0192f0c1-2345-7abc-8def-0123456789ab"))
            assert again.decision_id == same.decision_id
            assert (await reward(writer, first, 0.5)).status == "taken"

    ran(whole())


def test_workers_use_the_limited_protocol(monkeypatch):
    seen = {}
    monkeypatch.setattr(server.uvicorn, "Config", lambda *words, **known: seen.update(known))
    monkeypatch.setattr(
        server.uvicorn, "Server", lambda config: type("S", (), {"run": lambda self, bound: None})()
    )
    with server.bound_to("127.0.0.1", 0) as bound:
        server.run(ServerSettings(server.Path("x")), bound, 1, locked=False, say=lambda text: None)
    assert seen["http"] is LimitedProtocol


def test_a_jump_of_the_clock_is_not_followed_but_said(tmp_path):
    hours, day = {"wall": 10.0, "steady": 2.0}, 24.0
    clock = events.SteadyClock(
        *(lambda name=name: round(hours[name] * events.HOUR) for name in ("wall", "steady"))
    )

    def later(wall, steady=0.25):
        hours["wall"] += wall
        hours["steady"] += steady
        return clock() / events.HOUR

    assert later(0.25) == 10.25
    assert later(0.25 + 30 / 3600) == pytest.approx(10.5 + 30 / 3600)  # a correction is followed
    assert later(366 * day) == pytest.approx(10.75 + 30 / 3600)
    assert clock.jump / events.HOUR == pytest.approx(366 * day - 0.25)

    async def told():
        service = Service(ServerSettings(tmp_path / "store"), clock=clock)
        (alarm,) = service.alarms_of("any")
        assert "jumped by +31,621,500 seconds" in alarm

    ran(told())
    assert later(-366 * day + 0.5) == pytest.approx(11.0 + 30 / 3600)
    assert clock.jump == 0
    assert later(0.25 - 2 * day) == pytest.approx(11.25 + 30 / 3600)  # nor is one back
    assert clock.jump < 0
