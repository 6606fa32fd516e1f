"""The codec of tables: a row a round, as Parquet, CSV, Arrow or JSON lines, or in memory."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from sparing.engines import Progress, local
from sparing.log.columns import ColumnNames, Columns, keywords_of, roles_of
from sparing.log.features import Encoder
from sparing.log.log import Log
from sparing.log.rows import Rows, rows_of
from sparing.log.scan import Scan, TableLayout, Wanted, infer_layout
from sparing.log.tables import open_table
from sparing.log.text_files import Dialect
from sparing.log.walking import telling_lines
from sparing.log.writer import write as write


@keywords_of(Columns)
def read(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Wanted = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    **columns: Unpack[ColumnNames],
) -> tuple[Log, list[str]]:
    """Read a table batch by batch, in memory proportional to the log itself, and say what its columns were taken for."""
    roles = roles_of(columns)
    return load(source, roles, Dialect(delimiter, decimal), actions=actions, features=features)


def load(
    source: Any, roles: Columns, dialect: Dialect, *, actions: Sequence[Hashable] | None, features: Wanted
) -> tuple[Log, list[str]]:
    """The same of columns by their roles, where text is written so."""
    table = open_table(source, dialect)
    layout = infer_layout(table, roles, actions=actions, features=features)
    parts, support = defaultdict[str, list[np.ndarray]](list), layout.support()
    with telling_lines(table):
        for row, batch in table.blocks(layout.columns.all):
            for what, array in layout.batch_arrays(batch, row, support).items():
                parts[what].append(array)
        # One array of its parts, which are let go of.
        joined = {what: np.concatenate(parts.pop(what)) for what in list(parts)}
        log = layout.build(joined, support)
    return aligned(log, features), _assumed(layout)


@keywords_of(Columns)
def scan(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    features: Wanted = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    progress: Progress | None = None,
    **columns: Unpack[ColumnNames],
) -> tuple[Rows, list[str]]:
    """The same log as one that is walked; also of a folder, a pattern or a URI, by one worker."""
    roles, dialect = roles_of(columns), Dialect(delimiter, decimal)
    if isinstance(features, Encoder):  # which may have the columns in another order
        log, notes = load(source, roles, dialect, actions=actions, features=features)
        return rows_of(log), notes
    table, engine = open_table(source, dialect), local(1)
    layout = infer_layout(table, roles, actions=actions, features=features, engine=engine)
    return Scan(table, layout, engine, progress), _assumed(layout)


def _assumed(layout: TableLayout) -> list[str]:
    return [] if layout.encoder is None else [f"Features: {layout.encoder.described()}."]


def aligned(log: Log, features: Wanted, *, sparse: str | None = None) -> Log:
    """The log with its contexts as a given encoder has them, by name; see there for `sparse` files."""
    if not isinstance(features, Encoder) or features.digest == log.encoder.digest:
        return log
    return replace(log, contexts=features.aligned(log.encoder, log.contexts, sparse=sparse), encoder=features)
