"""How long work tells how far it is."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called now and then with the rounds done and the rounds in all."""

REPORT_EVERY = 200
"""Rounds between two calls."""
