"""`sparing serve`, `keys`, `backup`, `verify`, `mcp` and `warm-up`: commands around a service and its store."""

import contextlib
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import options, terminal

if TYPE_CHECKING:
    from sparing.service.maintenance import VerificationResult
    from sparing.service.server import ServerSettings
    from sparing.service.store import Store

StoreFolder = Annotated[Path, typer.Argument(help="The folder of the store; created if it does not exist.")]
MadeStore = Annotated[Path, typer.Argument(help="The store's folder, as `sparing serve` made it.")]
ADDRESS: options.Setting = (
    "",
    "postgresql://… instead of SQLite in the folder; set it as a variable if it contains a password.",
    {"flag": "--store", "envvar": "SPARING_STORE"},
)

MAX_PROCESSES = 8  # of a verification, unless another number is given

keys = typer.Typer(
    name="keys",
    help="Create, list and revoke the keys of a service.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
KeyName = Annotated[str, typer.Argument(help="The key's name.")]


@options.reads_log(
    name=("", "Name of the experiment; with --log it is created."),
    log=(Path, options.LOG),
    learner=("economical", "Name of a learner of the library."),
    call_cost=(float, "Cost of a reward call, in units of the reward (economical)."),
    horizon=(int, "Expected number of decisions (economical)."),
    shift=options.SHIFT,
    half_life=(
        "",
        "Decisions, or a time such as 7d, in which rows lose half of their weight; default: never.",
    ),
    answers=options.ANSWERS,
    option=(list[str], "A setting of the learner, as NAME=VALUE; may be repeated."),
    rule=(
        list[str],
        "How the experiment serves, as NAME=VALUE: holdout, check, reward_window, budget_calls, …; may be repeated.",
    ),
    address=ADDRESS,
    host=("127.0.0.1", "Address to bind; a key is needed beyond loopback."),
    port=(8321, "Port; 0 for a free one.", {"min": 0, "max": 65535}),
    workers=(1, "Number of processes; more than one needs --store postgresql://….", {"min": 1}),
    key_file=(Path, "File that contains an admin key."),
    allow_host=(list[str], "Further host name to answer to; may be repeated."),
    durability=("power", "A committed answer survives: power (loss of power) or process (kill -9)."),
)
def serve(
    store: StoreFolder,
    *,
    name: str,
    log: options.GivenLog | None,
    learner: str,
    call_cost: float | None,
    horizon: int | None,
    shift: str,
    half_life: str,
    answers: list[str] | None,
    option: list[str] | None,
    rule: list[str] | None,
    address: str,
    port: int,
    allow_host: list[str] | None,
    **serving: Any,
) -> None:
    """Serve decisions over HTTP, and learn from delayed rewards.

    With --log an experiment is created first; without it, the experiments of the store continue. The printed
    address shows a dashboard; /openapi.json describes the API.

    Example: sparing serve shop --name banners --log clicks.csv --action banner --reward clicked --call-cost 0.05
    """
    from sparing.errors import SettingError, require

    for module in ("starlette", "uvicorn", "apsw", "msgspec"):
        require(module, extra="service", purpose="serving")
    from sparing.service import server

    if (log is None) != (name == ""):
        raise SettingError(
            "--name and --log go together: they create an experiment; omit both to serve the existing ones"
        )
    settings = server.server_settings(
        store, address=address or None, names=tuple(allow_host or ()), **serving
    )
    given = (("call_cost", call_cost), ("horizon", horizon), ("shift", options.shift_of(shift)))
    said = options.settings(option) | {key: value for key, value in given if value is not None}
    with server.bound_to(serving["host"], port) as bound:
        rules = options.settings(rule, "holdout=0.05", "rule")
        if half_life:
            rules["half_life"] = int(half_life) if half_life.isdecimal() else half_life
        locked = _make_experiment(settings, name, log, answers, learner, said, rules)
        server.run(settings, bound, serving["workers"], locked=locked, say=terminal.print_status)


def _make_experiment(
    settings: "ServerSettings",
    name: str,
    log: options.GivenLog | None,
    answers: list[str] | None,
    learner: str,
    said: dict[str, Any],
    rules: dict[str, Any],
) -> bool:
    """Create the experiment unless it exists; refuse settings that cannot be served. Return whether a key is needed."""
    from sparing.log.rows import as_rows
    from sparing.service import server

    new = log is not None and settings.address is None and not settings.folder.exists()
    known = server.StoreSummary([], [], False) if new else server.list_experiments(settings)
    for endless in known.without_window:
        terminal.print_status(
            f"sparing: experiment {endless} has no reward_window: calls whose rewards never come stay pending for ever. To set one: "
            f'PATCH /v1/{endless} {{"reward_window": SECONDS}}'
        )
    if log is None:
        if not known.names:
            terminal.print_status(
                "sparing: the store has no experiment yet; create one with --name and --log, or over HTTP"
            )
    elif name in known.names:
        terminal.print_status(f"sparing: experiment {name} exists and continues; --log is not read again")
    else:
        table = as_rows(log.open()).read()
        judged = log.judged(table, answers)
        word = next((each for each in table.encoder.names if "=" in each), None)
        if table.encoder.is_raw and word is not None:
            terminal.print_status(
                f"sparing: text columns became one feature per value ({word}); use --features auto to accept them in requests"
            )
        made = server.make_experiment(settings, name, table, learner, said, rules, log.options, judged)
        terminal.print_status(f"sparing: experiment {name}: {made}")
        window = server.parse_rules(rules).reward_window
        if "reward_window" not in rules and window is not None:
            terminal.print_status(
                f"sparing: rewards are accepted for {window / 86400:g} days after a decision; then its call expires. Another reward_window: --rule "
                f"reward_window=SECONDS, or null for no limit (later: PATCH /v1/{name})"
            )
        if not {"holdout", "check"} <= rules.keys():
            terminal.print_status(_offer_measuring(name, said.get("call_cost")))
    return server.list_experiments(settings).locked if new else known.locked


def _offer_measuring(name: str, call_cost: float | None) -> str:
    """How to measure what the policy gains, and what that costs."""
    share = 0.05
    paid = 1000 * (share + (1 - share) * share)  # all of the holdout, and checks if all others are skipped
    price = "" if call_cost is None else f" ({paid * call_cost:.3g} at {call_cost:g} each)"
    return (
        f"sparing: what the policy gains is not measured. --rule holdout={share} --rule check={share} (later: PATCH /v1/{name}) measures it: "
        f"{share:.0%} of the decisions are served as in the log, and the reward of {share:.0%} of the skipped ones is requested. "
        f"That costs at most {paid:.0f} paid rewards per 1,000 decisions{price}"
    )


def _with_store(
    folder: Path,
    address: str,
    work: "Callable[[Store], Awaitable[Any]]",
    *,
    create: bool = False,
    write: bool = True,
) -> Any:
    """Open a store and work on it; without `write`, also one that cannot be written."""
    import asyncio

    from sparing.errors import require

    require("apsw", extra="service", purpose="reading a store")
    from sparing.service.store import open_store
    from sparing.service.store.driver import explained

    async def opened() -> Any:
        store = open_store(folder, address or None)
        if not write:
            async with store.reading(migrating=True):
                return await work(store)
        await store.open(create=create)
        try:
            return await work(store)
        finally:
            await store.close()

    with explained():
        return asyncio.run(opened())


@keys.command("add")
@options.takes(
    role=(
        "decide",
        "decide (decisions and rewards only), read (dashboard, exports), write (both) or admin (everything).",
    ),
    experiment=("", "Restrict it to one experiment; default: all."),
    days=(0, "Days until it expires; 0: never."),
    address=ADDRESS,
)
def add_key(
    store: StoreFolder, name: KeyName, *, role: str, experiment: str, days: int, address: str
) -> None:
    """Create a key, and print it once.

    The store has only its hash. A running service accepts it within seconds.

    Example: sparing keys add shop web-shop --role decide --experiment banners
    """
    from sparing.errors import SettingError
    from sparing.service import events
    from sparing.service.http.auth import ROLES, new_key
    from sparing.validation import one_of

    one_of("role", role, ROLES)
    key, digest = new_key()

    async def write(opened: "Store") -> None:
        if any(known.name == name for known in await opened.keys()):
            raise SettingError(f"there is, or was, a key {name!r}; choose another name")
        now = events.now()
        expires = now + days * 86400 * events.SECOND if days else None
        row = (digest, name, role, experiment or None, now, expires, None)
        await opened.exclusive(("insert into api_keys values ($1, $2, $3, $4, $5, $6, $7)", [row]))

    new = not address and not store.exists()
    _with_store(store, address, write, create=True)
    if new:
        terminal.print_status(f"sparing: {store} is a new store; `sparing serve {store}` serves it")
    terminal.print_status(f"sparing: key {name} ({role}); it is not shown again:")
    terminal.print_text(key)


@keys.command("list")
@options.takes(address=ADDRESS, as_json=options.JSON)
def list_keys(store: MadeStore, *, address: str, as_json: bool) -> None:
    """List the names of all keys, without the keys.

    Example: sparing keys list shop
    """
    from sparing.service import events

    header, rows = ("name", "role", "experiment", "created", "expires", "revoked"), []
    for key in _with_store(store, address, lambda opened: opened.keys(), write=False):
        times = [
            None if ts is None else events.time_text(ts) for ts in (key.created, key.expires, key.revoked)
        ]
        rows.append([key.name, key.role, key.experiment, *times])
    if as_json:
        terminal.print_json([dict(zip(header, row, strict=True)) for row in rows])
        return
    shown = [[*row[:3], *(time and time[:16].replace("T", " ") for time in row[3:])] for row in rows]
    terminal.print_table("Keys", header, [[cell or "–" for cell in row] for row in shown], words=True)


@keys.command("revoke")
@options.takes(address=ADDRESS)
def revoke_key(store: MadeStore, name: KeyName, *, address: str) -> None:
    """Revoke a key.

    A running service refuses it within seconds.

    Example: sparing keys revoke shop web-shop
    """
    from sparing.errors import SettingError
    from sparing.service import events

    async def write(opened: "Store") -> None:
        if not any(known.name == name and known.revoked is None for known in await opened.keys()):
            raise SettingError(f"there is no key {name!r} to revoke; see `sparing keys list`")
        await opened.exclusive(("update api_keys set revoked = $1 where name = $2", [(events.now(), name)]))

    _with_store(store, address, write)
    terminal.print_text(f"Key {name} is revoked.")


@options.takes(address=ADDRESS, as_json=(False, "Print JSON instead of sentences.", {"flag": "--json"}))
def backup(
    store: MadeStore,
    destination: Annotated[Path, typer.Argument(help="Folder of the copy; it must not exist yet.")],
    *,
    address: str,
    as_json: bool,
) -> None:
    """Copy a store, also while it is served.

    The copy has the database and the state files it needs, is checked, and can be served by `sparing serve`. A
    database in PostgreSQL is copied by its pg_dump, as of the same moment, into database.dump: run pg_restore first.

    Example: sparing backup shop shop-2026-11-17
    """
    import asyncio

    from sparing.errors import require

    require("apsw", extra="service", purpose="reading a store")
    from sparing.service import maintenance
    from sparing.service.store.driver import explained

    with explained():
        done = asyncio.run(maintenance.backup(store, destination, address=address or None))
    if as_json:
        terminal.print_json({**done._asdict(), "path": str(done.path)})
        return
    terminal.print_text(
        f"Backup: {done.path} ({done.size:,} bytes, {done.files} states, up to event {done.last_seq:,})",
        whole=True,
    )
    terminal.print_text(*(f"note: {note}" for note in done.notes))


@options.takes(
    address=ADDRESS,
    processes=(0, "Processes that replay at the same time; default: one per core, at most 8.", {"min": 0}),
    resume=(
        Path,
        "File in which finished ranges are noted; ranges noted there are not replayed again.",
    ),
    as_json=options.JSON,
)
def verify(store: MadeStore, *, address: str, processes: int, resume: Path | None, as_json: bool) -> None:
    """Replay a store, and recompute every decision in it.

    It also adds up every total again, and changes nothing. It may run while the store is served. Events are replayed in ranges between
    state files, several at a time. The exit code is 3 if anything differs.

    Example: sparing verify shop
    """
    from sparing.errors import require

    require("apsw", extra="service", purpose="reading a store")
    from sparing.service import maintenance

    async def replay(opened: "Store") -> "list[VerificationResult]":
        many = processes or min(os.cpu_count() or 1, MAX_PROCESSES)
        with terminal.progress_bar("replaying") as progress:
            return await maintenance.verify(opened, progress, processes=many, resume=resume)

    verdicts = _with_store(store, address, replay, write=False)
    if as_json:
        terminal.print_json([asdict(verdict) for verdict in verdicts])
    else:
        lines = [line for one in verdicts for line in _verification_lines(one)]
        terminal.print_text(*(lines or ["The store has no experiments."]))
    if any(verdict.faults for verdict in verdicts):
        raise typer.Exit(terminal.EXIT_GATE_FAILED)


def _verification_lines(one: "VerificationResult") -> list[str]:
    from sparing.report.text import counted

    apart = [
        f"{count:,} {what}"
        for count, what in (
            (one.by_another_engine, "made by another version of the engine"),
            (one.below_floor, "because contexts were erased"),
        )
        if count
    ]
    left = f" ({one.share:.1%}; not recomputed: {'; '.join(apart)})" if apart else ""
    again = f" ({one.resumed:,} of {counted(one.ranges, 'range')} verified before)" if one.resumed else ""
    first = (
        f"{one.experiment}: {one.events:,} events replayed, {one.recomputed:,} of {one.decisions:,} decisions recomputed{left}, "
        f"{one.snapshots} snapshots compared{again}; state {one.seq} {one.digest}"
    )
    return [first, *([f"  FAULT: {fault}" for fault in one.faults] or ["  all as stored"])]


@options.reads_log(
    write=(False, "Add tools that decide and send rewards; needs the address of a service."),
    log=(Path, f"{options.LOG} What audit, plan and ask are about; default: live decisions with a reward."),
    key=("", "API key of the service; set it as a variable.", {"envvar": "SPARING_KEY"}),
)
def mcp(
    store: Annotated[
        str, typer.Argument(help="The folder of a store, which is only read, or the address of its service.")
    ],
    *,
    write: bool,
    log: options.GivenLog | None,
    key: str,
) -> None:
    """Offer a store to language models, as tools over MCP.

    It speaks the Model Context Protocol on standard input and output; a client starts it. Tools only read, unless --write is given.

    Example: sparing mcp shop
    """
    from sparing.plugins import mcp as plugin

    source = plugin.open_source(store, key=key or None, write=write)
    about: dict[str, Any] = {}
    if log is not None:
        with contextlib.redirect_stdout(sys.stderr):  # standard output belongs to the protocol
            about["log"] = log.open()
        if not log.options.get("sample"):  # the rows of a sample are others than the table's
            about |= {"table": log.table(), "columns": log.roles}
    plugin.make_server(source, write=write, **about).run()


@options.takes(as_json=(False, "Print JSON instead of a sentence.", {"flag": "--json"}))
def warm_up(*, as_json: bool) -> None:
    """Compile everything now, so that the first decision is fast.

    Machine code is cached next to the package, or in your own cache if that is read-only; a second run has nothing to
    do. Use it in image builds, and before a service takes traffic.

    Example: sparing warm-up
    """
    from sparing.native import compile
    from sparing.online.warm_up import LEARNERS, SIZES, warm_up_all

    compile.PATIENCE = math.inf  # the progress bar below replaces its line
    began, cpu = time.monotonic(), time.process_time()
    with terminal.progress_bar("compiling") as progress:
        kernels = warm_up_all(progress)
    took = {
        "learners": len(LEARNERS),
        "sizes": len(SIZES),
        "compiled": kernels,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }
    if as_json:
        terminal.print_json(took)
        return
    what = f"{kernels} kernels compiled" if kernels else "nothing left to compile"
    terminal.print_text(f"Ready: {what} in {took['seconds']:g} s, for {took['learners']} learners.")
