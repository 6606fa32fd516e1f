"""Runs in the environment of the library that its argument names, and imports nothing of ours.

A line of JSON on its input names a folder with `meeting.npz`: the log, the rounds to play and what each action would
earn in them, contexts for the final policy, a seed. The answer is `played.npz` beside it and an empty object.
"""

import importlib
import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np


class Thompson:
    """bayesianbandits: a Bayesian linear regression for each action, its scales by evidence, Thompson sampling.

    All as the library has it by default; it learns the log as one batch, live rewards one by one.
    """

    def __init__(self, meeting: Any) -> None:
        library: Any = importlib.import_module("bayesianbandits")
        arms = [
            library.Arm(action, learner=library.EmpiricalBayesNormalRegressor())
            for action in range(int(meeting["n_actions"]))
        ]
        self.agent = library.ContextualAgent(
            arms, library.ThompsonSampling(), random_seed=int(meeting["seed"])
        )
        for action, arm in enumerate(arms):
            rows = meeting["actions"] == action
            if rows.any():
                arm.learner.fit(meeting["logged"][rows], meeting["rewards"][rows])

    def step(self, x: Any, earned: Any) -> int:
        """Decide and learn."""
        (action,) = self.agent.pull(x[None])
        self.agent.update(x[None], earned[action : action + 1])
        return int(action)

    def final(self, contexts: Any) -> Any:
        """The action of the greatest mean."""
        means = [arm.learner.predict(contexts) for arm in self.agent.arms]
        return np.argmax(means, axis=0)


class LinUCB:
    """ParetoBandit's disjoint LinUCB with the settings its authors chose for these three models."""

    def __init__(self, meeting: Any) -> None:
        library: Any = importlib.import_module("pareto_bandit.policy")
        chosen: Any = importlib.import_module("pareto_bandit.config").BEST_K3_HPARAMS
        self.names = [str(action) for action in range(int(meeting["n_actions"]))]
        self.policy = library.DisjointLinUCBPolicy(
            self.names,
            dim=meeting["logged"].shape[1],
            alpha=chosen["alpha"],
            forgetting_factor=chosen["forgetting_factor"],
            seed=int(meeting["seed"]),
        )
        rows = zip(meeting["logged"], meeting["actions"], meeting["rewards"], strict=True)
        for x, action, reward in rows:
            self.policy.update(self.names[action], x, float(reward))

    def step(self, x: Any, earned: Any) -> int:
        """Decide and learn."""
        name, _ = self.policy.select_arm(x)
        self.policy.mark_selected(name)
        self.policy.update(name, x, float(earned[int(name)]), advance_time=False)
        return int(name)

    def final(self, contexts: Any) -> Any:
        """The action of the greatest mean."""
        return np.argmax([contexts @ self.policy.theta[name] for name in self.names], axis=0)


LIBRARIES: dict[str, Any] = {"bayesianbandits": Thompson, "paretobandit": LinUCB}


def play(library: Any, folder: str) -> None:
    """Play a meeting, and write what was played."""
    with np.load(Path(folder, "meeting.npz")) as file:
        meeting = dict(file)
    learner = library(meeting)
    rounds = zip(meeting["contexts"], meeting["earned"], strict=True)
    actions = np.array([learner.step(x, earned) for x, earned in rounds], dtype=np.int64)
    fresh = meeting["fresh"]
    final = learner.final(fresh) if len(fresh) else np.empty(0, dtype=np.int64)
    np.savez(Path(folder, "played.npz"), actions=actions, final=final)


def main(name: str) -> None:
    """Answer until there are no more lines."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is not an answer

    def say(answer: dict[str, str]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    say({"version": metadata.version(name)})
    for line in sys.stdin:
        try:
            play(LIBRARIES[name], json.loads(line)["folder"])
            say({})
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main(sys.argv[1])
