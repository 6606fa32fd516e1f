"""The cases: what is made, run and read, by the public interface alone."""

import hashlib
import json
import zipfile
from pathlib import Path

import numba
import numpy as np

import sparing
from frozen import internals

HERE = Path(__file__).parent
DATA, TEXT = HERE / "data", HERE / "text"
LOGS = DATA / "logs"
GIVEN = {"noise": 0.5, "theta_bound": 2.0, "context_bound": 1.75, "seed": 4}
SCALED = {**GIVEN, "radius_scale": 0.2}
METHODS = [
    "auto",
    "greedy",
    "pessimistic",
    "boosted",
    "stacked",
    "ipw-logistic",
    "pi-plus",
    "opr",
    "opr-dlm",
    "extrapolation",
    "poem",
    "norm-poem",
    "caipwl",
]


def public(*names):
    """A public function by the first of its names that there is: a rename keeps the old one for a release."""
    return getattr(sparing, next(name for name in names if hasattr(sparing, name)))


def most_logged(count):
    """The supported actions of the eps-learners: those with most rows."""
    return public("most_logged", "top")(count)


LEARNERS = {
    "moful": lambda log: sparing.moful(log, growing=True, **GIVEN),
    "eps_moful": lambda log: sparing.eps_moful(log, supported=most_logged(2), **SCALED),
    "eps_moful_ips": lambda log: sparing.eps_moful_ips(
        log, supported=most_logged(2), clip="inf", answer="policy", **SCALED
    ),
    "warm_started": lambda log: sparing.warm_started(log, growing=True, center="learnt", noise=0.5, seed=4),
    "certified": lambda log: sparing.certified(
        log,
        tolerance=0.01,
        explore="wider",
        growing=True,
        center="learnt",
        noise=0.5,
        seed=4,
        radius_scale=0.5,
    ),
    "confident": lambda log: sparing.confident(log, tolerance=0.005, spot_check=0.1, noise=0.5, seed=4),
    "economical": lambda log: sparing.economical(log, call_cost=0.0005, horizon=50_000, noise=3.0, seed=4),
    "linucb": lambda log: sparing.linucb(log, **GIVEN),
    "lints": lambda log: sparing.lints(log, **GIVEN),
}
"""The nine algorithms."""

VARIANTS = {
    **LEARNERS,
    "confident_kernel": lambda log: sparing.confident(log, kernel=8, tolerance=0.005, noise=0.5, seed=4),
    "confident_strict": lambda log: sparing.confident(
        log, tolerance=0.01, explore="sampled", strict=True, misfit=0.1, noise=0.5, seed=4
    ),
    "economical_budget": lambda log: sparing.economical(
        log, call_cost=0.0000001, horizon=1_000_000, calls=120, noise=3.0, seed=4
    ),
    "eps_moful_ips_limit": lambda log: sparing.eps_moful_ips(
        log, supported=most_logged(2), beats="limit", **SCALED
    ),
}


def log_of(seed, rows=200, distinct=60, n_actions=6, n_features=3, ids=False):
    """A small log with distributions; the last action was never played. Contexts are short decimals."""
    rng = np.random.default_rng([seed, 1])
    theta = truth(seed, n_actions, n_features)
    which = rng.integers(0, distinct, rows)
    contexts = rng.integers(0, 1000, (distinct, n_features)) / 1000
    supported = rng.random((distinct, n_actions)) < 0.7
    supported[:, -1] = False
    supported[np.arange(distinct), rng.integers(0, n_actions - 1, distinct)] = True
    table = supported * rng.integers(1, 5, (distinct, n_actions))
    table = table / table.sum(axis=1, keepdims=True)
    played = np.array([rng.choice(n_actions, p=table[c]) for c in which])
    noise = rng.integers(-500, 500, rows) / 1000
    rewards = np.round((contexts[which] * theta[played]).sum(axis=1) + noise, 3)
    return sparing.Log.from_arrays(
        contexts[which],
        [f"a{a}" for a in played],
        rewards,
        distribution=table[which],
        action_names=[f"a{a}" for a in range(n_actions)],
        context_ids=[f"c{c}" for c in which] if ids else None,
    )


def truth(seed, n_actions=6, n_features=3):
    """True parameters (K, d)."""
    return np.random.default_rng([seed, 0]).integers(-1500, 1500, (n_actions, n_features)) / 1000


