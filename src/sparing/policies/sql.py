"""Policies with linear scores as a SELECT for DuckDB, PostgreSQL and SQLite."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparing.errors import SettingError
from sparing.log.features.cells import TRUTH_WORDS, YEARS
from sparing.log.features.columns import (
    DAY,
    MINUTE,
    BoolColumn,
    CategoryColumn,
    Column,
    HashedColumn,
    NumberColumn,
    RawColumn,
    TimeColumn,
)
from sparing.log.labels import first_repeated, label_text, shorten
from sparing.log.limits import LARGEST
from sparing.policies.scorer import Scorer

COLUMN = "policy_action"
"""The column that the query adds."""

MOST_ACTIONS, MOST_TERMS = 1_000, 100_000
"""Databases limit the columns of a query and the size of its text."""

MOST_COLUMNS = 1_600
"""Values of a row's columns that PostgreSQL and SQLite have in one query; DuckDB has no such limit."""

TOGETHER = 50
"""Terms of a sum, or arguments of a function, at a time: databases limit the depth of an expression and the arguments of a function."""

LONGEST_POSTGRES_NAME = 63  # bytes; a longer name is cut off without an error

COMPACT_DATES = (19000101, 20991231)
"""Whole numbers that Python reads as dates such as 20260131."""


def _truth_words(wanted: bool) -> list[str]:
    """Words for a truth value, also in capitals as `lower` leaves them where a database knows only the letters of ASCII."""
    words = [word for word, truth in TRUTH_WORDS.items() if truth is wanted]
    left = ["".join(c if c.isascii() else c.upper() for c in word) for word in words if not word.isascii()]
    return [*words, *left, str(int(wanted)), f"{wanted:.1f}"]


YES, NO = _truth_words(True), _truth_words(False)


@dataclass(frozen=True)
class SqlDialect:
    """What differs between databases: types, functions, literals."""

    name: str
    double: str  # the type of a number
    text: str  # the type of a text
    largest: str  # the function that gives the largest of its arguments
    binary: str = ""  # compares texts byte by byte, whatever the column says
    once: str = ""  # ends a subquery, so that its columns are not computed again wherever they are used

    def number(self, value: float) -> str:
        """A literal of a number, with every bit."""
        exact = repr(float(value))
        if self.name == "postgres":
            return f"float8 '{exact}'"
        return f"({exact if 'e' in exact else f'{exact}e0'})"

    def string(self, text: str) -> str:
        """A literal of a text."""
        _refuse_nul(text)
        quoted = text.replace("'", "''")
        if self.name == "postgres" and "\\" in text:  # whatever standard_conforming_strings is
            return "E'" + quoted.replace("\\", "\\\\") + "'"
        return f"'{quoted}'"

    def identifier(self, name: str) -> str:
        _refuse_nul(name)
        if self.name == "postgres" and len(name.encode()) > LONGEST_POSTGRES_NAME:
            raise SettingError(
                f"{shorten(name)} is a name of {len(name.encode())} bytes; PostgreSQL takes {LONGEST_POSTGRES_NAME}. Rename the column "
                "in the log"
            )
        return '"' + name.replace('"', '""') + '"'

    def as_number(self, cell: str) -> str:
        """A cell as a number, NULL where it is missing or none."""
        if self.name == "sqlite":
            return f"CASE WHEN typeof({cell}) IN ('integer', 'real') THEN CAST({cell} AS REAL) END"
        return f"NULLIF(CAST({cell} AS {self.double}), CAST('NaN' AS {self.double}))"

    def as_text(self, cell: str) -> str:
        """A cell as text; whole numbers without a point, NULL for NaN."""
        plain = f"CAST({cell} AS {self.text})"
        if self.name == "duckdb":
            is_float = f"typeof({cell}) IN ('DOUBLE', 'FLOAT')"
            number = f"NULLIF(regexp_replace({plain}, '\\.0$', ''), 'nan')"
            return f"CASE WHEN {is_float} THEN {number} ELSE {plain} END"
        if self.name == "sqlite":
            whole = f"typeof({cell}) = 'real' AND {cell} = CAST({cell} AS INTEGER)"
            return f"CASE WHEN {whole} THEN CAST(CAST({cell} AS INTEGER) AS TEXT) ELSE {plain} END"
        is_float = f"pg_typeof({cell}) IN ('double precision'::regtype, 'real'::regtype, 'numeric'::regtype)"
        return f"CASE WHEN {is_float} THEN NULLIF({plain}, 'NaN') ELSE {plain} END"

    def as_seconds(self, cell: str) -> str:
        """A moment as seconds since 1970 in UTC, NULL where it is missing or none."""
        if self.name == "sqlite":
            part = f"CAST(strftime('%f', {cell}) AS REAL) - CAST(strftime('%S', {cell}) AS REAL)"
            read = f"CAST(strftime('%s', {cell}) AS REAL) + ({part})"
            is_date = f"date(substr({cell}, 1, 10), '+0 days') = substr({cell}, 1, 10)"  # not 'now', '10:00' or 30 February
            compact = "{} AND {}".format(*COMPACT_DATES)
            seconds = (
                f"CASE typeof({cell}) WHEN 'text' THEN CASE WHEN {is_date} THEN {read} END "
                f"WHEN 'blob' THEN NULL ELSE CASE WHEN {cell} NOT BETWEEN {compact} THEN CAST({cell} AS REAL) END END"
            )
        else:
            seconds = f"CAST(EXTRACT(EPOCH FROM {cell}) AS {self.double})"
        first, last = map(self.number, YEARS)
        return f"CASE WHEN {seconds} BETWEEN {first} AND {last} THEN {seconds} END"

    def is_missing(self, cell: str, value: str, *, text: bool) -> str:
        """Whether a cell is missing, if `value` is what it is read as."""
        if self.name == "sqlite":
            return f"{cell} IS NULL OR {cell} = ''"
        return f"{value} IS NULL OR {value} = ''" if text else f"{value} IS NULL"


