"""Tables and progress bars for people; machines get JSON.

Labels, paths and messages hold what others wrote. Here is the one place where text leaves for a terminal:
what would steer it, or what it cannot show, is written as an escape such as \\x1b.
"""

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import typer

from sparing.errors import SparingError, StoppedError

if TYPE_CHECKING:
    from rich.text import Text

    from sparing.simulation.loop import Progress

GATE_SHUT = 3
"""The exit code when a condition holds on which a command was told to fail."""

SETTING = re.compile(r"\b([a-z_]+)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|\([^)]*\)|\.\.\.|[^\s,;:()]*[^\s,;:.()])")
"""A setting and its value, as messages of the library name them."""

INTERRUPTED = 130
"""The exit code of a command that was interrupted."""


def run(app: Callable[[], None]) -> None:
    """Run a command line; our errors become one line and exit code 2."""
    _forgive_characters()
    os.environ.setdefault("SPARING_ANNOUNCE", "1")
    try:
        app()
    except SparingError as error:
        say(f"sparing: {in_options(str(error), sys.argv[1:])}")
        sys.exit(INTERRUPTED if isinstance(error, StoppedError) else 2)
    except OSError as error:
        say(f"sparing: {error}" if error.filename is None else f"sparing: {error.filename}: {error.strerror}")
        sys.exit(2)
    except SystemExit as left:
        if left.code == INTERRUPTED:
            say("sparing: interrupted; nothing half-written is left behind")
        raise


def in_options(message: str, words: Sequence[str] = ()) -> str:
    """A message of the library in the words of the command line: action=NAME is --action NAME here.

    Only what is an option of the command among the `words` (of any, if none is) is put so: a label such as country=NZ
    stays as it is.
    """
    import typer.main

    from sparing.cli import app

    commands: Any = getattr(typer.main.get_command(app), "commands", {})
    asked = [commands[word] for word in words if word in commands][:1] or commands.values()
    known = {each.name for command in asked for each in command.params}
    return SETTING.sub(lambda found: _as_option(*found.groups()) if found[1] in known else found[0], message)


def _as_option(name: str, value: str) -> str:
    plain = value.strip("'\"")
    if plain[:1] in "([":
        plain = plain[1:-1].replace(", ", ",").replace("'", "")
    return f"--{name.replace('_', '-')} {plain if plain != 'None' else repr('')}"


def version(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    """Show the version, or go on to a command."""
    if version:
        from sparing import __version__

        print(__version__)
        raise typer.Exit


def _forgive_characters() -> None:
    """Let no character that the terminal lacks stop a command; help texts have some too."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def shown(value: object) -> str:
    """Foreign text on one line: what is not printable, a line's end included, as an escape."""
    return _escaped(str(value), lambda character: character.encode("unicode_escape").decode())


def tell(text: str, *, file: IO[str] | None = None) -> None:
    """Print lines for people."""
    print("\n".join(map(shown, text.split("\n"))), file=file)


def say(text: str) -> None:
    """Tell people something without disturbing what is piped on."""
    tell(text, file=sys.stderr)


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False
) -> None:
    """Print a table; the first column is names, the others numbers unless all are words."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=_cell(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for place, name in enumerate(header):
        table.add_column(_cell(name), justify="left" if words or place == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    Console(highlight=False).print(table)


def _cell(text: str) -> "Text":
    """Text that rich prints as it stands: in a plain string it would look for markup."""
    from rich.text import Text

    return Text(shown(text))


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
