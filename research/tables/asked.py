"""Answers that `ask` chooses against answers chosen at random: what the policy earns after them, each action in turn new."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from research import matrices
from research.paper.experiment import Record
from research.paper.frame import Frame
from research.tables.part import Part, line, table
from sparing.asking.answers import Answer
from sparing.asking.ask import ask
from sparing.log import Log
from sparing.online.learner import Learner

ACTIONS = {"routellm": 2, "llmrouter": 9, "translation": 13, "reactions": 12, "llm-routing": 3}
"""The matrices, and how many actions each has."""

CANDIDATES = 4
"""Contexts per call among which `ask` chooses; by default it takes rows at random."""

ANSWERS = (25, 50, 100)
"""B; queues are result one after the other, each up to the next of these numbers."""


@dataclass(frozen=True)
class Setting:
    """Matrices, and seeds that the rule was not developed with."""

    seeds: tuple[int, ...] = tuple(range(20, 40))
    sets: tuple[str, ...] = tuple(ACTIONS)


def units(setting: Setting) -> list[Record]:
    """A matrix, the action that the log never tried, and a seed each."""
    return [
        {"set": name, "action": action, "seed": seed}
        for name in setting.sets
        for action, seed in itertools.product(range(ACTIONS[name]), setting.seeds)
    ]


def run(unit: Record) -> Record:
    """Rewards a round on rows that are not in the log, in deviations, above what the log alone earns; `ahead` is `ask` less random with 2B."""
    contexts, rewards = matrices.load(unit["set"])
    rng, new = np.random.default_rng([unit["seed"], 78]), unit["action"]
    order, half = rng.permutation(len(rewards)), min(len(rewards) // 2, matrices.MOST)
    logged, live = order[:half], order[half : half + matrices.MOST]
    others = np.delete(np.arange(rewards.shape[1]), new)
    actions = others[rng.integers(len(others), size=half)]
    log = Log.from_indices(
        contexts[logged],
        actions.astype(np.int32),
        rewards[logged, actions],
        tuple(range(rewards.shape[1])),
    )
    deviation, true = float(rewards[logged].std()), rewards[logged, new]

    def earned(learner: Learner) -> float:
        """What its best means earn."""
        best = (contexts[live] @ learner.sets.theta.T).argmax(axis=1)
        return float(rewards[live, best].mean()) / deviation

    # A price of 0: every answer that may change a decision is bought, so that both ways buy as many.
    settings: Record = {
        "call_cost": 0.0,
        "horizon": half,
        "actions": [new],
        "allow_outside": True,
        "candidates": CANDIDATES,
    }
    queue = ask(log, calls=ANSWERS[0], seed=unit["seed"], **settings)
    # The log alone does not play what it never tried.
    means = contexts[live] @ queue.learner.sets.theta.T
    means[:, new] = -np.inf
    alone = float(rewards[live, means.argmax(axis=1)].mean()) / deviation
    asked = {}
    for many, following in itertools.pairwise((*ANSWERS, ANSWERS[-1])):
        answered = (*queue.answered, *(Answer(call.row, new, true[call.row]) for call in queue.calls))
        request = replace(queue.request, calls=following - many)
        queue = request.queue(request.learner(request.judged(answered)), answered, ())
        asked[many] = earned(queue.learner)
    shuffled, drawn = rng.permutation(half), {}
    for many in sorted({*ANSWERS, *(2 * each for each in ANSWERS)}):
        part = shuffled[:many]
        judged = Log.from_indices(
            contexts[logged[part]], np.full(len(part), new, dtype=np.int32), true[part], log.action_names
        )
        drawn[many] = earned(queue.request.learner(judged))
    return {
        "rows": [
            {
                "answers": many,
                "alone": alone,
                "asked": asked[many] - alone,
                "random": drawn[many] - alone,
                "double": drawn[2 * many] - alone,
                "ahead": asked[many] - drawn[2 * many],
            }
            for many in ANSWERS
        ]
    }


def tell(found: Frame) -> Iterator[str]:
    """A row for each set and number of answers, and one for the mean over sets."""
    yield from table("set", "answers B", "ask, B", "random, B", "random, 2B", "ask, B − random, 2B")
    totals: dict[int, list[tuple[list[float], float]]] = {many: [] for many in ANSWERS}
    for (name, many), group in found.by("set", "answers").items():
        means = [float(np.mean(group[each])) for each in ("asked", "random", "double", "ahead")]
        error = float(np.sqrt((np.array(group["ahead_se"]) ** 2).sum())) / len(group["ahead"])
        totals[many].append((means, error))
        yield line(name, f"{many}", *_cells(means, error))
    for many, parts in totals.items():
        means = np.mean([each for each, _ in parts], axis=0).tolist()
        error = float(np.sqrt(sum(error**2 for _, error in parts))) / len(parts)
        yield line("**mean over sets**", f"{many}", *_cells(means, error))


def _cells(means: list[float], error: float) -> list[str]:
    cells = [f"{value:+.4f}" for value in means[:3]] + [f"{means[3]:+.4f} ± {error:.4f}"]
    return [cell.replace("-", "−").replace(" ", "\u00a0") for cell in cells]


PART = Part(
    "asked",
    "ask.md",
    Setting(seeds=(0, 1), sets=("reactions",)),
    Setting(),
    units,
    run,
    ("set", "action", "answers"),
    ("alone", "asked", "random", "double", "ahead"),
    tell,
)
