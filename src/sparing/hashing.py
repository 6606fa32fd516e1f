"""64-bit hashing: splitmix64 and word folding, in plain NumPy.

The functions take `uint64` arrays, or scalars in compiled code: `online.engine` compiles `mix64` from here.
Their values are persisted (fingerprints, splits, digests, replays), so they never change.
"""

import numpy as np

# 2⁶⁴ divided by the golden ratio, odd: its multiples are spread evenly over all words.
GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mix64(z: np.ndarray) -> np.ndarray:
    """Mix words: every bit of one flips about half of the others (the finaliser of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def splitmix64(z: np.ndarray) -> np.ndarray:
    """One step of splitmix64 from the states `z`."""
    return mix64(z + GAMMA)


def row_keys(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Pseudo-random keys (n,) of row numbers (n,), all distinct: the sequence of splitmix64 from state 0.

    Another seed gives other keys.
    """
    rows = np.asarray(rows, dtype=np.uint64)
    if seed:
        rows = rows ^ row_keys(np.array([seed], dtype=np.uint64))
    return mix64((rows + np.uint64(1)) * GAMMA)


def fold_word(state: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Hashes extended by one word each."""
    state = (state ^ words) * GAMMA
    return state ^ (state >> np.uint64(32))
