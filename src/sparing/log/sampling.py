"""Random samples of a log's rows that do not depend on how the log is stored or read.

Every row has a key that depends on its number alone, and the rows with the smallest keys are the sample. Parts of a log
can be sampled separately, in any order: the smallest keys of all parts are those of the log.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.hashing import row_keys
from sparing.log.passes import ColumnarBlock, Statistic

if TYPE_CHECKING:
    from sparing.log.log import Log

# Contexts that represent future ones: a mean over them is within a tenth of a standard deviation of the mean over all.
CONTEXT_SAMPLE_SIZE = 128


def smallest(keys: np.ndarray, size: int) -> np.ndarray:
    """Indices of the `size` smallest of keys (n,) that all differ, in the order of the keys."""
    found = np.arange(len(keys)) if len(keys) <= size else np.argpartition(keys, size)[:size]
    return found[np.argsort(keys[found], kind="stable")]


@dataclass(frozen=True, eq=False)
class SampleState:
    """Candidates for a sample of `size` rows: keys (m,), row numbers (m,), and the logs that hold these rows, in order.

    `extra` (m,) are further numbers of these rows, if the sample collects some.
    """

    header: "Log"
    size: int
    keys: np.ndarray
    numbers: np.ndarray
    parts: "tuple[Log, ...]"
    extra: np.ndarray | None = None

    @cached_property
    def kept(self) -> np.ndarray:
        """Indices of the sampled rows among the candidates, in the log's order, (size,)."""
        if len(self.keys) <= self.size:
            return np.arange(len(self.keys))
        return np.sort(np.argpartition(self.keys, self.size)[: self.size])

    def log(self) -> "Log":
        """The sampled rows in the log's order."""
        from sparing.log.rows import concatenate_logs  # that module imports this one

        candidates = concatenate_logs(self.header, self.parts)
        return candidates if len(self.keys) <= self.size else candidates.take(self.kept)


class RowSample(Statistic["Log", SampleState]):
    """Sample `size` of a log's `n_rows` rows, those with the smallest keys; all if there are no more.

    `extra(block, first_row)` returns a further number for each row of a block, (n,).
    """

    def __init__(
        self,
        header: "Log",
        n_rows: int,
        size: int,
        seed: int = 0,
        extra: "Callable[[Log, int], np.ndarray] | None" = None,
    ) -> None:
        self.header, self.size, self.seed, self.extra = header, size, seed, extra
        # Candidates: six standard deviations more rows than the sample, so that they take little memory.
        expected = size + 6 * np.sqrt(size) + 6
        self.reach = None if expected >= n_rows else np.uint64(expected / n_rows * 2**64)

    def zero(self) -> SampleState:
        none = None if self.extra is None else np.empty(0)
        return SampleState(self.header, self.size, np.empty(0, np.uint64), np.empty(0, np.int64), (), none)

    def update(self, state: SampleState, block: "Log", first_row: int) -> SampleState:
        numbers = np.arange(first_row, first_row + block.n_rows)
        keys = row_keys(numbers, self.seed)
        extra = None if self.extra is None else self.extra(block, first_row)
        if self.reach is not None:
            near = np.flatnonzero(keys < self.reach)
            keys, numbers, block = keys[near], numbers[near], block.take(near)
            extra = None if extra is None else extra[near]
            block = replace(block, support=block.support.compact())
        return self.merge(state, SampleState(self.header, self.size, keys, numbers, (block,), extra))

    def merge(self, one: SampleState, other: SampleState) -> SampleState:
        keys, numbers = np.append(one.keys, other.keys), np.append(one.numbers, other.numbers)
        extra = None if one.extra is None or other.extra is None else np.append(one.extra, other.extra)
        return SampleState(one.header, one.size, keys, numbers, (*one.parts, *other.parts), extra)


@dataclass(frozen=True, eq=False)
class SampledContexts:
    """Sampled contexts (m, d) and the keys of their rows (m,), ascending."""

    keys: np.ndarray
    contexts: np.ndarray


class ContextSample(Statistic[Any, SampledContexts]):
    """Sample contexts as `RowSample` does rows; blocks are logs, columnar blocks or arrays of contexts (n, d)."""

    by_columns = True

    def __init__(self, n_features: int, size: int = CONTEXT_SAMPLE_SIZE) -> None:
        self.n_features, self.size = n_features, size

    def zero(self) -> SampledContexts:
        return SampledContexts(np.empty(0, dtype=np.uint64), np.empty((0, self.n_features)))

    def update(
        self, state: SampledContexts, block: "Log | ColumnarBlock | np.ndarray", first_row: int
    ) -> SampledContexts:
        many = len(block) if isinstance(block, np.ndarray) else block.n_rows
        keys = row_keys(np.arange(first_row, first_row + many))
        near = np.arange(many) if len(state.keys) < self.size else np.flatnonzero(keys < state.keys[-1])
        near = near[smallest(keys[near], self.size)]
        if isinstance(block, ColumnarBlock):
            found = block.at(near)
        else:
            found = (block if isinstance(block, np.ndarray) else block.contexts)[near]
        return self.merge(state, SampledContexts(keys[near], found))

    def merge(self, one: SampledContexts, other: SampledContexts) -> SampledContexts:
        keys, contexts = np.append(one.keys, other.keys), np.concatenate([one.contexts, other.contexts])
        order = smallest(keys, self.size)
        return SampledContexts(keys[order], contexts[order])


def sample_contexts(contexts: np.ndarray, size: int = CONTEXT_SAMPLE_SIZE) -> np.ndarray:
    """A sample (m, d) of contexts (n, d)."""
    sample = ContextSample(contexts.shape[1], size)
    return sample.update(sample.zero(), contexts, 0).contexts
