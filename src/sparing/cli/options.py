"""Options that several commands share, and the log that these options describe."""

import contextlib
import csv
import functools
import inspect
import io
import shlex
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import GenericAlias, MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import terminal
from sparing.errors import FileError, KindError, LogError, SettingError
from sparing.log.columns import ColumnRoles
from sparing.validation import reward_range

if TYPE_CHECKING:
    from sparing.engines import Progress
    from sparing.log import Log
    from sparing.log.rows import AnyLog
    from sparing.log.tables import TableSource
    from sparing.policies.policy import Policy

LOG = "The log: Parquet, CSV, Excel, Arrow, JSON lines, or another tool's format; also a folder, a pattern or a URI of tables."
Setting = tuple[Any, str] | tuple[Any, str, dict[str, Any]]
"""An option: its default (its type if it has none), its help, and further arguments of `typer.Option`."""

Command = Callable[..., None]
REQUIRED = object()  # default of an option that must be given

JSON: Setting = (False, "Print JSON instead of a table.", {"flag": "--json"})
REWARD_RANGE: Setting = (
    "",
    "Smallest and largest mean reward, as LOW,HIGH; default: the range of the log.",
)

ANSWERS: Setting = (
    list[str],
    "Judged answers: a queue of `sparing ask` with its rewards filled in; may be repeated.",
)

DIALECT: dict[str, Setting] = {
    "delimiter": ("", "Separator of a text file's cells; default: detected from its first line."),
    "decimal": ("", "Decimal mark of numbers that do not show it, such as 1.234: . or ,"),
    "dates": ("", "Order of dates that do not show it, such as 03/04/2026: day-first or month-first"),
    "encoding": ("", "Encoding of a text file, such as cp1252; default: UTF-8, or guessed."),
    "sheet": ("", "Sheet of a workbook, by name or number from 1; default: the first not empty."),
}
"""How people's files write a table."""

OPTIONAL = ("propensity", "distribution", "eligible", "context_id", *DIALECT)
"""Columns and settings that may be empty: --propensity '' means that the log has no propensities."""

ASSUMED = "Assumed: "
"""How the sentence begins that says how the cells of a table were read."""

LARGE = 2**30
"""Tables of at least this many bytes are scanned, not read into memory."""


