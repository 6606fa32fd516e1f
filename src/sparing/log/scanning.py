"""A log that stays where it is: its rows are walked block by block, as often as needed, and never held all at once."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, Unpack

import numpy as np

from sparing.engines import Engine, Progress, engine_of
from sparing.errors import LogError
from sparing.log import arrays, labels
from sparing.log.blocks import Blocks, Cut
from sparing.log.columns import ColumnNames, Columns, keywords_of
from sparing.log.features import Encoder
from sparing.log.files import open_files
from sparing.log.items import Items, ItemTable
from sparing.log.log import Log
from sparing.log.reading import Reading, Wanted, look_over
from sparing.log.reservoir import keys_of
from sparing.log.sources import Source, is_path
from sparing.log.support import SupportBuilder
from sparing.log.walking import Leaves, Statistic, walk

State = TypeVar("State")


class Rows(ABC):
    """A log by its header and a way to walk it.

    `header` is the log without its rows: names, encoder, items, of which kind the support is, whether there are propensities
    and ids.
    """

    header: Log
    n_rows: int
    progress: Progress | None = None

    @abstractmethod
    def fold(self, statistic: Statistic[Log, State]) -> State:
        """Walk all rows once, and give what the statistic gathers."""

    @abstractmethod
    def blocks(self) -> Iterator[tuple[int, Log]]:
        """The rows in order, a block at a time, each with its first row."""

    @property
    def cut(self) -> Cut:
        """How the rows are cut into leaves and blocks."""
        return Cut.of(self.n_rows, self.n_actions, self.n_features)

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """Every action's label, (K,)."""
        return self.header.action_names

    @property
    def encoder(self) -> Encoder:
        """What makes contexts of raw columns."""
        return self.header.encoder

    @property
    def items(self) -> Items | None:
        """Features of the actions themselves, where there are any."""
        return self.header.items

    @property
    def n_actions(self) -> int:
        """Actions, logged or not, K."""
        return self.header.n_actions

    @property
    def n_features(self) -> int:
        """Length of a context, d."""
        return self.header.n_features

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each coordinate of a context, (d,)."""
        return self.header.feature_names

    def narrowed(self) -> "Rows":
        """The same rows with nothing but contexts, actions and rewards, which is all that sums need."""
        return self

    def sample(self, rows: int, seed: int = 0) -> Log:
        """A random part of the rows, in order, as a log in memory: the same part wherever they lie."""
        return self.fold(_Sample(self.header, self.n_rows, rows, seed)).log()

    def read(self) -> Log:
        """All rows, as a log in memory."""
        return joined(self.header, [block for _, block in self.blocks()])

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        kept = repr(self.header).partition("rows, ")[2]
        return f"{type(self).__name__}({self.n_rows} rows, {kept}"


class Memory(Rows):
    """A log that is in memory, walked as all others are."""

    def __init__(self, log: Log) -> None:
        self.log, self.header, self.n_rows = log, log.part(slice(0, 0)), log.n_rows

    def fold(self, statistic: Statistic[Log, State]) -> State:
        """In this thread."""
        leaves = Leaves(statistic, self.cut.leaf)
        for first, block in self.blocks():
            leaves.add(block, first)
        return leaves.total()

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Without a copy."""
        for rows in Blocks(0, self.n_rows, self.cut.block):
            yield rows.start, self.log.part(rows)


