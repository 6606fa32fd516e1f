"""Asking in plain NumPy, and worlds whose truth is known: scales of the actions drawn from the hyperprior."""

import numpy as np

import sparing
from reference.worth import worths
from sparing.model.prior import LEVEL, LOG_DEVIATION, SLOPES


def greedy_queue(learner, contexts, logged, about, calls):
    """(row, action, worth) of each call: the largest gain − price over all rows and actions, the calls before it answered as predicted.

    A reward that comes as predicted leaves θ̂ as it is, and shrinks V⁻¹.
    """
    theta, inverse = learner.sets.theta, learner.sets.inverse.copy()
    (rule,), everyone = learner.rules, np.ones(len(theta), dtype=bool)
    open_pairs = np.zeros((len(contexts), len(theta)), dtype=bool)
    open_pairs[:, about] = True
    open_pairs[np.arange(len(contexts)), logged] = False
    a, found = learner.sets.arrays, []
    logged_rows, live = a.logged[a.observed_slot], a.live[a.observed_slot].copy()
    for _ in range(calls):
        new = (logged_rows == 0) & (live < 2 * theta.shape[1]) & rule.stops_early
        values = np.full(open_pairs.shape, -np.inf)
        rows = learner.sets.live + np.bincount([pair[1] for pair in found], minlength=len(theta))
        new = (learner.sets.logged == 0) & (rows < 2 * theta.shape[1])
        for row, x in enumerate(contexts):
            left, sample = rule.rounds_left(0), learner.sets.arrays.context_sample
            noise = float(learner.sets.arrays.common)
            value = worths(
                theta, inverse, noise, sample, x, left=left, cost=rule.call_cost, eligible=everyone, new=new
            )
            loss = (theta @ x).max() - theta @ x
            values[row] = np.where(open_pairs[row], value + loss, -np.inf)
        row, action = np.unravel_index(values.argmax(), values.shape)
        if values[row, action] <= 0:
            break
        found.append((int(row), int(action), float(values[row, action])))
        open_pairs[row, action] = False
        live[action] += 1
        y = inverse[action] @ contexts[row]
        inverse[action] -= np.outer(y, y) / (1 + contexts[row] @ y)
    return found


class HyperpriorWorld:
    """Actions of which the last is new, with scales drawn from the hyperprior; normal or 0/1 rewards."""

    def __init__(self, seed, *, binary, actions=5, features=5, rows=600):
        rng = self.rng = np.random.default_rng([seed, int(binary), 91])
        self.binary, self.new = binary, actions - 1
        deviation, root = (0.45 if binary else 1.0), np.sqrt(features - 1)
        level, slope = (
            c * deviation * np.exp(LOG_DEVIATION * rng.standard_normal()) for c in (LEVEL, SLOPES)
        )
        scale = np.r_[level, np.full(features - 1, slope / root)]
        common = np.r_[0.5 * deviation, np.full(features - 1, 0.5 * deviation / root)]
        theta = common * rng.standard_normal(features) + scale * rng.standard_normal((actions, features))
        theta[:, 0] += 0.5 if binary else 0.0
        self.contexts = np.c_[np.ones(rows), rng.standard_normal((rows, features - 1))]
        means = self.contexts @ theta.T
        self.means = np.clip(means, 0.03, 0.97) if binary else means
        chosen = rng.integers(actions - 1, size=rows)
        self.log = sparing.Log.from_arrays(
            self.contexts,
            chosen,
            self.rewards(np.arange(rows), chosen),
            action_names=range(actions),
            feature_names=["one", *(f"x{i}" for i in range(1, features))],
        )

    def rewards(self, rows, actions):
        means = self.means[rows, actions]
        if self.binary:
            return (self.rng.random(len(means)) < means).astype(float)
        return means + self.rng.standard_normal(len(means))

    def gain(self, before, after):
        """What a policy's actions (n,) earn above another's, a round."""
        rows = np.arange(len(self.means))
        return float((self.means[rows, after] - self.means[rows, before]).mean())


def told_verdict(world, *, calls=40, batches=1, horizon=10_000):
    """The verdict after some answers, whether its interval holds the truth, the truth, and what the first queue expected."""
    from sparing.asking.ask import best_actions

    queue = sparing.ask(world.log, calls=calls, call_cost=0.02, horizon=horizon, actions=[world.new])
    expected, after = queue.expected_gain, None
    for _ in range(batches):
        rows = np.array([call.row for call in queue.calls], dtype=np.int64)
        after = queue.tell(world.rewards(rows, np.full(len(rows), world.new)).tolist())
        queue = after.queue
    everyone = np.ones(world.log.n_actions, dtype=bool)
    before = best_actions(queue.request.alone, world.contexts, world.log.counts > 0)
    truth = horizon * world.gain(before, best_actions(after.learner, world.contexts, everyone))
    verdict = after.verdict
    return verdict, verdict.low <= truth <= verdict.high, truth, expected
