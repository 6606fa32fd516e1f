"""Servers to be put under load, and the one who loads them: each in a process of its own."""
