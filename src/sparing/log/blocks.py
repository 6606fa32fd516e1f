"""Rows in pieces of bounded size, and the partition of a log's rows, which depends on their number and width alone.

A pass reads a log block by block. Blocks are added up to chunks, and a tree merges chunks (see `sparing.engines`). Where
the rows are stored, in memory or in files, changes neither, so that sums have the same bits everywhere.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# Numbers of a log in memory that are processed at a time.
CELLS = 2**22

# Rows of a table that are read or written at a time, fewer if a row is wide.
BATCH_ROWS = 131_072

# Numbers of a table that are read or written at a time.
BATCH_CELLS = 2**24

# Rows of a block, at least, however wide they are.
MIN_BLOCK_ROWS = 256

# Rows of a chunk, at least; with many actions, CHUNK_ROWS_PER_ACTION for each.
CHUNK_ROWS = 2**17
CHUNK_ROWS_PER_ACTION = 16
MAX_CHUNKS = 4096

# Bytes of the sums of all chunks that wait to be merged; the sums of one chunk may take more.
MAX_ACCUMULATOR_BYTES = 2**30


@dataclass(frozen=True)
class Blocks:
    """The rows from `start` to before `stop` in pieces of `step` rows, as slices; len() is the number of pieces.

    Splitting keeps the pieces: sums that are computed per piece, and added in order, stay the same.
    """

    start: int
    stop: int
    step: int

    @classmethod
    def of(cls, rows: int, width: int) -> "Blocks":
        """All rows of `width` numbers in memory: at most `CELLS` numbers a piece, and at least one row."""
        return cls(0, rows, max(1, CELLS // max(1, width)))

    @classmethod
    def of_table(cls, rows: int, width: int) -> "Blocks":
        """All rows of a table with `width` numbers each, in the pieces that are read and written."""
        return cls(0, rows, max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, width))))

    def __len__(self) -> int:
        return -((self.start - self.stop) // self.step)

    def __iter__(self) -> Iterator[slice]:
        for start in range(self.start, self.stop, self.step):
            yield slice(start, min(start + self.step, self.stop))

    def split(self, parts: int) -> list["Blocks"]:
        """At most `parts` runs of whole pieces, about equally long, in order."""
        parts = max(1, min(parts, len(self)))
        ends = [self.start + self.step * (len(self) * part // parts) for part in range(parts)] + [self.stop]
        return [Blocks(start, stop, self.step) for start, stop in itertools.pairwise(ends)]


@dataclass(frozen=True)
class Partition:
    """Rows split into chunks, and chunks into blocks; both have a power of two rows, so that blocks fill chunks."""

    rows: int
    block: int
    chunk: int

    @classmethod
    def of(cls, rows: int, actions: int, features: int) -> "Partition":
        """The partition of a log: a block's widest table fits in memory a few times, and chunks outweigh their sums."""
        block = block_rows(max(actions, features))
        state = 8 * actions * features * features
        chunk = _chunk_rows(block)
        while chunk < rows and not (
            chunk >= CHUNK_ROWS_PER_ACTION * actions
            and rows <= MAX_CHUNKS * chunk
            and (2 + (rows // chunk).bit_length()) * state <= MAX_ACCUMULATOR_BYTES
        ):
            chunk *= 2
        return cls(rows, block, chunk)

    @classmethod
    def of_table(cls, rows: int, width: int) -> "Partition":
        """The partition of a table with `width` raw cells a row."""
        block = block_rows(width)
        return cls(rows, block, _chunk_rows(block))

    @property
    def chunks(self) -> Blocks:
        return Blocks(0, self.rows, self.chunk)

    def tasks(self, least: int) -> list[Blocks]:
        """Runs of chunks of at least `least` rows: whole subtrees of the tree of chunks, to be read independently."""
        run = self.chunk
        while run < least:
            run *= 2
        return [Blocks(part.start, part.stop, self.chunk) for part in Blocks(0, self.rows, run)]


def block_rows(width: int) -> int:
    """Rows of a block if a row has `width` numbers: the largest power of two within both limits."""
    most = max(min(MIN_BLOCK_ROWS, BATCH_ROWS), min(BATCH_ROWS, BATCH_CELLS // max(1, width)))
    return 1 << (most.bit_length() - 1)


def _chunk_rows(block: int) -> int:
    while block < CHUNK_ROWS:
        block *= 2
    return block


def rechunk(
    batches: "Iterator[pa.RecordBatch]", row: int, start: int, stop: int | None, step: int
) -> "Iterator[tuple[int, pa.RecordBatch]]":
    """Split and join batches, of which the first begins with `row`, into batches of `step` rows from `start` on."""
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
