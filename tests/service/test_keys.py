"""Who may do what: keys, roles, one experiment or all, the page's cookie, host names, and addresses beyond this machine."""

import asyncio
import base64
import hashlib
import socket
import time

import httpx
import pytest

from service.serving import added_key, columns_log, made, running
from sparing.errors import SettingError
from sparing.service import events
from sparing.service.http.auth import COOKIE, ROLES, SESSION
from sparing.service.server import ServerSettings, Service

OWN = "a key of twenty characters and more"
DECIDE = ("POST", "/v1/shop/decide", '{"context":[0.5,-0.25,1.0]}')
REWARD = ("POST", "/v1/shop/rewards/batch", '{"rewards":[{"decision_id":"none","value":1}]}')
READ = ("GET", "/v1/shop/decisions", "")
CONFIGURE = ("PATCH", "/v1/shop", "{}")
LIST = ("GET", "/v1/experiments", "")
CREATE = ("POST", "/v1/experiments", '{"name":"new","log":{"content":""}}')
FOREIGN = ("GET", "/v1/banners/decisions", "")


class Keys:
    """A running service with keys of every kind; `ask` gives the status of a request."""

    def __init__(self, url, keys, settings):
        self.url, self.keys, self.settings = url, keys, settings

    def ask(self, request, key=None, **headers):
        method, path, body = request
        if key is not None:
            headers["Authorization"] = f"Bearer {self.keys.get(key, key)}"
        headers["Content-Type"] = "application/json"
        return httpx.request(method, self.url + path, content=body, headers=headers)

    def status(self, request, key=None, **headers):
        return self.ask(request, key, **headers).status_code


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    settings = ServerSettings(tmp_path_factory.mktemp("keys") / "store", key=OWN, durability="process")
    made(made(settings), "banners", columns_log())
    keys = {role: added_key(settings, role, role) for role in ROLES}
    keys |= {f"{role} shop": added_key(settings, f"{role} shop", role, "shop") for role in ROLES}
    keys["expired"] = added_key(settings, "expired", "admin", expires=events.now() - 1)
    keys["lasting"] = added_key(settings, "lasting", "admin", expires=events.now() + 3600 * events.SECOND)
    keys["revoked"] = added_key(settings, "revoked", "admin", revoked=events.now())
    with running(settings) as url:
        yield Keys(url, {**keys, "own": OWN}, settings)


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("decide", {DECIDE, REWARD}),
        ("read", {READ, LIST, FOREIGN}),
        ("write", {READ, LIST, FOREIGN, DECIDE, REWARD}),
        ("admin", {READ, LIST, FOREIGN, DECIDE, REWARD, CONFIGURE, CREATE}),
        ("own", {READ, LIST, FOREIGN, DECIDE, REWARD, CONFIGURE, CREATE}),
        ("lasting", {READ, LIST, FOREIGN, DECIDE, REWARD, CONFIGURE, CREATE}),
        ("decide shop", {DECIDE, REWARD}),
        ("read shop", {READ, LIST}),
        ("write shop", {READ, LIST, DECIDE, REWARD}),
        ("admin shop", {READ, LIST, DECIDE, REWARD, CONFIGURE}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_roles(locked, key, allowed):
    for request in (READ, LIST, FOREIGN, DECIDE, REWARD, CONFIGURE, CREATE):
        answer = locked.ask(request, key)
        if request in allowed:
            assert answer.status_code in (200, 422), request  # 422: the log that is no log
        else:
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), request


