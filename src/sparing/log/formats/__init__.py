"""The formats of logs: our own table, and those of other contextual bandit tools, read and written without them.

`FORMATS` lists them by name. Reading gives the log and sentences that say what was assumed; writing
gives sentences that say what the format could not carry.
"""

import inspect
import os
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from sparing.engines import Progress
from sparing.errors import LogError
from sparing.log import labels
from sparing.log.columns import ColumnNames, Columns, keywords_of, roles_of
from sparing.log.features import Encoder
from sparing.log.formats import (
    dsjson,
    interactions,
    named_columns,
    obp,
    open_bandit,
    table,
    vw_adf,
    vw_json,
    vw_text,
)
from sparing.log.items import ItemTable
from sparing.log.labels import load_json
from sparing.log.log import Log
from sparing.log.rows import AnyLog, Rows, rows_of
from sparing.log.scan import Wanted
from sparing.log.text_files import KINDS, WRITTEN, Dialect, ending_of, is_path, readable, unpacked

HEAD_BYTES = 2**16
"""How much of a file is looked at to tell its format."""

NUMBER = rb"[-+0-9.eE]+"
TAG = rb"(?:'[^ \t|]*|[^ \t|:']+)?"
CB_LINE = re.compile(rb"[ \t]*(?:[0-9]+(?::%b){0,2}[ \t]+)*%b[ \t]*\|" % (NUMBER, TAG))
LABELLED_LINE = re.compile(rb"[ \t]*(?:[0-9]+[ \t]+)*[0-9]+:%b" % NUMBER)
OTHER_TASK = re.compile(rb"[ \t]*(?:ccb|slates|ca)[ \t][^|]*\|")
SHARED_LINE = re.compile(rb"shared[ \t|]")
CONTEXT = re.compile(rb'"c"\s*:\s*\{')
OBP_MEMBER = re.compile(
    rb"(?:n_rounds|n_actions|context|action|position|reward|pscore|pi_b|action_context|expected_reward)\.npy"
)


def _is_obp(head: bytes) -> bool:
    """A zip whose first member is an array of a bandit feedback."""
    return head[:4] == b"PK\3\4" and OBP_MEMBER.match(head, 30) is not None


def _is_open_bandit(head: bytes) -> bool:
    """A header with the dataset's columns."""
    columns = {name.strip().strip(b'"') for name in head.split(b"\n", 1)[0].split(b",")}
    telling = {b"propensity_score", b"action_prob", b"user_feature_0"}
    return {b"item_id", b"click"} <= columns and bool(columns & telling)


def _is_vw_text(head: bytes) -> bool:
    """Lines with bars, some with labels, not in blocks."""
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


def _is_vw_json(head: bytes, *, in_context: bool) -> bool:
    """An object with a label or a list of actions, inside its context `c` (dsjson), or itself the context.

    Vowpal Wabbit skips lines that are no objects. Where the line is cut off, it is enough that there is a `c`.
    """
    first = next((line.strip() for line in _lines(head) if line.lstrip().startswith(b"{")), b"")
    try:
        record = load_json(first)
        inside = isinstance(record.get("c"), dict) and "_multi" not in record
    except ValueError:
        inside = CONTEXT.search(first) is not None
    return _is_labelled(first) and inside == in_context


def _is_coba(head: bytes) -> bool:
    """An object with a context, an action and a reward."""
    first = b"".join(_lines(head)[:1]).strip()
    parts = (b'"context"', b'"action"', b'"reward"')
    return first.startswith(b"{") and all(part in first for part in parts) and not _is_labelled(first)


def _is_river(head: bytes) -> bool:
    """A list that begins with a list."""
    return re.match(rb"\[\s*\[", b"".join(_lines(head)[:1]).strip()) is not None


def _is_labelled(first: bytes) -> bool:
    return any(part in first for part in (b'"_label', b'"_multi"', b'"_outcomes"'))


def _lines(head: bytes) -> list[bytes]:
    """The lines that are there as a whole, blank ones left out."""
    lines = head.removeprefix(b"\xef\xbb\xbf").splitlines()
    whole = lines[:-1] if len(lines) > 1 and not head.endswith(b"\n") else lines
    return [line for line in whole if line.strip()]


def _never(source: Any) -> bool:
    """What a format looks like that is not told this way."""
    return False


def _keyed(*names: str) -> Callable[[Any], bool]:
    """Accepts a mapping with these names."""
    return lambda item: isinstance(item, Mapping) and set(item) >= set(names)


