"""Values as JSON has them, the same to the last character whenever the values are the same."""

import hashlib
import json
import math
from typing import Any

import numpy as np

DIGITS = 12
"""Significant digits that are kept: more would differ between machines for no reason that matters."""


def settled(value: Any) -> Any:
    """Plain values: NumPy's numbers and tuples unwrapped, 12 digits, NaN as null, infinity as "inf"."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): settled(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [settled(inner) for inner in value]
    if isinstance(value, float):
        return _settled_number(value)
    return value


def _settled_number(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)


def text(value: Any) -> str:
    """Settled values as JSON for people to read."""
    return json.dumps(settled(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def digest(value: Any) -> str:
    """The SHA-256 of plain values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
