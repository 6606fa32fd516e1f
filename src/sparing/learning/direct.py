"""Policy restriction by direct loss minimisation: linear scores, both argmaxes on the support."""

from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.learning.choosing import Setting, choose, grid
from sparing.learning.linear import greedily
from sparing.learning.material import Material, Request, gather
from sparing.learning.objectives import completed_rewards
from sparing.learning.scores import crossfitted_scores
from sparing.model.assumptions import positive
from sparing.policies.policy import GreedyPolicy

WIDTHS = (1.0, 0.5, 3.0)
"""ε at the first step, in units of sqrt(η·mean ‖x‖²/deviation of the reward): only ε²/η times the cost,
beside scores that grow by ‖x‖², decides which path θ takes."""

COMPLETIONS = ("dr", "ips")


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
    if completion not in COMPLETIONS:
        raise SettingError(f"completion={completion!r}; must be one of {', '.join(COMPLETIONS)}")
    if not (isinstance(epochs, int) and epochs >= 1):
        raise SettingError(f"epochs={epochs!r}; must be a whole number, 1 or more")
    positive("eta", eta)
    size = float((log.contexts**2).sum(axis=1).mean()) or 1.0
    settings = grid(epsilon=(epsilon, np.array(WIDTHS) * np.sqrt(eta * size / request.unit)))
    for setting in settings:
        positive("epsilon", setting["epsilon"])
    for name, value in (("epsilon_decay", epsilon_decay), ("eta_decay", eta_decay)):
        if not 0 <= value < np.inf:
            raise SettingError(f"{name}={value}; must be a finite number, 0 or more")

    def fit(part: Material, setting: Setting) -> np.ndarray:
        if completion == "dr":
            rewards = crossfitted_scores(part.log, ridge, request)
        else:
            rewards = completed_rewards(part.log, np.zeros((part.log.n_rows, part.log.n_actions)))
        assert part.allowed is not None
        rng = np.random.default_rng([request.seed, 22])
        order = np.concatenate([rng.permutation(part.log.n_rows) for _ in range(epochs)])
        schedule = (setting["epsilon"], epsilon_decay, float(eta), eta_decay)
        theta: np.ndarray = descend(
            part.log.contexts, part.allowed, -rewards, order, request.priority, *map(float, schedule)
        )
        return theta

    chosen, notes = choose(request, material, settings, fit, greedily(request.priority))
    return GreedyPolicy(
        log.action_names,
        fit(material, chosen),
        request.priority,
        material.model,
        "opr-dlm",
        material.notes + notes,
    )
