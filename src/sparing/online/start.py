"""How a learner starts: its settings, initial sets from the log, and the call cost that a budget implies."""

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypedDict

import numpy as np

from sparing.errors import SettingError, UnitWarning
from sparing.log import Log
from sparing.log.costs import CostsOption, action_costs, check_cost_units
from sparing.log.labels import action_names
from sparing.log.rows import AnyLog, RewardSummary, Rows, mean_costs
from sparing.log.sketches import sample_contexts
from sparing.model.confidence import Assumptions
from sparing.model.linearity import sample, with_kernel
from sparing.model.posterior import feature_blocks
from sparing.model.prior import Prior, reward_deviation
from sparing.model.statistics import LogSummary, Statistics
from sparing.online import drift
from sparing.online.confidence_sets import ConfidenceSets, InitialSets
from sparing.online.engine import choice, runs
from sparing.online.engine.random_stream import tie_order_and_key
from sparing.online.engine.state import NEVER
from sparing.online.engine.updates import CONDITION
from sparing.online.learner import Learner
from sparing.online.rules import EconomicalRule, SkipRule
from sparing.validation import (
    check_known,
    check_reward_range,
    check_rewards_inside,
    fraction,
    integer,
    number,
    reward_range,
)

P = ParamSpec("P")


class AssumptionSettings(TypedDict, total=False):
    """Assumptions of a learner.

    noise σ, theta_bound S_θ, context_bound S_x: estimated from the log if not set. ridge λ (1.0), delta δ (0.05), radius
    `determinant`, `trace` or `paper`, radius_scale (1.0: the guarantees hold; smaller values explore less and void them).
    reward_range: rewards lie in it, so σ is half of its length unless noise is set.
    """

    noise: float | None
    theta_bound: float | None
    context_bound: float | None
    ridge: float
    delta: float
    radius: str
    radius_scale: float
    reward_range: tuple[float, float] | None


class LearnerSettings(AssumptionSettings, total=False):
    """Settings of every algorithm; seed breaks ties and draws samples (0).

    growing: actions may be added later (`Learner.add_action`), so that those of the start share δ/2.
    allow_outside: rewards outside reward_range are learnt too (False: they are refused). Without reward_range, a log of
    rewards 0 and 1 has the range (0, 1).
    costs: known cost of playing each action, in units of the reward, by label or in the order of the actions. Rewards are
    learnt before cost, and reward − cost is compared; by default the costs of the log.
    """

    seed: int
    growing: bool
    allow_outside: bool
    costs: CostsOption


@dataclass(frozen=True, eq=False)
class SummaryWithFit(LogSummary):
    """The sums of a log, and a sample of its rows to test the model's fit."""

    fit: Log | None = None

    @classmethod
    def of(cls, log: AnyLog) -> "SummaryWithFit":
        """Scan a log once for its sums, and once for a sample of its rows."""
        return cls(**vars(LogSummary.of(log)), fit=sample(log))


@dataclass(frozen=True)
class LearnerStart:
    """Start of every algorithm; `about` is what a learner keeps of its log: encoders, and rows to test its fit.

    Rewards outside `reward_range` are refused.
    """

    names: tuple[Hashable, ...]
    sums: Statistics
    assumptions: Assumptions
    priority: np.ndarray
    key: int
    reward_range: tuple[float, float] | None
    growing: bool
    about: dict[str, Any]
    costs: np.ndarray | None = None

    @property
    def nothing(self) -> Statistics:
        """The sums of no rows, for sets that learn from online rows only."""
        return no_rows(self.sums.n_actions, self.sums.n_features)

    def learner(
        self, algorithm: str, sets: ConfidenceSets, rules: Sequence[SkipRule], **more: Any
    ) -> Learner:
        """A learner with these sets and rules."""
        sets.prioritise(self.priority)
        known = {**self.about, "reward_range": self.reward_range, "costs": self.costs, **more}
        return Learner(algorithm, self.names, sets, rules, key=self.key, **known)


def check_log(log: Any) -> Any:
    """The summary of a scanned log; any other log unchanged."""
    return SummaryWithFit.of(log) if isinstance(log, Rows) else log


