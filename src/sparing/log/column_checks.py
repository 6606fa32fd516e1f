"""Warnings about a table at the door: columns known only after the action, ids, repeated rows.

The columns are checked on the first rows of the table, so that a scan of any size pays the same for it.
"""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparing.errors import LogError
from sparing.log.features.columns import CategoryColumn, Column, HashedColumn, NumberColumn
from sparing.log.features.encoder import Encoder
from sparing.log.labels import shorten

if TYPE_CHECKING:
    from sparing.log.scan import Scan

HEAD_ROWS = 20_000  # rows that are checked, at most
LEAST_ROWS = 100  # a shorter table is not checked
ROWS_IN_ACTION, MOST_IN_ACTION = 30, 1000  # rows of an action within which a column must predict the reward
ACTIONS_CHECKED = 20  # actions with the most rows
BINS = 20  # values, or intervals of values, of a column whose mean rewards are compared

LEAKS_BINARY, LEAKS = 0.5, 0.8
"""Share of the reward's variance within every action that no ordinary column explains: of 0/1 rewards, of others."""

UNIQUE, UNIQUE_TEXT = 0.8, 0.4
"""Distinct values, as a share of the rows or of the context ids, beyond which numbers, or hashed texts, may be ids."""

ROWS_SPREAD = 500  # rows from which on an even spread of numbers is hardly one by chance
COMMON = 0.02  # no id is in more than this share of the rows; a city or a word is
MANY_VALUES = 20  # a number whose name is that of an id is one if it has more values
UNIFORM = 1.63  # √n·sup|F − uniform| of whole numbers that are spread evenly, as ids are: not rejected at 1 %
EPOCH = 9e8, 4.2e9  # seconds since 1970 of the years 1998 to 2103, which grow from row to row and are no ids
DUPLICATED, FEWEST_DUPLICATES = 0.01, 5  # share and number of equal rows that are reported
# Of equal contexts and actions, rewards differ this much less often than others if rows are copies.
AGREEING = 0.1

ID_NAMES = (
    re.compile(r"(^|[_\W])(id|uuid|guid)$|(customer|client|user|account|visitor|patient)$", re.IGNORECASE),
    re.compile(
        r"(customer|client|user|account|visitor|patient|session|order|invoice|row)[_\W]?(number|no|nr|key|index)$",
        re.I,
    ),
    re.compile(r"[a-z](Id|ID|Uuid|UUID)$"),
)
"""Names of columns of ids: customer_id, userId, order number."""


class _Head(NamedTuple):
    """The first rows: the cells of each raw column, contexts (n, d), actions, rewards and ids (n,)."""

    cells: dict[str, Any]
    contexts: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    ids: np.ndarray | None


def check_columns(rows: "Scan", encoder: Encoder, declared: Collection[str]) -> list[str]:
    """Return a sentence for each column that should hardly be a feature, and for duplicate rows.

    Columns whose kind was `declared` are no ids by mistake.
    """
    n = min(HEAD_ROWS, rows.n_rows)
    if n < LEAST_ROWS:
        return []
    try:
        head = _head(rows, n)
    except LogError:  # reading the rows raises it, with its place
        return []
    ends = np.cumsum([int(encoder.constant), *(len(column.names) for column in encoder.columns)])
    limit = LEAKS_BINARY if ((head.rewards == 0.0) | (head.rewards == 1.0)).all() else LEAKS
    actions = _tested_actions(head)
    found, leaks = [], set()
    for column, start, stop in zip(encoder.columns, ends[:-1], ends[1:], strict=True):
        name, features = column.column, head.contexts[:, start:stop]
        mend = f"leave it out with drop={name!r}"
        if share := _explained(head, actions, column, features, limit):
            leaks.add(name)
            found.append(
                f"{shorten(name)} explains {share:.0%} of the reward's variance within every action: is it known only after the "
                f"action? Then {mend}"
            )
        elif name not in declared and (values := _id_values(head, column, features)):
            found.append(
                f"{shorten(name)} looks like an id ({values:,} values in {len(head.rewards):,} rows): it says nothing about other "
                f"contexts. If it is one, {mend}"
            )
    repeated = _duplicates(head, [name for name in rows.layout.columns.contexts if name not in leaks])
    if repeated:
        of = "" if n == rows.n_rows else "the first "
        found.append(
            f"{repeated:,} of {of}{n:,} rows repeat another row in every column: if the export repeated them, remove them, because "
            "every copy counts as one more observation"
        )
    return found


