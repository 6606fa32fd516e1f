"""Saved sets: rebuilt from their arrays, and refused where compiled code could not have left them so."""

from collections.abc import Mapping

import numpy as np

from sparing.log.limits import LARGEST
from sparing.model.assumptions import Assumptions
from sparing.native.table import Memory
from sparing.online.engine import bounding, memory
from sparing.online.sets import STATE, ConfidenceSets


def restored(
    arrays: Mapping[str, np.ndarray],
    assumptions: Assumptions,
    *,
    ridge: float,
    constant: float | None,
    slack: float,
    misfit: float,
) -> ConfidenceSets:
    """Rebuild from saved arrays, refusing those that do not fit together."""
    used, d = arrays["response"].shape
    k, p = int(arrays["n_actions"]), memory.packed_size(d)
    sets = ConfidenceSets.__new__(ConfidenceSets)
    sets.assumptions, sets.ridge, sets.slack, sets.misfit = assumptions, ridge, slack, misfit
    sets.growing, sets.added = bool(arrays["growing"]), arrays["added"]
    if sets.added.shape != (k,) or sets.added.dtype != np.int64 or sets.added.min(initial=0) < 0:
        raise ValueError("the added actions are damaged")
    if not 1 <= used <= 2 * k + 2:
        raise ValueError(f"{used} rows for {k} actions")
    shapes = {"gram": (used, p), "inverse": (used, p), "response": (used, d), "theta": (used, d)}
    reservoir = arrays.get("reservoir", np.empty((0, d)))
    fits = reservoir.ndim == 2 and reservoir.shape[1] == d and reservoir.dtype == np.float64
    if not fits or not (np.abs(reservoir) <= LARGEST).all():
        raise ValueError("the contexts that stand for those to come are damaged")
    sets._allocate(k, d, used - 1, constant, reservoir)
    for name in STATE:
        place, given = getattr(sets.arrays, name), arrays[name]
        if given.shape != shapes.get(name, (used,)) or given.dtype != place.dtype:
            raise ValueError(f"array {name} of shape {given.shape} and type {given.dtype}")
        if not np.isfinite(given).all():
            raise ValueError(f"array {name} holds numbers that are not finite")
        place[:used] = given
    sets.arrays.used, sets.arrays.digest = used, arrays["digest"]
    check_slots(sets.arrays, used, k)
    sets._map()
    sets._tell()
    bounding.radii_all(sets.desk.settled)
    sets._bound()
    return sets


def check_slots(a: Memory, used: int, k: int) -> None:
    """Refuse slots that compiled code could not have left."""
    action, hidden, waiting = a.action[1:used], a.hidden[1:used], a.waiting[1:used]
    if used > 1 and not (0 <= action.min() <= action.max() < k and 0 <= hidden.min() <= hidden.max() <= 3):
        raise ValueError(
            "slots of actions that there are none of, or hidden from views that there are none of"
        )
    if a.hidden[0] or min(a.logged[:used].min(), a.live[:used].min(), waiting.min(initial=0)) < 0:
        raise ValueError("negative counts, or a hidden first slot")
    if not (a.shrunk[:used] >= 1).all() or ((a.frozen[:used] != 0) & (a.frozen[:used] != 1)).any():
        raise ValueError("an inverse that grew, or a point that is not one")
    for view in (1, 2):
        seen = action[hidden & view == 0]
        if len(np.unique(seen)) != len(seen):
            raise ValueError("an action has two slots in one view")
    twins = hidden == 1
    if not np.isin(action[hidden == 2], action[twins]).all() or not (waiting[twins] > 0).all():
        raise ValueError("a twin without open calls, or a hidden slot without a twin")
