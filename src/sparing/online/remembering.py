"""The prior of a saved learner, and where its sets began, as arrays and JSON; checked where they come back."""

from typing import Any

import numpy as np

from sparing.model.prior import Blocks, Prior
from sparing.online.origins import Origins

FIELDS = ("spread", "slope", "flat", "weights", "doubt", "items", "standard")


def arrays(prior: Prior | None, origins: Origins) -> dict[str, np.ndarray]:
    """What to save as arrays."""
    found = {f"origins/{name}": getattr(origins, name) for name in ("row", "matrix", "pull")}
    if prior is not None:
        q, d = prior.weights.shape
        found |= {f"prior/{name}": getattr(prior, name) for name in FIELDS}
        found |= {"prior/doubt": prior.doubt.reshape(q * d, q * d), "prior/blocks": prior.blocks.of}
    return found


def header(prior: Prior | None) -> dict[str, Any] | None:
    """What to save as JSON."""
    if prior is None:
        return None
    return {
        "noise": prior.noise,
        "blocks": list(prior.blocks.names),
        "actions": prior.actions,
        "told": list(prior.told),
        "given": list(prior.given),
    }


def prior(saved: dict[str, Any] | None, given: dict[str, np.ndarray], k: int, d: int) -> Prior | None:
    """The prior of a learner of K actions and d features."""
    if saved is None:
        return None
    q = given["items"].shape[1]
    shapes = {
        "spread": (d,),
        "slope": (d,),
        "flat": (d,),
        "weights": (q, d),
        "doubt": (q * d, q * d),
        "items": (k, q),
        "standard": (2, q - 1),
    }
    for name, shape in shapes.items():
        _check(f"prior/{name}", given[name], shape, np.float64)
    names, of = tuple(map(str, saved["blocks"])), given["blocks"]
    _check("prior/blocks", of, (d,), np.int64)
    if not ((of >= 0).all() and (of < len(names)).all() and (given["spread"] > 0).all()):
        raise ValueError("blocks that there are none of, or a prior without deviation")
    noise, actions, told = saved["noise"], saved["actions"], saved["told"]
    if type(noise) is not float or not 0 < noise < np.inf or type(actions) is not int:
        raise ValueError("a prior without noise, or of no number of actions")
    return Prior(
        noise,
        given["spread"],
        given["slope"],
        given["flat"],
        given["weights"],
        given["doubt"].reshape(q, d, q, d),
        given["items"],
        Blocks(of, names),
        actions,
        tuple(map(bool, told)),
        tuple(map(str, saved["given"])),
        given["standard"],
    )


def origins(given: dict[str, np.ndarray], k: int, d: int) -> Origins:
    """Where the sets of a learner of K actions and d features began."""
    row, matrix, pull = (given[name] for name in ("row", "matrix", "pull"))
    n = len(pull)
    _check("origins/row", row, (k,), np.int64)
    _check("origins/pull", pull, (n, d), np.float64)
    _check("origins/matrix", matrix, (len(matrix), d * (d + 1) // 2), np.float64)
    if not (n and (row >= 0).all() and (row < n).all() and len(matrix) in (1, n)):
        raise ValueError("actions that began nowhere")
    return Origins(row, matrix, pull)


def _check(name: str, array: np.ndarray, shape: tuple[int, ...], kind: Any) -> None:
    if array.shape != shape or array.dtype != kind or not np.isfinite(array).all():
        raise ValueError(f"array {name} of shape {array.shape} and type {array.dtype}, or not finite")
