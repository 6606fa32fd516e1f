"""`evaluate`: what a policy would have earned, and how much of that the log can support."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from sparing.errors import MissingExtraError, SettingError, SparingError
from sparing.evaluation.caution import EXPECTED, EXPECTED_OF_FEW, FEW, FEWEST, Sample, widened
from sparing.evaluation.estimators import ESTIMATORS
from sparing.evaluation.figures import AtOnce, Figures, Material, Steps, reward_bounds
from sparing.evaluation.ingredients import Ingredients, Settings
from sparing.evaluation.intervals import INTERVALS, Limits
from sparing.evaluation.result import Estimate, Evaluation
from sparing.evaluation.taught import TAUGHT, Judging, judging_rows
from sparing.log import Log
from sparing.log.rows import AnyLog, Rows, rewards_of, rows_of
from sparing.policies.pi_plus import clip_number
from sparing.policies.policy import Policy
from sparing.validation import fraction, one_of

FLAG_MASS = 0.05
"""A policy with more mass than this outside the support is flagged."""

ALL = 1 - 1e-9
"""A share of the policy that is all of it, but for rounding."""

UNSEEN = 0.005
"""A larger share of the policy that the weights miss beyond chance is told."""


def evaluate(
    log: AnyLog,
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
    taught: str = "refuse",
    progress: Callable[[int, int], None] | None = None,
    reward_model: str = "linear",
) -> Evaluation:
    """Estimate a policy's mean reward from a log, by every method that the log allows.

    `policy` has probabilities(contexts) -> (n, K), or is such a table for the log's rows. Rows that taught it cannot
    judge it: where some were held out (`learn(..., holdout=)`), those are used, else the log is refused;
    `taught="allow"` takes all rows, and marks every estimate as in-sample. `reward_range` bounds *mean* rewards, and
    no number here lies outside; without it rewards of 0 and 1 are recognised, else the range seen is assumed for the
    bounds, and an interval that would rest on that is refused. `band="model"` uses the linear model's confidence band
    instead, at radius determinant × 1 and level `delta`, with `noise` and `theta_bound` estimated where not given.
    `interval` is `normal`, `bootstrap`, `block-bootstrap` (1,024 random blocks of rows: faster) or `bernstein`; `clip` is
    M for `clipped` and `cab`; `reward_model` is `linear` or `boosted`, which is cross-fitted. `progress(done, total)` is called on the way.

    `log` may be one that `scan` gives: it is walked a few times, and the numbers are those of the same log in memory, bit for bit. A log of
    several blocks (more than 131,072 rows, fewer where they are wide), in memory or not, has its folds of contexts by hash, and propensities for
    `mlips` and notes on the reward model from a sample of its rows. A table as policy and the boosted model need a log in memory.
    """
    _check(log, policy, interval, band)
    _check_settings(taught, confidence, flag_mass, reward_model, clip)
    chosen = _methods(methods)
    everything = _at_hand(log, policy, reward_model)
    judging = judging_rows(everything, policy, taught)
    settings = Settings(
        chosen, interval, band, clip, ridge, folds, seed, noise, theta_bound, delta, reward_model
    )
    steps = Steps(progress, len(chosen) + (folds if "mlips" in chosen else 0))
    material = _material(everything, judging, policy, settings, reward_range, steps)
    limits = material.limits(confidence)
    pending, unusable = _pending_all(material, judging, limits, flag_mass, steps, strict=methods is not None)
    seen, known = material.reward_range, material.range_known
    found, bounds = limits.found(), seen if known else (-np.inf, np.inf)
    return Evaluation(
        tuple(each.limited(found, seen, bounds) for each in pending),
        unusable,
        judging.log.n_rows,
        material.log.support.kind,
        seen,
        reward_range is not None,
        reward_range is None and known,
        material.logged_mean,
        log.n_rows,
        judging.held_out,
    )


def _at_hand(log: AnyLog, policy: Policy | np.ndarray, reward_model: str) -> AnyLog:
    """The log with all its rows at once, where it has one block, or what is asked needs them; else as one that is walked."""
    needs = {
        "a policy as a table has a row for each of the log's; give one with probabilities(contexts)": isinstance(
            policy, np.ndarray
        ),
        "reward_model='boosted' needs all rows at once; evaluate on log.sample(200_000) (--sample 200000), or on read_log(...)": (
            reward_model == "boosted"
        ),
    }
    for need, there in needs.items():
        if there and isinstance(log, Log):
            return log
        if there:
            raise SettingError(f"the log is a {type(log).__name__}, which is read in pieces: {need}")
    rows = rows_of(log)
    if not rows.whole:
        return rows
    return log if isinstance(log, Log) else next(rows.blocks())[1]


def _material(
    everything: AnyLog,
    judging: Judging,
    policy: Policy | np.ndarray,
    given: Settings,
    reward_range: tuple[float, float] | None,
    steps: Steps,
) -> Material:
    """What the estimates are made of: of all rows at once, or of several passes over them."""
    log = judging.log
    if isinstance(log, Log) and everything is not log:
        log = _at_hand(log, policy, given.reward_model)
    if not isinstance(log, Log):
        from sparing.evaluation.walked import Walked

        assert not isinstance(policy, np.ndarray)
        return Walked(log, policy, given, everything, reward_range, steps)
    rewards = rewards_of(everything)
    of = Ingredients(
        log,
        policy,
        reward_bounds(rewards, reward_range, given.interval),
        given,
        range_known=reward_range is not None or rewards.binary,
        progress=steps.fold,
    )
    _ = of.target  # a policy that is no policy is refused, whatever the methods
    return AtOnce(of)


@dataclass(frozen=True)
class Pending:
    """An estimate that only lacks its limits, and the places of those.

    plain: of its value's own ends (one place twice, mostly). bounds: of the support-aware ends. check: of an
    estimate that its interval must hold too, with that one's value and sample.
    """

    estimate: Estimate
    sample: Sample
    plain: tuple[int, int]
    bounds: tuple[int, int] | None
    check: tuple[int, float, Sample] | None

    def limited(
        self,
        found: Sequence[tuple[float, float]],
        reward_range: tuple[float, float],
        known: tuple[float, float],
    ) -> Estimate:
        """The estimate with its limits: each interval holds the one inside it, and the value.

        Nothing lies outside the `known` range of mean rewards, which is infinite where none is known.
        """
        value, level = self.estimate.value, self.estimate.confidence

        def ends(low: float, high: float, value: float, sample: Sample) -> tuple[float, float]:
            if self.estimate.interval == "bernstein":  # holds for every n as it is
                return low, high
            return widened(low, high, value, sample=sample, reward_range=reward_range, confidence=level)

        low, high = ends(found[self.plain[0]][0], found[self.plain[1]][1], value, self.sample)
        if self.check is not None:
            place, other, sample = self.check
            least, most = ends(*found[place], other, sample)
            low, high = min(low, least), max(high, most)
        low, high = min(low, value), max(high, value)
        outer: tuple[float | None, float | None] = (None, None)
        if self.bounds is not None:
            least, most = ends(found[self.bounds[0]][0], found[self.bounds[1]][1], value, self.sample)
            outer = within(min(least, low), known), within(max(most, high), known)
        return replace(
            self.estimate,
            value=within(value, known),
            low=within(low, known),
            high=within(high, known),
            support_low=outer[0],
            support_high=outer[1],
        )


def within(value: float, known: tuple[float, float]) -> float:
    """The nearest number in a range."""
    return min(max(value, known[0]), known[1])


def _pending_all(
    material: Material, judging: Judging, limits: Limits, flag_mass: float, steps: Steps, *, strict: bool
) -> tuple[list[Pending], dict[str, str]]:
    """The estimates of the methods that can be used, and why others cannot; `strict` raises instead."""
    pending, unusable = [], {}
    for name in material.given.methods:
        try:
            pending.append(_pending(name, material.figures(name), material, judging, limits, flag_mass))
        except SparingError as error:
            if strict and not isinstance(error, MissingExtraError):
                raise
            unusable[name] = str(error)
        steps.step()
    return pending, unusable


def _pending(
    name: str, figures: Figures, of: Material, judging: Judging, limits: Limits, flag_mass: float
) -> Pending:
    if not np.isfinite(figures.plain.value):
        raise SettingError("the policy never agrees with a logged action, so there is nothing to weigh")
    sample = _sample(figures, of, limits.confidence)
    mass = None if figures.missing is None else float(np.clip(figures.missing, 0, 1))
    samples = [sample]
    if figures.check is not None:
        samples.append(_sample(figures.check, of, limits.confidence))
    refusal = next((each.refusal for each in samples if each.refusal), "")
    if limits.interval == "bernstein":  # holds for every n as it is
        refusal = ""
    estimate = Estimate(
        method=name,
        value=figures.plain.value,
        low=np.nan,
        high=np.nan,
        support_low=None,
        support_high=None,
        unsupported_mass=mass,
        clipped_mass=max(0.0, figures.clipped or 0.0),
        effective_sample_size=sample.effective,
        interval=limits.interval,
        confidence=limits.confidence,
        flagged=mass is None or mass + of.untried > flag_mass,
        few_rows=sample.effective < FEW or min(each.effective for each in samples) < FEWEST,
        refused=bool(refusal),
        untold=bool(refusal) and not min(each.effective for each in samples),
        in_sample=judging.in_sample,
        notes=(*judging.notes, *figures.notes, *_notes(figures, of, sample, refusal)),
    )
    own, ends = limits.add(figures.plain), figures.ends
    plain = (own, own) if ends is None else (limits.add(ends[0]), limits.add(ends[1]))
    bounds = None
    if figures.missing is not None and not of.log.support.known and figures.missing <= 0:
        bounds = plain  # a mean weight above 1 is no negative mass: nothing is missing
    elif figures.low is not None and figures.high is not None:
        bounds = limits.add(figures.low), limits.add(figures.high)
    check = None
    if figures.check is not None:
        check = limits.add(figures.check.plain), figures.check.plain.value, samples[-1]
    return Pending(estimate, sample, plain, bounds, check)


def _sample(figures: Figures, of: Material, confidence: float) -> Sample:
    """The rows behind an estimate; the error of a fit that folds tell has as much freedom as they leave.

    None is behind a policy that plays only what has no row, whatever a model makes of it.
    """
    effective = figures.effective if of.untried < ALL else 0.0
    expected = EXPECTED_OF_FEW if effective < FEW and not figures.model else EXPECTED
    unseen = 0.0 if figures.lack is None else figures.lack.beyond_chance(expected)
    error, lift = figures.fit
    error *= float(stdtrit(of.given.folds - 1, (1 + confidence) / 2))
    assumed = 0.0 if of.range_known or figures.model else _assumed(figures, unseen)
    return Sample(effective, unseen, figures.filled, error, lift, assumed)


def _assumed(figures: Figures, unseen: float) -> float:
    """The share of a policy that counts with the range of rewards which are not the policy's.

    The range counts for what was not seen and for what clipping takes away. The rewards seen are the policy's too
    where its weights before clipping are of enough effective rows and add up to what they ought to.
    """
    if figures.clipped is None or figures.whole is None:
        return max(unseen, 0.0)
    counted = max(0.0, figures.clipped) + abs(unseen)
    effective, lack = figures.whole
    if effective < FEWEST:
        return counted
    return min(counted, max(lack.beyond_chance(), 0.0))


def _notes(figures: Figures, of: Material, sample: Sample, refusal: str) -> Iterator[str]:
    """What is to be said of an estimate."""
    if figures.low is None:
        yield "the support is unknown: what this leaves out cannot be bounded"
    if of.log.support.kind == "estimated":
        yield "support and propensities are estimated"
    if of.untried > 0 and of.log.support.known:
        yield (
            f"{of.untried:.1%} of the policy's mass is on actions that could have been logged but have no row: "
            "no estimate here knows their rewards, and no interval counts them"
        )
    elif of.untried > 0:
        yield f"{of.untried:.1%} of the policy's mass is on actions that have no row: no estimate here knows their rewards"
    if refusal:
        yield f"no interval: {refusal}"
    if sample.fit_error > 0:
        yield f"propensities were fitted: their error, ±{sample.fit_error:.3g}, is in the interval"
    if abs(sample.unseen) > UNSEEN and not refusal:
        more = "less" if sample.unseen > 0 else "more"
        yield (
            f"the weights add up to {more} than they ought to, by {abs(sample.unseen):.1%} of the policy beyond chance: that part counts "
            "as unseen in the interval"
        )
    if figures.model:
        yield from of.linear_notes


def _check(log: AnyLog, policy: Policy | np.ndarray, interval: str, band: str) -> None:
    if not isinstance(log, Log | Rows):
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    if not isinstance(policy, np.ndarray) and not hasattr(policy, "probabilities"):
        hint = "pass learner.policy()" if hasattr(policy, "policy") else "give it probabilities(contexts)"
        raise SettingError(f"got a {type(policy).__name__}; expected a policy or a table (n, K): {hint}")
    if not log.n_rows:
        raise SettingError("the log has no rows; there is nothing to evaluate on")
    one_of("interval", interval, INTERVALS)
    one_of("band", band, ("range", "model"))
    if interval == "bernstein" and band == "model":
        raise SettingError("interval='bernstein' needs bounds that are sure; use band='range'")


def _check_settings(
    taught: str, confidence: float, flag_mass: float, reward_model: str, clip: float | str
) -> None:
    one_of("taught", taught, TAUGHT)
    fraction("confidence", confidence)
    fraction("flag_mass", flag_mass, zero=True, one=True)
    one_of("reward_model", reward_model, ("linear", "boosted"))
    if clip != "percentile-ratio":
        clip_number(clip)


def _methods(given: Sequence[str] | None) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    chosen = tuple(ESTIMATORS) if names is None else tuple(names)
    unknown = [name for name in chosen if name not in ESTIMATORS]
    if unknown or not chosen:
        raise SettingError(f"method {unknown[0] if unknown else ''!r}; known are {', '.join(ESTIMATORS)}")
    return chosen
