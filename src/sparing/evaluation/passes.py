"""The passes of `evaluate` over a log's blocks, the same for a log in memory and for one that is scanned.

The first pass computes totals, the second sums the estimators' terms, the third their deviations from the means. No pass
keeps a number for each row, except a sample; quantities of a log in memory are kept between passes where they fit.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from sparing.engines import ProgressCounter
from sparing.errors import SettingError, SparingError
from sparing.evaluation.estimators import ESTIMATORS, LOGGED_WEIGHTS, EstimatorTerms
from sparing.evaluation.intervals import (
    Terms,
    TermSummary,
    TermSums,
    WeightDeficit,
    limits,
    resample_blocks,
    resample_sums,
)
from sparing.evaluation.rows import (
    MAX_CACHED_CELLS,
    BlockQuantities,
    EvaluationSettings,
    GlobalQuantities,
    RowQuantities,
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
from sparing.model.confidence import Assumptions, ConfidenceEllipsoids
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
    """Sums over all rows; `counts` (K,) are of each action's, `target` lists π(a_i|x_i) block by block, if asked for.

    unlogged (K,): Σ π(a|x_i) over rows that support a, or of all where that is unknown; only of actions that are not in the
    block. missing: Σ of the mass outside the support, or of 1 − w_i where that is unknown. feature_sums (K, d) each:
    Σ_i π(a|x_i)·x_i of all pairs, and of supported pairs where the support is known. weights: of w_i, plus the mass outside
    the support where that is exact; None if no method uses propensities.
    """

    rows: int
    rewards: RewardSummary
    counts: np.ndarray
    unlogged: np.ndarray
    missing: float
    propensities: QuantileSketch
    feature_sums: tuple[np.ndarray, ...]
    weights: Moments | None
    target: list[np.ndarray]
    costs: np.ndarray | None  # Σ of the policy's costs, and of the logged actions' costs

    @classmethod
    def of(cls, with_target: bool, of: RowQuantities) -> "PolicyTotals":
        """Those of a block, as far as the methods need them. Probabilities that are none are refused here."""
        block, settings, methods = of.log, of.settings, set(of.settings.methods)
        target = of.target  # a policy that is no policy is refused, whatever the methods
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
        if "dm" in methods and settings.reward_model == "linear":
            feature_sums = (of.policy_feature_sums(within_support=False),)
            if support.known:
                every = of.supports_all
                feature_sums += (feature_sums[0] if every else of.policy_feature_sums(within_support=True),)
        propensities = QuantileSketch()
        clips = methods & {"clipped", "cab"} and settings.clip == "percentile-ratio"
        if clips and block.propensities is not None:
            propensities = QuantileSketch.of(block.propensities)
        weights = None
        if methods & set(LOGGED_WEIGHTS) and block.propensities is not None:
            outside = of.unsupported if support.kind == "exact" else None
            weights = Moments.of(of.weights if outside is None else of.weights + outside.mass)
        return cls(
            block.n_rows,
            RewardSummary.of(block),
            block.counts,
            unlogged,
            missing,
            propensities,
            feature_sums,
            weights,
            [target] if with_target else [],
            None
            if of.policy_costs is None
            else np.array([of.policy_costs.sum(), replace(block, costs=of.costs).logged_costs.sum()]),
        )

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
        folds, wanted = None, dict[str, Statistic[Log, Any]]()
        if methods & {"aipw", "mlips"} or (boosted and methods & set(MODELLED)):
            folds = _result_or_error(lambda: Folds.of(rows, settings.folds, settings.seed))
        if methods & set(MODELLED) or settings.band == "model":
            wanted["sums"] = Sums(rows)
        if "aipw" in methods and isinstance(folds, Folds) and not boosted:
            wanted["fold_sums"] = FoldSums(rows, folds)
        size = min(SAMPLE_ROWS, max(1, SAMPLE_CELLS // max(rows.n_actions, rows.n_features)))
        whole = isinstance(rows, InMemoryRows) and rows.n_rows <= size
        sampled, fitted = methods & {*MODELLED, "aipw", "mlips"}, "mlips" in methods
        if sampled and not whole:
            extra = partial(blocks.compute, _target) if fitted else None
            kind, header = (RowSample, rows.header) if extra else (_BareSample, _bare(rows.header))
            wanted["sample"] = kind(header, rows.n_rows, size, settings.seed, extra)
        wanted["totals"] = SumOf(partial(blocks.compute, partial(PolicyTotals.of, whole and fitted)))
        states: tuple[Any, ...] = rows.fold(Combined(*wanted.values()))
        found: dict[str, Any] = dict(zip(wanted, states, strict=True))
        sample = found.pop("sample", None)
        first = cls(rows, blocks, folds=folds, **found)
        if sample is not None:
            first.sample, first.keys = sample.log(), sample.keys[sample.kept]
            first.target = None if sample.extra is None else sample.extra[sample.kept]
        elif sampled and isinstance(rows, InMemoryRows):
            first.sample, first.keys = rows.log, row_keys(np.arange(rows.n_rows), settings.seed)
            first.target = np.concatenate(first.totals.target) if fitted else None
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
        settings, totals, sums = self.blocks.shared.settings, self.totals, self.sums
        methods, boosted = set(settings.methods), settings.reward_model == "boosted"
        missing, theta = totals.missing / totals.rows, None
        means = {"missing": missing, "low": missing * reward_range[0], "high": missing * reward_range[1]}
        influence_vectors: dict[bool, np.ndarray] = {}
        if sums is not None and not boosted:
            theta = ridge_regression(sums, settings.ridge)
            for within, feature_sums in enumerate(totals.feature_sums):
                vectors = times_inverse(sums, settings.ridge, feature_sums)
                influence_vectors[bool(within)] = vectors
                # Σ x_i·e_i over an action's rows is λ·θ̂_a: the mean needs no rows.
                name = "influence inside" if within else "influence"
                means[name] = float((settings.ridge * vectors * theta).sum()) / totals.rows

        def needed(condition: object, compute: Callable[[], T]) -> T | SparingError | None:
            return _result_or_error(compute) if condition else None

        shared = GlobalQuantities(
            reward_range,
            settings,
            clip_threshold=self._clip_threshold() if methods & {"clipped", "cab"} else None,
            theta=theta,
            folds=self.folds,
            fold_theta=needed("aipw" in methods and not boosted, self._fold_theta),
            boosted=needed(boosted and methods & {*MODELLED, "aipw"}, self._boosted),
            influence_vectors=influence_vectors,
            ellipsoids=needed(settings.band == "model", self._ellipsoids),
            propensity_fit=needed("mlips" in methods, lambda: self._propensities(progress)),
            means=means,
        )
        banded = isinstance(shared.ellipsoids, ConfidenceEllipsoids) and self.rows.header.support.known
        if banded and "snips" in methods:
            # One more pass bounds what the unsupported mass may earn, which the ratio of SNIPS needs at once.
            self.blocks.shared = shared
            bounds = self.rows.fold(SumOf(partial(self.blocks.compute, _unsupported_value_bounds)))
            means["low"], means["high"] = (bounds / totals.rows).tolist()
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
        of = self.blocks.shared.settings
        assumptions = Assumptions.resolve(
            self.sums, ridge=of.ridge, noise=of.noise, theta_bound=of.theta_bound, delta=of.delta
        )
        return ConfidenceEllipsoids(self.sums, assumptions)

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


def _target(of: RowQuantities) -> np.ndarray:
    return of.target


def _unsupported_value_bounds(of: RowQuantities) -> np.ndarray:
    """Σ of the least and of the most that the policy may earn outside the support by the linear model's band, (2,)."""
    assert of.unsupported is not None
    return np.array([end.sum() for end in of.unsupported.bounds])


