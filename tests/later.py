"""Modules that take seconds to import: every worker collects all tests, and few of them need these."""

import importlib


class Later:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        return getattr(importlib.import_module(self._name), name)


def later(name):
    """A module that is imported at its first use."""
    return Later(name)
