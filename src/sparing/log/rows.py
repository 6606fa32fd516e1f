"""A log's rows, in memory or not, walked block by block: some of them, a random part, those that are kept."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log.blocks import Blocks, Partition
from sparing.log.features.encoder import Encoder
from sparing.log.items import Items
from sparing.log.log import Log
from sparing.log.passes import ChunkReducer, Statistic, SumOf
from sparing.log.sampling import RowSample
from sparing.log.support import SupportBuilder

if TYPE_CHECKING:
    from sparing.model.statistics import LogSummary

S = TypeVar("S")


class Rows(ABC):
    """A log by its header and a way to walk it.

    `header` is the log without its rows: names, encoder, items, of which kind the support is, whether there are propensities
    and ids; `threads` are those that what is made of its rows here may take, None for one a core. `in_memory`: its blocks
    are in memory, and a pass over them runs in the caller's thread.
    """

    header: Log
    n_rows: int
    progress: Progress | None = None
    threads: int | None = None
    in_memory: bool = False

    def fold(self, statistic: Statistic[Log, S]) -> S:
        """Walk all rows once, in this thread, and give what the statistic gathers."""
        leaves = ChunkReducer(statistic, self.cut.leaf)
        for first, block in self.blocks():
            leaves.add(block, first)
            if self.progress is not None:
                self.progress(first + block.n_rows, self.n_rows)
        return leaves.total()

    @abstractmethod
    def blocks(self) -> Iterator[tuple[int, Log]]:
        """The rows in order, a block at a time, each with its first row."""

    @property
    def cut(self) -> Partition:
        """How the rows are cut into leaves and blocks."""
        return Partition.of(self.n_rows, self.n_actions, self.n_features)

    @property
    def whole(self) -> bool:
        """Whether all rows are one block, which is then a log in memory like any other."""
        return self.cut.rows <= self.cut.block

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

    def lean(self) -> "Rows":
        """The same rows with nothing but that and the contexts' ids, which tell contexts apart where there are any."""
        return self.narrowed() if self.header.context_ids is None else self

    def focused(self, features: Collection[int]) -> "Rows":
        """The same rows for who looks at these features alone: the others need not be read, and are then 0."""
        return self

    def sample(self, rows: int, seed: int = 0) -> Log:
        """A random part of the rows, in order, as a log in memory: the same part wherever they lie."""
        return self.fold(RowSample(self.header, self.n_rows, rows, seed)).log()

    def read(self) -> Log:
        """All rows, as a log in memory."""
        return concatenate_logs(self.header, [block for _, block in self.blocks()])

    def summary(self) -> "LogSummary":
        """The sums of the rows, and a few contexts: all that a learner needs of the log.

        Only contexts, actions and rewards are read. Memory is bounded by actions, features and workers.
        """
        from sparing.model.statistics import (
            LogSummary,
        )  # the one import up the layers: a method users expect here

        return LogSummary.of(self)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        kept = repr(self.header).partition("rows, ")[2]
        return f"{type(self).__name__}({self.n_rows} rows, {kept}"

    def _repr_html_(self) -> str:
        from sparing.log.log import card_of

        return card_of(self.header, type(self).__name__, self.n_rows)


