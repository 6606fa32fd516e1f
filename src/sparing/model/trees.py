"""Sums of regression trees as plain arrays: what boosting learns, without the library that learnt it."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from sparing.errors import SettingError


@dataclass(frozen=True, eq=False)
class Trees:
    """score_a(x) = base_a + Σ_t value of x's leaf in tree t, over the trees t that action a owns.

    base (K,) and rows (K,), how many rows taught each action; roots (T,) and owners (T,) the first node and the
    action of each tree. For each node: features, thresholds, right, values (M,). x goes left, to the next node,
    where x[feature] <= threshold, else to `right`; a leaf has right = 0 and a value. An action without rows has
    the mean score of the others, so it never leads. `binary`: scores are log-odds of a reward of 1.
    """

    base: np.ndarray
    rows: np.ndarray
    roots: np.ndarray
    owners: np.ndarray
    features: np.ndarray
    thresholds: np.ndarray
    right: np.ndarray
    values: np.ndarray
    n_features: int
    binary: bool = False

    def __post_init__(self) -> None:
        k, trees, nodes = len(self.base), len(self.roots), len(self.features)
        shapes = {"base": k, "rows": k, "roots": trees, "owners": trees}
        shapes |= dict.fromkeys(("features", "thresholds", "right", "values"), nodes)
        for name, size in shapes.items():
            array = getattr(self, name)
            wanted = np.float64 if name in ("base", "thresholds", "values") else np.int64
            if array.shape != (size,) or array.dtype != wanted or not np.isfinite(array).all():
                raise SettingError(
                    f"{name} of shape {array.shape} and type {array.dtype}; expected finite {wanted.__name__} of shape ({size},)"
                )
        if not self._walkable():
            raise SettingError(
                "the nodes are no trees: every walk must go on to a later node and end at a leaf"
            )

    def _walkable(self) -> bool:
        """Whether every walk stays inside and ends, whatever the context: nodes lead to later ones only."""
        nodes, inner = np.arange(len(self.right)), self.right > 0
        ahead = (self.right[inner] > nodes[inner] + 1) & (self.right[inner] < len(nodes))
        known = (self.features[inner] >= 0) & (self.features[inner] < self.n_features)
        places = (self.roots >= 0) & (self.roots < len(nodes))
        owned = (self.owners >= 0) & (self.owners < len(self.base))
        return bool(ahead.all() and known.all() and places.all() and owned.all() and (self.right >= 0).all())

    def scores(self, contexts: np.ndarray) -> np.ndarray:
        """score_a(x), (n, K)."""
        from sparing.model.tree_kernels import add_leaves

        x = np.ascontiguousarray(contexts, dtype=np.float64)
        scores = np.tile(self.base, (len(x), 1))
        parts = (self.roots, self.owners, self.features, self.thresholds, self.right, self.values)
        add_leaves(x, *parts, scores)
        seen = self.rows > 0
        if seen.any() and not seen.all():
            scores[:, ~seen] = scores[:, seen].mean(axis=1, keepdims=True)
        return scores

    def rewards(self, contexts: np.ndarray) -> np.ndarray:
        """r̂(x, a), (n, K): the scores, or the chances of a reward of 1 where they are log-odds."""
        scores = self.scores(contexts)
        return expit(scores) if self.binary else scores
