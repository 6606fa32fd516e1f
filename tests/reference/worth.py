"""What a call is worth, in plain NumPy over all actions, contexts and numbers of calls at once."""

import math

import numpy as np
from scipy.special import ndtr


def psi(gap, s):
    """E[(s·Z − gap)⁺]."""
    u = np.minimum(gap / np.maximum(s, 1e-300), 1e3)
    return np.where(s > 0, s * np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi) - gap * ndtr(-u), 0.0)


def worths(
    theta,
    inverse,
    noise,
    reservoir,
    x,
    *,
    left,
    cost,
    eligible,
    active=None,
    misfit=0.0,
    paid=0.0,
    later=0.0,
    new=None,
    loses=True,
):
    """(K,): max_n (H − n + 1)·mean_j ψ(g_j, s_j(n))/n − c − (max m − m_a); −∞ for actions that may not be played.

    theta (K, d), inverse (K, d, d) = Σ/σ², reservoir (m, d); `eligible` and `active` (K,) say who may be played now and later.
    Means are of the reward less the actions' known costs (K,): `paid` now, `later` in rounds to come.
    n calls on a `new` action (K,) count as (n + 2)/3. In the shadow playing the action `loses` nothing.
    """
    later = np.zeros(len(theta)) + later
    k = len(theta)
    active = np.ones(k, dtype=bool) if active is None else active
    u = noise**2 * (inverse @ x)  # Σx, (K, d)
    n = np.array([2**i for i in range(8) if 2**i <= max(1, left / 2)], dtype=float)
    variance = (u @ x)[:, None] * n + noise**2 + misfit**2
    s = np.abs(u @ reservoir.T)[:, :, None] * np.sqrt(n / variance)[:, None, :]  # (K, m, n)
    net = theta @ reservoir.T - later[:, None]
    means = np.where(active[:, None], net, -np.inf)  # (K, m)
    others = np.array([np.delete(means, a, axis=0).max(axis=0, initial=-np.inf) for a in range(k)])
    gap = np.abs(others - net)
    gains = psi(gap[:, :, None], s).mean(axis=1) if k > 1 else np.zeros((1, len(n)))
    mean = theta @ x - paid
    loss = mean[eligible].max() - mean if loses else 0.0
    counted = n if new is None else np.where(new[:, None], (n + 2) / 3, n)
    found = ((left - n + 1) * gains / counted).max(axis=1) - cost - loss
    return np.where(eligible, found, -np.inf)


def costs_of(learner, costs=None):
    """The costs of a round, (K,)."""
    known = learner.action_costs if costs is None else costs
    return np.zeros(learner.n_actions) if known is None else known


def priority(learner, costs=None):
    """Who wins ties, (K,): the cheaper, then by the seed."""
    return np.lexsort((learner.sets.ties, costs_of(learner, costs))).argsort()


def expected(learner, x, eligible=None, *, ahead=False, costs=None, loses=True):
    """Who is played and whether it is called, by the definition; and what the call is worth."""
    sets, rule = learner.sets, learner.rules[0]
    slots = sets.arrays.pending_slot if ahead else sets.arrays.observed_slot
    inverse = np.array([unpacked(sets.arrays.inverse[slot], sets.shape[1]) for slot in slots])
    allowed = learner.active() if eligible is None else eligible
    found = worths(
        sets.arrays.theta[slots],
        inverse,
        sets.arrays.common,
        sets.arrays.context_sample,
        x,
        left=min(rule.rounds_left(learner.rounds), (learner.half_life or math.inf) / math.log(2)),
        cost=rule.call_cost,
        eligible=allowed,
        active=learner.active(),
        misfit=sets.misfit,
        paid=costs_of(learner, costs),
        later=costs_of(learner),
        new=(sets.arrays.logged[slots] == 0)
        & (sets.arrays.live[slots] < 2 * sets.shape[1])
        & rule.stops_early,
        loses=loses,
    )
    spent = rule.calls is not None and learner.calls >= rule.calls
    first = -priority(learner, costs)
    if found.max() > 0 and not spent and rule.rounds_left(learner.rounds) > 0:
        # Actions without rows of their own are exactly alike; rounding in the definition may part them.
        near = found >= found.max() * (1 - 1e-9)
        return int(np.where(near, first, -np.inf).argmax()), True, found.max()
    mean, _ = sets.evaluate(x, pending=ahead)
    mean = mean - costs_of(learner, costs)
    return first_of(np.where(allowed, mean, -np.inf), first), False, 0.0


def first_of(scores, first):
    """The largest, of equals the one with priority."""
    return int(np.where(scores == scores.max(), first, -np.inf).argmax())


def unpacked(triangle, d):
    full = np.empty((d, d))
    rows, columns = np.triu_indices(d)
    full[rows, columns] = full[columns, rows] = triangle[: len(rows)]
    return full
