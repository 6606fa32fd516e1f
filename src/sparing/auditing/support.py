"""Estimated support and propensities, from similar contexts, for logs that do not have them."""

from dataclasses import dataclass, replace

import numpy as np

from sparing.auditing.segments import Binned, Segment, count_leaves, searched
from sparing.auditing.text import SURE
from sparing.errors import LogError, MissingExtraError, SettingError
from sparing.log import Log, Support
from sparing.log.passes import Blocks
from sparing.log.rows import AnyLog
from sparing.model.crossfitting import PropensityFit, fit_propensities, share_limits
from sparing.report.text import percent

COUNTED_ROWS = 200_000  # other rows on which the tries in a segment are counted, at most
PAIRED_CELLS = 2_000_000  # (row, action) pairs of recurring contexts whose agreement is measured, at most


@dataclass(frozen=True, eq=False)
class SupportEstimate:
    """How the support was estimated, and which pairs are undecided.

    bar: an action is estimated unsupported where the upper limit of its share is below it, and supported
    where the lower limit is not. unsupported and undecided (K,): share of rows in which each action is
    estimated unsupported, or neither. agreement: how often two rows of one context took the same action, how
    often the fitted propensities expect it, and the deviations between; None where no context recurs.
    """

    bar: float
    confidence: float
    unsupported: np.ndarray
    undecided: np.ndarray
    rows_searched: int
    rows_counted: int
    propensities: PropensityFit | None
    propensities_missing: str
    agreement: tuple[float, float, float] | None

    def to_dict(self) -> dict[str, object]:
        fit = self.propensities
        calibration = fit and {
            "error": fit.calibration.error,
            "relative_error": fit.relative_error,
            "temperature": fit.temperature,
            "reliability": fit.calibration.bins.tolist(),
        }
        fields = ("bar", "confidence", "undecided_share", "agreement")
        return {name: getattr(self, name) for name in fields} | {"calibration": calibration}

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
        lines = [
            "The support is estimated: an action counts as unsupported where the upper "
            f"{self.confidence:.0%} limit (Clopper–Pearson, for each pair by itself) of its share among similar "
            f"contexts is below {self.bar:.3g}. Segments of similar contexts were found on {self.rows_searched:,} "
            f"rows and counted on {self.rows_counted:,} others; {percent(self.undecided_share)} of the (context, "
            "action) pairs are undecided and count as supported where the segment has a row of the action."
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


def rows_needed(bar: float, confidence: float) -> int:
    """Rows without a try after which the upper limit of a share is below the bar: (1 − bar)^m ≤ 1 − c."""
    return int(np.ceil(np.log(1 - confidence) / np.log1p(-bar)))


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

    One half of the contexts finds segments, by a shallow tree for each action on whether it was tried. The other
    half counts the tries in them, so that the counts are unbiased. A logged action is always supported in its row.

    Parameters
    ----------
    log : Log
        A log in memory whose support is unknown.
    rare : float
        An action whose share of a segment is surely below this is unsupported there; at most 0.5/K.
    confidence : float
        Level of the limits on these shares.
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
    bar = support_bar(rare, log.n_actions)
    needed = rows_needed(bar, confidence)
    first, second = _halves(log, seed)
    if min(len(first), len(second)) < needed:
        raise LogError(
            f"{log.n_rows} rows are too few to estimate the support: two halves of {needed} rows are needed before "
            f"an action without a try is below a share of {bar:.3g} at {confidence:.0%} confidence"
        )
    uncovered, unsupported, undecided = _uncovered_segments(
        log, first, second, bar=bar, confidence=confidence, needed=needed
    )
    whole = replace(log, support=_support(log, uncovered))
    vars(whole)["groups"] = log.groups  # the same contexts: sorting a million of them once is enough
    fit, missing = None, ""
    try:
        if log.propensities is None or log.n_contexts < log.n_rows:  # who else would ask for them
            fit = fit_propensities(whole, folds=folds, seed=seed)
    except (MissingExtraError, SettingError) as error:
        missing = str(error)
    estimate = SupportEstimate(
        bar=bar,
        confidence=confidence,
        unsupported=unsupported,
        undecided=undecided,
        rows_searched=len(first),
        rows_counted=len(second),
        propensities=fit if log.propensities is None else None,
        propensities_missing=missing if log.propensities is None else "",
        agreement=None if fit is None else _agreement(log, fit, seed),
    )
    if log.propensities is None and fit is not None:
        whole = replace(whole, propensities=fit.logged)
    return whole, estimate


def estimated_note(log: Log) -> str:
    """That the support of a log was estimated, and whether its propensities were."""
    lacks = "No propensities logged; support" if log.propensities is None else "No support logged; it"
    return f"{lacks} was estimated from the rows."


def _halves(log: Log, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to search and rows to count, no context in both, unless there is only one."""
    rng = np.random.default_rng([seed, 31])
    groups = log.groups if log.n_contexts > 1 else np.arange(log.n_rows)
    side = rng.permutation(int(groups.max(initial=-1)) + 1)[groups] % 2
    first = searched(np.flatnonzero(side == 0), log.n_features, rng)
    return first, np.sort(rng.permutation(np.flatnonzero(side == 1))[:COUNTED_ROWS])


def _uncovered_segments(
    log: Log,
    first: np.ndarray,
    second: np.ndarray,
    *,
    bar: float,
    confidence: float,
    needed: int,
) -> tuple[list[tuple[int, Segment]], np.ndarray, np.ndarray]:
    """The (action, segment) pairs taken as unsupported; each action's unsupported and undecided share (K,)."""
    binned = Binned(log.contexts[first])
    actions = log.actions[first]
    smallest = max(int(np.ceil(needed * len(first) / len(second))), int(0.02 * len(first)), 1)
    trees = [
        binned.leaves(actions == action, smallest=smallest, max_share=bar) for action in range(log.n_actions)
    ]
    hits, sizes = count_leaves(trees, log.contexts[second], log.actions[second])
    low, high = share_limits(hits, sizes, confidence)
    uncovered: list[tuple[int, Segment]] = []
    unsupported, undecided = np.zeros(log.n_actions), np.zeros(log.n_actions)
    pairs = ((action, leaf) for action, tree in enumerate(trees) for leaf in tree)
    for number, (action, leaf) in enumerate(pairs):
        if high[number] < bar:
            uncovered.append((action, leaf.segment))
            unsupported[action] += sizes[number] / len(second)
        elif low[number] < bar:
            undecided[action] += sizes[number] / len(second)
            if not leaf.hits + hits[number]:  # never tried
                uncovered.append((action, leaf.segment))
    return uncovered, unsupported, undecided


def _support(log: Log, uncovered: list[tuple[int, Segment]]) -> Support:
    """Every action but in its uncovered segments; a row's own action always."""
    table = np.empty((log.n_rows, (log.n_actions + 7) // 8), dtype=np.uint8)
    for rows in Blocks.of(log.n_rows, log.n_actions):
        contexts = np.asfortranarray(log.contexts[rows])
        mask = np.ones((len(contexts), log.n_actions), dtype=bool)
        for action, segment in uncovered:
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
