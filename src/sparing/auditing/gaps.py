"""The gap map: segments of contexts that the log does not cover, ranked by what untried actions may be worth."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparing.auditing.counts import SegmentCounts, count_segments
from sparing.auditing.segments import Binned, Segment, half_space, searched
from sparing.auditing.support import RARELY_SHARE
from sparing.engines import local
from sparing.log import Log
from sparing.log.passes import Blocks
from sparing.log.rows import InMemoryRows
from sparing.model.confidence import ConfidenceEllipsoids
from sparing.report.text import counted, join_names, percent

SMALLEST_SHARE, SMALLEST_ROWS = 0.02, 20  # of the searched rows, in a segment

COVERAGE_BY_BOXES, CLEARLY_MORE = 0.8, 1.25
"""A half-space is looked for where boxes explain less than this share, and taken where it explains this much more."""

JACCARD_MERGE = 0.8  # two segments that share this part of their joint rows are one

CHANCE = 0.01
"""A segment counts only if so few hits occur by chance, over all segments tried, less often than this."""

CANDIDATES = 300  # segments that are compared, the largest first

SHORT_CELLS, SHORT_ROWS = 2**18, 256
"""Multiplications in a product of some rows, at most, and rows of one, at least."""


@dataclass(frozen=True, eq=False)
class Gap:
    """Actions that a segment of contexts has never, or hardly ever, seen.

    rows: the log's rows in the segment; share: of all rows; tried: rows of the segment in which one of
    the actions was logged; supported: share of its (row, action) pairs that could have been logged;
    upside: mean over its contexts of max(0, max_a U_a(x) − max over supported b of L_b(x)).
    """

    segment: Segment
    where: str
    actions: tuple[Hashable, ...]
    rows: int
    share: float
    tried: int
    supported: float
    upside: float | None

    def __str__(self) -> str:
        place = f"where {self.where}" if self.segment.bounds else self.where
        several = "actions" if len(self.actions) > 1 else "action"
        often = f"hardly ever tried ({counted(self.tried, 'row')})" if self.tried else "never tried"
        return f"{place}: {several} {join_names(self.actions)} {often}; {percent(self.share)} of rows"

    def to_dict(self) -> dict[str, object]:
        bounds = [
            {"terms": bound.terms, "above": _finite(bound.low), "up_to": _finite(bound.high)}
            for bound in self.segment.bounds
        ]
        fields = {name: value for name, value in vars(self).items() if name != "segment"}
        return {"where": self.where, "bounds": bounds, **fields, "actions": list(map(plain, self.actions))}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def plain(name: Hashable) -> str | int | float:
    return name if isinstance(name, str | int | float) else str(name)


@dataclass(frozen=True, eq=False)
class GapMap:
    """The gaps, best upside first; supported (gaps, K) is each action's supported share in each segment.

    `found` counts all gaps, listed or not; `coverage` is the share of the untried pairs that the listed
    ones explain (None where there are none), `searched` the number of rows segments were searched in.
    """

    gaps: tuple[Gap, ...]
    supported: np.ndarray
    found: int
    coverage: float | None
    searched: int

    def __repr__(self) -> str:
        return f"GapMap({len(self.gaps)} of {self.found} gaps, searched in {self.searched:,} rows)"


@dataclass(eq=False)
class _Candidate:
    """A segment, the actions it hardly ever saw, and which of the searched rows it holds."""

    segment: Segment
    actions: list[int]
    inside: np.ndarray
    upside: float | None = None


@dataclass(frozen=True, eq=False)
class GapSearch:
    """The gaps in a sample of rows, the listed ones first in order: how many there are, what they explain, rows searched."""

    listed: list[_Candidate]
    many: int
    coverage: float | None
    searched: int

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(gap.segment for gap in self.listed)

    def measured(self, header: Log, measures: SegmentCounts, supported: np.ndarray) -> GapMap:
        """The gap map, by what was measured of the listed on all rows, and each action's supported share in each, (gaps, K)."""
        n = max(1, measures.rows)
        gaps = tuple(
            Gap(
                segment=gap.segment,
                where=gap.segment.words(header.encoder),
                actions=tuple(header.action_names[a] for a in gap.actions),
                rows=int(measures.sizes[i]),
                share=float(measures.sizes[i] / n),
                tried=int(measures.tried[i, gap.actions].sum()),
                supported=float(supported[i, gap.actions].mean()),
                upside=gap.upside,
            )
            for i, gap in enumerate(self.listed)
        )
        return GapMap(gaps, supported, self.many, self.coverage, self.searched)


def find_gaps(log: Log, sets: ConfidenceEllipsoids | None, **settings: Any) -> GapMap:
    """Search a sample of rows of a log in memory, and measure what is found on all of them; settings as of `search_gaps`."""
    found = search_gaps(log, log.counts, sets, **settings)
    measures = count_segments(InMemoryRows(log), found.segments)
    return found.measured(log, measures, measures.shares)


