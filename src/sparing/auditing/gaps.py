"""Where the log is blind: each action by itself, and the gap map, ranked by what untried actions might be worth."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from sparing.auditing.segments import Binned, Segment, half_space
from sparing.auditing.support import SupportEstimate
from sparing.auditing.wording import named, percent
from sparing.log import Log
from sparing.log.blocks import Blocks
from sparing.model.ellipsoids import Ellipsoids

HARDLY = 0.05
"""An action that could be taken in no more than this share of a segment's rows is a gap there."""

DEPTH = 3
"""Conditions that describe a segment, at most."""

SMALLEST_SHARE, SMALLEST_ROWS = 0.02, 20
"""A segment has at least this share of the searched rows, and this many."""

SEARCHED_ROWS, SEARCHED_CELLS = 20_000, 4_000_000
"""Rows, and (row, action) or (row, feature) pairs, in which segments are searched, at most."""

BOXES_SUFFICE, CLEARLY_MORE = 0.8, 1.25
"""A half-space is looked for where boxes explain less than this share, and taken where it explains this much more."""

ALIKE = 0.8
"""Two segments that share this part of their joint rows are one."""

CHANCE = 0.01
"""A segment counts only where so few hits would come by luck, over all segments tried, less often than this."""

CANDIDATES = 300
"""Segments that are compared, the largest first."""


@dataclass(frozen=True)
class ActionAudit:
    """One action; shares are of the log's rows, and None where the log cannot tell.

    supported: could have been logged. zero: probability 0 in a known distribution, whether eligible or
    not. ineligible: outside the eligible set. rare: supported, but with a propensity (or, without
    distributions, a share of the supported rows) below the bar. undecided: of an estimated support.
    implied: mean of 1{a_i = a}/μ_i, which is the supported share by logged propensities alone, where the
    support is not exact.
    certified_error: bound on ‖θ̂_a − θ*_a‖ that holds for all actions at once with probability 1 − δ.
    """

    name: Hashable
    rows: int
    share: float | None
    supported: float | None
    zero: float | None
    ineligible: float | None
    rare: float | None
    undecided: float | None
    implied: float | None
    certified_error: float | None
    certified: bool


def audit_actions(
    log: Log,
    sets: Ellipsoids | None,
    *,
    rare: float,
    error: float,
    estimate: SupportEstimate | None,
    estimated: bool,
) -> tuple[ActionAudit, ...]:
    """Describe every action, in the log's order; `estimated` says that the log's propensities are."""
    n, k = log.n_rows, log.n_actions
    support, exact = log.support, log.support.kind == "exact"
    known = support.known and n > 0
    missing = 1 - support.shares if known and exact else None
    by_chance = support.from_probabilities
    implied = None
    if log.propensities is not None and n and not (known and exact) and not estimated:
        implied = np.bincount(log.actions, weights=1 / log.propensities, minlength=k) / n
    errors = None if sets is None else sets.errors
    columns = {
        "share": log.counts / n if n else None,
        "supported": support.shares if known else None,
        "zero": missing if by_chance else None,
        "ineligible": None if by_chance else missing,
        "rare": rare_shares(log, rare) if n else None,
        "undecided": None if estimate is None else estimate.undecided,
        "implied": implied,
        "certified_error": errors,
    }
    return tuple(
        ActionAudit(
            name=name,
            rows=int(log.counts[a]),
            certified=errors is not None and bool(errors[a] <= error),
            **{what: None if column is None else float(column[a]) for what, column in columns.items()},
        )
        for a, name in enumerate(log.action_names)
    )