def _listing(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Accepts a list whose first item passes a test."""
    return lambda source: (
        isinstance(source, Sequence) and not isinstance(source, str) and len(source) > 0 and test(source[0])
    )


def _is_vw_object(item: Any) -> bool:
    return isinstance(item, Mapping) and any(key == "_multi" or str(key).startswith("_label") for key in item)


def _is_step(item: Any) -> bool:
    return isinstance(item, list | tuple) and len(item) == 4


@dataclass(frozen=True)
class Format:
    """A way to store logs; its codec has `read`, `scan` and `write`.

    `endings` are those of files that may hold it, `ending` the one that is its own. `sniff` looks at the first
    bytes of a file, `accepts` at an object in memory. `sparse` says how features that a file does not name are
    found among those of another: see `Encoder.aligned`.
    """

    name: str
    title: str
    codec: Any
    endings: tuple[str, ...]
    sniff: Callable[[bytes], bool] = _never
    accepts: Callable[[Any], bool] = _never
    ending: str = ""
    sparse: str | None = "values"

    @property
    def read(self) -> Callable[..., tuple[Log, list[str]]]:
        """`read(source, **options)` gives the log and what was assumed."""
        return self.codec.read

    @property
    def scan(self) -> Callable[..., tuple[Rows, list[str]]]:
        """`scan(source, progress=..., **options)` gives the same log as one that is walked."""
        return self.codec.scan

    @property
    def write(self) -> Callable[[AnyLog, str | os.PathLike[str]], list[str]]:
        """`write(log, path)` gives what could not be written."""
        return self.codec.write


JSON = (".json", ".jsonl", ".ndjson", ".log", ".txt")
TEXT = (".txt", ".dat", ".log")
FEEDBACK = _keyed("context", "action", "reward", "n_actions")
INTERACTIONS = _listing(_keyed("context", "action", "reward"))
EVENTS, OBJECTS, STEPS = _listing(_keyed("c")), _listing(_is_vw_object), _listing(_is_step)
IS_DSJSON, IS_JSON = partial(_is_vw_json, in_context=True), partial(_is_vw_json, in_context=False)

OTHERS = (
    Format("obp", "Open Bandit Pipeline's bandit_feedback", obp, (".npz",), _is_obp, FEEDBACK, ".npz", None),
    Format("open-bandit", "the Open Bandit Dataset's CSV", open_bandit, (".csv",), _is_open_bandit),
    Format(
        "vw-adf",
        "Vowpal Wabbit's --cb_adf text",
        vw_adf,
        (".adf", ".vw", *TEXT),
        _is_vw_adf,
        ending=".adf",
        sparse="words",
    ),
    Format(
        "vw", "Vowpal Wabbit's --cb text", vw_text, (".vw", *TEXT), _is_vw_text, ending=".vw", sparse="words"
    ),
    Format(
        "dsjson", "Vowpal Wabbit's --dsjson lines", dsjson, (".dsjson", *JSON), IS_DSJSON, EVENTS, ".dsjson"
    ),
    Format("vw-json", "Vowpal Wabbit's --json lines", vw_json, JSON, IS_JSON, OBJECTS),
    Format("coba", "coba's logged interactions", interactions.COBA, JSON, _is_coba, INTERACTIONS),
    Format("river", "river's bandit history", interactions.RIVER, JSON, _is_river, STEPS),
)
"""Other tools' formats; what is none of them is a table."""

TABLE = Format("table", "a table", table, tuple(KINDS))
FORMATS = {each.name: each for each in (*OTHERS, TABLE)}


def detect(source: Any) -> Format:
    """The format of a file, by its ending and first bytes, or of an object; a table where it is no other."""
    if not is_path(source):
        return next((each for each in OTHERS if each.accepts(source)), TABLE)
    path = Path(source)
    if not path.is_file():
        return TABLE
    with readable(path), unpacked(path) as file:
        head = file.read(HEAD_BYTES)
    ending = ending_of(path)
    likely = [each for each in OTHERS if ending in each.endings] or OTHERS
    # A format that the file only claims to have says best what is wrong with it.
    claimed = next((each for each in likely if each.ending and each.ending == ending), TABLE)
    return next((each for each in likely if each.sniff(head)), claimed)


def to_write(path: str | os.PathLike[str]) -> Format:
    """The format that a path's ending asks for."""
    own = {**dict.fromkeys(WRITTEN, TABLE), **{each.ending: each for each in OTHERS if each.ending}}
    ending = Path(path).suffix.lower()
    if ending in own:
        return own[ending]
    raise LogError(
        f"{path}: unknown ending; known are {', '.join(own)}. Or name the format: {', '.join(FORMATS)}"
    )


def named(name: str) -> Format:
    """The format of this name."""
    if name not in FORMATS:
        raise LogError(f"unknown format {name!r}; known are {', '.join(FORMATS)}")
    return FORMATS[name]


@keywords_of(Columns)
def read_log(
    source: Any,
    *,
    actions: Sequence[Hashable] | None = None,
    format: str | None = None,
    features: Wanted = None,
    items: Any = None,
    item_features: Wanted = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    **columns: Unpack[ColumnNames],
) -> Log:
    """Read a log from a Parquet, CSV or Arrow file, a folder of them, an Arrow, pandas or polars table, or a mapping.

    A text file's cells are parted by its `delimiter`; without it, by the one of comma, semicolon and tab that parts the
    header line into most names. With `decimal=","` every cell such as 0,5 is 0.5, in labels too; without, such numbers are refused.

    Other tools' formats (OBP, Open Bandit Dataset, Vowpal Wabbit, coba, river) are told by their content,
    or named by `format`; `sparing.log.conversion.read_any` also says what was assumed.

    A table has one row a round. `features` says what its columns become: `auto` takes every column without
    another role (or those that `contexts` names) for what its cells are and adds a constant, see
    `log.encoder`, of other tools' files with words too; `sparing.features(...)` says it column by column; an encoder does what it did to another
    log; `raw` takes numbers as they are, without a constant. The default is `raw` for what sparing wrote or
    simulates (columns x_0, x_1, … or x_<name>, or one list column `context`), else `auto`.

    `distribution` is the prefix of one probability column an action, `eligible` a list column of the labels
    the row could have taken. `actions` lists every action, logged or not. Columns with default names are
    optional, except the action and the reward. `items` is a table with a row an action, told by a column that is
    named as the log's action column; its other columns, or what `item_features` says of them, are features of
    the actions. Items that were never logged become actions too.
    """
    roles, dialect = roles_of(columns), Dialect(delimiter, decimal)
    log = _read(source, actions, format, features, roles, dialect)
    if items is None:
        return log
    about = ItemTable(items, columns.get("action", "action"), item_features)
    new = [label for label in about.labels(log.action_names) if label not in set(log.action_names)]
    if new and actions is None:
        log = _read(source, [*log.action_names, *labels.in_order(new)], format, log.encoder, roles, dialect)
    return replace(log, items=about.items(log.action_names))


def _read(
    source: Any,
    actions: Sequence[Hashable] | None,
    format: str | None,
    features: Wanted,
    roles: Columns,
    dialect: Dialect,
) -> Log:
    """Read a log in whatever format, without its items."""
    found = named(format) if format else detect(source)
    if found is TABLE:
        return table.load(source, roles, dialect, actions=actions, features=features)[0]
    if replace(roles, context_id="context_id") != Columns() or dialect != Dialect():
        raise LogError(
            f"this is {found.title}, which names its own columns; leave the column names, delimiter and decimal out"
        )
    log = found.read(source, **({} if actions is None else {"actions": actions}))[0]
    if not _keeps_names(features):
        return named_columns.encoded(log, features)
    return table.aligned(log, features, sparse=found.sparse)


def _keeps_names(features: Wanted) -> bool:
    """Whether the features of a peer's file, numbers by name, stay as they are."""
    return features in (None, "raw") or (isinstance(features, Encoder) and features.is_raw)


def read_any(source: Any, format: str | None = None, **options: Any) -> tuple[Log, list[str]]:
    """Read a log in any format, and what was assumed; `format` names it, else it is told by its content."""
    found = _fitting(source, format, options)
    word, others = _worded(found, options)
    log, notes = found.read(source, **others)
    if word != "auto":
        return log, notes
    encoded = named_columns.encoded(log, word)
    return encoded, [*notes, f"Features: {encoded.encoder.described()}."]


def scan_any(
    source: Any, format: str | None = None, *, progress: Progress | None = None, **options: Any
) -> tuple[Rows, list[str]]:
    """The same log as one that is walked, in memory that does not grow with its rows, and what was assumed.

    `progress(done, total)` is told of every walk, how many of the rows or parts it has seen; the total is 0 until it is known. With
    `features="auto"` another tool's log is read into memory first.
    """
    found = _fitting(source, format, options)
    word, others = _worded(found, options)
    if word == "auto":
        log, notes = read_any(source, format, **options)
        return rows_of(log), notes
    return found.scan(source, progress=progress, **others)


def _worded(found: Format, options: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """What another tool's features are to become, where a word says it, and the other options; one name is a list of one."""
    others = dict(options)
    features = others.get("features")
    if found is TABLE or not isinstance(features, str):
        return None, others
    del others["features"]
    return (features, others) if features in ("auto", "raw") else (None, {**others, "features": [features]})


def _fitting(source: Any, format: str | None, options: Mapping[str, Any]) -> Format:
    """The format of a source, which must have these options."""
    found = named(format) if format else detect(source)
    known = list(inspect.signature(found.read).parameters)[1:]
    for name in options:
        if name not in known:
            raise LogError(
                f"an option does not fit {found.name}: it has no {name!r}; known are {', '.join(known)}"
            )
    return found


def write_any(log: AnyLog, path: str | os.PathLike[str], format: str | None = None) -> list[str]:
    """Write a log in any format, by name or by the path's ending; returns what could not be carried."""
    return (named(format) if format else to_write(path)).write(log, path)


def write_log(log: AnyLog, path: str | os.PathLike[str]) -> None:
    """Write a log as Parquet, CSV or Arrow, by the path's ending.

    Parquet and Arrow carry everything. In CSV labels and ids are text: whole numbers read back as
    numbers, anything else as its text, and an action that is in no row, set or probability column not at
    all, unless `read_log` is given `actions`.
    """
    table.write(log, path)
