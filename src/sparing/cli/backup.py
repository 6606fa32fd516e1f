"""`sparing backup`: a copy of a store that can be served, taken while it is served."""

from pathlib import Path
from typing import Annotated

import typer

from sparing.cli import terminal
from sparing.cli.serve import MadeStore, StoreAddress


def backup(
    store: MadeStore,
    destination: Annotated[
        Path, typer.Argument(help="Where to put the copy: a folder that is not there yet.")
    ],
    address: StoreAddress = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")] = False,
) -> None:
    """Copy a store, also while it is served.

    The copy is the database and the states that it starts from. It is checked, and there as a whole or not at all. `sparing serve` starts from it. Of PostgreSQL only the
    states are copied: run pg_dump for the rest.

    Example: sparing backup shop shop-2026-11-17
    """
    from sparing.errors import require

    for module in ("apsw", "msgspec"):
        require(module, extra="service", purpose="A store")

    import asyncio

    from sparing.service import maintenance

    done = asyncio.run(maintenance.backup(store, destination, address=address or None))
    if as_json:
        terminal.print_json({**done._asdict(), "path": str(done.path)})
        return
    terminal.tell(
        f"Backup: {done.path} ({done.size:,} bytes, {done.files} states, up to event {done.last_seq:,})",
        whole=True,
    )
    for note in done.notes:
        terminal.tell(f"note: {note}")
