"""The offline learners and `learn`, which calls one of them by name.

Each takes a `LearningRequest` and its own options: regression (greedy, pessimistic), a table (π⁺), direct loss minimisation
(OPR-DLM), and softmax-linear policies (OPR, reward extrapolation, POEM, Norm-POEM, CAIPWL). Boosting, imitation and the
choice of method are in `automatic`, the posterior mean in `posterior`.
"""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sparing.engines import ProgressCounter
from sparing.errors import LogError, SettingError
from sparing.learning import objectives
from sparing.learning.automatic import auto, boosted, ipw_logistic, stacked
from sparing.learning.objectives import Objective, completed_rewards, descend, maximise
from sparing.learning.posterior import posterior
from sparing.learning.request import (
    WITHOUT_PROPENSITIES,
    LearningRequest,
    TrainingData,
    prepare_training_data,
)
from sparing.learning.ridge import RIDGES, Hyperparameters, choose_ridge, crossfitted_scores, fit_best, grid
from sparing.log import Log
from sparing.log.costs import CostsOption, action_costs, check_cost_units
from sparing.log.rows import AnyLog, FilteredRows, Rows, append_judged, as_rows, mean_costs
from sparing.model.confidence import Assumptions, ConfidenceEllipsoids, positive
from sparing.model.crossfitting import reward_parameters
from sparing.model.statistics import Statistics
from sparing.policies.fingerprint import Split, SplitFilter, TrainingFingerprint
from sparing.policies.pi_plus import compiled_on_use, pi_plus
from sparing.policies.policy import GreedyPolicy, PessimisticPolicy, Policy, SoftmaxPolicy
from sparing.policies.support import KnownSupport, TablePolicy
from sparing.validation import integer, number, one_of

BASELINES = (0.0, -0.7, 0.7)
"""k of policy restriction, in deviations of the reward; below 0 pulls mass onto the logged actions."""

STRENGTHS = (0.0001, 0.001, 0.00001, 0.01)  # L2 regularisation, in deviations of the reward
PENALTIES = (0.0, 1.0)  # λ of POEM and Norm-POEM: how many standard errors are subtracted

WIDTHS = (1.0, 0.5, 3.0)
"""ε of OPR-DLM at the first step, in units of sqrt(η·mean ‖x‖²/deviation of the reward): only ε²/η times the cost,
relative to scores that grow by ‖x‖², decides which path θ takes."""


def greedy(request: LearningRequest, *, ridge: Any = None, score: str = "argmax") -> GreedyPolicy:
    """argmax_a x·θ̂_a, θ̂ by ridge regression on the log (the DM policy).

    The ridge is chosen on held-out contexts by the squared error up to shift and scale, which do not change an
    argmax; `score="squared-error"` takes the plain error, and `score="support-aware"` compares the policies by their
    support-aware lower limits, which is noisier and needs propensities.
    """
    one_of("score", score, ("argmax", "squared-error", "support-aware"))
    if score == "support-aware":
        data = prepare_training_data(request, "greedy", "logged")
        if request.log.propensities is None:
            raise LogError("score='support-aware' needs propensities, and the log has none; use 'argmax'")

        def fit(part: TrainingData, setting: Hyperparameters) -> GreedyPolicy:
            theta = reward_parameters(Statistics.of(part.log), setting["ridge"])
            return _greedy("greedy", request, part, theta)

        return fit_best(request, data, grid(ridge=(ridge, RIDGES)), fit)
    request.check_rows("greedy")
    request.progress.total = 2
    choice = choose_ridge(request, ridge, to_rank=score == "argmax")
    request.progress.step()
    sums = choice.sums
    model, notes = request.allowed_actions(sums.counts)
    return GreedyPolicy(
        request.rows.action_names,
        reward_parameters(sums, choice.ridge),
        request.priority,
        model,
        notes=notes + choice.notes,
        trained_on=choice.fingerprint,
    )


def pessimistic(request: LearningRequest, **assumptions: Any) -> PessimisticPolicy:
    """argmax_a x·θ̂_a − ρ_a·width_a(x), the lower confidence bound, with ρ_a as in the online learners.

    The options are those of `Assumptions.resolve`. The ridge is not chosen from the data: the radius is proved for a
    ridge that was fixed beforehand.
    """
    sums, fingerprint = request.summed("pessimistic")
    model, notes = request.allowed_actions(sums.counts)
    resolved = Assumptions.resolve(sums, **assumptions)
    sets = ConfidenceEllipsoids(sums, resolved)
    return PessimisticPolicy(
        request.rows.action_names,
        sets.theta,
        sets.inverse,
        sets.radius,
        request.priority,
        model,
        notes=(*notes, str(resolved)),
        trained_on=fingerprint,
    )


