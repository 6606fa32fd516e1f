"""`sparing plan`: how many reward calls going live will take, before it does."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sparing.cli import reading, terminal
from sparing.errors import SettingError


@reading.reads_log(
    regret=(float, "Find the cheapest way to at most this regret."),
    budget=(float, "Find the least regret within this many reward calls."),
    worlds=(40, "How many worlds to draw from the log's posterior."),
    confidence=(0.9, "Of the prediction intervals."),
    noise=(float, "Deviation of a reward around its mean; default: estimated."),
    prior_scale=(float, "Deviation of a parameter between actions; default: from the log."),
    ridge=(1.0, "Regularisation of the learners but confident."),
    radius_scale=(1.0, "Factor on the confidence radius; below 1 voids the guarantees."),
    seed=(0, "Draws the worlds."),
    workers=(int, "Processes; default: one a core."),
)
def plan(
    log: reading.GivenLog,
    rounds: Annotated[int, typer.Option(help="How many live rounds to plan for.")],
    tolerance: Annotated[
        str, typer.Option(help="Losses a skipped round may have, with commas.")
    ] = "0.05,0.1,0.2,0.5",
    learners: Annotated[
        str, typer.Option(help="Learners to compare, with commas; default: all that can be planned.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Folder for plan.png and plan.html; default: none.")
    ] = None,
    as_json: reading.AsJson = False,
    **settings: Any,
) -> None:
    """Predict, from a log, the reward calls and the regret of each learner, with intervals.

    Example: sparing plan log.parquet --rounds 5000 --regret 200
    """
    from sparing.archive import check_folder
    from sparing.errors import require
    from sparing.planning import page as report
    from sparing.planning.planning import LEARNERS
    from sparing.planning.planning import plan as make_plan

    if out is not None:
        check_folder(out)
        require("matplotlib", extra="paper", purpose="drawing a figure")
    settings["tolerances"] = reading.numbers("tolerance", tolerance, example="0.05,0.1")
    settings["learners"] = reading.words(learners) or LEARNERS
    rows = log.read()
    try:
        with terminal.progress_bar("simulating worlds") as progress:
            found = make_plan(rows, rounds=rounds, progress=progress, **settings)
    except SettingError as error:
        raise SettingError(_as_options(str(error))) from None
    files = "Figure: {}\nPage:   {}".format(*report.write(found, out)) if out is not None else ""
    if as_json:
        terminal.print_json(found.to_dict())
        if files:
            terminal.say(files)
    else:
        terminal.tell(f"{found}\n{files}".strip())


def _as_options(message: str) -> str:
    """Say `--prior-scale` where the library says `prior_scale=...`."""
    return re.sub(r"\b([a-z_]+)=\.\.\.", lambda found: "--" + found[1].replace("_", "-"), message)
