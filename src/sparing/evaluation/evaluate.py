"""`evaluate`: estimate what a policy would have earned, and how much of that the log supports."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparing.engines import ProgressCounter
from sparing.errors import MissingExtraError, SettingError, SparingError
from sparing.evaluation.estimators import ESTIMATORS, LOGGED_WEIGHTS
from sparing.evaluation.intervals import (
    EXPECTED,
    EXPECTED_OF_FEW,
    FEW_ROWS,
    INTERVALS,
    MIN_ROWS,
    EffectiveSample,
    widened,
)
from sparing.evaluation.passes import PASSES, EstimatorSummary, EvaluationData
from sparing.evaluation.result import Estimate, Evaluation
from sparing.evaluation.rows import EvaluationSettings
from sparing.interval import LEVEL, deviations
from sparing.log import Log
from sparing.log.costs import CostsOption, action_costs
from sparing.log.rows import AnyLog, BlocksInMemory, InMemoryRows, Rows, as_rows, reward_summary
from sparing.policies.fingerprint import TrainingFingerprint
from sparing.policies.pi_plus import clip_number
from sparing.policies.policy import ConstantPolicy, Policy, UniformPolicy
from sparing.validation import fraction, one_of

FLAG_MASS = 0.05  # unsupported mass from which a policy is flagged
FULL_MASS = 1 - 1e-9  # all of a policy, up to rounding
REPORTED_DEFICIT = 0.005  # weight deficit beyond chance that is noted

TRAINING_ROWS = ("refuse", "allow")

UNKNOWN_ROWS = (
    "it is unknown whether the policy was trained on these rows; if it was, the estimate is too high"
)


def evaluate(
    log: AnyLog,
    policy: Policy | np.ndarray,
    *,
    methods: Sequence[str] | None = None,
    interval: str = "normal",
    confidence: float = LEVEL,
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
    training_rows: str = "refuse",
    progress: Callable[[int, int], None] | None = None,
    reward_model: str = "linear",
    taught: str | None = None,
    costs: CostsOption = None,
) -> Evaluation:
    """Estimate a policy's mean reward from a log, by every method that the log allows.

    Where costs of the actions are known, estimates are of reward − cost. The log is read in a few passes, block by block. A log in memory and the same log from `scan` give the same numbers, bit for bit.

    Parameters
    ----------
    log : Log or Scan
        The logged rows.
    policy : Policy or ndarray of shape (n, K)
        With ``probabilities(contexts) -> (n, K)``; or such a table for the log's rows.
    methods : sequence of str, optional
        Estimators; by default all. A method that is named and cannot be used raises its error.
    interval : {'normal', 'bootstrap', 'block-bootstrap', 'bernstein'}
        The block bootstrap resamples 1,024 random blocks of rows: faster than resampling rows.
    confidence : float
        Level of the intervals.
    reward_range : tuple of float, optional
        Bounds on *mean* rewards; no number of the result lies outside. Without it rewards of 0 and 1 are recognised, else the
        range of the logged rewards is assumed, and an interval that would rest on that is refused.
    band : {'range', 'model'}
        How rewards of unsupported actions are bounded: by the range, or by the linear model's confidence band at level 1 − δ.
    clip : float or 'percentile-ratio'
        M of `clipped` and `cab`; by default the ratio of the 90 % and the 10 % quantile of the logged propensities.
    ridge : float
        Of the linear reward model.
    folds : int
        Folds of contexts in cross-fitting; at most as many as there are contexts.
    flag_mass : float
        An estimate is flagged where more of the policy than this is unsupported.
    seed : int
        Of folds, samples and resamples.
    noise, theta_bound, delta : float, optional
        Of the model's band; the first two are estimated where they are not given.
    training_rows : {'refuse', 'allow'}
        The rows that a policy was trained on overstate it. Where some were held out (``learn(..., holdout=)``) only those are
        used, else the log is refused. 'allow' uses all rows, and marks every estimate as in-sample.
    progress : callable, optional
        Called as ``progress(done, total)``.
    reward_model : {'linear', 'boosted'}
        A boosted model is cross-fitted always; it is trained on a sample of 262,144 rows where there are more.
    taught : str, optional
        Deprecated name of `training_rows`.
    costs : mapping or sequence of K numbers, optional
        Known costs of playing the actions, in units of the reward; by default those of the log. The policy's cost is computed, not
        estimated. `reward_range` bounds rewards before cost.

    Returns
    -------
    Evaluation
        An estimate for each method, and why others cannot be used.

    Raises
    ------
    SettingError
        If an option is not allowed, the policy is not one, or the log contains its training rows and none were held out.

    Examples
    --------
    >>> evaluate(log, policy, methods=["dr"], reward_range=(0, 1))["dr"]  # doctest: +SKIP
    """
    if taught is not None:
        warnings.warn("taught= is deprecated; use training_rows=", DeprecationWarning, stacklevel=2)
        training_rows = taught
    _check(log, policy, interval, band)
    one_of("training_rows", training_rows, TRAINING_ROWS)
    fraction("confidence", confidence)
    fraction("flag_mass", flag_mass, zero=True, one=True)
    one_of("reward_model", reward_model, ("linear", "boosted"))
    if clip != "percentile-ratio":
        clip_number(clip)
    chosen = _methods(methods)
    rows = as_rows(log)
    known = None if costs is None else action_costs(costs, rows.action_names)
    if interval == "bernstein" and (known is not None or rows.header.costs is not None):
        raise SettingError(
            "interval='bernstein' bounds rewards alone, and this log has costs; use 'normal' or 'bootstrap'"
        )
    given = evaluation_rows(rows, policy, training_rows)
    settings = EvaluationSettings(
        chosen, interval, band, clip, ridge, folds, seed, noise, theta_bound, delta, reward_model, known
    )
    steps = ProgressCounter(progress, PASSES + len(chosen) + (folds if "mlips" in chosen else 0))
    rewards = None if given.rows is rows else reward_summary(rows)
    data = EvaluationData(given.rows, policy, settings, rewards, reward_range, steps)
    estimates, unusable = [], {}
    for name in chosen:
        try:
            estimates.append(_estimate(name, data, given, confidence, flag_mass))
        except SparingError as error:
            if methods is not None and not isinstance(error, MissingExtraError):
                raise
            unusable[name] = str(error)
        steps.step()
    steps.finish()
    mean_weight = data.mean_weight
    return Evaluation(
        tuple(estimates),
        unusable,
        given.rows.n_rows,
        data.header.support.kind,
        data.reward_range,
        reward_range is not None,
        reward_range is None and data.range_known,
        data.logged_mean,
        log.n_rows,
        given.held_out,
        None if mean_weight is None else mean_weight.value,
        data.policy_cost,
    )


@dataclass(frozen=True, eq=False)
class EvaluationRows:
    """The rows that a policy is evaluated on."""

    rows: Rows
    notes: tuple[str, ...] = ()
    held_out: bool = False
    in_sample: bool = False


def evaluation_rows(rows: Rows, policy: Policy | np.ndarray, training_rows: str) -> EvaluationRows:
    """All rows if the policy was trained on none of them, else the rows held out; an error if none were."""
    known: TrainingFingerprint | None = getattr(policy, "trained_on", None)
    if known is None:
        untrained = isinstance(policy, UniformPolicy | ConstantPolicy)
        return EvaluationRows(rows, () if untrained else (UNKNOWN_ROWS,))
    overlap = known.overlap(rows)
    if overlap == "none":
        return EvaluationRows(rows)
    if training_rows == "allow":
        sure = overlap == "some"
        return EvaluationRows(
            rows, ("the policy was trained on these rows" if sure else UNKNOWN_ROWS,), in_sample=sure
        )
    held, reason = _held_out(rows, known)
    if held is not None:
        note = (
            f"evaluated on the {held.n_rows:,} of {rows.n_rows:,} rows that were held out when it was learnt"
        )
        return EvaluationRows(held, (note,), held_out=True)
    if overlap == "unclear":
        return EvaluationRows(rows, (UNKNOWN_ROWS,))
    raise SettingError(
        f"rows of this log are among the {known.rows:,} that the policy was trained on ({reason}): on them it looks "
        "better than it is. Learn it again with a part held out (holdout=0.3), or evaluate it on another log; "
        "training_rows='allow' evaluates all the same, and marks every estimate as in-sample"
    )


def _held_out(rows: Rows, known: TrainingFingerprint) -> tuple[Rows | None, str]:
    """The rows held out; None and the reason where there are none, or where they cannot be identified."""
    log: AnyLog = rows
    if isinstance(rows, InMemoryRows) and known.split is not None and known.split.by == "row":
        log = rows.log  # equal rows are numbered over the whole log
    try:
        held = as_rows(known.held_out(log))
    except SettingError as error:
        return None, str(error)
    if not held.n_rows:
        return None, "none of those held out is here"
    return (BlocksInMemory(held) if rows.in_memory and not held.in_memory else held), ""


def _estimate(
    name: str, data: EvaluationData, given: EvaluationRows, confidence: float, flag_mass: float
) -> Estimate:
    """A method's estimate: each interval holds the one inside it, and the value; nothing lies outside a known range."""
    found, interval, known = data.summary(name), data.settings.interval, data.header.support.known
    value, missing = found.terms["plain"].value, found.means.get("missing")
    if not np.isfinite(value):
        raise SettingError("the policy never agrees with a logged action, so no row has a weight")
    mean = data.mean_weight if name in LOGGED_WEIGHTS and not given.in_sample else None
    inconsistent = "" if mean is None else mean.sentence
    sample = replace(_sample(found, data, confidence), inconsistent=inconsistent)
    samples, check = [sample], data.summary("dr") if found.parts.checked else None
    limits = data.limits(found, confidence)
    sure = interval == "bernstein" and not inconsistent  # which holds for every n as it is

    def widen(low: float, high: float, value: float, sample: EffectiveSample) -> tuple[float, float]:
        if sure:
            return low, high
        return widened(low, high, value, sample=sample, reward_range=data.net_range, confidence=confidence)

    def clamp(end: float) -> float:
        return min(max(end, data.net_range[0]), data.net_range[1]) if data.range_known else end

    own = limits.get("least", limits["plain"])[0], limits.get("most", limits["plain"])[1]
    low, high = widen(*own, value, sample)
    if check is not None:
        samples.append(_sample(check, data, confidence))
        other = data.limits(check, confidence)["plain"]
        least, most = widen(*other, check.terms["plain"].value, samples[1])
        low, high = min(low, least), max(high, most)
    low, high = min(low, value), max(high, value)
    outer: tuple[float | None, float | None] = (None, None)
    if "low" in limits:
        # Where the support is unknown a mean weight above 1 is no negative mass: nothing is missing.
        nothing = not known and missing is not None and missing <= 0
        least, most = widen(*(own if nothing else (limits["low"][0], limits["high"][1])), value, sample)
        outer = clamp(min(least, low)), clamp(max(most, high))
    mass = None if missing is None else float(np.clip(missing, 0, 1))
    refusal = "" if sure else next((each.refusal for each in samples if each.refusal), "")
    fewest = min(each.effective for each in samples)
    return Estimate(
        method=name,
        value=clamp(value),
        low=clamp(low),
        high=clamp(high),
        support_low=outer[0],
        support_high=outer[1],
        unsupported_mass=mass,
        clipped_mass=max(0.0, found.means.get("clipped", 0.0)),
        effective_sample_size=sample.effective,
        interval=interval,
        confidence=confidence,
        flagged=mass is None or mass + data.unlogged_mass > flag_mass,
        few_rows=sample.effective < FEW_ROWS or fewest < MIN_ROWS,
        refused=bool(refusal),
        unknown=bool(refusal) and not fewest,
        in_sample=given.in_sample,
        inconsistent=bool(inconsistent),
        notes=(*given.notes, *found.parts.notes, *_notes(found, data, sample, refusal)),
    )


