"""The formats of logs: tables, and those of other contextual bandit tools, which need not be installed.

`FORMATS` lists them by name. `open_log` opens a log in any of them: `read_log` reads all its rows, `scan` leaves them
where they are, `convert` writes them in another format.
"""

import inspect
import os
import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import numpy as np

from sparing.engines import Engine, Progress, engine_of, local
from sparing.errors import LogError, LogWarning
from sparing.log import labels, writer
from sparing.log.column_checks import check_columns
from sparing.log.columns import ColumnKeywords, ColumnRoles, keywords_of
from sparing.log.costs import check_cost_units
from sparing.log.features import Encoder
from sparing.log.formats import obp, open_bandit, vw_json, vw_text
from sparing.log.formats.events import EventReader, raw_columns
from sparing.log.formats.interactions import CobaReader, RiverReader
from sparing.log.formats.records import LONGEST_LINE
from sparing.log.formats.vw_json import DsjsonReader, VwJsonReader
from sparing.log.formats.vw_text import VwAdfReader, VwTextReader
from sparing.log.items import ItemTable
from sparing.log.labels import load_json
from sparing.log.log import Log, as_costs
from sparing.log.rows import AnyLog, Rows, as_rows
from sparing.log.scan import FeatureSpec, Scan, roles_of, scan_table
from sparing.log.text_files import KINDS, WRITTEN, Dialect, ending_of, is_path, open_text, readable_errors

HEAD_BYTES = 2**16
"""Bytes of a file from which its format is detected."""

NUMBER = rb"[-+0-9.eE]+"
TAG = rb"(?:'[^ \t|]*|[^ \t|:']+)?"
CB_LINE = re.compile(rb"[ \t]*(?:[0-9]+(?::%b){0,2}[ \t]+)*%b[ \t]*\|" % (NUMBER, TAG))
LABELLED_LINE = re.compile(rb"[ \t]*(?:[0-9]+[ \t]+)*[0-9]+:%b" % NUMBER)
OTHER_TASK = re.compile(rb"[ \t]*(?:ccb|slates|ca)[ \t][^|]*\|")
SHARED_LINE = re.compile(rb"shared[ \t|]")
FIELD = re.compile(r'"(\w+)"\s*:')
FEEDBACK = {"context", "action", "reward", "n_actions"}
OBP_MEMBER = re.compile(
    rb"(?:n_rounds|n_actions|context|action|position|reward|pscore|pi_b|action_context|expected_reward)\.npy"
)


def _is_obp(head: bytes) -> bool:
    return head[:4] == b"PK\3\4" and OBP_MEMBER.match(head, 30) is not None


def _is_open_bandit(head: bytes) -> bool:
    columns = {name.strip().strip(b'"') for name in head.split(b"\n", 1)[0].split(b",")}
    specific = {b"propensity_score", b"action_prob", b"user_feature_0"}
    return {b"item_id", b"click"} <= columns and bool(columns & specific)


def _is_vw_text(head: bytes) -> bool:
    return _has_bars(_lines(head)) and not _is_vw_adf(head)


def _is_vw_adf(head: bytes) -> bool:
    """A shared line, or lines with bars in blocks of which none has two labels and one has lines without."""
    lines = _lines(head)
    if lines and (SHARED_LINE.match(lines[0]) or OTHER_TASK.match(lines[0])):
        return True
    blocks = [_lines(block + b"\n") for block in re.split(rb"\r?\n[ \t]*\r?\n", head)]
    labels = [[LABELLED_LINE.match(line) is not None for line in block] for block in blocks]
    return (
        _has_bars(lines)
        and all(sum(each) < 2 for each in labels)
        and any(0 < sum(each) < len(each) for each in labels)
    )


def _has_bars(lines: list[bytes]) -> bool:
    return all(map(CB_LINE.match, lines)) and any(map(LABELLED_LINE.match, lines))


