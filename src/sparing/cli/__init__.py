"""The command line: one command, one file, one library call."""

from functools import partial

import typer

from sparing.cli import (
    audit,
    backup,
    convert,
    demo,
    evaluate,
    keys,
    learn,
    plan,
    serve,
    terminal,
    verify,
    warm_up,
)

app = typer.Typer(
    name="sparing",
    cls=terminal.InOrder,
    help="Learn the best action for each context from a log that never tried everything, and ask for a live "
    "reward only where the log is blind.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.callback(invoke_without_command=True)(terminal.version)
app.command("demo", short_help="See what each reward buys, in money, on a made-up desk.")(demo.demo)
app.command("audit")(audit.audit)
app.command("learn")(learn.learn)
app.command("evaluate")(evaluate.evaluate)
app.command("plan")(plan.plan)
app.command("serve")(serve.serve)
app.command("convert")(convert.convert)
app.command("verify")(verify.verify)
app.command("backup")(backup.backup)
app.add_typer(keys.app)
app.command("warm-up")(warm_up.warm_up)

main = partial(terminal.run, app)
"""Run the command line."""
