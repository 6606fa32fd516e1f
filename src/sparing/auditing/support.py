"""Estimated support and propensities, for logs that do not have them, and the test of a gap."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from sparing.auditing.segments import DEPTH, Binned, Leaf, Segment, count_leaves, searched
from sparing.auditing.text import SURE
from sparing.errors import LogError, MissingExtraError, SettingError
from sparing.log import Log, Support
from sparing.log.passes import Blocks
from sparing.log.rows import AnyLog
from sparing.model.crossfitting import PropensityFit, fit_propensities, share_limits
from sparing.report.text import counted, percent

RARELY_SHARE = 0.05  # an action possible in no more than this share of a segment's rows is a gap there
SEEN_SHARE = 0.05
"""A gap of this share of the rows is to be seen: the level below which a propensity is a gap falls with the rows, to the bar."""

DEPTH_WEIGHTS = np.array([0.125, 0.5, 0.25, 0.125])
"""Parts of the error probability, for segments of 0, 1, 2 and 3 conditions."""

SPLIT_ROWS, SMALLEST_SHARE = 20_000, 0.01
"""Beyond so many rows one half chooses the segments, of this share or more, and the other tests them; else all rows do both."""

INEXACT = 1.5  # how much larger a gap must be if its segment was chosen on other rows
COUNTED_ROWS = 200_000  # other rows on which the tries in a segment are counted, at most
PAIRED_CELLS = 2_000_000  # (row, action) pairs of recurring contexts whose agreement is measured, at most


@dataclass(frozen=True, eq=False)
class SupportEstimate:
    """How the support was estimated, and which pairs are undecided.

    A gap is a segment in which an action has at most `bar` of the rows, and its propensity is surely below `level`, or below half
    of its share elsewhere if that is less; `gaps` holds these (action, segment) pairs. unsupported and undecided (K,): share of rows in which each action is
    estimated unsupported, or may be. visible_share: of the rows; a smaller segment without an action of typical share is
    not distinguished from chance. agreement: how often two rows of one context took the same action, how
    often the fitted propensities expect it, and the deviations between; None where no context recurs.
    """

    bar: float
    level: float
    confidence: float
    rows: int
    gaps: tuple[tuple[int, Segment], ...]
    unsupported: np.ndarray
    undecided: np.ndarray
    rows_searched: int
    rows_counted: int
    visible_share: float
    propensities_logged: bool
    propensities: PropensityFit | None = None
    propensities_missing: str = ""
    agreement: tuple[float, float, float] | None = None

    def to_dict(self) -> dict[str, object]:
        fit = self.propensities
        calibration = fit and {
            "error": fit.calibration.error,
            "relative_error": fit.relative_error,
            "temperature": fit.temperature,
            "reliability": fit.calibration.bins.tolist(),
        }
        fields = ("bar", "level", "confidence", "undecided_share", "visible_share", "agreement")
        return {name: getattr(self, name) for name in fields} | {"calibration": calibration}

    @property
    def limit(self) -> str:
        """How small a gap could have been found, in a sentence without its stop."""
        if self.visible_share >= 1:
            return f"Gaps of most actions cannot be seen with {counted(self.rows, 'row')}"
        share = f"{100 * self.visible_share:.2g}%"
        return f"Gaps below {share} of rows cannot be seen with {counted(self.rows, 'row')}"

    @property
    def undecided_share(self) -> float:
        return float(self.undecided.mean())

    @property
    def narrower(self) -> bool:
        """Whether recurring contexts show that the support is narrower than estimated."""
        return self.agreement is not None and self.agreement[2] > SURE

    @property
    def notes(self) -> tuple[str, ...]:
        """The estimate's assumptions and limits, in sentences."""
        how, limit = (
            f"found and tested on {self.rows_searched:,} rows, corrected for all that could be found",
            "",
        )
        if self.rows_searched + self.rows_counted <= self.rows:
            how = f"found on {self.rows_searched:,} rows and tested on {self.rows_counted:,} others"
        elif self.visible_share < 1:
            limit = " A gap that needs two or three conditions must be larger."
        source, undecided = "Support was", ""
        if not self.propensities_logged:
            source = "No propensities logged; support was"
            undecided = f"; {percent(self.undecided_share)} of the (context, action) pairs are undecided and count as supported"
        lines = [
            f"{source} estimated from the rows: a gap is a segment where an action has at most {percent(self.bar)} of the rows, and its propensity "
            f"is surely below {percent(self.level)}, or half of its share elsewhere (exact binomial tails; {self.confidence:.0%} confidence in all "
            f"segments together). Segments were {how}{undecided}.",
            f"{self.limit}.{limit}",
        ]
        if self.agreement is None:
            lines.append(
                "No context recurs: support that changes from one context to the next cannot be seen in this log."
            )
        elif self.narrower:
            measured, expected, _ = self.agreement
            lines.append(
                f"Two rows of one context take the same action in {measured:.0%} of pairs; the fitted propensities "
                f"expect {expected:.0%}: the support is narrower than estimated, context by context."
            )
        if self.propensities is not None:
            fit = self.propensities
            lines.append(
                f"The propensities are estimated (cross-fitted multinomial regression, temperature "
                f"{fit.temperature:.2f}): calibration error {fit.calibration.error:.4f}, median standard error "
                f"{fit.relative_error:.0%} of the propensity."
            )
        elif self.propensities_missing:
            lines.append(f"No propensities were estimated: {self.propensities_missing}")
        return tuple(lines)