class Live:
    """A live stream of contexts and rewards, by the number of the round alone."""

    def __init__(self, log, seed=20):
        self.log, self.seed = log, seed
        self.theta = truth(seed, log.n_actions, log.n_features)

    def round(self, number):
        """A context, its eligible actions or None, and a reward for each label."""
        rng = np.random.default_rng([self.seed, 2, number])
        row = int(rng.integers(0, self.log.n_rows))
        x = (
            self.log.contexts[row]
            if rng.random() < 0.5
            else rng.integers(0, 1000, self.log.n_features) / 1000
        )
        means = self.theta @ x
        values = dict(zip(self.log.action_names, (means + rng.normal(0, 0.5)).tolist(), strict=True))
        values["new"] = float(0.4 * x.sum() + rng.normal(0, 0.5))
        chosen = rng.permutation(self.log.n_actions)[:3]
        return x, [self.log.action_names[i] for i in chosen], values


def shown(decision):
    """What must not change of a decision, as text: labels, reason and the bits of its numbers."""
    numbers = (decision.value, decision.low, decision.high)
    return " ".join(
        [
            str(decision.action),
            decision.reason,
            str(int(decision.needs_reward)),
            *(float(n).hex() for n in numbers),
        ]
    )


def play(learner, live, numbers, *, late=0, pending=None, retired=(), every=0):
    """Rounds with rewards that come `late` rounds later; lines for the decisions, and the calls that are still pending.

    Every 13th call is forgotten; `every` that many rounds, only some actions are eligible.
    """
    waiting = dict(pending or {})
    lines = []
    for number in numbers:
        x, some, values = live.round(number)
        eligible = (
            [label for label in some if label not in retired] if every and number % every == 0 else None
        )
        with internals.recorded_intervals(learner):
            decision = learner.decide(x, eligible=eligible or None)
        lines.append(shown(decision))
        if decision.needs_reward:
            waiting[int(decision.id)] = number + late, values[decision.action]
        for name in [name for name, (due, _) in waiting.items() if due <= number]:
            _, value = waiting.pop(name)
            if name % 13 == 12:
                learner.forget(name)
            else:
                learner.update(name, value)
    return lines, waiting


def digests(lines, step):
    """A digest for every `step` lines."""
    parts = ["\n".join(lines[i : i + step]) for i in range(0, len(lines), step)]
    return [hashlib.sha256(part.encode()).hexdigest()[:20] for part in parts]


def counted(lines):
    """How often each reason occurs."""
    reasons = [line.split()[1] for line in lines]
    return {reason: reasons.count(reason) for reason in sorted(set(reasons))}


def trace(name, rounds=5000):
    """A learner's decisions from its log on, with rewards at once: digests of every 500 rounds, and its reasons."""
    log = log_of(20)
    learner = internals.with_logged_contexts(LEARNERS[name](log))
    lines, _ = play(learner, Live(log), range(rounds), every=50)
    return {"digests": digests(lines, 500), "reasons": counted(lines), "digest": learner.digest()}


def grown(name):
    """A learner after 300 rounds, with pending calls, and where it can be an added and a retired action."""
    log = log_of(20)
    learner = internals.with_logged_contexts(VARIANTS[name](log))
    live, retired, done = Live(log), [], []
    _, waiting = play(learner, live, range(150), late=5, every=10)
    for step, change in (
        ("retire", lambda: learner.retire("a1")),
        ("add", lambda: learner.add_action("new")),
    ):
        try:
            change()
            done.append(step)
        except sparing.errors.SparingError:
            continue
    if "retire" in done:
        retired = ["a1"]
    _, waiting = play(learner, live, range(150, 300), late=9, pending=waiting, retired=retired, every=10)
    return learner, {"changed": done, "retired": retired, "pending": waiting}


def go_on(learner, facts):
    """The next 200 rounds of a learner that was loaded."""
    log = log_of(20)
    pending = {int(name): tuple(one) for name, one in facts["pending"].items()}
    numbers = range(300, 500)
    lines, waiting = play(
        learner, Live(log), numbers, late=7, pending=pending, retired=facts["retired"], every=10
    )
    return {
        "digests": digests(lines, 50),
        "reasons": counted(lines),
        "pending": sorted(waiting),
        "digest": learner.digest(),
        "rounds": learner.rounds,
        "calls": learner.calls,
    }


