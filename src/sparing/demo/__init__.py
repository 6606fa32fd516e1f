"""Demonstrations: a simulated support desk, and classification sets with classes that were never logged."""
