"""Faults put into `online/` on purpose, one at a time: does a test notice each? Run by hand: `python tests/mutants`."""