def _sample(found: EstimatorSummary, data: EvaluationData, confidence: float) -> EffectiveSample:
    """The rows behind an estimate; the error of a fit has as many degrees of freedom as there are folds, less one.

    There are none behind a policy that plays only actions without rows, even if a model predicts their rewards.
    """
    effective = found.effective["weights"] if data.unlogged_mass < FULL_MASS else 0.0
    expected = EXPECTED_OF_FEW if effective < FEW_ROWS and not found.parts.model else EXPECTED
    deficit = found.deficits.get("deficit")
    unseen = 0.0 if deficit is None else deficit.beyond_chance(expected)
    error, lift = found.parts.fit
    error *= float(deviations(confidence, data.n_folds - 1))
    assumed = 0.0 if data.range_known or found.parts.model else _assumed(found, unseen)
    return EffectiveSample(effective, unseen, found.parts.imputed, error, lift, assumed)


def _assumed(found: EstimatorSummary, unseen: float) -> float:
    """The share of a policy that counts with the range of rewards which are not the policy's.

    The range counts for what was not seen and for what clipping takes away. The rewards seen are the policy's too
    where its weights before clipping are of enough effective rows and add up to what they ought to.
    """
    if "unclipped" not in found.effective:
        return max(unseen, 0.0)
    counted = max(0.0, found.means["clipped"]) + abs(unseen)
    if found.effective["unclipped"] < MIN_ROWS:
        return counted
    return min(counted, max(found.deficits["unclipped deficit"].beyond_chance(), 0.0))


