"""What `evaluate` must know of a whole log before it weighs a single row, gathered block by block."""

from dataclasses import dataclass

import numpy as np

from sparing.evaluation.block import Block, Shared
from sparing.evaluation.ingredients import Ingredients
from sparing.log import Log
from sparing.log.sketches import Values
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


def band_worth(policy: Policy, shared: Shared, block: Log, first_row: int) -> np.ndarray:
    """What the policy's unsupported mass may be worth by the linear model's band: Σ of the least and of the most, (2,)."""
    outside = Block(block, policy, shared, first_row).unsupported
    assert outside is not None
    return np.array([outside.low.sum(), outside.high.sum()])
