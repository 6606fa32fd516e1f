"""Contenders by names that all releases share: nothing but NumPy and `sparing`, whichever release the interpreter has."""

from typing import Any

import numpy as np

import sparing
from sparing.policies.policy import UniformPolicy

VERSION = sparing.__version__
ROWS, ACTIONS = 4000, 20


def raw_columns(seed: int) -> dict[str, list[Any]]:
    """Nine numbers, eight categories of ten values, two truth values and a moment; then actions and rewards."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {f"n{i}": rng.normal(10, 3, ROWS).tolist() for i in range(9)}
    columns |= {f"c{i}": [f"v{j}" for j in rng.integers(0, 11, ROWS)] for i in range(8)}
    columns |= {f"b{i}": (rng.random(ROWS) < 0.5).tolist() for i in range(2)}
    columns["t"] = [str(np.datetime64("2026-03-01T10:00") + 7 * i) for i in range(ROWS)]
    columns["action"] = rng.integers(0, ACTIONS, ROWS).tolist()
    columns["reward"] = rng.normal(size=ROWS).tolist()
    return columns


class Once:
    """Does one thing again and again; what is compiled on first use is compiled before the clock starts."""

    def __init__(self, work: Any) -> None:
        self.work = work
        work()

    def run(self, count: int) -> None:
        """So many times."""
        for _ in range(count):
            self.work()


def encoding(worlds: Any, spec: dict[str, Any]) -> Once:
    """A dict through the encoder, through one with a kernel, and to a decision; `spec["work"]` says which."""
    columns = raw_columns(int(spec["seed"]))
    kernel = sparing.features("auto", kernel=sparing.nystroem(128)) if spec["work"] == "kernel" else None
    log = sparing.read_log(columns) if kernel is None else sparing.read_log(columns, features=kernel)
    row = {name: columns[name][7] for name in log.encoder.by_column}
    if spec["work"] != "decide":
        return Once(lambda: log.encoder.encode(row))
    learner = sparing.confident(log, prior_scale=1.0, spot_check=0.0, tolerance=10.0)
    return Once(lambda: learner.decide(row))


def scale(worlds: Any, spec: dict[str, Any]) -> Once:
    """A log on disk is read, summed, audited, evaluated or learnt from, by one thread; `spec["work"]` says which."""
    path = spec["path"]
    log = sparing.scan(path, workers=1)
    works = {
        "scan": lambda: sparing.scan(path, workers=1),
        "statistics": lambda: sparing.Statistics.of(log),
        "audit": lambda: sparing.audit(log),
        "evaluate": lambda: sparing.evaluate(log, UniformPolicy(log.action_names), methods=["ips", "dr"]),
        "learn": lambda: sparing.learn(log, "greedy"),
    }
    return Once(works[spec["work"]])


CONTENDERS = {"encoding": encoding, "scale": scale}
