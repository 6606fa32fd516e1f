"""`python -m research bench`: side by side with the peers, with NumPy and with the machine's limit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparing.cli import options

if TYPE_CHECKING:
    from research.bench.measuring import BenchmarkResult


def bench(
    only: Annotated[
        str,
        typer.Option(
            help="Parts, with commas: step, simulation, statistics, intervals, pi-plus, startup, encoding, service, growth-of-service, scale, growth; "
            "default: all."
        ),
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny sizes, no peers: proves that it runs, in seconds.")
    ] = False,
    no_peers: Annotated[
        bool, typer.Option("--no-peers", help="Only NumPy, Numba and the limit; installs nothing.")
    ] = False,
    reinstall: Annotated[
        bool, typer.Option("--reinstall", help="Make the peers' environments anew.")
    ] = False,
    beside: Annotated[
        str,
        typer.Option(
            metavar="REVISION",
            help="An older revision of this repository, or a folder with its checkout: it runs beside ours in every round. "
            "--page then renews the page's comparison with it alone.",
        ),
    ] = "",
    rows: Annotated[
        int | None, typer.Option(min=1000, help="Rows of the Parquet file that is summed; default 5 million.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the JSON, the table and the figure.")] = Path(
        "sparing-bench"
    ),
    page: Annotated[
        Path | None, typer.Option(help="Markdown page whose table, between markers, is replaced too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure our CPU time beside other libraries', in one run, with the spread of every ratio.

    Peers of these parts are installed from PyPI, each in an environment of its own in the user's cache, and kept there.

    Example: python -m research bench --only step,statistics --no-peers

    Example: python -m research bench --beside 9b96982 --no-peers
    """
    from dataclasses import replace

    from research.bench import older, report
    from research.bench.running import bench as measure
    from research.bench.running import rivals
    from research.bench.setting import PARTS, BenchmarkSetting, check_parts
    from research.environments import install
    from sparing.archive import check_folder
    from sparing.cli import terminal
    from sparing.errors import FileError, MissingExtraError

    chosen = tuple(options.words(only)) or PARTS
    check_parts(chosen)  # before minutes of installing
    check_folder(out)
    if page is not None and not page.is_file():
        raise FileError(f"{page} does not exist; name a page to update, or leave --page out")
    setting = BenchmarkSetting.quick() if quick else BenchmarkSetting()
    if rows is not None:
        setting = replace(setting, statistics_rows=rows)
    peers = (
        [] if quick or no_peers else install(rivals(chosen), reinstall=reinstall, say=terminal.print_status)
    )
    other = older.install(beside, reinstall=reinstall, say=terminal.print_status) if beside else None
    with terminal.progress_bar("measuring") as progress:
        result = measure(
            setting, parts=chosen, peers=peers, older=other, progress=progress, say=terminal.print_status
        )
    try:
        written = "\n".join(str(path) for path in report.write(result, out))
    except MissingExtraError as error:
        written = f"No figure: {error}"
    if page is not None:
        report.update_page(page, result)
        written += f"\n{page}"
    if as_json:
        terminal.print_json(result.to_dict())
        terminal.print_status(written)
        return
    _print(result, written)


def _print(result: "BenchmarkResult", written: str) -> None:
    from research.bench import report
    from sparing.cli import terminal

    if rows := report.beside_older(result):
        terminal.print_table(report.older_caption(result), report.OLDER_HEADER, rows)
    if rows := report.with_targets(result):
        terminal.print_table("Against the targets", report.HEADER, rows)
    header, rows = report.steps(result)
    if rows:
        terminal.print_table("The online step: least (quartiles)", header, rows)
    header, rows = report.step_ratios(result)
    if rows:
        terminal.print_table("The online step: the others' time over ours (range)", header, rows)
    if rows := report.served(result):
        terminal.print_table("The live service: least (quartiles)", report.SERVED, rows)
    for title, header, rows in report.grown(result):
        terminal.print_table(title, header, rows)
    if rows := report.restarted(result):
        terminal.print_table(
            "The live service, a start after kill -9: least (quartiles)", report.SERVED, rows
        )
    if rows := report.others(result):
        terminal.print_table("Compared", report.HEADER[:-1], rows)
    for failure in result.outcome.failures:
        terminal.print_text(f"not measured: {failure.contender} ({failure.part}): {failure.reason}")
    terminal.print_text(f"{report.OUTLOOK} {report.provenance(result)}\n\n{written}")
