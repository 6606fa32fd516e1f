"""Rows in pieces of bounded size, and how the rows of a log are cut: by their number and width alone.

A log is walked block by block, and blocks are joined to leaves, leaves by a tree (see `sparing.engines`). Where the rows
lie, in memory or in however many files, changes neither, so that what is summed has the same bits everywhere.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CELLS = 2**22
"""Numbers of a log in memory that are looked at at a time."""

BATCH_ROWS = 131_072
"""Rows of a table that are read or written at a time, fewer where a row is wide."""

BATCH_CELLS = 2**24
"""Numbers of a table that are read or written at a time."""

MIN_BLOCK_ROWS = 256
"""Rows of a block, at least, however wide they are."""

CHUNK_ROWS = 2**17
"""Rows of a leaf, at least; where there are many actions, ROWS_AN_ACTION for each."""

CHUNK_ROWS_PER_ACTION = 16

MAX_CHUNKS = 4096
"""The most leaves a log has."""

MAX_ACCUMULATOR_BYTES = 2**30
"""Bytes that the sums of leaves may take together while they wait for each other; one leaf takes what it must."""


@dataclass(frozen=True)
class Blocks:
    """The rows from `start` to before `stop` in pieces of `step` rows, as slices; len() says how many pieces.

    Pieces do not depend on how they are split: what is summed piece by piece, and added in order, is the same.
    """

    start: int
    stop: int
    step: int

    @classmethod
    def of(cls, rows: int, width: int) -> "Blocks":
        """All rows, each of `width` numbers in memory: at most `CELLS` of them a piece, one row at least."""
        return cls(0, rows, max(1, CELLS // max(1, width)))

    @classmethod
    def of_table(cls, rows: int, width: int) -> "Blocks":
        """All rows of a table with so many numbers each, as they are read and written."""
        return cls(0, rows, max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, width))))

    def __len__(self) -> int:
        return -((self.start - self.stop) // self.step)

    def __iter__(self) -> Iterator[slice]:
        for start in range(self.start, self.stop, self.step):
            yield slice(start, min(start + self.step, self.stop))

    def split(self, parts: int) -> list["Blocks"]:
        """At most so many runs of whole pieces, about equally long, in order."""
        parts = max(1, min(parts, len(self)))
        ends = [self.start + self.step * (len(self) * part // parts) for part in range(parts)] + [self.stop]
        return [Blocks(start, stop, self.step) for start, stop in itertools.pairwise(ends)]


@dataclass(frozen=True)
class Partition:
    """How so many rows are cut: into leaves, and each leaf into blocks; both are powers of two, so that blocks fill leaves."""

    rows: int
    block: int
    leaf: int

    @classmethod
    def of(cls, rows: int, actions: int, features: int) -> "Partition":
        """That of a log: blocks whose widest table fits in memory a few times, leaves worth their sums."""
        block = block_rows(max(actions, features))
        state = 8 * actions * features * features
        leaf = _chunk_rows(block)
        while leaf < rows and not (
            leaf >= CHUNK_ROWS_PER_ACTION * actions
            and rows <= MAX_CHUNKS * leaf
            and (2 + (rows // leaf).bit_length()) * state <= MAX_ACCUMULATOR_BYTES
        ):
            leaf *= 2
        return cls(rows, block, leaf)

    @classmethod
    def of_table(cls, rows: int, width: int) -> "Partition":
        """That of the raw cells of a table, so many a row."""
        block = block_rows(width)
        return cls(rows, block, _chunk_rows(block))

    @property
    def leaves(self) -> Blocks:
        """The leaves, as slices."""
        return Blocks(0, self.rows, self.leaf)

    def runs(self, least: int) -> list[Blocks]:
        """The leaves in runs that can be walked apart: whole subtrees of the leaves' tree, of `least` rows or more."""
        run = self.leaf
        while run < least:
            run *= 2
        return [Blocks(part.start, part.stop, self.leaf) for part in Blocks(0, self.rows, run)]

    def blocks(self, leaf: slice) -> Blocks:
        """The blocks of a leaf."""
        return Blocks(leaf.start, leaf.stop, self.block)


def block_rows(width: int) -> int:
    """Rows of a block where a row has so many numbers: the largest power of two that bounds both."""
    most = max(min(MIN_BLOCK_ROWS, BATCH_ROWS), min(BATCH_ROWS, BATCH_CELLS // max(1, width)))
    return 1 << (most.bit_length() - 1)


def _chunk_rows(block: int) -> int:
    """Blocks in twos, fours, …, until they make a leaf."""
    while block < CHUNK_ROWS:
        block *= 2
    return block


def rechunk(
    batches: "Iterator[pa.RecordBatch]", row: int, start: int, stop: int | None, step: int
) -> "Iterator[tuple[int, pa.RecordBatch]]":
    """Batches of which the first begins with this row, cut and joined anew: from `start` on, `step` rows each."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    many, first = 0, start
    for batch in batches:
        low = max(0, start - row)
        high = batch.num_rows if stop is None else min(batch.num_rows, stop - row)
        row += batch.num_rows
        while low < high:
            piece = batch.slice(low, min(step - many, high - low))
            held.append(piece)
            many, low = many + piece.num_rows, low + piece.num_rows
            if many == step:
                yield first, held[0] if len(held) == 1 else pa.concat_batches(held)
                held, many, first = [], 0, first + step
        if stop is not None and row >= stop:
            break
    if many:
        yield first, held[0] if len(held) == 1 else pa.concat_batches(held)
