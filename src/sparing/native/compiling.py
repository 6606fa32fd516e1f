"""Compiles the hot loops, and keeps what was compiled where this user can write."""

import contextlib
import functools
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^from sparing([.\w]*) import ([\w, ]*)", re.MULTILINE)

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
    """Hash of the source of the kernels in a folder, of `native`, and of the modules that these files import.

    Compiled code has the imported functions and constants built in.
    """
    files = [*sorted(folder.glob("*.py")), *sorted(Path(__file__).parent.glob("*.py"))]
    texts = {path: path.read_bytes() for path in files}
    imported = {path for text in texts.values() for path in _imports(text.decode())}
    texts |= {path: path.read_bytes() for path in sorted(imported - texts.keys())}
    return hashlib.sha256(b"".join(texts.values())).hexdigest()


def _imports(text: str) -> Iterator[Path]:
    """The files of this package that a module's source imports at its top level."""
    for module, names in _IMPORT.findall(text):
        place = PACKAGE.joinpath(*module.split(".")[1:])
        found = (place.with_suffix(".py"), *(place / f"{name.strip()}.py" for name in names.split(",")))
        yield from (path for path in found if path.is_file())


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
