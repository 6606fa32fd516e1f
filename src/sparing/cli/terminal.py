"""Tables and progress bars for people; machines get JSON.

Labels, paths and messages hold what others wrote. Here is the one place where text leaves for a terminal:
what would steer it, or what it cannot show, is written as an escape such as \\x1b.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from sparing.errors import MissingExtraError, SparingError, StoppedError

if TYPE_CHECKING:
    from rich.text import Text

    from sparing.simulation.simulate import Progress

EXIT_GATE_FAILED = 3  # the exit code when a condition holds on which a command was told to fail
# A setting and its value, as messages of the library name them.
SETTING = re.compile(r"\b([a-z_]+)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|\.\.\.|[^\s,;:()]*[^\s,;:.()])")

NARROWEST = 40  # columns that a terminal is taken to have at least
NAME_WIDTH = 16  # columns that are left for names in a table before numbers are wrapped too
COMMAND_WIDTH = 74  # letters of a command to copy that stand on a line
EXIT_INTERRUPTED = 130  # the exit code of a command that was interrupted


def run(app: Callable[[], None]) -> None:
    """Run a command line; our errors become one line and exit code 2."""
    _forgive_characters()
    os.environ.setdefault("SPARING_ANNOUNCE", "1")
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


# What an option must be, by the kind of the error that its parser has.
WANTED = {
    "float_parsing": "a number with a decimal point, such as 0.05",
    "int_parsing": "a whole number, such as 1000",
    "int_from_float": "a whole number, such as 1000",
}


def validation_message(error: typer.BadParameter) -> str:
    """What is wrong with an option's value, in our words, with the value that was given."""
    cause: Any = error.__cause__
    if not hasattr(cause, "errors"):
        return error.message
    first = cause.errors()[0]
    wanted = WANTED.get(first["type"])
    got = shown(repr(first["input"]))
    return f"got {got}; expected {wanted}" if wanted else f"got {got}. {error.message}"


class InOrder(TyperGroup):
    """Lists the commands in the order in which a newcomer needs them; groups such as `keys` would come last."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: name == "warm-up")

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an option that does not fit is refused with what it was."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = validation_message(error)
            raise


UNNAMED = {"calls"}  # settings that messages name and that only --option gives


def as_cli_options(message: str, words: Sequence[str] = ()) -> str:
    """A message of the library in the words of the command line: action=NAME is --action NAME here.

    Only what is an option of the command among the `words` (of any, if none is) is put so; where it takes settings by --option,
    other commands' options are --option action=NAME. A label such as country=NZ stays as it is.
    """
    import typer.main

    from sparing.cli import app

    whole = typer.main.get_command(app)
    known = _options(whole, list(words))
    others = {*_options(whole, []), *UNNAMED} if "option" in known and words else set()

    def put(found: re.Match[str]) -> str:
        name, value = found.groups()
        if message[: found.start()].endswith(("--option ", "--rule ")):
            return found[0]
        if name in known:
            return _as_option(name, value)
        return f"--option {name}={_plain(value)}" if name in others else found[0]

    return SETTING.sub(put, message)


def _options(command: Any, words: list[str]) -> set[str]:
    inside = getattr(command, "commands", {})
    place = next((place for place, word in enumerate(words) if word in inside), None)
    some = inside.values() if place is None else [inside[words[place]]]
    rest = [] if place is None else words[place + 1 :]
    return {each.name for each in command.params}.union(*(_options(each, rest) for each in some))


def _as_option(name: str, value: str) -> str:
    flag = f"--{name.replace('_', '-')}"
    return flag if value == "True" else f"{flag} {_plain(value)}"


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


def _forgive_characters() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def shown(value: object) -> str:
    """Foreign text on one line: what is not printable, a line's end included, as an escape."""
    return _escaped(str(value), lambda character: character.encode("unicode_escape").decode())


def print_text(text: str, *, whole: bool = False) -> None:
    """Print lines for people, wrapped between words where the terminal is narrower, unless a line must stay `whole`.

    In a pipe they always do.
    """
    for line in map(shown, text.split("\n")):
        print(line if whole else _wrapped(line))


def print_status(text: str) -> None:
    """Tell people something without disturbing what is piped on; never wrapped: there may be a command to copy."""
    print("\n".join(map(shown, text.split("\n"))), file=sys.stderr)


def print_next_step(why: str, words: Sequence[str]) -> None:
    """Say which command to run next; where it is long, on several lines as a shell reads them."""
    lines = [f"  {program()}"]
    for word in words:
        if len(lines[-1]) + len(word) > COMMAND_WIDTH and lines[-1].strip():
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {shown(word)}"
    print("\n".join([f"Next, {why}:", *lines]))


def program() -> str:
    """How this program is called from here: `sparing`, unless it was started in a way that only a path repeats."""
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
    """Print a table; the first column is names, the others numbers unless all are words."""
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
    """Write a figure and a page, and say where; where nothing can be drawn, say what to install for it, which is no failure."""
    try:
        return "Figure: {}\nPage:   {}".format(*write())
    except MissingExtraError as error:
        return f"No figure and no page: {error}"


@contextlib.contextmanager
def progress_bar(title: str) -> "Iterator[Progress]":
    """A bar on the terminal's error stream, its total 0 until it is known; silent where that is not a terminal."""
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
    """Print a value as strict JSON; what a terminal must not get is escaped as JSON escapes it."""
    from sparing.archive import strict_json

    lines = strict_json(value, indent=2).split("\n")
    print("\n".join(_escaped(line, lambda character: json.dumps(character)[1:-1]) for line in lines))


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    """The text with every character escaped that is not printable or that the output cannot encode."""
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