def support_bar(rare: float, n_actions: int) -> float:
    """`rare`, but at most half of the uniform share 1/K, which many actions must stay below."""
    return min(rare, 0.5 / n_actions)


def estimate_support(
    log: AnyLog,
    *,
    rare: float = 0.01,
    confidence: float = 0.95,
    folds: int = 5,
    seed: int = 0,
) -> tuple[Log, SupportEstimate]:
    """Estimate the support of a log from similar contexts, and the propensities if none were logged.

    A shallow tree for each action finds segments in which it was hardly ever tried. An exact binomial test decides whether
    that is chance, corrected for all segments that could have been found; of large logs one half finds the segments and
    the other tests them. A logged action is always supported in its row.

    Parameters
    ----------
    log : Log
        A log in memory whose support is unknown.
    rare : float
        An action with at most this share of a segment's rows is unsupported there, if that is not chance; at most 0.5/K.
    confidence : float
        Probability that no segment is called a gap by chance.
    folds : int
        Folds of contexts in which propensities are fitted.
    seed : int
        Of the halves and folds.

    Returns
    -------
    log : Log
        The log with estimated support and propensities.
    estimate : SupportEstimate
        How it was estimated, and what is undecided.

    Raises
    ------
    LogError
        If the log is scanned, its support is known, or it has too few rows.

    Examples
    --------
    >>> log, estimate = sparing.estimate_support(log)  # doctest: +SKIP
    """
    if not isinstance(log, Log):
        raise LogError(
            f"got {log!r}, whose rows stay where they are; a support is estimated for rows in memory. Estimate it "
            "for some of them, log.sample(200_000), or read all with log.read()"
        )
    if log.support.known:
        raise LogError(f"the log's support is {log.support.kind} already; there is nothing to estimate")
    estimate = _find_gaps(log, support_bar(rare, log.n_actions), confidence, seed)
    whole = replace(log, support=_support(log, estimate.gaps))
    vars(whole)["groups"] = log.groups  # the same contexts: sorting a million of them once is enough
    fit, missing = None, ""
    try:
        if log.propensities is None or log.n_contexts < log.n_rows:  # who else would ask for them
            fit = fit_propensities(whole, folds=folds, seed=seed)
    except (MissingExtraError, SettingError) as error:
        missing = str(error)
    if fit is not None:
        estimate = replace(estimate, agreement=_agreement(log, fit, seed))
    if log.propensities is None:
        estimate = replace(estimate, propensities=fit, propensities_missing=missing)
        whole = whole if fit is None else replace(whole, propensities=fit.logged)
    return whole, estimate


def estimated_note(log: Log) -> str:
    """That the support of a log was estimated, and whether its propensities were."""
    lacks = "No propensities logged; support" if log.propensities is None else "No support logged; it"
    return f"{lacks} was estimated from the rows."


