"""coba: LinUCB over actions as indicator features, crossed with the context."""

import importlib
from importlib import metadata
from typing import Any

_learners: Any = importlib.import_module("coba.learners")
VERSION = metadata.version("coba")


class LinUCB:
    """Its LinUCBLearner; one matrix of (K·d)² stands for the K matrices of d²."""

    def __init__(self, rounds: Any) -> None:
        k = rounds.n_actions
        self.learner = _learners.LinUCBLearner(alpha=1, features=["ax"], seed=1)
        self.actions = [tuple(int(a == b) for b in range(k)) for a in range(k)]
        self.number = {action: a for a, action in enumerate(self.actions)}

    def context(self, x: Any) -> Any:
        """As it takes them."""
        return x.tolist()

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and learn."""
        action, probability = self.learner.predict(x, self.actions)[:2]
        reward = float(means[self.number[action]]) + noise
        self.learner.learn(x, action, reward, probability)


CONTENDERS = {"LinUCB": LinUCB}
