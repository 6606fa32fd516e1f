"""river: LinUCBDisjoint."""

import importlib
from importlib import metadata
from typing import Any

_bandit: Any = importlib.import_module("river.bandit")
VERSION = metadata.version("river")


class LinUCB:
    """Its LinUCBDisjoint, which takes contexts as dicts."""

    def __init__(self, rounds: Any) -> None:
        self.policy = _bandit.LinUCBDisjoint(alpha=1.0, beta=1.0, seed=0)
        self.arms = list(range(rounds.n_actions))

    def context(self, x: Any) -> Any:
        """As it takes them."""
        return dict(enumerate(x.tolist()))

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and learn."""
        action = self.policy.pull(self.arms, context=x)
        self.policy.update(action, x, float(means[action]) + noise)


CONTENDERS = {"LinUCBDisjoint": LinUCB}
