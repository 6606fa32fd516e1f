"""Tables and progress bars for people; JSON for programs.

Labels, paths and messages contain text of others. This is the only place where text is written to a terminal: control
characters, and characters that the terminal cannot show, are written as escapes such as \\x1b.
"""

import contextlib
import io
import json
import re
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from sparing.errors import (
    LogWarning,
    MissingExtraError,
    SparingError,
    SpellingWarning,
    StoppedError,
    UnitWarning,
)

if TYPE_CHECKING:
    from rich.text import Text

    from sparing.engines import Progress

EXIT_GATE_FAILED = 3
# A setting and its value in messages of the library.
SETTING = re.compile(r"\b([a-z_]+)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|\.\.\.|[^\s,;:()]*[^\s,;:.()])")

NARROWEST = 40  # least assumed width of a terminal
NAME_WIDTH = 16  # least width of names in a table before numbers are wrapped too
COMMAND_WIDTH = 74  # characters of a command per line
EXIT_INTERRUPTED = 130


def run(app: Callable[[], None]) -> None:
    """Run a command line; errors of the library become one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except SparingError as error:
        print_status(f"sparing: {as_cli_options(str(error), sys.argv[1:])}")
        sys.exit(EXIT_INTERRUPTED if isinstance(error, StoppedError) else 2)
    except OSError as error:
        print_status(
            f"sparing: {error}" if error.filename is None else f"sparing: {error.filename}: {error.strerror}"
        )
        sys.exit(2)
    except SystemExit as left:
        if left.code == EXIT_INTERRUPTED:
            print_status("sparing: interrupted; nothing half-written is left behind")
        raise


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *others: Any
) -> None:
    """Print a warning of the library as a line; where it comes from in the code helps nobody at the prompt."""
    if issubclass(category, LogWarning | UnitWarning | SpellingWarning):
        print_status(f"sparing: warning: {as_cli_options(str(message), sys.argv[1:])}")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


# Allowed values by the type of the parser's error.
WANTED = {
    "float_parsing": "a number with a decimal point, such as 0.05",
    "int_parsing": "a whole number, such as 1000",
    "int_from_float": "a whole number, such as 1000",
}


class InOrder(TyperGroup):
    """Lists commands in the order in which a newcomer needs them, `warm-up` last; warnings of the library become lines."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: name == "warm-up")

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning  # type: ignore[assignment]
                warnings.simplefilter("always", LogWarning)
                return super().invoke(ctx)
        except typer.BadParameter as error:
            cause: Any = error.__cause__
            if hasattr(cause, "errors"):
                first = cause.errors()[0]
                got, wanted = shown(repr(first["input"])), WANTED.get(first["type"])
                error.message = f"got {got}; expected {wanted}" if wanted else f"got {got}. {error.message}"
            raise


UNNAMED = {"calls"}  # settings in messages that only --option can set


