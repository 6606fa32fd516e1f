"""Vowpal Wabbit: cb_explore_adf with SquareCB, RegCB and a bag of five; another algorithm, fitted by SGD."""

import importlib
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

_vw: Any = importlib.import_module("vowpalwabbit")
VERSION = metadata.version("vowpalwabbit")


def explorer(option: str) -> Callable[[Any, dict[str, Any]], Any]:
    """A contender that explores in this way; the actions' lines are made once, the context's beforehand."""

    def make(worlds: Any, spec: dict[str, Any]) -> Any:
        class Explorer(worlds.Agent):  # type: ignore[misc]
            def __init__(self, rounds: Any) -> None:
                self.workspace = _vw.Workspace(f"--cb_explore_adf {option} -q xa -b 22 --quiet")
                self.lines = [f"|a {a}" for a in range(rounds.n_actions)]
                self.rng = np.random.default_rng(0)

            def context(self, x: Any) -> Any:
                return "shared |x " + " ".join(f"{i}:{value:.9g}" for i, value in enumerate(x))

            def step(self, x: Any, means: Any, noise: float) -> None:
                chances = np.cumsum(self.workspace.predict([x, *self.lines]))
                drawn = np.searchsorted(chances, self.rng.random() * chances[-1], side="right")
                action = min(int(drawn), len(chances) - 1)
                chance = chances[action] - (chances[action - 1] if action else 0.0)
                labelled = [x, *self.lines]
                labelled[action + 1] = f"0:{-(means[action] + noise):.9g}:{max(chance, 1e-6):.9g} |a {action}"
                self.workspace.learn(labelled)

            def close(self) -> None:
                self.workspace.finish()

        return worlds.Steps(spec, Explorer)

    return make


CONTENDERS = {
    "SquareCB": explorer("--squarecb"),
    "RegCB": explorer("--regcb"),
    "bag of 5": explorer("--bag 5"),
}
