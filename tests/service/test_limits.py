"""Limits that keep one request, one key or one failing task from harming the others."""

import asyncio
import base64
import contextlib
import heapq
import socket
import stat
import threading

import httpx
import msgspec
import numpy as np
import pytest

import sparing
from service.building import LOG, NAME, asking, contexts, decide, ran, replayed, reward, same, trial
from service.serving import added_key, columns_log, made, posted, refused, running
from sparing.errors import SettingError
from sparing.log.log import Log
from sparing.service import erasure, events, experiments, maintenance, server, snapshots
from sparing.service import writer as writing
from sparing.service.errors import ServiceError
from sparing.service.events import DecisionEvent
from sparing.service.http import endpoint
from sparing.service.messages import DecideRequest, Options, OptionsPatch
from sparing.service.server import LimitedProtocol, ServerSettings, Service
from sparing.service.store.driver import LostError
from sparing.service.transactions import Decide
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


def taken(line, part, most):
    """How many bytes of a part, sent again and again, a service takes before it closes the connection."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            sent += line.send(part)
    return sent


@pytest.mark.parametrize("path", ["/session", "/healthz"])  # read by the service, and not
@pytest.mark.parametrize("trailers", [b"x" * 8192, b"X: y\r\n" * 1024])
def test_trailers_of_a_body_are_limited(served, path, trailers):
    port = int(served[1].rpartition(":")[2])
    start = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(start.encode() + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Long: ")
        assert taken(line, trailers, 2**26) < 2**26
    assert head(served[1], 16 * 1024) == b"HTTP/1.1 200 OK"


def test_a_body_in_chunks_may_be_longer_than_a_head(served):
    content = msgspec.json.encode(
        {"context": [0.5, -0.25, 1.0], "request_id": "x" * 300, "eligible": [0] * 100_000}
    )
    with httpx.Client(base_url=served[1]) as http:
        for size in (7, 1 << 17):
            parts = (content[start : start + size] for start in range(0, len(content), size))
            answer = http.post("/v1/shop/decide", content=parts, headers={"Content-Type": "application/json"})
            assert answer.status_code == 422


AGES = np.random.default_rng(5).uniform(18, 80, 4000)
OLD = np.random.default_rng(6).integers(0, 2, 4000)
CHANCES = np.where(OLD == 1, 0.1 + 0.8 * (AGES - 18) / 62, 0.9 - 0.8 * (AGES - 18) / 62)
CLICKS = (np.random.default_rng(7).random(4000) < CHANCES).astype(float)
"""One of two actions is for the old: the best policy earns .7, any policy without the age .5."""

ENCODED = (AGES - AGES.mean()) / AGES.std()
COLUMNS = {
    "number": ({"age": AGES}, lambda age: {"age": age}, [[1.0, 1e6], [1.0, -1e6], [-1e50, 1e50]]),
    "raw": (
        np.stack([np.ones(4000), ENCODED], axis=1),
        lambda age: [1.0, (age - AGES.mean()) / AGES.std()],
        [[1.0, 1e6], {"x_0": 1.0, "x_1": -1e6}, [1e30, 1e30]],
    ),
    "vector": (
        {"seen": np.stack([AGES / 50, np.sin(AGES)], axis=1).tolist()},
        lambda age: {"seen": [age / 50, np.sin(age)]},
        [{"seen": [1e40, 0.0]}, {"seen": [-1e40, 1e40]}, [1.0, 1e50, 0.0]],
    ),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("learner", ["economical", "confident", "linucb"])
def test_rewards_in_contexts_far_from_the_log_do_not_outweigh_it(tmp_path, kind, learner):
    rows, context, far = COLUMNS[kind]
    names = ["young", "old"]
    if isinstance(rows, dict):
        table = {**rows, "action": [names[old] for old in OLD], "reward": CLICKS}
        log = sparing.read_log(table, features="auto")
    else:
        log = Log.from_arrays(rows, [names[old] for old in OLD], CLICKS, action_names=names)

    async def whole():
        options = Options(check=1.0, learn_unasked=True)
        kernel = {} if learner == "linucb" else {"kernel": 3}
        async with trial(tmp_path, learner, options, log=log, **kernel) as writer:

            def earned():
                model, found = writer.registry.get(NAME).model, []
                for age in np.linspace(18, 80, 200):
                    best = model.learner.best(model.learner.context(context(age)))
                    gain = 0.8 * (age - 18) / 62
                    found.append(0.1 + gain if model.labels[best] == "old" else 0.9 - gain)
                return np.mean(found)

            assert earned() > 0.69
            for action in 4 * names:
                for each in far:
                    asked = DecideRequest(context=each, eligible=[action])
                    await reward(writer, await writer.submit(Decide(NAME, asked, events.new_id())), 0.0)
            assert earned() > 0.69
            same(await replayed(writer), writer.registry.get(NAME).model)

    ran(whole())


def test_contexts_within_the_limits_are_stored_as_they_came(tmp_path):
    async def whole():
        async with trial(tmp_path) as writer:
            reach = np.abs(LOG.contexts).max(axis=0)
            given = [5 * reach, [-0.0, 0.0, 0.1], [1e40, -1e40, 0.5]]
            for x in given:
                await decide(writer, x)
            found = await writer.store.driver.read("select context from decisions order by seq")
            far = [5 * reach[0], -5 * reach[1], 0.5]
            assert [bytes(one) for (one,) in found] == [events.pack_context(x) for x in [*given[:2], far]]

    ran(whole())


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
        assert "sparing_ready 0.0" in metrics
        broken[0] = False
        await asyncio.sleep(0.05)
        assert (await asyncio.to_thread(httpx.get, f"{url}/readyz")).status_code == 200
        metrics = (await asyncio.to_thread(httpx.get, f"{url}/metrics")).text
        assert "sparing_alarms 0.0" in metrics
        assert "sparing_ready 1.0" in metrics
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


def test_state_files_are_for_their_owner_also_in_a_folder_that_was_there(tmp_path):
    """They have the contexts of pending calls."""
    (tmp_path / "store").mkdir(mode=0o755)

    async def whole():
        async with trial(tmp_path / "store") as writer:
            await decide(writer, X)
            await snapshots.snapshot_here(writer, writer.registry.get(NAME))
        await maintenance.backup(tmp_path / "store", tmp_path / "copy")

    ran(whole())
    for store in ("store", "copy"):
        for folder in ("bases", "snapshots"):
            assert stat.S_IMODE((tmp_path / store / folder).stat().st_mode) == 0o700


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


def test_large_contexts_are_refused_and_larger_ones_can_be_allowed(tmp_path):
    settings = made(ServerSettings(tmp_path / "store", durability="process"), log=columns_log())
    with running(settings) as url, httpx.Client(base_url=url) as http:

        def sent(size):
            context = {"age": 31, "device": "x" * size}
            return posted(http, {"context": context}, "/v1/shop/decide")

        frame = len('{"age":31,"device":""}') + 1
        assert sent(2**16 - frame).status_code == 200
        assert "max_context" in refused(sent(2**16 - frame + 1), 413, "context_too_large", "context")
        items = posted(
            http,
            {
                "decisions": [
                    {"context": {"age": 31, "device": "x" * 2**17}},
                    {"context": {"age": 3, "device": "y"}},
                ]
            },
            "/v1/shop/decide/batch",
        )
        assert [one["status"] for one in items.json()["items"]] == [413, 200]
        assert http.patch("/v1/shop", json={"max_context": 2**20}).status_code == 200
        assert sent(2**18).status_code == 200
        assert http.get("/v1/shop/summary").status_code == 200


def test_recent_decisions_are_bounded_by_number_and_bytes(monkeypatch):
    monkeypatch.setattr(writing, "MAX_RECENT", 10)
    monkeypatch.setattr(writing, "MAX_RECENT_BYTES", 5000)
    known = writing.RecentDecisions()

    def event(number, size):
        return DecisionEvent(number, 1, 0, number.to_bytes(16), None, None, None, None, bytes(size), None)

    for number in range(1, 21):
        known.add(event(number, 10))
    assert [number for number in range(21) if known.get(number.to_bytes(16))] == [*range(11, 21)]
    known.add(event(30, 4950))
    assert known.size <= 5000
    assert len(known) == 6
    known.add(event(31, 10**6))  # even the newest is not kept
    assert (len(known), known.size) == (0, 0)


@pytest.mark.parametrize(
    ("given", "window"),
    [
        ({}, 30 * 86400.0),
        ({"reward_window": None}, None),
        ({"reward_window": 60.0}, 60.0),
        ({"retention": 3600.0}, 3600.0),
        ({"aggregate": "sum"}, None),
        ({"default_reward": 0.0}, None),
    ],
)
def test_calls_of_a_new_experiment_expire(given, window):
    patch = msgspec.convert(given, OptionsPatch)
    assert experiments.new_options(patch).reward_window == window
    said = {name: "null" if value is None else value for name, value in given.items()}
    assert server.parse_rules(said).reward_window == window
    assert msgspec.convert({}, Options).reward_window is None  # of a stored experiment: as it was


def test_the_default_window_is_of_new_experiments_over_http(tmp_path):
    with (
        running(ServerSettings(tmp_path / "store", durability="process")) as url,
        httpx.Client(base_url=url) as http,
    ):
        log = {
            "content": base64.b64encode(b"x,a,r\n1,u,0\n2,v,1\n3,u,1\n4,v,0\n").decode(),
            "filename": "log.csv",
        }
        log["columns"] = {"action": "a", "reward": "r"}
        for name, options, window in (("old", {"reward_window": None}, None), ("new", {}, 30 * 86400.0)):
            body = {"name": name, "log": log, "learner": "confident", "options": options}
            assert posted(http, body, "/v1/experiments").status_code == 201
            assert http.get(f"/v1/{name}").json()["options"]["reward_window"] == window


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
