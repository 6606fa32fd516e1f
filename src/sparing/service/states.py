"""States on disk: what an experiment starts from (its base), and snapshots on the way; arrays and JSON in one file."""

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sparing import archive
from sparing.online.core import PendingCall
from sparing.online.files import parts, under, whole
from sparing.online.learner import Learner
from sparing.service.messages import Options
from sparing.service.model import Model, Waiting

KIND, VERSION = "sparing service state", 1
NUMBERS = ("seq", "mode", "config_seq", "rounds", "calls", "period", "period_calls")
LEARNER, NEVER = "learner/", -1


@functools.cache
def engine() -> str:
    """Tells the compiled code, and what it is compiled by, from any other: equal bits are promised within one."""
    import numba

    from sparing.native.compile import text_hash
    from sparing.online import engine as kernels

    text = text_hash(Path(next(iter(kernels.__path__))))
    return hashlib.sha256(f"{text} {numba.__version__} {np.__version__}".encode()).hexdigest()[:16]


def save(model: Model, path: str | os.PathLike[str]) -> bytes:
    """Write a state; what identifies the file, its SHA-256."""
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
    archive.write(path, KIND, VERSION, own, kept | {f"{LEARNER}{name}": arrays[name] for name in arrays})
    return file_hash(path)


def file_hash(path: str | os.PathLike[str]) -> bytes:
    """What identifies a file: SHA-256."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def load(path: str | os.PathLike[str], experiment: int, salt: bytes) -> Model:
    """Read a state; it goes on bit for bit."""
    with archive.understanding(path, "state"):
        header, arrays = archive.read(path, KIND, VERSION)
        learner = whole(path, header["learner"], under(arrays, LEARNER))
        model = Model(experiment, learner, msgspec.convert(header["options"], Options), salt)
        for name in NUMBERS:
            setattr(model, name, header[name])
        model.digest = bytes.fromhex(header["digest"])
        model.played = arrays["played"]
        for seq, waiting in _waiting(under(arrays, "open/"), learner):
            model.wait(seq, waiting)
        if learner.weighs:
            learner.set_time(rounds=model.rounds, calls=model.calls)
        return model


def _waiting(arrays: dict[str, np.ndarray], learner: Learner) -> list[tuple[int, Waiting]]:
    """Decisions that are not closed, by their numbers."""
    names = ("seq", "action", "predicted", "expires", "asked", "parts", "added")
    columns: list[Any] = [arrays[name].tolist() for name in names]
    found, calls = [], []
    for x, seq, action, predicted, expires, asked, *counted in zip(arrays["x"], *columns, strict=True):
        if not 0 <= action < learner.n_actions or x.shape != (learner.n_features,):
            raise ValueError(f"an open decision on action {action} in a context of shape {x.shape}")
        calls.append(PendingCall(action, x.copy(), None if np.isnan(predicted) else predicted))
        found.append((seq, None if expires == NEVER else expires, asked, *counted))
    return [
        (seq, Waiting(call, *rest))
        for call, (seq, *rest) in zip(learner.match_calls(calls), found, strict=True)
    ]
