"""Contexts that stand for future ones, in plain Python: a reservoir in which the log counts as 200 rounds."""

import numpy as np

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
    """Logged contexts (m, d), and live ones that replace them; `used` changes once a quarter of the places has."""

    def __init__(self, logged, key):
        self.logged, self.key, self.rounds, self.new = logged, key, 0, 0
        self.next, self.used = logged.copy(), logged.copy()

    def meet(self, x):
        place = int(uniform(self.key, self.rounds, 4) * (200 + self.rounds))
        self.rounds += 1
        if place < len(self.next) and np.linalg.norm(x) <= 10 * np.linalg.norm(self.logged, axis=1).max():
            self.next[place] = x
            self.new += 1
        if 4 * self.new >= len(self.next):
            self.used, self.new = self.next.copy(), 0
