"""`sparing demo`: see the point on a real data set in under a minute."""

import textwrap
from pathlib import Path
from typing import Annotated

import typer

from sparing.cli import reading, terminal


def demo(
    data: Annotated[str, typer.Option(help="Data set: pendigits, satimage, letter, digits, …")] = "pendigits",
    never: Annotated[
        str, typer.Option(help="Classes the log never tries, with commas; default: the last three.")
    ] = "",
    call_cost: Annotated[
        float, typer.Option(help="What a reward costs economical, as a share of a right answer.")
    ] = 0.05,
    tolerance: Annotated[float, typer.Option(help="Loss a skipped round may have, for confident.")] = 0.1,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeded runs to average.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for the figure and the page.")] = Path("sparing-demo"),
    as_json: reading.AsJson = False,
) -> None:
    """Learn from a log that never tried some classes, live, and see what each reward call bought.

    Example: sparing demo --data satimage --call-cost 0.2
    """
    from sparing.archive import check_folder
    from sparing.errors import MissingExtraError
    from sparing.simulation import datasets
    from sparing.simulation import demo as report
    from sparing.simulation.demo import DemoSetting, demonstrate

    check_folder(out)
    dataset = datasets.load(data, fallback=data == "pendigits", say=terminal.say)
    classes = tuple(reading.words(never))
    setting = DemoSetting(data, classes, call_cost, tolerance, seeds=tuple(range(seeds)))
    with terminal.progress_bar("learning live") as progress:
        result = demonstrate(setting, dataset, progress=progress)
    try:
        image, document = report.write(result, out)
        written = f"Figure: {image}\nPage:   {document}"
    except MissingExtraError as error:
        written = f"No figure: {error}"
    if as_json:
        terminal.print_json(result.to_dict())
        terminal.say(written)
        return
    audit = textwrap.indent(str(result.audit), "  ")
    terminal.tell(f"A log of {result.dataset}, its first seed:\n{audit}\n")
    terminal.print_table("Going live", report.HEADER, report.rows(result))
    terminal.tell(f"{report.headline(result)}\n\n{report.provenance(result)}\n\n{written}")
