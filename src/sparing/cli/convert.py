"""`sparing convert`: a log from one format to another."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from sparing.cli import reading, terminal


def convert(
    source: Annotated[str, typer.Argument(help="The log to read; its format is told by its content.")],
    target: Annotated[Path, typer.Argument(help="Where to write it; the ending says the format.")],
    source_format: Annotated[
        str,
        typer.Option(
            "--from", help="Read as: table, obp, open-bandit, vw, vw-adf, vw-json, dsjson, coba, river."
        ),
    ] = "",
    target_format: Annotated[
        str, typer.Option("--to", help="Write as: table, obp, vw, vw-adf, dsjson.")
    ] = "",
    option: Annotated[
        list[str] | None,
        typer.Option(help="How to read, as NAME=VALUE: actions, context_id, position, … (docs/formats.md)."),
    ] = None,
    as_json: reading.AsJson = False,
) -> None:
    """Convert a log from one format to another.

    It says what was assumed, and what the target cannot carry.

    Example: sparing convert decisions.dsjson log.parquet
    """
    from sparing.log.formats import convert as convert_log
    from sparing.log.rows import rows_of
    from sparing.log.text_files import is_table

    with reading.utf8_name(Path(source), target), terminal.progress_bar("converting") as progress:
        log, assumed, lost = convert_log(
            source,
            target,
            source_format or None,
            target_format or None,
            progress=progress,
            **reading.settings(option, "action=banner"),
        )
    if as_json:
        terminal.print_json(
            {
                "rows": log.n_rows,
                "actions": log.n_actions,
                "features": log.n_features,
                "support": rows_of(log).header.support.kind,
                "target": str(target),
                "assumed": assumed,
                "lost": lost,
            }
        )
        return
    terminal.print_text(f"Log({repr(log).partition('(')[2]}")
    for sentence in assumed:
        terminal.print_text(f"assumed: {sentence}")
    for sentence in lost:
        terminal.print_text(f"not carried: {sentence}")
    terminal.print_text(f"Written: {target}", whole=True)
    if is_table(target) and target_format in ("", "table"):
        terminal.print_next_step("what it tried, and what it could not", ["audit", shlex.quote(str(target))])
