"""Each algorithm as its row in the table of docs/math.md: confidence sets, then skip rules in order."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.labels import action_names
from sparing.model.assumptions import Assumptions, positive
from sparing.model.lack_of_fit import sample
from sparing.model.prior import Prior
from sparing.model.statistics import Statistics, Summary
from sparing.model.supported import Supported as ChooseSupported
from sparing.online import promises
from sparing.online.learner import Learner, seeded
from sparing.online.log_beats import LogBeats
from sparing.online.rules import Certified, Confident, SkipRule, Supported
from sparing.online.sets import ConfidenceSets
from sparing.online.starting import (
    Items,
    Kernel,
    centred,
    known_items,
    known_tolerance,
    learn,
    learn_spread,
    posterior,
    with_wanted_kernel,
)
from sparing.settings import among, number, share, whole
from sparing.settings import reward_range as known_range


class Believed(TypedDict, total=False):
    """What a learner takes for granted.

    noise σ, theta_bound S_θ, context_bound S_x: estimated from the log where not given. ridge λ (1.0),
    delta δ (0.05), radius `determinant`, `trace` or `paper`, radius_scale (1.0: the guarantees hold;
    smaller ones explore less and void them). reward_range: rewards lie in it, so σ is half of it
    unless noise is given.
    """

    noise: float | None
    theta_bound: float | None
    context_bound: float | None
    ridge: float
    delta: float
    radius: str
    radius_scale: float
    reward_range: tuple[float, float] | None


class Settings(Believed, total=False):
    """Keywords that every algorithm takes; seed breaks ties and draws samples (0).

    growing: actions may be added later (`Learner.add_action`), so that those of the start share δ/2.
    """

    seed: int
    growing: bool


@dataclass(frozen=True)
class _Start:
    """What every algorithm begins with; `about` is what a learner keeps of its log: encoders, and rows to test its fit by."""

    names: tuple[Hashable, ...]
    sums: Statistics
    assumptions: Assumptions
    priority: np.ndarray
    key: int
    reward_range: tuple[float, float] | None
    growing: bool
    about: dict[str, Any]

    @property
    def nothing(self) -> Statistics:
        """The sums of no rows: sets that learn from online rows only."""
        return _no_rows(self.sums.n_actions, self.sums.n_features)

    def learner(
        self, algorithm: str, sets: ConfidenceSets, rules: Sequence[SkipRule], **more: Any
    ) -> Learner:
        sets.prioritise(self.priority)
        known = {**self.about, "reward_range": self.reward_range, **more}
        return Learner(algorithm, self.names, sets, rules, key=self.key, **known)


def moful(
    log: Log | Summary | None = None,
    *,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
    **settings: Unpack[Settings],
) -> Learner:
    """mOFUL (Alg. 1): optimism from online rows only, a reward call every round.

    A log, where given, names the actions and teaches noise and bounds, nothing else. Without one, noise
    and bounds that are not given are assumed to be 1.
    """
    start = _begin(log, settings, n_actions, n_features, actions)
    sets = ConfidenceSets(start.nothing, start.assumptions, growing=start.growing)
    return start.learner("moful", sets, [], guarantee=promises.optimistic(start.assumptions))


def eps_moful(
    log: Log, *, supported: ChooseSupported, inflate: float = 0.0, **settings: Unpack[Settings]
) -> Learner:
    """ε-mOFUL (Alg. 2): actions in 𝓛 are points fitted to the log, the others learn online.

    `supported` is top(L), elbow(), certified_within(ε) or given({action: theta}); `inflate` = ε adds
    ε·S_x to the points, which restores optimism.
    """
    _needs_rows("eps_moful", log)
    start = _begin(log, settings)
    sets, how = _points(log, start, supported, inflate)
    promise = promises.points(start.assumptions, how)
    return start.learner("eps_moful", sets, [Supported(sets.frozen)], guarantee=promise)


def eps_moful_ips(
    log: Log,
    *,
    supported: ChooseSupported,
    clip: float | str = "percentile-ratio",
    answer: str = "logged",
    beats: str = "sample",
    inflate: float = 0.0,
    **settings: Unpack[Settings],
) -> Learner:
    """ε-mOFUL-IPS (Alg. 3): ε-mOFUL that also skips where the log's own reward is not beaten.

    `clip` is M of π⁺: `percentile-ratio`, a number or `inf`. `answer` says what a round that the log
    beats plays: the context's `logged` action, or one drawn from π⁺ (`policy`). `beats`: by the log's weighted reward, one
    noisy `sample` (the paper), or by a lower confidence `limit` of the logged action, which has a guarantee and no π⁺.
    """
    _needs_rows("eps_moful_ips", log)
    start = _begin(log, settings)
    if beats == "limit":  # live sets and limits have half of δ each
        start = replace(start, assumptions=replace(start.assumptions, delta=start.assumptions.delta / 2))
    sets, how = _points(log, start, supported, inflate)
    beaten = LogBeats.of(log, start.sums, start.assumptions, start.priority, beats, clip, answer)
    promise = promises.limited(start.assumptions, how) if beats == "limit" else promises.unproved(how)
    return start.learner("eps_moful_ips", sets, [beaten, Supported(sets.frozen)], guarantee=promise)


def warm_started(
    log: Log | Summary,
    *,
    center: str = "auto",
    items: Items | None = None,
    kernel: Kernel = None,
    **settings: Unpack[Settings],
) -> Learner:
    """Optimism from the log's rows and online ones together, a reward call every round.

    `center` is what sets shrink to and S_θ is measured from: `zero`; `learnt`, what the log's other actions (and `items`)
    say of an action, Ŵz_a; `auto`, learnt unless a theta_bound is given, which then speaks of θ* itself. `kernel` adds
    kernel features to the log's: a number of landmarks, or `auto` (see `with_kernel`).
    """
    log, items = with_wanted_kernel(log, kernel), known_items(log, items)
    start = _begin(log, settings)
    sets, prior = _centred(log, start, settings, center, items)
    promise = promises.optimistic(sets.assumptions, centred=prior is not None)
    return start.learner("warm_started", sets, [], guarantee=promise, prior=prior)


def certified(
    log: Log | Summary,
    *,
    tolerance: float | None = None,
    explore: str = "leader",
    center: str = "auto",
    items: Items | None = None,
    kernel: Kernel = None,
    **settings: Unpack[Settings],
) -> Learner:
    """Warm-started, and skips where no rival can beat the leader by more than `tolerance`.

    With radius_scale ≥ 1 every skipped round costs at most `tolerance` (5 % of the rewards' deviation, if it is not said),
    with probability 1 − δ. `explore` plays the `leader`, or the `wider` of leader and closest rival; `center`, `items` and
    `kernel` are those of `warm_started`.
    """
    if tolerance is not None and not tolerance < np.inf:
        raise SettingError(f"tolerance={tolerance}; must be a number (−inf never skips)")
    among("explore", explore, ("leader", "wider"))
    log, items = with_wanted_kernel(log, kernel), known_items(log, items)
    start = _begin(log, settings)
    tolerance = known_tolerance(tolerance, log, start.sums)
    sets, prior = _centred(log, start, settings, center, items)
    promise = promises.certified(sets.assumptions, tolerance, centred=prior is not None)
    rules = [Certified(float(tolerance))]
    return start.learner("certified", sets, rules, explore=explore, guarantee=promise, prior=prior)


def confident(
    log: Log | Summary,
    *,
    tolerance: float | None = None,
    confidence: float = 0.95,
    explore: str = "optimistic",
    prior_scale: float | None = None,
    prior_mean: ArrayLike | None = None,
    items: Items | None = None,
    kernel: Kernel = None,
    spot_check: float = 0.01,
    misfit: float = 0.0,
    strict: bool = False,
    **settings: Unpack[Settings],
) -> Learner:
    """A posterior from a prior that the log teaches and its rows; skips where it is sure enough.

    The practical default. Skips if the chance that some action beats the best mean by more than
    `tolerance` (5 % of the rewards' deviation, if it is not said) is at most 1 − `confidence`. `explore` is `optimistic`,
    `wider` or `sampled`. `kernel` adds kernel features to the log's: a number of landmarks, or `auto`.
    `spot_check` of the rounds play a posterior-sampled action and are called; `misfit` is a deviation
    of the linear model itself, added to every estimate's. Radius settings have no effect here.

    The prior is fitted by evidence (docs/math.md), from one logged action on; `prior_scale` replaces the deviations of
    parameters between actions, `prior_mean` (d,) what they vary around. `items` are features of what the actions stand for, by
    name or (K, q): actions with like features are then expected to have like parameters. Two actions' estimates are correlated through what
    both were learnt from; `strict` takes √2 times the deviation of their difference, whatever the correlation.
    """
    if tolerance is not None:
        number("tolerance", tolerance, least=0)
    share("confidence", confidence)
    share("spot_check", spot_check, zero=True)
    number("misfit", misfit, least=0)
    among("explore", explore, ("optimistic", "wider", "sampled"))
    log, items = with_wanted_kernel(log, kernel), known_items(log, items)
    # A posterior's σ is a deviation: half of the reward range, a proxy for the worst case, is not one.
    reward_range = known_range(settings.get("reward_range"), apart=True)
    unused: Settings = {"theta_bound": 0.0, "context_bound": 0.0}
    empty = isinstance(log, Log | Summary) and log.n_rows == 0
    given: Settings = {**(unused if empty else {}), **settings, "reward_range": None}
    if given.get("noise") is None:
        given["noise"] = 1.0  # the prior says more of it
    start = replace(_begin(log, given), reward_range=reward_range)
    positive("noise", start.assumptions.noise)
    wanted = {"items": items, "scale": prior_scale, "mean": prior_mean}
    ridge = start.assumptions.ridge
    prior = learn_spread(log, start.sums, ridge, noise=settings.get("noise"), **wanted)
    tolerance = known_tolerance(tolerance, log, start.sums)
    estimated = (
        ("noise", *start.assumptions.estimated)
        if settings.get("noise") is None
        else start.assumptions.estimated
    )
    start = replace(start, assumptions=replace(start.assumptions, noise=prior.noise, estimated=estimated))
    sets, prior = posterior(start.sums, start.assumptions, prior, float(misfit))
    return start.learner(
        "confident",
        sets,
        [Confident(float(tolerance), float(confidence), bool(strict))],
        explore="wider-rival" if explore == "wider" else explore,
        optimism=2.0,
        spot_check=float(spot_check),
        guarantee=promises.confident(sets.assumptions, prior, tolerance, confidence, strict=bool(strict)),
        prior=prior,
    )


def linucb(
    log: Log | Summary | None = None,
    *,
    alpha: float = 1.0,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
    **settings: Unpack[Settings],
) -> Learner:
    """Disjoint LinUCB: mean + alpha·width, warm-started if a log is given; a baseline."""
    positive("alpha", alpha)
    start = _begin(log, settings, n_actions, n_features, actions)
    sets = ConfidenceSets(start.sums, start.assumptions, constant=float(alpha))
    return start.learner("linucb", sets, [], guarantee=promises.none("LinUCB with a constant alpha"))


def lints(
    log: Log | Summary | None = None,
    *,
    scale: float | None = None,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
    **settings: Unpack[Settings],
) -> Learner:
    """Linear Thompson sampling: θ ~ N(θ̂_a, scale²·V_a⁻¹), scale = noise unless given; a baseline."""
    start = _begin(log, settings, n_actions, n_features, actions)
    deviation = start.assumptions.noise if scale is None else scale
    positive("scale", deviation)
    sets = ConfidenceSets(start.sums, start.assumptions, constant=float(deviation))
    return start.learner("lints", sets, [], explore="sampled", guarantee=promises.none("Thompson sampling"))


def _begin(
    log: Log | Summary | None,
    settings: Settings,
    n_actions: int | None = None,
    n_features: int | None = None,
    actions: Sequence[Hashable] | None = None,
) -> _Start:
    """Check the log and the settings, and fill in what was not given."""
    values: dict[str, Any] = dict(settings)
    unknown = sorted(set(values) - set(Settings.__annotations__))
    if unknown:
        raise SettingError(f"unknown setting {unknown[0]!r}; known are {', '.join(Settings.__annotations__)}")
    seed = values.pop("seed", 0)
    whole("seed", seed)
    growing = values.pop("growing", False)
    if type(growing) is not bool or (growing and values.get("radius") == "paper"):
        raise SettingError(
            f"growing={growing!r}; must be True or False, and the paper's radius knows no growing"
        )
    reward_range = known_range(values.pop("reward_range", None), apart=True)
    if reward_range is not None and values.get("noise") is None:
        values["noise"] = (reward_range[1] - reward_range[0]) / 2
    assumed: tuple[str, ...] = ()
    about: dict[str, Any] = {}
    if log is None:
        names = _names(n_actions, actions)
        if n_features is None or n_features < 1:
            raise SettingError(f"n_features={n_features}; give the length of a context, 1 or more")
        sums = _no_rows(len(names), n_features)
        bounds = ("noise", "theta_bound", "context_bound")
        assumed = tuple(name for name in bounds if values.get(name) is None)
        values |= dict.fromkeys(assumed, 1.0)
    elif isinstance(log, Log | Summary):
        if n_actions is not None or n_features is not None or actions is not None:
            raise SettingError(
                "the log names actions and features; leave out n_actions, n_features and actions"
            )
        names = log.action_names
        sums = log.statistics if isinstance(log, Summary) else Statistics.of(log)
        about = {"encoder": log.encoder, "item_encoder": log.items.encoder if log.items else None}
        about["fit"] = sample(log) if isinstance(log, Log) and log.n_rows else ""
    else:
        raise SettingError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    assumptions = replace(Assumptions.resolve(sums, **values), assumed=assumed)
    return _Start(names, sums, assumptions, *seeded(int(seed), len(names)), reward_range, growing, about)


def _centred(
    log: Log | Summary, start: _Start, settings: Settings, center: str, items: Items | None
) -> tuple[ConfidenceSets, Prior | None]:
    """Sets around what the log says of each action, or around 0; and the prior that says it."""
    among("center", center, ("auto", "learnt", "zero"))
    if center == "zero" and items is not None:
        raise SettingError(
            "items with center='zero'; items say where sets are centred. Leave out one of them"
        )
    zero = center == "auto" and items is None and settings.get("theta_bound") is not None
    prior = None
    if start.sums.n_rows and center != "zero" and not zero:
        prior = learn(log, start.sums, noise=start.assumptions.noise or None, items=items)
    return centred(start.sums, start.assumptions, prior, growing=start.growing), prior


def _no_rows(k: int, d: int) -> Statistics:
    """The sums of no rows, in no memory: each array is one zero seen many times."""
    none = np.zeros(k, dtype=np.int64)
    return Statistics(none, np.broadcast_to(0.0, (k, d, d)), np.broadcast_to(0.0, (k, d)), np.zeros(k), 0.0)


def _points(
    log: Log, start: _Start, supported: ChooseSupported, inflate: float
) -> tuple[ConfidenceSets, str]:
    """Points for 𝓛, ellipsoids from online rows for the others."""
    if not callable(supported):
        raise SettingError(
            f"supported={supported!r}; must be top(L), elbow(), certified_within(ε) or given({{...}})"
        )
    number("inflate", inflate, least=0)
    chosen = supported(log, start.sums, start.assumptions)
    slack = inflate * start.assumptions.context_bound
    sets = ConfidenceSets(start.nothing, start.assumptions, slack=slack)
    sets.freeze(chosen.actions, chosen.theta)
    return sets, chosen.how


def _needs_rows(algorithm: str, log: Any) -> None:
    if isinstance(log, Summary):
        raise SettingError(
            f"{algorithm} needs the log's rows, and a Summary holds only their sums. Read the log with "
            "sparing.read_log(...), or use certified, confident or warm_started"
        )


def _names(n_actions: int | None, actions: Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    if actions is not None:
        return action_names(actions)
    if n_actions is None or n_actions < 1:
        raise SettingError(f"n_actions={n_actions}; give a log, actions=[...] or the number of actions")
    return tuple(range(n_actions))
