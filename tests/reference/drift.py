"""Shift and forgetting in plain NumPy: every set computed afresh from all rows and their weights."""

import math

import numpy as np

from reference.future import MASK, splitmix64

SHIFTS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
ROWS = 20.0


def offset(action, half_life):
    """By how much an action fades before others, in twentieths of a round."""
    number = splitmix64(splitmix64(action) & MASK) >> 11
    return int(number * 2.0**-53 * half_life)


class Moving:
    """The sets of a posterior learner, from its prior and the log on; live rows as they come."""

    def __init__(self, learner, log, *, half_life=0, shift=0.0):
        k, d = learner.n_actions, learner.n_features
        begin, every = learner.sets.origins, np.arange(k)
        rows, columns = np.triu_indices(d)
        self.prior = np.empty((k, d, d))
        self.prior[:, rows, columns] = self.prior[:, columns, rows] = begin.matrices(every)
        self.pull = begin.responses(every)
        self.logged, self.sums, self.counts = self.prior.copy(), self.pull.copy(), np.zeros(k, dtype=int)
        for x, a, r in zip(log.contexts, log.actions, log.rewards, strict=True):
            self.logged[a] += np.outer(x, x)
            self.sums[a] += r * x
            self.counts[a] += 1
        self.noise, self.spread = learner.prior.noise, learner.prior.spread
        self.half_life, self.shift, self.now = half_life, shift, 0
        self.rows = [[] for _ in range(k)]  # x, r, and how often the action had faded before

    def fades(self, action):
        return (20 * self.now + offset(action, self.half_life)) // self.half_life if self.half_life else 0

    def learn(self, action, x, reward):
        self.rows[action].append((np.array(x), reward, self.fades(action)))

    def widened(self, precision, shift):
        """(V⁻¹ + τ²S/σ²)⁻¹."""
        covariance = np.linalg.inv(precision) + np.diag((shift * self.spread / self.noise) ** 2)
        return np.linalg.inv(covariance)

    def start(self, action, shift):
        """Precision and response of what the log and the prior say of an action, at a shift."""
        kept = 0.5 ** (self.fades(action) / 20) if self.rows[action] or self.counts[action] else 1.0
        kept = kept if self.counts[action] else 1.0  # without logged rows both parts are the prior
        log, prior = self.widened(self.logged[action], shift), self.widened(self.prior[action], shift)
        means = (
            np.linalg.solve(self.logged[action], self.sums[action]),
            np.linalg.solve(self.prior[action], self.pull[action]),
        )
        return kept * log + (1 - kept) * prior, kept * log @ means[0] + (1 - kept) * prior @ means[1]

    def live(self, action):
        """Weights (n,), contexts (n, d) and rewards (n,) of an action's live rows."""
        fades = self.fades(action)
        found = self.rows[action]
        weights = np.array([0.5 ** ((fades - before) / 20) for _, _, before in found])
        x = np.array([row[0] for row in found]).reshape(len(found), len(self.spread))
        return weights, x, np.array([row[1] for row in found])

    def sets(self):
        """V (K, d, d) and b (K, d)."""
        found = []
        for action in range(len(self.prior)):
            gram, response = self.start(action, self.shift)
            weights, x, r = self.live(action)
            found.append((gram + (x.T * weights) @ x, response + x.T @ (weights * r)))
        return tuple(map(np.array, zip(*found, strict=True)))

    def evidence(self, shift):
        """Log evidence of the live rewards: normal given their noise, whose variance is known as by twenty rows."""
        volume, squares, n = 0.0, 0.0, 0
        for action in range(len(self.prior)):
            weights, x, r = self.live(action)
            if not len(r) or self.counts[action] < len(self.spread):
                continue
            gram, response = self.start(action, shift)
            root = np.sqrt(weights)
            away, x = root * (r - x @ np.linalg.solve(gram, response)), root[:, None] * x
            spread = np.eye(len(r)) + x @ np.linalg.solve(gram, x.T)
            volume -= 0.5 * np.linalg.slogdet(spread)[1]
            squares += away @ np.linalg.solve(spread, away)
            n += weights.sum()
        return volume - 0.5 * (ROWS + n) * math.log1p(squares / (ROWS * self.noise**2))

    def review(self):
        """The likeliest shift, and the log Bayes factor of any against none; the shift is taken on if that is at least 100 to 1."""
        found = np.array([self.evidence(shift) for shift in SHIFTS]) - self.evidence(0.0)
        factor = float(np.log(np.mean(np.exp(found))))
        if factor >= math.log(100):
            self.shift = max(self.shift, SHIFTS[int(found.argmax())])
        return factor
