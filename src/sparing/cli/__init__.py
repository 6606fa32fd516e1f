"""The command line: one function per command, one library call each."""

from functools import partial

import typer

from sparing.cli import demo, export, offline, service, terminal

app = typer.Typer(
    name="sparing",
    cls=terminal.InOrder,
    help="Learn the best action for each context from a log, and pay for a live reward only where the log has "
    "no data.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.callback(invoke_without_command=True)(terminal.version)
app.command("demo", short_help="Compare learners on a simulated support desk.")(demo.demo)
app.command("audit")(offline.audit)
app.command("learn")(offline.learn)
app.command("evaluate")(offline.evaluate)
app.command("ask")(offline.ask)
app.command("plan")(offline.plan)
app.command("serve")(service.serve)
app.command("convert")(offline.convert)
app.command("export")(export.export)
app.command("verify")(service.verify)
app.command("backup")(service.backup)
app.add_typer(service.keys)
app.command("mcp")(service.mcp)
app.command("warm-up")(service.warm_up)

main = partial(terminal.run, app)  # run the command line
