"""Policies learnt from the log alone: by regression, on the support, by importance weights, or by table."""

from sparing.learning.learn import METHODS, learn

__all__ = ["METHODS", "learn"]
