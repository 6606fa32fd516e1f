"""The command line: one command, one file, one library call."""

from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

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


class _InOrder(TyperGroup):
    """Lists the commands in the order in which a newcomer needs them; groups such as `keys` would come last."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: name == "warm-up")

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an option that does not fit is refused with what it was."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = terminal.of_value(error)
            raise


app = typer.Typer(
    name="sparing",
    cls=_InOrder,
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
