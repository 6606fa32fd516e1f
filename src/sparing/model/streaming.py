"""Statistics of a log that need not fit in memory: leaf by leaf, on an engine's workers."""

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from sparing import validation
from sparing.engines import Progress, local
from sparing.log import Log
from sparing.log.columns import ColumnNames, Columns, keywords_of
from sparing.log.rows import AnyLog, Rows, joined, rows_of
from sparing.log.sampling import ContextSample
from sparing.log.walking import Standing, Statistic, Together
from sparing.model.statistics import COMPILED_CELLS, Statistics, Summary, sums_of

if TYPE_CHECKING:
    from sparing.log.scan import Wanted


class Sums(Statistic[Log, Any]):
    """The per-action sums of a log; by the compiled kernel where the log is large enough to earn it."""

    def __init__(self, log: AnyLog) -> None:
        rows = rows_of(log)
        self.n_actions, self.n_features = rows.n_actions, rows.n_features
        self.compiled = rows.n_rows * rows.n_features >= COMPILED_CELLS
        self.by_columns = self.compiled

    def zero(self) -> Any:
        """No rows."""
        if not self.compiled:
            return []
        from sparing.model.tiles import Tiles

        return Tiles(self.n_actions, self.n_features)

    def update(self, state: Any, block: Log | Standing, first_row: int) -> Any:
        """Add one more block, or keep it until the leaf is full."""
        if self.compiled:
            state.add(block.contexts, block.actions, block.rewards)
        else:
            state.append(block)
        return state

    def finish(self, state: Any) -> Statistics:
        """The sums of a leaf."""
        if self.compiled:
            return state.sums()
        if not state:
            return Statistics.zero(self.n_actions, self.n_features)
        return sums_of(state[0] if len(state) == 1 else joined(state[0], state))

    def merge(self, one: Statistics, other: Statistics) -> Statistics:
        """Both added."""
        return one + other


def statistics_of(log: AnyLog) -> Statistics:
    """The sums of a log, in memory or walked."""
    rows = rows_of(log).narrowed()
    return replace(rows.fold(Sums(rows)), encoder=rows.encoder.digest)


def summary_of(log: AnyLog) -> Summary:
    """What a log's sums tell, without its rows."""
    rows = rows_of(log).narrowed()
    sums, some = rows.fold(Together(Sums(rows), ContextSample(rows.n_features)))
    sums = replace(sums, encoder=rows.encoder.digest)
    return Summary(sums, rows.action_names, rows.encoder, rows.items, some.contexts)


@keywords_of(Columns)
def summarise(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: "Wanted" = None,
    threads: int | None = None,
    engine: Any = None,
    progress: Progress | None = None,
    **columns: Unpack[ColumnNames],
) -> Summary:
    """Sum up a table's rows. Deprecated: use `scan(source, ...).summary()`.

    `threads` are those of the local engine (`scan(workers=...)`), by default one a core.
    """
    from sparing.log.formats import scan  # which imports PyArrow: a log in memory does not need it

    warnings.warn(
        "summarise(source, ...) is deprecated; use scan(source, ...).summary()",
        DeprecationWarning,
        stacklevel=2,
    )
    if isinstance(source, Rows):
        return summary_of(source)
    if threads is not None:
        validation.integer("threads", threads, least=1, hint=", or None for all cores")
    where = local(threads) if engine is None else engine
    return scan(
        source, actions=actions, features=features, engine=where, progress=progress, **columns
    ).summary()
