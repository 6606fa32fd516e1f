"""The live service."""
