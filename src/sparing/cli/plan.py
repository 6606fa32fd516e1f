"""`sparing plan`: how many reward calls going live will take, before it does."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import reading

if TYPE_CHECKING:
    from sparing.log import Log
    from sparing.planning.result import Plan


@reading.reads_log("contexts", "action", "reward")
def plan(
    log: reading.GivenLog,
    rounds: Annotated[int, typer.Option(help="How many live rounds to plan for.")],
    regret: Annotated[
        float | None, typer.Option(help="Find the cheapest way to at most this regret.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Find the least regret within this many reward calls.")
    ] = None,
    tolerance: Annotated[
        str, typer.Option(help="Losses a skipped round may have, with commas.")
    ] = "0.05,0.1,0.2,0.5",
    learners: Annotated[
        str, typer.Option(help="Learners to compare, with commas; default: all that can be planned.")
    ] = "",
    worlds: Annotated[int, typer.Option(help="How many worlds to draw from the log's posterior.")] = 40,
    confidence: Annotated[float, typer.Option(help="Of the prediction intervals.")] = 0.9,
    noise: Annotated[
        float | None, typer.Option(help="Deviation of a reward around its mean; default: estimated.")
    ] = None,
    prior_scale: Annotated[
        float | None, typer.Option(help="Deviation of a parameter between actions; default: from the log.")
    ] = None,
    ridge: Annotated[float, typer.Option(help="Regularisation of the learners but confident.")] = 1.0,
    radius_scale: Annotated[
        float, typer.Option(help="Factor on the confidence radius; below 1 voids the guarantees.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Draws the worlds.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes; default: one a core.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for plan.png and plan.html; default: none.")
    ] = None,
    as_json: reading.AsJson = False,
) -> None:
    """Predict, from a log, the reward calls and the regret of each learner, with intervals.

    Example: sparing plan log.parquet --rounds 5000 --regret 200
    """
    from sparing.archive import check_folder
    from sparing.cli import terminal
    from sparing.extras import require
    from sparing.planning import page as report
    from sparing.planning.planning import LEARNERS

    if out is not None:
        check_folder(out)
        require("matplotlib", extra="paper", purpose="drawing a figure")
    found = _plan(
        log.read(),
        rounds=rounds,
        tolerances=_numbers(tolerance),
        learners=reading.words(learners) or LEARNERS,
        worlds=worlds,
        confidence=confidence,
        regret=regret,
        budget=budget,
        seed=seed,
        workers=workers,
        noise=noise,
        prior_scale=prior_scale,
        ridge=ridge,
        radius_scale=radius_scale,
    )
    files = "Figure: {}\nPage:   {}".format(*report.write(found, out)) if out is not None else ""
    if as_json:
        terminal.print_json(found.to_dict())
        if files:
            terminal.say(files)
    else:
        terminal.tell(f"{found}\n{files}".strip())


def _plan(log: "Log", **settings: Any) -> "Plan":
    """Make a plan under a bar; a setting that is missing is called as the option is."""
    from sparing.cli import terminal
    from sparing.errors import SettingError
    from sparing.planning.planning import plan as make_plan

    try:
        with terminal.progress_bar("simulating worlds") as progress:
            return make_plan(log, progress=progress, **settings)
    except SettingError as error:
        raise SettingError(_as_options(str(error))) from None


def _numbers(text: str) -> list[float]:
    from sparing.errors import SettingError

    try:
        return [float(word) for word in reading.words(text)]
    except ValueError:
        raise SettingError(
            f"tolerance={text!r}; must be numbers with commas between them, such as 0.05,0.1"
        ) from None


def _as_options(message: str) -> str:
    """Say `--prior-scale` where the library says `prior_scale=...`."""
    return re.sub(r"\b([a-z_]+)=\.\.\.", lambda found: "--" + found[1].replace("_", "-"), message)
