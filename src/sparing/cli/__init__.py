"""The command line: one command, one file, one library call."""

import os
import sys

import typer

from sparing.cli import audit, bench, convert, demo, evaluate, learn, plan, reproduce, terminal, warm_up
from sparing.errors import SparingError, StoppedError

INTERRUPTED = 130
"""The exit code of a command that was interrupted."""

app = typer.Typer(
    name="sparing",
    help="Learn the best action for each context from a log that never tried everything, and ask for a live "
    "reward only where the log is blind.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("audit")(audit.audit)
app.command("bench")(bench.bench)
app.command("convert")(convert.convert)
app.command("demo")(demo.demo)
app.command("evaluate")(evaluate.evaluate)
app.command("learn")(learn.learn)
app.command("plan")(plan.plan)
app.command("reproduce")(reproduce.reproduce)
app.command("warm-up")(warm_up.warm_up)


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    """Show the version, or go on to a command."""
    if version:
        from sparing import __version__

        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; our errors become one line and exit code 2."""
    terminal.prepare()
    os.environ.setdefault("SPARING_ANNOUNCE", "1")
    try:
        app()
    except StoppedError as error:
        terminal.say(f"sparing: {error}")
        sys.exit(INTERRUPTED)
    except SparingError as error:
        terminal.say(f"sparing: {error}")
        sys.exit(2)
    except OSError as error:
        terminal.say(
            f"sparing: {error}" if error.filename is None else f"sparing: {error.filename}: {error.strerror}"
        )
        sys.exit(2)
    except SystemExit as left:
        if left.code == INTERRUPTED:
            terminal.say("sparing: interrupted; nothing half-written is left behind")
        raise
