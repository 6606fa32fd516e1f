"""Faults put into `online/` on purpose, one at a time: does a test notice each? `make mutants`."""
