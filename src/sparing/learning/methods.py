"""The offline learners, and one door to them all.

Each takes a `Request` and the options of its own: regression (greedy, pessimistic), a table (π⁺), direct loss
minimisation (OPR-DLM), and softmax-linear policies (OPR, reward extrapolation, POEM, Norm-POEM, CAIPWL). Boosting and
imitation stand in `nonlinear`, the choice among them all in `automatic`.
"""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from sparing.errors import LogError, SettingError
from sparing.learning import objectives, walked
from sparing.learning.automatic import auto
from sparing.learning.choosing import (
    RIDGES,
    Setting,
    choose,
    choose_ridge,
    crossfitted_scores,
    grid,
    reward_model,
)
from sparing.learning.material import Material, Progress, Request, gather
from sparing.learning.nonlinear import boosted, ipw_logistic, stacked
from sparing.learning.objectives import Objective, completed_rewards, maximise
from sparing.log import Log
from sparing.log.rows import AnyLog, Filtered, Rows, rows_of
from sparing.model.assumptions import Assumptions, positive
from sparing.model.crossfitting import reward_parameters
from sparing.model.statistics import Statistics
from sparing.policies.fingerprint import Fingerprint, Part, Split
from sparing.policies.pi_plus import pi_plus
from sparing.policies.policy import GreedyPolicy, PessimisticPolicy, Policy, SoftmaxPolicy
from sparing.policies.tables import KnownSupport, TablePolicy
from sparing.validation import integer, number, one_of

BASELINES = (0.0, -0.7, 0.7)
"""k of policy restriction, in deviations of the reward; below 0 pulls mass onto the logged actions."""

STRENGTHS = (0.0001, 0.001, 0.00001, 0.01)
"""L2 regularisation, in deviations of the reward."""

PENALTIES = (0.0, 1.0)
"""λ of POEM and Norm-POEM: how many standard errors are subtracted."""

WIDTHS = (1.0, 0.5, 3.0)
"""ε of OPR-DLM at the first step, in units of sqrt(η·mean ‖x‖²/deviation of the reward): only ε²/η times the cost,
beside scores that grow by ‖x‖², decides which path θ takes."""

Learnt = TypeVar("Learnt", GreedyPolicy, SoftmaxPolicy)


def greedy(request: Request, *, ridge: Any = None, score: str = "argmax") -> GreedyPolicy:
    """argmax_a x·θ̂_a, θ̂ by ridge regression on the log (the DM policy).

    The ridge is chosen on held-out contexts, by how well the estimates explain the rewards once they are
    shifted and scaled, to which an argmax is blind; `score="squared-error"` takes them as they are, and
    `score="support-aware"` judges the policies instead, which is noisier and needs propensities.
    """
    material, settings = gather(request, "greedy", "logged"), grid(ridge=(ridge, RIDGES))
    one_of("score", score, ("argmax", "squared-error", "support-aware"))
    if score == "support-aware" and request.log.propensities is None:
        raise LogError("score='support-aware' needs propensities, and the log has none; use 'argmax'")

    def learner(part: Material, setting: Setting) -> GreedyPolicy:
        theta = reward_parameters(Statistics.of(part.log), setting["ridge"])
        return _greedy("greedy", request, part, theta)

    if score == "support-aware":
        return _best(request, material, settings, learner)
    chosen, notes = choose_ridge(request, request.log, settings, to_rank=score == "argmax")
    return _best(request, replace(material, notes=material.notes + notes), [chosen], learner)


def pessimistic(request: Request, **assumptions: Any) -> PessimisticPolicy:
    """argmax_a x·θ̂_a − ρ_a·width_a(x): the lower confidence limit, ρ_a as in the online learners.

    The options are those of `Assumptions.resolve`. The ridge is not chosen from the data: the radius is
    proved for one that was fixed beforehand.
    """
    material = gather(request, "pessimistic", "logged")
    sums = Statistics.of(request.log)
    return walked.lower_limits(request, material.model, material.notes, sums, assumptions)


