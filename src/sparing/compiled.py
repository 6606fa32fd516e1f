"""Compiles the hot loops, and keeps what was compiled where this user can write."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile a function of numbers and arrays, without the interpreter.

    The machine code is kept beside the source, or in the user's own cache where that is read-only; where
    neither can be written it lives as long as the process.
    """
    import numba

    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    fast: Any
    try:
        fast = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # there is nowhere to write
        fast = numba.njit(**options)(function)
    return fast
