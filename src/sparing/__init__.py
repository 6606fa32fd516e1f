"""Learn the best action for each context from a log that never tried everything.

And ask the live world for a reward only where the log is blind. Names load on first use, so that
`import sparing` is quick; they stand in `__init__.pyi`, a line each: from a home, a name.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_LINES = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode().splitlines()
_HOMES = {words[3]: words[1] for words in map(str.split, _LINES) if words[:1] == ["from"]}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sparing' has no attribute {name!r}")
    home = _HOMES[name]
    if home == __name__:
        value: Any = importlib.import_module(f"{home}.{name}")
    else:
        value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
