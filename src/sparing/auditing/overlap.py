"""The propensities of the logged actions, and what a target policy does outside the log's support."""

from dataclasses import dataclass

import numpy as np

from sparing.auditing.counts import Propensities
from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.passes import add_fields
from sparing.log.rows import InMemoryRows, RewardSummary, Rows
from sparing.log.sketches import MeanWeight, Moments, PowerSums, QuantileSketch
from sparing.policies.policy import Policy, policy_blocks

PERCENTS = (1, 10, 50, 90, 99)

BINS = 30
"""Of the histogram of propensities."""


@dataclass(frozen=True, eq=False)
class PropensityOverlap:
    """The propensities of the logged actions; `source` is logged or estimated.

    percentile_ratio: P90/P10. effective_sample_size: (Σw)²/Σw² for w = 1/μ, the uniform policy's weights.
    supported_mean: mean of 1/μ, which is the mean number of supported actions, because
    E[1/μ(a|x)] = Σ_a μ(a|x)·1{μ(a|x) > 0}/μ(a|x); supported_error is its standard error. Estimated
    propensities carry no information on the support, so both are None there. contradiction: mean of 1/μ − the
    row's number of supported actions and its standard error, where both are known: 0 but for chance.
    mean_weight: of the uniform policy, plus its unsupported mass where that is known: about 1 unless `inconsistent`.
    edges (bins + 1,) and histogram (bins,) count rows by propensity; `rows` is how many these are.
    """

    source: str
    rows: int
    quantiles: dict[int, float]
    smallest: float
    largest: float
    percentile_ratio: float
    effective_sample_size: float
    supported_mean: float | None
    supported_error: float | None
    contradiction: tuple[float, float] | None
    mean_weight: float | None
    inconsistent: bool
    edges: np.ndarray
    histogram: np.ndarray

    def to_dict(self) -> dict[str, object]:
        return vars(self) | {"edges": self.edges.tolist(), "histogram": self.histogram.tolist()}


def overlap(found: Propensities, *, estimated: bool, exact: bool) -> PropensityOverlap:
    """Describe the propensities of the logged actions; `exact`: the log has the supported actions of each row."""
    low, high = found.low, found.high
    quantiles = _quantiles(found.values, low, high)
    edges = np.geomspace(low, high, BINS + 1) if high > low * (1 + 1e-9) else np.array([low * 0.9, low * 1.1])
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    inside = np.clip(found.values.numbers, low, high)
    contradiction = _contradiction(found) if exact and not estimated else None
    weight = None if estimated else _mean_weight(found, contradiction)
    return PropensityOverlap(
        source="estimated" if estimated else "logged",
        rows=found.inverse.count,
        quantiles=quantiles,
        smallest=low,
        largest=high,
        percentile_ratio=quantiles[90] / quantiles[10],
        effective_sample_size=found.weights.effective,
        supported_mean=None if estimated else found.inverse.mean,
        supported_error=None if estimated else found.inverse.error,
        contradiction=contradiction,
        mean_weight=None if weight is None else weight.value,
        inconsistent=weight is not None and weight.inconsistent,
        edges=edges,
        histogram=np.histogram(inside, edges, weights=found.values.counts)[0].astype(np.int64),
    )


def _quantiles(values: QuantileSketch, low: float, high: float) -> dict[int, float]:
    found = np.clip(values.quantiles(np.array(PERCENTS) / 100), low, high)
    return dict(zip(PERCENTS, found.tolist(), strict=True))


def _contradiction(found: Propensities) -> tuple[float, float] | None:
    """Mean of 1/μ − |support| and its standard error: Var(1/μ | x) = Σ_a 1/μ(a|x) − |support|² where μ is known."""
    excess = found.excess
    if excess is None:
        return None
    if found.variance is None:
        return excess.mean, excess.error
    return excess.mean, float(np.sqrt(max(0.0, found.variance)) / excess.count)


def _mean_weight(found: Propensities, contradiction: tuple[float, float] | None) -> MeanWeight:
    actions, rows = len(found.by_action), found.inverse.count
    if contradiction is not None:
        return MeanWeight(1 + contradiction[0] / actions, contradiction[1] / actions, rows)
    return MeanWeight(found.inverse.mean / actions, found.inverse.error / actions, rows)


