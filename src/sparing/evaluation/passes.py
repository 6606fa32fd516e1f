"""The passes of `evaluate` over a log's blocks, the same for a log in memory and for one that is scanned.

The first pass computes totals, the second sums the estimators' terms, the third their deviations from the means. No pass
keeps a number for each row, except a sample; quantities of a log in memory are kept between passes where they fit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from sparing.engines import ProgressCounter
from sparing.errors import SettingError, SparingError
from sparing.evaluation.estimators import ESTIMATORS, LOGGED_WEIGHTS, EstimatorTerms
from sparing.evaluation.intervals import (
    Limits,
    Terms,
    TermSummary,
    WeightDeficit,
    resample_sums,
)
from sparing.evaluation.rows import (
    MAX_CACHED_CELLS,
    BlockQuantities,
    EvaluationSettings,
    GlobalQuantities,
    T,
    value_or_raise,
)
from sparing.hashing import row_keys
from sparing.log import Log
from sparing.log.passes import Combined, Statistic, SumOf, add_fields
from sparing.log.rows import InMemoryRows, RewardSummary, Rows
from sparing.log.sketches import MeanWeight, Moments, PowerSums, QuantileSketch, RowSample, SampleState
from sparing.log.support import Support
from sparing.model.boosting import Boosted, boost
from sparing.model.confidence import ConfidenceEllipsoids
from sparing.model.crossfitting import Folds, FoldSums, PropensityFit, fit_propensities, leave_one_fold_out
from sparing.model.linearity import linear_notes
from sparing.model.statistics import Statistics, Sums, ridge_regression, times_inverse
from sparing.policies.pi_plus import clip_number
from sparing.policies.policy import Policy
from sparing.validation import check_reward_range
from sparing.validation import reward_range as known_range

MODELLED = ("dm", "dr", "sndr", "cab")
"""Methods in which the reward model of all rows enters."""

SAMPLE_ROWS, SAMPLE_CELLS = 2**18, 2**25
"""Rows, and numbers a table, at most, of the sample for propensities, boosted rewards and the test of linearity."""

CLIP_SHARES = np.array([0.1, 0.9])  # quantiles whose ratio is `percentile-ratio`

COLUMNS_KEPT = 8  # numbers a row in the terms of one method, about

PASSES = 3


def reward_bounds(
    rewards: RewardSummary, given: tuple[float, float] | None, interval: str
) -> tuple[float, float]:
    """Bounds on mean rewards: as given, 0 and 1 where no other rewards occur, else the range seen."""
    low, high = known_range(given) or ((0.0, 1.0) if rewards.binary else (rewards.low, rewards.high))
    check_reward_range((low, high), rewards.low, rewards.high)
    if interval == "bernstein" and (rewards.low < low or rewards.high > high):
        raise SettingError(
            f"interval='bernstein' needs every reward inside reward_range={given}; the log has "
            f"{rewards.low:.4g} to {rewards.high:.4g}"
        )
    return low, high


def _result_or_error(compute: Callable[[], T]) -> T | SparingError:
    # An estimator that cannot be used must not stop the others: its error is raised when its value is asked for.
    try:
        return compute()
    except SparingError as error:
        return error


@dataclass(frozen=True, eq=False)
class PolicyTotals:
    """Sums over all rows.

    Attributes
    ----------
    counts : ndarray of shape (K,)
        Rows of each action.
    unlogged : ndarray of shape (K,)
        Σ π(a|x_i) over rows that support a, or of all where that is unknown; only of actions that are not in the block.
    missing : float
        Σ of the mass outside the support, or of 1 − w_i where that is unknown.
    propensities : QuantileSketch
        The logged propensities.
    feature_sums : tuple of ndarray of shape (K, d)
        Σ_i π(a|x_i)·x_i of all pairs, and of supported pairs where the support is known.
    weights : Moments or None
        Of w_i, plus the mass outside the support where that is exact; None if no method uses propensities.
    """

    rows: int
    counts: np.ndarray
    unlogged: np.ndarray
    missing: float
    propensities: QuantileSketch
    feature_sums: tuple[np.ndarray, ...]
    weights: Moments | None

    @classmethod
    def of(cls, block: Log, first_row: int, *, blocks: BlockQuantities) -> "PolicyTotals":
        """Those of a block, as far as the methods need them. Probabilities that are none are refused here."""
        of, methods = blocks.of(block, first_row), set(blocks.shared.settings.methods)
        _ = of.target  # a policy that is no policy is refused, whatever the methods
        absent = np.flatnonzero(block.counts == 0)
        unlogged, missing, support = np.zeros(block.n_actions), 0.0, block.support
        for rows, chances in of.blocks() if len(absent) else ():
            inside = chances[:, absent]
            if support.known:
                inside = np.where(support.mask(rows)[:, absent], inside, 0.0)
            unlogged[absent] += inside.sum(axis=0)
        if methods & {"snips", "sndr"} and (support.known or block.propensities is not None):
            missing = float((1 - of.weights).sum() if of.unsupported is None else of.unsupported.mass.sum())
        feature_sums: tuple[np.ndarray, ...] = ()
        if "dm" in methods and blocks.shared.settings.reward_model == "linear":
            feature_sums = (of.policy_feature_sums(within_support=False),)
            if support.known:
                every = of.supports_all
                feature_sums += (feature_sums[0] if every else of.policy_feature_sums(within_support=True),)
        clips = methods & {"clipped", "cab"} and blocks.shared.settings.clip == "percentile-ratio"
        propensities = (
            QuantileSketch()
            if block.propensities is None or not clips
            else QuantileSketch.of(block.propensities)
        )
        weights = None
        if methods & set(LOGGED_WEIGHTS) and block.propensities is not None:
            outside = of.unsupported if support.kind == "exact" else None
            weights = Moments.of(of.weights if outside is None else of.weights + outside.mass)
        blocks.release(of)
        return cls(block.n_rows, block.counts, unlogged, missing, propensities, feature_sums, weights)

    __add__ = add_fields

    @property
    def unlogged_mass(self) -> float:
        """The policy's mean mass on actions that the support allows, or is not known to forbid, but that have no row at all."""
        return float(self.unlogged[self.counts == 0].sum()) / self.rows


