"""Every public name has a docstring, stands in `__all__`, and loads lazily."""

import importlib
import inspect
import subprocess
import sys

import pytest

import sparing


@pytest.mark.parametrize("name", sparing.__all__)
def test_public_name_is_documented(name):
    value = getattr(sparing, name)
    assert inspect.getdoc(value), f"sparing.{name} has no docstring"


@pytest.mark.parametrize("name", sorted(set(sparing.__all__)))
def test_public_names_are_typed_for_checkers(name):
    source = inspect.getsource(importlib.import_module("sparing"))
    assert f" {name} as {name}" in source


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sparing.nothing


def test_import_is_light():
    code = "import sparing, sys; print([m for m in ('numba', 'matplotlib', 'pyarrow', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
