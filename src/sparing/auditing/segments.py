"""Segments: regions of contexts that a few plain conditions describe, found by a shallow tree or one line."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np
from scipy import special

from sparing.log.features.encoder import Encoder

SEARCHED_ROWS, SEARCHED_CELLS = 20_000, 4_000_000
"""Rows, and cells of the widest table of them, in which segments are searched, at most."""

DEPTH = 3  # conditions that describe a segment, at most
CUTS = 63  # thresholds tried for each feature, at most
DIGITS = 3  # significant digits of a threshold, counted from the feature's range, so that the text is exact
TERMS = 6  # features in the sum that describes a half-space, at most
NEWTON_STEPS = 6
NEGLIGIBLE = 0.05  # a term that varies less than this share of the one that varies most is left out


@dataclass(frozen=True)
class Bound:
    """low < Σ_j weight_j·x_j ≤ high; `terms` holds (j, weight), for most bounds just (j, 1)."""

    terms: tuple[tuple[int, float], ...]
    low: float = -np.inf
    high: float = np.inf

    def total(self, contexts: np.ndarray) -> np.ndarray:
        (first, weight), *others = self.terms
        if not others and weight == 1:
            return contexts[:, first]
        total: np.ndarray = contexts[:, first] * weight
        for feature, weight in others:  # one by one, so that each row's bits are its own
            total += contexts[:, feature] * weight
        return total

    def contains(self, contexts: np.ndarray) -> np.ndarray:
        total = self.total(contexts)
        if np.isinf(self.low):
            return total <= self.high
        above = total > self.low
        return above if np.isinf(self.high) else above & (total <= self.high)

    def words(self, encoder: Encoder) -> str:
        """Such as "0.1 < age ≤ 0.5", "country is not NZ" or "x_0 − 0.62·x_3 > 0.4"."""
        if len(self.terms) == 1 and self.terms[0][1] == 1:
            phrase = encoder.words(self.terms[0][0], self.low, self.high)
            if phrase is not None:
                return phrase
        total = ""
        for j, weight in self.terms:
            size = "" if abs(weight) == 1 else f"{abs(weight):.12g}·"
            sign = (" − " if weight < 0 else " + ") if total else ("−" if weight < 0 else "")
            total += f"{sign}{size}{encoder.term(j)}"
        if np.isinf(self.low):
            return f"{total} ≤ {_number(self.high)}"
        if np.isinf(self.high):
            return f"{total} > {_number(self.low)}"
        return f"{_number(self.low)} < {total} ≤ {_number(self.high)}"


@dataclass(frozen=True)
class Segment:
    """Contexts that keep all of its bounds; without any, all contexts."""

    bounds: tuple[Bound, ...] = ()

    def contains(self, contexts: np.ndarray) -> np.ndarray:
        parts = [bound.contains(contexts) for bound in self.bounds]
        return np.logical_and.reduce(parts) if parts else np.ones(len(contexts), dtype=bool)

    @property
    def depth(self) -> int:
        """How many sides it is bounded on."""
        return sum(int(np.isfinite(bound.low)) + int(np.isfinite(bound.high)) for bound in self.bounds)

    def restricted(self, feature: int, low: float, high: float) -> "Segment":
        """The part of the segment with low < x_j ≤ high."""
        terms = ((feature, 1.0),)
        bounds = []
        for bound in self.bounds:
            if bound.terms == terms:
                low, high = max(low, bound.low), min(high, bound.high)
            else:
                bounds.append(bound)
        bounds.append(Bound(terms, low, high))
        return Segment(tuple(sorted(bounds, key=attrgetter("terms"))))

    def words(self, encoder: Encoder) -> str:
        """Such as "0.1 < age ≤ 0.5 and x_2 > 0.53"; "everywhere" without bounds."""
        return " and ".join(bound.words(encoder) for bound in self.bounds) or "everywhere"


@dataclass(frozen=True)
class Leaf:
    """A segment, how many of the rows that the tree was grown on lie in it, and how many of those were hits."""

    segment: Segment
    size: int
    hits: int


class Binned:
    """Contexts (n, d) with every feature cut at a few thresholds: what trees are grown on.

    `distinct` (d,) counts the values of each feature; `tried` is the number of one-sided segments that the thresholds make.
    """

    def __init__(self, contexts: np.ndarray) -> None:
        self.contexts = np.asfortranarray(contexts)
        values = [np.unique(column) for column in self.contexts.T]
        self.distinct = np.array([len(each) for each in values], dtype=np.int64)
        self.cuts = [_thresholds(*pair) for pair in zip(self.contexts.T, values, strict=True)]
        self.width = max(map(len, self.cuts)) + 1
        codes = [np.searchsorted(cuts, x) for cuts, x in zip(self.cuts, self.contexts.T, strict=True)]
        self.codes = np.array(codes, dtype=np.uint8).T
        self.tried = 2 * max(1, sum(map(len, self.cuts)))
        # A number for each feature and code, (n, d).
        self._cells = np.ascontiguousarray(
            self.codes + self.width * np.arange(len(self.cuts)), dtype=np.int32
        )

    @cached_property
    def row_counts(self) -> np.ndarray:
        """How many of all rows lie up to each threshold of each feature, (d, width)."""
        return self._counts(self._cells)

    def leaves(
        self,
        hit: np.ndarray,
        *,
        smallest: int,
        max_share: float,
        depth: int = DEPTH,
        done: Callable[[Leaf], bool] = lambda leaf: False,
    ) -> list[Leaf]:
        """Split until hits (n,) and misses part: leaves of `smallest` rows or more, at most `depth` conditions deep.

        A part that is `done` is not split. Neighbours that both have a share of hits of at most `max_share` are merged
        again: one region is described in fewer words.
        """

        def ends(leaf: Leaf, depth: int) -> bool:
            return (
                not depth
                or leaf.hits in (0, leaf.size)
                or leaf.size < 2 * smallest
                or (bool(leaf.segment.bounds) and done(leaf))
            )

        def grown(
            leaf: Leaf, rows: np.ndarray, struck: np.ndarray, counts: np.ndarray, depth: int
        ) -> list[Leaf]:
            """The leaves of a node with these rows and hits; counts (2, d, width) are of both."""
            split = self._best_split(leaf, rows, hit, counts, smallest)
            if split is None:
                return [leaf]
            feature, cut = split
            column = self.contexts[:, feature]
            left, hit_left = column.take(rows) <= cut, column.take(struck) <= cut
            size, hits = int(np.count_nonzero(left)), int(np.count_nonzero(hit_left))
            sides = [
                Leaf(leaf.segment.restricted(feature, -np.inf, cut), size, hits),
                Leaf(leaf.segment.restricted(feature, cut, np.inf), leaf.size - size, leaf.hits - hits),
            ]
            if all(ends(side, depth - 1) for side in sides):
                leaves = sides
            else:
                members = [
                    (rows.compress(at), struck.compress(on))
                    for at, on in ((left, hit_left), (~left, ~hit_left))
                ]
                # Counting the smaller side is enough: the other one has the rest. It halves the cost of a tree, or better.
                small = 0 if 2 * size <= leaf.size else 1
                fewer = np.stack([self._counts(self._cells.take(these, axis=0)) for these in members[small]])
                parts = [fewer, counts - fewer] if small == 0 else [counts - fewer, fewer]
                leaves = []
                for side, member, part in zip(sides, members, parts, strict=True):
                    leaves += [side] if ends(side, depth - 1) else grown(side, *member, part, depth - 1)
            return [leaf] if all(part.hits <= max_share * part.size for part in leaves) else leaves

        struck = np.flatnonzero(hit)
        root = Leaf(Segment(), len(hit), len(struck))
        if ends(root, depth):
            return [root]
        counts = np.stack([self.row_counts, self._counts(self._cells.take(struck, axis=0))])
        return grown(root, np.arange(len(hit)), struck, counts, depth)

    def _best_split(
        self, leaf: Leaf, rows: np.ndarray, hit: np.ndarray, counts: np.ndarray, smallest: int
    ) -> tuple[int, float] | None:
        """The cut after which the two shares of hits differ most (largest fall of their variance)."""
        n = leaf.size
        if self.width == 1:
            return None
        gain = _gain(counts[0, :, :-1], counts[1, :, :-1], n, leaf.hits, smallest)
        feature, code = divmod(int(gain.argmax()), self.width - 1)
        if gain[feature, code] <= leaf.hits**2 / n * (1 + 1e-12):
            return None
        # The best cut among the values on either side of the threshold, up to its neighbours.
        before, hits_before = counts[:, feature, code - 1] if code else (0, 0)
        near = self.codes[:, feature].take(rows) - np.uint8(code) < 2  # below it numbers wrap
        column, order = self.contexts[:, feature], rows.compress(near)
        order = order.take(np.argsort(column.take(order)))
        values = column.take(order)
        inside, struck = before + np.arange(1, len(order) + 1), hits_before + np.cumsum(hit.take(order))
        gain = _gain(inside, struck, n, leaf.hits, smallest)[:-1]
        gain[values[:-1] == values[1:]] = -np.inf
        if not np.isfinite(gain).any():
            return feature, float(self.cuts[feature][code])
        best = int(gain.argmax())
        return feature, between(float(values[best]), float(values[best + 1]))

    def _counts(self, cells: np.ndarray) -> np.ndarray:
        """How many of these rows (m, d) lie up to each threshold of each feature, (d, width)."""
        shape = (len(self.cuts), self.width)
        return (
            np.bincount(cells.ravel(), minlength=math.prod(shape)).reshape(shape).cumsum(axis=1, dtype=float)
        )


def count_leaves(
    trees: Sequence[Sequence[Leaf]], contexts: np.ndarray, actions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of rows with contexts (n, d) and actions (n,): those of its tree's action in each leaf, and all in it; both (G,).

    There is one tree for each action.
    """
    columns, narrow = np.asfortranarray(contexts), np.min_scalar_type(len(trees))
    order = np.argsort(actions.astype(narrow), kind="stable")  # narrow numbers are sorted in a few passes
    own = np.split(order, np.cumsum(np.bincount(actions, minlength=len(trees)))[:-1])
    hits, sizes = [], []
    for tree, rows in zip(trees, own, strict=True):
        below: dict[tuple[int, float], np.ndarray] = {}  # rows up to a cut; neighbours have cuts in common
        for leaf in tree:
            inside = np.ones(len(columns), dtype=bool)
            for bound in leaf.segment.bounds:
                ((feature, _),) = bound.terms
                for cut in (bound.low, bound.high):
                    if np.isfinite(cut) and (feature, cut) not in below:
                        below[feature, cut] = columns[:, feature] <= cut
                if np.isfinite(bound.low):
                    inside &= ~below[feature, bound.low]
                if np.isfinite(bound.high):
                    inside &= below[feature, bound.high]
            hits.append(np.count_nonzero(inside.take(rows)))
            sizes.append(np.count_nonzero(inside))
    return np.array(hits), np.array(sizes)


