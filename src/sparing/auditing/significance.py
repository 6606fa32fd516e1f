"""The test of a gap: whether an action has too few of a segment's rows for chance, whatever segments were tried."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from sparing.auditing.segments import DEPTH, Binned
from sparing.log import Log

RARELY_SHARE = 0.05  # an action possible in no more than this share of a segment's rows is a gap there

DEPTH_WEIGHTS = np.array([0.125, 0.5, 0.25, 0.125])
"""Parts of the error probability, for segments of 0, 1, 2 and 3 conditions."""


def rows_needed(share: float, error: float) -> int:
    """Rows without a try after which a share this large is excluded: (1 − share)^m ≤ error."""
    return int(np.ceil(np.log(error) / np.log1p(-share)))


@dataclass(frozen=True, eq=False)
class GapTest:
    """Tests whether an action with h of a segment's m rows is a gap there.

    It is if h ≤ bar·m and P(Binomial(m, p) ≤ h) is at most what this test may take of the error probability. p is the
    least share that the action has where it is possible. overall (K,): its share of all rows. smallest (K,): its smallest
    logged propensity, None without logged propensities. errors (DEPTH + 1,): what the tests of one family of segments may
    take together, by their number of conditions.
    """

    bar: float
    overall: np.ndarray
    smallest: np.ndarray | None
    errors: np.ndarray

    @classmethod
    def of(cls, log: Log, binned: Binned, *, bar: float, error: float) -> "GapTest":
        smallest = None
        if log.propensities is not None:
            smallest = np.ones(log.n_actions)
            np.minimum.at(smallest, log.actions, log.propensities)
        errors = error * DEPTH_WEIGHTS / (log.n_actions * count_families(binned.distinct))
        return cls(bar, log.counts / log.n_rows, smallest, errors)

    def least_share(self, actions: Any, hits: Any = 0, sizes: Any = 0, rows: int = 1) -> Any:
        """p of these actions, tested in segments that have so many hits and rows, of `rows` in all.

        Logged propensities are believed: it is the smallest one of the action. Otherwise it is half of its share
        elsewhere, and at least the bar. Beyond RARELY_SHARE it does not rise: a small propensity is not a gap.
        """
        if self.smallest is not None:
            return np.minimum(RARELY_SHARE, self.smallest[actions])
        # Elsewhere is at least half of the rows: few rows elsewhere would say little of the share there.
        elsewhere = (self.overall[actions] - hits / rows) / np.maximum(0.5, 1 - sizes / rows)
        return np.maximum(self.bar, np.minimum(RARELY_SHARE, elsewhere / 2))

    def passes(self, actions: Any, hits: Any, sizes: Any, rows: int, allowed: Any) -> Any:
        """Whether these are gaps, where each test may take so much of the error probability."""
        chance = special.bdtr(hits, sizes, self.least_share(actions, hits, sizes, rows))
        return (hits <= self.bar * sizes) & (chance <= allowed)

    def allowed(self, depth: Any = 1, hits: Any = 0) -> Any:
        """What the test of a segment with so many conditions and hits may take, if it was chosen on the same rows.

        Segments of a family are nested. Of those with h hits, all that are large enough contain the smallest one: one test
        for each h is enough for the family. The shares 1/((h + 1)(h + 2)) add to 1.
        """
        return self.errors[depth] / ((hits + 1.0) * (hits + 2.0))


def count_families(distinct: np.ndarray) -> np.ndarray:
    """Families of nested segments, at most, with 0 to DEPTH conditions on features with so many values (d,).

    A condition is one of the 2d sides of the features, and one of its c cuts. Segments with the same j − 1 conditions and the
    same side in the jth are nested. With the side of most cuts as the jth, there are at most (2d − j + 1)/j·e_{j−1}(c) such
    families; e is the elementary symmetric polynomial.
    """
    cuts = np.repeat(distinct[distinct > 1] - 1.0, 2)
    symmetric = [1.0]
    for j in range(1, DEPTH):  # Newton's identities
        powers = [(cuts**i).sum() * symmetric[j - i] for i in range(1, j + 1)]
        symmetric.append(float(np.dot((-1.0) ** np.arange(j), powers)) / j)
    conditions = np.arange(1, DEPTH + 1)
    return np.maximum(1.0, np.append(1.0, (len(cuts) - conditions + 1) / conditions * symmetric))