def _first_record(head: bytes) -> Any:
    """The first JSON object or list on a line (Vowpal Wabbit skips others), or the like if it is damaged or cut off."""
    first = next((line for line in _lines(head) if line.lstrip().startswith((b"{", b"["))), b"")
    try:
        return load_json(first)
    except ValueError:
        if re.match(rb"\s*\[\s*\[", first):
            return [[]]
        names = dict.fromkeys(FIELD.findall(first.decode(errors="replace")))  # at any depth
        return {name: names for name in names if name != "_multi" or "c" not in names}


def _json_format(record: Any) -> str:
    """The name of the format of a JSON value or an item of a list; empty if it is none of other tools."""
    if isinstance(record, list | tuple):
        return "river" if record and not isinstance(record[0], str | int | float | Mapping) else ""
    if not isinstance(record, Mapping):
        return ""
    context: Any = record.get("c")
    in_context = isinstance(context, Mapping) and "_multi" not in record
    keys = [str(key) for key in (*record, *(context if in_context else ()))]
    if any(key.startswith("_label") or key in ("_multi", "_outcomes") for key in keys):
        return "dsjson" if in_context else "vw-json"
    return "coba" if set(record) >= {"context", "action", "reward"} else ""


def _lines(head: bytes) -> list[bytes]:
    lines = head.removeprefix(b"\xef\xbb\xbf").splitlines()
    whole = lines[:-1] if len(lines) > 1 and not head.endswith(b"\n") else lines
    return [line for line in whole if line.strip()]


Writer = Callable[[AnyLog, Any], list[str]]
"""Writes a log to a path, and returns what could not be written."""

DIALECT = tuple(each.name for each in fields(Dialect))
"""Options of tables that people's files need."""

PASSED = ("progress", "keep", "engine", "workers", "items", "item_features")
"""Keywords of `Format.scan` that are no options of a file."""


@dataclass(frozen=True)
class Format:
    """A way to store logs.

    `scan(source, progress=..., **options)` returns the rows and what was assumed; `writer(log, path)` what could not be
    written, and is None if the format is only read. Files of this format may have one of `endings`, and no others have
    `ending`. `sniff` tests the first bytes of a file, unless it has JSON lines. `sparse` says how features that a file
    does not name are found among those of another; see `Encoder.aligned`.
    """

    name: str
    title: str
    scan: Callable[..., tuple[Rows, list[str]]]
    endings: tuple[str, ...]
    sniff: Callable[[bytes], bool] | None = None
    ending: str = ""
    writer: Writer | None = None
    sparse: str | None = "values"

    @property
    def options(self) -> list[str]:
        return [name for name in list(inspect.signature(self.scan).parameters)[1:] if name not in PASSED]

    def open(self, source: Any, options: Mapping[str, Any], **passed: Any) -> tuple[Rows, list[str]]:
        """Return the rows and what was assumed; refuse options that the format does not have."""
        for name in options:
            if name not in self.options:
                raise LogError(
                    f"an option does not fit {self.name}: it has no {name!r}; known are {', '.join(self.options)}"
                )
        known = inspect.signature(self.scan).parameters
        own = {name: value for name, value in passed.items() if name in known}
        return self.scan(source, **own, **options)

    def read(self, source: Any, **options: Any) -> tuple[Log, list[str]]:
        rows, notes = self.open(source, options, keep=True)
        return rows.read(), notes

    def write(self, log: AnyLog, path: str | os.PathLike[str]) -> list[str]:
        lost = self.checked_writer()(log, path)
        if self is TABLE or as_rows(log).header.costs is None:
            return lost
        return [*lost, "The known costs are lost: write Parquet or Arrow to keep them."]

    def checked_writer(self) -> Writer:
        """Return the writer, or refuse a format that is only read."""
        if self.writer is None:
            raise LogError(
                f"{self.name} is read, not written. Write .parquet or .dsjson, and load it with the tool's own functions: "
                "docs/formats.md has the three lines for each"
            )
        return self.writer


