"""`evaluate`: what a policy would have earned, and how much of that the log can support."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from sparing.errors import MissingExtraError, SettingError, SparingError
from sparing.evaluation.estimators import ESTIMATORS, Parts
from sparing.evaluation.ingredients import Ingredients
from sparing.evaluation.intervals import INTERVALS, Limits
from sparing.log import Log
from sparing.model.crossfitting import effective_sample_size
from sparing.policies.policy import Policy
from sparing.settings import among, share
from sparing.settings import reward_range as known_range

FLAG_MASS = 0.05
"""A policy with more mass than this outside the support is flagged."""


@dataclass(frozen=True)
class Estimate:
    """One estimator's answer for one policy.

    low, high: the interval that believes the value is all there is to know. support_low, support_high:
    the interval that holds whatever the actions outside the log's support are worth (None where the
    support is not known well enough). unsupported_mass is the policy's mean mass there, `flagged` says
    that it is too large for the value to be taken at face value. clipped_mass is what clipping takes away
    beyond it; the support-aware interval counts it too.
    """

    method: str
    value: float
    low: float
    high: float
    support_low: float | None
    support_high: float | None
    unsupported_mass: float | None
    clipped_mass: float
    effective_sample_size: float
    interval: str
    confidence: float
    flagged: bool
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The estimate as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"{self.method}: {self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"
        if self.support_low is not None and self.support_high is not None:
            text += f", with what the log cannot see [{self.support_low:.4g}, {self.support_high:.4g}]"
        if self.unsupported_mass is not None:
            text += f", unsupported mass {self.unsupported_mass:.1%}"
        if self.clipped_mass > 0:
            text += f", {self.clipped_mass:.1%} clipped away"
        if self.flagged:
            text += "  ← NOT SUPPORTED BY THE LOG: do not use the value alone"
        return text


@dataclass(frozen=True)
class Evaluation:
    """All estimates of one policy on one log, the methods that could not be used, and why."""

    estimates: tuple[Estimate, ...]
    unusable: dict[str, str]
    rows: int
    support: str
    reward_range: tuple[float, float]
    reward_range_given: bool
    logged_mean: float

    def __getitem__(self, method: str) -> Estimate:
        for estimate in self.estimates:
            if estimate.method == method:
                return estimate
        known = ", ".join(estimate.method for estimate in self.estimates)
        reason = f" ({self.unusable[method]})" if method in self.unusable else ""
        raise KeyError(f"no estimate {method!r}{reason}; there are {known}")

    @property
    def unsupported_mass(self) -> float | None:
        """The policy's mass outside the support: the largest told, None if no method can tell."""
        told = [e.unsupported_mass for e in self.estimates if e.unsupported_mass is not None]
        return max(told) if told else None

    @property
    def flagged(self) -> bool:
        """Whether any value is not supported by the log."""
        return any(estimate.flagged for estimate in self.estimates)

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        how = "given" if self.reward_range_given else "assumed from the rewards seen"
        lines = [
            f"{self.rows:,} rows, support {self.support}, logged mean reward {self.logged_mean:.4g}, "
            f"mean rewards in [{self.reward_range[0]:.4g}, {self.reward_range[1]:.4g}] ({how})",
            *map(str, self.estimates),
            *(f"{method}: not usable, {reason}" for method, reason in self.unusable.items()),
        ]
        return "\n".join(lines)


def evaluate(
    log: Log,
    policy: Policy | np.ndarray,
    *,
    methods: Sequence[str] | None = None,
    interval: str = "normal",
    confidence: float = 0.95,
    reward_range: tuple[float, float] | None = None,
    band: str = "range",
    clip: float | str = "percentile-ratio",
    ridge: float = 1.0,
    folds: int = 5,
    flag_mass: float = FLAG_MASS,
    seed: int = 0,
    noise: float | None = None,
    theta_bound: float | None = None,
    delta: float = 0.05,
    reward_model: str = "linear",
) -> Evaluation:
    """Estimate a policy's mean reward from a log, by every method that the log allows.

    `policy` has probabilities(contexts) -> (n, K), or is such a table for the log's rows. `reward_range`
    bounds *mean* rewards; without it the range of the rewards seen is assumed. `band="model"` uses the
    linear model's confidence band instead, at radius determinant × 1 and level `delta`, with `noise` and
    `theta_bound` estimated where not given. `interval` is
    `normal`, `bootstrap` (every row, in every resample), `block-bootstrap` (1,024 random blocks of rows: much
    faster) or `bernstein`; `clip` is M for `clipped` and `cab`. `reward_model` is `linear` or `boosted`, which needs
    scikit-learn and is cross-fitted in every method.
    """
    _check(log, policy, interval, band)
    share("confidence", confidence)
    share("flag_mass", flag_mass, zero=True, one=True)
    chosen = _methods(methods)
    among("reward_model", reward_model, ("linear", "boosted"))
    of = Ingredients(
        log,
        policy,
        _range(log, reward_range, interval),
        band=band,
        clip=clip,
        ridge=ridge,
        folds=folds,
        seed=seed,
        noise=noise,
        theta_bound=theta_bound,
        delta=delta,
        reward_model=reward_model,
    )
    if log.propensities is not None:
        _ = of.cap  # a wrong clip is refused, whatever the methods
    _ = of.target  # a policy that is no policy is refused, whatever the methods
    pending, unusable = [], {}
    limits = Limits(interval, confidence, np.random.default_rng([seed, 21]))
    for name in chosen:
        try:
            pending.append(_pending(name, ESTIMATORS[name](of), of, limits, flag_mass))
        except SparingError as error:
            if methods is not None and not isinstance(error, MissingExtraError):
                raise
            unusable[name] = str(error)
    found = limits.found()
    return Evaluation(
        tuple(_limited(estimate, [found[place] for place in places]) for estimate, places in pending),
        unusable,
        log.n_rows,
        log.support.kind,
        of.reward_range,
        reward_range is not None,
        float(log.rewards.mean()),
    )