def pi_plus_policy(
    request: Request, *, clip: float | str = "percentile-ratio", ridge: Any = None
) -> TablePolicy:
    """π⁺ for the contexts of the log; the greedy action among supported ones for any other.

    Contexts are told apart by their features, even where the log has ids. `clip` is M; it cannot be
    chosen on held-out contexts, because π⁺ knows nothing about a context it has not seen.
    """
    log, material = request.log, gather(request, "pi-plus", "logged")
    by_features = replace(log, context_ids=None)
    plus = pi_plus(by_features, clip)
    first = np.unique(plus.groups, return_index=True)[1]
    best = choose_ridge(request, log, grid(ridge=(ridge, RIDGES)))[0]["ridge"]
    theta = reward_parameters(Statistics.of(log), best)
    elsewhere, whose = material.model, "its supported actions"
    if request.support is None:
        elsewhere = KnownSupport.fixed(material.anywhere, log.n_features)
        whose = "actions supported somewhere"
    notes = [
        f"clip M = {plus.clip:.4g}",
        f"a context that is not in the log gets the greedy action (ridge = {best:.4g}) among {whose}",
    ]
    if material.supported is None:
        notes.append("support unknown: mass on a context's unlogged actions goes to those logged elsewhere")
    table = plus.table(_shares(by_features, material))
    fallback = GreedyPolicy(log.action_names, theta, request.priority, elsewhere)
    return TablePolicy(log.action_names, log.contexts[first], table, fallback, "pi-plus", tuple(notes))


def _shares(log: Log, material: Material) -> np.ndarray:
    """How a row's mass on unlogged actions is to be shared, (n, K), up to a factor: by their caps M·μ."""
    distribution = log.support.distribution()
    if distribution is not None:
        return distribution
    if material.supported is not None:
        return material.supported.astype(np.float64)
    return np.tile((log.counts > 0).astype(np.float64), (log.n_rows, 1))


