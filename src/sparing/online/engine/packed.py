"""Symmetric matrices stored as their upper triangle, row after row: (d, d) becomes d·(d+1)/2 numbers.

Sums run in a fixed order, so that equal inputs give equal bits wherever a function is used; only the
single-precision ones, which serve bounds that allow for rounding, leave the order to the compiler.
"""

import math
from typing import Any

import numpy as np

from sparing.native.compile import compiled, compiled_loosely
from sparing.native.vectors import dot

WIDE = 24
"""Features from which vectors pay for a product."""


@compiled_loosely
def rough_dot(a: np.ndarray, b: np.ndarray) -> Any:
    """Σ a_i·b_i of single-precision numbers, in any order: within (n + 2)·2⁻²⁴·Σ|a_i·b_i| of the sum."""
    total = np.float32(0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled
def outer(x: np.ndarray, out: np.ndarray) -> None:
    """Write the products that make xᵀAx = packed(A)·out: x_i² and 2·x_i·x_j."""
    d, k = len(x), 0
    for i in range(d):
        out[k] = x[i] * x[i]
        twice = 2 * x[i]
        for j in range(i + 1, d):
            out[k + j - i] = twice * x[j]
        k += d - i


@compiled
def times(packed: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """Write A·x."""
    d, k = len(x), 0
    for i in range(d):
        out[i] = 0.0
    for i in range(d):
        own, xi = packed[k] * x[i], x[i]
        if d < WIDE:
            for j in range(1, d - i):
                own += packed[k + j] * x[i + j]
                out[i + j] += packed[k + j] * xi
        else:
            own += dot(packed[k + 1 : k + d - i], x[i + 1 :])
            for j in range(1, d - i):
                out[i + j] += packed[k + j] * xi
        out[i] += own
        k += d - i


@compiled
def add_both(packed: np.ndarray, x: np.ndarray, other: np.ndarray, y: np.ndarray, factor: float) -> None:
    """A += x·xᵀ and B += factor·y·yᵀ, in one pass."""
    d, k = len(x), 0
    for i in range(d):
        own, scaled = x[i], factor * y[i]
        for j in range(d - i):
            packed[k + j] += own * x[i + j]
        for j in range(d - i):
            other[k + j] += scaled * y[i + j]
        k += d - i


@compiled
def cholesky(square: np.ndarray) -> bool:
    """Overwrite the upper triangle of A with U, A = UᵀU; False where A is not positive definite."""
    d = len(square)
    for i in range(d):
        pivot = square[i, i]
        if not pivot > 0.0:
            return False
        root = math.sqrt(pivot)
        for j in range(i, d):
            square[i, j] /= root
        for k in range(i + 1, d):
            factor = square[i, k]
            for j in range(k, d):
                square[k, j] -= factor * square[i, j]
    return True


@compiled
def invert(packed: np.ndarray, inverse: np.ndarray, square: np.ndarray, unit: float) -> float:
    """Write packed A⁻¹ and return log det(A/unit); NaN, and nothing written, if A is not positive definite.

    A = UᵀU; W = U⁻ᵀ is built row by row in the lower triangle, and A⁻¹ = WᵀW.
    """
    d, k = len(square), 0
    for i in range(d):
        for j in range(i, d):
            square[i, j] = packed[k]
            k += 1
    if not cholesky(square):
        return math.nan
    log_det = 0.0
    for i in range(d):
        log_det += math.log(square[i, i] * square[i, i] / unit)
    # Row i of W solves UᵀW = I: W[i] = (e_i − Σ_{k<i} U[k, i]·W[k]) / U[i, i]; W[k] ends at column k.
    for i in range(d):
        pivot = square[i, i]
        for j in range(i):
            square[i, j] = 0.0
        for k in range(i):
            factor = square[k, i]
            for j in range(k):
                square[i, j] -= factor * square[k, j]
            square[i, k] -= factor * (1.0 / square[k, k])
        for j in range(i):
            square[i, j] /= pivot
    for i in range(len(inverse)):
        inverse[i] = 0.0
    for row in range(d):
        k = 0
        for i in range(row + 1):
            left = square[row, i] if i < row else 1.0 / square[row, row]
            for j in range(i, row):
                inverse[k + j - i] += left * square[row, j]
            inverse[k + row - i] += left * (1.0 / square[row, row])
            k += d - i
    return log_det
