"""Learners of softmax-linear policies: policy restriction, reward extrapolation, POEM, Norm-POEM, CAIPWL."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sparing.learning import objectives
from sparing.learning.choosing import Act, Setting, choose, grid
from sparing.learning.linear import greedily
from sparing.learning.material import Material, Request, gather
from sparing.learning.scores import crossfitted_scores, reward_model
from sparing.learning.softmax import Objective, maximise
from sparing.policies.learnt import SoftmaxPolicy
from sparing.policies.policy import GreedyPolicy, softmax

BASELINES = (0.0, -0.7, 0.7)
"""k of policy restriction, in deviations of the reward; below 0 pulls mass onto the logged actions."""

STRENGTHS = (0.0001, 0.001, 0.00001, 0.01)
"""L2 regularisation, in deviations of the reward."""

PENALTIES = (0.0, 1.0)
"""λ of POEM and Norm-POEM: how many standard errors are subtracted."""


def opr(request: Request, *, k: Any = None, l2: Any = None) -> SoftmaxPolicy:
    """Policy restriction: minimise mean[(k − r)·w] over softmax policies on each context's support."""
    material = gather(request, "opr", "supported")
    baselines = request.unit * np.array(BASELINES)
    settings = grid(k=(k, baselines), l2=(l2, _strengths(request)))
    return _softmax_policy(
        "opr",
        request,
        material,
        settings,
        lambda part, setting: objectives.restricted(part.log, setting["k"]),
    )


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
    material = Material(known.log, None, known.supported, None, (note,))

    def objective(part: Material, setting: Setting) -> Objective:
        assert part.supported is not None
        return objectives.extrapolated(part.log, reward_model(part.log, ridge, request), ~part.supported)

    settings = grid(l2=(l2, _strengths(request)))
    return _softmax_policy("extrapolation", request, material, settings, objective)


def caipwl(request: Request, *, l2: Any = None, ridge: Any = None) -> GreedyPolicy:
    """Cross-fitted AIPW learning: a linear rule over supported actions for the scores Γ.

    θ maximises mean Σ_a π_θ(a|x_i)·Γ_i(a) over softmax policies, the smooth stand-in for the rule
    argmax_a x·θ_a that is returned.
    """
    log, material = request.log, gather(request, "caipwl", "supported")

    def objective(part: Material, setting: Setting) -> Objective:
        return objectives.scored(crossfitted_scores(part.log, ridge, request))

    act = greedily(request.priority)
    settings = grid(l2=(l2, _strengths(request)))
    theta, notes = _parameters(request, material, settings, objective, act)
    return GreedyPolicy(
        log.action_names, theta, request.priority, material.model, "caipwl", material.notes + notes
    )


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
    return _softmax_policy(
        method,
        request,
        material,
        settings,
        lambda part, setting: family(part.log, clip=setting["clip"], penalty=setting["penalty"]),
    )


def _softmax_policy(
    method: str,
    request: Request,
    material: Material,
    settings: list[Setting],
    objective: Callable[[Material, Setting], Objective],
) -> SoftmaxPolicy:
    theta, notes = _parameters(
        request,
        material,
        settings,
        objective,
        lambda theta, contexts, allowed: softmax(contexts @ theta.T, allowed),
    )
    return SoftmaxPolicy(request.log.action_names, theta, 1.0, material.model, method, material.notes + notes)


def _parameters(
    request: Request,
    material: Material,
    settings: list[Setting],
    objective: Callable[[Material, Setting], Objective],
    act: Act,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """θ (K, d) under the best setting, and how that was chosen."""

    def fit(part: Material, setting: Setting) -> np.ndarray:
        return maximise(
            part.log.contexts,
            part.allowed,
            objective(part, setting),
            l2=setting["l2"],
            n_actions=part.log.n_actions,
        )

    chosen, notes = choose(request, material, settings, fit, act)
    return fit(material, chosen), notes


def _strengths(request: Request) -> np.ndarray:
    return request.unit * np.array(STRENGTHS)