def rare_shares(log: Log, rare: float) -> np.ndarray:
    """Share of rows in which each action is supported with a propensity below `rare`, (K,).

    With known distributions by the propensity itself. Otherwise an action is rare in all of its
    supported rows (all rows where the support is unknown) or in none, by N_a over their number.
    """
    support = log.support
    if support.probabilities is None:
        shares = support.shares if support.known else np.ones(log.n_actions)
        return np.where(log.counts < rare * shares * log.n_rows, shares, 0.0)
    table = support.probabilities
    weights = None if support.index is None else np.bincount(support.index, minlength=len(table))
    rows = np.zeros(log.n_actions)
    for part in Blocks.of(len(table), log.n_actions):
        below = (table[part] > 0) & (table[part] < rare)
        rows += below.sum(axis=0) if weights is None else weights[part].astype(float) @ below
    return rows / log.n_rows


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
        place = self.where if not self.segment.bounds else f"where {self.where}"
        several = "actions" if len(self.actions) > 1 else "action"
        return f"{place}: {several} {named(self.actions)} {self.how_often}; {percent(self.share)} of rows"

    @property
    def how_often(self) -> str:
        """In words, with the number of rows where there are any."""
        if not self.tried:
            return "never tried"
        return f"hardly ever tried ({self.tried:,} row{'s' if self.tried > 1 else ''})"

    def to_dict(self) -> dict[str, object]:
        """The gap in types that JSON has; a bound that is infinite is null."""
        bounds = [
            {
                "terms": bound.terms,
                "above": bound.low if np.isfinite(bound.low) else None,
                "up_to": bound.high if np.isfinite(bound.high) else None,
            }
            for bound in self.segment.bounds
        ]
        fields = {name: value for name, value in vars(self).items() if name != "segment"}
        return {"where": self.where, "bounds": bounds, **fields, "actions": list(map(plain, self.actions))}


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


@dataclass(eq=False)
class _Candidate:
    segment: Segment
    actions: list[int]
    inside: np.ndarray


def plain(name: Hashable) -> str | int | float:
    """A label as JSON has it."""
    return name if isinstance(name, str | int | float) else str(name)


