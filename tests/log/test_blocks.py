"""Pieces of rows: they cover every row once, however they are split or sent."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparing.log import blocks
from sparing.log.blocks import Blocks
from sparing.log.sources import open_source


@given(st.integers(0, 200), st.integers(1, 50), st.integers(1, 12), st.integers(0, 9))
def test_pieces_cover_every_row_once_and_do_not_depend_on_the_split(rows, step, parts, start):
    whole = Blocks(start, start + rows, step)
    pieces = list(whole)
    assert len(pieces) == len(whole)
    assert [row for piece in pieces for row in range(piece.start, piece.stop)] == list(
        range(start, start + rows)
    )
    assert all(piece.stop - piece.start == step for piece in pieces[:-1])
    split = whole.split(parts)
    assert len(split) == max(1, min(parts, len(whole)))
    assert [piece for part in split for piece in part] == pieces
    assert max(map(len, split)) - min(map(len, split)) <= 1


def test_wide_rows_make_short_pieces(monkeypatch):
    monkeypatch.setattr(blocks, "CELLS", 12)
    assert list(Blocks.of(7, 4)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert Blocks.of(7, 100).step == 1
    assert Blocks.of(7, 0).step == 12
    monkeypatch.setattr(blocks, "BATCH_ROWS", 5)
    assert Blocks.of_table(7, 4).step == 5
    monkeypatch.setattr(blocks, "BATCH_CELLS", 12)
    assert Blocks.of_table(7, 4).step == 3


@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_a_file_is_walked_in_parts_as_it_is_as_a_whole_also_after_a_journey(tmp_path, monkeypatch, count):
    monkeypatch.setattr(blocks, "BATCH_ROWS", 4)
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"x": np.arange(50), "y": np.arange(50) / 2}), path, row_group_size=7)
    source = open_source(path)
    assert sum(source.sizes) == 50
    parts = pickle.loads(pickle.dumps(source.split(count)))
    assert len(parts) == min(count, 8)
    walked = [(row, batch) for part in parts for row, batch in part.blocks(["x"])]
    assert [row for row, _ in walked] == [batch.column("x")[0].as_py() for _, batch in walked]
    assert [value for _, batch in walked for value in batch.column("x").to_pylist()] == list(range(50))
    assert all(batch.schema.names == ["x"] and batch.num_rows <= 4 for _, batch in walked)


def test_what_cannot_be_read_in_parts_is_one_part(tmp_path):
    (tmp_path / "log.csv").write_text("x\n1\n2\n")
    for source in (open_source(tmp_path / "log.csv"), open_source({"x": ["1", "2"]})):
        [part] = source.split(5)
        assert [(row, batch.column("x").to_pylist()) for row, batch in part.blocks(["x"])] == [
            (0, ["1", "2"])
        ]
