"""Optional dependencies, asked for where they are needed and never at import."""

import importlib
from types import ModuleType

from sparing.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed. Run: pip install 'sparing[{extra}]'"
        ) from error
