"""π⁺ and the thresholds of `log-beats`, by a linear program over all contexts at once."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import kron


def thresholds_and_answers(log, clip, priority):
    """{key: (threshold, logged answer, π⁺ (K,))} over the log's distinct contexts.

    threshold = mean over the context's rows of r·min(π⁺(a|x)/μ(a|x), M); the answer is the logged action
    with the best mean reward. Needs full distributions in the log.
    """
    rows_of = {}
    for row in range(log.n_rows):
        key = _key(log.contexts[row], None if log.context_ids is None else log.context_ids[row])
        rows_of.setdefault(key, []).append(row)
    groups = [np.array(rows) for rows in rows_of.values()]
    policies = best_policies(log, groups, clip)
    found = {}
    for key, rows, policy in zip(rows_of, groups, policies, strict=True):
        actions, rewards = log.actions[rows], log.rewards[rows]
        ratios = policy[actions] / log.support.distribution(rows)[np.arange(len(rows)), actions]
        threshold = float(np.mean(rewards * np.minimum(ratios, clip)))
        earned = {a: float(np.mean(rewards[actions == a])) for a in set(actions.tolist())}
        answer = min(earned, key=lambda a, earned=earned: (-earned[a], priority[a]))
        found[key] = (threshold, answer, policy)
    return found


def limits_and_answers(log, values, priority):
    """{key: (limit, answer)}: the highest lower limit at x of the actions logged there, and whose it is.

    values(x) gives the centre and half-width of every action's set, fitted to the log, (K,) each.
    """
    actions_of = {}
    for x, action in zip(log.contexts, log.actions.tolist(), strict=True):
        actions_of.setdefault(_key(x, None), (x, set()))[1].add(action)
    found = {}
    for key, (x, actions) in actions_of.items():
        centre, half = values(x)
        low = centre - half
        answer = min(actions, key=lambda a, low=low: (-low[a], priority[a]))
        found[key] = (float(low[answer]), answer)
    return found


def best_policies(log, groups, clip):
    """π⁺(·|x) of every context, (m, K): maximise Σ r_i·π(a_i|x_i)/μ_i, 0 ≤ π ≤ M·μ, Σ_a π = 1, by HiGHS.

    groups lists each context's rows; where μ differs between them the cap is its smallest value.
    """
    m, k = len(groups), log.n_actions
    value, caps = np.zeros((m, k)), np.zeros((m, k))
    for g, rows in enumerate(groups):
        chances = log.support.distribution(rows)
        np.add.at(
            value[g], log.actions[rows], log.rewards[rows] / chances[np.arange(len(rows)), log.actions[rows]]
        )
        smallest = chances.min(axis=0)
        caps[g, smallest > 0] = np.minimum(clip * smallest[smallest > 0], 1.0)
    one_each = kron(np.eye(m), np.ones((1, k)))
    bounds = np.stack([np.zeros(m * k), caps.reshape(-1)], axis=1)
    solved = linprog(-value.reshape(-1), A_eq=one_each, b_eq=np.ones(m), bounds=bounds)
    assert solved.success, solved.message
    return np.clip(solved.x, 0.0, None).reshape(m, k)


def find(found, x, context_id):
    """What is known of a context, by its id where one is given."""
    return found.get(_key(x, context_id))


def _key(x, context_id):
    """Which context it is: by its id, else by its vector's bytes (−0.0 as 0.0)."""
    return (x + 0.0).tobytes() if context_id is None else context_id
