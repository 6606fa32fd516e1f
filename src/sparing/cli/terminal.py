"""Tables and progress bars for people; machines get JSON."""

import contextlib
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sparing.simulation.loop import Progress


def say(text: str) -> None:
    """Tell people something without disturbing what is piped on."""
    print(text, file=sys.stderr)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is names, the others numbers."""
    _print_table(title, header, rows, numbers=range(1, len(header)))


def print_words(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of words."""
    _print_table(title, header, rows, numbers=())


def _print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for place, name in enumerate(header):
        table.add_column(name, justify="right" if place in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


@contextlib.contextmanager
def progress_bar(title: str) -> "Iterator[Progress]":
    """A bar on the terminal's error stream; silent where that is not a terminal."""
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn(title),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with rich.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_json(value: Any) -> None:
    """Print a value as JSON, NumPy's numbers included."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
