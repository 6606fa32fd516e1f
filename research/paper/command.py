"""`python -m research reproduce`: the paper's experiments, run again and judged."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from research.paper.experiment import Experiment
    from research.paper.running import Pieces


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="fig1, fig2, fig3, fig4, table1, theorems, propositions, beyond; default: all of them."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few seeds: minutes instead of half an hour.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many seeds; default: as the experiment says.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for numbers, data, figures and the page.")] = Path(
        "sparing-reproduction"
    ),
    workers: Annotated[int | None, typer.Option(help="Processes; default: one a core.")] = None,
    render: Annotated[
        bool,
        typer.Option("--render", help="Run nothing: draw figures and pages again from the results in DIR."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
) -> None:
    """Run the paper's experiments again, judge its claims, and write a page with figures and data.

    What is finished is kept: after an interruption the same command goes on where it was.

    Example: python -m research reproduce fig1 fig2 --quick
    """
    from research.paper import experiment as experiments
    from research.paper.report import page
    from research.paper.running import Pieces
    from sparing.archive import check_folder
    from sparing.cli import terminal
    from sparing.errors import DataError, MissingExtraError, require

    check_folder(out)
    require("matplotlib", extra="report", purpose="drawing the figures")
    chosen = experiments.chosen(names or ["all"])
    missing = {}
    for number, experiment in enumerate(chosen, start=1):
        label = f"{number} of {len(chosen)}  {experiment.name}"
        try:
            if render:
                _render(experiment, out, label)
            else:
                pieces = Pieces(experiment, experiment.setting(quick=quick, seeds=seeds), out)
                _run(pieces, out, workers, label)
        except (DataError, MissingExtraError) as error:
            missing[experiment.name] = str(error)
        record, document, left_out = page.write(out, kept=render)
    if left_out:
        terminal.print_status(
            f"Left out, as of other versions: {', '.join(left_out)}. Run them again to have them."
        )
    if as_json:
        terminal.print_json(record)
        terminal.print_status(f"Page: {document}")
    else:
        rows = [(row["claim"], row["source"], row["verdict"]) for row in page.verdicts(record)]
        terminal.print_table("The paper's claims", ("claim", "in the paper", "verdict"), rows, words=True)
        terminal.print_text(f"With numbers and figures: {document}")
    if missing:
        text = "".join(f"\n{name}: {reason}" for name, reason in missing.items())
        raise DataError(f"not all could be run; what was is kept, and the same command goes on.{text}")


def _run(pieces: "Pieces", out: Path, workers: int | None, label: str) -> None:
    from research.paper.report import folder
    from sparing.cli import terminal

    kept, experiment = len(pieces.kept()), pieces.experiment
    if kept:
        terminal.print_status(
            f"{experiment.name}: {kept} of {len(pieces)} pieces are there from an earlier run"
        )
    with terminal.progress_bar(label) as progress:
        pairs = pieces.run(workers=workers, progress=progress)
    analysis = experiment.analyse(pieces.setting, pairs)
    found = folder.outcome(experiment, pieces.setting, pairs, analysis)
    folder.write(experiment, found, analysis, out)


def _render(experiment: "Experiment", out: Path, label: str) -> None:
    from research.paper.report import folder
    from sparing.cli import terminal

    found = folder.render(experiment, out)
    terminal.print_status(
        f"{label}: drawn again" if found else f"{label}: no results in {out / experiment.name}"
    )
