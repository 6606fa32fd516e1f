"""`sparing serve`: decide over HTTP, from a log to a running service in one command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import reading, terminal

if TYPE_CHECKING:
    from sparing.service.serving import Settings

StoreFolder = Annotated[Path, typer.Argument(help="The folder of the store; made if it is not there.")]
MadeStore = Annotated[Path, typer.Argument(help="The store's folder, as `sparing serve` made it.")]
StoreAddress = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="SPARING_STORE",
        help="postgresql://… in the place of SQLite in the folder; better in the variable, as it may hold a password.",
    ),
]


@reading.reads_log(optional=True)
def serve(
    store: StoreFolder,
    name: Annotated[str, typer.Option(help="The experiment's name; with --log it is made.")] = "",
    log: reading.GivenLog | None = None,
    learner: Annotated[str, typer.Option(help="A learner of the library, by its name.")] = "economical",
    call_cost: Annotated[
        float | None, typer.Option(help="What a reward costs, in the reward's units (economical).")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="How many decisions there will be (economical).")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="A setting of the learner, as NAME=VALUE; may be repeated.")
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="How the experiment serves, as NAME=VALUE: holdout, check, reward_window, budget_calls, …; may be repeated."
        ),
    ] = None,
    address: StoreAddress = "",
    host: Annotated[
        str, typer.Option(help="The address to bind; beyond loopback a key is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8321,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes; more than one needs --store postgresql://….")
    ] = 1,
    key_file: Annotated[Path | None, typer.Option(help="A file that holds an admin key.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A host name to answer to, besides loopback's; may be repeated.")
    ] = None,
    durability: Annotated[
        str, typer.Option(help="What an answer survives: power (the loss of power), process (kill -9).")
    ] = "power",
) -> None:
    """Serve decisions over HTTP, and learn from late rewards.

    With --log an experiment is made first; without, those of the store go on where they were. The page at the
    address that is printed shows what was saved; the API is described at
    /openapi.json.

    Example: sparing serve shop --name banners --log clicks.csv --action banner --reward clicked --call-cost 0.05
    """
    from sparing.errors import SettingError, require

    for module in ("starlette", "uvicorn", "apsw", "msgspec"):
        require(module, extra="service", purpose="serving")
    from sparing.service import launching

    if (log is None) != (name == ""):
        raise SettingError(
            "--name and --log go together: they make an experiment; leave out both to go on with those there are"
        )
    settings = launching.settings(
        store,
        address=address or None,
        host=host,
        key_file=key_file,
        names=tuple(allow_host or ()),
        durability=durability,
        workers=workers,
    )
    said = reading.settings(option) | {
        key: value for key, value in (("call_cost", call_cost), ("horizon", horizon)) if value is not None
    }
    with launching.bound_to(host, port) as bound:
        rules = reading.settings(rule, "holdout=0.05", "rule")
        locked = _make(settings, name, log, learner, said, rules)
        launching.run(settings, bound, workers, locked=locked, say=terminal.say)


def _make(
    settings: "Settings",
    name: str,
    log: reading.GivenLog | None,
    learner: str,
    said: dict[str, Any],
    rules: dict[str, Any],
) -> bool:
    """Make the experiment that is asked for, unless it is there; refuse what could not be served. Whether a key is needed."""
    from sparing.log.rows import rows_of
    from sparing.service import launching

    new = log is not None and settings.address is None and not settings.folder.exists()
    known, locked = ([], False) if new else launching.experiments(settings)
    if log is None:
        if not known:
            terminal.say(
                "sparing: the store has no experiment yet; make one with --name and --log, or over HTTP"
            )
    elif name in known:
        terminal.say(f"sparing: experiment {name} is there already and goes on; --log is not read again")
    else:
        table = rows_of(log.open()).read()
        word = next((each for each in table.encoder.names if "=" in each), None)
        if table.encoder.is_raw and word is not None:
            terminal.say(
                f"sparing: a word is a feature a value here ({word}); --features auto takes them as the columns that requests send"
            )
        made = launching.make(settings, name, table, learner, said, rules, log.options)
        terminal.say(f"sparing: experiment {name}: {made}")
    return launching.experiments(settings)[1] if new else locked
