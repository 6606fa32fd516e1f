"""What release 0.1 wrote and answered, recorded; every later version must read and answer the same.

`python -m frozen.record` (in a checkout of 0.1, with PYTHONPATH=src:.:tests) wrote `data/` and `text/`;
`pytest tests/frozen` runs the same cases again and compares.
"""