@dataclass(eq=False)
class FirstPass:
    """What the first pass gathers: totals, and where a method needs them, per-action sums, those of folds, a sample.

    `sample` has the `keys` (m,) of its rows and the policy's probabilities of their actions, `target` (m,).
    """

    rows: Rows
    blocks: BlockQuantities
    totals: PolicyTotals
    rewards: RewardSummary
    folds: Folds | SparingError | None
    sums: Statistics | None = None
    fold_sums: tuple[Statistics, ...] | None = None
    sample: Log | None = None
    keys: np.ndarray | None = None
    target: np.ndarray | None = None

    @classmethod
    def of(cls, rows: Rows, blocks: BlockQuantities) -> "FirstPass":
        """Read all rows once; twice where folds of contexts are needed, which are found first."""
        settings = blocks.shared.settings
        methods, boosted = set(settings.methods), settings.reward_model == "boosted"
        folds, size = None, _sample_size(rows)
        if methods & {"aipw", "mlips"} or (boosted and methods & set(MODELLED)):
            folds = _result_or_error(lambda: Folds.of(rows, settings.folds, settings.seed))
        wanted: dict[str, Statistic[Log, Any]] = {
            "totals": SumOf(partial(PolicyTotals.of, blocks=blocks)),
            "rewards": SumOf(RewardSummary.of),
        }
        if methods & set(MODELLED) or settings.band == "model":
            wanted["sums"] = Sums(rows)
        if "aipw" in methods and isinstance(folds, Folds) and not boosted:
            wanted["fold_sums"] = FoldSums(rows, folds)
        sampled = methods & {*MODELLED, "aipw", "mlips"}
        if sampled and not (isinstance(rows, InMemoryRows) and rows.n_rows <= size):
            extra = partial(_target, blocks) if "mlips" in methods else None
            kind, header = (RowSample, rows.header) if extra else (_BareSample, _bare(rows.header))
            wanted["sample"] = kind(header, rows.n_rows, size, settings.seed, extra)
        elif "mlips" in methods:
            wanted["target"] = SumOf(partial(_target_parts, blocks))
        states: tuple[Any, ...] = rows.fold(Combined(*wanted.values()))
        found: dict[str, Any] = dict(zip(wanted, states, strict=True))
        sample, target = found.pop("sample", None), found.pop("target", None)
        first = cls(rows, blocks, folds=folds, **found)
        if sample is not None:
            first.sample, first.keys = sample.log(), sample.keys[sample.kept]
            first.target = None if sample.extra is None else sample.extra[sample.kept]
        elif sampled and isinstance(rows, InMemoryRows):
            first.sample, first.keys = rows.log, row_keys(np.arange(rows.n_rows), settings.seed)
            first.target = None if target is None else np.concatenate(target)
        if first.sums is None and first.fold_sums is not None:
            first.sums = sum(first.fold_sums[1:], first.fold_sums[0])
        return first

    @cached_property
    def linear_notes(self) -> tuple[str, ...]:
        assert self.sample is not None
        every = self.sums is not None and self.sample.n_rows == self.rows.n_rows
        sums = self.sums if every else Statistics.of(self.sample)
        assert sums is not None
        return tuple(linear_notes(self.sample, sums, self.blocks.shared.settings.ridge))

    def global_quantities(
        self, reward_range: tuple[float, float], progress: Callable[[int, int], None]
    ) -> GlobalQuantities:
        """The quantities of all rows that every block needs; `progress` is called after each fold of fitted propensities."""
        settings, totals = self.blocks.shared.settings, self.totals
        methods, boosted = set(settings.methods), settings.reward_model == "boosted"
        missing = totals.missing / totals.rows
        shared = GlobalQuantities(
            reward_range,
            settings,
            clip_threshold=self._clip_threshold() if methods & {"clipped", "cab"} else None,
            folds=self.folds,
            means={"missing": missing, "low": missing * reward_range[0], "high": missing * reward_range[1]},
        )
        if self.sums is not None and not boosted:
            shared = self._with_model(shared)
        if "aipw" in methods and not boosted:
            shared = replace(shared, fold_theta=_result_or_error(self._fold_theta))
        if boosted and methods & {*MODELLED, "aipw"}:
            shared = replace(shared, boosted=_result_or_error(self._boosted))
        if settings.band == "model":
            shared = replace(shared, ellipsoids=_result_or_error(self._ellipsoids))
        if "mlips" in methods:
            shared = replace(shared, propensity_fit=_result_or_error(lambda: self._propensities(progress)))
        return self._with_model_bounds(shared)

    def _with_model(self, shared: GlobalQuantities) -> GlobalQuantities:
        """The linear reward model, and how far each row moves it."""
        assert self.sums is not None
        ridge, names = shared.settings.ridge, {False: "influence", True: "influence inside"}
        theta, totals = ridge_regression(self.sums, ridge), self.totals
        for within, feature_sums in zip(names, totals.feature_sums, strict=False):
            vectors = times_inverse(self.sums, ridge, feature_sums)
            shared.influence_vectors[within] = vectors
            # Σ x_i·e_i over an action's rows is λ·θ̂_a: the mean needs no rows.
            shared.means[names[within]] = float((ridge * vectors * theta).sum()) / totals.rows
        return replace(shared, theta=theta)

    def _with_model_bounds(self, shared: GlobalQuantities) -> GlobalQuantities:
        """With band="model", one more pass bounds what the unsupported mass may earn, which the ratio of SNIPS needs at once."""
        known = isinstance(shared.ellipsoids, ConfidenceEllipsoids) and self.rows.header.support.known
        if known and "snips" in shared.settings.methods:
            self.blocks.shared = shared
            low, high = (
                self.rows.fold(SumOf(partial(_unsupported_value_bounds, self.blocks))) / self.totals.rows
            )
            shared.means.update(low=float(low), high=float(high))
        return shared

    def _clip_threshold(self) -> float | None:
        clip, sketch = self.blocks.shared.settings.clip, self.totals.propensities
        if clip != "percentile-ratio":
            return clip_number(clip)
        if self.rows.header.propensities is None:
            return None
        light = self.rows.select(features=(0,))
        while not sketch.exact:  # one pass gives at least 15 more bits of the values around the quantiles
            sketch = light.fold(SumOf(partial(_propensities_within, *sketch.brackets(CLIP_SHARES))))
        low, high = sketch.quantiles(CLIP_SHARES)
        return float(high / low)

    def _ellipsoids(self) -> ConfidenceEllipsoids:
        assert self.sums is not None
        return self.blocks.shared.settings.ellipsoids(self.sums)

    def _fold_theta(self) -> np.ndarray:
        value_or_raise(self.folds)
        assert self.fold_sums is not None
        ridge = self.blocks.shared.settings.ridge
        return np.array([ridge_regression(sums, ridge) for sums in leave_one_fold_out(self.fold_sums)])

    def _boosted(self) -> Boosted:
        settings, sample = self.blocks.shared.settings, self.sample
        assert sample is not None
        folds = self.folds if isinstance(self.folds, Folds) else settings.folds
        return boost(sample, folds=folds, seed=settings.seed, purpose="reward_model='boosted'")

    def _propensities(
        self, progress: Callable[[int, int], None]
    ) -> tuple[PropensityFit, tuple[float, float]]:
        folds, sample = value_or_raise(self.folds), self.sample
        assert sample is not None
        assert self.target is not None
        fit = fit_propensities(
            sample, folds=folds, progress=progress, tried=self.totals.counts > 0, keys=self.keys
        )
        error = fit.jackknife_error(self.target * sample.rewards)
        return fit.of_rows(self.rows.header, np.empty(0, dtype=np.int64)), error


