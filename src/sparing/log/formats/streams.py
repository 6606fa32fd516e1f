"""Logs in files of other tools that are read anew, from the first row on, whenever they are walked."""

from typing import TypeVar

from sparing.errors import LogError
from sparing.log.log import Log
from sparing.log.scanning import Rows
from sparing.log.walking import Leaves, Statistic

State = TypeVar("State")


class Stream(Rows):
    """A log that can only be read from its first row on; whoever opens it has walked it once, for names and number of rows."""

    def fold(self, statistic: Statistic[Log, State]) -> State:
        """In this thread."""
        leaves = Leaves(statistic, self.cut.leaf)
        for first, block in self.blocks():
            leaves.add(block, first)
            if self.progress is not None:
                self.progress(first + block.n_rows, self.n_rows)
        return leaves.total()


def changed(name: str) -> LogError:
    """The error for a file in which a later walk finds other than the first."""
    return LogError(f"{name} has changed since it was opened. Leave it alone until it is read")
