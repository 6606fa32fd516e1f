"""Vowpal Wabbit as an outside baseline: the same rounds and the same luck as our learners meet.

Each action has one feature, its number, and all that its model sees are the context's features crossed with it
(`-q xa`), so the model is ours: one linear function an action. A reward r becomes the cost −r/s, s the largest
logged reward in size. Every round is called: Vowpal Wabbit has no rule to skip one.
"""

import importlib.metadata
import importlib.util
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from research.paper.experiment import Record
from sparing.errors import require
from sparing.log import Log
from sparing.simulation import Stream

BITS = 18
"""Of the table of weights: 2^18 places for at most a few thousand weights."""

SHARED = (
    "--cb_explore_adf --cb_type mtr -q xa --ignore_linear x --ignore_linear a --noconstant "
    f"-b {BITS} --random_seed 1 --quiet"
)
"""Options of both algorithms."""

PRIME = 16777619
"""By which Vowpal Wabbit hashes a pair of features: (first · PRIME) xor second."""

EXPLORATION = {"squarecb": "gamma_scale", "regcb": "mellowness"}
"""The algorithms, and the option by which each explores more or less."""


@dataclass(frozen=True)
class Tuned:
    """How one algorithm is set: its learning rate, and the number that says how much it explores."""

    algorithm: str
    rate: float
    exploration: float

    @property
    def options(self) -> str:
        """The command line."""
        explore = f"--{self.algorithm} --{EXPLORATION[self.algorithm]} {self.exploration:g}"
        return f"{SHARED} {explore} --learning_rate {self.rate:g}"


@dataclass(frozen=True)
class Chosen:
    """How Vowpal Wabbit is set in the synthetic worlds, on classes and on prompts."""

    worlds: tuple[Tuned, ...]
    classes: tuple[Tuned, ...]
    routing: tuple[Tuned, ...]


TUNED = Chosen(
    worlds=(Tuned("squarecb", 0.25, 1000.0), Tuned("regcb", 0.25, 1e-6)),
    classes=(Tuned("squarecb", 4.0, 30.0), Tuned("regcb", 2.0, 1e-2)),
    routing=(Tuned("squarecb", 0.25, 1000.0), Tuned("regcb", 0.25, 1e-4)),
)
"""The best of the grid in `research.paper.beyond.tuning`, by regret and, for classes, by held-out error, on seeds 1000 and 1001."""


def installed() -> str | None:
    """The version of Vowpal Wabbit's Python package; None where it cannot be imported."""
    if importlib.util.find_spec("vowpalwabbit") is None:
        return None
    try:
        return importlib.metadata.version("vowpalwabbit")
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def record(tuned: Tuned, version: str | None) -> Record:
    """All that a run of Vowpal Wabbit depends on."""
    return {
        "name": tuned.algorithm,
        "rate": tuned.rate,
        "exploration": tuned.exploration,
        "version": version,
    }


def meet(
    record: Record, log: Log, stream: Stream, fresh: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Let it learn the log and play every round; its actions (T,), and its policy's on the fresh contexts, (n,)."""
    with Vowpal(log, Tuned(record["name"], record["rate"], record["exploration"])) as learner:
        return learner.play(stream, rng), learner.actions(fresh)


class Vowpal:
    """One Vowpal Wabbit learner, warm-started from a log; close it, or use it in a `with`.

    Costs are scaled and bounded by the log's least and greatest reward.
    """

    def __init__(self, log: Log, tuned: Tuned) -> None:
        low, high = float(log.rewards.min()), float(log.rewards.max())
        self.scale = max(abs(low), abs(high))
        self.n_features = log.n_features
        self.lines = [f"|a {action}" for action in range(log.n_actions)]
        self.context = "shared |x " + " ".join(f"{i}:%.7g" for i in range(log.n_features))
        module = require("vowpalwabbit", extra="dev", purpose="comparing with Vowpal Wabbit")
        with tempfile.TemporaryDirectory() as folder:
            bounds = f"--cb_min_cost {-high / self.scale:.7g} --cb_max_cost {-low / self.scale:.7g}"
            path = Path(folder, "log.txt")
            path.write_text(self._text(log), encoding="ascii")
            self.workspace: Any = module.Workspace(f"{tuned.options} {bounds} --data {path}")
            self.workspace.run_parser()

    def __enter__(self) -> "Vowpal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.workspace.finish()

    def play(self, stream: Stream, rng: np.random.Generator) -> np.ndarray:
        """Draw from its distribution, observe and learn, round by round; the actions played, (T,)."""
        workspace, actions = self.workspace, np.empty(len(stream), dtype=np.int64)
        draws = rng.random(len(stream))
        for t, x in enumerate(stream.contexts):
            examples = workspace.parse([self.context % tuple(x), *self.lines])
            chances = np.cumsum(workspace.predict(examples))
            action = min(
                int(np.searchsorted(chances, draws[t] * chances[-1], side="right")), len(chances) - 1
            )
            chance = chances[action] - (chances[action - 1] if action else 0.0)
            examples[1 + action].set_label_string(self._label(stream.reward(t, action), chance))
            workspace.learn(examples)
            workspace.finish_example(examples)
            actions[t] = action
        return actions

    def actions(self, contexts: np.ndarray) -> np.ndarray:
        """Its greedy policy: the action of least expected cost for each context, (n,)."""
        return (contexts @ self.weights().T).argmin(axis=1)

    def weights(self) -> np.ndarray:
        """Its linear functions, (K, d)."""
        examples = self.workspace.parse([self.context % ((1.0,) * self.n_features), *self.lines])
        contexts = [examples[0].feature("x", i) for i in range(self.n_features)]
        names = [example.feature("a", 0) for example in examples[1:]]
        self.workspace.finish_example(examples)
        mask = 2**BITS - 1
        return np.array(
            [[self.workspace.get_weight(((PRIME * x) ^ name) & mask) for x in contexts] for name in names]
        )

    def _label(self, reward: float, chance: float) -> str:
        return f"0:{-reward / self.scale:.7g}:{chance:.7g}"

    def _text(self, log: Log) -> str:
        """The log's rows in Vowpal Wabbit's text format, every action listed, the played one labelled."""
        before = ["".join(f"{name}\n" for name in self.lines[:a]) for a in range(len(self.lines))]
        after = ["".join(f"{name}\n" for name in self.lines[a + 1 :]) for a in range(len(self.lines))]
        chances = np.ones(log.n_rows) if log.propensities is None else log.propensities
        return "".join(
            f"{self.context % tuple(x)}\n{before[a]}{self._label(reward, chance)} {self.lines[a]}\n{after[a]}\n"
            for x, a, reward, chance in zip(log.contexts, log.actions, log.rewards, chances, strict=True)
        )