DIALECTS = {
    each.name: each
    for each in (
        SqlDialect("duckdb", "DOUBLE", "VARCHAR", "greatest", binary=' COLLATE "binary"'),
        SqlDialect(
            "postgres", "double precision", "text", "greatest", binary=' COLLATE "C"', once=" OFFSET 0"
        ),
        SqlDialect("sqlite", "REAL", "TEXT", "max", binary=" COLLATE BINARY"),
    )
}


@dataclass(frozen=True)
class SqlColumn:
    """A column in the query: its value and whether it is missing, from a row of the table; parts of a score, from those."""

    value: str
    missing: str
    derived: tuple[tuple[str, str], ...]
    """Names and expressions that several scores share, from the value."""
    terms: Callable[[np.ndarray], list[str]]
    """The terms of a score for the column's parameters."""


def to_sql(scorer: Scorer, dialect: str, table: str | Sequence[str]) -> str:
    """Return a SELECT of a table with the action that the policy plays in each row as a further column.

    Parameters
    ----------
    scorer : Scorer
        The policy.
    dialect : {"duckdb", "postgres", "sqlite"}
        The database.
    table : str or sequence of str
        The table: a name, with its schema before a point, or all parts of the name.
    """
    if dialect not in DIALECTS:
        raise SettingError(f"dialect={dialect!r}; must be one of {', '.join(DIALECTS)}")
    sql = DIALECTS[dialect]
    if scorer.temperature is not None:
        raise SettingError(
            f"a policy of {scorer.method!r} draws its actions at random, which SQL cannot repeat. Export it as json or onnx, or learn a "
            "policy that does not, such as greedy or posterior"
        )
    encoder = scorer.encoder
    if encoder is None:
        raise SettingError(
            "the policy has no encoder, so its columns have no names. Learn it from a log with named columns"
        )
    if encoder.kernel is not None:
        raise SettingError(
            f"the policy has {encoder.kernel.size} kernel features, which SQL does not compute. Export it as json or onnx, or "
            "leave kernel out of the features"
        )
    k, d = scorer.theta.shape
    if k > MOST_ACTIONS or k * d > MOST_TERMS:
        raise SettingError(
            f"{k:,} actions with {d:,} features make a query of {k * d:,} terms; {MOST_ACTIONS:,} actions and {MOST_TERMS:,} terms are "
            "possible. Export it as json or onnx"
        )
    repeated = first_repeated([column.column.casefold() for column in encoder.columns])
    if repeated is not None and dialect != "postgres":
        raise SettingError(
            f"two columns {shorten(repeated)} that differ only in case; {dialect} takes them for one. Rename one in the log"
        )
    parts = [table] if isinstance(table, str) else list(table)
    parts = parts[0].split(".") if isinstance(table, str) else parts
    if not parts or not all(parts):
        raise SettingError(f"table={table!r}; must be a name, such as visits, or shop.visits with its schema")
    source = ".".join(map(sql.identifier, parts))

    columns = [_column(sql, place, column) for place, (column, *_) in enumerate(encoder.spans)]
    spans = [(first, stop) for _, first, stop in encoder.spans]
    cells = [f"{sql_column.value} AS v{place}" for place, sql_column in enumerate(columns)]
    cells += [
        f"CASE WHEN {sql_column.missing} THEN 1 ELSE 0 END AS m{place}"
        for place, sql_column in enumerate(columns)
    ]
    derived = [f"{text} AS {name}" for sql_column in columns for name, text in sql_column.derived]
    if len(cells) + len(derived) >= MOST_COLUMNS and dialect != "duckdb":
        raise SettingError(
            f"{len(columns):,} columns make a query of {len(cells) + len(derived):,} values; {dialect} takes {MOST_COLUMNS:,}. Export the "
            "policy for duckdb, or as json or onnx"
        )
    raw = [place for place, (column, *_) in enumerate(encoder.spans) if type(column) is RawColumn]
    bad = [
        f"v{place} IS NULL" + ("" if place in raw else f" AND m{place} = 0") for place in range(len(columns))
    ]
    scores = []
    for action in range(k):
        terms = [sql.number(scorer.theta[action, 0])] if encoder.constant else []
        for sql_column, (first, stop) in zip(columns, spans, strict=True):
            terms += sql_column.terms(scorer.theta[action, first:stop])
        if scorer.costs is not None:
            terms.append(sql.number(-scorer.costs[action]))
        scores.append(f"{_sum(terms) or sql.number(0.0)} AS s{action}")
    best = _largest(sql, [f"s{action}" for action in range(k)])
    plain_numbers = all(type(name) is int for name in scorer.action_names)
    played = [
        f"WHEN s{action} THEN {_label(sql, scorer.action_names[action], plain_numbers)}"
        for action in scorer.order.tolist()
    ]
    unreadable = " OR ".join(f"({each})" for each in bad) or "1 = 0"
    ends = "".join(
        f"{sql.once}) AS {name}" for name in ("cells", "read_cells", "features", "scores", "choice")
    )
    lines = [
        "SELECT t.*, (",
        f"  SELECT CASE WHEN unreadable = 1 THEN NULL ELSE CASE best {' '.join(played)} END END",
        f"  FROM (SELECT *, {best} AS best",
        f"    FROM (SELECT {', '.join(['unreadable', *scores])}",
        f"      FROM (SELECT {', '.join(['*', *derived])}",
        f"        FROM (SELECT *, CASE WHEN {unreadable} THEN 1 ELSE 0 END AS unreadable",
        f"          FROM (SELECT {', '.join(cells) or '1 AS one'}{ends}",
        f") AS {sql.identifier(COLUMN)}",
        f"FROM {source} AS t",
    ]
    return "\n".join(lines) + "\n"