def rows_needed(share: float, error: float) -> int:
    """Rows without a try after which a share this large is excluded: (1 − share)^m ≤ error."""
    return int(np.ceil(np.log(error) / np.log1p(-share)))


@dataclass(frozen=True, eq=False)
class GapTest:
    """Tests whether an action with h of a segment's m rows is a gap there.

    It is if h ≤ bar·m and P(Binomial(m, p) ≤ h) is at most what this test may take of the error probability. p is the
    least share that the action has where it is possible, at most `level`: a larger propensity is no gap. overall (K,): its share of all rows. smallest (K,): its smallest
    logged propensity, None without logged propensities. errors (DEPTH + 1,): what the tests of one family of segments may
    take together, by their number of conditions.
    """

    bar: float
    level: float
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
        rows = SEEN_SHARE * log.n_rows
        level = float(np.clip(-np.expm1(np.log(errors[1] / 2) / rows), bar, max(bar, RARELY_SHARE)))
        return cls(bar, level, log.counts / log.n_rows, smallest, errors)

    def least_share(self, actions: Any, hits: Any = 0, sizes: Any = 0, rows: int = 1) -> Any:
        """p of these actions, tested in segments that have so many hits and rows, of `rows` in all.

        Logged propensities are believed: it is the smallest one of the action. Otherwise it is half of its share
        elsewhere, and at least the bar. Beyond the level it does not rise: a larger propensity is not a gap.
        """
        if self.smallest is not None:
            return np.minimum(self.level, self.smallest[actions])
        # Elsewhere is at least half of the rows: few rows elsewhere would say little of the share there.
        elsewhere = (self.overall[actions] - hits / rows) / np.maximum(0.5, 1 - sizes / rows)
        return np.maximum(self.bar, np.minimum(self.level, elsewhere / 2))

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


def _find_gaps(log: Log, bar: float, confidence: float, seed: int) -> SupportEstimate:
    """Segments in which an action was surely hardly ever possible: all of them are right with this probability."""
    error = 1 - confidence
    n, k, logged = log.n_rows, log.n_actions, log.counts > 0
    split = n > SPLIT_ROWS
    first, second = _halves(log, seed) if split else (np.arange(n), np.arange(n))
    binned = Binned(log.contexts[first])
    test = GapTest.of(log, binned, bar=bar, error=error)
    shares = test.least_share(np.flatnonzero(logged))
    largest, typical = float(shares.max()), float(np.median(shares))
    # A gap is the smaller part of a log: one of half of the rows, at least, must be seen.
    if (needed := 2 * rows_needed(largest, test.allowed())) > n:
        raise LogError(
            f"{counted(n, 'row')} {'is' if n == 1 else 'are'} too few to estimate the support: from {needed:,} rows on, an action "
            f"that was not tried in half of them is below a share of {largest:.3g} there, at {1 - error:.0%} confidence"
        )
    trees = _trees(binned, log.actions[first], test, SMALLEST_SHARE * split)
    pairs = [(action, leaf) for action, tree in enumerate(trees) for leaf in tree]
    of, leaves = np.array([action for action, _ in pairs]), [leaf for _, leaf in pairs]
    hits, sizes = np.array([leaf.hits for leaf in leaves]), np.array([leaf.size for leaf in leaves])
    if split:
        chosen = hits <= bar * sizes
        allowed = error / max(k, int(np.count_nonzero(chosen)))
        hits, sizes = count_leaves(trees, log.contexts[second], log.actions[second])
        gap = chosen & test.passes(of, hits, sizes, len(second), allowed)
        # Cuts that other rows chose are not exact, so a gap must be larger than the test alone needs.
        visible = INEXACT * max(SMALLEST_SHARE, rows_needed(typical, allowed) / len(second))
    else:
        depths = np.array([leaf.segment.depth for leaf in leaves])
        gap = test.passes(of, hits, sizes, n, test.allowed(depths, hits))
        visible = rows_needed(typical, test.allowed()) / n
    gap |= ~logged[of]
    undecided = ~gap & (share_limits(hits, sizes, 1 - error)[0] < bar)
    parts = sizes / len(second)
    return SupportEstimate(
        bar=bar,
        level=test.level,
        confidence=confidence,
        rows=n,
        gaps=tuple((int(of[place]), leaves[place].segment) for place in np.flatnonzero(gap)),
        unsupported=np.bincount(of, weights=parts * gap, minlength=k),
        undecided=np.bincount(of, weights=parts * undecided, minlength=k),
        rows_searched=len(first),
        rows_counted=len(second),
        visible_share=min(1.0, visible),
        propensities_logged=log.propensities is not None,
    )


