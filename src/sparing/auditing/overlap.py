"""How well the log's propensities cover what a policy would do."""

from dataclasses import dataclass

import numpy as np

from sparing.log import Log
from sparing.log.blocks import Blocks
from sparing.policies.policy import Policy
from sparing.policies.walking import effective_sample_size, policy_blocks

PERCENTS = (1, 10, 50, 90, 99)
BINS = 30


@dataclass(frozen=True, eq=False)
class Overlap:
    """The propensities of the logged actions; `source` says whether they were logged or estimated.

    percentile_ratio: P90/P10. effective_sample_size: (Σw)²/Σw² for w = 1/μ, the uniform policy's weights.
    supported_mean: mean of 1/μ, which is the mean number of supported actions, because
    E[1/μ(a|x)] = Σ_a μ(a|x)·1{μ(a|x) > 0}/μ(a|x); supported_error is its standard error. Estimated
    propensities know nothing of the support, so both are None there. contradiction: mean of 1/μ − the
    row's number of supported actions and its standard error, where both are known: 0 but for chance.
    edges (bins + 1,) and histogram (bins,) count rows by propensity.
    """

    source: str
    quantiles: dict[int, float]
    smallest: float
    largest: float
    percentile_ratio: float
    effective_sample_size: float
    supported_mean: float | None
    supported_error: float | None
    contradiction: tuple[float, float] | None
    edges: np.ndarray
    histogram: np.ndarray


@dataclass(frozen=True, eq=False)
class PolicyAudit:
    """What a target policy does where the log is blind.

    unsupported_mass: mean over rows of u_i = Σ_{a∈𝓤(x_i,μ)} π(a|x_i), with its quantiles; None where the
    support is unknown. never_logged_mass: the part on actions without a row. bias: limits of the bias of
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


def overlap(log: Log, *, estimated: bool) -> Overlap | None:
    """Describe the propensities of the logged actions; None where there are none."""
    if log.propensities is None or not log.n_rows:
        return None
    propensities = log.propensities
    low, high = float(propensities.min()), float(propensities.max())
    quantiles = np.quantile(propensities, [p / 100 for p in PERCENTS])
    edges = np.geomspace(low, high, BINS + 1) if high > low * (1 + 1e-9) else np.array([low * 0.9, low * 1.1])
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    inverse = 1 / propensities
    known = not estimated and log.support.kind == "exact"
    return Overlap(
        source="estimated" if estimated else "logged",
        quantiles={p: float(q) for p, q in zip(PERCENTS, quantiles, strict=True)},
        smallest=low,
        largest=high,
        percentile_ratio=float(quantiles[3] / quantiles[1]),
        effective_sample_size=effective_sample_size(inverse),
        supported_mean=None if estimated else _mean(inverse)[0],
        supported_error=None if estimated else _mean(inverse)[1],
        contradiction=_contradiction(log, inverse) if known else None,
        edges=edges,
        histogram=np.histogram(propensities, edges)[0],
    )


def _mean(values: np.ndarray) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(values.mean()), float(values.std() / np.sqrt(len(values)))


def _contradiction(log: Log, inverse: np.ndarray) -> tuple[float, float]:
    """Mean of 1/μ − |support| and its standard error: Var(1/μ | x) = Σ_a 1/μ(a|x) − |support|² where μ is known."""
    support = log.support
    mean, error = _mean(inverse - support.sizes)
    table = support.probabilities
    if table is None:
        return mean, error
    weights = (
        np.ones(len(table)) if support.index is None else np.bincount(support.index, minlength=len(table))
    )
    variance = 0.0
    for part in Blocks.of(len(table), log.n_actions):
        supported = table[part] > 0
        one_over = np.divide(1, table[part], out=np.zeros_like(table[part]), where=supported).sum(axis=1)
        variance += float(weights[part] @ (one_over - supported.sum(axis=1) ** 2))
    return mean, float(np.sqrt(max(0.0, variance)) / log.n_rows)


def audit_policy(
    log: Log, policy: Policy | np.ndarray, *, reward_range: tuple[float, float] | None, estimated: bool
) -> PolicyAudit | None:
    """Walk the rows in blocks and add up what the policy does outside the support; None without rows.

    `estimated` says that the log's propensities are, which then imply nothing.
    """
    if not log.n_rows:
        return None
    mass = np.zeros(log.n_rows)
    target = np.empty(log.n_rows)
    never = log.counts == 0
    never_mass = 0.0
    for rows, chances in policy_blocks(log, policy):
        target[rows] = chances[np.arange(len(chances)), log.actions[rows]]
        never_mass += float(chances[:, never].sum())
        if log.support.known:
            mass[rows] = np.where(log.support.mask(rows), 0.0, chances).sum(axis=1)
    observed = (float(log.rewards.min()), float(log.rewards.max()))
    low, high = observed if reward_range is None else reward_range
    mean = float(mass.mean())
    known = log.support.known
    weights = None if log.propensities is None else target / log.propensities
    return PolicyAudit(
        support=log.support.kind,
        unsupported_mass=mean if known else None,
        mass_quantiles={p: float(np.quantile(mass, p / 100)) for p in PERCENTS} if known else None,
        never_logged_mass=never_mass / log.n_rows,
        # Adding 0.0 keeps −0.0 out of sight.
        bias=(-mean * high + 0.0, -mean * low + 0.0) if known else None,
        reward_range=(float(low), float(high)),
        range_given=reward_range is not None,
        effective_sample_size=None if weights is None else effective_sample_size(weights),
        implied_mass=None if weights is None or estimated else _mean(1 - weights),
    )
