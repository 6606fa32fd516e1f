"""Stored events of an experiment: decisions, outcomes and changes, in one order."""

import functools
import hashlib
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

SECOND = 1_000_000  # times are whole microseconds since 1970
HOUR = 3600 * SECOND

ID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")

# Reasons that the service adds to the learner's.
HOLDOUT, CHECK, UNIFORM, BUDGET, FALLBACK = "holdout", "check", "uniform", "budget", "fallback"

# The reason of a served decision that has a shadow call, as in the library, and the variant of the call; the mode `shadow` has its own.
ALSO = "also"

# Outcomes that close a decision: its reward; the default reward; none in time; withdrawn; an unsolicited reward that is
# stored; one that is stored and learnt; the right reward in the place of a mistaken one.
REWARD, DEFAULT, EXPIRED, VOID = "reward", "default", "expired", "void"
UNSOLICITED, IMPORTED, CORRECTED = "unasked", "learnt", "corrected"

# Outcomes that do not close a decision: a partial reward; activation of a deferred decision.
PARTIAL, ACTIVATED = "part", "activated"

CLOSING = frozenset({REWARD, DEFAULT, EXPIRED, VOID, UNSOLICITED, IMPORTED, CORRECTED})

REWARDED = frozenset({REWARD, DEFAULT, UNSOLICITED, IMPORTED, CORRECTED})  # kinds with a reward
BASE, OPTIONS, MODE, ACTION, RETIRE, ERASE = "base", "options", "mode", "action", "retire", "erase"


class DecisionEvent(Struct, gc=False):
    """A decision: the request, the answer (from `arm` on), and the state (`model_seq`) it was computed from."""

    seq: int
    experiment: int
    ts: int
    decision_id: bytes
    request_id: str | None
    request_hash: bytes | None
    subject: bytes | None
    context_id: str | None  # as JSON
    context: bytes | None  # of `pack_context`; None once it is erased
    eligible: bytes | None  # packed bits over the action numbers; None for all active ones
    arm: str = ""
    action: int = -1
    needs_reward: bool = False
    reason: str = ""
    play_probability: float = 0.0
    call_probability: float = 0.0
    value: float = 0.0
    low: float = 0.0
    high: float = 0.0
    worth: float | None = None
    model_seq: int = 0
    active: bool = True  # False for one whose activation is deferred
    expires: int | None = None
    costs: bytes | None = (
        None  # known costs of the request, of `pack_costs`; None for those of the experiment
    )
    cost: float | None = None  # known cost of the action; None if none is known
    served_id: bytes | None = None  # of a shadow call: the decision that was served in its context


class OutcomeEvent(Struct, gc=False):
    """The outcome of a decision. An unsolicited reward that is learnt also has the action and context."""

    seq: int
    experiment: int
    ts: int
    decision_seq: int
    kind: str
    value: float | None = None
    played: int | None = None  # the action that was played, if it is not the decided one
    action: int | None = None
    context: bytes | None = None
    reward_id: str | None = None  # of the request, for a partial reward


class ChangeEvent(Struct, gc=False):
    """A change of the experiment: its kind, its body as JSON, and the name of the key that made it."""

    seq: int
    experiment: int
    ts: int
    kind: str
    body: bytes
    who: str

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


Event = DecisionEvent | OutcomeEvent | ChangeEvent


DOUBLE = np.dtype("<f8")  # as it is stored


def pack_context(context: Any) -> bytes:
    """Encode a context for storage: raw columns as JSON, numbers as bytes (a database would lose −0.0)."""
    if isinstance(context, dict):
        return b"j" + msgspec.json.encode(context)
    return b"v" + np.asarray(context, dtype=DOUBLE).tobytes()


def unpack_context(stored: bytes) -> dict[str, Any] | np.ndarray:
    if stored[:1] == b"j":
        columns: dict[str, Any] = msgspec.json.decode(stored[1:])
        return columns
    return np.frombuffer(stored, dtype="<f8", offset=1).astype(np.float64)


def pack_mask(mask: np.ndarray | None) -> bytes | None:
    return None if mask is None else np.packbits(mask).tobytes()


def unpack_mask(stored: bytes | None, n_actions: int) -> np.ndarray | None:
    """Return the mask (K,) of `pack_mask`; actions added after it are not in it."""
    if stored is None:
        return None
    return np.unpackbits(np.frombuffer(stored, dtype=np.uint8), count=n_actions).astype(np.bool_)


def pack_costs(costs: np.ndarray | None) -> bytes | None:
    return None if costs is None else costs.astype("<f8").tobytes()


def unpack_costs(stored: bytes | None) -> np.ndarray | None:
    """Return the costs (K,) of `pack_costs`."""
    return None if stored is None else np.frombuffer(stored, dtype="<f8").astype(np.float64)


def new_id() -> bytes:
    """Return sixteen bytes that sort by time and cannot be guessed (UUID version 7)."""
    return _version_7((time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10)))


def _version_7(number: int) -> bytes:
    number = number & ~(0xF << 76) | 7 << 76
    return (number & ~(3 << 62) | 2 << 62).to_bytes(16)


def shadow_id(salt: bytes, served: bytes) -> bytes:
    """Return the id of the shadow call of a decision: of the same time, and as hard to guess."""
    digest = hashlib.blake2b(served, digest_size=10, key=salt, person=ALSO.encode()).digest()
    return _version_7(int.from_bytes(served[:6]) << 80 | int.from_bytes(digest))


def id_text(stored: bytes) -> str:
    text = stored.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def id_bytes(text: str) -> bytes | None:
    """Parse a decision's id; None for any other text."""
    if ID.fullmatch(text) is None:
        return None
    return bytes.fromhex(text.replace("-", ""))


def may_be_decision(text: str) -> bool:
    """Whether a text has the form of the ids that `new_id` makes: a UUID of version 7."""
    return ID.fullmatch(text) is not None and text[14] == "7"


def now() -> int:
    return time.time_ns() // 1000


def _since_boot() -> int:
    """Microseconds since the machine started, sleep included where the system can tell."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


class SteadyClock:
    """The time of day in microseconds, which follows small corrections and no jumps.

    After a jump it goes on from before, so that no window closes and nothing is erased because of a wrong clock; `jump` is how far
    the machine's clock is ahead, 0 if it agrees.
    """

    TOLERANCE = 60 * SECOND

    def __init__(self, wall: Callable[[], int] = now, steady: Callable[[], int] = _since_boot) -> None:
        self._wall, self.steady, self.jump = wall, steady, 0
        self.offset = wall() - steady()

    def __call__(self) -> int:
        passed = self.steady()
        offset = self._wall() - passed
        self.jump = offset - self.offset
        if abs(self.jump) <= self.TOLERANCE:
            self.offset, self.jump = offset, 0
        return self.offset + passed

    def start(self, other: int | None, last: int) -> None:
        """Begin with another clock's time, if it disagrees with the machine's and is nearer to that of the last event."""
        passed = self.steady()
        mine = self.offset + passed
        if other is None or not last or abs(other - mine) <= self.TOLERANCE:
            return
        if abs(other - last) < abs(mine - last):
            self.offset = other - passed
            self()


@functools.lru_cache(maxsize=64)  # calls of a group have windows that close at the same time
def time_text(ts: int) -> str:
    return f"{datetime.fromtimestamp(ts // SECOND, UTC).isoformat()[:19]}.{ts % SECOND:06d}Z"
