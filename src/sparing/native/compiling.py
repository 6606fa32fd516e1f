"""Compiles the hot loops, and keeps what was compiled where this user can write."""

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

SHARED = ("log/limits.py", "model/ellipsoids.py")
"""What kernels of other folders have compiled in, besides this folder."""

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile a function of numbers and arrays, without the interpreter.

    The machine code is kept beside the source, or in the user's own cache where that is read-only; where
    neither can be written it lives as long as the process.
    """
    return _compile(function)


def compiled_loosely(function: Function) -> Function:
    """Compile a function whose sums may run in any order: faster, but the last digits are not settled."""
    return _compile(function, fastmath={"reassoc", "contract"})


class Entry:
    """A kernel as Python calls it again and again: with arguments of types that are said once, and not looked at again.

    Nothing is compiled before the first `call`. Whoever calls sees to the types.
    """

    __slots__ = ("call",)

    def __init__(self, kernel: Any, *types: Any) -> None:
        self.call: Callable[..., Any] = functools.partial(self._first, kernel, types)

    def _first(self, kernel: Any, types: tuple[Any, ...], *arguments: Any) -> Any:
        kernel.compile(types)
        self.call = kernel.overloads[types].entry_point
        return self.call(*arguments)


def _compile(function: Any, **more: Any) -> Any:
    import numba

    _announce()
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", **more}
    fast: Any
    try:
        fast = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # there is nowhere to write
        fast = numba.njit(**options)(function)
    else:
        _stamp(fast, Path(function.__code__.co_filename).parent)
        _forgive_full_disks(fast)
    return fast


@functools.cache
def _announce() -> None:
    from sparing.native import announcing

    announcing.watch()


def _stamp(fast: Any, folder: Path) -> None:
    """Tie what is kept to the text of all files beside the function's own.

    Numba looks at a function's own file only, and would run old machine code where a function that it calls
    has changed in another.
    """
    index = getattr(getattr(fast, "_cache", None), "_cache_file", None)
    if index is not None:
        index._source_stamp = (index._source_stamp, text_hash(folder))


@functools.cache
def text_hash(folder: Path) -> str:
    """Tells one text of the kernels in a folder, and of what they stand on, from another."""
    digest = hashlib.sha256()
    own = Path(__file__).parent
    shared = (own.parent / name for name in SHARED)
    for path in (*sorted(folder.glob("*.py")), *sorted(own.glob("*.py")), *shared):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _forgive_full_disks(fast: Any) -> None:
    """Let a call go on where its machine code could be compiled but not kept.

    Numba looks for a folder before it knows whether the disk has room.
    """
    cache = getattr(fast, "_cache", None)
    keep = getattr(cache, "save_overload", None)
    if keep is None:
        return

    def keep_if_possible(*arguments: Any) -> None:
        with contextlib.suppress(OSError):
            keep(*arguments)

    cache.save_overload = keep_if_possible  # type: ignore[union-attr]
