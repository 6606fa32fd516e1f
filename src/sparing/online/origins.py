"""Where each action's set begins, before any of its own rows: V = Λ_a and b = Λ_a·m_a."""

from dataclasses import dataclass

import numpy as np

from sparing.model.evidence import AT_ONCE
from sparing.model.prior import Prior
from sparing.model.statistics import Statistics


@dataclass(frozen=True, eq=False)
class Origins:
    """What an action's rows are added to: `row` (K,) says where, row 0 being what all others share.

    pull (n, d) is Λ·m; matrix (n, d·(d+1)/2) is Λ, its upper triangle row after row, or (1, ·) where all have the same.
    """

    row: np.ndarray
    matrix: np.ndarray
    pull: np.ndarray

    @classmethod
    def ridge(cls, ridge: float, center: np.ndarray, n_actions: int) -> "Origins":
        """Λ = λI around a center, (d,) for all actions or (K, d) for each."""
        d = center.shape[-1]
        own = center.ndim == 2
        pull = ridge * (np.concatenate([center[:1] * 0, center]) if own else center[None])
        row = np.arange(1, n_actions + 1) if own else np.zeros(n_actions, dtype=np.int64)
        return cls(row, ridge * packed(np.eye(d)[None]), pull)

    @classmethod
    def of(cls, prior: Prior, sums: Statistics) -> "Origins":
        """What all other actions of a log say of each; untried actions without items share what all logged ones say."""
        (k, d), q = sums.response.shape, prior.items.shape[1]
        own = np.arange(k) if q > 1 else np.flatnonzero(sums.counts)
        row = np.zeros(k, dtype=np.int64)
        row[own] = np.arange(1, len(own) + 1)
        matrix, pull = np.empty((len(own) + 1, d * (d + 1) // 2)), np.empty((len(own) + 1, d))
        blank = prior.blank()
        matrix[:1], pull[0] = packed(blank[0][None]), blank[1]
        for start in range(0, len(own), AT_ONCE):  # bounded copies of a large log's matrices
            part, to = own[start : start + AT_ONCE], slice(start + 1, start + 1 + AT_ONCE)
            full, pull[to] = prior.start(sums.gram[part], sums.response[part], prior.items[part])
            matrix[to] = packed(full)
        return cls(row, matrix, pull)

    def joined(self, matrix: np.ndarray | None = None, pull: np.ndarray | None = None) -> "Origins":
        """With one more action: it shares what all share, or has a Λ·m (d,) of its own, and a packed Λ if all have."""
        if pull is None:
            return Origins(np.append(self.row, 0), self.matrix, self.pull)
        if len(self.matrix) > 1:
            own = self.matrix[0] if matrix is None else matrix
            return Origins(
                np.append(self.row, len(self.pull)),
                np.vstack([self.matrix, own]),
                np.vstack([self.pull, pull]),
            )
        return Origins(np.append(self.row, len(self.pull)), self.matrix, np.vstack([self.pull, pull]))

    @property
    def unit(self) -> float:
        """det(Λ)^(1/d) of what is shared: what determinants are measured in."""
        d = self.pull.shape[1]
        return float(np.exp(np.linalg.slogdet(unpacked(self.matrix[:1], d)[0])[1] / d))

    def matrices(self, actions: np.ndarray) -> np.ndarray:
        """Packed Λ_a of these actions, (m, d·(d+1)/2)."""
        return self.matrix[self.row[actions] if len(self.matrix) > 1 else np.zeros_like(actions)]

    def pulls(self, actions: np.ndarray) -> np.ndarray:
        """Λ_a·m_a of these actions, (m, d)."""
        return self.pull[self.row[actions]]


def packed(full: np.ndarray) -> np.ndarray:
    """Upper triangles, (m, d·(d+1)/2), of symmetric matrices (m, d, d)."""
    rows, columns = np.triu_indices(full.shape[-1])
    return np.asarray(full[:, rows, columns])


def unpacked(triangles: np.ndarray, d: int) -> np.ndarray:
    """Symmetric matrices (m, d, d) from the first d·(d+1)/2 numbers of each row."""
    rows, columns = np.triu_indices(d)
    full = np.empty((len(triangles), d, d))
    full[:, rows, columns] = full[:, columns, rows] = triangles[:, : len(rows)]
    return full
