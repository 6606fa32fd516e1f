"""The file by which a start after a crash goes on with the time of before, if the machine's clock has jumped meanwhile.

It has the difference between the time of day and the time since boot, and which boot that was. A stop on purpose removes it: then
the machine's clock counts again.
"""

import contextlib
import os
from pathlib import Path

import msgspec

NAME = "clock.json"
BOOT = Path("/proc/sys/kernel/random/boot_id")


class ClockNote(msgspec.Struct):
    """The time of day at boot in microseconds, as the service counts it, and the id of the boot."""

    boot: str
    offset: int


def _boot() -> str | None:
    """Return the id of this boot; None where the system has none."""
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def read_offset(folder: Path) -> int | None:
    """Return the noted time of day at boot; None if there is none of this boot."""
    try:
        note = msgspec.json.decode((folder / NAME).read_bytes(), type=ClockNote)
    except (OSError, msgspec.DecodeError):
        return None
    return note.offset if note.boot == _boot() else None


def write_offset(folder: Path, offset: int) -> None:
    """Note it, if the system has ids of boots. A disk that is full only means that the next start has no note, or an older one."""
    boot = _boot()
    if boot is None:
        return
    draft = folder / f"{NAME}.new"
    with contextlib.suppress(OSError):
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(ClockNote(boot, offset)))
        draft.replace(folder / NAME)


def remove(folder: Path) -> None:
    for name in (NAME, f"{NAME}.new"):
        with contextlib.suppress(OSError):
            (folder / name).unlink(missing_ok=True)