def pi_plus_policy(
    request: LearningRequest, *, clip: float | str = "percentile-ratio", ridge: Any = None
) -> TablePolicy:
    """π⁺ for the contexts of the log; the greedy action among supported ones for any other.

    Contexts are distinguished by their features, even if the log has ids. `clip` is M; it cannot be chosen on
    held-out contexts, because π⁺ is undefined for a context it has not seen.
    """
    log, data = request.log, prepare_training_data(request, "pi-plus", "logged")
    by_features = replace(log, context_ids=None)
    plus = pi_plus(by_features, clip)
    first = np.unique(plus.groups, return_index=True)[1]
    choice = choose_ridge(request, ridge)
    elsewhere, whose = data.model, "its supported actions"
    if request.support is None:
        logged = log.counts > 0
        somewhere = logged if data.supported is None else logged | data.supported.any(axis=0)
        elsewhere = KnownSupport.fixed(somewhere, log.n_features)
        whose = "actions supported somewhere"
    notes = [
        f"clip M = {plus.clip:.4g}",
        f"a context that is not in the log gets the greedy action (ridge = {choice.ridge:.4g}) among {whose}",
    ]
    if data.supported is None:
        notes.append(
            "support unknown: probability on a context's unlogged actions goes to those logged elsewhere"
        )
    table = plus.table(_shares(by_features, data))
    fallback = GreedyPolicy(log.action_names, choice.theta, request.priority, elsewhere)
    return TablePolicy(log.action_names, log.contexts[first], table, fallback, "pi-plus", notes=tuple(notes))


def _shares(log: Log, data: TrainingData) -> np.ndarray:
    """Proportions by which a row spreads mass over unlogged actions, (n, K): their caps M·μ up to a factor."""
    distribution = log.support.distribution()
    if distribution is not None:
        return distribution
    if data.supported is not None:
        return data.supported.astype(np.float64)
    return np.tile((log.counts > 0).astype(np.float64), (log.n_rows, 1))


def opr_dlm(
    request: LearningRequest,
    *,
    completion: str = "dr",
    epsilon: Any = None,
    eta: float = 1.0,
    epsilon_decay: float = 0.1,
    eta_decay: float = 0.3,
    epochs: int = 5,
    ridge: Any = None,
) -> GreedyPolicy:
    """Direct loss minimisation on completed costs −Γ (`dr`) or −1{a = a_i}·r_i/μ_i (`ips`).

    Step t: ŷ = argmax score, y⁻ = argmax(score − ε_t·cost), both over the context's supported actions;
    the score of y⁻ goes up and that of ŷ down by (η_t/ε_t)·x, with ε_t = ε·t^−epsilon_decay and
    η_t = η·t^−eta_decay. Each epoch visits the rows in a random order; θ is averaged over all steps.
    """
    log, data = request.log, prepare_training_data(request, "opr-dlm", "supported")
    one_of("completion", completion, ("dr", "ips"))
    integer("epochs", epochs, least=1)
    number("epsilon_decay", epsilon_decay, least=0)
    number("eta_decay", eta_decay, least=0)
    positive("eta", eta)
    size = float((log.contexts**2).sum(axis=1).mean()) or 1.0
    settings = grid(epsilon=(epsilon, np.array(WIDTHS) * np.sqrt(eta * size / request.unit)))

    def fit(part: TrainingData, setting: Hyperparameters) -> GreedyPolicy:
        if completion == "dr":
            rewards = crossfitted_scores(request, part.log, ridge)
        else:
            rewards = completed_rewards(part.log, np.zeros((part.log.n_rows, part.log.n_actions)))
        assert part.allowed is not None
        rng = np.random.default_rng([request.seed, 22])
        order = np.concatenate([rng.permutation(part.log.n_rows) for _ in range(epochs)])
        schedule = (setting["epsilon"], epsilon_decay, float(eta), eta_decay)
        theta = compiled_on_use(descend)(
            part.log.contexts, part.allowed, -rewards, order, request.priority, *map(float, schedule)
        )
        return _greedy("opr-dlm", request, part, theta)

    return fit_best(request, data, settings, fit)


