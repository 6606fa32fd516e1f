"""`python -m research front`: the front page's numbers and picture, made again."""

import json
from pathlib import Path
from typing import Annotated

import typer


def front(
    docs: Annotated[
        Path, typer.Option(help="Folder whose front/, images/ and tutorials/routing.md are written.")
    ] = Path("docs"),
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Draw from the numbers that are there; play nothing.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Processes; default: one a core.")] = None,
) -> None:
    """Route real prompts to three language models, one of them new, and draw calls saved against reward.

    Example: python -m research front
    """
    from research.front import picture, telling
    from research.front.numbers import numbers, text
    from research.front.setting import FULL
    from sparing.archive import folder, replacing
    from sparing.cli import terminal
    from sparing.errors import require

    require("matplotlib", extra="report", purpose="drawing the picture")
    kept = folder(docs / "front") / "calls-saved.json"
    if redraw:
        found = json.loads(kept.read_text(encoding="utf-8"))
    else:
        with terminal.progress_bar("routing prompts") as progress:
            found = numbers(FULL, workers=workers, progress=progress)
        with replacing(kept) as part:
            part.write_text(text(found) + "\n", encoding="utf-8")
    for path in picture.save(found, folder(docs / "images")):
        terminal.print_text(f"Picture: {path}")
    page = docs / "tutorials" / "routing.md"
    if page.is_file():
        parts = telling.put_into(page.read_text(encoding="utf-8"), telling.markdown(found))
        with replacing(page) as part:
            part.write_text(parts, encoding="utf-8")
    terminal.print_text(f"Numbers: {kept}")
