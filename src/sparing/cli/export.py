"""`sparing export`: a policy for use without sparing."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sparing.cli import options, terminal
from sparing.errors import SettingError


@options.takes(
    format=("json", "json (for JavaScript and sparing.load_scorer), sql or onnx."),
    dialect=("", "Database of the SELECT: duckdb, postgres or sqlite."),
    table=("contexts", "Table of the SELECT, with its schema before a point."),
    out=(Path, "The file to write; default: standard output."),
)
def export(
    policy: Annotated[str, typer.Argument(help="A file from `sparing learn` or Learner.save.")],
    *,
    format: str,
    dialect: str,
    table: str,
    out: Path | None,
) -> None:
    """Write a policy as JSON, SQL or ONNX.

    The policy needs linear scores. JSON is scored by the JavaScript client and by sparing.load_scorer. The SELECT adds a column policy_action to a table. Of a
    learner, the greedy policy of its present estimates is written.

    Example: sparing export policy.sparing --format sql --dialect duckdb --table visits --out policy.sql
    """
    found: Any = options.read_policy(policy)
    if format == "onnx" and out is None:
        raise SettingError("format='onnx' is binary and needs out=policy.onnx")
    content = found.export(format, out, dialect=dialect or None, table=table)
    if out is not None:
        terminal.print_text(f"Written: {out}", whole=True)
    elif sys.stdout.isatty():
        terminal.print_text(str(content), whole=True)
    else:  # a pipe gets every character as it is
        sys.stdout.buffer.write(str(content).encode())
