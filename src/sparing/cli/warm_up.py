"""`sparing warm-up`: compile everything once, ahead of the first decision."""

import os
import time
from typing import Annotated

import typer

from sparing.cli import terminal


def warm_up(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
) -> None:
    """Compile everything now, so that no first decision waits.

    Machine code is kept beside the package, or in your own cache where that cannot be written; a second run has
    nothing to do. For image builds, and before a service takes traffic.

    Example: sparing warm-up
    """
    from sparing.online.warm_up import LEARNERS, SIZES, warm_up_all

    os.environ.pop("SPARING_ANNOUNCE", None)  # the bar below says it
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
    terminal.tell(f"Ready: {what} in {took['seconds']:g} s, for {took['learners']} learners.")
