"""Logs of decisions: reading, writing, and the actions that each row could have taken."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparing.log.formats import convert as convert
    from sparing.log.formats import read_log as read_log
    from sparing.log.formats import write_log as write_log
    from sparing.log.log import Log as Log
    from sparing.log.support import Support as Support

_HOMES = {
    "Log": "log",
    "Support": "support",
    **dict.fromkeys(("convert", "read_log", "write_log"), "formats"),
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Modules load on first use: the help of commands needs no NumPy, and a log in memory no PyArrow.
    if name not in _HOMES:
        raise AttributeError(f"module 'sparing.log' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sparing.log.{_HOMES[name]}"), name)
