"""`python -m research site`: build the site."""

from pathlib import Path
from typing import Annotated

import typer

from sparing.cli import terminal


def site(
    out: Annotated[Path, typer.Option(help="Where to put the site.")] = Path("site"),
) -> None:
    """Build the site from docs/ and the code, and stop at any dead link.

    Example: python -m research site --out site
    """
    from research.site import building

    building.build(out, Path(".site"))
    terminal.print_status(f"Site: {out}/index.html. To look at it: python -m http.server --directory {out}")