class _MappedRows(Rows):
    """The rows of another log, with a function applied to each block."""

    def __init__(self, rows: Rows, function: Callable[[Log], Log]) -> None:
        self.rows, self.function, self.header = rows, function, function(rows.header)
        self.n_rows, self.progress, self.threads = rows.n_rows, rows.progress, rows.threads

    def blocks(self) -> Iterator[tuple[int, Log]]:
        for first, block in self.rows.blocks():
            yield first, self.function(block)


def _aligned(log: Log, encoder: Encoder, sparse: str | None = None) -> Log:
    """The log with the features of an encoder, found by their names."""
    if encoder.digest == log.encoder.digest:
        return log
    return replace(log, contexts=encoder.aligned(log.encoder, log.contexts, sparse=sparse), encoder=encoder)


@keywords_of(scan_table)
def _scan_table(source: Any, **options: Any) -> tuple[Rows, list[str]]:
    rows, features = scan_table(source, **options), options.get("features")
    encoder = rows.layout.encoder
    notes = [] if encoder is None else [f"Features: {encoder.described()}."]
    notes += [rows.layout.assumed] if rows.layout.assumed else []
    if isinstance(features, Encoder) and features.digest != rows.encoder.digest:
        return _MappedRows(rows, partial(_aligned, encoder=features)), notes
    return rows, notes


def _events(reader: Callable[..., EventReader]) -> Callable[..., tuple[Rows, list[str]]]:
    """The `Format.scan` of an event reader, with the keywords of its constructor and of its method `scan`."""

    @keywords_of(EventReader.scan)
    @keywords_of(reader)
    def scan_events(source: Any, **options: Any) -> tuple[Rows, list[str]]:
        own = {name: options.pop(name) for name in inspect.signature(reader).parameters if name in options}
        return reader(source, **own).scan(**options)

    return scan_events


JSON = (".json", ".jsonl", ".ndjson", ".log", ".txt")
TEXT = (".txt", ".dat", ".log")

OTHERS = (
    Format(
        "obp",
        "Open Bandit Pipeline's bandit_feedback",
        obp.scan,
        (".npz",),
        _is_obp,
        ending=".npz",
        writer=obp.write,
        sparse=None,
    ),
    Format("open-bandit", "the Open Bandit Dataset's CSV", open_bandit.scan, (".csv",), _is_open_bandit),
    Format(
        "vw-adf",
        "Vowpal Wabbit's --cb_adf text",
        _events(VwAdfReader),
        (".adf", ".vw", *TEXT),
        _is_vw_adf,
        ending=".adf",
        writer=vw_text.write_cb_adf,
        sparse="words",
    ),
    Format(
        "vw",
        "Vowpal Wabbit's --cb text",
        _events(VwTextReader),
        (".vw", *TEXT),
        _is_vw_text,
        ending=".vw",
        writer=vw_text.write_cb,
        sparse="words",
    ),
    Format(
        "dsjson",
        "Vowpal Wabbit's --dsjson lines",
        _events(DsjsonReader),
        (".dsjson", *JSON),
        ending=".dsjson",
        writer=vw_json.write_dsjson,
    ),
    Format("vw-json", "Vowpal Wabbit's --json lines", _events(VwJsonReader), JSON),
    Format("coba", "coba's logged interactions", _events(CobaReader), JSON),
    Format("river", "river's bandit history", _events(RiverReader), JSON),
)
"""Other tools' formats; a file in none of them is a table."""

TABLE = Format("table", "a table", _scan_table, tuple(KINDS), writer=writer.write)
FORMATS = {each.name: each for each in (*OTHERS, TABLE)}


