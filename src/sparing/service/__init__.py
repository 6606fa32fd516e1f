"""A durable HTTP service for decisions and delayed rewards, with a dashboard."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparing.service.client import Client as Client
    from sparing.service.client import ServiceProblem as ServiceProblem
    from sparing.service.client import UnreachableError as UnreachableError

__all__ = ["Client", "ServiceProblem", "UnreachableError"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sparing.service' has no attribute {name!r}")
    return getattr(importlib.import_module("sparing.service.client"), name)
