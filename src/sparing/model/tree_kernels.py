"""Walking down many small trees, compiled."""

import numpy as np

from sparing.native.compile import compiled


@compiled
def add_leaves(
    contexts: np.ndarray,
    roots: np.ndarray,
    owners: np.ndarray,
    features: np.ndarray,
    thresholds: np.ndarray,
    right: np.ndarray,
    values: np.ndarray,
    scores: np.ndarray,
) -> None:
    """scores[i, owner_t] += the value of the leaf of tree t in which context i lies, tree after tree.

    A node's left child is the next one, and a leaf has right = 0.
    """
    for row in range(len(contexts)):
        for tree in range(len(roots)):
            node = roots[tree]
            while right[node] > 0:
                if contexts[row, features[node]] <= thresholds[node]:
                    node += 1
                else:
                    node = right[node]
            scores[row, owners[tree]] += values[node]
