"""What was logged: rounds, and which actions each of them could have taken."""

from typing import TYPE_CHECKING, Any

from sparing.log.log import Log
from sparing.log.support import Support

if TYPE_CHECKING:
    from sparing.log.reading import read_log
    from sparing.log.writing import write_log

__all__ = ["Log", "Support", "read_log", "write_log"]


def __getattr__(name: str) -> Any:
    """Files are read and written with pyarrow, which a log in memory does not need."""
    if name == "read_log":
        from sparing.log.reading import read_log

        return read_log
    if name == "write_log":
        from sparing.log.writing import write_log

        return write_log
    raise AttributeError(f"module 'sparing.log' has no attribute {name!r}")
