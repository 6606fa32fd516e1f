"""Small worlds, logs and streams for tests, made from NumPy's generator alone."""

from dataclasses import dataclass

import numpy as np

from sparing import Log


@dataclass(frozen=True)
class Rounds:
    """A stream: contexts (T, d), what every action would earn (T, K), and the contexts' ids or None."""

    contexts: np.ndarray
    rewards: np.ndarray
    context_ids: list | None = None

    def __len__(self):
        return len(self.contexts)


def parameters(seed, n_actions=6, n_features=3, offset=0.0):
    """True θ, (K, d)."""
    return np.random.default_rng([seed, 0]).standard_normal((n_actions, n_features)) + offset


def make_log(seed, theta, *, rows=120, distinct=None, never=(), noise=0.5, ids=False, share=0.7):
    """A log under a random policy, with its distributions; `distinct` contexts that come again.

    Each context supports a random `share` of the actions; those in `never` are never logged.
    """
    rng = np.random.default_rng([seed, 1])
    k, d = theta.shape
    m = rows if distinct is None else distinct
    which = np.arange(rows) if distinct is None else rng.integers(0, m, rows)
    contexts = rng.random((m, d))
    supported = rng.random((m, k)) < share
    supported[:, list(never)] = False
    loggable = np.setdiff1d(np.arange(k), list(never))
    supported[np.arange(m), rng.choice(loggable, m)] = True
    table = supported * (0.2 + rng.random((m, k)))
    table /= table.sum(axis=1, keepdims=True)
    actions = np.array([rng.choice(k, p=table[c]) for c in which], dtype=int)
    rewards = (contexts[which] * theta[actions]).sum(axis=1) + noise * rng.standard_normal(rows)
    return Log.from_arrays(
        contexts[which],
        actions,
        rewards,
        distribution=table[which],
        action_names=range(k),
        context_ids=[f"c{c}" for c in which] if ids else None,
    )


def make_rounds(seed, theta, rounds, *, log=None, noise=0.5):
    """Fresh contexts, or a log's contexts again in random order, with new luck."""
    rng = np.random.default_rng([seed, 2])
    again = None if log is None else rng.integers(0, log.n_rows, rounds)
    contexts = rng.random((rounds, theta.shape[1])) if again is None else log.contexts[again]
    luck = noise * rng.standard_normal((rounds, 1))
    has_ids = log is not None and log.context_ids is not None
    return Rounds(contexts, contexts @ theta.T + luck, log.context_ids[again].tolist() if has_ids else None)


def run(learner, rounds):
    """Play a stream with immediate updates; the decisions."""
    decisions = []
    for t in range(len(rounds)):
        context_id = None if rounds.context_ids is None else rounds.context_ids[t]
        decision = learner.decide(rounds.contexts[t], context_id=context_id)
        if decision.needs_reward:
            learner.update(decision, rounds.rewards[t, learner.action_names.index(decision.action)])
        decisions.append(decision)
    return decisions


def saved_bytes(learner, folder):
    """The learner's whole state, as the bytes it saves."""
    path = folder / "state.sparing"
    learner.save(path)
    return path.read_bytes()