def _head(rows: "Scan", n: int) -> _Head:
    import pyarrow as pa

    layout = rows.layout.select(support=False)
    columns = layout.columns
    batches = [batch for _, batch in rows.source.blocks(columns.all, stop=n)]
    logs = [layout.log(batch) for batch in batches]
    ids = [log.context_ids for log in logs if log.context_ids is not None]
    return _Head(
        {
            name: pa.chunked_array([each.column(name) for each in batches]).combine_chunks()
            for name in columns.all
        },
        np.concatenate([log.contexts for log in logs]),
        np.concatenate([log.actions for log in logs]),
        np.concatenate([log.rewards for log in logs]),
        np.concatenate(ids) if ids else None,
    )


def _tested_actions(head: _Head) -> list[np.ndarray]:
    """Rows of each action within which a column must predict the reward to be one that leaks it."""
    counts = np.bincount(head.actions)
    most = np.argsort(-counts, kind="stable")[:ACTIONS_CHECKED]
    parts = [np.flatnonzero(head.actions == a)[:MOST_IN_ACTION] for a in most if counts[a] >= ROWS_IN_ACTION]
    return [rows for rows in parts if _varies(head.rewards[rows])]


def _explained(
    head: _Head, actions: list[np.ndarray], column: Column, features: np.ndarray, limit: float
) -> float:
    """Share of the reward's variance that the column explains, in the action where it explains least; 0 unless beyond `limit`."""
    if not actions:
        return 0.0
    tested = list(features.T)
    if isinstance(column, CategoryColumn):
        tested = [_codes(head.cells[column.column])]
    most_explained = 0.0
    for values in tested:
        shares: list[float] = []
        for rows in actions:
            shares.append(_explained_part(head.rewards[rows], values[rows]))
            if shares[-1] <= limit:  # an ordinary column ends here, at the first action
                break
        if shares[-1] > limit:
            most_explained = max(most_explained, min(shares))
    return most_explained


def _varies(rewards: np.ndarray) -> bool:
    """Whether no value is that of all rows but a few."""
    return len(rewards) - np.unique(rewards, return_counts=True)[1].max() >= FEWEST_DUPLICATES


