"""`python tests/faults [--store sqlite|postgres] [--faults N] [--minutes N]`: a long run, with its figures; exit code 1 if anything is wrong.

As root it also fills disks and lets a standby take over. It uses loopback only, and removes what it made.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.run import OnPostgres, OnSqlite, sequence
from faults.services import FAKETIME


async def whole(arguments):
    root = os.getuid() == 0
    common = {"clients": arguments.clients, "pause": arguments.pause}
    if arguments.store == "sqlite":
        run = OnSqlite(arguments.seed, disk=1000 if root else None, **common)
        kinds = {"kill", "freeze", "cut connections", "failing writes", *(["full disk"] if root else [])}
    else:
        run = OnPostgres(arguments.seed, standby=True, disk=600 if root else None, **common)
        kinds = {
            "kill",
            "freeze",
            "cut connections",
            "database crash",
            "database connections ended",
            "database frozen",
            "failover",
        }
        kinds |= {"full database disk"} if root else set()
    if FAKETIME is not None:
        kinds |= {"clock jump", "kill with a wrong clock"}
    faults = sequence(kinds, arguments.faults, arguments.seed)
    report = await run.run(faults, seconds=60 * arguments.minutes)
    print(f"{arguments.store}: {report.text()}", flush=True)
    return bool(report.wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60.0, help="no fault begins later")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument(
        "--pause", type=float, default=0.02, help="mean seconds between two visits of a client"
    )
    sys.exit(asyncio.run(whole(parser.parse_args())))


if __name__ == "__main__":
    main()