def opr(request: LearningRequest, *, k: Any = None, l2: Any = None) -> SoftmaxPolicy:
    """Policy restriction: minimise mean[(k − r)·w] over softmax policies on each context's support."""
    data = prepare_training_data(request, "opr", "supported")
    settings = grid(k=(k, request.unit * np.array(BASELINES)), l2=(l2, _strengths(request)))

    def fit(part: TrainingData, setting: Hyperparameters) -> SoftmaxPolicy:
        return _softmax("opr", part, objectives.restricted(part.log, setting["k"]), setting["l2"])

    return fit_best(request, data, settings, fit)


def poem(
    method: str,
    family: Callable[..., Objective],
    request: LearningRequest,
    *,
    clip: Any = None,
    penalty: Any = None,
    l2: Any = None,
) -> SoftmaxPolicy:
    """POEM: maximise mean(min(w, M)·r) − λ·sqrt(Var/n), M the clip and λ the penalty.

    Norm-POEM has the self-normalised mean Σ w r/Σ w and its deviation. Nothing in it keeps Σ w near n, so it may leave
    a deficient support: pass `support`.
    """
    data = prepare_training_data(request, method, "logged")
    assert request.log.propensities is not None
    largest = 1 / request.log.propensities
    high = float(np.percentile(largest, 90))
    # No weight exceeds 1/μ, so a clip at or above the largest changes nothing.
    clips = (np.inf, high) if high < largest.max() else (np.inf,)
    settings = grid(clip=(clip, clips), penalty=(penalty, PENALTIES), l2=(l2, _strengths(request)))

    def fit(part: TrainingData, setting: Hyperparameters) -> SoftmaxPolicy:
        goal = family(part.log, clip=setting["clip"], penalty=setting["penalty"])
        return _softmax(method, part, goal, setting["l2"])

    return fit_best(request, data, settings, fit)


def extrapolation(request: LearningRequest, *, l2: Any = None, ridge: Any = None) -> SoftmaxPolicy:
    """Reward extrapolation: maximise IPS + Σ_{a unsupported} π(a|x)·r̂(x, a) over all softmax policies.

    The option `support` only defines the supported actions here: the policy may leave them where r̂ is higher.
    """
    known = prepare_training_data(request, "extrapolation", "supported")
    note = "it may take unsupported actions, where only the reward model speaks for them"
    data = TrainingData(known.log, notes=(note,))

    def fit(part: TrainingData, setting: Hyperparameters) -> SoftmaxPolicy:
        assert part.supported is not None
        fitted = part.log.contexts @ choose_ridge(request.of_rows(part.log), ridge).theta.T
        goal = objectives.extrapolated(part.log, fitted, ~part.supported)
        return _softmax("extrapolation", part, goal, setting["l2"])

    return fit_best(request, data, grid(l2=(l2, _strengths(request))), fit)


def caipwl(request: LearningRequest, *, l2: Any = None, ridge: Any = None) -> GreedyPolicy:
    """Cross-fitted AIPW learning: a linear rule over supported actions for the scores Γ.

    θ maximises mean Σ_a π_θ(a|x_i)·Γ_i(a) over softmax policies, the smooth stand-in for the rule
    argmax_a x·θ_a that is returned.
    """
    data = prepare_training_data(request, "caipwl", "supported")

    def fit(part: TrainingData, setting: Hyperparameters) -> GreedyPolicy:
        goal = objectives.scored(crossfitted_scores(request, part.log, ridge))
        return _greedy("caipwl", request, part, _softmax("caipwl", part, goal, setting["l2"]).theta)

    return fit_best(request, data, grid(l2=(l2, _strengths(request))), fit)


def _greedy(method: str, request: LearningRequest, part: TrainingData, theta: np.ndarray) -> GreedyPolicy:
    return GreedyPolicy(part.log.action_names, theta, request.priority, part.model, method)


def _softmax(method: str, part: TrainingData, objective: Objective, l2: float) -> SoftmaxPolicy:
    log = part.log
    theta = maximise(log.contexts, part.allowed, objective, l2=l2, n_actions=log.n_actions)
    return SoftmaxPolicy(log.action_names, theta, 1.0, part.model, method)


def _strengths(request: LearningRequest) -> np.ndarray:
    return request.unit * np.array(STRENGTHS)


METHODS: dict[str, Callable[..., Policy]] = {
    "greedy": greedy,
    "posterior": posterior,
    "pessimistic": pessimistic,
    "pi-plus": pi_plus_policy,
    "opr": opr,
    "opr-dlm": opr_dlm,
    "extrapolation": extrapolation,
    "poem": partial(poem, "poem", objectives.poem),
    "norm-poem": partial(poem, "norm-poem", objectives.norm_poem),
    "caipwl": caipwl,
    "ipw-logistic": ipw_logistic,
    "boosted": boosted,
    "stacked": stacked,
    "auto": auto,
}
"""Offline learners by name; each takes a `LearningRequest` and its own options."""

