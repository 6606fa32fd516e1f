"""The one hot loop of the offline learners, compiled."""

import numpy as np

from sparing.native.compile import compiled


@compiled
def descend(
    contexts: np.ndarray,
    mask: np.ndarray,
    costs: np.ndarray,
    order: np.ndarray,
    priority: np.ndarray,
    epsilon: float,
    epsilon_decay: float,
    eta: float,
    eta_decay: float,
) -> np.ndarray:
    """Direct loss minimisation over the rows in `order`; the mean of θ over all steps, (K, d).

    Step t: ŷ = argmax θ_a·x and y⁻ = argmax(θ_a·x − ε_t·cost_a) over the row's allowed actions, ties to
    the smaller priority number; then θ_{y⁻} += (η_t/ε_t)·x and θ_ŷ −= (η_t/ε_t)·x, with
    ε_t = ε·t^−epsilon_decay and η_t = η·t^−eta_decay.
    """
    n_actions, d = costs.shape[1], contexts.shape[1]
    theta = np.zeros((n_actions, d))
    early = np.zeros((n_actions, d))
    for step in range(len(order)):
        row = order[step]
        width = epsilon * (step + 1.0) ** -epsilon_decay
        leader, better = -1, -1
        top, top_better = 0.0, 0.0
        for a in range(n_actions):
            if not mask[row, a]:
                continue
            score = 0.0
            for i in range(d):
                score += theta[a, i] * contexts[row, i]
            if leader < 0 or score > top or (score == top and priority[a] < priority[leader]):
                leader, top = a, score
            moved = score - width * costs[row, a]
            if better < 0 or moved > top_better or (moved == top_better and priority[a] < priority[better]):
                better, top_better = a, moved
        if better != leader:
            size = eta * (step + 1.0) ** -eta_decay / width
            for i in range(d):
                change = size * contexts[row, i]
                theta[better, i] += change
                theta[leader, i] -= change
                # The change is missing from the means of the `step` steps before it.
                early[better, i] += step * change
                early[leader, i] -= step * change
    return theta - early / max(len(order), 1)
