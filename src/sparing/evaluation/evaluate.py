"""`evaluate`: what a policy would have earned, and how much of that the log can support."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparing.errors import MissingExtraError, SettingError, SparingError
from sparing.evaluation.estimate import Estimate, Evaluation
from sparing.evaluation.estimators import ESTIMATORS, Parts
from sparing.evaluation.ingredients import Ingredients
from sparing.evaluation.intervals import INTERVALS, Limits
from sparing.log import Log
from sparing.policies.policy import Policy
from sparing.policies.walking import effective_sample_size

FLAG_MASS = 0.05
"""A policy with more mass than this outside the support is flagged."""


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
) -> Evaluation:
    """Estimate a policy's mean reward from a log, by every method that the log allows.

    `policy` has probabilities(contexts) -> (n, K), or is such a table for the log's rows. `reward_range`
    bounds *mean* rewards; without it the range of the rewards seen is assumed. `band="model"` uses the
    linear model's confidence band instead, at radius determinant × 1 and level `delta`, with `noise` and
    `theta_bound` estimated where not given. `interval` is
    `normal`, `bootstrap` (every row, in every resample), `block-bootstrap` (1,024 random blocks of rows: much
    faster) or `bernstein`; `clip` is M for `clipped` and `cab`.
    """
    if not isinstance(log, Log):
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    if not isinstance(policy, np.ndarray) and not hasattr(policy, "probabilities"):
        hint = "pass learner.policy()" if hasattr(policy, "policy") else "give it probabilities(contexts)"
        raise SettingError(f"got a {type(policy).__name__}; expected a policy or a table (n, K): {hint}")
    names = [methods] if isinstance(methods, str) else methods
    chosen = tuple(ESTIMATORS) if names is None else tuple(names)
    unknown = [name for name in chosen if name not in ESTIMATORS]
    if unknown or not chosen:
        raise SettingError(f"method {unknown[0] if unknown else ''!r}; known are {', '.join(ESTIMATORS)}")
    _check(log, interval, confidence, band, flag_mass)
    low, high = _range(log, reward_range, interval)
    of = Ingredients(
        log,
        policy,
        reward_range=(low, high),
        band=band,
        clip=clip,
        ridge=ridge,
        folds=folds,
        seed=seed,
        assumptions={"noise": noise, "theta_bound": theta_bound, "delta": delta},
    )
    if log.propensities is not None:
        _ = of.clip  # a wrong clip is refused, whatever the methods
    _ = of.target  # a policy that is no policy is refused, whatever the methods
    pending, unusable = [], {}
    limits = Limits(interval, confidence, np.random.default_rng([seed, 21]))
    for name in chosen:
        try:
            pending.append(_Pending.of(name, ESTIMATORS[name](of), of, limits))
        except MissingExtraError as error:
            unusable[name] = str(error)
        except SparingError as error:
            if methods is not None:
                raise
            unusable[name] = str(error)
    found = limits.found()
    estimates = [one.estimate(found, interval, confidence, flag_mass) for one in pending]
    return Evaluation(
        tuple(estimates),
        unusable,
        log.n_rows,
        log.support.kind,
        (low, high),
        reward_range is not None,
        float(log.rewards.mean()),
    )


@dataclass(frozen=True)
class _Pending:
    """An estimate that only lacks its limits; `places` are those of its value's, lower and upper terms'."""

    name: str
    value: float
    mass: float | None
    clipped: float
    untried: float
    effective: float
    notes: tuple[str, ...]
    places: tuple[int, ...]

    @classmethod
    def of(cls, name: str, parts: Parts, of: Ingredients, limits: Limits) -> "_Pending":
        if not np.isfinite(parts.plain.value):
            raise SettingError("the policy never agrees with a logged action, so there is nothing to weigh")
        notes = list(parts.notes)
        wanted = [parts.plain]
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
        return cls(
            name,
            parts.plain.value,
            None if parts.missing is None else float(np.clip(parts.missing.mean(), 0, 1)),
            0.0 if parts.clipped is None else max(0.0, float(parts.clipped.mean())),
            of.untried,
            effective_sample_size(parts.weights),
            tuple(notes),
            tuple(limits.add(terms) for terms in wanted),
        )

    def estimate(
        self, found: list[tuple[float, float]], interval: str, confidence: float, flag_mass: float
    ) -> Estimate:
        low, high = found[self.places[0]]
        bounded = len(self.places) == 3
        return Estimate(
            method=self.name,
            value=self.value,
            low=low,
            high=high,
            support_low=found[self.places[1]][0] if bounded else None,
            support_high=found[self.places[2]][1] if bounded else None,
            unsupported_mass=self.mass,
            clipped_mass=self.clipped,
            effective_sample_size=self.effective,
            interval=interval,
            confidence=confidence,
            flagged=self.mass is None or self.mass + self.untried > flag_mass,
            notes=self.notes,
        )


def _check(log: Log, interval: str, confidence: float, band: str, flag_mass: float) -> None:
    if not log.n_rows:
        raise SettingError("the log has no rows; there is nothing to evaluate on")
    if interval not in INTERVALS:
        raise SettingError(f"interval={interval!r}; must be one of {', '.join(INTERVALS)}")
    if interval == "bernstein" and band == "model":
        raise SettingError("interval='bernstein' needs bounds that are sure; use band='range'")
    if band not in ("range", "model"):
        raise SettingError(f"band={band!r}; must be 'range' or 'model'")
    if not 0 < confidence < 1:
        raise SettingError(f"confidence={confidence}; must be in (0, 1)")
    if not 0 <= flag_mass <= 1:
        raise SettingError(f"flag_mass={flag_mass}; must be in [0, 1]")


def _range(log: Log, given: tuple[float, float] | None, interval: str) -> tuple[float, float]:
    low, high = (log.rewards.min(), log.rewards.max()) if given is None else map(float, given)
    if not (np.isfinite([low, high]).all() and low <= high):
        raise SettingError(f"reward_range={given}; must be two finite numbers, the smaller first")
    if interval == "bernstein" and (log.rewards.min() < low or log.rewards.max() > high):
        raise SettingError(
            f"interval='bernstein' needs every reward inside reward_range={given}; the log has "
            f"{log.rewards.min():.4g} to {log.rewards.max():.4g}"
        )
    return float(low), float(high)