@dataclass(frozen=True, eq=False)
class PolicyAudit:
    """What a target policy does outside the log's support.

    unsupported_mass: mean over rows of u_i = Σ_{a∈𝓤(x_i,μ)} π(a|x_i), with its quantiles; None where the
    support is unknown. Where only propensities were logged, it is what they imply, without quantiles. never_logged_mass: the part on actions without a row. bias: limits of the bias of
    IPS, −Σ π·δ over the unsupported actions, hence in [−ū·r_max, −ū·r_min]; `reward_range` is what was
    assumed of mean rewards, `range_given` whether by the caller or as observed.
    effective_sample_size: (Σw)²/Σw² for w = π/μ. implied_mass: 1 − mean w and its standard error, which is
    the unsupported mass by logged propensities alone, because E[w] = Σ_a π(a|x)·1{μ(a|x) > 0}.
    """

    support: str
    unsupported_mass: float | None
    mass_quantiles: dict[int, float] | None
    never_logged_mass: float
    bias: tuple[float, float] | None
    reward_range: tuple[float, float]
    range_given: bool
    effective_sample_size: float | None
    implied_mass: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class PolicyCounts:
    """What a policy does on so many rows: its mass on actions never logged; u_i, where the support is known; and the
    weights w = π/μ, with 1 − w, where there are propensities.
    """

    rows: int
    never: float
    mass: tuple[Moments, QuantileSketch] | None
    weights: tuple[PowerSums, Moments] | None

    @classmethod
    def of(
        cls, block: Log, first_row: int, *, policy: Policy | np.ndarray, never: np.ndarray
    ) -> "PolicyCounts":
        """On a block; an array (n, K) has the policy's distribution in each row of the log, `never` (K,) marks actions that were never logged."""
        mass, target = np.zeros((2, block.n_rows))
        known, unlogged = block.support.known, 0.0
        if isinstance(policy, np.ndarray):
            policy = policy[first_row : first_row + block.n_rows]
        for rows, chances in policy_blocks(block, policy, first_row=first_row):
            target[rows] = chances[np.arange(len(chances)), block.actions[rows]]
            unlogged += float(chances[:, never].sum())
            if known:
                mass[rows] = np.where(block.support.mask(rows), 0.0, chances).sum(axis=1)
        weights = None if block.propensities is None else target / block.propensities
        return cls(
            block.n_rows,
            unlogged,
            (Moments.of(mass), QuantileSketch.of(mass)) if known else None,
            None if weights is None else (PowerSums.of(weights), Moments.of(1 - weights)),
        )

    __add__ = add_fields


def check_policy(rows: Rows, policy: Policy | np.ndarray | None) -> None:
    """An array must have a distribution for every row of a log in memory."""
    if not isinstance(policy, np.ndarray):
        return
    if not isinstance(rows, InMemoryRows):
        raise SettingError(
            f"a policy of shape {policy.shape} for a log that is scanned; expected an object with "
            "probabilities(contexts), which is asked block by block. Give one, or read the log with read_log"
        )
    if policy.shape != (rows.n_rows, rows.n_actions):
        raise SettingError(f"policy of shape {policy.shape}; expected {(rows.n_rows, rows.n_actions)}")


def audit_policy(
    doing: PolicyCounts,
    logged: str,
    kind: str,
    rewards: RewardSummary,
    reward_range: tuple[float, float] | None,
    *,
    estimated: bool,
) -> PolicyAudit:
    """Describe what a policy does on a log of this kind of support, as logged and after estimation, and with these rewards.

    `estimated`: the propensities are estimated, so they imply no unsupported mass.
    """
    low, high = reward_range or (rewards.low, rewards.high)
    mass, (weights, short) = doing.mass, doing.weights or (None, None)
    mean = None if mass is None else mass[0].mean
    implied = None if short is None or estimated else (short.mean, short.error)
    if implied is not None and logged == "unknown":
        mass, mean = None, min(1.0, max(0.0, implied[0]))  # logged propensities decide
    return PolicyAudit(
        support=kind,
        unsupported_mass=mean,
        mass_quantiles=None if mass is None else _quantiles(mass[1], 0.0, 1.0),
        never_logged_mass=doing.never / doing.rows,
        # Adding 0.0 keeps −0.0 out of sight.
        bias=None if mean is None else (-mean * high + 0.0, -mean * low + 0.0),
        reward_range=(low, high),
        range_given=reward_range is not None,
        effective_sample_size=None if weights is None else weights.effective,
        implied_mass=implied,
    )