def _trees(binned: Binned, tried: np.ndarray, test: GapTest, smallest_share: float) -> list[list[Leaf]]:
    """One shallow tree for each action, on which of the rows tried it; leaves that are gaps are not split."""
    n = len(tried)

    def tree(action: int) -> list[Leaf]:
        def done(leaf: Leaf) -> bool:
            allowed = test.allowed(leaf.segment.depth, leaf.hits)
            return bool(test.passes(action, leaf.hits, leaf.size, n, allowed))

        # A quarter of the rows that a gap needs: the rest may be on the other side of a cut.
        smallest = rows_needed(float(test.least_share(action)), test.allowed()) // 4
        smallest = max(1, min(smallest, n // 8), int(smallest_share * n))
        return binned.leaves(tried == action, smallest=smallest, max_share=test.bar, done=done)

    return [tree(action) for action in range(len(test.overall))]


def _halves(log: Log, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to search and rows to count, no context in both, unless there is only one."""
    rng = np.random.default_rng([seed, 31])
    groups = log.groups if log.n_contexts > 1 else np.arange(log.n_rows)
    side = rng.permutation(int(groups.max(initial=-1)) + 1)[groups] % 2
    first = searched(np.flatnonzero(side == 0), log.n_features, rng)
    return first, np.sort(rng.permutation(np.flatnonzero(side == 1))[:COUNTED_ROWS])


def _support(log: Log, gaps: Sequence[tuple[int, Segment]]) -> Support:
    """Every action but in its gaps; a row's own action always."""
    table = np.empty((log.n_rows, (log.n_actions + 7) // 8), dtype=np.uint8)
    for rows in Blocks.of(log.n_rows, log.n_actions):
        contexts = np.asfortranarray(log.contexts[rows])
        mask = np.ones((len(contexts), log.n_actions), dtype=bool)
        for action, segment in gaps:
            mask[segment.contains(contexts), action] = False
        mask[np.arange(len(contexts)), log.actions[rows]] = True
        table[rows] = np.packbits(mask, axis=1)
    return Support("estimated", log.n_rows, log.n_actions, table)


def _agreement(log: Log, fit: PropensityFit, seed: int) -> tuple[float, float, float] | None:
    """Share of equal actions among pairs of rows of one context, the share Σ_a μ̂² expects, and the z-score.

    Contexts are taken as independent, their pairs as dependent: z = Σ_g D_g / sqrt(Σ_g D_g²) with
    D_g = equal pairs − expected pairs.
    """
    sizes = np.bincount(log.groups)
    recurring = np.flatnonzero(sizes > 1)
    if not len(recurring):
        return None
    most = max(1, PAIRED_CELLS // log.n_actions)
    order = np.random.default_rng([seed, 32]).permutation(recurring)
    taken = order[: max(1, int(np.searchsorted(np.cumsum(sizes[order]), most)))]
    place = np.full(len(sizes), -1)
    place[taken] = np.arange(len(taken))
    rows = np.flatnonzero(place[log.groups] >= 0)
    group = place[log.groups[rows]]
    pairs = sizes[taken] * (sizes[taken] - 1.0)
    _, pair, times = np.unique(
        group * log.n_actions + log.actions[rows], return_index=True, return_counts=True
    )
    equal = np.bincount(group[pair], weights=times * (times - 1.0), minlength=len(taken))
    table = fit.table(rows)
    chance = np.bincount(group, weights=np.einsum("nk,nk->n", table, table), minlength=len(taken))
    expected = pairs * chance / sizes[taken]
    deviation = equal - expected
    scale = float(np.sqrt((deviation**2).sum()))
    z = float(deviation.sum() / scale) if scale > 0 else 0.0
    return float(equal.sum() / pairs.sum()), float(expected.sum() / pairs.sum()), z
