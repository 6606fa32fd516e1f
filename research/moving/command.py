"""`python -m research moving`: the pictures of `docs/how-to/drift.md`, made again."""

import json
from pathlib import Path
from typing import Annotated

import typer


def moving(
    docs: Annotated[Path, typer.Option(help="Folder whose front/ and images/ are written.")] = Path("docs"),
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Draw from the numbers that are there; play nothing.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Processes; default: one a core.")] = None,
) -> None:
    """Play learners in worlds that change, watch an interval, and draw both.

    Example: python -m research moving
    """
    from research.front.numbers import text
    from research.moving import numbers, picture
    from sparing.archive import folder, replacing
    from sparing.cli import terminal
    from sparing.errors import require

    require("matplotlib", extra="report", purpose="drawing the pictures")
    kept = folder(docs / "front") / "moving.json"
    if redraw:
        found = json.loads(kept.read_text(encoding="utf-8"))
    else:
        with terminal.progress_bar("worlds that move") as progress:
            found = numbers.numbers(numbers.FULL, workers=workers, progress=progress)
        with replacing(kept) as part:
            part.write_text(text(found) + "\n", encoding="utf-8")
    for path in picture.save(found, folder(docs / "images")):
        terminal.print_text(f"Picture: {path}")
    terminal.print_text(f"Numbers: {kept}")
