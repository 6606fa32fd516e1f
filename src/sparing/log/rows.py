"""Logs that are read block by block, in memory or not: all rows, filtered rows, and random samples of them."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log.features.encoder import Encoder
from sparing.log.items import Items
from sparing.log.log import Log, card_of
from sparing.log.passes import Blocks, ChunkReducer, ColumnarBlock, Partition, Statistic, SumOf
from sparing.log.sketches import RowSample
from sparing.log.support import Support, SupportBuilder

if TYPE_CHECKING:
    from sparing.model.statistics import LogSummary

S = TypeVar("S")


class Rows(ABC):
    """A log that is read block by block.

    `header` is the log without its rows: names, encoder, items, the kind of support, and which optional columns exist.
    `progress` is called with the rows done and all rows during a pass. Computations on the rows in this process may use
    `threads`; None means one per core. `in_memory`: a pass runs in the caller's thread.
    """

    header: Log
    n_rows: int
    progress: Progress | None = None
    threads: int | None = None
    in_memory: bool = False

    def fold(self, statistic: Statistic[Log, S]) -> S:
        """Compute a statistic in one pass over all rows."""
        chunks = ChunkReducer(statistic, self.partition.chunk)
        for first, block in self.blocks():
            chunks.add(block, first)
            if self.progress is not None:
                self.progress(first + block.n_rows, self.n_rows)
        return chunks.total()

    @abstractmethod
    def blocks(self) -> Iterator[tuple[int, Log]]:
        """The rows in order, in blocks that fit in memory, each with the number of its first row."""

    @property
    def partition(self) -> Partition:
        """The chunks and blocks of a pass, which decide the order of additions."""
        return Partition.of(self.n_rows, self.n_actions, self.n_features)

    @property
    def action_names(self) -> tuple[Hashable, ...]:
        """Labels of the actions, (K,)."""
        return self.header.action_names

    @property
    def encoder(self) -> Encoder:
        return self.header.encoder

    @property
    def items(self) -> Items | None:
        return self.header.items

    @property
    def n_actions(self) -> int:
        """Number of actions, logged or not, K."""
        return self.header.n_actions

    @property
    def n_features(self) -> int:
        """Length of a context, d."""
        return self.header.n_features

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, (d,)."""
        return self.header.feature_names

    def select(
        self, *, ids: bool = True, support: bool = True, features: Collection[int] | None = None
    ) -> "Rows":
        """Skip fields that a pass does not need, as in `Scan.select`; rows that are in memory keep all."""
        return self

    def sample(self, rows: int, seed: int = 0) -> Log:
        """Draw a random sample of the rows.

        Parameters
        ----------
        rows : int
            Size of the sample; all rows if there are no more.
        seed : int
            Another seed gives another sample.

        Returns
        -------
        Log
            The sampled rows in their order. The sample does not depend on where the rows are stored.
        """
        return self.fold(RowSample(self.header, self.n_rows, rows, seed)).log()

    def read(self) -> Log:
        """Read all rows into memory."""
        return concatenate_logs(self.header, [block for _, block in self.blocks()])

    def summary(self) -> "LogSummary":
        """Sum the log in one pass, for a learner.

        Only contexts, actions and rewards are read. Memory is bounded by actions, features and workers.

        Returns
        -------
        LogSummary
            Sums of the rows, and a sample of the contexts.
        """
        # The one import up the layers: users expect the method here.
        from sparing.model.statistics import LogSummary

        return LogSummary.of(self)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        kept = repr(self.header).partition("rows, ")[2]
        return f"{type(self).__name__}({self.n_rows} rows, {kept}"

    def _repr_html_(self) -> str:
        return card_of(self.header, type(self).__name__, self.n_rows)


class InMemoryRows(Rows):
    """The rows of a `Log`."""

    in_memory = True

    def __init__(self, log: Log) -> None:
        self.log, self.header, self.n_rows = log, log.part(slice(0, 0)), log.n_rows

    def blocks(self) -> Iterator[tuple[int, Log]]:
        if 0 < self.n_rows <= self.partition.block:
            yield 0, self.log  # the log itself, so that its hashes and groups are computed once
            return
        for rows in Blocks(0, self.n_rows, self.partition.block):
            yield rows.start, self.log.part(rows)

    def sample(self, rows: int, seed: int = 0) -> Log:
        return self.log if rows >= self.n_rows else super().sample(rows, seed)

    def read(self) -> Log:
        return self.log


class RowFilter(Protocol):
    """A picklable predicate: whether each row of a block is kept, (n,); `ids`: whether it reads ids of contexts."""

    @property
    def ids(self) -> bool: ...

    def __call__(self, block: Log, first_row: int) -> np.ndarray: ...


