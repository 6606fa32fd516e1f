"""Contexts of many rows, filled by compiled code, are those that columns fill one by one, bit for bit."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

import sparing
from sparing.errors import LogError

ROWS = 400


def table(seed, *, rows=ROWS, gaps=True):
    """Every kind of column, some with gaps; another seed has words and numbers that the first has not."""
    rng = np.random.default_rng(seed)
    some = rng.random(rows) < (0.1 if gaps else 0)
    day = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)
    return pa.table(
        {
            "age": rng.normal(40, 9, rows),
            "count": rng.integers(0, 9, rows),
            "zero": np.where(rng.random(rows) < 0.5, -0.0, rng.normal(size=rows)),
            "income": pa.array(rng.exponential(size=rows), mask=some),
            "nan": np.where(some, np.nan, rng.normal(size=rows)),
            "city": pa.array([f"c{i}" for i in rng.integers(0, 4 + 2 * seed, rows)]),
            "coded": pa.array([f"k{i}" for i in rng.integers(0, 3, rows)], mask=some).dictionary_encode(),
            "member": rng.random(rows) < 0.5,
            "word": pa.array([f"w{i}" for i in rng.integers(0, 300, rows)]),
            "day": pa.array([day + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 999, rows)]),
            "action": rng.integers(0, 3, rows),
            "reward": rng.random(rows),
        }
    )


@pytest.fixture(scope="module")
def encoder():
    return sparing.read_log(table(0)).encoder


@pytest.mark.parametrize(
    ("seed", "gaps", "rows"), [(0, True, ROWS), (1, True, 300), (2, False, 50), (1, True, 0)]
)
def test_the_same_contexts(encoder, seed, gaps, rows):
    batch = table(seed, rows=rows, gaps=gaps).combine_chunks().to_batches()
    batch = batch[0] if batch else pa.RecordBatch.from_pylist([], schema=table(0).schema)
    for among in (None, ["city", "age"], ["income"], []):
        plain = encoder.encode_batch(batch, among=among)
        found = encoder.encode_batch(batch, among=among, many=True)
        np.testing.assert_array_equal(found.view(np.uint64), plain.view(np.uint64))


def test_what_does_not_fit_is_named_with_its_row(encoder):
    odd = table(1)
    values = odd["age"].to_numpy().copy()
    values[17] = np.inf
    (batch,) = odd.set_column(0, "age", pa.array(values)).combine_chunks().to_batches()
    with pytest.raises(LogError) as plain:
        encoder.encode_batch(batch, first_row=1000)
    with pytest.raises(LogError) as found:
        encoder.encode_batch(batch, first_row=1000, many=True)
    assert str(found.value) == str(plain.value)
    assert "age at row 1017" in str(found.value)
