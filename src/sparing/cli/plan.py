"""`sparing plan`: how many rewards are worth asking for, before going live."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import reading, terminal

if TYPE_CHECKING:
    from sparing.planning.result import Plan


@reading.reads_log(
    regret=(float, "Find the cheapest way to at most this regret."),
    worlds=(40, "How many worlds to live through, of many drawn from the log's posterior."),
    confidence=(0.9, "Of the prediction intervals."),
    noise=(float, "Deviation of a reward around its mean; default: estimated."),
    prior_scale=(float, "Deviation of a parameter between actions; default: from the log."),
    ridge=(1.0, "Regularisation of the learners but economical and confident."),
    radius_scale=(1.0, "Factor on the confidence radius; below 1 voids the guarantees."),
    seed=(0, "Draws the worlds."),
    workers=(0, "Threads; 0: one a core."),
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
    """Predict how many rewards are worth asking for live.

    And what they gain and cost, from worlds that are drawn from what the log teaches. The page of --out needs
    matplotlib; without it the table is printed all the same.

    Example: sparing plan log.parquet --call-cost 0.05 --horizon 5000
    """
    from sparing.archive import check_folder
    from sparing.planning import page as report
    from sparing.planning.plan import COMPARED
    from sparing.planning.plan import plan as make_plan

    if out is not None:
        check_folder(out)
    if tolerances:
        settings["tolerances"] = reading.numbers("tolerances", tolerances, example="0.05,0.1")
    settings["learners"] = reading.words(learners, "learners") or COMPARED
    settings["workers"] = settings["workers"] or None
    rows = log.open()
    with reading.walking("simulating worlds", rows) as progress:
        said: Any = {"call_cost": call_cost, "horizon": horizon, "budget": budget}
        found = make_plan(rows, **said, **settings, progress=progress)
    files = "" if out is None else terminal.drawn(lambda: report.write(found, out))
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        _print(found)
        if call_cost is not None and found.chosen not in (None, found.alone) and log.path.is_file():
            again = log.again("engine", "workers", "sample", call_cost=call_cost, horizon=found.horizon)
            named = reading.options(name="live", log=log.source)
            terminal.tell_next("go live", ["serve", "store", *named, *again[1:]])
    if files:
        terminal.say(files)


def _print(found: "Plan") -> None:
    """What the plan says as text, in the width of the terminal."""
    from sparing.planning import result

    terminal.tell(f"{found.sentence}\n")
    terminal.print_table(result.table(found)[0], result.header(found), result.rows(found))
    for text in (*found.answers, "What this rests on:", *(f"- {text}" for text in found.assumptions)):
        terminal.tell(text)
