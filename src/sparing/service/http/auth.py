"""Authentication: keys by their hashes, roles, access to one experiment or all, read-only session cookies."""

import base64
import hashlib
import hmac
import ipaddress
import secrets
from typing import NamedTuple

from sparing.errors import SettingError
from sparing.service import events
from sparing.service.errors import ServiceError
from sparing.service.store.store import Store, StoredKey

# What a key of each role may do.
ROLES = {
    "decide": frozenset({"decide"}),
    "read": frozenset({"read"}),
    "write": frozenset({"decide", "read"}),
    "admin": frozenset({"decide", "read", "admin"}),
}
PREFIX = "sp_"
COOKIE = "sparing_session"
SESSION = 12 * 3600  # seconds
INVALID_KEY = "the key is unknown, expired or revoked"


class Caller(NamedTuple):
    """Who makes a request: name, role, and the only experiment the key is for (None: all)."""

    name: str
    role: str
    experiment: str | None = None


NOBODY = Caller("nobody", "none")
LOCAL = Caller("local", "admin")


def new_key() -> tuple[str, bytes]:
    key = PREFIX + secrets.token_urlsafe(32)
    return key, hashed(key)


def hashed(key: str) -> bytes:
    """Return the stored hash of a key; a key has 256 random bits, so a plain hash is enough."""
    return hashlib.sha256(key.encode()).digest()


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Checks keys and roles. Without any key, only a service bound to loopback is open, and only under a loopback host name."""

    def __init__(
        self, store: Store, host: str, *, own: str | None = None, names: tuple[str, ...] = ()
    ) -> None:
        self._store, self.local = store, is_loopback(host)
        self._own = hashed(own) if own is not None else None
        self._names = {name.lower() for name in (*names, host.strip("[]"), "localhost", "127.0.0.1", "::1")}
        self._any_name = not self.local and not names
        self._last_host: bytes | None = None  # that was allowed
        self._keys: dict[bytes, StoredKey] = {}
        self._had_keys = False
        self._secret = b""

    async def refresh(self) -> None:
        known = await self._store.keys()
        self._keys = {key.sha256: key for key in known if key.revoked is None}
        self._had_keys = bool(known)
        self._secret = hashlib.sha256(b"sessions" + self._store.salt).digest()

    def check_exposed(self) -> None:
        """Refuse to serve without a key, except on loopback."""
        if not self.local and not self._keys and self._own is None:
            raise SettingError(
                "without a key the service would be open to everyone who can reach this machine. Create a key "
                "(`sparing keys add STORE NAME`), pass --key-file FILE, or bind to --host 127.0.0.1"
            )

    @property
    def locked(self) -> bool:
        """Whether a key is needed; revoking the last key does not open the service."""
        return self._had_keys or self._own is not None

    def admit(
        self, headers: dict[bytes, bytes], role: str | None, experiment: str | None, *, chooses: bool = False
    ) -> Caller:
        """Return the caller, or refuse the request. Routes without a role are open; with `chooses` the key selects the experiment."""
        self._check_host(headers)
        if role is None:
            return NOBODY
        caller = self._caller(headers)
        if caller is None:
            raise ServiceError(
                401,
                "unauthorized",
                INVALID_KEY
                if _key(headers)
                else "the key is missing. Send it as `Authorization: Bearer KEY`",
                "Authorization",
            )
        wanted = experiment is not None or role == "read" or chooses
        if role not in ROLES[caller.role]:
            raise ServiceError(
                403, "forbidden", f"the key has the role {caller.role}; this request needs {role}"
            )
        if caller.experiment is not None and (
            (experiment is not None and caller.experiment != experiment) or not wanted
        ):
            raise ServiceError(403, "forbidden", f"the key is valid for experiment {caller.experiment} only")
        return caller

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        said = headers.get(b"host", b"")
        if self._any_name or said == self._last_host:
            return
        host = said.decode("latin-1").lower()
        name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
        if name not in self._names:
            raise ServiceError(
                400, "host", f"unknown host name {name!r}. Allow it with --allow-host {name}", "Host"
            )
        self._last_host = said

    def _caller(self, headers: dict[bytes, bytes]) -> Caller | None:
        if not self.locked and self.local:
            return LOCAL  # some clients always send a key, also to an open service
        key = _key(headers)
        if key:
            return self._by_hash(hashed(key))
        return self._by_cookie(headers.get(b"cookie", b"").decode("latin-1"))

    def _by_hash(self, digest: bytes) -> Caller | None:
        if self._own is not None and hmac.compare_digest(self._own, digest):
            return Caller("key file", "admin")
        key = self._keys.get(digest)
        if key is None or not hmac.compare_digest(key.sha256, digest):
            return None
        if key.expires is not None and key.expires <= events.now():
            return None
        return Caller(key.name, key.role, key.experiment)

    def session(self, key: str) -> str:
        caller = self._by_hash(hashed(key))
        if caller is None:
            raise ServiceError(401, "unauthorized", INVALID_KEY, "key")
        if "read" not in ROLES[caller.role]:
            raise ServiceError(
                403, "forbidden", f"the key has the role {caller.role}; the dashboard needs read", "key"
            )
        payload = hashed(key) + (events.now() // events.SECOND + SESSION).to_bytes(8)
        return base64.urlsafe_b64encode(payload + self._mark(payload)).decode()

    def _mark(self, payload: bytes) -> bytes:
        return hmac.digest(self._secret, payload, "sha256")

    def _by_cookie(self, cookies: str) -> Caller | None:
        for part in cookies.split(";"):
            name, _, value = part.strip().partition("=")
            if name != COOKIE:
                continue
            try:
                whole = base64.urlsafe_b64decode(value)
            except ValueError:
                return None
            payload, mark = whole[:40], whole[40:]
            alive = int.from_bytes(payload[32:]) > events.now() // events.SECOND
            if not hmac.compare_digest(self._mark(payload), mark) or not alive:
                return None
            caller = self._by_hash(payload[:32])
            if caller is None or "read" not in ROLES[caller.role]:
                return None
            return caller._replace(role="read")
        return None


def _key(headers: dict[bytes, bytes]) -> str:
    said = headers.get(b"authorization", b"").decode("latin-1")
    key = said[7:].strip() if said[:7].lower() == "bearer " else ""
    return key or headers.get(b"ocp-apim-subscription-key", b"").decode("latin-1")