def _column(sql: SqlDialect, place: int, column: Column) -> SqlColumn:
    cell, value, missing = f"t.{sql.identifier(column.column)}", f"v{place}", f"m{place}"
    if isinstance(column, NumberColumn):
        return _number(sql, place, column)
    if type(column) is CategoryColumn:
        text = sql.as_text(cell)
        return SqlColumn(
            text,
            sql.is_missing(cell, f"({text})", text=True),
            (),
            lambda theta: _category(sql, place, column, theta),
        )
    if isinstance(column, BoolColumn):
        text = sql.as_text(cell)
        word = f"lower(trim({text}))"
        yes, no = (", ".join(map(sql.string, words)) for words in (YES, NO))
        read = f"CASE WHEN {word} IN ({yes}) THEN {sql.number(1)} WHEN {word} IN ({no}) THEN {sql.number(-1)} END"
        absent = sql.is_missing(cell, f"({text})", text=True)
        return SqlColumn(
            read, absent, (), lambda theta: _linear(sql, [value], theta) + _gap(sql, column, missing, theta)
        )
    if isinstance(column, TimeColumn):
        return _time(sql, place, column)
    reason = "hashes of texts" if isinstance(column, HashedColumn) else f"columns of the kind {column.kind}"
    raise SettingError(
        f"{shorten(column.column)} is of the kind {column.kind}; SQL has no {reason}. Export the policy as json, or leave the column out of "
        "the log's features"
    )


def _number(sql: SqlDialect, place: int, column: NumberColumn) -> SqlColumn:
    if column.notation is not None:
        raise SettingError(
            f"{shorten(column.column)} is written as {column.notation.example} in the log, which SQL does not read. Convert the column to "
            "numbers before the log is read, or export the policy as json"
        )
    cell = f"t.{sql.identifier(column.column)}"
    read = sql.as_number(cell)
    limit = sql.number(LARGEST)
    value = f"CASE WHEN abs({read}) <= {limit} THEN {read} END"
    kept = f"v{place}"
    if column.low is not None:
        kept = f"CASE WHEN {kept} < {sql.number(column.low)} THEN {sql.number(column.low)} ELSE {kept} END"
    if column.high is not None:
        kept = (
            f"CASE WHEN v{place} > {sql.number(column.high)} THEN {sql.number(column.high)} ELSE {kept} END"
        )
    name = f"f{place}"
    derived = ((name, f"({kept} - {sql.number(column.mean)}) * {sql.number(1 / column.scale)}"),)
    return SqlColumn(
        value,
        sql.is_missing(cell, f"({read})", text=False),
        derived,
        lambda theta: _linear(sql, [name], theta) + _gap(sql, column, f"m{place}", theta),
    )


