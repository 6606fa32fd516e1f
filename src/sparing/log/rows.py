"""A log's rows, in memory or not, walked block by block: some of them, a random part, those that are kept."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log.blocks import Blocks, Cut
from sparing.log.features.encoder import Encoder
from sparing.log.items import Items
from sparing.log.log import Log
from sparing.log.reservoir import keys_of
from sparing.log.support import SupportBuilder
from sparing.log.walking import Leaves, Statistic, Total

if TYPE_CHECKING:
    from sparing.model.statistics import Summary

State = TypeVar("State")


class Rows(ABC):
    """A log by its header and a way to walk it.

    `header` is the log without its rows: names, encoder, items, of which kind the support is, whether there are propensities
    and ids; `threads` are those that what is made of its rows here may take, None for one a core.
    """

    header: Log
    n_rows: int
    progress: Progress | None = None
    threads: int | None = None

    def fold(self, statistic: Statistic[Log, State]) -> State:
        """Walk all rows once, in this thread, and give what the statistic gathers."""
        leaves = Leaves(statistic, self.cut.leaf)
        for first, block in self.blocks():
            leaves.add(block, first)
            if self.progress is not None:
                self.progress(first + block.n_rows, self.n_rows)
        return leaves.total()

    @abstractmethod
    def blocks(self) -> Iterator[tuple[int, Log]]:
        """The rows in order, a block at a time, each with its first row."""

    @property
    def cut(self) -> Cut:
        """How the rows are cut into leaves and blocks."""
        return Cut.of(self.n_rows, self.n_actions, self.n_features)

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
        return self.fold(Sample(self.header, self.n_rows, rows, seed)).log()

    def read(self) -> Log:
        """All rows, as a log in memory."""
        return joined(self.header, [block for _, block in self.blocks()])

    def summary(self) -> "Summary":
        """The sums of the rows, and a few contexts: all that a learner needs of the log.

        Only contexts, actions and rewards are read. Memory is bounded by actions, features and workers.
        """
        from sparing.model.statistics import (
            Summary,
        )  # the one import up the layers: a method users expect here

        return Summary.of(self)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        kept = repr(self.header).partition("rows, ")[2]
        return f"{type(self).__name__}({self.n_rows} rows, {kept}"

    def _repr_html_(self) -> str:
        from sparing.log.showing import card_of

        return card_of(self.header, type(self).__name__, self.n_rows)


class Memory(Rows):
    """A log that is in memory, walked as all others are."""

    def __init__(self, log: Log) -> None:
        self.log, self.header, self.n_rows = log, log.part(slice(0, 0)), log.n_rows

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Without a copy."""
        for rows in Blocks(0, self.n_rows, self.cut.block):
            yield rows.start, self.log.part(rows)

    def read(self) -> Log:
        """It is there."""
        return self.log


class Keep(Protocol):
    """Says which rows of a block are kept, (n,), the number of its first given; it must be picklable.

    `ids` says whether it looks at the ids of contexts.
    """

    @property
    def ids(self) -> bool:
        """Whether it looks at the ids of contexts."""

    def __call__(self, block: Log, first_row: int) -> np.ndarray:
        """Whether each row is kept, (n,)."""


class Filtered(Rows):
    """Some of a log's rows, cut as all of them are: its blocks are shorter, and keep the number of the first row.

    Without `n_rows`, how many they are, they are counted.
    """

    def __init__(self, rows: Rows, keep: Keep, n_rows: int | None = None) -> None:
        self.rows, self.keep, self.header = rows, keep, rows.header
        self.progress, self.threads = rows.progress, rows.threads
        light = rows if keep.ids else rows.narrowed()
        self.n_rows = (light.fold(kept(keep)) or 0) if n_rows is None else n_rows

    @property
    def cut(self) -> Cut:
        """That of all rows."""
        return self.rows.cut

    def fold(self, statistic: Statistic[Log, State]) -> State:
        """Where the rows are."""
        return self.rows.fold(_Sifted(statistic, self.keep))

    def blocks(self) -> Iterator[tuple[int, Log]]:
        """Those that have rows left."""
        for first, block in self.rows.blocks():
            kept = block.take(self.keep(block, first))
            if kept.n_rows:
                yield first, kept

    def narrowed(self) -> "Rows":
        """With ids, if they say what is kept."""
        return self if self.keep.ids else Filtered(self.rows.narrowed(), self.keep, self.n_rows)