def _propensities_within(low: np.ndarray, high: np.ndarray, block: Log, first_row: int) -> QuantileSketch:
    assert block.propensities is not None
    return QuantileSketch.within(block.propensities, low, high)


WEIGHTS = ("weights", "unclipped")
"""Rows of an estimator whose effective sample size is needed."""


@dataclass(frozen=True, eq=False)
class EstimatorSums:
    """The sums of an estimator's statistics, of its masses and deficits, and the powers of its weights; `parts` has no rows."""

    parts: EstimatorTerms
    terms: dict[str, TermSums]
    totals: dict[str, float]
    weights: dict[str, PowerSums]

    @classmethod
    def of(cls, parts: EstimatorTerms) -> "EstimatorSums":
        summed: dict[int, float] = {}  # many statistics have rows in common

        def total(rows: np.ndarray) -> float:
            if id(rows) not in summed:
                summed[id(rows)] = float(rows.sum())
            return summed[id(rows)]

        return cls(
            replace(parts, terms={}, rows={}),
            {name: TermSums.of(terms, total) for name, terms in parts.terms.items()},
            {name: total(rows) for name, rows in parts.rows.items() if name not in WEIGHTS},
            {name: PowerSums.of(rows) for name, rows in parts.rows.items() if name in WEIGHTS},
        )

    def __add__(self, other: "EstimatorSums") -> "EstimatorSums":
        return EstimatorSums(
            self.parts,
            {name: terms + other.terms[name] for name, terms in self.terms.items()},
            {name: total + other.totals[name] for name, total in self.totals.items()},
            {name: powers + other.weights[name] for name, powers in self.weights.items()},
        )

    @property
    def n(self) -> int:
        return self.terms["plain"].n

    @property
    def means(self) -> dict[str, float]:
        return {name: total / self.n for name, total in self.totals.items()}