@dataclass(frozen=True)
class GivenLog:
    """A log as a command's options describe it; `given` are the names of options that differ from their defaults."""

    source: str
    options: dict[str, Any]
    given: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return Path(self.source)

    @property
    def name(self) -> str:
        return self.source.partition("?")[0].rstrip("/").rpartition("/")[2] or self.source

    def repeat_options(self, *without: str, **more: Any) -> list[str]:
        """Return the path and the given options as words of another command on the same log.

        Options `without` are dropped. `more` options are added unless they are None or empty.
        """
        given = [_typed(name, self.options[name]) for name in self.given if name not in without]
        return [shlex.quote(self.source), *given, *options(**more)]

    def open(self, policy: "Policy | None" = None) -> "AnyLog":
        """Read the log; scan it if it is large, not a single file, or if --engine is given.

        With --sample, read a random part of its rows.
        """
        from sparing.log import formats
        from sparing.log.scan import Scan
        from sparing.log.tables import is_file
        from sparing.log.text_files import is_table

        given = dict(self.options)
        engine, workers, part = (given.pop(name, None) for name in SCAN_OPTIONS)
        estimates = given.pop("estimate_support", False)
        large = self.path.is_file() and is_table(self.path) and self.path.stat().st_size >= LARGE
        scanned = engine or part or large or not is_file(str(self.source))
        if scanned and estimates:
            raise SettingError(
                "estimate_support=True needs all rows in memory. Use a single file of less than 1 GiB, without --engine"
                if not part
                else "estimate_support=True and a sample exclude each other. Leave one of them out"
            )
        keywords = self._keywords(policy, given)
        log: Any
        with (
            utf8_name(self.path),
            terminal.progress_bar(f"{'scanning' if scanned else 'reading'} the log") as bar,
        ):
            if not scanned:
                log, notes = formats.read_log(self.path, notes=True, **keywords)
            else:
                rows = formats.scan(
                    self.source,
                    engine=engine or "local",
                    workers=workers or None,
                    progress=bar,
                    **keywords,
                )
                rows.progress, log = None, rows
                notes = [rows.layout.assumed] if isinstance(rows, Scan) else []
            _print_what_was_read(log, notes)
            if part:
                log = rows.sample(part)
                terminal.print_status(f"sparing: a random {log.n_rows:,} of {rows.n_rows:,} rows")
        if not estimates or log.support.known:
            return log
        from sparing.auditing import estimate_support

        terminal.print_status(
            "sparing: support was not logged; it is estimated, and results that use it are approximate"
        )
        return estimate_support(log)[0]

    def table(self) -> "TableSource | None":
        """The table that the log is read from, whose columns people know; None for another tool's format."""
        from sparing.log.formats import TABLE, detect
        from sparing.log.tables import open_table
        from sparing.log.text_files import Dialect

        if detect(self.source) is not TABLE:
            return None
        return open_table(self.source, Dialect(**{name: self.options[name] or None for name in DIALECT}))

    @property
    def roles(self) -> dict[str, Any]:
        """The names of its columns, by role."""
        names = ("action", "reward", "propensity", "distribution", "eligible", "context_id", "costs")
        return {name: self.options[name] or None for name in names}

    def judged(self, log: "AnyLog", files: list[str] | None, reward_range: str = "") -> "Log | None":
        """The judged answers to queues about this log, as rows without propensities; None without files."""
        from sparing.asking.answers import judged_rows

        if not files:
            return None
        self.refuse_sample("--answers")
        limits = pair(reward_range)
        found = judged_rows(log, files, table=self.table(), columns=self.roles, reward_range=limits)
        terminal.print_status(f"sparing: {found.n_rows:,} judged answers from {', '.join(files)}")
        return found

    def refuse_sample(self, what: str) -> None:
        """Refuse --sample, with which row numbers are not those of the log."""
        if self.options.get("sample"):
            raise SettingError(f"--sample with {what}, which names rows of the whole log. Leave --sample out")

    def _keywords(self, policy: "Policy | None", given: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords of `read_log` and `scan`; without --features, a policy's encoder encodes the features."""
        features = features_of(given.pop("features")) or getattr(policy, "encoder", None)
        return {
            "features": features,
            "items": given.pop("items") or None,
            "item_features": features_of(given.pop("item_features")),
            "contexts": words(given.pop("contexts"), "contexts") or None,
            "drop": words(given.pop("drop"), "drop") or None,
            "costs": costs_of(given.pop("costs")),
            "actions": labels(self.source, given, words(given.pop("actions"), "actions")) or None,
            **{name: None if name in OPTIONAL and not value else value for name, value in given.items()},
        }


def _print_what_was_read(log: "AnyLog", notes: Sequence[str]) -> None:
    """Print what was assumed to read the table, what its columns became, and actions that differ only in case or spaces."""
    from sparing.log.labels import near_duplicates, shorten

    for note in notes:
        if note.startswith(ASSUMED):
            said = terminal.as_cli_options(note, sys.argv[1:])
            terminal.print_status(f"sparing: {said[0].lower()}{said[1:]}")
    if not log.encoder.is_raw:
        terminal.print_status(f"sparing: features: {log.encoder.described()}")
    if similar := near_duplicates(log.action_names):
        shown = f"{shorten(similar[0])} and {shorten(similar[1])}"
        more = f", and {len(similar) // 2 - 1:,} more," if len(similar) > 2 else ""
        terminal.print_status(
            f"sparing: the actions {shown}{more} differ only in case or spaces and count as different actions; give them one spelling if they are the same"
        )


def options(**given: Any) -> list[str]:
    """Return options as words of a command, without those that are None or empty."""
    return [_typed(name, value) for name, value in given.items() if value is not None and value != ""]


def _typed(name: str, value: Any) -> str:
    flag = f"--{name.replace('_', '-')}"
    if value is False:
        return f"--no{flag[1:]}"
    return flag if value is True else f"{flag} {shlex.quote(str(value))}"


SCAN_OPTIONS: dict[str, Setting] = {
    "engine": ("", "Scan the log with: local (threads) or dask://HOST:PORT."),
    "workers": (0, "Threads that scan the log; 0: one per core."),
    "sample": (0, "Read a random sample of this many rows; 0: all."),
}
"""Options of commands that can scan a log that does not fit in memory."""


LOG_OPTIONS: dict[str, Setting] = {
    **{role.name: (role.default or "", role.metadata["help"]) for role in fields(ColumnRoles)},
    "actions": ("", 'All actions, logged or not, separated by commas; quote a label with a comma: "a,b",c'),
    "features": (
        "",
        "auto, raw, or a JSON file with the kind of each column; default: by the table's columns.",
    ),
    "items": ("", "A table of action features, with one row per action."),
    "item_features": ("", "As --features, for the table of --items."),
    **DIALECT,
}
SHIFT: Setting = (
    "",
    "Whether live rewards may differ from the log's (economical, confident): auto finds out, a number is by how many deviations between "
    "actions; default: none.",
)
ESTIMATED: Setting = (False, "Estimate propensities and support that were not logged.")
ESTIMATED_BY_DEFAULT: Setting = (
    bool,
    "Estimate propensities and support that were not logged, and learn from them. Default: estimate them where the method or "
    "its evaluation needs them.",
    {"flag": "--estimate-support/--no-estimate-support"},
)


def takes(**settings: Setting) -> Callable[[Command], Command]:
    """Make settings the options of a command, after its arguments; it takes them by name, or as `**settings`."""

    def add_options(command: Command) -> Command:
        signature = inspect.signature(command)
        parameters = [
            each
            for each in signature.parameters.values()
            if each.name not in settings and each.kind is not each.VAR_KEYWORD
        ]
        parameters += [_option(name, *setting) for name, setting in settings.items()]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return add_options


def reads_log(*, estimates: bool = False, **settings: Setting) -> Callable[[Command], Command]:
    """Add the options that describe a log to a command, which gets its `log` as a `GivenLog`.

    With `estimates` the command has --estimate-support. The log is an argument, unless it is among the settings.
    """
    shared = LOG_OPTIONS | ({"estimate_support": ESTIMATED} if estimates else {})
    if "estimate_support" in settings:
        shared |= {"estimate_support": settings.pop("estimate_support")}
    if "log" not in settings:
        shared |= {name: setting for name, setting in SCAN_OPTIONS.items() if name not in settings}

    def add_options(command: Command) -> Command:
        @functools.wraps(command)
        def run(*, log: Any, **given: Any) -> None:
            reading = {name: given.pop(name) for name in shared}
            default = {
                name: None if isinstance(first, type) else first for name, (first, *_) in shared.items()
            }
            changed = tuple(name for name, value in reading.items() if value != default[name])
            command(log=None if log is None else GivenLog(log, reading, changed), **given)

        command.__annotations__["log"] = Annotated[str, typer.Argument(help=LOG)]
        return takes(**settings, **shared)(run)

    return add_options


def _option(
    name: str, default: Any, help: str, more: Mapping[str, Any] = MappingProxyType({})
) -> inspect.Parameter:
    """Return a setting as a parameter; whole numbers are not negative, and a flag has no opposite."""
    kind: Any = type(default)
    if default is REQUIRED:
        kind, default = str, inspect.Parameter.empty
    elif isinstance(default, type | GenericAlias):
        kind, default = default | None, None
    given = {"min": 0 if kind is int else None, **more}
    flags = given.pop("flag", f"--{name.replace('_', '-')}" if kind is bool else None)
    option = typer.Option(*filter(None, [flags]), help=help, **given)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


@contextlib.contextmanager
def progress_of(title: str, log: "AnyLog") -> "Iterator[Progress]":
    """Show a progress bar for work on a log, and for every pass over one that is scanned."""
    from sparing.log.rows import Rows

    with terminal.progress_bar(title) as progress:
        if isinstance(log, Rows):
            log.progress = progress
        try:
            yield progress
        finally:
            if isinstance(log, Rows):
                log.progress = None


@contextlib.contextmanager
def utf8_name(*paths: Path) -> Iterator[None]:
    """Explain the error for a file whose name is not UTF-8, which Arrow cannot open."""
    try:
        yield
    except UnicodeEncodeError:
        odd = [path for path in paths if str(path) != str(path).encode(errors="replace").decode()]
        if not odd:
            raise
        raise FileError(f"the name of {odd[0]} is not UTF-8, which tables need. Rename the file") from None


def words(text: str, name: str = "list") -> list[str]:
    """Split a list at its commas; a part with commas is in double quotes, as in CSV."""
    try:
        parts = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise SettingError(
            f"--{name.replace('_', '-')} {text}: a double quote that is not closed, or not closed before a comma. Put a part with commas in quotes, and double "
            'the quotes in it: "a,b","5"" pipe",c'
        ) from None
    return [part.strip() for part in parts if part.strip()]


def listed(names: Iterable[Hashable]) -> str:
    """Return labels as the text of an option, which `words` splits."""
    from sparing.log.labels import label_text

    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(map(label_text, names))
    return text.getvalue()


def labels(path: str, given: dict[str, Any], texts: list[str]) -> list[Hashable]:
    """Return labels as values of the action column's type; for a text file, whole numbers if all of them are."""
    import pyarrow as pa

    from sparing.log.labels import whole_numbers
    from sparing.log.tables import open_table
    from sparing.log.text_files import Dialect

    if not texts:
        return []
    try:
        own = {name: given[name] or None for name in DIALECT}
        source = open_table(path, Dialect(**own))
    except LogError:  # not a table: reading the log raises the error, or reads another format
        return list(texts)
    column = given["action"]
    if column in source.schema.names and not source.text:
        kind = source.schema.field(column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not pa.types.is_integer(kind):
            return list(texts)
    return whole_numbers(texts)


def features_of(text: str) -> Any:
    """Return the features that a word or a JSON file describes."""
    if text in ("", "auto", "raw"):
        return text or None
    from sparing.log.features.files import read_features

    return read_features(text)


def costs_of(text: str) -> str | dict[str, float] | None:
    """Parse ACTION=COST with commas; a text without = is the prefix of cost columns."""
    if "=" not in text:
        return text or None
    found: dict[str, float] = {}
    for part in words(text, "costs"):
        name, equals, cost = part.rpartition("=")
        try:
            value = float(cost)
        except ValueError:
            value = float("nan")
        if not equals or not name.strip() or value != value or name.strip() in found:
            raise SettingError(
                f"--costs {text}: {part!r} is not ACTION=COST, or names an action twice. Write small=0.001,large=0.02, or the "
                "prefix of one cost column per action"
            )
        found[name.strip()] = value
    return found


def shift_of(text: str) -> str | float | None:
    """Parse a word or a number; None for no text."""
    try:
        return float(text)
    except ValueError:
        return text or None


def pair(text: str) -> tuple[float, float] | None:
    """Parse LOW,HIGH."""
    return reward_range(numbers("reward_range", text, example="0,1")) if text else None


def numbers(name: str, text: str, *, example: str) -> list[float]:
    try:
        return [float(word) for word in words(text, name)]
    except ValueError:
        raise SettingError(
            f"{name}={text!r}; must be numbers separated by commas, such as {example}"
        ) from None


def read_both(log: GivenLog, word: str) -> "tuple[AnyLog, Policy]":
    """Return a log, and a policy by its name (`uniform`, `action:LABEL`) or from a file of a policy or a learner.

    The policy's encoder encodes the log's features.
    """
    from sparing.log.labels import label_text
    from sparing.policies.policy import ConstantPolicy, UniformPolicy

    if word == "uniform" or word.startswith("action:"):
        table = log.open()
        names = table.action_names
        if word == "uniform":
            return table, UniformPolicy(names)
        label = word.removeprefix("action:")
        found = [name for name in names if label_text(name) == label]
        if not found:
            some = ", ".join(map(str, names[:12]))
            raise SettingError(
                f"unknown action {label!r}; the log has {some}. List all actions with --actions"
            )
        return table, ConstantPolicy(names, found[0])
    policy = read_policy(word)
    return log.open(policy), policy


def read_policy(word: str) -> "Policy":
    """Return the policy of a file, or the greedy policy of a file of a learner."""
    from sparing.online.files import KIND as LEARNER
    from sparing.online.files import load
    from sparing.policies.files import load_policy

    if not Path(word).exists():
        raise SettingError(
            f"policy={word!r}; expected `uniform`, `action:LABEL`, or a file made by `sparing learn` or Learner.save"
        )
    try:
        return load_policy(word)
    except KindError as error:
        if error.kind != LEARNER:
            raise
        return load(word).policy()


def settings(parts: list[str] | None, example: str = "ridge=0.1", option: str = "option") -> dict[str, Any]:
    """Parse settings of the form NAME=VALUE: a value is a number, true or false if it reads as one, and a tuple if it has commas."""
    found: dict[str, Any] = {}
    for word in parts or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SettingError(f"--{option} {word}: expected NAME=VALUE, such as --{option} {example}")
        found[name.replace("-", "_")] = _value(value)
    return found


def _value(text: str) -> Any:
    parts = text.split(",")
    if len(parts) > 1 and any(parts):
        return tuple(_value(part) for part in parts)
    if text in ("true", "false"):
        return text == "true"
    from sparing.log.labels import WHOLE_NUMBER, number

    if WHOLE_NUMBER.fullmatch(text):
        return int(text)
    try:
        return number(text)
    except ValueError:
        return text
