"""The random numbers of a round, in plain integers: splitmix64 over (key, round), Box–Muller for normal ones."""

import math

WORD = 2**64 - 1


def mixed(word):
    """One step of splitmix64."""
    word = (word + 0x9E3779B97F4A7C15) & WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def key_of(seed, number):
    return mixed(mixed(seed) ^ number) >> 1


def uniform(key, place):
    return (mixed((mixed(key) + place) & WORD) >> 11) * 2.0**-53


class Luck:
    """A learner's normal numbers, round by round."""

    def __init__(self, key):
        self.key = key

    def normals(self, number, count):
        """What round `number` draws, (count,)."""
        return self.of_key(key_of(self.key, number), count)

    @staticmethod
    def of_key(key, count):
        """What the round of this key draws."""
        out = []
        for i in range(0, count, 2):
            size = math.sqrt(-2 * math.log(1 - uniform(key, 16 + i)))
            angle = 2 * math.pi * uniform(key, 17 + i)
            out += [size * math.cos(angle), size * math.sin(angle)]
        return out[:count]
