"""The source files that a call visits: those whose functions run, in Python or compiled."""

import sys
import threading
from pathlib import Path

import sparing

SOURCE = Path(sparing.__file__).parent


def files_visited(call):
    """The files, as paths below the package, in which a function runs during `call()`; imports do not count."""
    seen, importing = set(), f"{SOURCE}/"

    def look(frame, event, _):
        code = frame.f_code
        runs = event == "call" and code.co_flags & 1 and not code.co_name.startswith("<")
        runs = runs and code.co_name != "__getattr__"  # lazy imports depend on what is loaded already
        if runs and code.co_filename.startswith(importing) and not _in_import(frame):
            seen.add(code.co_filename)

    sys.setprofile(look)
    threading.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(Path(name).relative_to(SOURCE).as_posix() for name in seen)


def _in_import(frame):
    """Whether a module of the package is being imported: its body is further up."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(SOURCE)):
            return True
        frame = frame.f_back
    return False


def compiled_from(kernels):
    """The files of some kernels and of all kernels that they call."""
    found, left = set(), list(kernels)
    while left:
        kernel = left.pop()
        if kernel in found:
            continue
        found.add(kernel)
        scope, names = kernel.py_func.__globals__, kernel.py_func.__code__.co_names
        left += [scope[name] for name in names if hasattr(scope.get(name), "py_func")]
    files = {kernel.py_func.__code__.co_filename for kernel in found}
    return sorted(Path(name).relative_to(SOURCE).as_posix() for name in files)