def versions():
    """What an engine's results may depend on, besides the engine."""
    return {"numba": numba.__version__, "numpy": np.__version__}


def simulated():
    """Logs and runs of simulated environments."""
    simulation = sparing.simulation
    world = simulation.LinearWorld(n_actions=7, n_features=4, noise=0.5, seed=3)
    found = {
        support: log_facts(simulation.draw_log(world, rows=400, support=support, unsupported=0.3, seed=5))
        for support in ("per-context", "never-logged", "region", "sharpened")
    }
    log = simulation.draw_log(world, rows=200, support="never-logged", unsupported=0.3, seed=5)
    for name, more in (
        ("prompt", {}),
        ("late", {"delay": 4, "missing": 0.2}),
        ("in-log", {"stream": "in-log"}),
    ):
        learner = sparing.confident(log, tolerance=0.05, seed=2)
        run = sparing.simulate(learner, world, rounds=300, seed=6, log=log, **more)
        rows = zip(run.actions.tolist(), run.reasons.tolist(), run.losses.tolist(), strict=True)
        lines = [f"{action} {reason} {float(loss).hex()}" for action, reason, loss in rows]
        found[name] = {"digests": digests(lines, 100), "calls": int(run.needs_reward.sum())}
    return found


def contents(path):
    """A saved file's header and arrays, whatever wrote it."""
    with zipfile.ZipFile(path) as file:
        header = json.loads(file.read("header.json"))
        arrays = {name: file.read(name) for name in sorted(file.namelist()) if name != "header.json"}
    return header, arrays


def policy_log():
    """The log that policies are learnt from."""
    return log_of(31, rows=400, distinct=250)


def probabilities(policy):
    """What a policy answers in 40 contexts, some logged: (40, K)."""
    log = policy_log()
    fresh = np.random.default_rng(5).integers(0, 1000, (20, log.n_features)) / 1000
    return policy.probabilities(np.vstack([log.contexts[:20], fresh]))


def log_facts(log):
    """A log's shape, names, and digests of its columns' bits."""
    columns = {
        "contexts": np.ascontiguousarray(log.contexts),
        "actions": np.asarray(log.actions, dtype=np.int64),
        "rewards": log.rewards,
        "propensities": log.propensities,
        "context_ids": None if log.context_ids is None else log.context_ids.astype(str),
    }
    if log.support.known:
        columns["support"] = np.packbits(log.support.mask())
        columns["distribution"] = log.support.distribution()
    return {
        "rows": log.n_rows,
        "actions": [repr(name) for name in log.action_names],
        "features": list(log.feature_names),
        "support": log.support.kind,
        "columns": {
            name: None if column is None else hashlib.sha256(column.tobytes()).hexdigest()[:20]
            for name, column in columns.items()
        },
    }


RAW_ROWS = [
    {"age": 31, "device": "phone", "when": "2026-03-01 08:00:00", "spent": 12.5},
    {"age": 80, "device": "fridge", "when": "2026-07-14 23:59:59", "spent": None},
    {"age": None, "device": None, "when": "2025-12-31 00:00:00", "spent": 0.0},
]
"""Rows for the encoder: known and unknown words, missing values, moments."""

READ = {
    "numbers.parquet": {},
    "numbers.csv": {},
    "numbers.arrow": {},
    "ids.parquet": {},
    "raw.csv": {"action": "banner", "reward": "clicked"},
    "euro.csv": {
        "action": "banner",
        "reward": "clicked",
        "propensity": "p",
        "decimal": ",",
        "delimiter": ";",
    },
    "clicks.vw": {},
    "clicks.adf": {},
    "clicks.dsjson": {},
    "clicks.npz": {},
    "open_bandit.csv": {},
    "vw.jsonl": {},
    "coba.jsonl": {},
    "river.jsonl": {},
}
"""The recorded logs, and how they are read."""

IDENTIFIED = ("numbers.parquet", "ids.parquet", "raw.csv", "clicks.dsjson", "open_bandit.csv")
"""Logs whose fingerprints, splits and hashes are recorded."""


def read(name):
    """A recorded log."""
    return sparing.read_log(LOGS / name, **READ[name])