def _gain(inside: np.ndarray, struck: np.ndarray, n: int, hits: int, smallest: int) -> np.ndarray:
    """Σ hits²/rows of the two sides of each cut; −inf where a side has fewer than `smallest` rows."""
    outside, missed = n - inside, hits - struck
    gain = struck**2 / np.maximum(inside, 1) + missed**2 / np.maximum(outside, 1)
    return np.where((inside >= smallest) & (outside >= smallest), gain, -np.inf)


def _number(value: float) -> str:
    return f"{value:.12g}".replace("-", "−")


def half_space(contexts: np.ndarray, hit: np.ndarray, *, max_share: float) -> Segment | None:
    """The half-space that best parts misses, which it should hold, from hits; None where no sum does.

    The direction is that of logistic regression of hit (n,) on contexts (n, d), its weights rounded and its
    small terms left out; the bound is where misses − hits inside is largest, among those with a share of
    hits inside of at most `max_share`.
    """
    spread = contexts.std(axis=0)
    if not spread.any() or hit.all() or not hit.any():
        return None
    unit = np.where(spread > 0, spread, 1)
    slope = _direction((contexts - contexts.mean(axis=0)) / unit, hit)
    effect = np.abs(slope)
    chosen = np.argsort(-effect, kind="stable")[:TERMS]
    chosen = np.sort(chosen[effect[chosen] > NEGLIGIBLE * effect.max()])
    if not len(chosen):
        return None
    weights = (slope / unit)[chosen]
    weights = np.round(weights / np.abs(weights).max(), 2)
    terms = tuple((j, w) for j, w in zip(chosen.tolist(), weights.tolist(), strict=True) if w)
    total = Bound(terms).total(contexts)
    order = np.argsort(total)
    hits, inside = np.cumsum(hit[order]), np.arange(1, len(hit) + 1)
    excess = np.where(hits <= max_share * inside, inside - 2 * hits, 0)[:-1]
    excess[total[order[:-1]] == total[order[1:]]] = 0
    if excess.max(initial=0) <= 0:
        return None
    high = between(*total[order[excess.argmax() :][:2]].tolist())
    if terms[0][1] < 0:
        return Segment((Bound(tuple((j, -w) for j, w in terms), low=-high),))
    return Segment((Bound(terms, high=high),))