@dataclass(frozen=True, eq=False)
class MethodSums:
    """By method, its sums; or its first error, where it cannot be used."""

    sums: dict[str, EstimatorSums]
    errors: dict[str, SparingError]

    def __add__(self, other: "MethodSums") -> "MethodSums":
        errors = other.errors | self.errors
        usable = [method for method in self.sums if method not in errors]
        return MethodSums({method: self.sums[method] + other.sums[method] for method in usable}, errors)


@dataclass(frozen=True, eq=False)
class DeviationSums:
    """Powers of deviations, by method and name; and the resampled sums of every statistic, see `resample_sums`."""

    powers: dict[tuple[str, str], PowerSums]
    resampled: np.ndarray | None

    __add__ = add_fields


def estimator_terms(
    blocks: BlockQuantities, methods: Iterable[str], block: Log, first_row: int
) -> Iterator[tuple[str, EstimatorTerms | SparingError]]:
    """The terms of each method on a block, or why it cannot be used."""
    with blocks.rows(block, first_row) as of:
        for method in methods:
            terms: EstimatorTerms | SparingError | None = of.terms.get(method)
            if terms is None:
                terms = _result_or_error(partial(ESTIMATORS[method], of))
                if isinstance(terms, EstimatorTerms):
                    terms = less_costs(terms, of.policy_costs)
            if blocks.keep_terms and isinstance(terms, EstimatorTerms):
                of.terms[method] = terms
            yield method, terms


def less_costs(parts: EstimatorTerms, costs: np.ndarray | None) -> EstimatorTerms:
    """The terms of reward − cost: every statistic less the mean of the policy's costs (n,), which needs no estimate."""
    if costs is None:
        return parts
    less: dict[int, np.ndarray] = {}  # many statistics have rows in common
    for each in parts.terms.values():
        less.setdefault(id(each.base), each.base - costs)
    net = {name: replace(each, base=less[id(each.base)]) for name, each in parts.terms.items()}
    return replace(parts, terms=net)


def _sum_terms(blocks: BlockQuantities, methods: tuple[str, ...], block: Log, first_row: int) -> MethodSums:
    """The second pass: every estimator's sums."""
    found = MethodSums({}, {})
    for method, terms in estimator_terms(blocks, methods, block, first_row):
        if isinstance(terms, SparingError):
            found.errors[method] = terms
        else:
            found.sums[method] = EstimatorSums.of(terms)
    return found


def _sum_deviations(
    blocks: BlockQuantities, sums: dict[str, EstimatorSums], block: Log, first_row: int
) -> DeviationSums:
    """The third pass: how far every estimator's rows are from their means; and resamples of them for a bootstrap."""
    powers: dict[tuple[str, str], PowerSums] = {}
    settings, every = blocks.shared.settings, list[Terms]()
    for method, terms_or_error in estimator_terms(blocks, sums, block, first_row):
        parts, centre = value_or_raise(terms_or_error), sums[method]
        found: dict[tuple[int, int, int, float], PowerSums] = {}  # many statistics have rows in common
        for name, terms in parts.terms.items():
            rows = id(terms.base), id(terms.numerator), id(terms.denominator), terms.factor
            if rows not in found:
                of = centre.terms[name]
                found[rows] = PowerSums.of(of.linearised(terms) - of.value)
            powers[method, name] = found[rows]
        for name in parts.rows:
            if name.endswith("deficit"):
                powers[method, name] = PowerSums.of(parts.rows[name] - centre.means[name])
        if "bootstrap" in settings.interval:
            every += parts.terms.values()
    resampled = resample_sums(every, settings.interval, settings.seed, first_row) if every else None
    return DeviationSums(powers, resampled)


