"""The regret and call bounds, each as one formula.

Throughout, growth is D = Σ_a log(det V_{T,a}/det V_{0,a}) over the learnt sets, radius is ρ_T, the largest
of theirs, and context_bound²/ridge is B. Regret bounds need radius_scale ≥ 1 and hold with probability 1 − δ.
"""

import numpy as np


def constant(*, context_bound: float, ridge: float) -> float:
    """c = B/log(1 + B) with B = S_x²/λ: u ≤ c·log(1 + u) for every u in [0, B]."""
    ratio = context_bound**2 / ridge
    return float(ratio / np.log1p(ratio))


def optimistic(*, calls: float, growth: float, radius: float, context_bound: float, ridge: float) -> float:
    """What the called rounds of an optimistic learner cost: 2ρ_T·sqrt(c·T'·D).

    With T' = T this is the bound of mOFUL (Theorem 1) and of a warm start.
    """
    c = constant(context_bound=context_bound, ridge=ridge)
    return float(2 * radius * np.sqrt(c * calls * growth))


def corrected(
    *,
    epsilon: float,
    rounds: float,
    calls: float,
    growth: float,
    radius: float,
    context_bound: float,
    ridge: float,
) -> float:
    """Corrected Theorem 2: 2εS_x(T−T') + εS_x·T' + 2ρ_T·sqrt(c·T'·D), D over a ∉ 𝓛.

    A skipped round compares two points, each off by εS_x. A called round may have passed over an action of
    𝓛 whose point is too low, by εS_x as well.
    """
    points = epsilon * context_bound * (2 * (rounds - calls) + calls)
    return points + optimistic(
        calls=calls, growth=growth, radius=radius, context_bound=context_bound, ridge=ridge
    )


def printed(
    *,
    epsilon: float,
    rounds: float,
    calls: float,
    growth: float,
    radius: float,
    context_bound: float,
    ridge: float,
) -> float:
    """Theorem 2 as printed, with the constants of its proof: εS_x(T−T') + 2ρ_T·sqrt(c·T'·D)."""
    return epsilon * context_bound * (rounds - calls) + optimistic(
        calls=calls, growth=growth, radius=radius, context_bound=context_bound, ridge=ridge
    )


def certified(
    *,
    tolerance: float,
    rounds: float,
    calls: float,
    growth: float,
    radius: float,
    context_bound: float,
    ridge: float,
) -> float:
    """Regret of `certified` that plays its leader: 2ρ_T·sqrt(c·T'·D) + τ(T−T')."""
    return tolerance * (rounds - calls) + optimistic(
        calls=calls, growth=growth, radius=radius, context_bound=context_bound, ridge=ridge
    )


def certified_calls(*, tolerance: float, growth: float, radius: float) -> float:
    """Calls of `certified`, at any radius_scale: D / log(1 + τ²/(4ρ_T²))."""
    return float(growth / np.log1p(tolerance**2 / (4 * radius**2)))
