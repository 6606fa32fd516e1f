"""State files: base states and snapshots of an experiment, arrays and JSON in one file."""

import contextlib
import functools
import gc
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sparing import archive
from sparing.online.core import PendingCall
from sparing.online.engine import ENGINE_VERSION
from sparing.online.files import from_parts, parts, with_prefix
from sparing.online.learner import Learner
from sparing.service.experiment import ExperimentState, PendingDecision
from sparing.service.messages import Options

KIND, VERSION = "sparing service state", 2
NUMBERS = ("seq", "mode", "config_seq", "rounds", "calls", "period", "period_calls")
LEARNER, NEVER = "learner/", -1


# SHA-256 of the engine's source text of version 1 (commit 9b96982): older states are stamped with it.
ENGINE_TEXT_0_1 = "0aab6fe0245e7356cbbe012b582c1ee5794edbf85c50702f15cc52925700b095"


def engine() -> str:
    """Return the stamp of this engine: its version, Numba's and NumPy's. Replays are equal bit for bit within one stamp."""
    return _stamp(str(ENGINE_VERSION))


def is_this_engine(stamp: str) -> bool:
    """Return whether a stored stamp is that of this engine; old stamps are hashes of its source text."""
    return (_stamp("1") if stamp == _stamp_0_1() else stamp) == engine()


@functools.cache
def _stamp_0_1() -> str:
    return hashlib.sha256(_stamp(ENGINE_TEXT_0_1).encode()).hexdigest()[:16]


@functools.cache
def _stamp(version: str) -> str:
    import numba

    return f"{version} {numba.__version__} {np.__version__}"


def save(model: ExperimentState, path: str | os.PathLike[str]) -> bytes:
    """Write a state; return the SHA-256 of the file."""
    archive.write(path, KIND, VERSION, *_contents(model))
    return file_hash(path)


def equal(one: ExperimentState, other: ExperimentState) -> bool:
    """Return whether two states are equal bit for bit, but for what alarms are raised from: contexts are not replayed for it."""
    (own, arrays), (header, stored) = _contents(one), _contents(other)
    for some in (arrays, stored):
        for name in [name for name in some if name.startswith(f"{LEARNER}alarms/")]:
            del some[name]
    same = msgspec.json.encode(own, order="sorted") == msgspec.json.encode(header, order="sorted")
    return (
        same
        and arrays.keys() == stored.keys()
        and all(arrays[name].tobytes() == stored[name].tobytes() for name in arrays)
    )


def _contents(model: ExperimentState) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a state as a header for JSON, and arrays."""
    header, arrays = parts(model.learner)
    waiting = list(model.open.values())
    calls = [model.learner.pending_call(one.call) for one in waiting]
    own = {
        "learner": header,
        "options": msgspec.to_builtins(model.options),
        "digest": model.digest.hex(),
        "engine": engine(),
        **{name: getattr(model, name) for name in NUMBERS},
    }
    kept = {
        "played": model.played,
        "open/seq": np.array(list(model.open), dtype=np.int64),
        "open/action": np.array([one.action for one in calls], dtype=np.int64),
        "open/x": np.array([one.x for one in calls]).reshape(len(calls), model.learner.n_features),
        "open/predicted": np.array([np.nan if one.predicted is None else one.predicted for one in calls]),
        "open/expires": np.array(
            [NEVER if one.expires is None else one.expires for one in waiting], dtype=np.int64
        ),
        "open/asked": np.array([one.asked for one in waiting], dtype=np.bool_),
        "open/parts": np.array([one.parts for one in waiting], dtype=np.float64),
        "open/added": np.array([one.added for one in waiting], dtype=np.int64),
    }
    return own, kept | {f"{LEARNER}{name}": arrays[name] for name in arrays}


def file_hash(path: str | os.PathLike[str]) -> bytes:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Collect no garbage meanwhile: a collection looks through all objects, and hundreds of thousands are made that stay."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def load(path: str | os.PathLike[str], experiment: int, salt: bytes) -> ExperimentState:
    with _without_collections(), archive.understanding(path, "state"):
        header, arrays = archive.read(path, KIND, VERSION)
        learner = from_parts(path, header["learner"], with_prefix(arrays, LEARNER))
        model = ExperimentState(experiment, learner, msgspec.convert(header["options"], Options), salt)
        for name in NUMBERS:
            setattr(model, name, header[name])
        model.digest = bytes.fromhex(header["digest"])
        model.played = arrays["played"]
        for seq, waiting in _waiting(with_prefix(arrays, "open/"), learner):
            model.add_pending(seq, waiting)
        if learner.uses_voi or learner.follows_rounds:
            learner.set_counters(rounds=model.rounds, calls=model.calls)
        return model


def _waiting(arrays: dict[str, np.ndarray], learner: Learner) -> list[tuple[int, PendingDecision]]:
    names = ("seq", "action", "predicted", "expires", "asked", "parts", "added")
    seqs, actions, predicted, expires, *counted = [arrays[name].tolist() for name in names]
    rows, shape = arrays["x"], (len(seqs), learner.n_features)
    if rows.shape != shape or (seqs and not 0 <= min(actions) <= max(actions) < learner.n_actions):
        raise ValueError(
            f"contexts of pending decisions of shape {rows.shape}, or an action that there is not"
        )
    calls = [  # a context of an imputed call is the learner's own
        PendingCall(action, x.copy(), None) if value != value else PendingCall(action, x, value)
        for action, x, value in zip(actions, rows, predicted, strict=True)
    ]
    due = [None if time == NEVER else time for time in expires]
    waiting = map(PendingDecision, learner.match_calls(calls), due, *counted)
    return list(zip(seqs, waiting, strict=True))