def _notes(
    found: EstimatorSummary, data: EvaluationData, sample: EffectiveSample, refusal: str
) -> Iterator[str]:
    if "low" not in found.terms:
        yield "the support is unknown: what this leaves out cannot be bounded"
    if data.header.support.kind == "estimated":
        fitted = "the support is" if data.header.propensities is None else "support and propensities are"
        yield f"{fitted} estimated"
    if data.unlogged_mass > 0 and data.header.support.known:
        yield (
            f"{data.unlogged_mass:.1%} of the policy's probability is on actions that could have been logged but have no row: "
            "no estimate here includes their rewards, and no interval counts them"
        )
    elif data.unlogged_mass > 0:
        yield f"{data.unlogged_mass:.1%} of the policy's probability is on actions that have no row: no estimate here includes their rewards"
    if refusal:
        yield f"no interval: {refusal}"
    if sample.fit_error > 0:
        yield f"propensities were fitted: their error, ±{sample.fit_error:.3g}, is in the interval"
    if abs(sample.unseen) > REPORTED_DEFICIT and not refusal:
        more = "less" if sample.unseen > 0 else "more"
        yield (
            f"the weights add up to {more} than they ought to, by {abs(sample.unseen):.1%} of the policy beyond chance: that part counts "
            "as unseen in the interval"
        )
    if found.parts.model and data.boosted_rows is not None:
        yield f"the boosted reward model was trained on a sample of {data.boosted_rows:,} rows"
    if found.parts.model:
        yield from data.linear_notes