def opr_dlm(
    request: Request,
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
    from sparing.learning.kernels import descend

    log, material = request.log, gather(request, "opr-dlm", "supported")
    one_of("completion", completion, ("dr", "ips"))
    integer("epochs", epochs, least=1)
    number("epsilon_decay", epsilon_decay, least=0)
    number("eta_decay", eta_decay, least=0)
    positive("eta", eta)
    size = float((log.contexts**2).sum(axis=1).mean()) or 1.0
    settings = grid(epsilon=(epsilon, np.array(WIDTHS) * np.sqrt(eta * size / request.unit)))

    def learner(part: Material, setting: Setting) -> GreedyPolicy:
        if completion == "dr":
            rewards = crossfitted_scores(part.log, ridge, request)
        else:
            rewards = completed_rewards(part.log, np.zeros((part.log.n_rows, part.log.n_actions)))
        assert part.allowed is not None
        rng = np.random.default_rng([request.seed, 22])
        order = np.concatenate([rng.permutation(part.log.n_rows) for _ in range(epochs)])
        schedule = (setting["epsilon"], epsilon_decay, float(eta), eta_decay)
        theta = descend(
            part.log.contexts, part.allowed, -rewards, order, request.priority, *map(float, schedule)
        )
        return _greedy("opr-dlm", request, part, theta)

    return _best(request, material, settings, learner)


def opr(request: Request, *, k: Any = None, l2: Any = None) -> SoftmaxPolicy:
    """Policy restriction: minimise mean[(k − r)·w] over softmax policies on each context's support."""
    material = gather(request, "opr", "supported")
    settings = grid(k=(k, request.unit * np.array(BASELINES)), l2=(l2, _strengths(request)))

    def learner(part: Material, setting: Setting) -> SoftmaxPolicy:
        return _softmax("opr", part, objectives.restricted(part.log, setting["k"]), setting["l2"])

    return _best(request, material, settings, learner)


def poem(request: Request, *, clip: Any = None, penalty: Any = None, l2: Any = None) -> SoftmaxPolicy:
    """POEM: maximise mean(min(w, M)·r) − λ·sqrt(Var/n), M the clip and λ the penalty."""
    return _poem("poem", objectives.poem, request, clip=clip, penalty=penalty, l2=l2)


def norm_poem(request: Request, *, clip: Any = None, penalty: Any = None, l2: Any = None) -> SoftmaxPolicy:
    """Norm-POEM: as POEM, with the self-normalised mean Σ w r/Σ w and its deviation.

    Nothing in it keeps Σ w near n, so where the support is deficient it may leave it: give `support`.
    """
    return _poem("norm-poem", objectives.norm_poem, request, clip=clip, penalty=penalty, l2=l2)


def extrapolation(request: Request, *, l2: Any = None, ridge: Any = None) -> SoftmaxPolicy:
    """Reward extrapolation: maximise IPS + Σ_{a unsupported} π(a|x)·r̂(x, a) over all softmax policies.

    The option `support` only says here what is supported: the policy may leave it, on the word of r̂.
    """
    known = gather(request, "extrapolation", "supported")
    note = "it may take unsupported actions, where only the reward model speaks for them"
    material = Material(known.log, notes=(note,))

    def learner(part: Material, setting: Setting) -> SoftmaxPolicy:
        assert part.supported is not None
        goal = objectives.extrapolated(part.log, reward_model(part.log, ridge, request), ~part.supported)
        return _softmax("extrapolation", part, goal, setting["l2"])

    return _best(request, material, grid(l2=(l2, _strengths(request))), learner)


def caipwl(request: Request, *, l2: Any = None, ridge: Any = None) -> GreedyPolicy:
    """Cross-fitted AIPW learning: a linear rule over supported actions for the scores Γ.

    θ maximises mean Σ_a π_θ(a|x_i)·Γ_i(a) over softmax policies, the smooth stand-in for the rule
    argmax_a x·θ_a that is returned.
    """
    material = gather(request, "caipwl", "supported")

    def learner(part: Material, setting: Setting) -> GreedyPolicy:
        goal = objectives.scored(crossfitted_scores(part.log, ridge, request))
        return _greedy("caipwl", request, part, _softmax("caipwl", part, goal, setting["l2"]).theta)

    return _best(request, material, grid(l2=(l2, _strengths(request))), learner)


def _poem(
    method: str, family: Callable[..., Objective], request: Request, *, clip: Any, penalty: Any, l2: Any
) -> SoftmaxPolicy:
    material = gather(request, method, "logged")
    assert request.log.propensities is not None
    largest = 1 / request.log.propensities
    high = float(np.percentile(largest, 90))
    # No weight exceeds 1/μ, so a clip at or above the largest changes nothing.
    clips = (np.inf, high) if high < largest.max() else (np.inf,)
    settings = grid(clip=(clip, clips), penalty=(penalty, PENALTIES), l2=(l2, _strengths(request)))

    def learner(part: Material, setting: Setting) -> SoftmaxPolicy:
        goal = family(part.log, clip=setting["clip"], penalty=setting["penalty"])
        return _softmax(method, part, goal, setting["l2"])

    return _best(request, material, settings, learner)


def _greedy(method: str, request: Request, part: Material, theta: np.ndarray) -> GreedyPolicy:
    return GreedyPolicy(part.log.action_names, theta, request.priority, part.model, method)


def _softmax(method: str, part: Material, objective: Objective, l2: float) -> SoftmaxPolicy:
    """The softmax-linear policy that an objective likes best."""
    log = part.log
    theta = maximise(log.contexts, part.allowed, objective, l2=l2, n_actions=log.n_actions)
    return SoftmaxPolicy(log.action_names, theta, 1.0, part.model, method)


def _best(
    request: Request,
    material: Material,
    settings: list[Setting],
    learner: Callable[[Material, Setting], Learnt],
) -> Learnt:
    """The policy learnt under the best setting; its notes say how that was chosen."""
    chosen, notes = choose(request, material, settings, learner)
    return replace(learner(material, chosen), notes=material.notes + notes)


def _strengths(request: Request) -> np.ndarray:
    return request.unit * np.array(STRENGTHS)


METHODS: dict[str, Callable[..., Policy]] = {
    "greedy": greedy,
    "pessimistic": pessimistic,
    "pi-plus": pi_plus_policy,
    "opr": opr,
    "opr-dlm": opr_dlm,
    "extrapolation": extrapolation,
    "poem": poem,
    "norm-poem": norm_poem,
    "caipwl": caipwl,
    "ipw-logistic": ipw_logistic,
    "boosted": boosted,
    "stacked": stacked,
    "auto": auto,
}
"""Offline learners by name; each takes a `Request` and the options of its own."""

WALKED: dict[str, Callable[..., Policy]] = {"greedy": walked.greedy, "pessimistic": walked.pessimistic}
"""Those that need nothing but sums, so that they learn from logs of any length."""

SHARED = ("support", "reward_range", "folds")


def learn(
    log: AnyLog,
    method: str,
    *,
    seed: int = 0,
    holdout: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Policy:
    """Learn a policy from a log alone, by one of METHODS.

    `holdout` is the share of the log that it is not learnt from, by context: `policy.held_out(log)` gives those
    rows back, and `evaluate` judges it by them. The policy knows which rows taught it (`policy.taught`).
    `greedy` and `pessimistic` learn from a log that is scanned too, by walking it; the others need all rows at once.

    Every method takes `support` (what a context supports: a function (n, d) → booleans (n, K), a policy
    whose positive probabilities count, or labels), `reward_range` (bounds on mean rewards) and `folds`.
    The rest are the method's own. A hyper-parameter that is not given is chosen on held-out contexts by
    the support-aware lower limit; the policy's `notes` say which. `progress(done, total)` is called on
    the way.
    """
    close = difflib.get_close_matches(str(method), METHODS, n=1)
    learner = METHODS[
        one_of("method", method, METHODS, hint=f". Did you mean {close[0]!r}?" if close else "")
    ]
    taker = Assumptions.resolve if learner is pessimistic else learner
    own = list(inspect.signature(taker).parameters)[1:]
    unknown = [name for name in options if name not in (*SHARED, *own)]
    if unknown:
        raise SettingError(
            f"method {method!r} has no option {unknown[0]!r}; it takes {', '.join((*SHARED, *own))}"
        )
    shared = {name: options.pop(name) for name in SHARED if name in options}
    steps, scored = Progress(progress), options.get("score") == "support-aware"
    if isinstance(log, Rows):
        _check_walked(log, method, scored=scored)
    rows = rows_of(log)
    if method in WALKED and not scored and not rows.whole:
        taken, split = _walked_by(rows, holdout, seed)
        request = Request(rows.header, seed, progress=steps, **shared)
        found: Any = WALKED[method](taken, split, request, **options)
    else:
        part, split = _taught_by(rows.read(), holdout, seed)
        found = learner(Request(part, seed, progress=steps, **shared), **options)
        found = replace(found, taught=Fingerprint.of(part, split))
    steps.step()
    policy: Policy = replace(found, encoder=log.encoder)
    return policy


def _check_walked(log: Rows, method: str, *, scored: bool) -> None:
    """Refuse what cannot be learnt by walking a log."""
    if method in WALKED and not scored:
        return
    what = "score='support-aware'" if scored else f"method {method!r}"
    raise SettingError(
        f"{what} needs all rows in memory at once, and this log is scanned ({log.n_rows:,} rows). Learn from a random part, "
        "learn(log.sample(200_000), ...), at the prompt --sample 200000, or from all of them, read with sparing.read_log(...); "
        f"{' and '.join(WALKED)} learn from a scan as it is"
    )


def _taught_by(log: Log, holdout: float, seed: int) -> tuple[Log, Split | None]:
    """The rows to learn from, and how the others were held out."""
    if holdout == 0 or not log.n_rows:
        return log, None
    split = Split.of(log, holdout, integer("seed", seed))
    held = split.held_out(log)
    _check_held(holdout, int(held.sum()), log.n_rows)
    return log.take(~held), split


def _walked_by(rows: Rows, holdout: float, seed: int) -> tuple[Rows, Split | None]:
    """The same of a log of several blocks."""
    if holdout == 0:
        return rows, None
    split, held = Split.walked(rows, holdout, integer("seed", seed))
    _check_held(holdout, held, rows.n_rows)
    return Filtered(rows, Part(split, held=False), rows.n_rows - held), split


def _check_held(holdout: float, held: int, rows: int) -> None:
    if not 2 <= held <= rows - 2:
        raise SettingError(
            f"holdout={holdout} would hold {held} of {rows} rows out, too few to judge by or to learn from. Pass "
            "another share, another seed, or 0 to learn from all rows, and judge the policy on another log"
        )
