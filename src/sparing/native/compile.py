"""Compile kernels with Numba, keep the machine code where this user can write, and announce the first compilation."""

import contextlib
import functools
import hashlib
import multiprocessing
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from numba.core import event

LINE = "sparing: compiling what is used for the first time on this machine"
EVERY = 0.2
# Seconds between two updates of a terminal's line.
PATIENCE = 2.0
# Seconds of compiling before others than a terminal get a line.


class Announcer(event.Listener):
    """Reports the compilation of our kernels on standard error.

    A terminal shows one line that counts, and is removed at the end; anything else gets one line, if it takes longer than
    `PATIENCE`. Worker processes are silent.
    """

    def __init__(self) -> None:
        self.depth, self.kernels, self.announced = 0, 0, False
        self.began = self.shown = 0.0

    def on_start(self, event: Any) -> None:
        if not _ours(event):
            return
        if not self.depth:
            self.began = self.began or time.monotonic()
        self.depth += 1
        self._report()

    def on_end(self, event: Any) -> None:
        if not _ours(event):
            return
        self.depth -= 1
        self.kernels += 1
        self._report()
        if not self.depth and self.shown and _terminal():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.shown = 0.0

    def _report(self) -> None:
        now = time.monotonic()
        if _terminal():
            if now - self.shown >= EVERY and now - self.began >= EVERY:
                self.shown = now
                sys.stderr.write(f"\r\x1b[K{LINE}: {self.kernels} kernels, {now - self.began:.0f} s")
                sys.stderr.flush()
        elif not self.announced and _in_main_process() and now - self.began >= PATIENCE:
            self.announced = True
            print(f"{LINE}; it is kept. `sparing warm-up` compiles everything at once", file=sys.stderr)


def _ours(what: Any) -> bool:
    return str(what.data["dispatcher"].py_func.__module__).startswith("sparing.")


def _in_main_process() -> bool:
    return multiprocessing.parent_process() is None and sys.stderr is not None


def _terminal() -> bool:
    return _in_main_process() and sys.stderr.isatty()


@functools.cache
def _announce() -> None:
    register: Any = event.register
    register("numba:compile", Announcer())


PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^from sparing([.\w]*) import ([\w, ]*)", re.MULTILINE)

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a function of numbers and arrays, without the interpreter.

    The machine code is kept next to the source, or in the user's cache if that is read-only; if neither can be written, it
    lasts as long as the process.
    """
    return _compile(function)


def compiled_inner(function: F) -> F:
    """Compile a function that only compiled functions call: a tenth less time, without the code that Python needs to call it."""
    inner: Any = _compile(function, no_cpython_wrapper=True)
    name = function.__name__

    def add(result: Any) -> None:
        # As Numba does, but out of reach of Python: a call from there would jump to code that does not exist.
        inner.overloads[tuple(result.signature.args)] = result

    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise TypeError(
            f"only compiled functions call {name}; compile it with `compiled` to call it from Python"
        )

    inner.add_overload, inner._compile_for_args = add, refuse
    return cast(F, inner)


def compiled_loosely(function: F) -> F:
    """Compile a function whose sums may run in any order: faster, but the last digits are not fixed."""
    return _compile(function, fastmath={"reassoc", "contract"})


class Entry:
    """A kernel for frequent calls from Python, with fixed argument types that are not checked again.

    Nothing is compiled before the first `call`. The caller is responsible for the types.
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
    # Nobody passes a kernel as a value, which is what the C wrapper is for.
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **more}
    fast: Any
    try:
        fast = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # there is nowhere to write
        fast = numba.njit(**options)(function)
    else:
        _stamp(fast, Path(function.__code__.co_filename).parent)
        _forgive_full_disks(fast)
    return fast


def _stamp(fast: Any, folder: Path) -> None:
    """Tie the cached machine code to the text of all files in the function's folder.

    Numba checks only a function's own file, and would run old machine code if a function that it calls has changed in
    another.
    """
    index = getattr(getattr(fast, "_cache", None), "_cache_file", None)
    if index is not None:
        index._source_stamp = (index._source_stamp, text_hash(folder))
        load = index._load_index

        def load_or_nothing() -> Any:
            # An index that another release left names types by their modules, which may be gone.
            try:
                return load()
            except (ImportError, AttributeError):
                return {}

        index._load_index = load_or_nothing


@functools.cache
def text_hash(folder: Path) -> str:
    """Hash of the source of the kernels in a folder, of `native`, and of the modules that these files import.

    Compiled code contains the imported functions and constants.
    """
    files = [*sorted(folder.glob("*.py")), *sorted(Path(__file__).parent.glob("*.py"))]
    texts = {path: path.read_bytes() for path in files}
    imported = set(_imports(*(text.decode() for text in texts.values())))
    texts |= {path: path.read_bytes() for path in sorted(imported - texts.keys())}
    return hashlib.sha256(b"".join(texts.values())).hexdigest()


def _imports(*texts: str) -> Iterator[Path]:
    """The files of this package that modules' sources import at their top level."""
    for module, names in {found for text in texts for found in _IMPORT.findall(text)}:
        place = PACKAGE.joinpath(*module.split(".")[1:])
        found = (place.with_suffix(".py"), *(place / f"{name.strip()}.py" for name in names.split(",")))
        yield from (path for path in found if path.is_file())


def _forgive_full_disks(fast: Any) -> None:
    """Continue if machine code could be compiled but not saved.

    Numba looks for a folder before it finds out that the disk is full.
    """
    cache = getattr(fast, "_cache", None)
    keep = getattr(cache, "save_overload", None)
    if keep is None:
        return

    def keep_if_possible(*arguments: Any) -> None:
        with contextlib.suppress(OSError):
            keep(*arguments)

    cache.save_overload = keep_if_possible  # type: ignore[union-attr]
