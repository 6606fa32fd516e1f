"""Every public name has a docstring, stands in `__all__`, and loads lazily."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import sparing


def test_public_names_are_documented():
    assert [name for name in sparing.__all__ if not inspect.getdoc(getattr(sparing, name))] == []


def test_public_names_are_typed_for_checkers():
    """Every line of the stub is a re-export as checkers know it, and the package has those names and no others."""
    stub = ast.parse(Path(sparing.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    lines = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    names = [(line.module, alias.name, alias.asname) for line in lines for alias in line.names]
    assert sorted(name for _, name, _ in names) == sparing.__all__
    for home, name, shown in names:
        assert shown == name
        assert getattr(importlib.import_module(home), name) is getattr(sparing, name)


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sparing.nothing


def test_import_is_light():
    code = "import sparing, sys; print([m for m in ('numba', 'matplotlib', 'pyarrow', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
