"""Real reward matrices, every action's reward known in every row, and logs with a gap drawn from them.

Four of them may not be redistributed: they are read from the folder named by SPARING_MATRICES (`NAME.npz` with `X` (n, d) and
`R` (n, K)). The others are fetched by `sparing.simulation.datasets`.
"""

import functools
import os
from pathlib import Path

import numpy as np

from sparing.errors import DataError
from sparing.log import Log, Support
from sparing.simulation import RoutingWorld, datasets
from sparing.simulation.worlds import Stream

FOLDER = "SPARING_MATRICES"
OWN = ("routellm", "llmrouter", "translation", "reactions")
NAMES = (*OWN, "llm-routing", "pendigits", "satimage", "segment", "letter", "optdigits", "texture")
GAPS = ("best", "third", "worst", "region")
"""Which actions the log never tried: the best on average, 30 % of them, the worst, or the best in half of all contexts."""

MOST = 2000  # rows of a log, and live rounds


@functools.cache
def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Contexts with a constant and standardised features (n, d), and rewards (n, K)."""
    if name in OWN:
        if FOLDER not in os.environ:
            raise DataError(
                f"{name} may not be redistributed; name the folder that has {name}.npz in {FOLDER}"
            )
        with np.load(Path(os.environ[FOLDER]) / f"{name}.npz", allow_pickle=False) as arrays:
            features, rewards = arrays["X"].astype(float), arrays["R"].astype(float)
    elif name == "llm-routing":
        world = RoutingWorld(datasets.load("llm-routing"), cost_weight=3.0, features="prompt_features")
        features, rewards = np.asarray(world.features), np.asarray(world.means)
    else:
        found = datasets.load(name)
        features, rewards = found.features, np.eye(len(found.classes))[found.labels]
    deviation = features.std(axis=0)
    features = (features - features.mean(axis=0))[:, deviation > 0] / deviation[deviation > 0]
    return np.column_stack([np.ones(len(features)), features]), rewards


def problem(name: str, gap: str, seed: int) -> tuple[Log, Stream, float]:
    """A log with a gap, uniform over what it may play; the live rounds, rows that are not in it; and the rewards' deviation."""
    contexts, rewards = load(name)
    rng = np.random.default_rng([seed, 77])
    (n, k), order = rewards.shape, rng.permutation(len(rewards))
    half = min(n // 2, MOST)
    logged, live = order[:half], order[half : half + MOST]
    mean, possible = rewards[logged].mean(axis=0), np.ones((half, k), dtype=bool)
    if gap == "third":
        possible[:, rng.permutation(k)[: max(1, round(0.3 * k))]] = False
    elif gap == "region":
        score = contexts[logged, 1:] @ rng.standard_normal(contexts.shape[1] - 1)
        possible[score > np.median(score), mean.argmax()] = False
    else:
        possible[:, mean.argmax() if gap == "best" else mean.argmin()] = False
    chances = possible / possible.sum(axis=1, keepdims=True)
    actions = (chances.cumsum(axis=1) < rng.random((half, 1))).sum(axis=1).clip(0, k - 1)
    rows = np.arange(half)
    log = Log.from_indices(
        contexts[logged],
        actions.astype(np.int32),
        rewards[logged][rows, actions],
        tuple(range(k)),
        propensities=chances[rows, actions],
        support=Support.from_distribution(chances),
    )
    stream = Stream(contexts=contexts[live], means=rewards[live], draws=np.zeros(len(live)))
    return log, stream, float(rewards[logged].std())