def find_gaps(
    log: Log,
    sets: Ellipsoids | None,
    *,
    reward_range: tuple[float, float] | None = None,
    limit: int = 20,
    seed: int = 0,
) -> GapMap:
    """Search a sample of rows for segments, one shallow tree an action, and measure them on all rows.

    Without confidence sets there is no upside, and larger segments come first. Actions that were never
    logged are gaps everywhere, whatever the support; where that is unknown they are the only ones.
    """
    most = max(1, min(SEARCHED_ROWS, SEARCHED_CELLS // max(log.n_actions, log.n_features)))
    rows = np.sort(np.random.default_rng([seed, 21]).permutation(log.n_rows)[:most])
    contexts = log.contexts[rows]
    possible = np.ones((len(rows), log.n_actions), dtype=bool)
    if log.support.known:
        possible = log.support.mask(rows)
    never = np.flatnonzero(log.counts == 0)
    possible[:, never] = False
    found = _joined(_candidates(contexts, log.groups[rows], possible, never), possible)
    if len(rows) and len(never):
        found.append(_Candidate(Segment(), never.tolist(), np.ones(len(rows), dtype=bool)))
    upsides: list[float | None] = [None] * len(found)
    if sets is not None and found:
        low, high = sets.limits(contexts, reward_range)
        best = np.where(possible, low, -np.inf).max(axis=1)
        upsides = [_upside(candidate, high, best) for candidate in found]
    order = sorted(range(len(found)), key=lambda i: (-(upsides[i] or 0), -found[i].inside.sum()))
    listed = [found[i] for i in order[:limit]]
    supported, tried, sizes = _measured(log, [candidate.segment for candidate in listed])
    gaps = tuple(
        Gap(
            segment=candidate.segment,
            where=candidate.segment.words(log.feature_names),
            actions=tuple(log.action_names[a] for a in candidate.actions),
            rows=int(sizes[i]),
            share=float(sizes[i] / log.n_rows),
            tried=int(tried[i, candidate.actions].sum()),
            supported=float(supported[i, candidate.actions].mean()),
            upside=upsides[order[i]],
        )
        for i, candidate in enumerate(listed)
    )
    return GapMap(gaps, supported, len(found), _coverage(listed, possible), len(rows))


def _candidates(
    contexts: np.ndarray, groups: np.ndarray, possible: np.ndarray, never: np.ndarray
) -> list[_Candidate]:
    """The segments in which an action that was logged somewhere was hardly ever possible.

    They are the leaves of a shallow tree, unless one half-space explains clearly more.
    """
    smallest = max(SMALLEST_ROWS, int(np.ceil(SMALLEST_SHARE * len(possible))))
    binned = Binned(contexts)
    found: list[_Candidate] = []
    for action in np.setdiff1d(np.flatnonzero(~possible.all(axis=0)), never).tolist():
        hit = possible[:, action]

        def gap(segment: Segment, action: int = action, hit: np.ndarray = hit) -> _Candidate | None:
            inside = segment.contains(contexts)
            if inside.sum() < smallest or hit[inside].mean() > HARDLY:
                return None
            sure = (
                not segment.bounds or _luck(hit, inside, groups) * possible.shape[1] * binned.tried <= CHANCE
            )
            return _Candidate(segment, [action], inside) if sure else None

        leaves = binned.leaves(hit, depth=DEPTH, smallest=smallest, bar=HARDLY)
        boxes = [box for box in map(gap, (leaf.segment for leaf in leaves)) if box]
        explained = sum(int((box.inside & ~hit).sum()) for box in boxes)
        whole = None
        if explained < BOXES_SUFFICE * (~hit).sum():
            segment = half_space(contexts, hit, bar=HARDLY)
            whole = gap(segment) if segment else None
        if whole and (whole.inside & ~hit).sum() >= CLEARLY_MORE * explained:
            boxes = [whole]
        found += boxes
    return found


def _luck(hit: np.ndarray, inside: np.ndarray, groups: np.ndarray) -> float:
    """How probable so small a share of hits is among the segment's distinct contexts, were it a random one."""
    contexts = len(np.unique(groups[inside]))
    from scipy.stats import binom  # slow to import

    return float(binom.cdf(int(hit[inside].mean() * contexts), contexts, hit.mean()))


def _joined(candidates: list[_Candidate], possible: np.ndarray) -> list[_Candidate]:
    """Segments of several actions that are nearly one become one with all of their actions.

    A segment inside another one of the same action says nothing new and goes.
    """
    candidates = sorted(candidates, key=lambda candidate: -int(candidate.inside.sum()))[:CANDIDATES]
    kept: list[_Candidate] = []
    for candidate in candidates:
        for other in kept:
            action = candidate.actions[0]
            both = int((candidate.inside & other.inside).sum())
            either = int((candidate.inside | other.inside).sum())
            if action in other.actions and both == candidate.inside.sum():
                break
            if both < ALIKE * either or action in other.actions:
                continue
            if possible[other.inside, action].mean() <= HARDLY:
                other.actions = sorted([*other.actions, action])
                break
        else:
            kept.append(candidate)
    return kept


def _upside(candidate: _Candidate, high: np.ndarray, best: np.ndarray) -> float:
    top = high[candidate.inside][:, candidate.actions].max(axis=1)
    return float(np.maximum(0, top - best[candidate.inside]).mean())


def _measured(log: Log, segments: Sequence[Segment]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On all rows: supported share (G, K), rows tried (G, K) and rows (G,) of each segment."""
    k = log.n_actions
    supported = np.zeros((len(segments), k))
    tried = np.zeros((len(segments), k), dtype=np.int64)
    sizes = np.zeros(len(segments), dtype=np.int64)
    for rows in Blocks.of(log.n_rows, k) if segments else ():
        contexts, actions = np.asfortranarray(log.contexts[rows]), log.actions[rows]
        mask = log.support.mask(rows).astype(np.float32) if log.support.known else None
        inside = np.array([segment.contains(contexts) for segment in segments])
        sizes += inside.sum(axis=1)
        for number, members in enumerate(inside):
            tried[number] += np.bincount(actions[members], minlength=k)
        if mask is not None:
            supported += inside.astype(np.float32) @ mask
    if not log.support.known:
        return (tried > 0).astype(float), tried, sizes
    return supported / np.maximum(sizes, 1)[:, None], tried, sizes


def _coverage(listed: list[_Candidate], possible: np.ndarray) -> float | None:
    blind = ~possible
    if not blind.any():
        return None
    explained = np.zeros_like(blind)
    for candidate in listed:
        explained[:, candidate.actions] |= candidate.inside[:, None]
    return float((explained & blind).sum() / blind.sum())
