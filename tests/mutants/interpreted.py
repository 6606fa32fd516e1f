"""Let the engine run as plain Python, so that a fault can be tried without compiling anything.

Functions of tables are left as they are written; those of numbers and arrays alone stay compiled, as they are kept.
"""

import builtins
import importlib.machinery
import warnings
from pathlib import Path

import numba
import numpy as np
from numba.core.caching import NullCache

from sparing.native import compile, vectors

warnings.simplefilter("ignore")
np.seterr(all="ignore")

_in_order = vectors.dot
DOT = numba.njit(lambda a, b: _in_order(a, b))
"""The product of vectors, for Python too. Compiled here, once for all trials, which branch off."""
DOT(np.zeros(1), np.zeros(1))


class Direct:
    """An entry that calls the function itself."""

    def __init__(self, kernel, *_):
        self.call = kernel


def field(place: int, array: bool) -> property:
    """A field of a table: an array, or a number, which may be set."""
    if array:
        return property(lambda table: table.held[place])

    def put(table, value):
        table.held[place][0] = value

    return property(lambda table: table.held[place][0], put)


def replace(path: Path, text: str) -> None:
    """Let a module that is imported from now on have another text than its file."""
    read, stamp = importlib.machinery.SourceFileLoader.get_code, compile._stamp

    def get_code(loader, name):
        if Path(loader.path) == path:
            return builtins.compile(text, str(path), "exec")
        return read(loader, name)

    def stamp_or_forget(fast, folder):
        # Kept machine code is that of the file, and what is compiled now must not be kept as if it were.
        if Path(fast.py_func.__code__.co_filename) == path:
            fast._cache = NullCache()
        else:
            stamp(fast, folder)

    importlib.machinery.SourceFileLoader.get_code, compile._stamp = get_code, stamp_or_forget


def interpret() -> None:
    """Import the engine with nothing compiled but what takes no table."""
    from sparing.online.engine import packed, random_stream  # noqa: F401

    kept = compile.compiled, compile.compiled_inner, compile.Entry
    compile.compiled = compile.compiled_inner = lambda function: function
    compile.Entry, vectors.dot = Direct, DOT
    try:
        from sparing.online.engine import runs, state, updates  # noqa: F401
    finally:
        compile.compiled, compile.compiled_inner, compile.Entry = kept
    for place, (name, (_, shape)) in enumerate(state.SetsStruct.fields.items(), start=1):
        setattr(state.SetsStruct, name, field(place, bool(shape)))
    updates.splitmix64 = lambda word: np.uint64(random_stream.splitmix64(np.uint64(word)))
