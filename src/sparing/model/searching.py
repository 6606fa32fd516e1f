"""How the scales of a prior are found: where the evidence is greatest."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparing.model.evidence import Rows, Scales, fit
from sparing.model.statistics import SMALLEST_NOISE

if TYPE_CHECKING:
    from sparing.model.prior import Blocks

FLOOR, STEEPEST = 1e-3, 1e5
"""A spread is at least this share of what the hyperprior expects; column 0 is at most so many times as wide as it."""

NEARBY = 1e-7
"""A step that gains less than this share of what was gained ends a search that began near its end."""


class Evidence(NamedTuple):
    """The log evidence at the scales fitted to a log: σ, and the spread of each block by its name."""

    value: float
    noise: float
    spreads: dict[str, float]


class Search:
    """The scales of greatest evidence, hyperprior included: L-BFGS on the logarithms of those that are free."""

    def __init__(self, rows: Rows, blocks: "Blocks", start: Scales, *, noise: bool, spread: bool) -> None:
        self.rows, self.blocks, self.start = rows, blocks, start
        m, q, width = len(rows.counts), rows.items.shape[1], np.bincount(blocks.of)
        _, first = np.unique(blocks.of, return_index=True)
        self.free = [i for i, free in enumerate((spread, q > 1, noise)) if free]
        expected = start.spread[first], start.slope[first], np.array([start.noise])
        floor = np.full(len(width), FLOOR)
        if rows.flat is not None:
            floor = np.maximum(floor, (rows.flat / start.spread)[first] / STEEPEST)
        lowest = floor, floor, np.array([SMALLEST_NOISE])
        # Steps in units of what the rows could tell of each, so that all are about as steep.
        unit = np.sqrt(1 + m * width), np.sqrt(1 + (q - 1) * width), np.sqrt([1 + rows.counts.sum()])
        self.expected, self.lowest, self.unit = map(self._chosen, (expected, lowest, unit))
        self.ends = np.cumsum([len(expected[i]) for i in self.free])[:-1]

    def _chosen(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([parts[i] for i in self.free]) if self.free else np.zeros(0)

    def scales(self, step: np.ndarray) -> Scales:
        """The scales so many steps from those that the hyperprior expects."""
        values = np.split(self.expected * np.exp(step / self.unit), self.ends)
        found = dict(zip(self.free, values, strict=True))
        return Scales(
            float(found[2][0]) if 2 in found else self.start.noise,
            found[0][self.blocks.of] if 0 in found else self.start.spread,
            found[1][self.blocks.of] if 1 in found else self.start.slope,
        )

    def loss(self, step: np.ndarray) -> tuple[float, np.ndarray]:
        """What is to be made small, and its gradient."""
        found, away = fit(self.rows, self.scales(step)), step / self.unit
        by_blocks = self.blocks.sums(found.by_spread), self.blocks.sums(found.by_slope)
        slope = self._chosen((*by_blocks, np.array([found.by_noise]))) - away
        return float(0.5 * away @ away) - found.evidence, -slope / self.unit

    def best(self, near: Evidence | None = None) -> Scales:
        """Where the loss is least, sought from a bit below what is expected on; or from where a like model has it, in steps of what the
        rows tell there and only as closely as it takes to compare the two."""
        from scipy import optimize  # a learner that fits no prior need not wait for it

        if not self.free:
            return self.start
        low, high = np.log(self.lowest), -np.log(FLOOR)
        begin, close = np.maximum(-0.5, low / 2), 1e-10
        if near is not None:
            spreads = [near.spreads.get(name, np.nan) for name in self.blocks.names]
            known = np.log(np.array([*spreads, near.noise]) / self.expected)
            begin, close = np.where(np.isnan(known), begin, np.clip(known, low, high)), NEARBY
            told = self.blocks.sums(fit(self.rows, self.scales(begin * self.unit)).told)
            told = np.append(told, self.rows.counts.sum() - told.sum())
            self.unit = np.sqrt(1 + 2 * np.maximum(told, 0.0))
        least = None

        def above(step: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal least
            value, slope = self.loss(step)
            least = value if least is None else least
            return value - least, slope

        bounds = list(zip((low * self.unit).tolist(), (high * self.unit).tolist(), strict=True))
        limits: Any = {"maxiter": 60, "ftol": close, "gtol": 1e-4}
        steps = begin * self.unit
        found = optimize.minimize(above, steps, jac=True, method="L-BFGS-B", bounds=bounds, options=limits)
        return self.scales(found.x)