@pytest.mark.parametrize("key", [None, "expired", "revoked", "wrong", "sp_", "é", "a b", "x" * 5000])
def test_without_a_good_key(locked, key):
    for request in (READ, DECIDE, CONFIGURE, LIST):
        headers = {} if key is None else {"Authorization": f"Bearer {locked.keys.get(key, key)}".encode()}
        answer = locked.ask(request, **headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["code"] == "unauthorized"
        assert answer.json()["field"] == "Authorization"


def test_other_ways_to_say_a_key(locked):
    key = locked.keys["write"]
    assert locked.status(DECIDE, **{"Ocp-Apim-Subscription-Key": key}) == 200
    assert locked.status(DECIDE, Authorization=f"bearer  {key}") == 200
    for said in (f"Basic {key}", key, f"Bearer{key}", f"Bearer {key}x", f"Bearer {key[:-1]}"):
        assert locked.status(DECIDE, Authorization=said) == 401


def test_a_problem_never_tells_a_key(locked):
    answer = locked.ask(DECIDE, "a secret that is no key")
    assert "a secret" not in answer.text


def test_a_scoped_key_sees_its_own_experiment_only(locked):
    assert [one["name"] for one in locked.ask(LIST, "read shop").json()["experiments"]] == ["shop"]
    assert len(locked.ask(LIST, "read").json()["experiments"]) == 2


def test_open_routes_need_no_key(locked):
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert httpx.get(locked.url + path).status_code == 200


def session(locked, key):
    answer = httpx.post(locked.url + "/session", json={"key": locked.keys.get(key, key)})
    return answer, answer.headers.get("set-cookie", "")


def test_a_key_that_only_decides_gets_no_cookie(locked):
    answer, cookie = session(locked, "decide")
    assert (answer.status_code, answer.json()["code"], cookie) == (403, "forbidden", "")
    for path in ("/v1/shop", "/v1/shop/summary", "/v1/shop/export", "/metrics"):
        assert locked.status(("GET", path, ""), "decide") == 403


@pytest.mark.parametrize("key", ["admin", "write", "read", "own"])
def test_the_cookie_may_only_read(locked, key):
    answer, told = session(locked, key)
    assert (answer.status_code, answer.content) == (204, b"")
    value, *rest = told.split("; ")
    assert sorted(rest) == ["HttpOnly", f"Max-Age={SESSION}", "Path=/", "SameSite=Strict"]
    assert locked.keys[key] not in told
    for request, status in ((READ, 200), (LIST, 200), (DECIDE, 403), (CONFIGURE, 403), (CREATE, 403)):
        assert locked.status(request, Cookie=f"other=1; {value}") == status
    gone = httpx.delete(locked.url + "/session")
    assert gone.status_code == 204
    assert "Max-Age=0" in gone.headers["set-cookie"]


def test_the_cookie_of_a_scoped_key_is_scoped(locked):
    value = session(locked, "admin shop")[1].split(";")[0]
    assert locked.status(READ, Cookie=value) == 200
    assert locked.status(FOREIGN, Cookie=value) == 403


@pytest.mark.parametrize("key", ["expired", "revoked", "wrong"])
def test_no_cookie_for_a_bad_key(locked, key):
    answer, told = session(locked, key)
    assert (answer.status_code, told) == (401, "")


def test_forged_cookies(locked):
    name, _, value = session(locked, "admin")[1].split(";")[0].partition("=")
    assert name == COOKIE
    whole = bytearray(base64.urlsafe_b64decode(value))
    forged = [b"", b"x", b"\xff" * 72, bytes(72), bytes(whole[:-1]), bytes(whole) + b"x"]
    for place in (0, 31, 39, 40, 71):  # the key's hash, the time, the mark
        other = bytearray(whole)
        other[place] ^= 1
        forged.append(bytes(other))
    later = whole[:32] + (2**62).to_bytes(8)
    forged.append(bytes(later + hashlib.sha256(later).digest()))
    texts = [base64.urlsafe_b64encode(one).decode() for one in forged]
    for text in [*texts, "!", "é".encode().decode("latin-1"), "=" * 9, "a" * 5000, '"']:
        assert locked.status(READ, Cookie=f"{name}={text}".encode("latin-1")) == 401, text
    assert locked.status(READ, Cookie=f"{name}={value}") == 200


def test_cookies_expire(locked, monkeypatch):
    value = session(locked, "admin")[1].split(";")[0]
    now = events.now()
    monkeypatch.setattr(events, "now", lambda: now + (SESSION - 2) * events.SECOND)
    assert locked.status(READ, Cookie=value) == 200
    monkeypatch.setattr(events, "now", lambda: now + (SESSION + 2) * events.SECOND)
    assert locked.status(READ, Cookie=value) == 401


def test_on_loopback_without_keys_none_is_needed(tmp_path):
    settings = made(ServerSettings(tmp_path / "store"))
    with running(settings) as url:
        open_to_all = Keys(url, {}, settings)
        for key in (None, "any key at all"):
            assert open_to_all.status(DECIDE, key) == 200
            assert open_to_all.status(CONFIGURE, key) == 200


def test_names_of_the_host(tmp_path):
    settings = made(ServerSettings(tmp_path / "store", names=("Shop.example",)))
    with running(settings) as url:
        port = url.rpartition(":")[2]
        open_to_all = Keys(url, {}, settings)
        for name in ("127.0.0.1", "localhost", f"LOCALHOST:{port}", "[::1]", f"[::1]:{port}", "shop.example"):
            assert open_to_all.status(READ, Host=name) == 200, name
        for name in (
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.",
            "",
            "x:y",
            "[",
            "[::1",
            "10.0.0.1",
            "é",
        ):
            answer = open_to_all.ask(READ, Host=name.encode("latin-1"))
            assert (answer.status_code, answer.json()["code"]) == (400, "host"), name
        with socket.create_connection(("127.0.0.1", int(port)), timeout=10) as raw:
            raw.sendall(b"GET /v1/experiments HTTP/1.0\r\n\r\n")  # no Host at all
            assert raw.recv(4096).split()[1] == b"400"


def opened(settings):
    """The guard of a service that was opened and left again."""

    async def look():
        service = Service(settings)
        try:
            await service.open()
        finally:
            await service.store.close()
        return service.guard

    return asyncio.run(look())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "shop.example"])
def test_nothing_is_served_beyond_this_machine_without_a_key(tmp_path, host):
    settings = ServerSettings(tmp_path / "store", host=host)
    with pytest.raises(SettingError, match="open to everyone"):
        asyncio.run(Service(settings).open())
    assert not settings.folder.exists()
    added_key(settings, "gone", "admin", revoked=1)
    with pytest.raises(SettingError, match="sparing keys add"):
        opened(settings)
    added_key(settings, "good", "admin")
    assert opened(settings).locked
    assert opened(ServerSettings(tmp_path / "other", host=host, key=OWN)).locked


def test_revoking_the_last_key_opens_no_door(tmp_path):
    settings = made(ServerSettings(tmp_path / "store"))
    added_key(settings, "gone", "admin", revoked=1)
    with running(settings) as url:
        assert Keys(url, {}, settings).status(READ) == 401


def test_a_new_key_is_known_while_serving(tmp_path):
    settings = made(ServerSettings(tmp_path / "store"))
    service = Service(settings)
    with running(service) as url:
        open_to_all = Keys(url, {}, settings)
        assert open_to_all.status(READ) == 200
        key = added_key(settings, "first", "read")
        for _ in range(300):
            if open_to_all.status(READ) == 401:
                break
            time.sleep(0.02)
        assert open_to_all.status(READ) == 401
        assert open_to_all.status(READ, key) == 200