def _pending(
    name: str, parts: Parts, of: Ingredients, limits: Limits, flag_mass: float
) -> tuple[partial[Estimate], list[int]]:
    """An estimate that only lacks its limits, and the places of those: of its value's and its bounds' terms."""
    if not np.isfinite(parts.plain.value):
        raise SettingError("the policy never agrees with a logged action, so there is nothing to weigh")
    notes, wanted = list(parts.notes), [parts.plain]
    if parts.low is not None and parts.high is not None:
        wanted += [parts.low, parts.high]
    else:
        notes.append("the support is unknown: what this leaves out cannot be bounded")
    if of.log.support.kind == "estimated":
        notes.append("support and propensities are estimated")
    if of.untried > 0:
        notes.append(
            f"{of.untried:.1%} of the policy's mass is on actions that could have been logged but have no row: "
            "no estimate here knows their rewards, and no interval counts them"
        )
    mass = None if parts.missing is None else float(np.clip(parts.missing.mean(), 0, 1))
    estimate = partial(
        Estimate,
        method=name,
        value=parts.plain.value,
        unsupported_mass=mass,
        clipped_mass=0.0 if parts.clipped is None else max(0.0, float(parts.clipped.mean())),
        effective_sample_size=effective_sample_size(parts.weights),
        interval=limits.interval,
        confidence=limits.confidence,
        flagged=mass is None or mass + of.untried > flag_mass,
        notes=tuple(notes),
    )
    return estimate, [limits.add(terms) for terms in wanted]


def _limited(estimate: partial[Estimate], found: Sequence[tuple[float, float]]) -> Estimate:
    """The estimate with its limits: the value's and, where it has bounds, the lower of one, the upper of the other."""
    (low, high), *bounds = found
    ends = (bounds[0][0], bounds[1][1]) if bounds else (None, None)
    return estimate(low=low, high=high, support_low=ends[0], support_high=ends[1])


def _check(log: Log, policy: Policy | np.ndarray, interval: str, band: str) -> None:
    if not isinstance(log, Log):
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    if not isinstance(policy, np.ndarray) and not hasattr(policy, "probabilities"):
        hint = "pass learner.policy()" if hasattr(policy, "policy") else "give it probabilities(contexts)"
        raise SettingError(f"got a {type(policy).__name__}; expected a policy or a table (n, K): {hint}")
    if not log.n_rows:
        raise SettingError("the log has no rows; there is nothing to evaluate on")
    among("interval", interval, INTERVALS)
    among("band", band, ("range", "model"))
    if interval == "bernstein" and band == "model":
        raise SettingError("interval='bernstein' needs bounds that are sure; use band='range'")


def _methods(given: Sequence[str] | None) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    chosen = tuple(ESTIMATORS) if names is None else tuple(names)
    unknown = [name for name in chosen if name not in ESTIMATORS]
    if unknown or not chosen:
        raise SettingError(f"method {unknown[0] if unknown else ''!r}; known are {', '.join(ESTIMATORS)}")
    return chosen


def _range(log: Log, given: tuple[float, float] | None, interval: str) -> tuple[float, float]:
    seen = float(log.rewards.min()), float(log.rewards.max())
    low, high = known_range(given) or seen
    if interval == "bernstein" and (seen[0] < low or seen[1] > high):
        raise SettingError(
            f"interval='bernstein' needs every reward inside reward_range={given}; the log has "
            f"{seen[0]:.4g} to {seen[1]:.4g}"
        )
    return low, high
