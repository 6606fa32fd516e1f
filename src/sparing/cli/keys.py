"""`sparing keys`: who may use a service."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.cli import reading, terminal
from sparing.cli.serve import MadeStore, StoreAddress, StoreFolder

if TYPE_CHECKING:
    from sparing.service.store import Store

app = typer.Typer(
    name="keys",
    help="Make, list and revoke the keys of a service.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
KeyName = Annotated[str, typer.Argument(help="The key's name.")]


def _with(
    folder: Path, address: str, work: "Callable[[Store], Awaitable[Any]]", *, create: bool = False
) -> Any:
    from sparing.errors import require

    require("apsw", extra="service", purpose="reading a store")
    from sparing.service.store import at

    async def opened() -> Any:
        store = at(folder, address or None)
        await store.open(create=create)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(opened())


@app.command("add")
def add(
    store: StoreFolder,
    name: KeyName,
    role: Annotated[
        str, typer.Option(help="read (the page), write (decide and reward) or admin (everything).")
    ] = "write",
    experiment: Annotated[str, typer.Option(help="The one experiment it is for; default: all.")] = "",
    days: Annotated[int, typer.Option(min=0, help="Days until it expires; 0: never.")] = 0,
    address: StoreAddress = "",
) -> None:
    """Make a key, and print it once.

    The store keeps only its hash. A running service knows it within seconds.

    Example: sparing keys add shop web-shop --role write --experiment banners
    """
    from sparing.errors import SettingError
    from sparing.service import events
    from sparing.service.http.auth import ROLES, new_key
    from sparing.settings import among

    among("role", role, ROLES)
    key, digest = new_key()

    async def write(opened: "Store") -> None:
        if any(known.name == name for known in await opened.keys()):
            raise SettingError(f"there is, or was, a key {name!r}; choose another name")
        now = events.now()
        expires = now + days * 86400 * events.SECOND if days else None
        row = (digest, name, role, experiment or None, now, expires, None)
        await opened.alone(("insert into api_keys values ($1, $2, $3, $4, $5, $6, $7)", [row]))

    new = not address and not store.exists()
    _with(store, address, write, create=True)
    if new:
        terminal.say(f"sparing: {store} is a new store; `sparing serve {store}` serves it")
    terminal.say(f"sparing: key {name} ({role}); it is not shown again:")
    terminal.tell(key)


@app.command("list")
def list_keys(store: MadeStore, address: StoreAddress = "", as_json: reading.AsJson = False) -> None:
    """List the names of the keys, never the keys themselves.

    Example: sparing keys list shop
    """
    from sparing.service import events

    found = _with(store, address, lambda opened: opened.keys())
    rows = [
        {
            "name": key.name,
            "role": key.role,
            "experiment": key.experiment,
            "created": events.time_text(key.created),
            "expires": None if key.expires is None else events.time_text(key.expires),
            "revoked": None if key.revoked is None else events.time_text(key.revoked),
        }
        for key in found
    ]
    if as_json:
        terminal.print_json(rows)
        return
    header = ["name", "role", "experiment", "created", "expires", "revoked"]
    shown = [[_cell(name, row[name]) for name in header] for row in rows]
    terminal.print_table("Keys", header, shown, words=True)


def _cell(name: str, value: str | None) -> str:
    """A moment to the minute, which a narrow table breaks behind the day; else the value itself."""
    if value is None:
        return "–"
    return value if name in ("name", "role", "experiment") else value[:16].replace("T", " ")


@app.command("revoke")
def revoke(store: MadeStore, name: KeyName, address: StoreAddress = "") -> None:
    """Let a key in no more.

    A running service knows it within seconds.

    Example: sparing keys revoke shop web-shop
    """
    from sparing.errors import SettingError
    from sparing.service import events

    async def write(opened: "Store") -> None:
        if not any(known.name == name and known.revoked is None for known in await opened.keys()):
            raise SettingError(f"there is no key {name!r} to revoke; see `sparing keys list`")
        await opened.alone(("update api_keys set revoked = $1 where name = $2", [(events.now(), name)]))

    _with(store, address, write)
    terminal.tell(f"Key {name} is revoked.")