def kept(keep: Keep) -> Total[Log]:
    """Counts the rows that are kept."""
    return Total(partial(_count, keep))


def _count(keep: Keep, block: Log, first_row: int) -> int:
    return int(keep(block, first_row).sum())


class _Sifted(Statistic[Log, State]):
    """A statistic of the rows that are kept."""

    def __init__(self, statistic: Statistic[Log, State], keep: Keep) -> None:
        self.statistic, self.keep = statistic, keep

    def zero(self) -> State:
        return self.statistic.zero()

    def update(self, state: State, block: Log, first_row: int) -> State:
        kept = block.take(self.keep(block, first_row))
        return self.statistic.update(state, kept, first_row) if kept.n_rows else state

    def finish(self, state: State) -> State:
        return self.statistic.finish(state)

    def merge(self, one: State, other: State) -> State:
        return self.statistic.merge(one, other)


AnyLog = Log | Rows
"""A log in memory, or one that is walked."""


def rows_of(log: AnyLog) -> Rows:
    """A log as one that is walked."""
    if not isinstance(log, Log | Rows):
        raise LogError(f"got a {type(log).__name__}; expected a Log. Read one with sparing.read_log(...)")
    return Memory(log) if isinstance(log, Log) else log


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


@dataclass(frozen=True)
class Rewards:
    """Their sum, the least and the largest, and whether each is 0 or 1."""

    total: float
    low: float
    high: float
    binary: bool

    @classmethod
    def of(cls, block: Log, first_row: int = 0) -> "Rewards":
        """Those of a log with rows."""
        rewards = block.rewards
        return cls(float(rewards.sum()), float(rewards.min()), float(rewards.max()), block.binary)

    def __add__(self, other: "Rewards") -> "Rewards":
        low, high = min(self.low, other.low), max(self.high, other.high)
        return Rewards(self.total + other.total, low, high, self.binary and other.binary)


def rewards_of(log: AnyLog) -> Rewards:
    """Those of a log with rows, in memory or walked."""
    return Rewards.of(log) if isinstance(log, Log) else log.narrowed().fold(Total(Rewards.of))


@dataclass(frozen=True, eq=False)
class Sampled:
    """Rows with the smallest keys: the keys (m,) and numbers (m,) of rows, and logs that hold them, in order."""

    header: Log
    size: int
    keys: np.ndarray
    numbers: np.ndarray
    parts: tuple[Log, ...]

    @property
    def kept(self) -> np.ndarray:
        """Which of them are the sample, in the log's order, (size,)."""
        return np.sort(np.argsort(self.keys, kind="stable")[: self.size])

    def log(self) -> Log:
        """The rows in the log's order."""
        whole = joined(self.header, self.parts)
        return whole if len(self.keys) <= self.size else whole.take(self.kept)


class Sample(Statistic[Log, Sampled]):
    """A random part of the rows: those with the smallest of keys that follow from a row's number and the seed alone.

    So many rows have small enough keys, but for chance: a few more are kept until all are seen.
    """

    def __init__(self, header: Log, rows: int, size: int, seed: int = 0) -> None:
        self.header, self.size = header, size
        self.salt = keys_of(np.array([seed], dtype=np.uint64)) if seed else np.zeros(1, dtype=np.uint64)
        expected = size + 6 * np.sqrt(size) + 6
        self.reach = None if expected >= rows else np.uint64(expected / rows * 2**64)

    def zero(self) -> Sampled:
        """No rows yet."""
        return Sampled(self.header, self.size, np.empty(0, np.uint64), np.empty(0, np.int64), ())

    def update(self, state: Sampled, block: Log, first_row: int) -> Sampled:
        """With those of a block whose keys are small enough."""
        numbers = np.arange(first_row, first_row + block.n_rows)
        keys = keys_of(numbers.astype(np.uint64) ^ self.salt)
        if self.reach is not None:
            near = np.flatnonzero(keys < self.reach)
            keys, numbers, block = keys[near], numbers[near], block.take(near)
            block = replace(block, support=block.support.compact())
        return self.merge(state, Sampled(self.header, self.size, keys, numbers, (block,)))

    def merge(self, one: Sampled, other: Sampled) -> Sampled:
        """Those of both."""
        keys, numbers = np.append(one.keys, other.keys), np.append(one.numbers, other.numbers)
        return Sampled(one.header, one.size, keys, numbers, (*one.parts, *other.parts))