@dataclass(frozen=True, eq=False)
class EstimatorSummary:
    """An estimator over all rows, by the names in `EstimatorTerms`: its statistics, the means of masses and deficits, the
    effective sample sizes of its weights, and its deficits' errors; `parts` has no rows.
    """

    parts: EstimatorTerms
    terms: dict[str, TermSummary]
    means: dict[str, float]
    effective: dict[str, float]
    deficits: dict[str, WeightDeficit]


class EvaluationData:
    """The three passes over the rows that a policy is evaluated on, and their results.

    `rewards` are of a larger set of rows that bounds the rewards; None to use `rows`.
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
        rewards = first.totals.rewards if rewards is None else rewards
        self.range_known = reward_range is not None or rewards.binary
        self.reward_range = reward_bounds(rewards, reward_range, settings.interval)
        spent, logged = (None, 0.0) if first.totals.costs is None else first.totals.costs / rows.n_rows
        self.policy_cost = None if spent is None else float(spent)
        self.net_range = self.reward_range[0] - (spent or 0.0), self.reward_range[1] - (spent or 0.0)
        self.logged_mean = first.totals.rewards.total / rows.n_rows - float(logged)
        self.unlogged_mass = first.totals.unlogged_mass
        self.n_folds = first.folds.count if isinstance(first.folds, Folds) else settings.folds
        blocks.shared = first.global_quantities(self.reward_range, lambda done, total: steps.step())
        methods, checked = settings.methods, {"cab"} if settings.reward_model == "boosted" else {"dm", "cab"}
        if checked & set(methods) and "dr" not in methods and rows.header.propensities is not None:
            methods += ("dr",)
        self._sums: MethodSums = rows.fold(SumOf(partial(_sum_terms, blocks, methods)))
        steps.step()
        sums = self._sums.sums
        finite = {method: sums[method] for method in sums if np.isfinite(sums[method].terms["plain"].value)}
        self._deviations = DeviationSums({}, None)
        if finite:
            self._deviations = rows.fold(SumOf(partial(_sum_deviations, blocks, finite)))
        steps.step()
        statistics = [(method, name) for method in finite for name in finite[method].terms]
        self._columns = {statistic: 3 * place for place, statistic in enumerate(statistics)}
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
        sample, boosted = self._first.sample, self.settings.reward_model == "boosted"
        if not boosted or sample is None or sample.n_rows == self._first.rows.n_rows:
            return None
        return sample.n_rows

    def summary(self, method: str) -> EstimatorSummary:
        """A method's summary over all rows; raises why it cannot be used."""
        if method in self._sums.errors:
            raise self._sums.errors[method]
        sums, every = self._sums.sums[method], self._deviations.powers
        powers = {name: every.get((method, name), PowerSums()) for name in (*sums.terms, *sums.totals)}
        deficits = {
            name: WeightDeficit(mean, float(np.sqrt(powers[name].variance / sums.n)))
            if sums.n > 1
            else WeightDeficit(0.0, 0.0)
            for name, mean in sums.means.items()
            if name.endswith("deficit")
        }
        terms = {
            name: TermSummary(
                sums.n,
                each.value,
                powers[name].variance,
                powers[name].freedom,
                each.factor,
                each.span,
                self._columns.get((method, name), 0),
            )
            for name, each in sums.terms.items()
        }
        effective = {name: weights.effective for name, weights in sums.weights.items()}
        return EstimatorSummary(sums.parts, terms, sums.means, effective, deficits)

    @cached_property
    def _resampled(self) -> np.ndarray | None:
        sums = self._deviations.resampled
        if sums is None or self.settings.interval == "bootstrap":
            return sums
        return resample_blocks(sums, self.settings.seed)

    def limits(self, found: EstimatorSummary, confidence: float) -> dict[str, tuple[float, float]]:
        """The limits of each statistic of an estimator."""
        ends = limits(list(found.terms.values()), self.settings.interval, confidence, self._resampled)
        return dict(zip(found.terms, ends, strict=True))
