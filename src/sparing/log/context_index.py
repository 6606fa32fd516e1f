"""Finding a context again: by the exact bytes of its features, or by its id."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from sparing.log.log import context_keys, groups_of


class ContextIndex:
    """Where each of some distinct contexts stands: keys (m, d) are their features (−0.0 as 0.0), or (m,) ids."""

    def __init__(self, keys: np.ndarray) -> None:
        self._by_features, self._by_text = keys.ndim == 2, keys.dtype.kind == "U"
        listed: list[Hashable] = (context_keys(keys) if self._by_features else keys).tolist()
        self._places = {key: place for place, key in enumerate(listed)}
        self.repeats = len(self._places) < len(keys)

    def find(self, contexts: np.ndarray) -> np.ndarray:
        """The place of each context (n, d), (n,); −1 where it is unknown."""
        keys = context_keys(contexts).tolist()
        return np.fromiter((self._places.get(key, -1) for key in keys), dtype=np.int64, count=len(keys))

    def place(self, key: Any) -> int | None:
        """The place of one context (d,), or of one id, whichever the keys are; None if unknown."""
        if self._by_features:
            return self._places.get((key + 0.0).tobytes())
        return self._places.get(str(key) if self._by_text else key)


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each distinct context (m,), in the order of `groups_of`, and which each row is (n,)."""
    group = groups_of(keys)
    return np.unique(group, return_index=True)[1], group
