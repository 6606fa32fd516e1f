"""Checksums of the batches of an Arrow file, which has none of its own: one a column, beside each batch."""

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sparing.errors import LogError
from sparing.log.labels import brief, load_json

KEY = b"sparing"


def of_batch(batch: pa.RecordBatch, place: int, count: int) -> dict[bytes, bytes]:
    """The metadata of a batch: its place among `count` batches, and the checksum of each column."""
    sums = [_sum(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return {KEY: json.dumps({"batch": place, "of": count, "sums": sums}).encode()}


def check(
    batch: pa.RecordBatch,
    metadata: Mapping[bytes, bytes] | None,
    places: Mapping[str, int],
    *,
    place: int,
    count: int,
) -> None:
    """Refuse a batch, of some columns, that is not what was written; another tool's has no checksums.

    `places` says which of the file's columns each is, `place` which of the file's `count` batches this is.
    """
    raw = (metadata or {}).get(KEY)
    if raw is None:
        return
    try:
        notes: dict[str, Any] = load_json(raw)
        whole = (notes["batch"], notes["of"]) == (place, count)
        expected = {name: notes["sums"][places[name]] for name in batch.schema.names}
    except (ValueError, TypeError, LookupError):
        raise LogError(f"the checksums of batch {place} are damaged. Write the file again") from None
    if not whole:
        raise LogError(
            f"batch {place} of {count} was written as {notes['batch']} of {notes['of']}; rows are missing"
        )
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _sum(name, column) != expected[name]:
            raise LogError(
                f"column {brief(name)} of batch {place} is not what was written (its checksum does not match)"
            )


def _sum(name: str, column: pa.Array) -> int:
    total = zlib.crc32(f"{name}:{column.type}:{len(column)}:{column.null_count}".encode())
    for part in _parts(column):
        total = zlib.crc32(part, total)
    return total


def _parts(column: pa.Array) -> Iterator[Any]:
    """The bytes that a column's values are made of."""
    if pa.types.is_list(column.type):
        yield np.ascontiguousarray(column.offsets.to_numpy())
        yield from _parts(column.flatten())
    elif pa.types.is_string(column.type):
        start, stop = column.offset, column.offset + len(column) + 1
        _, offsets, data = column.buffers()
        ends = np.zeros(1, np.int32) if offsets is None else np.frombuffer(offsets, np.int32)[start:stop]
        yield ends
        if data is not None:
            yield memoryview(data)[ends[0] : ends[-1]]
    else:
        yield np.ascontiguousarray(column.to_numpy(zero_copy_only=False))