def as_cli_options(message: str, words: Sequence[str] = ()) -> str:
    """Rewrite settings in a message of the library as options: action=NAME becomes --action NAME.

    Only options of the command among the `words` (of any command, if there is none) are rewritten; where the command takes
    settings by --option, options of other commands become --option action=NAME. A label such as country=NZ stays.
    """
    import typer.main

    from sparing.cli import app

    whole = typer.main.get_command(app)
    known = _options(whole, list(words))
    others = {*_options(whole, []), *UNNAMED} if "option" in known and words else set()

    def put(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if message[: found.start()].endswith(("--option ", "--rule ")):
            return found[0]
        if name in known:
            flag = f"--{name.replace('_', '-')}"
            return flag if value == "True" else f"{flag} {_plain(value)}"
        return f"--option {name}={_plain(value)}" if name in others else found[0]

    return SETTING.sub(put, message)


def _options(command: Any, words: list[str]) -> set[str]:
    inside = getattr(command, "commands", {})
    place = next((place for place, word in enumerate(words) if word in inside), None)
    some = inside.values() if place is None else [inside[words[place]]]
    rest = [] if place is None else words[place + 1 :]
    return {each.name for each in command.params}.union(*(_options(each, rest) for each in some))


def _plain(value: str) -> str:
    plain = value.strip("'\"")
    if plain[:1] in "([":
        plain = plain[1:-1].replace(", ", ",").replace("'", "")
    return shlex.quote(plain) if " " in plain else plain if plain != "None" else "''"


def version(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        from sparing import __version__

        print(__version__)
        raise typer.Exit


def shown(value: object) -> str:
    """Return text on one line, with escapes for characters that are not printable."""
    return _escaped(str(value), lambda character: character.encode("unicode_escape").decode())


def print_text(*texts: str, whole: bool = False) -> None:
    """Print lines for people, wrapped to the terminal unless `whole`; never wrapped in a pipe."""
    for text in texts:
        for line in map(shown, text.split("\n")):
            print(line if whole else _wrapped(line))


def print_status(text: str) -> None:
    """Print to standard error, so that piped output is unaffected; never wrapped, since it may contain a command to copy."""
    print("\n".join(map(shown, text.split("\n"))), file=sys.stderr)


def print_next_step(why: str, words: Sequence[str]) -> None:
    """Print the command to run next, on several lines if it is long."""
    lines = [f"  {program()}"]
    for word in words:
        if len(lines[-1]) + len(word) > COMMAND_WIDTH and lines[-1].strip():
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {shown(word)}"
    print("\n".join([f"Next, {why}:", *lines]))


def program() -> str:
    """Return how to call this program: `sparing`, unless only a path finds it."""
    started = Path(sys.argv[0])
    as_module = started.parts[-2:] == ("sparing", "__main__.py")
    if shutil.which("sparing") or not (as_module or started.stem == "sparing"):
        return "sparing"
    return f"{shlex.quote(sys.executable)} -m sparing" if as_module else shlex.quote(str(started))


def _wrapped(line: str) -> str:
    width = shutil.get_terminal_size((0, 0)).columns
    if not width or len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line,
        max(width, NARROWEST),
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False
) -> None:
    """Print a table; the first column has names, the others numbers unless all are `words`."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False, show_edge=False)
    columns = list(zip(header, *rows, strict=True))
    whole = [
        place > 0 and not any(" " in cell for cell in column[1:]) for place, column in enumerate(columns)
    ]
    needed = sum(
        max(map(len, column)) + 2 for column, is_whole in zip(columns, whole, strict=True) if is_whole
    )
    for place, name in enumerate(header):
        table.add_column(
            _cell(name),
            justify="left" if words or place == 0 else "right",
            overflow="fold",
            no_wrap=whole[place] and not words and needed < console.width - NAME_WIDTH,
        )
    for row in rows:
        table.add_row(*map(_cell, row))
    console.print(_cell(title), style="bold", soft_wrap=True)
    console.print()
    console.print(table)
    console.print()


def _cell(text: str) -> "Text":
    from rich.text import Text

    return Text(shown(text))


def drawn(write: Callable[[], tuple[Path, Path]]) -> str:
    """Write a figure and a page, and return where; without matplotlib, return what to install."""
    try:
        return "Figure: {}\nPage:   {}".format(*write())
    except MissingExtraError as error:
        return f"No figure and no page: {error}"


@contextlib.contextmanager
def progress_bar(title: str) -> "Iterator[Progress]":
    """Show a progress bar on standard error; silent if that is not a terminal."""
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with rich.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(shown(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def print_json(value: Any) -> None:
    """Print a value as strict JSON with control characters escaped."""
    from sparing.archive import strict_json

    lines = strict_json(value, indent=2).split("\n")
    print("\n".join(_escaped(line, lambda character: json.dumps(character)[1:-1]) for line in lines))


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    """Escape every character that is not printable or cannot be encoded."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    if text.isprintable() and _encodes(text, encoding):
        return text
    return "".join(
        character if character.isprintable() and _encodes(character, encoding) else escape(character)
        for character in text
    )


def _encodes(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
