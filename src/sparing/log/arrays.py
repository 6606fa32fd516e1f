"""Columns of a table: the role of each, and conversion to arrays. Errors name the row of an invalid cell."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparing.errors import LogError
from sparing.log import labels
from sparing.log.columns import ColumnRoles
from sparing.log.features.cells import Notation, one_by_one
from sparing.log.labels import DIGITS, first_repeated, load_json, shorten, truncate
from sparing.log.support import EligibleSets
from sparing.log.tables import TableSource

# Names of support columns begin with this if the support was estimated.
ESTIMATED_PREFIX = "estimated_"

# Whole-number labels in a range of at most this many are looked up in a table.
SMALL_INTEGER_RANGE = 2**20

# Numbers that are transposed from columns to rows at a time, few enough for the processor's cache.
CELLS_PER_TILE = 2**16

EMPTY: Mapping[str, Notation] = MappingProxyType({})

LIST_TYPES = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table by role.

    `prefix` begins the names of the probability columns. `raw`: the context columns are numbers that are not encoded.
    """

    contexts: tuple[str, ...]
    action: str
    reward: str
    propensity: str | None
    context_id: str | None
    prefix: str = ""
    distribution: tuple[str, ...] = ()
    eligible: str | None = None
    raw: bool = True
    cost_prefix: str = ""
    costs: tuple[str, ...] = ()

    @property
    def estimated(self) -> bool:
        return (self.eligible or self.prefix).startswith(ESTIMATED_PREFIX)

    @property
    def all(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        scalar = (self.action, self.reward, self.propensity, self.eligible, self.context_id)
        return distinct(*self.contexts, *scalar, *self.distribution, *self.costs)

    @property
    def others(self) -> tuple[str, ...]:
        """The columns that are not contexts."""
        contexts = set(self.contexts)
        return tuple(name for name in self.all if name not in contexts)


def distinct(*names: str | None) -> tuple[str, ...]:
    """The names that are not None, each once."""
    return tuple(dict.fromkeys(name for name in names if name is not None))


def find_columns(
    source: TableSource,
    columns: ColumnRoles,
    *,
    taken: Callable[[Sequence[str]], Sequence[str]] | None = None,
    raw: bool = False,
) -> TableColumns:
    """Match the roles to the table's columns.

    `taken` selects context columns from those without another role. Without it they are the ones that `columns` names,
    else the ones with sparing's default names, else all. `raw`: they are numbers, and never all columns by default.
    """
    names = source.schema.names
    twice = first_repeated(names)
    if twice is not None:
        raise _column_error(source, f"two columns {shorten(twice)}", ". Rename one of them")
    for role, name in _required(columns):
        if name not in names:
            raise _column_error(source, f"no {role} column {shorten(name)}", _guess(source, role, name))
    _check_stored_columns(source, columns)
    given = distinct(columns.action, columns.reward, columns.propensity, columns.eligible, columns.context_id)
    dropped = dropped_columns(source, columns)
    cost_prefix, costs = _cost_columns(source, columns, {*given, *dropped})
    others = {*given, *dropped, *costs}
    ours = tuple(name for name in _default_columns(source, others) if name not in dropped)
    named = columns.contexts if taken is None else None
    contexts = _named_columns(source, named) if named is not None else () if taken else ours
    prefix, table, sets = _support_columns(source, columns, others.union(contexts))
    if not contexts and not raw:
        free = [name for name in names if name not in {*others, *table, sets}]
        contexts = tuple(free if taken is None else taken(free))
        _check_present(source, contexts)
    if not contexts and raw:
        hint = ". Pass contexts=[...] with the names of the feature columns; without any, leave features out: the only feature is then a constant"
        raise _column_error(source, "no context columns x_0, x_1, … nor a list column `context`", hint)
    contexts = tuple(name for name in contexts if name not in dropped)
    for role, name in _required(columns):
        if name in contexts:
            raise _column_error(source, f"{shorten(name)} as the {role}, so it cannot be a feature")
    return TableColumns(
        contexts,
        columns.action,
        columns.reward,
        _optional(source, "propensity", columns.propensity),
        _optional(source, "context_id", columns.context_id),
        prefix,
        table,
        sets,
        raw or (taken is None and bool(contexts) and set(contexts) <= set(ours)),
        cost_prefix,
        costs,
    )


def _required(columns: ColumnRoles) -> tuple[tuple[str, str], ...]:
    """The roles that every table has, each with its column."""
    return ("action", columns.action), ("reward", columns.reward)


def _cost_columns(source: TableSource, columns: ColumnRoles, others: set[str]) -> tuple[str, tuple[str, ...]]:
    """The prefix and names of the cost columns; those of a table that sparing wrote are known."""
    prefix = source.stored_metadata.get("cost_prefix") if columns.costs is None else columns.costs
    if not isinstance(prefix, str):
        return "", ()
    found = tuple(name for name in source.schema.names if name.startswith(prefix) and name not in others)
    if not prefix or not found:
        raise _column_error(source, f"no columns that begin with costs={prefix!r}")
    return prefix, found


def dropped_columns(source: TableSource, columns: ColumnRoles) -> tuple[str, ...]:
    """The columns to leave out, which must be there and have no role."""
    drop = columns.drop
    dropped = () if drop is None else (drop,) if isinstance(drop, str) else tuple(drop)
    _check_present(source, dropped, "column", "in drop")
    for role, name in _required(columns):
        if name in dropped:
            raise _column_error(source, f"{shorten(name)} as the {role}, so it cannot be in drop")
    return dropped


def _check_stored_columns(source: TableSource, columns: ColumnRoles) -> None:
    there, features = set(source.schema.names), source.stored_metadata.get("features", {})
    for name in source.stored_metadata.get("columns", ()):
        plain = name.removeprefix(ESTIMATED_PREFIX)
        role, default = ("distribution", "p_") if plain.startswith("p_") else (plain, plain)
        by_name = getattr(columns, role, "") == default
        if name not in there and (columns.contexts is None if name in features else by_name):
            raise LogError(
                f"{source.name} has no column {shorten(name)}, which its metadata lists; it is damaged, or the column was "
                "dropped. Write it again, or name the columns to read: contexts=[...], or None for another role"
            )


def _optional(source: TableSource, role: str, name: str | None) -> str | None:
    # A default name may be missing, but a column with a similar name would be taken for a feature.
    if name is None or name in source.schema.names:
        return name
    alike = [other for other in source.schema.names if labels.fold_case(other) == labels.fold_case(name)]
    if name == role and not alike:
        return None
    none = f", or {role}=None if there is no such column" if name == role else ""
    what = f"no {role.replace('_', ' ')} column {shorten(name)}"
    raise _column_error(source, what, f"{_guess(source, role, name)}{none}")


def _guess(source: TableSource, role: str, name: str) -> str:
    near = labels.suggest(name, source.schema.names)
    if near is not None:
        return f". Did you mean {shorten(near)}? Pass {role}={near!r}"
    head = ". The first line must name the columns, and delimiter='…' sets the character between cells"
    return f". Pass {role}=NAME{head if source.text else ''}"


def _support_columns(
    source: TableSource, columns: ColumnRoles, others: set[str]
) -> tuple[str, tuple[str, ...], str | None]:
    """The prefix and names of the probability columns, or the column of sets.

    Named columns go before default ones, exact before estimated, and distributions before sets.
    """
    names, distribution, eligible = source.schema.names, columns.distribution, columns.eligible
    choices: list[tuple[str, tuple[str, ...], str | None]] = []
    for marker in ("", ESTIMATED_PREFIX):
        prefix = f"{marker}{distribution}"
        table = tuple(name for name in names if name.startswith(prefix) and name not in others)
        if distribution is not None and table:
            choices.append((prefix, table, None))
        if eligible is not None and f"{marker}{eligible}" in names:
            choices.append(("", (), f"{marker}{eligible}"))
    if distribution not in (None, "p_") and not any(table for _, table, _ in choices):
        raise _column_error(source, f"no columns that begin with {distribution!r}")
    if not any(sets for _, _, sets in choices):
        _optional(source, "eligible", eligible)
    elif eligible != "eligible" and distribution == "p_":
        choices = [choice for choice in choices if choice[2]]
    return choices[0] if choices else ("", (), None)


def _named_columns(source: TableSource, contexts: str | Sequence[str]) -> tuple[str, ...]:
    chosen = (contexts,) if isinstance(contexts, str) else tuple(contexts)
    if not chosen:
        raise _column_error(source, "no context column ()")
    _check_present(source, chosen)
    twice = first_repeated(chosen)
    if twice is not None:
        raise LogError(f"contexts name {shorten(twice)} twice; name each column once")
    return chosen


def _check_present(
    source: TableSource, chosen: Sequence[str], what: str = "context column", where: str = ""
) -> None:
    there = set(source.schema.names)
    missing = [name for name in chosen if name not in there]
    if missing:
        free = [name for name in source.schema.names if name not in chosen]
        guess = ", ".join(shorten(near) for name in missing[:12] if (near := labels.suggest(name, free)))
        mend = "Name columns as the table does, or rename them there"
        hint = f". Did you mean {guess}? {mend}" if guess else ""
        names = ", ".join(map(shorten, missing))
        raise _column_error(source, f"no {what} {names}{', named ' + where if where else ''}", hint)


def _default_columns(source: TableSource, others: set[str]) -> tuple[str, ...]:
    """The context columns of a table that sparing wrote, or that has its default names; else none."""
    names = source.schema.names
    written = source.stored_metadata.get("features", {})
    if written:
        return tuple(written)
    features = [name for name in names if name.startswith("x_") and name not in others]
    if features and all(DIGITS.fullmatch(name[2:]) for name in features):
        features.sort(key=lambda name: int(name[2:]))
    lists = [name for name in ("x", "context", "contexts") if name in names]
    return tuple(features or lists[:1])


def _column_error(source: TableSource, what: str, hint: str = "") -> LogError:
    names = source.schema.names
    shown = ", ".join(map(shorten, names[:12])) + (", …" if len(names) > 12 else "")
    return LogError(f"{source.name} has {what}; it has {shown or 'no columns'}{hint}")


def is_list(kind: pa.DataType) -> bool:
    return isinstance(kind, LIST_TYPES)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text, in any layout."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def kind_by_type(kind: pa.DataType) -> str | None:
    """Return the kind of a column by its type: `text` if the cells decide, None if the type is not supported."""
    types = pa.types
    if types.is_dictionary(kind):
        return "category"
    if is_text(kind):
        return "text"
    if types.is_boolean(kind):
        return "bool"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "time"
    if is_list(kind):
        return "vector" if kind_by_type(kind.value_type) in ("number", "bool") else None
    return "text" if types.is_null(kind) else None


def numbers(
    column: pa.Array,
    name: str,
    *,
    first_row: int,
    width: int = 1,
    feature: bool = True,
    notation: Notation | None = None,
) -> np.ndarray:
    """Convert a column to floats, (n,); missing cells become NaN, which the log rejects with the row.

    The column has `width` values per row of the table. `feature`: errors may suggest to encode the column. Texts are read in the
    notation, or as computers write numbers.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = trimmed(column)
    try:
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            raise pa.ArrowNotImplementedError("bytes")
        if notation is not None and is_text(column.type):
            raise pa.ArrowNotImplementedError("notation")
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException:  # cell by cell: that also parses "+1", and finds the row of an error
        values = one_by_one(column.to_pylist(), name, first_row, width, feature=feature, notation=notation)
    return np.asarray(values, dtype=np.float64)


def trimmed(column: pa.Array) -> pa.Array:
    """A column of text without spaces around its cells, missing where nothing is left; other columns unchanged."""
    if not is_text(column.type):
        return column
    column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


GROUPED = r"^[-+]?([1-9][0-9]{0,2}(\.[0-9]{3})*|[0-9]+)$"
"""Numbers as computers write them that can also be read with a decimal comma."""


def plain_numbers(column: pa.Array) -> tuple[str | None, bool] | None:
    """Whether a column of trimmed text has numbers as computers write them, else None.

    Returned are a number that is another one with a decimal comma, if there is one, and whether all are numbers with a comma too.
    """
    try:
        column.cast(pa.float64())
    except pa.ArrowException:
        return None
    either = pc.match_substring_regex(column, GROUPED)
    if not pc.all(either, min_count=0).as_py():
        return None, False
    differ = column.filter(pc.match_substring(column, "."))
    return differ[0].as_py() if len(differ) else None, True


def features(
    batch: pa.RecordBatch,
    names: Sequence[str],
    *,
    first_row: int,
    width: int | None = None,
    notations: Mapping[str, Notation] = EMPTY,
) -> np.ndarray:
    """Contexts (n, d) from d columns of numbers, or from one column of lists, which have length `width` if given."""
    if len(names) == 1 and is_list(batch.schema.field(names[0]).type):
        column = batch.column(names[0])
        lengths = _lengths(column, names[0], first_row=first_row)
        width = int(lengths[0]) if width is None else width
        odd = np.flatnonzero(lengths != width)
        if len(odd):
            raise LogError(
                f"{truncate(names[0])} at row {first_row + odd[0]} has length {lengths[odd[0]]}; the rows before it "
                f"have {width}"
            )
        flat = numbers(column.flatten(), names[0], first_row=first_row, width=max(1, width))
        return flat.reshape(batch.num_rows, width)
    columns = [
        numbers(batch.column(name), name, first_row=first_row, notation=notations.get(name)) for name in names
    ]
    table = np.empty((batch.num_rows, len(names)))
    step = max(1, CELLS_PER_TILE // max(1, len(names)))
    for start in range(0, len(table), step):
        for j, column in enumerate(columns):
            table[start : start + step, j] = column[start : start + step]
    return table


def _lengths(column: pa.Array, name: str, *, first_row: int) -> np.ndarray:
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    absent = np.flatnonzero(lengths < 0)
    if len(absent):
        raise LogError(
            f"{truncate(name)} at row {first_row + absent[0]} is missing; fill it in, or drop the row"
        )
    return lengths


def context_ids(column: pa.Array, name: str, *, first_row: int) -> np.ndarray:
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise LogError(
            f"{truncate(name)} at row {first_row + row} is missing; pass context_id=None, or fill it in"
        )
    return np.asarray(column.to_numpy(zero_copy_only=False))


def distinct_labels(column: pa.Array, name: str) -> list[Any]:
    """The distinct labels of a column, without missing ones."""
    try:
        found = pc.unique(column).to_pylist()
    except pa.ArrowNotImplementedError:
        raise _type_error(column, name) from None
    return [label for label in found if not labels.missing(label)]


def distinct_set_labels(column: pa.Array, name: str, *, first_row: int) -> list[Any]:
    """The distinct labels in a column of sets, without missing ones."""
    if is_list(column.type):
        return distinct_labels(column.flatten(), name)
    members = [label for row in _parse_json_lists(column, name, first_row=first_row)[0] for label in row]
    return [label for label in members if not labels.missing(label)]


def indices(column: pa.Array, name: str, index: Mapping[Hashable, int], *, rows: np.ndarray) -> np.ndarray:
    """Convert a column of labels to action indices, (n,); `rows` (n,) are their row numbers, for errors."""
    found = _integer_indices(column, index)
    return labels.positions(*_encoded(column, name), index, rows=rows) if found is None else found


def _integer_indices(column: pa.Array, index: Mapping[Hashable, int]) -> np.ndarray | None:
    """Indices (n,) of whole-number labels by a table; None if the range is too large, or a label is unknown."""
    if not pa.types.is_signed_integer(column.type) or column.null_count or not len(column):
        return None
    known = {label: at for label, at in index.items() if type(label) is int}
    values = column.to_numpy().astype(np.int64, copy=False)
    low, high = min(known, default=0), max(known, default=-1)
    if not 0 <= high - low < SMALL_INTEGER_RANGE or values.min() < low or values.max() > high:
        return None
    table = np.full(high - low + 1, -1, dtype=np.int32)
    table[[label - low for label in known]] = list(known.values())
    found = table[values - low]
    return found if found.min() >= 0 else None


def _encoded(column: pa.Array, name: str) -> tuple[list[Any], np.ndarray]:
    """Distinct labels, and the position of each row's among them, (n,); −1, the last, is a missing one."""
    try:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    except pa.ArrowNotImplementedError:
        raise _type_error(column, name) from None
    codes = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return [*encoded.dictionary.to_pylist(), None], codes


def eligible_sets(
    column: pa.Array, name: str, index: Mapping[Hashable, int], *, first_row: int
) -> tuple[np.ndarray, np.ndarray]:
    """Convert a column of lists, or of JSON lists as text, to set lengths (n,) and concatenated action indices."""
    if is_list(column.type):
        lengths = _lengths(column, name, first_row=first_row)
        found = EligibleSets(*_encoded(column.flatten(), name), lengths)
    else:
        parsed, codes = _parse_json_lists(column, name, first_row=first_row)
        lengths = np.array([len(row) for row in parsed], dtype=np.int64)[codes]
        members, places = labels.encode([label for code in codes.tolist() for label in parsed[code]])
        # In a text file 0.5 in JSON is the action "0.5" if no action is the number.
        known = [m if m is None or m in index else labels.label_text(m) for m in members]
        found = EligibleSets(known, places, lengths)
    return lengths, found.indices(index, first_row=first_row)


def _parse_json_lists(column: pa.Array, name: str, *, first_row: int) -> tuple[list[list[Any]], np.ndarray]:
    """The distinct JSON lists of a text column, and the index of each row's list, (n,)."""
    if not is_text(column.type):
        raise LogError(f"{truncate(name)} is a column of {column.type}; expected lists of action labels")
    distinct, codes = labels.encode(column.to_pylist())
    parsed: list[list[Any]] = []
    for code, text in enumerate(distinct):
        members = _json_list(text)
        if members is None:
            row = first_row + np.flatnonzero(codes == code)[0]
            raise LogError(
                f'{truncate(name)} at row {row} is {str(text)[:60]!r}; expected a JSON list such as ["a", "b"]'
            )
        parsed.append(members)
    return parsed, codes


def _json_list(text: Any) -> list[Any] | None:
    try:
        value = load_json(text, constants=True)
        members = [labels.from_json(label) for label in value]
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(value, list):
        return None
    return [m if m is None else labels.normalize_label(m) for m in members]


def _type_error(column: pa.Array, name: str) -> LogError:
    return LogError(f"{truncate(name)} holds {column.type}; expected action labels that are text or numbers")
