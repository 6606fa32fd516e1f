"""Every interval that is shown: its stated level against how often it holds the truth, in worlds that it was not fitted to."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.tables import predicted
from research.tables.part import Part, give, line, table
from sparing.auditing import estimate_support
from sparing.evaluation import evaluate
from sparing.interval import LEVEL
from sparing.learning import learn
from sparing.log import Log, read_log
from sparing.model.confidence import Assumptions, ConfidenceEllipsoids
from sparing.model.statistics import Statistics
from sparing.online import algorithms
from sparing.service import comparison
from sparing.service.subject_sums import (
    CALLED,
    CHECKED,
    COLUMNS,
    HOLDOUT,
    SKIPPED,
    Count,
    SubjectKey,
    SubjectSums,
    settle,
)
from sparing.simulation import LinearWorld, draw_log

ROUNDS = 20  # decisions of a learner in a world
CONTEXTS = 20_000  # by which a policy's true value is computed
PLANNED = 0.9  # level of a plan's intervals


@dataclass(frozen=True)
class Setting:
    """Worlds of each kind."""

    seeds: tuple[int, ...] = tuple(range(200))
    kinds: tuple[str, ...] = ("decisions", "unseen values", "evaluation", "plan", "service", "audit")


def units(setting: Setting) -> list[Record]:
    """A kind of result and a seed each."""
    return [{"kind": kind, "seed": seed} for kind, seed in itertools.product(setting.kinds, setting.seeds)]


def run(unit: Record) -> Record:
    """How often each interval of a kind of result holds in one world."""
    found = MEASURED[unit["kind"]](unit["seed"])
    return {"rows": [{"interval": name, "level": level, "held": float(held)} for name, level, held in found]}


Found = Iterator[tuple[str, float, float]]


def _decisions(seed: int) -> Found:
    """One action more than are logged, scales from the hyperprior; rewards of calls are learnt at once."""
    log, stream = predicted.world("normal", (2, 3, 5, 10)[seed % 4], seed, rows=300)
    learners: dict[str, Any] = {
        "confident": algorithms.confident(log, seed=seed),
        "economical": algorithms.economical(log, call_cost=0.05, horizon=1000, seed=seed),
        "certified": algorithms.certified(log, seed=seed, noise=1.0),
    }
    for name, learner in learners.items():
        held = []
        for t in range(ROUNDS):
            decision = learner.decide(stream.contexts[t])
            mean = stream.means[t, decision.action]
            held.append(decision.low <= mean <= decision.high)
            if decision.needs_reward:
                learner.update(decision, float(mean + stream.draws[t]))
        yield f"value of an action, `{name}`", learner.level, np.mean(held)


def _unseen(seed: int) -> Found:
    """Eight countries in the log, and a ninth: actions differ there, and share, as much as in the eight."""
    rng = np.random.default_rng([seed, 7])
    means = 0.5 + 0.12 * rng.standard_normal((9, 3)) + 0.12 * rng.standard_normal((9, 1))
    places, actions = rng.integers(8, size=400), rng.integers(3, size=400)
    rewards = means[places, actions] + 0.3 * rng.standard_normal(400)
    table = {"country": [f"c{i}" for i in places], "action": actions.tolist(), "reward": rewards.tolist()}
    learner = algorithms.confident(read_log(table, features="auto"))
    for name, where, place in (("logged", "c0", 0), ("unseen", "new", 8)):
        x = learner.context({"country": where})
        found = [learner.value(action, x) for action in range(3)]
        held = [low <= truth <= high for (_, low, high), truth in zip(found, means[place], strict=True)]
        yield f"value of an action in a category that is {name}, `confident`", LEVEL, np.mean(held)


def _evaluation(seed: int) -> Found:
    """A greedy policy on the rows held out; all actions logged, or a fifth of them never."""
    for support, methods in ((0.0, ("ips", "snips", "dr", "aipw", "mlips", "dm")), (0.2, ("dr",))):
        world = LinearWorld(n_actions=5, n_features=4, noise=1.0, seed=seed)
        log = draw_log(world, rows=2000, support="never-logged", unsupported=support, seed=seed)
        policy: Any = learn(log, "greedy", holdout=0.4, seed=seed)
        contexts = world.contexts(CONTEXTS, np.random.default_rng([seed, 36]))
        truth = float(world.means(contexts)[np.arange(CONTEXTS), policy.indices(contexts)].mean())
        for each in evaluate(log, policy, methods=methods).estimates:
            if support:
                assert each.support_low is not None
                assert each.support_high is not None
                held = each.support_low <= truth <= each.support_high
                yield f"value of a policy with what the log cannot see, `{each.method}`", LEVEL, held
            else:
                yield f"value of a policy, `{each.method}`", LEVEL, each.low <= truth <= each.high
        if not support:
            for name, method in (("bootstrap", "ips"), ("bernstein", "clipped")):
                found = evaluate(log, policy, methods=[method], interval=name, seed=seed).estimates[0]
                yield f"value of a policy, `{method}`, {name}", LEVEL, found.low <= truth <= found.high


def _plan(seed: int) -> Found:
    """As the table of planning.md, with fewer rows and simulations."""
    unit = {
        "kind": "normal",
        "logged": (2, 3, 5, 10)[seed % 4],
        "seed": 5000 + seed,
        "rows": 300,
        "worlds": 19,
    }
    (row,) = predicted.run(unit)["rows"]
    for name, what in (("net", "net gain"), ("calls", "rewards requested"), ("regret", "regret")):
        yield f"{what} of a plan", PLANNED, row[name]


def _service(seed: int) -> Found:
    """Clicks of 4,000 decisions: a third called, a tenth of the skipped ones checked, a fifth held out; looked at 40 times."""
    for back in (False, True):
        rng = np.random.default_rng([seed, 8])
        called, base, skipped = 0.15, 0.10, 0.12
        count, looks = 4000, 40
        who = rng.integers(0, 400, count) if back else np.arange(count)
        aside = (rng.random(count) < 0.2)[who]
        kinds = np.where(aside, HOLDOUT, rng.choice([CALLED, SKIPPED, CHECKED], count, p=[0.34, 0.6, 0.06]))
        own = rng.beta(2.0, 2.0, count)[who] * 2 if back else 1.0  # how much more or less a subject clicks
        rates = own * np.array([called, skipped, skipped, base])[kinds]
        rewards = (rng.random(count) < rates).astype(float).tolist()
        known: dict[SubjectKey, SubjectSums] = {}
        sums = np.zeros((looks, 2, len(COLUMNS)))
        for look, rows in enumerate(np.array_split(np.arange(count), looks)):
            counts = [
                Count(
                    0, 0, "holdout" if aside[i] else "policy", bytes(who[[i]]), 0, int(kinds[i]), value, None
                )
                for i in rows.tolist()
                for value in ([None] if kinds[i] == SKIPPED else [None, rewards[i]])
            ]
            added, changed = settle(counts, known)
            known |= changed
            for (_, _, arm), more in added.items():
                sums[look, int(arm == "holdout")] += more
        sums = sums.cumsum(axis=0)
        policy, holdout = comparison.mean_reward(sums[:, 0]), comparison.mean_reward(sums[:, 1])
        truth = 0.34 * called + 0.66 * skipped
        for name, found, value in (
            ("mean reward of the policy", policy, truth),
            ("mean reward of the holdout", holdout, base),
            ("gain of the policy over the holdout", comparison.difference(policy, holdout), truth - base),
        ):
            shown = [each for each in found.measured() if each is not None]
            kind = ", subjects that come back" if back else ""
            held = bool(shown) and all(each.low <= value <= each.high for each in shown)
            yield f"{name} at every look, service{kind}", LEVEL, held


def _audit(seed: int) -> Found:
    """Parameters of all actions within their certified errors at once; and no gap in a log without any."""
    world = LinearWorld(n_actions=4, n_features=3, noise=1.0, seed=seed)
    log = draw_log(world, rows=1500, support="never-logged", unsupported=0.0, seed=seed)
    sums = Statistics.of(log)
    sets = ConfidenceEllipsoids(sums, Assumptions.resolve(sums, noise=1.0))
    away = np.linalg.norm(sets.theta - world.theta, axis=1)
    yield "certified errors of all parameters, audit", 0.95, bool((away <= sets.errors).all())
    _, found = estimate_support(
        Log.from_arrays(log.contexts, log.actions, log.rewards, action_names=range(4))
    )
    yield "no gap is reported that is none, audit", 0.95, not found.gaps


MEASURED: dict[str, Callable[[int], Found]] = {
    "decisions": _decisions,
    "unseen values": _unseen,
    "evaluation": _evaluation,
    "plan": _plan,
    "service": _service,
    "audit": _audit,
}


def tell(found: Frame) -> Iterator[str]:
    """A row for each interval."""
    yield from table("interval of", "stated level", "holds in")
    for row in found.rows:
        yield line(
            row["interval"], f"{row['level']:.0%}".replace("%", " %"), give(row, "held", 1, percent=True)
        )


PART = Part(
    "intervals",
    "intervals.md",
    Setting(seeds=(0, 1)),
    Setting(),
    units,
    run,
    ("kind", "interval", "level"),
    ("held",),
    tell,
)
