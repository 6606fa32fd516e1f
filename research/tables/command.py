"""`python -m research tables`: the tables of the docs, measured again."""

import importlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from research.tables.part import Part

NAMES = (
    "classes",
    "shapes",
    "routing",
    "texts",
    "items",
    "methods",
    "holding",
    "worth",
    "predicted",
    "intervals",
    "asked",
    "shift",
    "forgetting",
)
"""The tables, each a module beside this one."""


def tables(
    names: Annotated[
        list[str] | None, typer.Argument(help=f"{', '.join(NAMES)}; default: all of them.")
    ] = None,
    docs: Annotated[Path, typer.Option(help="Folder whose pages and tables/ are written.")] = Path("docs"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A seed or two of something small; prints, and writes nothing.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many seeds; default: as the table says.")
    ] = None,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Write the pages from the numbers that are there; run nothing.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Processes; default: one a core.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Measure what the docs say of models, methods and intervals again, and write it into their pages.

    What is finished is kept: after an interruption the same command goes on where it was.

    Example: python -m research tables routing items
    """
    from sparing.cli import terminal

    found = {}
    for name in names or NAMES:
        part = load(name)
        if redraw:
            found[name] = json.loads(_kept(docs, name).read_text(encoding="utf-8"))
        else:
            found[name] = _measured(part, docs, quick=quick, seeds=seeds, workers=workers)
        if not quick:
            _write(part, docs, found[name])
        if not as_json:
            terminal.print_text(part.markdown(found[name]).replace("\u00a0", " ") + "\n")
    if as_json:
        terminal.print_json(found)


def load(name: str) -> "Part":
    """The table of this name, imported when it is asked for."""
    from sparing.errors import SettingError

    if name not in NAMES:
        raise SettingError(f"no table is called {name!r}; there are {', '.join(NAMES)}")
    part: Part = importlib.import_module(f"research.tables.{name}").PART
    return part


def _kept(docs: Path, name: str) -> Path:
    return docs / "tables" / f"{name}.json"


def _measured(
    part: "Part", docs: Path, *, quick: bool, seeds: int | None, workers: int | None
) -> dict[str, Any]:
    from research.paper.running import Pieces
    from sparing.archive import folder
    from sparing.cli import terminal

    experiment = part.experiment
    setting = experiment.setting(quick=quick, seeds=seeds)
    with tempfile.TemporaryDirectory() as apart, terminal.progress_bar(part.name) as progress:
        out = Path(apart) if quick else folder(docs / "tables")
        pairs = Pieces(experiment, setting, out).run(workers=workers, progress=progress)
    return part.record(setting, pairs)


def _write(part: "Part", docs: Path, found: dict[str, Any]) -> None:
    from research.tables.part import text
    from sparing.archive import folder, replacing

    folder(docs / "tables")
    with replacing(_kept(docs, part.name)) as kept:
        kept.write_text(text(found), encoding="utf-8")
    page = docs / part.page
    if page.is_file():
        parts = part.put_into(page.read_text(encoding="utf-8"), found)
        with replacing(page) as kept:
            kept.write_text(parts, encoding="utf-8")
