"""Pieces of rows: they cover every row once, however they are split or sent."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each import for_each
from sparing.log import passes
from sparing.log.passes import Blocks, Partition
from sparing.log.tables import open_table


@given(st.integers(0, 200), st.integers(1, 50), st.integers(0, 9))
def test_pieces_cover_every_row_once(rows, step, start):
    pieces = list(Blocks(start, start + rows, step))
    assert [row for piece in pieces for row in range(piece.start, piece.stop)] == list(
        range(start, start + rows)
    )
    assert all(piece.stop - piece.start == step for piece in pieces[:-1])


def test_wide_rows_make_short_pieces(monkeypatch):
    monkeypatch.setattr(passes, "CELLS", 12)
    assert list(Blocks.of(7, 4)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert Blocks.of(7, 100).step == 1
    assert Blocks.of(7, 0).step == 12
    monkeypatch.setattr(passes, "BATCH_ROWS", 5)
    assert Blocks.of_table(7, 4).step == 5
    monkeypatch.setattr(passes, "BATCH_CELLS", 12)
    assert Blocks.of_table(7, 4).step == 3


@pytest.mark.parametrize("group", [1, 7, 50])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "memory"])
def test_rows_from_any_to_any_come_in_blocks_of_one_size_also_after_a_journey(tmp_path, ending, group):
    table = pa.table({"x": np.arange(50), "y": np.arange(50) / 2})
    path = tmp_path / f"log.{ending}"
    if ending == "parquet":
        pq.write_table(table, path, row_group_size=group)
    elif ending == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=group)
    elif ending == "csv":
        pc.write_csv(table, path)
    source = open_table(table if ending == "memory" else path)
    assert sum(source.sizes) == (0 if ending == "csv" else 50)
    for start, stop in ((0, None), (0, 50), (8, 24), (16, 17), (48, None)):
        part, first = source.part(start, stop or 50)
        part = pickle.loads(pickle.dumps(part))
        found = list(part.blocks(["x"], step=4, start=start - first, stop=stop and stop - first))
        wanted = [range(row, min(row + 4, stop or 50)) for row in range(start, stop or 50, 4)]
        assert [first + row for row, _ in found] == [rows[0] for rows in wanted]
        assert [list(map(int, batch.column("x").to_pylist())) for _, batch in found] == list(
            map(list, wanted)
        )


@for_each("rows", [1, 131_072, 131_073, 20_000_000])
@for_each(("actions", "features"), [(2, 3), (200, 16), (10_000, 64), (10**6, 2)])
def test_a_cut_has_leaves_of_whole_blocks_and_runs_that_are_subtrees(rows, actions, features):
    cut = Partition.of(rows, actions, features)
    assert cut.chunk % cut.block == 0
    assert cut.chunk & (cut.chunk - 1) == 0
    assert cut.block * max(actions, features) <= passes.BATCH_CELLS or cut.block == passes.MIN_BLOCK_ROWS
    chunks = -(-rows // cut.chunk)
    assert chunks <= passes.MAX_CHUNKS
    sums = 8 * actions * features**2
    assert chunks == 1 or (2 + chunks.bit_length() - 1) * sums <= passes.MAX_ACCUMULATOR_BYTES
    for least in (1, 10**6):
        runs = cut.tasks(least)
        assert [run.start for run in runs] == list(range(0, rows, runs[0].stop))[: len(runs)] or len(
            runs
        ) == 1
        sizes = [run.stop - run.start for run in runs]
        assert sum(sizes) == rows
        assert all(
            size == sizes[0] and (size // cut.chunk) & (size // cut.chunk - 1) == 0 for size in sizes[:-1]
        )