class _BareSample(RowSample):
    """A sample without support and propensities, which reward models do not need and which may be wide."""

    def update(self, state: SampleState, block: Log, first_row: int) -> SampleState:
        return super().update(state, _bare(block), first_row)


def _bare(block: Log) -> Log:
    return replace(block, support=Support.unknown(block.n_rows, block.n_actions), propensities=None)


def _sample_size(rows: Rows) -> int:
    return min(SAMPLE_ROWS, max(1, SAMPLE_CELLS // max(rows.n_actions, rows.n_features)))


def _target(blocks: BlockQuantities, block: Log, first_row: int) -> np.ndarray:
    of = blocks.of(block, first_row)
    found = of.target
    blocks.release(of)
    return found


def _target_parts(blocks: BlockQuantities, block: Log, first_row: int) -> list[np.ndarray]:
    return [_target(blocks, block, first_row)]


def _unsupported_value_bounds(blocks: BlockQuantities, block: Log, first_row: int) -> np.ndarray:
    """Σ of the least and of the most that the policy may earn outside the support by the linear model's band, (2,)."""
    of = blocks.of(block, first_row)
    outside = of.unsupported
    assert outside is not None
    low, high = outside.bounds
    found = np.array([low.sum(), high.sum()])
    blocks.release(of)
    return found


def _propensities_within(low: np.ndarray, high: np.ndarray, block: Log, first_row: int) -> QuantileSketch:
    assert block.propensities is not None
    return QuantileSketch.within(block.propensities, low, high)


def named_terms(parts: EstimatorTerms) -> Iterator[tuple[str, Terms]]:
    yield "plain", parts.plain
    if parts.low is not None and parts.high is not None:
        yield from (("low", parts.low), ("high", parts.high))
    if parts.ends is not None:
        yield from zip(("least", "most"), parts.ends, strict=True)
    if parts.check is not None:
        yield from ((f"check {name}", terms) for name, terms in named_terms(parts.check))


def term_columns(terms: Terms) -> Iterator[tuple[str, np.ndarray]]:
    """The rows of a statistic by name, (n,) each."""
    yield "base", terms.base
    if terms.numerator is not None and terms.denominator is not None:
        yield from (("numerator", terms.numerator), ("denominator", terms.denominator))


WEIGHTS = ("weights", "unclipped")
"""Rows of an estimator whose effective sample size is needed."""


def named_rows(parts: EstimatorTerms) -> Iterator[tuple[str, np.ndarray]]:
    """An estimator's masses and weights by name, (n,) each."""
    for name in ("missing", "clipped", "deficit", *WEIGHTS):
        rows = getattr(parts, name)
        if rows is not None:
            yield name, rows
    if parts.unclipped is not None and parts.missing is not None:
        yield "unclipped deficit", 1 - parts.missing - parts.unclipped
    if parts.check is not None:
        yield from ((f"check {name}", rows) for name, rows in named_rows(parts.check))


def without_rows(value: Any) -> Any:
    """An estimator's terms with empty arrays in the place of its rows."""
    if isinstance(value, np.ndarray):
        return np.empty(0)
    if isinstance(value, tuple):
        return tuple(map(without_rows, value))
    if isinstance(value, Terms | EstimatorTerms):
        return replace(value, **{name: without_rows(each) for name, each in vars(value).items()})
    return value


@dataclass(frozen=True, eq=False)
class EstimatorSums:
    """An estimator without its rows, and by name the sums of its columns and the powers of its weights."""

    parts: EstimatorTerms
    rows: int
    totals: dict[str, float]
    weights: dict[str, PowerSums]

    @classmethod
    def of(cls, parts: EstimatorTerms) -> "EstimatorSums":
        summed: dict[int, float] = {}  # many statistics have rows in common
        totals: dict[str, float] = {}
        weights: dict[str, PowerSums] = {}
        own = list(named_rows(parts))
        columns = [
            (f"{name} {column}", rows)
            for name, terms in named_terms(parts)
            for column, rows in term_columns(terms)
        ]
        for name, rows in (*own, *columns):
            if name.removeprefix("check ") in WEIGHTS:
                weights[name] = PowerSums.of(rows)
                continue
            if id(rows) not in summed:
                summed[id(rows)] = float(rows.sum())
            totals[name] = summed[id(rows)]
        return cls(without_rows(parts), parts.plain.n, totals, weights)

    def __add__(self, other: "EstimatorSums") -> "EstimatorSums":
        return EstimatorSums(
            self.parts,
            self.rows + other.rows,
            {name: total + other.totals[name] for name, total in self.totals.items()},
            {name: powers + other.weights[name] for name, powers in self.weights.items()},
        )

    def mean(self, name: str) -> float:
        return self.totals[name] / self.rows

    @cached_property
    def centres(self) -> "dict[str, TermCentre]":
        return {name: TermCentre.of(name, terms, self) for name, terms in named_terms(self.parts)}


@dataclass(frozen=True)
class TermCentre:
    """What a statistic's rows are on average: its value, the ratio in it and the mean of its denominator."""

    value: float
    ratio: float
    denominator: float

    @classmethod
    def of(cls, name: str, terms: Terms, sums: EstimatorSums) -> "TermCentre":
        base, ratio, below = sums.mean(f"{name} base"), 0.0, 0.0
        if terms.numerator is not None:
            below = sums.mean(f"{name} denominator")
            ratio = sums.mean(f"{name} numerator") / below if below > 0 else float("nan")
        return cls(base + terms.factor * ratio, ratio, below)

    def deviations(self, terms: Terms) -> np.ndarray:
        """How far each row is from the value, to first order, (n,)."""
        if terms.numerator is None or terms.denominator is None:
            return terms.base - self.value
        slope = (terms.numerator - self.ratio * terms.denominator) / self.denominator
        return terms.base + terms.factor * (self.ratio + slope) - self.value


MethodSums = dict[str, "EstimatorSums | SparingError"]
"""By method; the first error, where it cannot be used."""


def estimator_terms(
    blocks: BlockQuantities, methods: Sequence[str], block: Log, first_row: int
) -> Iterator[tuple[str, EstimatorTerms | SparingError]]:
    """The terms of each method on a block, or why it cannot be used."""
    of = blocks.of(block, first_row)
    for method in methods:
        terms: EstimatorTerms | SparingError | None = of.terms.get(method)
        if terms is None:
            terms = _result_or_error(partial(ESTIMATORS[method], of))
        if blocks.keep_terms and isinstance(terms, EstimatorTerms):
            of.terms[method] = terms
        yield method, terms
    blocks.release(of)


class SumTerms(Statistic[Log, MethodSums]):
    """The second pass: sum every estimator's rows."""

    def __init__(self, blocks: BlockQuantities, methods: Sequence[str]) -> None:
        self.blocks, self.methods = blocks, tuple(methods)

    def zero(self) -> MethodSums:
        return {}

    def update(self, state: MethodSums, block: Log, first_row: int) -> MethodSums:
        usable = [method for method in self.methods if not isinstance(state.get(method), SparingError)]
        found = MethodSums()
        for method, terms in estimator_terms(self.blocks, usable, block, first_row):
            found[method] = terms if isinstance(terms, SparingError) else EstimatorSums.of(terms)
        return self.merge(state, found)

    def merge(self, one: MethodSums, other: MethodSums) -> MethodSums:
        both = dict(one)
        for method, sums in other.items():
            known = both.get(method)
            if isinstance(known, EstimatorSums) and isinstance(sums, EstimatorSums):
                both[method] = known + sums
            elif not isinstance(known, SparingError):
                both[method] = sums
        return both


@dataclass(frozen=True, eq=False)
class DeviationSums:
    """Powers of deviations, by method and name; and the resampled sums of every column, see `resample_sums`."""

    powers: dict[tuple[str, str], PowerSums]
    sums: np.ndarray


class SumDeviations(Statistic[Log, DeviationSums]):
    """The third pass: sum how far every estimator's rows are from their means, and resample them for a bootstrap."""

    def __init__(self, blocks: BlockQuantities, sums: dict[str, EstimatorSums]) -> None:
        self.blocks, self.sums, self.interval = blocks, sums, blocks.shared.settings.interval

    def zero(self) -> DeviationSums:
        return DeviationSums({}, np.empty((0, 0)))

    def update(self, state: DeviationSums, block: Log, first_row: int) -> DeviationSums:
        powers: dict[tuple[str, str], PowerSums] = {}
        columns: list[np.ndarray] = []
        for method, parts in estimator_terms(self.blocks, list(self.sums), block, first_row):
            parts, sums = value_or_raise(parts), self.sums[method]
            found: dict[tuple[int, int, int, float], PowerSums] = {}  # many statistics have rows in common
            for name, terms in named_terms(parts):
                rows = id(terms.base), id(terms.numerator), id(terms.denominator), terms.factor
                if rows not in found:
                    found[rows] = PowerSums.of(sums.centres[name].deviations(terms))
                powers[method, name] = found[rows]
                if "bootstrap" in self.interval:
                    columns += [values for _, values in term_columns(terms)]
            for name, values in named_rows(parts):
                if name.endswith("deficit"):
                    powers[method, name] = PowerSums.of(values - sums.mean(name))
        if not columns:
            return self.merge(state, DeviationSums(powers, np.empty((0, 0))))
        resampled = resample_sums(columns, self.interval, self.blocks.shared.settings.seed, first_row)
        return self.merge(state, DeviationSums(powers, resampled))

    def merge(self, one: DeviationSums, other: DeviationSums) -> DeviationSums:
        if not one.powers or not other.powers:
            return other if not one.powers else one
        powers = {name: known + other.powers[name] for name, known in one.powers.items()}
        return DeviationSums(powers, one.sums + other.sums)


@dataclass(frozen=True, eq=False)
class EstimatorSummary:
    """An estimator over all rows: its statistics, the means of the masses, the effective sample size.

    `unclipped` is the effective sample size of the weights before clipping, and their deficit; `parts` has no rows.
    """

    plain: TermSummary
    low: TermSummary | None
    high: TermSummary | None
    ends: tuple[TermSummary, TermSummary] | None
    missing: float | None
    clipped: float | None
    effective: float
    unclipped: tuple[float, WeightDeficit] | None
    deficit: WeightDeficit | None
    check: "EstimatorSummary | None"
    parts: EstimatorTerms

    @classmethod
    def of(
        cls,
        sums: EstimatorSums,
        deviations: dict[str, PowerSums],
        columns: dict[str, tuple[int, int | None, int | None]],
        parts: EstimatorTerms | None = None,
        prefix: str = "",
    ) -> "EstimatorSummary":
        """By the sums of the terms, the powers of their deviations, and the indices of their resampled columns."""
        parts = sums.parts if parts is None else parts
        statistics = dict(named_terms(replace(parts, check=None)))

        def summary(name: str) -> TermSummary:
            terms, powers = statistics[name], deviations.get(prefix + name, PowerSums())
            centre, places = sums.centres[prefix + name], columns.get(prefix + name, (0, None, None))
            return TermSummary(
                sums.rows, centre.value, powers.variance, powers.freedom, terms.factor, terms.span, places
            )

        def mean(name: str) -> float | None:
            return sums.mean(prefix + name) if prefix + name in sums.totals else None

        def deficit(name: str) -> WeightDeficit | None:
            if (found := mean(name)) is None:
                return None
            powers = deviations.get(prefix + name, PowerSums())
            if sums.rows < 2:
                return WeightDeficit(0.0, 0.0)
            return WeightDeficit(found, float(np.sqrt(powers.variance / sums.rows)))

        bounded, unclipped = "low" in statistics, deficit("unclipped deficit")
        return cls(
            summary("plain"),
            summary("low") if bounded else None,
            summary("high") if bounded else None,
            None if parts.ends is None else (summary("least"), summary("most")),
            mean("missing"),
            mean("clipped"),
            sums.weights[f"{prefix}weights"].effective,
            None if unclipped is None else (sums.weights[f"{prefix}unclipped"].effective, unclipped),
            deficit("deficit"),
            None
            if parts.check is None
            else cls.of(sums, deviations, columns, parts.check, f"{prefix}check "),
            parts,
        )


class EvaluationData:
    """The three passes over a log, and their results.

    Parameters
    ----------
    rows : Rows
        The rows that the policy is evaluated on.
    rewards : RewardSummary or None
        Of a larger set of rows that bounds the rewards; None to use `rows`.
    """

    def __init__(
        self,
        rows: Rows,
        policy: Policy | np.ndarray,
        settings: EvaluationSettings,
        rewards: RewardSummary | None,
        reward_range: tuple[float, float] | None,
        steps: ProgressCounter,
    ) -> None:
        cells = rows.n_rows * (rows.n_actions + 3 * COLUMNS_KEPT)
        terms = rows.n_rows * COLUMNS_KEPT * len(settings.methods)
        blocks = BlockQuantities(
            policy,
            GlobalQuantities((np.nan, np.nan), settings),
            keep=rows.in_memory and cells <= MAX_CACHED_CELLS,
            keep_terms=rows.in_memory and cells + terms <= MAX_CACHED_CELLS,
        )
        self.header, self.settings = rows.header, settings
        self._first = first = FirstPass.of(rows, blocks)
        steps.step()
        rewards = first.rewards if rewards is None else rewards
        self.range_known = reward_range is not None or rewards.binary
        self.reward_range = reward_bounds(rewards, reward_range, settings.interval)
        self.logged_mean = first.rewards.total / rows.n_rows
        self.unlogged_mass = first.totals.unlogged_mass
        self.n_folds = first.folds.count if isinstance(first.folds, Folds) else settings.folds
        blocks.shared = first.global_quantities(self.reward_range, lambda done, total: steps.step())
        self._sums = rows.fold(SumTerms(blocks, settings.methods))
        steps.step()
        finite = {
            method: sums
            for method, sums in self._sums.items()
            if isinstance(sums, EstimatorSums) and np.isfinite(sums.centres["plain"].value)
        }
        third = SumDeviations(blocks, finite)
        self._deviations = rows.fold(third) if finite else third.zero()
        steps.step()
        self._columns = _column_places(finite)
        blocks.close()

    @property
    def linear_notes(self) -> tuple[str, ...]:
        return self._first.linear_notes

    @property
    def mean_weight(self) -> MeanWeight | None:
        """Of the log's propensities; None without them."""
        found = self._first.totals.weights
        return None if found is None else MeanWeight.of(found)

    @property
    def boosted_rows(self) -> int | None:
        """Rows that the boosted reward model was trained on, where they are not all."""
        sample = self._first.sample
        if (
            self.settings.reward_model != "boosted"
            or sample is None
            or sample.n_rows == self._first.rows.n_rows
        ):
            return None
        return sample.n_rows

    def summary(self, method: str) -> EstimatorSummary:
        """A method's summary over all rows; raises why it cannot be used."""
        sums = value_or_raise(self._sums[method])
        deviations = {name: found for (of, name), found in self._deviations.powers.items() if of == method}
        return EstimatorSummary.of(sums, deviations, self._columns.get(method, {}))

    def limits(self, confidence: float) -> Limits:
        return Limits(self.settings.interval, confidence, self._deviations.sums, self.settings.seed)


def _column_places(
    finite: dict[str, EstimatorSums],
) -> dict[str, dict[str, tuple[int, int | None, int | None]]]:
    """The indices of every statistic's columns, in the order in which `SumDeviations` lists them."""
    places: dict[str, dict[str, tuple[int, int | None, int | None]]] = {}
    count = 0
    for method, sums in finite.items():
        places[method] = {}
        for name, terms in named_terms(sums.parts):
            many = len(list(term_columns(terms)))
            places[method][name] = (count, count + 1, count + 2) if many > 1 else (count, None, None)
            count += many
    return places
