"""A small log as a mapping, a table, or a file written without sparing."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = {
    "x_0": [0.5, 1.5, 2.5],
    "x_1": [1, 2, 3],
    "action": ["b", "a", "b"],
    "reward": [1.0, 0.0, -1.0],
    "propensity": [0.5, 0.25, 1.0],
    "eligible": [["a", "b"], ["a", "c"], ["b"]],
    "context_id": [7, 8, 7],
}
SHARES = {"p_a": [0.5, 0.25, 0.0], "p_b": [0.5, 0.0, 1.0], "p_c": [0.0, 0.75, 0.0]}
MASK = [[True, True, False], [True, False, True], [False, True, False]]


def with_columns(**changes):
    """The rows with some columns changed, or, given None, left out."""
    return {name: values for name, values in {**ROWS, **changes}.items() if values is not None}


def write_csv(path, rows):
    """A text file as another program would write it: lists as JSON, None as an empty cell."""

    def cell(value):
        if isinstance(value, list):
            return '"' + json.dumps(value).replace('"', '""') + '"'
        return "" if value is None else str(value)

    lines = [",".join(rows), *(",".join(map(cell, row)) for row in zip(*rows.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_file(path, rows):
    """The rows as a file of the format that its ending names."""
    if path.suffix == ".csv":
        return write_csv(path, rows)
    made = pa.table(rows)
    if path.suffix == ".parquet":
        pq.write_table(made, path)
    else:
        with pa.ipc.new_file(path, made.schema) as writer:
            writer.write_table(made)
    return path


def assert_rows(log, *, names=("a", "b", "c")):
    """The log of `ROWS`."""
    np.testing.assert_array_equal(log.contexts, np.column_stack([ROWS["x_0"], ROWS["x_1"]]))
    np.testing.assert_array_equal(log.rewards, ROWS["reward"])
    np.testing.assert_array_equal(log.propensities, ROWS["propensity"])
    np.testing.assert_array_equal(log.support.mask(), MASK)
    assert [log.action_names[i] for i in log.actions] == ROWS["action"]
    assert log.action_names == names
    assert log.support.kind == "exact"
    assert list(map(int, log.context_ids)) == ROWS["context_id"]
    assert log.feature_names == ("x_0", "x_1")


def many_rows(n):
    rng = np.random.default_rng(0)
    return {
        **{f"x_{i}": rng.random(n).tolist() for i in range(3)},
        "action": rng.integers(5, size=n).tolist(),
        "eligible": [list(range(5))] * n,
        "reward": rng.random(n).tolist(),
    }
