"""`sparing verify`: replay a store, and recompute every decision in it."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from sparing.cli import reading, terminal
from sparing.cli.serve import MadeStore, StoreAddress

if TYPE_CHECKING:
    from sparing.service.maintenance import Verdict


def verify(store: MadeStore, address: StoreAddress = "", as_json: reading.AsJson = False) -> None:
    """Replay a store, and recompute every decision in it.

    From its base on, every total added up again; nothing is changed. May run beside a service. Ends with code 3 if anything is not as it should be.

    Example: sparing verify shop
    """
    import asyncio

    from sparing.errors import require

    require("apsw", extra="service", purpose="reading a store")
    from sparing.service import maintenance
    from sparing.service.store import at

    async def replay() -> list[maintenance.Verdict]:
        opened = at(store, address or None)
        await opened.open()
        try:
            with terminal.progress_bar("replaying") as progress:
                return await maintenance.verify(opened, progress)
        finally:
            await opened.close()

    verdicts = asyncio.run(replay())
    if as_json:
        terminal.print_json([asdict(verdict) for verdict in verdicts])
    else:
        for one in verdicts:
            _tell(one)
        if not verdicts:
            terminal.tell("The store has no experiments.")
    if any(verdict.faults for verdict in verdicts):
        raise typer.Exit(terminal.GATE_SHUT)


def _tell(one: "Verdict") -> None:
    apart = [
        f"{count:,} {what}"
        for count, what in (
            (one.by_another_engine, "made by another version of the engine"),
            (one.below_floor, "below the replay's floor, because contexts were erased"),
        )
        if count
    ]
    left = f" (not recomputed: {'; '.join(apart)})" if apart else ""
    terminal.tell(
        f"{one.experiment}: {one.events:,} events replayed, {one.recomputed:,} of {one.decisions:,} decisions recomputed{left}, "
        f"{one.snapshots} snapshots compared; state {one.seq} {one.digest}"
    )
    for fault in one.faults:
        terminal.tell(f"  FAULT: {fault}")
    if not one.faults:
        terminal.tell("  all as stored")