class ReadOptions(ColumnKeywords, total=False):
    """The keywords of `read_log`, without `notes`: columns of a table, and options of all formats."""

    actions: Sequence[Hashable] | None
    format: str | None
    features: FeatureSpec | Sequence[str]
    items: Any
    item_features: FeatureSpec
    delimiter: str | None
    decimal: str | None
    dates: str | None
    encoding: str | None
    sheet: str | int | None
    position: int | None
    affinities: bool
    max_categories: int
    max_features: int
    action_id: str | None
    ignore: Iterable[str]
    pdrop: str


def detect(source: Any) -> Format:
    """Return the format of a file, by its ending and first bytes, or of an object; a table if it is no other."""
    if not is_path(source):
        if isinstance(source, Mapping):
            return FORMATS["obp"] if set(source) >= FEEDBACK else TABLE
        record = source[0] if isinstance(source, Sequence) and len(source) else None
        return FORMATS.get(_json_format(record), TABLE)
    path = Path(source)
    if not path.is_file():
        return TABLE
    with readable_errors(path), open_text(path) as file:
        head = file.read(HEAD_BYTES)
        if head.lstrip().startswith(b"{") and b"\n" not in head:
            head += file.readline(LONGEST_LINE)
    ending = ending_of(path)
    likely = [each for each in OTHERS if ending in each.endings] or OTHERS
    # The reader of the format that the ending claims gives the best error for a damaged file.
    claimed = next((each for each in likely if each.ending and each.ending == ending), TABLE)
    return next(matching(head, likely), claimed)


def matching(head: bytes, among: Iterable[Format]) -> Iterator[Format]:
    """Iterate over the formats that a file which begins with these bytes may have."""
    lines = _json_format(_first_record(head))
    return (each for each in among if each.name == lines or (each.sniff and each.sniff(head)))


def format_for_path(path: str | os.PathLike[str], format: str | None = None) -> Format:
    """Return the format of this name, or else the one in which the path's ending asks a log to be written."""
    if format:
        return named(format)
    own = dict.fromkeys(WRITTEN, TABLE) | {each.ending: each for each in OTHERS if each.ending}
    ending = Path(path).suffix.lower()
    if ending in own:
        return own[ending]
    names = [each.name for each in FORMATS.values() if each.writer]
    raise LogError(
        f"{path}: unknown ending {ending!r}; known are {', '.join(own)}. Or name the format: {', '.join(names)}"
    )


def named(name: str) -> Format:
    """Return the format of this name."""
    if name not in FORMATS:
        raise LogError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    return FORMATS[name]


def open_log(
    source: Any,
    engine: Engine | None = None,
    progress: Progress | None = None,
    keep: bool = False,
    *,
    actions: Sequence[Hashable] | None = None,
    format: str | None = None,
    features: FeatureSpec | Sequence[str] = None,
    items: Any = None,
    item_features: FeatureSpec = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    dates: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    **options: Any,
) -> tuple[Rows, list[str]]:
    """Open a log in any format, and return its rows and what was assumed; `read_log` documents the keywords.

    Rows are read in blocks, in memory that does not grow with their number; but with `features="auto"` or
    `sparing.features(...)` another tool's log is read into memory. `keep` keeps the events of another tool's log in
    memory for the next pass.
    """
    found = named(format) if format else detect(source)
    settings = (delimiter, decimal, dates, encoding, sheet)
    options |= dict(zip(DIALECT, settings, strict=True))
    passed = {"engine": engine or local(1), "progress": progress, "keep": keep}
    if found is TABLE:
        given = {"actions": actions, "features": features, **options}
        return found.open(source, given, items=items, item_features=item_features, **passed)
    costs = options.pop("costs", None)
    rows, notes = _open_other(found, source, actions, features, options, passed)
    if costs is not None:
        if isinstance(costs, str):
            raise LogError(
                f"this is {found.title}, which has no cost columns; give costs by action, costs={{...}}"
            )
        rows = _MappedRows(rows, partial(replace, costs=as_costs(costs, rows.action_names)))
    if items is None:
        return rows, notes
    about = ItemTable(items, options.get("action", "action"), item_features, decimal=decimal, dates=dates)
    every = about.actions(rows.action_names)
    if actions is None and len(every) > rows.n_actions:
        rows, _ = _open_other(found, source, every, rows.encoder, options, passed)
    return _MappedRows(rows, partial(replace, items=about.items(rows.action_names))), notes


