"""How large segments of contexts are, what was tried in them and what could have been: counted on all rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparing.auditing.facts import column_sums, sets_of, unpacked
from sparing.auditing.segments import Bound, Segment
from sparing.log import Log
from sparing.log.walking import Statistic


@dataclass(frozen=True, eq=False)
class Measures:
    """Of segments, in a log of so many rows: each one's rows (G,), rows of each action in it (G, K), and rows of it in
    which each action was supported (G, K), None where the log does not say.
    """

    rows: int
    sizes: np.ndarray
    tried: np.ndarray
    supported: np.ndarray | None

    @property
    def shares(self) -> np.ndarray:
        """Each action's supported share in each segment, (G, K); where that is unknown, whether it was tried."""
        if self.supported is None:
            return (self.tried > 0).astype(float)
        return self.supported / np.maximum(self.sizes, 1)[:, None]


class Measuring(Statistic[Log, Measures]):
    """Counts, segment by segment; `many`: there are many rows, and compiled code counts."""

    def __init__(self, segments: Sequence[Segment], n_actions: int) -> None:
        self.segments, self.n_actions = tuple(segments), n_actions

    @property
    def features(self) -> set[int]:
        """The features that are looked at."""
        return features_of(self.segments)

    def zero(self) -> Measures:
        """Nothing counted."""
        shape = (len(self.segments), self.n_actions)
        return Measures(0, np.zeros(shape[0], np.int64), np.zeros(shape, np.int64), None)

    def update(self, state: Measures, block: Log, first_row: int) -> Measures:
        """With the rows of a block."""
        k, members = self.n_actions, inside(self.segments, block.contexts)
        tried = np.array([np.bincount(block.actions[rows], minlength=k) for rows in members], dtype=np.int64)
        tried = tried.reshape(len(members), k)
        supported = _supported(block, members) if block.support.known else None
        return self.merge(state, Measures(block.n_rows, tried.sum(axis=1), tried, supported))

    def merge(self, one: Measures, other: Measures) -> Measures:
        """Of the rows of both."""
        if not one.rows or not other.rows:
            return one if one.rows else other
        supported = None
        if one.supported is not None and other.supported is not None:
            supported = one.supported + other.supported
        return Measures(one.rows + other.rows, one.sizes + other.sizes, one.tried + other.tried, supported)


def features_of(segments: Sequence[Segment]) -> set[int]:
    """The features that segments are about."""
    return {j for segment in segments for bound in segment.bounds for j, _ in bound.terms}


def inside(segments: Sequence[Segment], contexts: np.ndarray) -> list[np.ndarray]:
    """The rows of contexts (n, d) that lie in each segment; a bound that several have is looked at once."""
    known: dict[Bound, np.ndarray] = {}
    everywhere = np.arange(len(contexts))
    columns = np.empty(contexts.shape, order="F")  # each feature that is asked for in one piece
    for j in features_of(segments):
        columns[:, j] = contexts[:, j]
    found = []
    for segment in segments:
        held = None
        for bound in segment.bounds:
            if bound not in known:
                known[bound] = bound.contains(columns)
            held = known[bound] if held is None else held & known[bound]
        found.append(everywhere if held is None else np.flatnonzero(held))
    return found


def _supported(block: Log, members: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of each segment in which each action was supported, (G, K): set by set, or row by row where each has its own."""
    rows_with = np.zeros((len(members), block.n_actions))
    if block.support.index is None:
        for segment, rows in enumerate(members):
            for _, bits in unpacked(block.support, rows):
                rows_with[segment] += column_sums(bits)
        return rows_with.astype(np.int64)
    places, place = sets_of(block.support)
    counts = np.zeros((len(members), len(places)), dtype=np.float32)
    for segment, rows in enumerate(members):
        counts[segment] = np.bincount(place[rows], minlength=len(places))
    for part, bits in unpacked(block.support, places):
        rows_with += counts[:, part] @ bits.astype(np.float32)  # whole numbers below 2²⁴: exact
    return rows_with.astype(np.int64)