def with_settings_signature(make: Callable[P, Learner]) -> Callable[P, Learner]:
    """Reject unknown settings of an algorithm before anything else."""
    own = [name for name, each in inspect.signature(make).parameters.items() if each.kind != each.VAR_KEYWORD]
    known = [*own[1:], *LearnerSettings.__annotations__]

    @functools.wraps(make)
    def checked(*log: P.args, **settings: P.kwargs) -> Learner:
        for name in settings:
            if name != own[0]:
                check_known(name, known)
        return make(*log, **settings)

    return checked


def rewards_of(log: Any) -> RewardSummary | None:
    """What a log's rewards are like; None without rows."""
    found = RewardSummary.of(log) if isinstance(log, Log) and log.n_rows else getattr(log, "rewards", None)
    return found if isinstance(found, RewardSummary) else None


def resolve_reward_range(log: Any, given: Any, *, allow_outside: bool = False) -> tuple[float, float] | None:
    """The checked reward_range, which the log's rewards must lie in; by default (0, 1) for a log of rewards 0 and 1."""
    limits, found = reward_range(given, apart=True), rewards_of(log)
    if found is None:
        return limits
    if limits is None:
        return (0.0, 1.0) if found.zero_one else None
    check_reward_range(limits, found.low, found.high)
    if not allow_outside:
        check_rewards_inside(limits, found.low, found.high)
    return limits


def resolve_start(
    log: AnyLog | LogSummary | None,
    settings: LearnerSettings,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
) -> LearnerStart:
    """Check the log and the settings, and fill in defaults."""
    log, values = check_log(log), dict[str, Any](settings)
    seed = values.pop("seed", 0)
    integer("seed", seed)
    growing = values.pop("growing", False)
    if type(growing) is not bool or (growing and values.get("radius") == "paper"):
        raise SettingError(
            f"growing={growing!r}; must be True or False, and the paper's radius does not support it"
        )
    allow_outside, given = values.pop("allow_outside", False), values.pop("reward_range", None)
    if type(allow_outside) is not bool:
        raise SettingError(f"allow_outside={allow_outside!r}; must be True or False")
    priced = values.pop("costs", None)
    limits = resolve_reward_range(log, given, allow_outside=allow_outside)
    if given is not None and limits is not None and values.get("noise") is None:
        values["noise"] = (limits[1] - limits[0]) / 2
    assumed: tuple[str, ...] = ()
    about: dict[str, Any] = {}
    if log is None:
        names = _names(n_actions, actions)
        if n_features is None or n_features < 1:
            raise SettingError(f"n_features={n_features}; give the length of a context, 1 or more")
        sums = no_rows(len(names), n_features)
        bounds = ("noise", "theta_bound", "context_bound")
        assumed = tuple(name for name in bounds if values.get(name) is None)
        values |= dict.fromkeys(assumed, 1.0)
    elif isinstance(log, Log | LogSummary):
        if n_actions is not None or n_features is not None or actions is not None:
            raise SettingError(
                "the log names actions and features; leave out n_actions, n_features and actions"
            )
        names = log.action_names
        sums = log.statistics if isinstance(log, LogSummary) else Statistics.of(log)
        about = {"encoder": log.encoder, "item_encoder": log.items.encoder if log.items else None}
        rows = sample(log) if isinstance(log, Log) and log.n_rows else getattr(log, "fit", None)
        about["fit"] = rows or ""
    else:
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    assumptions = replace(Assumptions.resolve(sums, **values), assumed=assumed)
    enforced = None if allow_outside else limits
    costs = resolve_costs(log, priced, names)
    return LearnerStart(
        names, sums, assumptions, *tie_order_and_key(int(seed), len(names)), enforced, growing, about, costs
    )


def resolve_costs(log: Any, given: CostsOption, names: Sequence[Hashable]) -> np.ndarray | None:
    """The known costs (K,): as set, else those of the log, of costs by row their means; a warning if they exceed all rewards."""
    if given is None:
        return mean_costs(log) if isinstance(log, Log) else getattr(log, "costs", None)
    costs = action_costs(given, names)
    found = rewards_of(log)
    if found is not None:
        check_cost_units(costs, found.low, found.high)
    return costs


