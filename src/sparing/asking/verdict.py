"""The verdict on judged answers: which traffic to switch, what that is worth, and whether more answers would repay themselves."""

import itertools
import math
from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize
from scipy.special import ndtr

from sparing.auditing.segments import Binned, Leaf, Segment, searched
from sparing.log.features.encoder import Encoder
from sparing.model.prior import Prior
from sparing.model.statistics import Statistics
from sparing.planning.worlds import Conditional
from sparing.report.text import number, percent

LEVEL = 0.9
"""Probability of the interval of a verdict."""

NEGLIGIBLE = 0.01  # share of the traffic below which a switch is not named
MOST_SWITCHES, MOST_SEGMENTS, DEPTH = 3, 2, 2  # named in the sentence, and conditions of a segment
SMALLEST = 0.02  # share of the traffic in a named segment, at least
CLEAR, ROUGH = 0.8, 0.5  # shares of a switch that its segments hold, and of the segments that switch

Mixture = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Weights, means and deviations of normal distributions, (n,) each."""


def gain_distribution(prior: Prior, sums: Statistics, weights: np.ndarray, dearer: float = 0.0) -> Mixture:
    """The posterior of Σ_a c_a·θ_a − `dearer` for weights c (K, d): a normal distribution for each scale of the prior.

    Given the scales, θ_a = P_a·(W z_a) + own_a + D_a·ε with W ~ N(Ŵ, RRᵀ) and ε normal (`Conditional`), so that the mean is
    Σ c_a·(P_a·Ŵz_a + own_a), and the variance |Rᵀu|² + Σ|D_aᵀc_a|² with u = Σ z_a ⊗ P_aᵀc_a.
    """
    chances = prior.scale_weights
    means, deviations = np.empty(len(chances)), np.empty(len(chances))
    for place in range(len(chances)):
        each = prior.at_point(sums, place)
        given = Conditional.of(each, sums)
        pulled = np.einsum("kij,ki->kj", given.pull, weights)
        shared = (each.items.T @ pulled).ravel()
        means[place] = shared @ given.weights + np.einsum("ki,ki->", given.own, weights)
        own = np.einsum("kij,ki->kj", given.deviation, weights)
        deviations[place] = np.sqrt(((given.root.T @ shared) ** 2).sum() + (own**2).sum())
    return chances, means - dearer, deviations


def mixture_limits(mixture: Mixture, level: float) -> tuple[float, float]:
    """The quantiles (1 ± level)/2 of a mixture of normal distributions."""
    chances, means, deviations = mixture
    if not deviations.any():
        return float(means.min()), float(means.max())
    widths = np.maximum(deviations, 1e-300)
    low, high = float((means - 9 * widths).min()), float((means + 9 * widths).max())

    def quantile(share: float) -> float:
        return float(
            optimize.brentq(lambda at: float(chances @ ndtr((at - means) / widths)) - share, low, high)
        )

    return quantile((1 - level) / 2), quantile((1 + level) / 2)


@dataclass(frozen=True)
class Switch:
    """Traffic that moves to an action: its share, and where it is in words of the raw columns ("" if no simple rule says it)."""

    action: Hashable
    share: float
    where: str

    def __str__(self) -> str:
        what = (
            "all of the traffic" if self.share >= 1 - NEGLIGIBLE else f"{percent(self.share)} of the traffic"
        )
        return f"{what}{f' ({self.where})' if self.where else ''} to {self.action}"


@dataclass(frozen=True)
class Verdict:
    """What judged answers say.

    Attributes
    ----------
    kind : {"switch", "do not switch", "undecided"}
        Switch if the worth's interval is above 0. Do not switch if hardly any traffic would, and no further answer repays itself.
    worth, low, high : float
        Expected gain over the horizon of the policy after the answers over the policy of the log alone, on the pool's contexts, and
        its 90 % interval, in units of the reward.
    horizon : int
        Number of rounds.
    switches : tuple of Switch
        By share of the traffic, largest first.
    judged : int
        Answers taken in.
    more : int
        Further answers that would repay themselves, as far as the next queue goes.
    open_ended : bool
        Whether that queue was cut off by `calls`: there may be more.
    """

    kind: str
    worth: float
    low: float
    high: float
    horizon: int
    switches: tuple[Switch, ...]
    judged: int
    more: int
    open_ended: bool

    def __str__(self) -> str:
        named = ", and ".join(map(str, self.switches[:MOST_SWITCHES]))
        worth = f"worth {number(self.worth)} [{number(self.low)}, {number(self.high)}] over {self.horizon:,} rounds"
        if self.kind == "switch":
            said = f"switch {named}: {worth}"
        elif not self.switches:
            said = "do not switch" if self.kind != "undecided" else "undecided: no reason to switch so far"
        elif self.kind == "undecided":
            said = f"undecided: to switch {named} is {worth}"
        else:
            said = f"do not switch: to move {named} is {worth}"
        mean = ", so go by the mean: switch" if self.kind == "undecided" and not self.more else ""
        return f"{said}; {self.further}{mean}"

    @property
    def further(self) -> str:
        """Whether more answers would repay themselves."""
        if not self.more:
            return "no further judged answer would repay itself"
        noun = "answer" if self.more == 1 else "answers"
        least = " or more" if self.open_ended else ""
        return f"{self.more:,}{least} further judged {noun} would repay {'itself' if self.more == 1 else 'themselves'}"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {**asdict(self), "level": LEVEL, "sentence": str(self)}


def moved_weights(contexts: np.ndarray, before: np.ndarray, after: np.ndarray, n_actions: int) -> np.ndarray:
    """c (K, d) with mean_i x_i·(θ_after − θ_before) = Σ_a c_a·θ_a, for the actions (n,) of two policies."""
    weights = np.zeros((n_actions, contexts.shape[1]))
    moved = before != after
    np.add.at(weights, after[moved], contexts[moved])
    np.subtract.at(weights, before[moved], contexts[moved])
    return weights / len(contexts)


def find_switches(
    contexts: np.ndarray, before: np.ndarray, after: np.ndarray, names: tuple[Hashable, ...], encoder: Encoder
) -> tuple[Switch, ...]:
    """The traffic that each action gains, largest share first; shares below `NEGLIGIBLE` are left out."""
    moved = before != after
    counts = np.bincount(after[moved], minlength=len(names))
    found = []
    for action in np.argsort(-counts, kind="stable").tolist():
        share = counts[action] / len(contexts)
        if share < NEGLIGIBLE:
            break
        where = "" if share >= 1 - NEGLIGIBLE else describe(contexts, moved & (after == action), encoder)
        found.append(Switch(names[action], float(share), where))
    return tuple(found)


def describe(contexts: np.ndarray, hit: np.ndarray, encoder: Encoder) -> str:
    """Where the hits (n,) are, in words of the raw columns: "where age > 40", "mostly where …", or "" if no simple rule says it."""
    columns = contexts[:, : encoder.linear.stop]
    part = searched(len(columns), columns.shape[1], np.random.default_rng(32))
    rows, struck = columns[part], hit[part]
    smallest = max(1, round(SMALLEST * len(part)))
    leaves = Binned(rows).leaves(struck, smallest=smallest, max_share=ROUGH, depth=DEPTH)
    chosen = merged([leaf for leaf in leaves if leaf.hits > ROUGH * leaf.size])
    chosen.sort(key=lambda leaf: -leaf.hits)
    segments = [leaf.segment for leaf in chosen[:MOST_SEGMENTS] if leaf.segment.bounds]
    if not segments:
        return ""
    inside = np.logical_or.reduce([segment.contains(columns) for segment in segments])
    held = min((inside & hit).sum() / hit.sum(), (inside & hit).sum() / inside.sum())
    words = _either(segments, encoder)
    return f"where {words}" if held >= CLEAR else f"mostly where {words}" if held >= ROUGH else ""


def merged(leaves: list[Leaf]) -> list[Leaf]:
    """Leaves of a tree, of which neighbours that make one segment together are one."""
    for one, other in itertools.combinations(leaves, 2):
        whole = _union(one.segment, other.segment)
        if whole is not None:
            rest = [leaf for leaf in leaves if leaf is not one and leaf is not other]
            return merged([*rest, Leaf(whole, one.size + other.size, one.hits + other.hits)])
    return leaves


def _union(one: Segment, other: Segment) -> Segment | None:
    """Two segments as one, if they differ in one bound, and touch there."""
    apart = set(one.bounds) ^ set(other.bounds)
    if len(apart) != 2:
        return None
    below, above = sorted(apart, key=lambda bound: bound.low)
    if below.terms != above.terms or below.high != above.low:
        return None
    whole = replace(below, high=above.high)
    known = [whole if bound in apart else bound for bound in one.bounds]
    return Segment(tuple(bound for bound in known if bound.low > -math.inf or bound.high < math.inf))


def _either(segments: list[Segment], encoder: Encoder) -> str:
    several = len(segments) > 1
    return ", or ".join(
        f"({segment.words(encoder)})" if several and len(segment.bounds) > 1 else segment.words(encoder)
        for segment in segments
    )
