"""Policies learnt from the log alone: by regression, on the support, by importance weights, or by table."""

from sparing.learning.learn import METHODS, USE_ITEMS, learn

__all__ = ["METHODS", "USE_ITEMS", "learn"]