class Scan(Rows):
    """A log in tables that are read as they are walked, on an engine's workers."""

    def __init__(
        self, source: Source, reading: Reading, engine: Engine, progress: Progress | None = None
    ) -> None:
        self.source, self.reading, self.engine, self.progress = source, reading, engine, progress
        self.n_rows = reading.rows
        _, first = next(source.blocks(reading.columns.all, step=1, stop=1))
        self.header = reading.log(first).part(slice(0, 0))

    def fold(self, statistic: Statistic[Log, State]) -> State:
        """On the engine's workers."""
        return walk(
            self.source,
            self.reading.columns.all,
            statistic,
            self.reading.log,
            cut=self.cut,
            engine=self.engine,
            progress=self.progress,
        )

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Read here, one after the other."""
        for row, batch in self.source.blocks(self.reading.columns.all, step=self.cut.block):
            yield row, self.reading.log(batch, row)

    def narrowed(self) -> "Scan":
        """Reads no other columns."""
        return Scan(self.source, self.reading.narrowed(), self.engine, self.progress)

    def on(self, engine: Any, *, workers: int | None = None, progress: Progress | None = None) -> "Scan":
        """The same log, walked by another engine."""
        return Scan(self.source, self.reading, engine_of(engine, workers), progress or self.progress)


AnyLog = Log | Rows
"""A log in memory, or one that is walked."""


def rows_of(log: AnyLog) -> Rows:
    """A log as one that is walked."""
    return Memory(log) if isinstance(log, Log) else log


@keywords_of(Columns)
def scan(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Wanted = None,
    items: Any = None,
    item_features: Wanted = None,
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
    roles, chosen = arrays.roles_of(columns), engine_of(engine, workers)
    _check_table(source)
    table = open_files(source)
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


def _check_table(source: Any) -> None:
    from sparing.log import formats  # whose writers walk logs

    if not is_path(source):
        return
    found = formats.detect(source)
    if found is not formats.TABLE:
        raise LogError(
            f"this is {found.title}, which is not scanned. Convert it to Parquet first: sparing convert, or "
            "sparing.log.conversion.convert"
        )


def joined(header: Log, parts: Sequence[Log]) -> Log:
    """Logs of one table as one log."""
    if not parts:
        return header
    support = SupportBuilder(header.n_actions, kind=header.support.kind)
    for part in parts if header.support.known else ():
        chances = part.support.distribution()
        if chances is None:
            support.add(part.support.mask())
        else:
            support.add_distribution(chances)

    def of(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if arrays[0] is None else np.concatenate(arrays)

    return replace(
        header,
        contexts=of("contexts"),
        actions=of("actions"),
        rewards=of("rewards"),
        propensities=of("propensities"),
        support=support.build()
        if header.support.known
        else header.support.unknown(sum(map(len, parts)), header.n_actions),
        context_ids=of("context_ids"),
    )


@dataclass(frozen=True, eq=False)
class Sampled:
    """Rows with the smallest keys: the keys (m,) and numbers (m,) of rows, and logs that hold them, in order."""

    header: Log
    size: int
    keys: np.ndarray
    parts: tuple[Log, ...]

    def log(self) -> Log:
        """The rows in the log's order."""
        whole = joined(self.header, self.parts)
        if len(self.keys) <= self.size:
            return whole
        kept = np.sort(np.argsort(self.keys, kind="stable")[: self.size])
        return whole.take(kept)


class _Sample(Statistic[Log, Sampled]):
    """A random part of the rows: those with the smallest of keys that follow from a row's number and the seed alone.

    So many rows have small enough keys, but for chance: a few more are kept until all are seen.
    """

    def __init__(self, header: Log, rows: int, size: int, seed: int = 0) -> None:
        self.header, self.size = header, size
        self.salt = keys_of(np.array([seed], dtype=np.uint64)) if seed else np.zeros(1, dtype=np.uint64)
        expected = size + 6 * np.sqrt(size) + 6
        self.reach = None if expected >= rows else np.uint64(expected / rows * 2**64)

    def zero(self) -> Sampled:
        return Sampled(self.header, self.size, np.empty(0, dtype=np.uint64), ())

    def update(self, state: Sampled, block: Log, first_row: int) -> Sampled:
        keys = keys_of(np.arange(first_row, first_row + block.n_rows, dtype=np.uint64) ^ self.salt)
        if self.reach is None:
            return replace(state, keys=np.concatenate([state.keys, keys]), parts=(*state.parts, block))
        near = np.flatnonzero(keys < self.reach)
        return replace(
            state, keys=np.concatenate([state.keys, keys[near]]), parts=(*state.parts, block.take(near))
        )

    def merge(self, one: Sampled, other: Sampled) -> Sampled:
        return replace(one, keys=np.concatenate([one.keys, other.keys]), parts=(*one.parts, *other.parts))
