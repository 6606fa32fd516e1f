"""Variants that serve besides the learner (logged shares, uniform, one action), and their keyed random numbers."""

import hashlib
from collections.abc import Hashable, Sequence

import numpy as np

from sparing.errors import SettingError
from sparing.log.labels import as_text

LOGGED, UNIFORM, NAMED = "logged", "uniform", "action:"


def keyed_uniform(salt: bytes, tag: str, who: bytes) -> float:
    """Return a number in [0, 1) that is a function of (salt, tag, who), unpredictable without the salt."""
    digest = hashlib.blake2b(who, digest_size=8, key=salt, person=tag.encode()).digest()
    return (int.from_bytes(digest) >> 11) * 2.0**-53


def variant_probabilities(
    word: str, allowed: np.ndarray, logged: np.ndarray, names: Sequence[Hashable]
) -> np.ndarray:
    """Return the probability of each action, (K,), under `logged` (shares of the log's rows), `uniform` or `action:LABEL`.

    Actions that are not allowed have probability 0. If no other is left, the allowed ones are equally likely.
    """
    if word == LOGGED:
        weights = logged * allowed.astype(float)
    elif word == UNIFORM:
        weights = allowed.astype(float)
    else:
        weights = np.zeros(len(allowed))
        number = action_number(word, names)
        weights[number] = float(allowed[number])
    if not weights.any():
        weights = allowed.astype(float)
    return np.asarray(weights / weights.sum())


def draw_action(chances: np.ndarray, uniform: float) -> int:
    """Return the action at a uniform number in [0, 1) under probabilities (K,)."""
    place = int(np.searchsorted(np.cumsum(chances), uniform, side="right"))
    return min(place, int(np.flatnonzero(chances)[-1]))


def action_number(word: str, names: Sequence[Hashable]) -> int:
    """Return the number of the action in `action:LABEL`; −1 for the other variants."""
    if word in (LOGGED, UNIFORM):
        return -1
    if not word.startswith(NAMED):
        raise SettingError(f"{word!r}; must be `logged`, `uniform` or `action:LABEL`")
    label = word.removeprefix(NAMED)
    texts = [as_text(name) for name in names]
    if label not in texts:
        known = ", ".join(texts[:8])
        raise SettingError(f"{word!r} names no action; the known ones begin with {known}")
    return texts.index(label)
