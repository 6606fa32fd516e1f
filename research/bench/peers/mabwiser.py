"""MABWiser: LinUCB."""

import importlib
from typing import Any

_mab: Any = importlib.import_module("mabwiser.mab")
VERSION = str(_mab.__version__) if hasattr(_mab, "__version__") else ""


class LinUCB:
    """Its LinUCB; it must be fitted before it predicts, so it begins with one row."""

    def __init__(self, rounds: Any) -> None:
        policy = _mab.LearningPolicy.LinUCB(alpha=1.0, l2_lambda=1.0)
        self.mab = _mab.MAB(arms=list(range(rounds.n_actions)), learning_policy=policy, seed=0)
        self.mab.fit(decisions=[0], rewards=[float(rounds.means[-1, 0])], contexts=rounds.contexts[-1:])

    def context(self, x: Any) -> Any:
        """As it takes them."""
        return x[None, :]

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and learn."""
        action = self.mab.predict(x)
        self.mab.partial_fit(decisions=[action], rewards=[float(means[action]) + noise], contexts=x)


CONTENDERS = {"LinUCB": LinUCB}