class InMemoryRows(Rows):
    """A log that is in memory, walked as all others are."""

    in_memory = True

    def __init__(self, log: Log) -> None:
        self.log, self.header, self.n_rows = log, log.part(slice(0, 0)), log.n_rows

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Without a copy."""
        if 0 < self.n_rows <= self.cut.block:
            yield 0, self.log  # the log itself, so that its hashes and groups are computed once
            return
        for rows in Blocks(0, self.n_rows, self.cut.block):
            yield rows.start, self.log.part(rows)

    def sample(self, rows: int, seed: int = 0) -> Log:
        return self.log if rows >= self.n_rows else super().sample(rows, seed)

    def read(self) -> Log:
        """It is there."""
        return self.log


class RowFilter(Protocol):
    """Says which rows of a block are kept, (n,), the number of its first given; it must be picklable.

    `ids` says whether it looks at the ids of contexts.
    """

    @property
    def ids(self) -> bool:
        """Whether it looks at the ids of contexts."""

    def __call__(self, block: Log, first_row: int) -> np.ndarray:
        """Whether each row is kept, (n,)."""


class FilteredRows(Rows):
    """Some of a log's rows, cut as all of them are: its blocks are shorter, and keep the number of the first row.

    Without `n_rows`, how many they are, they are counted.
    """

    def __init__(self, rows: Rows, keep: RowFilter, n_rows: int | None = None) -> None:
        self.rows, self.keep, self.header = rows, keep, rows.header
        self.progress, self.threads = rows.progress, rows.threads
        # Rows in memory are taken once, and not again by every pass.
        self._taken: dict[int, Log] | None = {} if isinstance(rows, InMemoryRows) else None
        light = rows if keep.ids else rows.narrowed()
        self.n_rows = (light.fold(count_kept(keep)) or 0) if n_rows is None else n_rows

    @property
    def cut(self) -> Partition:
        """That of all rows."""
        return self.rows.cut

    def fold(self, statistic: Statistic[Log, S]) -> S:
        """Where the rows are."""
        return self.rows.fold(_FilteredStatistic(statistic, self.keep, self._taken))

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Those that have rows left."""
        for first, block in self.rows.blocks():
            kept = _take(self.keep, self._taken, block, first)
            if kept.n_rows:
                yield first, kept

    def narrowed(self) -> "Rows":
        """With ids, if they say what is kept."""
        if self.keep.ids or isinstance(self.rows, InMemoryRows):
            return self
        return FilteredRows(self.rows.narrowed(), self.keep, self.n_rows)


class BlocksInMemory(Rows):
    """Rows whose blocks are in memory, each with the number of its first row; cut as the rows they are of."""

    in_memory = True

    def __init__(self, rows: Rows) -> None:
        self.header, self.n_rows, self._cut = rows.header, rows.n_rows, rows.cut
        self._blocks = list(rows.blocks())

    @property
    def cut(self) -> Partition:
        return self._cut

    def blocks(self) -> Iterator[tuple[int, Log]]:
        return iter(self._blocks)


def count_kept(keep: RowFilter) -> SumOf[Log]:
    """Counts the rows that are kept."""
    return SumOf(partial(_count, keep))


def _count(keep: RowFilter, block: Log, first_row: int) -> int:
    return int(keep(block, first_row).sum())


def _take(keep: RowFilter, taken: dict[int, Log] | None, block: Log, first_row: int) -> Log:
    if taken is None:
        return block.take(keep(block, first_row))
    if first_row not in taken:
        taken[first_row] = block.take(keep(block, first_row))
    return taken[first_row]


class _FilteredStatistic(Statistic[Log, S]):
    """A statistic of the rows that are kept."""

    def __init__(self, statistic: Statistic[Log, S], keep: RowFilter, taken: dict[int, Log] | None) -> None:
        self.statistic, self.keep, self.taken = statistic, keep, taken

    def zero(self) -> S:
        return self.statistic.zero()

    def update(self, state: S, block: Log, first_row: int) -> S:
        kept = _take(self.keep, self.taken, block, first_row)
        return self.statistic.update(state, kept, first_row) if kept.n_rows else state

    def finish(self, state: S) -> S:
        return self.statistic.finish(state)

    def merge(self, one: S, other: S) -> S:
        return self.statistic.merge(one, other)


AnyLog = Log | Rows
"""A log in memory, or one that is walked."""


def as_rows(log: AnyLog) -> Rows:
    """A log as one that is walked."""
    if not isinstance(log, Log | Rows):
        raise LogError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    return InMemoryRows(log) if isinstance(log, Log) else log


def concatenate_logs(header: Log, parts: Sequence[Log]) -> Log:
    """Logs of one table as one log."""
    if len(parts) < 2:
        return parts[0] if parts else header
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


@dataclass(frozen=True)
class RewardSummary:
    """Their sum, the least and the largest, and whether each is 0 or 1."""

    total: float
    low: float
    high: float
    binary: bool

    @classmethod
    def of(cls, block: Log, first_row: int = 0) -> "RewardSummary":
        """Those of a log with rows."""
        rewards = block.rewards
        return cls(float(rewards.sum()), float(rewards.min()), float(rewards.max()), block.binary)

    def __add__(self, other: "RewardSummary") -> "RewardSummary":
        low, high = min(self.low, other.low), max(self.high, other.high)
        return RewardSummary(self.total + other.total, low, high, self.binary and other.binary)


def reward_summary(log: AnyLog) -> RewardSummary:
    """Those of a log with rows, in memory or walked."""
    return RewardSummary.of(log) if isinstance(log, Log) else log.narrowed().fold(SumOf(RewardSummary.of))
