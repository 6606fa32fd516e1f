"""Contexts that stand for future ones, in plain Python: a reservoir in which the log counts as 200 rounds."""

import numpy as np
from scipy.stats import chi2

MASK = 2**64 - 1


def splitmix64(word):
    z = (word + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def uniform(key, number, place):
    """The number at a place of a round's stream, in [0, 1)."""
    stream = splitmix64(splitmix64(key) ^ number) >> 1
    return (splitmix64((splitmix64(stream) + place) & MASK) >> 11) * 2.0**-53


class Future:
    """Logged contexts (m, d), and live ones that take their places; `used` changes once a quarter of the places may have."""

    def __init__(self, logged, key, contexts=None):
        self.logged, self.key, self.rounds, self.new = logged, key, 0, 0
        self.contexts = logged if contexts is None else contexts  # of the whole log
        self.next, self.used, self.live = logged.copy(), logged.copy(), np.zeros(len(logged), dtype=bool)

    def meet(self, x):
        place = int(uniform(self.key, self.rounds, 4) * (200 + self.rounds))
        self.rounds += 1
        if place < len(self.next):
            self.next[place], self.live[place] = x, True
            self.new += 1
        if 4 * self.new >= len(self.next):
            self.used, self.new = np.where(self.counts()[:, None], self.next, self.logged), 0

    def counts(self):
        """Which places hold a live context that the logged ones do not stand for, (m,)."""
        (m, d), rows = self.logged.shape, len(self.contexts)
        gram = self.contexts.T @ self.contexts
        own = np.diag(gram)
        metric = np.linalg.inv(gram + np.diag(np.where(own > 0, own, own.mean())) / rows)
        reach = np.einsum("jd,de,je->j", self.logged, metric, self.logged).max()
        variance = np.einsum("jd,de,je->j", self.next, metric, self.next)
        unlike = variance > max(2 * reach, 0.23**2)
        like = self.live & ~unlike
        n = like.sum()
        shift = self.next[like].mean(axis=0) - self.logged.mean(axis=0) if n else np.zeros(d)
        shifted = shift @ metric @ shift * rows * n * m / (n + m) > chi2.ppf(0.9999, d)
        shifted = shifted and variance[like].mean() > 0.23**2
        lengths = np.linalg.norm(self.next, axis=1)
        return self.live & (shifted | unlike) & (lengths <= 10 * np.linalg.norm(self.logged, axis=1).max())