def search_gaps(
    log: Log,
    counts: np.ndarray,
    sets: ConfidenceEllipsoids | None,
    *,
    tested: Sequence[tuple[int, Segment]] | None = None,
    reward_range: tuple[float, float] | None = None,
    limit: int = 20,
    seed: int = 0,
    threads: int | None = None,
) -> GapSearch:
    """Search a sample of rows for segments, one shallow tree an action; counts (K,) are of all the rows these are from.

    `tested` are the (action, segment) pairs from which the support was estimated: then they are the gaps.
    Without confidence sets there is no upside, and larger segments come first. Actions that were never
    logged are gaps everywhere, whatever the support; where that is unknown they are the only ones.
    """
    rng = np.random.default_rng([seed, 21])
    rows = searched(log.n_rows, max(log.n_actions, log.n_features), rng)
    contexts = log.contexts[rows]
    possible = np.ones((len(rows), log.n_actions), dtype=bool)
    if log.support.known:
        possible = log.support.mask(rows)
    never = np.flatnonzero(counts == 0)
    possible[:, never] = False
    if tested is None:
        candidates = _candidates(contexts, log.groups[rows], possible, never)
    else:
        columns = np.asfortranarray(contexts)
        given = (_Candidate(segment, [a], segment.contains(columns)) for a, segment in tested if counts[a])
        candidates = [gap for gap in given if gap.inside.any()]
    found = _joined(candidates, possible)
    if len(rows) and len(never):
        found.append(_Candidate(Segment(), never.tolist(), np.ones(len(rows), dtype=bool)))
    if sets is not None and found:
        untried = sorted({action for gap in found for action in gap.actions})
        best, high = _limits(sets, contexts, possible, untried, reward_range, threads)
        for gap in found:
            top = high[gap.inside][:, np.searchsorted(untried, gap.actions)].max(axis=1)
            gap.upside = float(np.maximum(0, top - best[gap.inside]).mean())
    found.sort(key=lambda gap: (-(gap.upside or 0), -gap.inside.sum()))
    listed = found[:limit]
    return GapSearch(listed, len(found), _coverage(listed, ~possible), len(rows))


def _limits(
    sets: ConfidenceEllipsoids,
    contexts: np.ndarray,
    possible: np.ndarray,
    untried: list[int],
    reward_range: tuple[float, float] | None,
    threads: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The largest L_b(x) over possible actions b, (n,), and U_a(x) of these actions, (n, len): on this machine's threads.

    Products are kept so short that BLAS does not start threads of its own for each.
    """

    def work(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        low, high = sets.limits(contexts[rows], reward_range)
        return np.where(possible[rows], low, -np.inf).max(axis=1), high[:, untried]

    _ = sets.theta, sets.radius  # made once, not by each thread
    step = max(SHORT_ROWS, SHORT_CELLS // contexts.shape[1] ** 2)
    best, high = zip(*local(threads).results(work, list(Blocks(0, len(contexts), step))), strict=True)
    return np.concatenate(best), np.concatenate(high)


def _candidates(
    contexts: np.ndarray, groups: np.ndarray, possible: np.ndarray, never: np.ndarray
) -> list[_Candidate]:
    """The segments in which an action that was logged somewhere was hardly ever possible.

    They are the leaves of a shallow tree, unless one half-space explains clearly more.
    """
    smallest = max(SMALLEST_ROWS, int(np.ceil(SMALLEST_SHARE * len(possible))))
    binned = Binned(contexts)
    tests = possible.shape[1] * binned.tried

    def gaps(segments: Iterable[Segment], action: int) -> list[_Candidate]:
        """Those large enough in which the action was surely hardly ever possible."""
        hit = possible[:, action]
        found = (_Candidate(segment, [action], segment.contains(contexts)) for segment in segments)
        return [
            gap
            for gap in found
            if gap.inside.sum() >= smallest
            and hit[gap.inside].mean() <= RARELY_SHARE
            and (not gap.segment.bounds or _chance_p_value(hit, gap.inside, groups) * tests <= CHANCE)
        ]

    candidates: list[_Candidate] = []
    uncovered = np.setdiff1d(np.flatnonzero(~possible.all(axis=0)), never).tolist()

    for action in uncovered:
        hit = possible[:, action]
        leaves = binned.leaves(hit, smallest=smallest, max_share=RARELY_SHARE)
        boxes = gaps((leaf.segment for leaf in leaves), action)
        explained = sum(int((box.inside & ~hit).sum()) for box in boxes)
        if explained < COVERAGE_BY_BOXES * (~hit).sum():
            line = half_space(contexts, hit, max_share=RARELY_SHARE)
            whole = gaps([line], action) if line else []
            if whole and (whole[0].inside & ~hit).sum() >= CLEARLY_MORE * explained:
                boxes = whole
        candidates += boxes
    return candidates


def _chance_p_value(hit: np.ndarray, inside: np.ndarray, groups: np.ndarray) -> float:
    """How probable so small a share of hits is among the segment's distinct contexts, were it a random one."""
    from scipy.stats import binom  # slow to import

    contexts = len(np.unique(groups[inside]))
    return float(binom.cdf(int(hit[inside].mean() * contexts), contexts, hit.mean()))


def _joined(candidates: list[_Candidate], possible: np.ndarray) -> list[_Candidate]:
    """Segments of several actions that are nearly one become one with all of their actions.

    A segment inside another one of the same action is dropped.
    """
    kept: list[_Candidate] = []
    for candidate in sorted(candidates, key=lambda candidate: -candidate.inside.sum())[:CANDIDATES]:
        (action,), size = candidate.actions, candidate.inside.sum()
        for other in kept:
            both = (candidate.inside & other.inside).sum()
            if action in other.actions:
                if both == size:
                    break
            elif (
                both >= JACCARD_MERGE * (size + other.inside.sum() - both)
                and possible[other.inside, action].mean() <= RARELY_SHARE
            ):
                other.actions = sorted([*other.actions, action])
                break
        else:
            kept.append(candidate)
    return kept


def _coverage(listed: list[_Candidate], uncovered: np.ndarray) -> float | None:
    """The share of the uncovered pairs (n, K) that the listed gaps explain; None where there are none."""
    explained = np.zeros_like(uncovered)
    for gap in listed:
        explained[:, gap.actions] |= gap.inside[:, None]
    return float((explained & uncovered).sum() / uncovered.sum()) if uncovered.any() else None
