"""A log that stays where it is: tables that are read as they are walked, and never held all at once."""

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

import numpy as np

from sparing.engines import Engine, Progress, engine_of
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.columns import ColumnNames, Columns, keywords_of, roles_of
from sparing.log.features import Encoder
from sparing.log.files import open_files
from sparing.log.items import ItemTable
from sparing.log.log import Log
from sparing.log.paths import Dialect
from sparing.log.reading import Reading, Wanted, look_over
from sparing.log.rows import Rows
from sparing.log.sources import Source
from sparing.log.walking import Statistic, telling_lines, walk

State = TypeVar("State")


class Scan(Rows):
    """A log in tables that are read as they are walked, on an engine's workers."""

    def __init__(
        self, source: Source, reading: Reading, engine: Engine, progress: Progress | None = None
    ) -> None:
        self.source = source.coding((*reading.columns.contexts, reading.columns.action))
        self.reading, self.engine, self.progress = reading, engine, progress
        self.n_rows, self.threads = reading.rows, engine.threads
        with telling_lines(source):
            _, first = next(source.blocks(reading.columns.all, step=1, stop=1))
            self.header = reading.log(first).part(slice(0, 0))

    def fold(self, statistic: Statistic[Log, State]) -> State:
        """On the engine's workers."""
        make: Any = self.reading.standing if statistic.by_columns and self.reading.plain else self.reading.log
        return walk(
            self.source,
            self.reading.columns.all,
            statistic,
            make,
            cut=self.cut,
            engine=self.engine,
            progress=self.progress,
        )

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Read here, one after the other."""
        for row, batch in self.source.blocks(self.reading.columns.all, step=self.cut.block):
            with telling_lines(self.source):
                log = self.reading.log(batch, row)
            yield row, log

    def narrowed(self) -> "Scan":
        """Reads no other columns."""
        return Scan(self.source, self.reading.narrowed(), self.engine, self.progress)

    def focused(self, features: Collection[int]) -> "Scan":
        """Reads no other features."""
        return Scan(self.source, self.reading.focused(features), self.engine, self.progress)

    def on(self, engine: Any, *, workers: int | None = None, progress: Progress | None = None) -> "Scan":
        """The same log, walked by another engine."""
        return Scan(self.source, self.reading, engine_of(engine, workers), progress or self.progress)


@keywords_of(Columns)
def scan(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Wanted = None,
    items: Any = None,
    item_features: Wanted = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    engine: Any = "local",
    workers: int | None = None,
    progress: Progress | None = None,
    **columns: Unpack[ColumnNames],
) -> Scan:
    """A log that is larger than memory: of a file, a folder, a pattern (`logs/*.parquet`) or a URI (`s3://bucket/logs`).

    What takes a log (`audit`, `evaluate`, `learn`, the learners, `plan`, `convert`) takes it in place of one that `read_log`
    read, and gives the same numbers, bit for bit; what needs all rows at once says so. The tables are walked once here, for
    their labels and to fit `features`, and again, in pieces, whenever something is asked of them.

    `engine` says where: `local` threads, `processes`, a Dask scheduler's address or client; see `sparing.engines`.
    `progress(done, total)` is told of every walk. The other keywords are those of `read_log`.
    """
    roles, chosen = roles_of(columns), engine_of(engine, workers)
    table = open_files(source, Dialect(delimiter, decimal))
    reading = look_over(table, roles, actions=actions, features=features, engine=chosen, progress=progress)
    if items is not None:
        about = ItemTable(items, columns.get("action", "action"), item_features)
        new = [label for label in about.labels(reading.names) if label not in set(reading.names)]
        if new and actions is None:
            everyone = [*reading.names, *labels.in_order(new)]
            encoder = reading.encoder or features
            reading = look_over(table, roles, actions=everyone, features=encoder, engine=chosen)
        reading = replace(reading, items=about.items(reading.names))
    found = Scan(table, reading, chosen, progress)
    if isinstance(features, Encoder) and features.digest != found.encoder.digest:
        features.aligned(found.encoder, np.empty((0, found.n_features)))  # says what differs
        raise LogError(
            "the table has the columns of features=... in another order, and sums are not reordered. Read it with "
            "read_log, or write it again"
        )
    return found
