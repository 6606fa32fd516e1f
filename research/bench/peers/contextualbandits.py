"""contextualbandits: LinUCB."""

import importlib
from importlib import metadata
from typing import Any

import numpy as np

_online: Any = importlib.import_module("contextualbandits.online")
VERSION = metadata.version("contextualbandits")


class LinUCB:
    """Its LinUCB without a prior of its own for untried arms and without an intercept."""

    def __init__(self, rounds: Any) -> None:
        self.policy = _online.LinUCB(
            nchoices=rounds.n_actions,
            alpha=1.0,
            lambda_=1.0,
            fit_intercept=False,
            use_float=False,
            method="sm",
            ucb_from_empty=True,
            beta_prior=None,
            random_state=1,
            njobs=1,
        )
        self.policy.partial_fit(rounds.contexts[-1:], np.array([0]), rounds.means[-1, :1])

    def context(self, x: Any) -> Any:
        """As it takes them."""
        return x[None, :]

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and learn."""
        action = self.policy.predict(x)
        self.policy.partial_fit(x, action, np.array([means[action[0]] + noise]))


CONTENDERS = {"LinUCB": LinUCB}