def _check(log: AnyLog, policy: Policy | np.ndarray, interval: str, band: str) -> None:
    if not isinstance(log, Log | Rows):
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    if not isinstance(policy, np.ndarray) and not hasattr(policy, "probabilities"):
        hint = "pass learner.policy()" if hasattr(policy, "policy") else "give it probabilities(contexts)"
        raise SettingError(f"got a {type(policy).__name__}; expected a policy or a table (n, K): {hint}")
    if not log.n_rows:
        raise SettingError("the log has no rows; there is nothing to evaluate on")
    if isinstance(policy, np.ndarray) and policy.shape != (log.n_rows, log.n_actions):
        raise SettingError(f"policy of shape {policy.shape}; expected {(log.n_rows, log.n_actions)}")
    one_of("interval", interval, INTERVALS)
    one_of("band", band, ("range", "model"))
    if interval == "bernstein" and band == "model":
        raise SettingError("interval='bernstein' needs bounds that are sure; use band='range'")


def _methods(given: Sequence[str] | None) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    chosen = tuple(ESTIMATORS) if names is None else tuple(names)
    unknown = [name for name in chosen if name not in ESTIMATORS]
    if unknown or not chosen:
        raise SettingError(f"method {unknown[0] if unknown else ''!r}; known are {', '.join(ESTIMATORS)}")
    return chosen
