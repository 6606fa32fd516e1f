"""Data that only contenders of this interpreter share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sparing.archive import replacing

ROWS_A_GROUP = 250_000


class Repeated:
    """A contender that does one thing again and again."""

    def __init__(self, once: Callable[[], Any]) -> None:
        self.once = once

    def run(self, count: int) -> None:
        """So many times."""
        for _ in range(count):
            self.once()


def visits(spec: dict[str, Any]) -> dict[str, Any]:
    """Arguments of Log.from_indices: contexts that come back `spec["repeats"]` times, under known ids.

    `table` besides (contexts, K) is the logging policy, the same in every row of a context.
    """
    n, k, repeats = int(spec["rows"]), int(spec["actions"]), int(spec["repeats"])
    rng = np.random.default_rng([int(spec["seed"]), 4])
    ids = np.repeat(np.arange(-(-n // repeats)), repeats)[:n]
    rng.shuffle(ids)
    scores = rng.random((len(np.unique(ids)), k)) + 0.2
    table = scores / scores.sum(axis=1, keepdims=True)
    bounds = table.cumsum(axis=1)
    drawn = rng.random(n)
    actions = np.zeros(n, dtype=np.int64)
    for a in range(k - 1):
        actions += drawn >= bounds[ids, a]
    return {
        "contexts": (ids[:, None] + 0.5).astype(np.float64),
        "actions": actions,
        "rewards": rng.random(n),
        "action_names": tuple(range(k)),
        "propensities": table[ids, actions],
        "context_ids": ids,
        "table": table,
    }


def write_table(path: Path, *, rows: int, actions: int, features: int, seed: int) -> None:
    """A Parquet log in plain columns x_0…, action, reward, written a group of rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng([seed, 5])
    names = [*(f"x_{i}" for i in range(features)), "action", "reward"]
    types = [*[pa.float64()] * features, pa.int64(), pa.float64()]
    schema = pa.schema(list(zip(names, types, strict=True)))
    with (
        replacing(path) as part,
        pq.ParquetWriter(part, schema, use_dictionary=False, compression="none") as writer,
    ):
        for start in range(0, rows, ROWS_A_GROUP):
            size = min(ROWS_A_GROUP, rows - start)
            x = rng.random((features, size))
            chosen = rng.integers(actions, size=size)
            if not start:
                chosen[:actions] = np.arange(actions)[:size]  # every action occurs
            columns = [*x, chosen, rng.standard_normal(size)]
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=schema))
