"""The columns of an Open Bandit CSV, batch by batch."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from sparing.errors import LogError
from sparing.log.files import arrow_stream, readable, unpacked
from sparing.log.limits import LARGEST
from sparing.log.parsing import brief, cut, first_repeated
from sparing.log.table import csv_header

ITEM, POSITION, CLICK = "item_id", "position", "click"
PROPENSITY = ("propensity_score", "action_prob")
USER, AFFINITY = "user_feature_", "user-item_affinity_"
BLOCK_BYTES = 16 * 2**20

EXACT = 2.0**53
"""Whole numbers up to here are told apart by floats."""


class Table:
    """The file's columns, and its batches as text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise LogError(f"{path} does not exist or is not a file")
        with readable(path), unpacked(path) as file:
            self.header = csv_header(file.read(BLOCK_BYTES))
        if len(set(self.header)) < len(self.header):
            raise LogError(
                f"{path} has two columns {brief(first_repeated(self.header))}. Rename or drop one of them"
            )
        missing = [name for name in (ITEM, CLICK) if name not in self.header]
        if missing:
            raise LogError(
                f"{path} has no column {missing[0]!r}; expected {ITEM}, {CLICK}, {PROPENSITY[0]}, {USER}0, …"
            )
        self.users = [name for name in self.header if name.startswith(USER)]
        self.affinities = [name for name in self.header if name.startswith(AFFINITY)]
        self.propensity = next((name for name in PROPENSITY if name in self.header), None)
        self.position = POSITION if POSITION in self.header else None

    def batches(self, columns: Sequence[str | None]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of these columns with the line that each begins at."""
        wanted = list(dict.fromkeys(name for name in columns if name is not None))
        options = pa_csv.ConvertOptions(
            include_columns=wanted,
            column_types=dict.fromkeys(self.header, pa.string()),
            strings_can_be_null=False,
        )
        blocks = pa_csv.ReadOptions(block_size=BLOCK_BYTES)
        line = 2
        with (
            readable(self.path),
            arrow_stream(self.path) as stream,
            pa_csv.open_csv(stream, read_options=blocks, convert_options=options) as reader,
        ):
            for batch in reader:
                yield line, batch
                line += batch.num_rows

    def numbers(self, batch: pa.RecordBatch, name: str, line: int, *, whole: bool = False) -> np.ndarray:
        """A column as numbers, finite and not too large to be exact (`whole`) or to be summed."""
        limit = EXACT if whole else LARGEST
        column = pc.utf8_trim_whitespace(batch.column(name))
        try:
            values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            bad = ~(np.abs(values) <= limit)
            bad |= np.fmod(values, 1, where=~bad, out=np.zeros(len(values))) != 0 if whole else False
        except pa.ArrowInvalid:
            bad = np.array([not are_numbers([text]) for text in column.to_pylist()])
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise LogError(
                f"{self.path.name}, line {line + row}: {cut(name)} is {brief(column[row].as_py())}; expected a "
                f"{'whole' if whole else 'finite'} number, at most {limit:g} in size. Mend it, or drop the line"
            )
        return np.asarray(values)

    def items(self, batch: pa.RecordBatch, line: int) -> np.ndarray:
        """The items of a batch, which count from 0."""
        values = self.numbers(batch, ITEM, line, whole=True)
        bad = np.flatnonzero(values < 0)
        if len(bad):
            raise LogError(
                f"{self.path.name}, line {line + bad[0]}: {ITEM} {values[bad[0]]:.0f}; expected 0 or more"
            )
        return values.astype(np.int64)

    def propensities(self, batch: pa.RecordBatch, line: int) -> np.ndarray:
        """The propensities of a batch, each in (0, 1]."""
        name = self.propensity or ""
        values = self.numbers(batch, name, line)
        bad = np.flatnonzero((values <= 0) | (values > 1))
        if len(bad):
            raise LogError(
                f"{self.path.name}, line {line + bad[0]}: {name} is {values[bad[0]]}; must be in (0, 1]. "
                "Drop the line, or mend it"
            )
        return values


def are_numbers(texts: Iterable[str]) -> bool:
    """Whether every cell reads as a finite number."""
    try:
        values = pc.utf8_trim_whitespace(pa.array(list(texts), type=pa.string())).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return bool(np.isfinite(values.to_numpy(zero_copy_only=False)).all())
