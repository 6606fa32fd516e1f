"""Damaged and forged files, by seed."""