def _explained_part(rewards: np.ndarray, values: np.ndarray) -> float:
    """Adjusted share of the variance between groups of rows: equal values, or quantiles if there are many."""
    most = min(BINS, len(values) // 10)
    groups, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(groups) > most:
        codes = np.searchsorted(np.quantile(values, np.arange(1, most) / most), values, side="right")
        common = groups[counts > len(values) / most]  # such as 0: a group of its own
        codes = np.where(np.isin(values, common), most + np.searchsorted(common, values), codes)
        codes = np.unique(codes, return_inverse=True)[1]
    size = np.bincount(codes)
    means = np.bincount(codes, weights=rewards) / size
    inside, total = ((rewards - means[codes]) ** 2).sum(), ((rewards - rewards.mean()) ** 2).sum()
    left = len(rewards) - len(size)
    return float(1 - inside / left / (total / (len(rewards) - 1))) if left > 0 and total > 0 else 0.0


def _id_values(head: _Head, column: Column, features: np.ndarray) -> int:
    """The number of distinct values if the column looks like an id, else 0."""
    named = any(name.search(column.column) for name in ID_NAMES)
    if isinstance(column, NumberColumn):
        there = features[:, -1] == 0 if column.gap else np.ones(len(features), dtype=bool)
        numbers = features[there, 0] * column.scale + column.mean
        whole = len(numbers) >= LEAST_ROWS and np.abs(numbers - np.round(numbers)).max() < 1e-3
        codes = np.round(numbers) if whole else np.zeros(0)
        id_like = bool(whole) and (named or _numbered(codes))
        ids = None if head.ids is None else head.ids[there]
    elif isinstance(column, HashedColumn):
        codes, ids = _codes(head.cells[column.column]), head.ids
        id_like = named or np.bincount(codes).max() <= COMMON * len(codes)
    else:
        return 0
    if not id_like:
        return 0
    values = len(np.unique(codes))
    unique = UNIQUE_TEXT if isinstance(column, HashedColumn) else UNIQUE
    if (named and values > MANY_VALUES) or values > unique * len(codes):
        return values
    if ids is None:
        return 0
    groups = np.unique(ids, return_inverse=True)[1]
    pairs = len(np.unique(groups + 1j * np.unique(codes, return_inverse=True)[1]))
    n_ids = int(groups.max()) + 1
    return values if pairs == n_ids and values > max(UNIQUE * n_ids, MANY_VALUES) else 0


def _numbered(values: np.ndarray) -> bool:
    """Whether whole numbers are given out one after the other, or spread evenly over their range, as ids are."""
    low, high = float(values.min()), float(values.max())
    if EPOCH[0] < low <= high < EPOCH[1] or high - low < LEAST_ROWS:
        return False
    steps = np.sign(np.diff(values))
    if (steps == 1).all() or (steps == -1).all():
        return True
    ordered, n = (np.sort(values) - low) / (high - low), len(values)
    if n < ROWS_SPREAD:
        return False
    apart = max(np.abs(ordered - np.arange(n) / n).max(), np.abs(ordered - np.arange(1, n + 1) / n).max())
    return bool(np.sqrt(n) * apart < UNIFORM)


def _duplicates(head: _Head, columns: list[str]) -> int:
    """The number of rows that repeat others, unless equal contexts and actions earn different rewards too.

    `columns` are the raw columns that do not tell the reward.
    """
    n, context = len(head.rewards), np.zeros(len(head.rewards), dtype=np.int64)
    least = max(FEWEST_DUPLICATES, DUPLICATED * n)
    for name in columns:
        context = _joint(context, _codes(head.cells[name]))
        if n - int(context.max()) - 1 < least:  # hardly two contexts are equal
            return 0
    if head.ids is not None:
        context = _joint(context, np.unique(head.ids, return_inverse=True)[1])
    alike, rewards = _joint(context, head.actions), np.unique(head.rewards, return_inverse=True)[1]
    whole = _joint(alike, rewards)
    repeated = n - len(np.unique(whole))
    if repeated < least:
        return 0
    differ = 1 - _pairs(whole) / _pairs(alike)
    expected = 1 - _pairs(_joint(head.actions, rewards)) / _pairs(head.actions)
    return repeated if differ < AGREEING * expected else 0


def _pairs(groups: np.ndarray) -> float:
    """Pairs of rows that are in the same group."""
    size = np.bincount(groups).astype(float)
    return float((size * (size - 1) / 2).sum())


def _joint(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Codes (n,) of pairs of codes."""
    return np.unique(one * (int(other.max(initial=0)) + 1) + other, return_inverse=True)[1]


def _codes(cells: Any) -> np.ndarray:
    """Codes (n,) of equal cells; missing ones are equal."""
    import pyarrow as pa

    from sparing.log import arrays

    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if arrays.is_list(cells.type):
        return np.unique(np.array([str(cell) for cell in cells.to_pylist()]), return_inverse=True)[1]
    coded = cells if isinstance(cells, pa.DictionaryArray) else cells.dictionary_encode()
    return np.asarray(coded.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64) + 1
