"""What `evaluate` must know of a whole log before it weighs a single row, gathered block by block."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparing.evaluation.block import Block, Shared
from sparing.evaluation.ingredients import Ingredients
from sparing.log import Log
from sparing.log.rows import Rows
from sparing.log.sketches import Values
from sparing.log.support import Support
from sparing.log.walking import Statistic
from sparing.model.crossfitting import block_folds
from sparing.model.statistics import Statistics
from sparing.model.streaming import Sums
from sparing.policies.policy import Policy


@dataclass(frozen=True, eq=False)
class Facts:
    """Sums over all rows: counts (K,) N_a, logged propensities, and what the policy adds to them.

    supported (K,): Σ π(a|x_i) over rows that support a, or of all where that is unknown. missing: Σ of the mass outside the support, or of 1 − w_i where
    that is unknown. pulls: `Ingredients.pull` (K, d), of all pairs and, where the support is known, of those supported.
    """

    rows: int
    counts: np.ndarray
    propensities: Values
    supported: np.ndarray
    missing: float
    pulls: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, block: Log, first_row: int, *, policy: Policy, quantiles: bool, pulls: bool) -> "Facts":
        """Those of a block; propensities and pulls only where they are asked for. A policy that is none is refused here."""
        of = Ingredients(block, policy, (0.0, 0.0), first_row=first_row)
        outside, weighed = of.unsupported, block.propensities is not None
        missing = 1 - of.weights if outside is None and weighed else np.zeros(0)
        supported = np.zeros(block.n_actions)
        for rows, chances in of.blocks():
            inside = np.where(block.support.mask(rows), chances, 0.0) if block.support.known else chances
            supported += inside.sum(axis=0)
        pairs = (False, True) if block.support.known else (False,)
        return cls(
            block.n_rows,
            block.counts,
            Values() if block.propensities is None or not quantiles else Values.of(block.propensities),
            supported,
            float(missing.sum() if outside is None else outside.mass.sum()),
            tuple(of.pull(within_support=within) for within in pairs) if pulls else (),
        )

    def __add__(self, other: "Facts") -> "Facts":
        return Facts(
            self.rows + other.rows,
            self.counts + other.counts,
            self.propensities + other.propensities,
            self.supported + other.supported,
            self.missing + other.missing,
            tuple(one + two for one, two in zip(self.pulls, other.pulls, strict=True)),
        )


class FoldSums(Statistic[Log, tuple[Any, ...]]):
    """The per-action sums of each fold's rows; contexts are in folds by their hashes."""

    def __init__(self, rows: Rows, folds: int, seed: int) -> None:
        self.sums, self.folds, self.seed = Sums(rows), folds, seed

    def zero(self) -> tuple[Any, ...]:
        """No rows."""
        return tuple(self.sums.zero() for _ in range(self.folds))

    def update(self, state: tuple[Any, ...], block: Log, first_row: int) -> tuple[Any, ...]:
        """Each fold has its rows of the block."""
        if self.folds == 1:
            return (self.sums.update(state[0], block, first_row),)
        fold_of = block_folds(block, self.folds, self.seed, whole=False)
        plain = replace(block, support=Support.unknown(block.n_rows, block.n_actions), context_ids=None)
        return tuple(
            self.sums.update(part, plain.take(fold_of == fold), first_row) for fold, part in enumerate(state)
        )

    def finish(self, state: tuple[Any, ...]) -> tuple[Statistics, ...]:
        """The sums of a leaf."""
        return tuple(self.sums.finish(part) for part in state)

    def merge(self, one: tuple[Statistics, ...], other: tuple[Statistics, ...]) -> tuple[Statistics, ...]:
        """Fold by fold."""
        return tuple(self.sums.merge(*parts) for parts in zip(one, other, strict=True))


def band_worth(policy: Policy, shared: Shared, block: Log, first_row: int) -> np.ndarray:
    """What the policy's unsupported mass may be worth by the linear model's band: Σ of the least and of the most, (2,)."""
    outside = Block(block, policy, shared, first_row).unsupported
    assert outside is not None
    return np.array([outside.low.sum(), outside.high.sum()])


def others(sums: Sequence[Statistics]) -> list[Statistics]:
    """For each fold the sums of all rows outside it."""
    zero = Statistics.zero(sums[0].n_actions, sums[0].n_features)
    return [sum((*sums[:fold], *sums[fold + 1 :]), zero) for fold in range(len(sums))]