def no_rows(k: int, d: int) -> Statistics:
    """The sums of no rows; each array is one zero broadcast."""
    none = np.zeros(k, dtype=np.int64)
    return Statistics(none, np.broadcast_to(0.0, (k, d, d)), np.broadcast_to(0.0, (k, d)), np.zeros(k), 0.0)


def _names(n_actions: int | None, actions: Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    if actions is not None:
        return action_names(actions)
    if n_actions is None or n_actions < 1:
        raise SettingError(f"n_actions={n_actions}; give a log, actions=[...] or the number of actions")
    return tuple(range(n_actions))


KernelOption = int | str | None
"""Kernel features to add: a number of landmarks, `auto` by evidence, or none."""

TOLERATED = 0.05
"""Default loss of a skipped round, in standard deviations of a reward."""

LARGER = 100.0
"""How much larger than the logged mean ‖x‖² may be in a live row, for it to be learnt after a shift."""

MOST_RAISES = 20
"""How often the noise may be raised before a posterior is rejected as inexact."""


def resolve_kernel(log: Any, kernel: KernelOption) -> Any:
    """The log, or its summary, with kernel features if `kernel` requests them."""
    if kernel is None:
        return check_log(log)
    if not isinstance(log, Log):
        raise SettingError(
            "kernel=... needs the log's rows; scan it with features=sparing.features(..., kernel=...) instead"
        )
    return with_kernel(log, kernel)


def with_unseen(log: Any) -> Any:
    """A summary of the log with a feature for the unseen values of each category; the log itself if it has none.

    The prior gives such a feature the scale of its column, so that a value that the log never had is as uncertain as one of
    the column's values before its first row.
    """
    if not isinstance(log, Log | LogSummary) or not log.n_rows:
        return log
    encoder, old = log.encoder.with_unseen(), log.encoder
    if encoder is old:
        return log
    if isinstance(log, Log):
        log = SummaryWithFit.of(log)
    sums, d = log.statistics, encoder.size
    gram, response = np.zeros((sums.n_actions, d, d)), np.zeros((sums.n_actions, d))
    gram[:, encoder.logged[:, None], encoder.logged], response[:, encoder.logged] = sums.gram, sums.response
    sums = replace(sums, gram=gram, response=response, encoder=encoder.digest)
    sample = encoder.completed(log.context_sample)
    return replace(log, statistics=sums, encoder=encoder, context_sample=sample)


def future_contexts(log: Log | LogSummary) -> np.ndarray:
    """Logged contexts that stand for future ones, (m, d)."""
    found = log.context_sample if isinstance(log, LogSummary) else sample_contexts(log.contexts)
    if not len(found):
        raise SettingError(
            "economical needs logged contexts, which stand for those to come; this log has no rows, or its summary keeps none"
        )
    return found


def resolve_tolerance(tolerance: float | None, log: Any, sums: Statistics) -> float:
    """The loss of a skipped round: as set, with a warning if it is large; else a share of the rewards' deviation."""
    if not sums.n_rows:
        if tolerance is None:
            raise SettingError(
                "without logged rows there is no deviation to take a tolerance from; pass tolerance=..."
            )
        return float(tolerance)
    deviation = reward_deviation(sums, feature_blocks(log, sums))
    if tolerance is None:
        return TOLERATED * deviation
    if tolerance > deviation / 2 > 0:
        warnings.warn(
            f"tolerance={tolerance:g} is more than half of {deviation:.4g}, the deviation of the log's rewards: skipped rounds may "
            f"cost nearly all there is to learn. Leave it out for {TOLERATED * deviation:.3g}, {TOLERATED:.0%} of the deviation",
            UnitWarning,
            stacklevel=4,
        )
    return float(tolerance)


def posterior_sets(
    sums: Statistics,
    assumptions: Assumptions,
    prior: Prior,
    misfit: float,
    *,
    context_sample: np.ndarray | None = None,
    shift: float = 0.0,
) -> tuple[ConfidenceSets, Prior]:
    """Sets of the posterior, and their prior; σ is raised until every V_a can be learnt on exactly.

    If a `shift` up to this τ may have to be allowed for, live rows are kept apart from the log's. A row x can then raise the
    condition of V_a by τ²·Σ_j s_j²·x_j²/σ², s the prior's spread.
    """
    squares = sums.gram.diagonal(axis1=1, axis2=2).sum(axis=0) / max(sums.n_rows, 1)
    lowest = shift * math.sqrt(prior.spread**2 @ squares * LARGER / CONDITION)
    if prior.noise < lowest:
        prior = prior.with_noise(sums, lowest)
    for attempt in range(MOST_RAISES):
        known, origins = replace(assumptions, noise=prior.noise), InitialSets.of(prior, sums)
        try:
            sets = ConfidenceSets(
                sums,
                known,
                origins=origins,
                constant=prior.noise,
                misfit=misfit,
                watch=True,
                context_sample=context_sample,
                shifting=prior.spread if shift else None,
            )
        except SettingError:
            least = 10 * prior.noise
        else:
            if sets.condition <= CONDITION / 2:
                return sets, prior
            least = 1.1 * prior.noise * float(np.sqrt(2 * sets.condition / CONDITION))
            # With hardly any noise, V depends on rounding more than on σ, and small raises change nothing.
            least = max(least, 2.0 ** (attempt - 2) * prior.noise)
        prior = prior.with_noise(sums, least)
    raise SettingError(
        "some features repeat others so closely that no posterior is exact in double precision. Scale the features to sizes "
        "around 1 and drop those that repeat others, or pass a smaller prior_scale"
    )


def centred_sets(
    sums: Statistics,
    assumptions: Assumptions,
    prior: Prior | None,
    *,
    growing: bool = False,
    added: np.ndarray | None = None,
) -> ConfidenceSets:
    """V_a = λI + G_a, b_a = λc_a + Σxr around c_a = Ŵz_a; around 0 without a prior.

    The radius holds around any centre, also one learnt from the same rows: θ̂ − θ* = V⁻¹(λ(c − θ*) + Σxε), so S_θ need only
    bound ‖θ*_a − c_a‖. If it is estimated, it is the distance of logged actions from the prediction of all others.
    """
    if prior is None:
        return ConfidenceSets(sums, assumptions, growing=growing, added=added)
    centers = prior.centers()
    center = centers if prior.items.shape[1] > 1 else centers[0]
    if "theta_bound" in assumptions.estimated:
        assumptions = replace(assumptions, theta_bound=prior.most_uncertain(sums, assumptions.ridge))
    origins = InitialSets.ridge(assumptions.ridge, center, sums.n_actions)
    return ConfidenceSets(sums, assumptions, origins=origins, growing=growing, added=added)


WORLDS = 8
# Simulated problems per cost.

CLOSE = 1.1
# Costs are found up to this factor.

CHEAPEST = 1e-6
"""Smallest cost that is tried, as a share of the largest at which a call could pay."""

CHUNK = 1000
# Rounds that are played at once.

LASTING = 3.0
"""With a discount, rounds up to this many times 1/(1 − γ) are played: 95 % of the total weight."""


def call_terms(
    call_cost: float | None, horizon: int | None, discount: float | None, calls: int | None, *, rows: int
) -> EconomicalRule:
    """The rule of these settings; a cost that must be found is 0 at first."""
    if call_cost is None and calls is None:
        raise SettingError(
            "economical needs to know what a reward costs, in the reward's units (call_cost=0.05), or how many may be asked "
            "for (calls=500)"
        )
    if horizon is not None and discount is not None:
        raise SettingError(
            f"horizon={horizon!r} and discount={discount!r}; give one of them: how many rounds there will be, or the weight of a "
            "round relative to the one before it"
        )
    if calls is not None:
        calls = integer("calls", calls)
    cost = 0.0 if call_cost is None else number("call_cost", call_cost, least=0)
    if discount is not None:
        return EconomicalRule(cost, None, fraction("discount", discount), calls)
    length = rows if horizon is None else integer("horizon", horizon, least=1)
    return EconomicalRule(cost, length, None, calls)


def reprice(learner: Learner, cost: float) -> None:
    """Set the cost of a call."""
    (rule,) = learner.rules
    assert isinstance(rule, EconomicalRule)
    learner.rules = (replace(rule, call_cost=cost),)
    learner.set_actions(learner.action_names)


def price_for(learner: Learner, calls: int) -> float:
    """The smallest cost at which simulated problems from a learner's posterior need at most `calls` on average."""
    dear = highest_useful_price(learner)
    if not calls or not dear > 0:
        return dear
    low, high = CHEAPEST * dear, dear
    if budget_lasts(learner, low, calls):
        return low
    while high > CLOSE * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if budget_lasts(learner, middle, calls) else (middle, high)
    return high


def highest_useful_price(learner: Learner) -> float:
    """A cost at which no call can pay, whatever its reward: at least H·max_a mean_j ψ(g_j, s_j)."""
    sets, (rule,) = learner.sets, learner.rules
    assert isinstance(rule, EconomicalRule)
    contexts, theta = sets.arrays.context_sample, sets.theta
    squares = np.einsum("jd,kde,je->jk", contexts, sets.inverse, contexts, optimize=True)
    widest = float(sets.arrays.common) * np.sqrt(np.maximum(squares, 0.0))
    gains = widest.mean(axis=0) / math.sqrt(2 * math.pi)  # ψ(g, s) ≤ ψ(0, s) = s/√(2π)
    return max(rule.rounds_left(learner.rounds), 0.0) * float(gains.max()) if len(theta) > 1 else 0.0


def budget_lasts(learner: Learner, cost: float, calls: int) -> bool:
    """Whether a learner makes at most `calls` calls at this cost, on average over problems drawn from its posterior."""
    left = WORLDS * calls
    for world in range(WORLDS):
        left -= _calls(learner, cost, left + 1, world)
        if left < 0:
            return False
    return True


def _calls(learner: Learner, cost: float, most: int, world: int) -> int:
    """Calls in one simulated problem, up to `most`: θ_a ~ N(θ̂_a, σ²V_a⁻¹), contexts from the sample."""
    trial = learner.copy()
    trial.rules = (replace(trial.rules[0], calls=None),)  # type: ignore[type-var]
    reprice(trial, cost)
    trial.sets.arrays.sampled_from = NEVER  # all contexts to come are drawn from the sample itself
    trial.find_next_entry()
    rng, sets, (rule,) = np.random.default_rng([world, 12]), trial.sets, trial.rules
    assert isinstance(rule, EconomicalRule)
    noise, pool = float(sets.arrays.common), sets.arrays.context_sample
    root = noise * np.linalg.cholesky(sets.inverse)
    theta = sets.theta + np.einsum("kij,kj->ki", root, rng.standard_normal(sets.theta.shape))
    rounds = rule.horizon if rule.discount is None else math.ceil(LASTING / (1 - rule.discount))
    done, made = 0, 0
    while done < (rounds or 0) and made < most:
        length = min(CHUNK, (rounds or 0) - done)
        x = pool[rng.integers(len(pool), size=length)]
        called = _play(trial, x, x @ theta.T, noise * rng.standard_normal(length))
        done, made = done + length, made + called
        # The future only shortens: a state in which no context is worth a call stays as it is.
        if not called and not trial.decide_many(pool, threads=1).needs_reward.any():
            break
    return min(made, most)


def _play(learner: Learner, x: np.ndarray, means: np.ndarray, draws: np.ndarray) -> int:
    """Calls in rounds with contexts x (n, d), mean rewards (n, K) and noise (n,)."""
    n, start, called = len(x), 0, 0
    actions, codes = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    nothing = np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    while start < n:
        if learner.rounds >= learner.next_tick:
            drift.tick(learner, learner.rounds)
        sets = learner.sets
        sets.grow_capacity()
        same = (*nothing, learner.key, learner.rounds - start)
        stop, _ = runs.run(
            sets.scratch.observed, x, means, draws, False, *same, start, n, -1, actions, codes, sets.bounds
        )
        made = int(
            (codes[start:stop] == choice.EXPLORE).sum() + (codes[start:stop] == choice.SPOT_CHECK).sum()
        )
        learner.add_counts(rounds=stop - start, calls=made)
        called += made
        if stop == start:
            learner.decide(x[start])  # raises the error
        start = stop
    return called
