"""Luck that can be recomputed, and those who serve beside the learner: the log's shares, anyone, or one action."""

import hashlib
from collections.abc import Hashable, Sequence

import numpy as np

from sparing.errors import SettingError
from sparing.log.labels import as_text

LOGGED, UNIFORM, NAMED = "logged", "uniform", "action:"


def keyed_uniform(salt: bytes, tag: str, who: bytes) -> float:
    """A number in [0, 1) that nobody without the salt can foresee, and that is the same whenever it is asked for."""
    digest = hashlib.blake2b(who, digest_size=8, key=salt, person=tag.encode()).digest()
    return (int.from_bytes(digest) >> 11) * 2.0**-53


def variant_probabilities(
    word: str, allowed: np.ndarray, logged: np.ndarray, names: Sequence[Hashable]
) -> np.ndarray:
    """How likely each action is to be served, (K,), by `logged` (its share of the log's rows), `uniform` or `action:LABEL`.

    An action that is not allowed is never served; where nothing else is left, anyone of the allowed is.
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
    """The action that a number in [0, 1) means under these chances (K,)."""
    place = int(np.searchsorted(np.cumsum(chances), uniform, side="right"))
    return min(place, int(np.flatnonzero(chances)[-1]))


def action_number(word: str, names: Sequence[Hashable]) -> int:
    """The action that `action:LABEL` names, by its number."""
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
