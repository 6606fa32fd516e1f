"""Contenders of this interpreter: ours, and plain NumPy, Numba, SciPy and PyArrow beside it."""
