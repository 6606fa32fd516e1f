"""What was logged: rounds, and which actions each of them could have taken."""

from sparing.log.log import Log
from sparing.log.reading import read_log
from sparing.log.support import Support
from sparing.log.writing import write_log

__all__ = ["Log", "Support", "read_log", "write_log"]
