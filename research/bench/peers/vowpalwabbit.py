"""Vowpal Wabbit: cb_explore_adf with SquareCB, RegCB and a bag of five; another algorithm, fitted by SGD."""

import importlib
from importlib import metadata
from typing import Any

import numpy as np

_vw: Any = importlib.import_module("vowpalwabbit")
VERSION = metadata.version("vowpalwabbit")


class Explorer:
    """Explores by an option; the actions' lines are made once, the context's beforehand."""

    option = ""

    def __init__(self, rounds: Any) -> None:
        self.workspace = _vw.Workspace(f"--cb_explore_adf {self.option} -q xa -b 22 --quiet")
        self.lines = [f"|a {a}" for a in range(rounds.n_actions)]
        self.rng = np.random.default_rng(0)

    def context(self, x: Any) -> Any:
        """As a line of its text format."""
        return "shared |x " + " ".join(f"{i}:{value:.9g}" for i, value in enumerate(x))

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and learn."""
        chances = np.cumsum(self.workspace.predict([x, *self.lines]))
        drawn = np.searchsorted(chances, self.rng.random() * chances[-1], side="right")
        action = min(int(drawn), len(chances) - 1)
        chance = chances[action] - (chances[action - 1] if action else 0.0)
        labelled = [x, *self.lines]
        labelled[action + 1] = f"0:{-(means[action] + noise):.9g}:{max(chance, 1e-6):.9g} |a {action}"
        self.workspace.learn(labelled)

    def close(self) -> None:
        """Give back its memory."""
        self.workspace.finish()


class SquareCB(Explorer):
    """By inverse gaps."""

    option = "--squarecb"


class RegCB(Explorer):
    """By confidence bounds."""

    option = "--regcb"


class Bag(Explorer):
    """By five models, each of other rows."""

    option = "--bag 5"


CONTENDERS = {"SquareCB": SquareCB, "RegCB": RegCB, "bag of 5": Bag}