BY_PASSES = ("greedy", "posterior", "pessimistic")
"""Methods that need only sums over the rows, so they learn from a scan too."""

USE_ITEMS = ("posterior", "auto")
"""Methods that use features of the actions."""

BY_MODEL = (*BY_PASSES, "boosted")
"""Methods that fit rewards alone, so they learn from rows without propensities too."""

ON_SUPPORT = ("opr", "opr-dlm", "extrapolation", "caipwl")
"""Methods that stay on each context's supported actions."""

SHARED = ("support", "reward_range", "folds")


def learn(
    log: AnyLog,
    method: str = "greedy",
    *,
    seed: int = 0,
    holdout: float = 0.0,
    estimate_support: bool = True,
    judged: Log | None = None,
    progress: Callable[[int, int], None] | None = None,
    costs: CostsOption = None,
    **options: Any,
) -> Policy:
    """Learn a policy offline, from a log.

    Parameters
    ----------
    log : Log or Scan
        A scan is accepted by `greedy`, `posterior` and `pessimistic`, which make passes over it; results are equal to those of the
        same rows in memory.
    method : str
        One of `METHODS`.
    seed : int
        Of folds, ties and the split.
    holdout : float
        The share of the log that is held out, by context; single rows are held out if there are fewer than 100
        contexts. ``policy.held_out(log)`` returns these rows, and `evaluate` uses them.
    estimate_support : bool
        Whether support and propensities that a method needs, and that the log lacks, are estimated from the rows, as
        `sparing.estimate_support` does; ``policy.notes`` say so. Otherwise such a method is refused.
    judged : Log, optional
        Rows without propensities, such as judged answers to `ask`, with the log's actions and features. `greedy`, `posterior`,
        `pessimistic` and `boosted` learn from them too, except in contexts that are held out; the others leave them out, and
        ``policy.notes`` say so.
    progress : callable, optional
        ``progress(done, total)`` is called after each step.
    costs : mapping or sequence of K numbers, optional
        Known costs of playing the actions, in units of the reward; by default those of the log. The policy is for reward − cost.
        `greedy`, `posterior` and `pessimistic` learn the reward before cost, and ``policy.costs`` may be replaced when prices
        change; of costs by row they take the means. Other methods learn from rewards less costs, at these prices.
    **options
        ``support``: the supported actions of a context, as a function (n, d) → booleans (n, K), a policy (its positive
        probabilities), or labels. ``reward_range``: bounds on mean rewards. ``folds``: of cross-fitting. The others are
        the method's own. A hyper-parameter that is not given is chosen on held-out contexts; ``policy.notes`` name it.

    Returns
    -------
    Policy
        With a fingerprint of its training rows, ``policy.trained_on``.

    Raises
    ------
    SettingError
        If an option is unknown or out of range, or the method needs a log in memory.
    LogError
        If the log lacks what the method needs.

    Examples
    --------
    >>> policy = sparing.learn(log, "greedy", holdout=0.3)  # doctest: +SKIP
    """
    close = difflib.get_close_matches(str(method), METHODS, n=1)
    fit = METHODS[one_of("method", method, METHODS, hint=f". Did you mean {close[0]!r}?" if close else "")]
    own = list(inspect.signature(Assumptions.resolve if fit is pessimistic else fit).parameters)[1:]
    unknown = [name for name in options if name not in (*SHARED, *own)]
    if unknown:
        raise SettingError(
            f"method {method!r} has no option {unknown[0]!r}; it takes {', '.join((*SHARED, *own))}"
        )
    shared = {name: options.pop(name) for name in SHARED if name in options}
    by_limit = options.get("score") == "support-aware"
    by_passes = method in BY_PASSES and not by_limit
    if isinstance(log, Rows) and not by_passes:
        what = "score='support-aware'" if by_limit else f"method {method!r}"
        raise SettingError(
            f"{what} needs all rows in memory at once, and this log is scanned ({log.n_rows:,} rows). Learn from a random "
            "part, learn(log.sample(200_000), ...), at the prompt --sample 200000, or from all of them, read with "
            f"sparing.read_log(...); {', '.join(BY_PASSES[:-1])} and {BY_PASSES[-1]} learn from a scan as it is"
        )
    notes: tuple[str, ...] = ()
    known = None if costs is None else action_costs(costs, log.action_names)
    if known is not None and isinstance(log, Log):
        log = replace(log, costs=known)
        if log.n_rows:
            check_cost_units(known, float(log.rewards.min()), float(log.rewards.max()))
    if estimate_support and "support" not in shared and isinstance(log, Log) and _lacks_support(log, method):
        log, notes = _with_estimated_support(log, integer("seed", seed))
    rows, split = as_rows(log), None
    if holdout != 0 and rows.n_rows:
        rows, split = _training_rows(log, holdout, integer("seed", seed), by_passes=by_passes)
    if judged is not None and judged.n_rows:
        uses = method in BY_MODEL and not by_limit
        if uses and not isinstance(log, Log):
            raise SettingError(
                "judged answers are learnt together with the log's rows, and this log is scanned. Read it with sparing.read_log(...)"
            )
        rows, note = _with_judged(rows, judged, split, method, uses=uses)
        notes = (*notes, note)
    trained, priced = rows, known if known is not None else mean_costs(rows)
    if priced is not None and not by_passes:
        rows = as_rows(rows.read().net())
        if shared.get("reward_range") is not None:
            low, high = shared["reward_range"]
            shared["reward_range"] = low - float(priced.max()), high - float(priced.min())
        notes += ("costs are subtracted from the rewards it learnt from: learn again when prices change",)
    counter = ProgressCounter(progress)
    request = LearningRequest(rows, seed, progress=counter, fingerprint=by_passes, **shared)
    policy: Any = fit(request, **options)
    if log.items is not None and method not in USE_ITEMS:
        unused = f"the log's item features are not used by {method}; {' and '.join(USE_ITEMS)} use them"
        policy = replace(policy, notes=(*policy.notes, unused))
    if priced is not None and by_passes:
        policy = replace(policy, costs=priced)
    fingerprint = policy.trained_on or TrainingFingerprint.of(trained)
    learned: Policy = replace(
        policy,
        trained_on=replace(fingerprint, split=split),
        encoder=log.encoder,
        notes=(*notes, *policy.notes),
    )
    counter.step()
    return learned


