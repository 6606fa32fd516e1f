"""The commands of research: `python -m research` with `bench`, `front`, `moving`, `release`, `reproduce`, `site` or `tables`."""

import typer

from research.bench.command import bench
from research.front.command import front
from research.moving.command import moving
from research.paper.command import reproduce
from research.release import release
from research.site.command import site
from research.tables.command import tables
from sparing.cli import terminal

app = typer.Typer(
    name="python -m research",
    help="Run the paper's experiments again and judge them; measure beside the peers; draw pictures of the docs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("bench")(bench)
app.command("front")(front)
app.command("moving")(moving)
app.command("release")(release)
app.command("reproduce")(reproduce)
app.command("site")(site)
app.command("tables")(tables)


def main() -> None:
    """Run the command line."""
    terminal.run(app)


if __name__ == "__main__":
    main()