def _open_other(
    found: Format,
    source: Any,
    actions: Sequence[Hashable] | None,
    features: Any,
    options: Mapping[str, Any],
    passed: Mapping[str, Any],
) -> tuple[Rows, list[str]]:
    names, wanted = _feature_option(features)
    given = _own_options(found, options) | ({} if actions is None else {"actions": actions})
    given |= {} if names is None else {"features": names}
    raw = wanted if isinstance(wanted, Encoder) and wanted.is_raw else None
    rows, notes = found.open(source, given, **{**passed, "keep": passed["keep"] or wanted is not raw})
    if wanted is None:
        return rows, notes
    if raw is not None:
        return _MappedRows(rows, partial(_aligned, encoder=raw, sparse=found.sparse)), notes
    log = _encoded(rows.read(), wanted)
    return as_rows(log), [*notes, f"Features: {log.encoder.described()}."]


def _feature_option(features: Any) -> tuple[Sequence[str] | None, FeatureSpec]:
    """The names of features to read of another tool's file, or what its features become."""
    if features is None or features == "raw":
        return None, None
    if not isinstance(features, Sequence) or features == "auto":
        return None, features
    return [features] if isinstance(features, str) else features, None


def _own_options(found: Format, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those that only tables have; these must have their defaults."""
    defaults = {role.name: role.default for role in fields(ColumnRoles)} | dict.fromkeys(DIALECT)
    given = {name: each for name, each in options.items() if name not in defaults or each != defaults[name]}
    if "context_id" not in found.options:
        given.pop("context_id", None)
    if any(name in defaults and name not in found.options for name in given):
        raise LogError(
            f"this is {found.title}, which names its own columns; leave the column names, {', '.join(DIALECT[:-1])} and {DIALECT[-1]} out"
        )
    return given


def _encoded(log: Log, wanted: FeatureSpec) -> Log:
    """Encode the raw columns of another tool's log: words become categories, numbers are scaled, a constant is added."""
    columns = raw_columns(log)
    action, reward = (_unused(role, columns) for role in ("action", "reward"))
    rounds = {action: np.zeros(log.n_rows, dtype=np.int64), reward: np.zeros(log.n_rows)}
    none = dict.fromkeys(("propensity", "distribution", "eligible", "context_id"))
    found, _ = TABLE.read(
        {**columns, **rounds}, features=wanted, contexts=list(columns), action=action, reward=reward, **none
    )
    return replace(log, contexts=found.contexts, encoder=found.encoder)


def _unused(name: str, taken: Iterable[str]) -> str:
    return name if name not in taken else _unused(f"{name}_", taken)


@overload
def read_log(source: Any, *, notes: Literal[False] = False, **options: Unpack[ReadOptions]) -> Log: ...


@overload
def read_log(
    source: Any, *, notes: Literal[True], **options: Unpack[ReadOptions]
) -> tuple[Log, list[str]]: ...


@keywords_of(ColumnRoles)
@keywords_of(open_log)
def read_log(source: Any, *, notes: bool = False, **options: Any) -> Log | tuple[Log, list[str]]:
    """Read a log from a Parquet, CSV, Arrow or Excel file, a folder of them, a table in memory, or another tool's file.

    A table has one row for each round. Columns with default names are optional, except the action and the reward.

    Parameters
    ----------
    source : path, str, table or mapping
        A file, a folder, a pattern or a URI; an Arrow, pandas or polars table; a mapping of columns; or what another
        tool (OBP, Open Bandit Dataset, Vowpal Wabbit, coba, river) keeps in memory.
    contexts, action, reward, propensity, distribution, eligible, context_id, drop : str
        The columns of a table; `contexts` and `drop`, the columns to leave out, may be lists. `distribution` is the prefix of one probability column for each action, `eligible` a
        list column of the labels that were available.
    costs : mapping or str, optional
        Known cost of playing each action, in units of the reward: by label, or the prefix of one cost column for each action.
        Rewards are before cost; `log.costs` has the costs.
    actions : sequence of labels, optional
        Every action, logged or not.
    format : str, optional
        One of `sparing.log.formats.FORMATS`; by default it is detected from the content.
    features : "auto", "raw", Features, Encoder or list of str, optional
        How columns become features. `auto` detects the kind of every column without another role (or of those in
        `contexts`) and adds a constant; see `log.encoder`. `sparing.features(...)` declares the kinds. An encoder of
        another log is applied unchanged. `raw` takes numbers as they are, without a constant. The default is `raw` for
        tables that sparing wrote or simulates (columns x_0, x_1, … or x_<name>, or one list column `context`) and for
        other tools' files, else `auto`. A list names the features to read from another tool's file.
    items : path, str, table or mapping, optional
        A table with one row for each action, and a column of labels with the name of the log's action column. Its
        other columns are features of the actions. Items that were never logged become actions.
    item_features : "auto", "raw", Features or Encoder, optional
        As `features`, for the items.
    delimiter : str, optional
        The separator of a text file's cells; by default the one of comma, semicolon and tab that splits the header
        line into the most names.
    decimal : "." or ",", optional
        The decimal mark of numbers as text in columns that do not show it, such as 1.234. Columns that do keep their own.
    dates : "day-first" or "month-first", optional
        The order of dates such as 03/04/2026 in columns that do not show it.
    encoding : str, optional
        The encoding of a text file, such as "cp1252"; by default UTF-8 or UTF-16, or guessed from its letters.
    sheet : str or int, optional
        The name of a workbook's sheet, or its number from 1 on; by default the first that is not empty.
    notes : bool
        Also return what was assumed.
    **options
        Options of another tool's format: `position`, `affinities`, `max_categories`, `max_features`, `action_id`,
        `ignore`, `pdrop`, and `context_id`; see docs/formats.md.

    Returns
    -------
    Log, or tuple of Log and list of str
        The log, with `notes=True` and what was assumed.

    Raises
    ------
    LogError
        If the log is not valid; the message has the row or line.

    Warns
    -----
    LogWarning
        If a column seems to be known only after the action, or to be an id, or if rows repeat others; `drop` leaves a column out.
    UnitWarning
        If a cost is larger than the span of the rewards.

    Examples
    --------
    >>> import sparing
    >>> table = {"age": [31, 52, 40], "action": ["a", "b", "a"], "reward": [0.0, 1.0, 1.0]}
    >>> log = sparing.read_log(table, features="auto")
    >>> log.n_rows, log.action_names
    (3, ('a', 'b'))
    """
    _check_keywords(options)
    rows, assumed = open_log(source, keep=True, **options)
    log = rows.read()
    if options.get("costs") is not None and log.costs is not None and log.n_rows:
        check_cost_units(log.costs, float(log.rewards.min()), float(log.rewards.max()))
    found = _warn(rows, options.get("features"), log.counts)
    return (log, [*assumed, *found]) if notes else log


def _warn(rows: Rows, features: Any, counts: np.ndarray | None = None) -> list[str]:
    """Warn of columns of a table that should hardly be features, or actions; return the sentences."""
    if not isinstance(rows, Scan):
        return []
    found, fitted = [], rows.layout.encoder
    if fitted is not None and not isinstance(features, Encoder):
        declared = [name for name, spec in getattr(features, "specs", ()) if spec.kind != "auto"]
        found += check_columns(rows, fitted, declared)
    found += [] if counts is None else labels.check_action_labels(counts, rows.items)
    for sentence in found:
        warnings.warn(sentence, LogWarning, stacklevel=3)
    return found


@keywords_of(ColumnRoles)
@keywords_of(open_log)
def scan(
    source: Any,
    *,
    engine: Any = "local",
    workers: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[ReadOptions],
) -> Rows:
    """Open a log that is larger than memory, in any format.

    Functions that take a log (`audit`, `evaluate`, `learn`, the learners, `plan`, `write_log`) take a scan too, and
    return the same numbers, bit for bit. Those that need all rows in memory raise an error. `scan` reads the log once,
    for its labels and to fit `features`. Every function reads it again, in blocks.

    Parameters
    ----------
    source : path, str, table or mapping
        A file, a folder, a pattern (`logs/*.parquet`), a URI (`s3://bucket/logs`), or a table in memory.
    engine : str, Engine or client
        Where the rows of tables are read: `local` threads, or a Dask scheduler's address or client; see
        `sparing.engines`. Other tools' files are read by one thread.
    workers : int, optional
        Workers of the engine; by default one for each core.
    progress : callable, optional
        Called as `progress(done, total)` during every pass.
    contexts, action, reward, propensity, distribution, eligible, context_id, drop, costs : str
    actions, format, features, items, item_features, delimiter, decimal, dates, encoding, sheet, **options
        As in `read_log`. With `features="auto"` another tool's log is read into memory.

    Returns
    -------
    Scan or Rows
        The log; `read()` reads all rows, `sample(n)` a random sample of them.

    Examples
    --------
    >>> import sparing
    >>> table = {"age": [31, 52, 40], "action": ["a", "b", "a"], "reward": [0.0, 1.0, 1.0]}
    >>> sparing.scan(table, features="auto").n_rows
    3
    """
    _check_keywords(options)
    rows, _ = open_log(source, engine_of(engine, workers), progress, **options)
    if isinstance(rows, _MappedRows) and isinstance(rows.rows, Scan):
        raise LogError(
            "the table has the columns of features=... in another order, and sums are not reordered. Read it with "
            "read_log, or write it again"
        )
    _warn(rows, options.get("features"))
    return rows


def _check_keywords(options: Mapping[str, Any]) -> None:
    unknown: Any = {name: value for name, value in options.items() if name not in ReadOptions.__annotations__}
    roles_of(unknown)


def convert(
    source: Any,
    target: str | os.PathLike[str],
    source_format: str | None = None,
    target_format: str | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[AnyLog, list[str], list[str]]:
    """Write a log in another format, in memory that does not grow with the rows.

    The formats are detected from the source's content and chosen by the target's ending, unless they are named.
    `progress(rows, total)` is called during every pass, with a total of 0 until it is known; `options` are those of
    `read_log`. Returns the log (a scan if the source is a file), what was assumed, and what the target cannot carry.
    """
    chosen = format_for_path(target, target_format)
    chosen.checked_writer()  # refuses before long work
    rows, assumed = open_log(source, format=source_format, progress=progress, **options)
    log = rows if is_path(source) else rows.read()
    return log, assumed, chosen.write(log, target)


def write_log(log: AnyLog, path: str | os.PathLike[str], format: str | None = None) -> list[str]:
    """Write a log as Parquet, CSV or Arrow, or in another tool's format.

    Parquet and Arrow store everything. In CSV, labels and ids are text: whole numbers read back as numbers, other
    labels as text. An action without any row, set or probability column is lost unless `read_log` gets `actions`.

    Parameters
    ----------
    log : Log or Scan
    path : path or str
        The file to write; its ending chooses the format.
    format : str, optional
        `table`, `obp`, `vw`, `vw-adf` or `dsjson`.

    Returns
    -------
    list of str
        What the format cannot store.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import sparing
    >>> log = sparing.read_log({"x_0": [1.0, 2.0], "action": [0, 1], "reward": [0.0, 1.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sparing.write_log(log, pathlib.Path(folder) / "log.parquet")
    []
    """
    return format_for_path(path, format).write(log, path)
