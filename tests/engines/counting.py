"""Work that other processes can import: it notes what it does, and exits where a test wants it to."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from sparing.errors import LogError


@dataclass(frozen=True)
class Named:
    """Gives the item as text, after leaving a mark; the first time it meets `deadly` its process is killed."""

    folder: str
    deadly: int = -1
    wrong: tuple[int, ...] = ()
    pause: float = 0.0

    def __call__(self, item: int) -> str:
        mark = Path(self.folder) / f"{item}-{os.getpid()}-{time.monotonic_ns()}"
        again = any(Path(self.folder).glob(f"{item}-*"))
        mark.touch()
        time.sleep(self.pause)
        if item == self.deadly and not again:
            os.kill(os.getpid(), signal.SIGKILL)
        if item in self.wrong:
            raise LogError(f"row {item} is wrong")
        return str(item)


def bracketed(one: str, other: str) -> str:
    """Shows the shape of the tree."""
    return f"({one}{other})"


def shape(count: int) -> str:
    """The tree by its definition: pairs of neighbours, level by level, the odd one last goes up as it is."""
    level = list(map(str, range(count)))
    while len(level) > 1:
        level = [
            bracketed(*level[i : i + 2]) if len(level[i : i + 2]) == 2 else level[i]
            for i in range(0, len(level), 2)
        ]
    return level[0]