def _time(sql: SqlDialect, place: int, column: TimeColumn) -> SqlColumn:
    cell, value = f"t.{sql.identifier(column.column)}", f"v{place}"
    read = sql.as_seconds(cell)
    first, last = sql.number(column.first), sql.number(column.last)
    within = f"CASE WHEN {value} < {first} THEN {first} WHEN {value} > {last} THEN {last} ELSE {value} END"
    day = sql.number(DAY)
    minute = f"floor(({value} - {day} * floor({value} / {day})) / {sql.number(MINUTE)})"
    shown = f"({within})" if column.under_week else value
    since_monday = f"(floor({shown} / {day}) + {sql.number(3)})"
    weekday = f"({since_monday} - {sql.number(7)} * floor({since_monday} / {sql.number(7)}))"
    angles = ((minute, 2 * math.pi / 1440), (weekday, 2 * math.pi / 7))
    derived = [
        (f"f{place}_{i}", f"{function}({number} * {sql.number(turn)})")
        for i, (function, number, turn) in enumerate(
            (function, number, turn) for number, turn in angles for function in ("sin", "cos")
        )
    ]
    trend = f"(({within}) - {sql.number(column.mean)}) / {sql.number(column.scale)}"
    derived.append((f"f{place}_4", trend))
    names = [name for name, _ in derived]
    return SqlColumn(
        read,
        sql.is_missing(cell, cell, text=False),
        tuple(derived),
        lambda theta: _linear(sql, names, theta) + _gap(sql, column, f"m{place}", theta),
    )


def _linear(sql: SqlDialect, names: Sequence[str], theta: np.ndarray) -> list[str]:
    """Products of features with their parameters; a missing one is 0."""
    pairs = zip(names, theta.tolist(), strict=False)
    return [f"coalesce({name}, {sql.number(0)}) * {sql.number(weight)}" for name, weight in pairs]


def _gap(sql: SqlDialect, column: Column, missing: str, theta: np.ndarray) -> list[str]:
    return [f"{missing} * {sql.number(theta[-1])}"] if column.gap else []


def _category(sql: SqlDialect, place: int, column: CategoryColumn, theta: np.ndarray) -> list[str]:
    weights = theta.tolist()
    word = f"v{place}{sql.binary}"
    cases = [f"WHEN m{place} = 1 THEN {sql.number(weights[-1] if column.gap else 0.0)}"]
    cases += [
        f"WHEN {word} = {sql.string(value)} THEN {sql.number(weights[i])}"
        for i, value in enumerate(column.values)
    ]
    other = len(column.values)
    if column.rare_values:
        listed = ", ".join(map(sql.string, column.rare_values))
        cases.append(f"WHEN {word} IN ({listed}) THEN {sql.number(weights[other])}")
    unknown = other if column.hides_unseen else column.place_of_unseen
    rest = weights[unknown] if unknown >= 0 else 0.0
    return [f"CASE {' '.join(cases)} ELSE {sql.number(rest)} END"]


def _sum(terms: Sequence[str]) -> str:
    """A sum of terms, in groups so that it is not deep."""
    while len(terms) > TOGETHER:
        terms = [
            f"({' + '.join(terms[start : start + TOGETHER])})" for start in range(0, len(terms), TOGETHER)
        ]
    return " + ".join(terms)


def _largest(sql: SqlDialect, names: Sequence[str]) -> str:
    while len(names) > 1:
        groups = [names[start : start + TOGETHER] for start in range(0, len(names), TOGETHER)]
        names = [f"{sql.largest}({', '.join(group)})" if len(group) > 1 else group[0] for group in groups]
    return names[0]


def _label(sql: SqlDialect, name: Any, plain_number: bool) -> str:
    if plain_number and abs(name) < 2**63:
        return str(name)
    return sql.string(label_text(name))


def _refuse_nul(text: str) -> None:
    if "\x00" in text:
        raise SettingError(
            f"{shorten(text)} has a character NUL, which no database has in a text. Rename it in the log"
        )
