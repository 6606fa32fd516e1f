"""Learn the best action for each context from a log, and pay for a live reward only where it repays itself.

Public names are listed in `__init__.pyi`, one import per line, and load on first use, so that `import sparing` is fast.
"""

import gc
import importlib
from typing import Any

__version__ = "0.3.0.dev0"

_LINES = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode().splitlines()
_HOMES = {words[3]: words[1] for words in map(str.split, _LINES) if words[:1] == ["from"]}

_RENAMED = {"Summary": "LogSummary", "given": "supported_actions", "top": "most_logged"}
"""Names of 0.1 that warn and still work."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        import warnings

        new = _RENAMED[name]
        warnings.warn(f"sparing.{name} is now sparing.{new}", DeprecationWarning, stacklevel=2)
        return __getattr__(new)
    if name not in _HOMES:
        raise AttributeError(f"module 'sparing' has no attribute {name!r}")
    home = _HOMES[name]
    if home == __name__:
        value: Any = _import(f"{home}.{name}")
    else:
        value = getattr(_import(home), name)
    globals()[name] = value
    return value


def _import(name: str) -> Any:
    """Import a module; meanwhile nothing is searched for garbage, of which imports leave none."""
    searching = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        if searching:
            gc.enable()


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
