"""The client: one decision however many answers are lost, an answer of its own in time, problems as errors."""

import contextlib
import math
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import httpx
import msgspec
import numpy as np
import pytest

from service.serving import PLAIN, RAW, added_key, columns_log, made, running
from sparing.errors import SparingError
from sparing.service import Client, ServiceProblem, UnreachableError
from sparing.service.messages import DecideAnswer, DecideRequest, RewardAnswer
from sparing.service.server import ServerSettings

SLACK = 0.5
"""Seconds that a busy machine may add to a time limit."""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    settings = ServerSettings(tmp_path_factory.mktemp("client") / "store", durability="process")
    with running(made(made(settings), "banners", columns_log())) as address:
        yield address


def client(url, experiment="shop", **settings):
    return Client(url, experiment, **{"timeout": 10.0, **settings})


@contextlib.contextmanager
def broken(hangs):
    """A server that takes connections and never answers, or that closes them; its URL, and how often it was asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    asked, kept, over = [], [], threading.Event()

    def serve():
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                asked.append(connection.recv(65536))
                if hangs:
                    kept.append(connection)
                else:
                    connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        over.set()
        thread.join()
        for connection in [*kept, listener]:
            connection.close()


class Lossy(httpx.BaseTransport):
    """Sends requests on, and loses the first answers."""

    def __init__(self, lost):
        self.lost, self.sent, self._real = lost, [], httpx.HTTPTransport()

    def handle_request(self, request):
        self.sent.append(request.read())
        response = self._real.handle_request(request)
        if len(self.sent) > self.lost:
            return response
        response.read()
        response.close()
        raise httpx.ReadTimeout("the answer was lost", request=request)

    def close(self):
        self._real.close()


def test_decide_and_reward(url):
    with client(url) as speaker:
        decision = speaker.decide(PLAIN, eligible=[1, 2], context_id="c", subject="someone")
        assert isinstance(decision, DecideAnswer)
        assert decision.action in (1, 2)
        assert not decision.is_fallback
        first = speaker.reward(decision, 0.5, decision.action)
        assert first.status in ("taken", "unasked")
        assert speaker.reward(decision.decision_id, 0.5) == RewardAnswer("duplicate", first.seq)
        with pytest.raises(ServiceProblem) as caught:
            speaker.reward(decision, 0.25)
        assert (caught.value.status, caught.value.code) == (409, "already_rewarded")
    with client(url, "banners") as speaker:
        assert speaker.decide(RAW).action in ("red", "green", "blue")


def test_numpy_is_understood(url):
    with client(url) as speaker:
        named = {"request_id": "numpy", "eligible": list(np.arange(3))}
        assert speaker.decide(np.array(PLAIN), **named) == speaker.decide(PLAIN, **named)
    with client(url, "banners") as speaker:
        assert speaker.decide({"age": np.int64(31), "device": np.str_("phone")}).value == pytest.approx(
            speaker.decide(RAW).value, abs=1.0
        )


def test_many(url):
    with client(url) as speaker:
        found = speaker.decide_many([PLAIN, [1.0], DecideRequest(PLAIN, [3], request_id="of many")])
        assert isinstance(found[1], ServiceProblem)
        assert (found[1].status, found[1].field) == (422, "context")
        assert found[2].action == 3
        assert speaker.decide(PLAIN, eligible=[3], request_id="of many") == found[2]
        assert len(speaker.decide_many([PLAIN] * 1001)) == 1001
        own = msgspec.structs.replace(found[0], decision_id="")
        rewards = speaker.reward_many([(found[0], 0.5), (own, 1.0), ("nobody", 1.0), ("of many", 0.25)])
        assert rewards[0].status in ("taken", "unasked")
        assert rewards[1] is None
        assert rewards[2].code == "unknown_decision"
        assert rewards[3].status in ("taken", "unasked")
        assert speaker.decide_many([]) == speaker.reward_many([]) == []


def test_about(url):
    with client(url, "banners") as speaker:
        told = speaker.about()
    assert (told.name, told.mode, sorted(told.actions)) == ("banners", "live", ["blue", "green", "red"])


def test_stored_decisions_are_read_in_pages(url):
    with client(url) as speaker:
        speaker.decide_many([PLAIN] * 1001)
        kept = list(speaker.decisions())
        assert len(kept) > 1000
        assert len({one.seq for one in kept}) == len(kept)
        assert [one.seq for one in kept] == sorted(one.seq for one in kept)
        assert next(speaker.decisions(after=kept[-2].seq)) == kept[-1]


@pytest.mark.parametrize("named", ["a/b", "..", ".", "%2F", "a b?c#d", "é\n", "reward", "x" * 256])
def test_ids_of_any_kind_can_be_rewarded(url, named):
    with client(url) as speaker:
        speaker.decide(PLAIN, request_id=named)
        assert speaker.reward(named, 0.5).status in ("taken", "unasked")


def test_problems_are_errors(url):
    with client(url) as speaker, pytest.raises(ServiceProblem) as caught:
        speaker.decide(PLAIN, eligible=[0, 99], fallback=1)  # a mistake of the caller's: no fallback hides it
    problem = caught.value
    assert (problem.status, problem.code, problem.field) == (422, "unknown_action", "eligible[1]")
    assert "99" in problem.detail == str(problem)
    assert isinstance(problem, SparingError)
    with client(url, "nothing here") as speaker, pytest.raises(ServiceProblem, match="there is no"):
        speaker.decide(PLAIN)


def test_a_key_is_sent(tmp_path):
    settings = made(ServerSettings(tmp_path / "store"))
    key = added_key(settings, "shop")
    with running(settings) as url:
        with client(url, key=key) as speaker:
            assert speaker.decide(PLAIN).decision_id
        with client(url) as speaker, pytest.raises(ServiceProblem) as caught:
            speaker.decide(PLAIN)
        assert caught.value.status == 401


@pytest.mark.parametrize("hangs", [True, False])
def test_the_fallback_comes_in_time(hangs):
    with broken(hangs) as (url, asked), Client(url, "shop", timeout=0.1, fallback="A") as speaker:
        began = time.monotonic()
        decision = speaker.decide(PLAIN)
        assert time.monotonic() - began < 3 * 0.1 + SLACK
        assert (decision.action, decision.is_fallback, decision.needs_reward) == ("A", True, False)
        assert (decision.decision_id, decision.reason) == ("", "fallback")
        assert math.isnan(decision.value)
        assert speaker.decide(PLAIN, fallback="B").action == "B"
        before = len(asked)
        assert speaker.reward(decision, 1.0) is None
        assert speaker.reward_many([(decision, 1.0)]) == [None]
        assert len(asked) == before  # nobody was told


@pytest.mark.parametrize("hangs", [True, False])
def test_without_a_fallback_the_error_says_what_to_do(hangs):
    with broken(hangs) as (url, asked), Client(url, "shop", timeout=0.5, retries=1) as speaker:
        with pytest.raises(UnreachableError, match=r"2 tries of 0.5 s .*fallback=ACTION"):
            speaker.decide(PLAIN)
        assert len(asked) == 2


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", "shop", fallback=0) as speaker:
        assert speaker.decide(PLAIN).is_fallback


@pytest.mark.parametrize("given", [None, "mine"])
def test_a_lost_answer_does_not_decide_twice(tmp_path, given):
    with running(made(ServerSettings(tmp_path / "store"))) as url:
        lossy = Lossy(2)
        with client(url, transport=lossy) as speaker:
            decision = speaker.decide(PLAIN, request_id=given)
            assert len(lossy.sent) == 3
            assert len(set(lossy.sent)) == 1
            assert [one.decision_id for one in speaker.decisions()] == [decision.decision_id]
        lossy = Lossy(1)
        with client(url, transport=lossy) as speaker:
            assert (
                speaker.reward(decision, 0.5).status == "duplicate"
            )  # the first one was taken, its answer lost
            (kept,) = speaker.decisions()
            assert kept.reward == 0.5


@pytest.mark.parametrize("many", [False, True])
def test_a_part_whose_answer_is_lost_counts_once(tmp_path, many):
    settings = made(ServerSettings(tmp_path / "store"), aggregate="sum", reward_window=60.0, check=1.0)
    with running(settings) as url, client(url) as speaker:
        decision = speaker.decide(PLAIN)
        with client(url, transport=Lossy(1)) as lossy:
            if many:
                (told,) = lossy.reward_many([(decision, 0.5)])
            else:
                told = lossy.reward(decision, 0.5)
        assert told.status == "duplicate"
        assert speaker.reward(decision, 0.5).status == "part"  # another call is another part
        assert speaker.reward(decision, 0.25, reward_id="mine").status == "part"
        assert speaker.reward(decision, 0.25, reward_id="mine").status == "duplicate"
    stored = (
        sqlite3.connect(tmp_path / "store" / "store.sqlite").execute("select value from outcomes").fetchall()
    )
    assert stored == [(0.5,), (0.5,), (0.25,)]


def test_a_busy_service_is_asked_again():
    answers = iter([httpx.Response(503, json={"code": "starting", "detail": "wait"})] * 3)
    busy = httpx.MockTransport(lambda request: next(answers))
    with Client("http://x", "shop", transport=busy, retries=2) as speaker:
        with pytest.raises(ServiceProblem, match="wait") as caught:
            speaker.decide(PLAIN)
        assert caught.value.status == 503
    busy = httpx.MockTransport(lambda request: httpx.Response(503))
    with Client("http://x", "shop", transport=busy, fallback=3) as speaker:
        assert speaker.decide(PLAIN).action == 3


def test_an_answer_that_is_none_of_ours():
    odd = httpx.MockTransport(lambda request: httpx.Response(200, text="<html>"))
    with (
        Client("http://x", "shop", transport=odd) as speaker,
        pytest.raises(ServiceProblem, match="not an answer"),
    ):
        speaker.decide(PLAIN)
    odd = httpx.MockTransport(lambda request: httpx.Response(404, text="nginx"))
    with (
        Client("http://x", "shop", transport=odd) as speaker,
        pytest.raises(ServiceProblem, match="404 nginx"),
    ):
        speaker.decide(PLAIN)


def test_connections_are_used_again(url):
    with client(url) as speaker:
        speaker.decide(PLAIN)
        (connection,) = speaker._http._transport._pool.connections
        for _ in range(5):
            speaker.reward(speaker.decide(PLAIN), 0.5)
        assert speaker._http._transport._pool.connections == [connection]


def test_httpx_is_loaded_when_it_is_used():
    code = "import sys, sparing.service; assert 'httpx' not in sys.modules; sparing.service.Client; print('httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
