"""`sparing plan`: how many rewards are worth asking for, before going live."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sparing.cli import reading, terminal


@reading.reads_log(
    regret=(float, "Find the cheapest way to at most this regret."),
    worlds=(40, "How many worlds to draw from the log's posterior."),
    confidence=(0.9, "Of the prediction intervals."),
    noise=(float, "Deviation of a reward around its mean; default: estimated."),
    prior_scale=(float, "Deviation of a parameter between actions; default: from the log."),
    ridge=(1.0, "Regularisation of the learners but economical and confident."),
    radius_scale=(1.0, "Factor on the confidence radius; below 1 voids the guarantees."),
    seed=(0, "Draws the worlds."),
    workers=(int, "Processes; default: one a core."),
)
def plan(
    log: reading.GivenLog,
    call_cost: Annotated[
        float | None, typer.Option(help="What a reward costs, in the reward's units; default: try a few.")
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(help="How many live rounds there will be; default: as many as the log has rows."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="How many rewards may be asked for; default: no limit.")
    ] = None,
    tolerances: Annotated[
        str,
        typer.Option(
            help="Losses a skipped round may have, with commas; default: 0.05, 0.2 and 0.5 of the noise."
        ),
    ] = "",
    learners: Annotated[
        str, typer.Option(help="Learners to compare, with commas; default: economical,confident,certified.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Folder for plan.png and plan.html; default: none.")
    ] = None,
    as_json: reading.AsJson = False,
    **settings: Any,
) -> None:
    """Predict, from a log, how many rewards to ask for, and what that gains and costs.

    Example: sparing plan log.parquet --call-cost 0.05 --horizon 5000
    """
    from sparing.archive import check_folder
    from sparing.errors import require
    from sparing.planning import page as report
    from sparing.planning.planning import COMPARED
    from sparing.planning.planning import plan as make_plan

    if out is not None:
        check_folder(out)
        require("matplotlib", extra="paper", purpose="drawing a figure")
    if tolerances:
        settings["tolerances"] = reading.numbers("tolerances", tolerances, example="0.05,0.1")
    settings["learners"] = reading.words(learners) or COMPARED
    rows = log.open()
    with reading.walking("simulating worlds", rows) as progress:
        said: Any = {"call_cost": call_cost, "horizon": horizon, "budget": budget}
        found = make_plan(rows, **said, **settings, progress=progress)
    files = "Figure: {}\nPage:   {}".format(*report.write(found, out)) if out is not None else ""
    if as_json:
        terminal.print_json(found.to_dict())
        if files:
            terminal.say(files)
    else:
        terminal.tell(f"{found}\n{files}".strip())
