"""Raw tables of any length whose sums are exact: numbers are k/64, propensities powers of two."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ACTIONS = 8


def raw_table(rows, seed=0):
    """Two numbers, a category, a truth value; actions of a softly skewed log, rewards in [0, 1]."""
    rng = np.random.default_rng(seed)
    action = np.minimum(rng.geometric(0.5, rows) - 1, ACTIONS - 1)
    chance = 0.5 ** np.minimum(action + 1, ACTIONS - 1)
    numbers = {name: rng.integers(-64, 65, rows) / 64 for name in ("age", "spend")}
    return pa.table(
        {
            **numbers,
            "device": np.array(["desktop", "phone", "tablet"])[rng.integers(0, 3, rows)],
            "member": rng.random(rows) < 0.5,
            "action": np.array([f"a{i}" for i in range(ACTIONS)])[action],
            "reward": rng.integers(0, 65, rows) / 64,
            "propensity": chance,
        }
    )


def write(path, rows, *, files=1, group=50_000, seed=0):
    """One file, or a folder of several of unlike sizes."""
    table = raw_table(rows, seed)
    if files == 1:
        pq.write_table(table, path, row_group_size=group)
        return path
    path.mkdir()
    ends = [0, *np.sort(np.random.default_rng(1).integers(1, rows, files - 1)).tolist(), rows]
    for place in range(files):
        part = table.slice(ends[place], ends[place + 1] - ends[place])
        pq.write_table(part, path / f"{place:03}.parquet", row_group_size=group)
    return path
