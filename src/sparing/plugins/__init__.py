"""Adapters between sparing and tools that users already have; each needs an extra of its name."""