def _with_judged(
    rows: Rows, judged: Log, split: Split | None, method: str, *, uses: bool
) -> tuple[Rows, str]:
    """The training rows with judged ones after them, unless the method cannot use them; and a note."""
    if judged.action_names != rows.action_names or judged.n_features != rows.n_features:
        raise LogError(
            f"the judged rows have {judged.n_actions} actions and {judged.n_features} features, the log has {rows.n_actions} and "
            f"{rows.n_features}; both need the same, in the same order"
        )
    if not uses:
        return (
            rows,
            f"{judged.n_rows:,} judged answers have no logging propensity, and {method} leaves them out; "
            f"{', '.join(BY_MODEL[:-1])} and {BY_MODEL[-1]} use them",
        )
    kept = judged if split is None or split.by == "place" else judged.take(~split.held_out(judged))
    held = f"; {judged.n_rows - kept.n_rows:,} in held-out contexts are left out" * (
        kept.n_rows < judged.n_rows
    )
    return as_rows(append_judged(rows.read(), kept)), f"learnt from {kept.n_rows:,} judged answers too{held}"


def _lacks_support(log: Log, method: str) -> bool:
    """Whether a method needs the support or the propensities of a log that has neither."""
    if log.support.known or not log.n_rows:
        return False
    return method in ON_SUPPORT or (log.propensities is None and method not in WITHOUT_PROPENSITIES)


def _with_estimated_support(log: Log, seed: int) -> tuple[Log, tuple[str, ...]]:
    """The log with its support estimated, and a note; the log itself if it has too few rows."""
    # The one import up the layers: users expect the estimate here.
    from sparing.auditing.support import estimate_support, estimated_note

    try:
        return estimate_support(log, seed=seed)[0], (estimated_note(log),)
    except LogError:
        return log, ()


def _training_rows(log: AnyLog, holdout: float, seed: int, *, by_passes: bool) -> tuple[Rows, Split]:
    split, held = Split.of(log, holdout, seed)
    if not 2 <= held <= log.n_rows - 2:
        raise SettingError(
            f"holdout={holdout} would hold {held} of {log.n_rows} rows out, too few to evaluate on or to learn from. Pass "
            "another share, another seed, or 0 to learn from all rows, and evaluate the policy on another log"
        )
    if isinstance(log, Log) and not by_passes:
        return as_rows(log.take(~split.held_out(log))), split
    return FilteredRows(as_rows(log), SplitFilter(split, held=False), log.n_rows - held), split
