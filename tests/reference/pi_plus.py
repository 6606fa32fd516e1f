"""π⁺ by sorting whole columns with NumPy."""

import numpy as np

UNLOGGED = -1
REST = 1e-9


def pi_plus(log, bound):
    """weights, thresholds, offsets, entry_actions, entry_mass of the log at M = bound."""
    groups, propensities = log.groups, log.propensities
    n_groups = int(groups.max()) + 1
    pairs, pair_of_row = np.unique(groups * log.n_actions + log.actions, return_inverse=True)
    value = np.bincount(pair_of_row, weights=log.rewards / propensities, minlength=len(pairs))
    smallest = np.full(len(pairs), np.inf)
    np.minimum.at(smallest, pair_of_row, propensities)
    group, action = pairs // log.n_actions, pairs % log.n_actions

    rest = 1 - np.bincount(group, weights=smallest, minlength=n_groups)
    rest[rest < REST] = 0
    rest[np.bincount(group, minlength=n_groups) >= support_sizes(log, n_groups)] = 0
    extra = np.flatnonzero(rest)
    group = np.concatenate([group, extra])
    action = np.concatenate([action, np.full(len(extra), UNLOGGED)])
    value = np.concatenate([value, np.zeros(len(extra))])
    share = np.concatenate([smallest, rest[extra]])
    cap = np.minimum(bound * share, 1.0)
    total = np.bincount(group, weights=cap, minlength=n_groups)
    cap /= np.minimum(total, 1.0)[group]

    order = np.lexsort((-value, group))
    group, action, cap = group[order], action[order], cap[order]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    taken = np.zeros(len(cap))
    for entry in range(1, len(cap)):
        if group[entry] == group[entry - 1]:
            taken[entry] = taken[entry - 1] + cap[entry - 1]
    mass = np.clip(1 - taken, 0, cap)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    weights = mass[place[pair_of_row]] / propensities
    return weights, log.rewards * np.minimum(weights, bound), offsets, action, mass


def support_sizes(log, n_groups):
    """How many actions each context could have taken in one of its rows or another."""
    if not log.support.known:
        return np.full(n_groups, log.n_actions)
    either = np.zeros((n_groups, log.n_actions), dtype=bool)
    np.logical_or.at(either, log.groups, log.support.mask())
    return either.sum(axis=1)
