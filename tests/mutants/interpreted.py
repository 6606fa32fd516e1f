"""A pytest plugin: let the engine run as plain Python, so that a fault can be tried without compiling anything.

Functions of tables are left as they are written; those of numbers and arrays alone stay compiled, as they are kept.
"""

import warnings

import numba
import numpy as np

from sparing.native import compile, struct


class Direct:
    """An entry that calls the function itself."""

    def __init__(self, kernel, *_):
        self.call = kernel


def get(self, name):
    """A field of a table: an array, or a number."""
    fields = list(type(self).fields)
    if name not in fields:
        raise AttributeError(name)
    held = self.held[1 + fields.index(name)]
    return held if type(self).fields[name][1] else held[0]


def put(self, name, value):
    """Set a number of a table; its own attribute as ever."""
    if name == "held":
        object.__setattr__(self, name, value)
    else:
        self.held[1 + list(type(self).fields).index(name)][0] = value


def interpret():
    """Import the engine with nothing compiled but what takes no table."""
    # A fault elsewhere in the folder changes nothing in what stays compiled.
    compile.text_hash = lambda folder: "unchanged"
    from sparing.native import vectors
    from sparing.online.engine import packed, random_stream  # noqa: F401

    kept, in_order = (compile.compiled, compile.compiled_inner, compile.Entry), vectors.dot
    vectors.dot = numba.njit(lambda a, b: in_order(a, b))
    struct.Struct.__getattr__, struct.Struct.__setattr__ = get, put
    compile.compiled = compile.compiled_inner = lambda function: function
    compile.Entry = Direct
    try:
        from sparing.online.engine import runs, updates  # noqa: F401
    finally:
        compile.compiled, compile.compiled_inner, compile.Entry = kept
    updates.splitmix64 = lambda word: np.uint64(random_stream.splitmix64(np.uint64(word)))


warnings.simplefilter("ignore")
np.seterr(all="ignore")
interpret()
