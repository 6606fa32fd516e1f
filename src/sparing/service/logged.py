"""What the page must know of the log that an experiment began from, long after the log itself is gone."""

from typing import Any

import numpy as np

from sparing.log.log import Log
from sparing.service.gapmap import mapped


def described(log: Log) -> dict[str, Any]:
    """A log in a few numbers, as JSON can hold them: its rows, its mean context, its gap map, and which actions it tried in
    some contexts only (bits over their numbers, in hexadecimal)."""
    gaps, partly = mapped(log)
    return {
        "rows": log.n_rows,
        "center": log.contexts.mean(axis=0).tolist() if log.n_rows else None,
        "gaps": gaps,
        "partly": np.packbits(partly).tobytes().hex() if partly.any() else "",
    }


def tried_partly(about: dict[str, Any], n_actions: int) -> np.ndarray:
    """Which actions the log tried in some contexts only, (K,); those that were added since are not among them."""
    bits = np.frombuffer(bytes.fromhex(about.get("partly", "")), dtype=np.uint8)
    found = np.zeros(n_actions, dtype=np.bool_)
    known = np.unpackbits(bits)[:n_actions]
    found[: len(known)] = known
    return found