class FilteredRows(Rows):
    """The rows that a filter keeps, in the partition of all rows: blocks are shorter, and keep their first row's number.

    Without `n_rows` a pass counts them.
    """

    def __init__(self, rows: Rows, keep: RowFilter, n_rows: int | None = None) -> None:
        self.rows, self.keep, self.header = rows, keep, rows.header
        self.progress, self.threads = rows.progress, rows.threads
        # Rows in memory are filtered once, not in every pass.
        self._taken: dict[int, Log] | None = {} if isinstance(rows, InMemoryRows) else None
        if n_rows is None:
            n_rows = rows.select(ids=keep.ids, support=False).fold(count_kept(keep)) or 0
        self.n_rows = n_rows

    @property
    def partition(self) -> Partition:
        return self.rows.partition

    def fold(self, statistic: Statistic[Log, S]) -> S:
        return self.rows.fold(_FilteredStatistic(statistic, self.keep, self._taken))

    def blocks(self) -> Iterator[tuple[int, Log]]:
        for first, block in self.rows.blocks():
            kept = _take(self.keep, self._taken, block, first)
            if kept.n_rows:
                yield first, kept

    def select(
        self, *, ids: bool = True, support: bool = True, features: Collection[int] | None = None
    ) -> "Rows":
        if isinstance(self.rows, InMemoryRows) or (ids and support):
            return self
        # The filter may need ids, and all features.
        rows = self.rows.select(ids=ids or self.keep.ids, support=support)
        return FilteredRows(rows, self.keep, self.n_rows)


class BlocksInMemory(Rows):
    """Rows whose blocks are kept in memory, in the same partition."""

    in_memory = True

    def __init__(self, rows: Rows) -> None:
        self.header, self.n_rows, self._partition = rows.header, rows.n_rows, rows.partition
        self._blocks = list(rows.blocks())

    @property
    def partition(self) -> Partition:
        return self._partition

    def blocks(self) -> Iterator[tuple[int, Log]]:
        return iter(self._blocks)


def count_kept(keep: RowFilter) -> SumOf[Log]:
    """A statistic: the number of rows that a filter keeps."""
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


def as_rows(log: AnyLog) -> Rows:
    if not isinstance(log, Log | Rows):
        raise LogError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    return InMemoryRows(log) if isinstance(log, Log) else log


def concatenate_logs(header: Log, parts: Sequence[Log]) -> Log:
    """Join logs with the names of `header`, in order."""
    if len(parts) < 2:
        return parts[0] if parts else header
    support = SupportBuilder(header.n_actions, kind=header.support.kind)
    for part in parts if header.support.known else ():
        chances = part.support.distribution()
        if chances is None:
            support.add(part.support.mask())
        else:
            support.add_distribution(chances)

    names = ["contexts", "actions", "rewards", "propensities", "context_ids"]
    names += [] if header.costs is None or header.costs.ndim == 1 else ["costs"]
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    joined: Any = {name: None if some[0] is None else np.concatenate(some) for name, some in columns.items()}
    known = header.support.known
    unknown = Support.unknown(sum(map(len, parts)), header.n_actions)
    return replace(header, support=support.build() if known else unknown, **joined)


def append_judged(log: Log, judged: Log) -> Log:
    """The rows of a log, then judged ones, which nobody logged: so there are no propensities, supports and ids.

    Where the log has costs by row, judged rows without theirs have the means.
    """
    nothing: dict[str, Any] = {"propensities": None, "context_ids": None}
    plain = replace(log, support=Support.unknown(log.n_rows, log.n_actions), **nothing)
    costs = log.costs
    if costs is not None and costs.ndim == 2:
        own = judged.costs is not None and judged.costs.ndim == 2
        costs = judged.costs if own else np.tile(costs.mean(axis=0), (judged.n_rows, 1))
    more = replace(judged, support=Support.unknown(judged.n_rows, log.n_actions), costs=costs, **nothing)
    return concatenate_logs(plain, [plain, more])


def mean_costs(log: AnyLog) -> np.ndarray | None:
    """The log's known costs of the actions, (K,); of costs by row the means."""
    rows = as_rows(log)
    known = rows.header.costs
    if known is None or known.ndim == 1:
        return known
    return rows.fold(SumOf(_cost_sums)) / rows.n_rows if rows.n_rows else None


def _cost_sums(block: Log, first_row: int) -> np.ndarray:
    assert block.costs is not None
    return np.asarray(block.costs.sum(axis=0))


@dataclass(frozen=True)
class RewardSummary:
    """Sum, minimum and maximum of rewards, and whether each is 0 or 1."""

    total: float
    low: float
    high: float
    binary: bool

    @classmethod
    def of(cls, block: Log | ColumnarBlock, first_row: int = 0) -> "RewardSummary":
        rewards = block.rewards
        binary = bool(((rewards == 0) | (rewards == 1)).all())
        return cls(float(rewards.sum()), float(rewards.min()), float(rewards.max()), binary)

    @property
    def zero_one(self) -> bool:
        """Whether each reward is 0 or 1, and both occur."""
        return self.binary and self.low < self.high

    def __add__(self, other: "RewardSummary") -> "RewardSummary":
        low, high = min(self.low, other.low), max(self.high, other.high)
        return RewardSummary(self.total + other.total, low, high, self.binary and other.binary)


def reward_summary(log: AnyLog) -> RewardSummary:
    """The summary of a log's rewards; it must have rows."""
    if isinstance(log, Log):
        return RewardSummary.of(log)
    return log.select(ids=False, support=False).fold(SumOf(RewardSummary.of))