def _direction(scaled: np.ndarray, hit: np.ndarray) -> np.ndarray:
    """Weights of a logistic regression with ridge 1, by a few Newton steps, (d,)."""
    design = np.column_stack([scaled, np.ones(len(scaled))])
    weights = np.zeros(design.shape[1])
    for _ in range(NEWTON_STEPS):
        chance = special.expit(design @ weights)
        curvature = (design.T * (chance * (1 - chance))) @ design + np.eye(len(weights))
        weights += np.linalg.solve(curvature, design.T @ (hit - chance) - weights)
    return weights[:-1]


def _thresholds(column: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Between its sorted values where there are few, else rounded quantiles; each parts the rows in two."""
    if len(values) <= CUTS + 1:
        return np.array([between(low, high) for low, high in itertools.pairwise(values.tolist())])
    cuts = np.quantile(column, np.arange(1, CUTS + 1) / (CUTS + 1))
    decimals = DIGITS - 1 - int(np.floor(np.log10(values[-1] - values[0])))
    rounded = np.unique(np.round(cuts, decimals))
    return rounded[(rounded >= values[0]) & (rounded < values[-1])]


def between(low: float, high: float) -> float:
    """The middle with as few digits as lie between the two: low ≤ cut < high."""
    middle = low + (high - low) / 2
    for digits in range(1, 17):
        cut = float(f"{middle:.{digits}g}")
        if low <= cut < high:
            return cut
    return low


def searched(rows: int | np.ndarray, width: int, rng: np.random.Generator) -> np.ndarray:
    """A random part of the rows, in order: as many as segments are searched in at this width."""
    return np.sort(rng.permutation(rows)[: max(1, min(SEARCHED_ROWS, SEARCHED_CELLS // width))])
