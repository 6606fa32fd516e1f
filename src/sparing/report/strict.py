"""JSON that every reader takes: no NaN, no Infinity; a number that is not one is null."""

import json
import math
from typing import Any

import numpy as np


def text(value: Any, *, indent: int) -> str:
    """Nested values as strict JSON, NumPy's numbers and arrays included."""
    return json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """The same values in types that JSON has."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
