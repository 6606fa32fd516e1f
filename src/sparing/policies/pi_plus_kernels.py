"""π⁺ context by context, compiled. The plain twin is in tests/reference."""

import numpy as np

from sparing.native.compile import compiled
from sparing.policies.pi_plus import UNLOGGED

_ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.int64)
_FEW = 24


@compiled
def by_context(
    groups: np.ndarray, n_groups: int, actions: np.ndarray, rewards: np.ndarray, propensities: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Put rows of one context side by side, in their own order, so that what follows reads memory in order.

    Returns where each context begins (m + 1,), the place of each row (n,), and action, r/μ and μ at each
    place (n, 3); an action's number is exact as a float.
    """
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    for row in range(len(groups)):
        starts[groups[row] + 1] += 1
    for group in range(n_groups):
        starts[group + 1] += starts[group]
    place_of_row, sorted_rows = np.empty(len(groups), dtype=np.int64), np.empty((len(groups), 3))
    free = starts[:-1].copy()
    for row in range(len(groups)):
        place = free[groups[row]]
        free[groups[row]] = place + 1
        place_of_row[row] = place
        sorted_rows[place, 0] = actions[row]
        sorted_rows[place, 1] = rewards[row] / propensities[row]
        sorted_rows[place, 2] = propensities[row]
    return starts, place_of_row, sorted_rows


@compiled
def support_sizes(
    starts: np.ndarray, place_of_row: np.ndarray, sets: np.ndarray, set_of_row: np.ndarray
) -> np.ndarray:
    """How many actions any row of a context could have taken, (m,).

    The sets are packed bits; row i has the set i where `set_of_row` is empty.
    """
    set_at = np.empty(len(place_of_row), dtype=np.int64)
    for row in range(len(place_of_row)):
        set_at[place_of_row[row]] = set_of_row[row] if len(set_of_row) else row
    sizes, union = np.zeros(len(starts) - 1, dtype=np.int64), np.empty(sets.shape[1], dtype=np.uint8)
    for group in range(len(sizes)):
        union[:] = 0
        for place in range(starts[group], starts[group + 1]):
            if place == starts[group] or set_at[place] != set_at[place - 1]:
                for byte in range(len(union)):
                    union[byte] |= sets[set_at[place], byte]
        for byte in range(len(union)):
            sizes[group] += _ONES[union[byte]]
    return sizes


@compiled
def list_entries(
    starts: np.ndarray, sorted_rows: np.ndarray, n_actions: int, sizes: np.ndarray, least_rest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each context's logged actions in increasing order, with their Σ r/μ and smallest μ, then the unlogged.

    `sizes` are the contexts' support sizes, empty where all actions may be supported. Returns the entry of
    each place (n,), where a context's entries begin (m + 1,), and the entries' actions, values and shares.
    """
    n, n_groups = len(sorted_rows), len(starts) - 1
    entry_at, offsets = np.empty(n, dtype=np.int64), np.zeros(n_groups + 1, dtype=np.int64)
    listed = np.empty(n + n_groups, dtype=np.int64)
    value, share = np.empty(n + n_groups), np.empty(n + n_groups)
    seen, ordered = np.empty(n_actions, dtype=np.int64), np.empty(n_actions, dtype=np.int64)
    total, least = np.zeros(n_actions), np.full(n_actions, np.inf)
    where = np.full(n_actions, -1, dtype=np.int64)
    end = 0
    for group in range(n_groups):
        count = 0
        for place in range(starts[group], starts[group + 1]):
            action = np.int64(sorted_rows[place, 0])
            seen[count] = action
            count += where[action] < end  # not in this context before
            where[action] = end
            total[action] += sorted_rows[place, 1]
            least[action] = min(least[action], sorted_rows[place, 2])
        if count > _FEW:
            ordered[:count] = np.sort(seen[:count])
        else:
            for entry in range(count):  # counting has no branches to mispredict
                rank = 0
                for other in range(count):
                    rank += seen[other] < seen[entry]
                ordered[rank] = seen[entry]
        logged = 0.0
        for action in ordered[:count]:
            listed[end], value[end], share[end] = action, total[action], least[action]
            logged += least[action]
            where[action], total[action], least[action] = end, 0.0, np.inf
            end += 1
        for place in range(starts[group], starts[group + 1]):
            entry_at[place] = where[np.int64(sorted_rows[place, 0])]
        most = sizes[group] if len(sizes) else n_actions
        if 1.0 - logged >= least_rest and count < most:
            listed[end], value[end], share[end] = UNLOGGED, 0.0, 1.0 - logged
            end += 1
        offsets[group + 1] = end
    return entry_at, offsets, listed[:end].copy(), value[:end], share[:end]


@compiled
def give_out(
    offsets: np.ndarray, listed: np.ndarray, value: np.ndarray, share: np.ndarray, bound: float
) -> tuple[np.ndarray, np.ndarray]:
    """Order each context's entries by value and fill them up to their caps, until a mass of 1 is given.

    Equal values keep their order, and what is no number comes last. Puts `listed` in that order; returns the mass in it, and the mass of each entry where it was. Caps that
    come to less than 1 are scaled up to it.
    """
    mass, mass_before = np.empty(len(listed)), np.empty(len(listed))
    order, actions = np.empty(len(listed), dtype=np.int64), listed.copy()
    for group in range(len(offsets) - 1):
        begin, end = offsets[group], offsets[group + 1]
        caps = values = 0.0
        for entry in range(begin, end):
            values += value[entry]
            share[entry] = min(bound * share[entry], 1.0)
            caps += share[entry]
        caps = min(caps, 1.0)
        if end - begin > _FEW or np.isnan(values):
            order[begin:end] = begin + np.argsort(-value[begin:end], kind="mergesort")
        else:
            for entry in range(begin, end):
                rank = begin
                for other in range(begin, entry):
                    rank += value[other] >= value[entry]
                for other in range(entry + 1, end):
                    rank += value[other] > value[entry]
                order[rank] = entry
        taken = 0.0
        for place in range(begin, end):
            entry = order[place]
            cap = share[entry] if caps == 1.0 else share[entry] / caps
            mass_before[entry] = mass[place] = min(max(1.0 - taken, 0.0), cap)
            listed[place] = actions[entry]
            taken += cap
    return mass, mass_before


@compiled
def single_rows(
    groups: np.ndarray,
    actions: np.ndarray,
    rewards: np.ndarray,
    propensities: np.ndarray,
    more: np.ndarray,
    bound: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """π⁺ where every row is a context of its own: the same, row by row, without sorting.

    `more` (n,) says where there are supported unlogged actions. Returns the mass of each row's action (n,),
    offsets (n + 1,), and the entries' actions and mass.
    """
    n = len(groups)
    offsets = np.zeros(n + 1, dtype=np.int64)
    for row in range(n):
        offsets[groups[row] + 1] = 2 if more[row] else 1
    for group in range(n):
        offsets[group + 1] += offsets[group]
    own, listed, mass = np.empty(n), np.empty(offsets[n], dtype=np.int64), np.empty(offsets[n])
    for row in range(n):
        propensity, place = propensities[row], offsets[groups[row]]
        cap = min(bound * propensity, 1.0)
        unlogged = min(bound * (1.0 - propensity), 1.0) if more[row] else 0.0
        caps = min(cap + unlogged, 1.0)
        cap, unlogged = cap / caps, unlogged / caps
        first = not more[row] or rewards[row] / propensity >= 0.0
        own[row] = min(1.0 if first else max(1.0 - unlogged, 0.0), cap)
        logged, rest = (place, place + 1) if first else (place + 1, place)
        listed[logged], mass[logged] = actions[row], own[row]
        if more[row]:
            listed[rest] = UNLOGGED
            mass[rest] = min(max(1.0 - cap, 0.0) if first else 1.0, unlogged)
    return own, offsets, listed, mass
