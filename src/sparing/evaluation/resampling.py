"""Bootstrap replicates of several statistics at once: each resample serves them all."""

from dataclasses import dataclass

import numpy as np

from sparing.evaluation.terms import Terms

BLOCKS = 1024
"""Random blocks of rows in the block bootstrap; a sample no larger than this is resampled row by row."""

RESAMPLES = 1000


@dataclass(frozen=True)
class Recipe:
    """Which columns a statistic is made of; a number stands for a column that is that number everywhere."""

    base: int | float
    ratio: tuple[int | float, int | float] | None
    factor: float


class Resampling:
    """Collects statistics of the same n rows, then resamples the rows for all of them.

    With `blocks` a sample of more than `BLOCKS` rows is cut into random blocks, which are resampled whole;
    only the blocks' sums are kept.
    """

    def __init__(self, rng: np.random.Generator, *, blocks: bool) -> None:
        self._rng, self._blocks = rng, blocks
        self._block_of_row: np.ndarray | None = None
        self._columns: list[np.ndarray] = []
        self._recipes: list[Recipe] = []
        self._n = 0

    def add(self, terms: Terms) -> None:
        """Take one more statistic."""
        self._n = len(terms.base)
        ratio = None
        if terms.numerator is not None and terms.denominator is not None:
            ratio = self._column(terms.numerator), self._column(terms.denominator)
        self._recipes.append(Recipe(self._column(terms.base), ratio, terms.factor))

    def replicates(self) -> np.ndarray:
        """The statistics in each resample, (statistics, RESAMPLES).

        A ratio is formed anew in each: its denominator varies too.
        """
        sums, taken = self._sums()

        def total(column: int | float) -> np.ndarray:
            return sums[column] if isinstance(column, int) else column * taken

        values = np.empty((len(self._recipes), RESAMPLES))
        for place, recipe in enumerate(self._recipes):
            values[place] = total(recipe.base) / taken
            if recipe.ratio is not None:
                above, below = map(total, recipe.ratio)
                some = below > 0
                values[place] += recipe.factor * np.divide(above, below, where=some, out=np.zeros(RESAMPLES))
        return values

    def _column(self, values: np.ndarray) -> int | float:
        """The number of this column among those kept, or its value where it is constant."""
        if values[0] == values[-1] and (values == values[0]).all():
            return float(values[0])
        if self._blocks and self._n > BLOCKS:
            if self._block_of_row is None:
                self._block_of_row = self._rng.integers(BLOCKS, size=self._n)
            values = np.bincount(self._block_of_row, values, BLOCKS)
        for number, kept in enumerate(self._columns):
            if kept is values or (kept[0] == values[0] and np.array_equal(kept, values)):
                return number
        self._columns.append(values)
        return len(self._columns) - 1

    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ count·column (columns, RESAMPLES) and Σ count (RESAMPLES,) over the rows."""
        if not self._columns:
            return np.empty((0, RESAMPLES)), np.ones(RESAMPLES)
        if self._n > BLOCKS and not self._blocks:
            return _poisson(np.array(self._columns), self._rng)
        sizes = np.ones(self._n)
        if self._n > BLOCKS and self._block_of_row is not None:
            sizes = np.bincount(self._block_of_row, minlength=BLOCKS).astype(float)
        units = len(sizes)
        counts = self._rng.multinomial(units, np.full(units, 1 / units), size=RESAMPLES)
        # Not a matrix product: BLAS may round differently with another number of threads.
        sums = np.einsum("bn,cn->cb", counts, np.array([*self._columns, sizes]))
        return sums[:-1], sums[-1]


def _poisson(columns: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Every replicate takes every row Poisson(1) times, columns (C, n)."""
    from sparing.evaluation import resampling_kernels as kernels

    tiles = -(-RESAMPLES // kernels.TILE)
    states = rng.integers(2**64, size=(2, tiles, kernels.LANES), dtype=np.uint64)
    sums = kernels.replicate_sums(columns, states)
    joined = sums.transpose(1, 0, 2).reshape(len(columns) + 1, -1)[:, :RESAMPLES]
    return joined[:-1], joined[-1]
