"""What the compiled kernels compute, in plain Python.

The order of the sums is part of the contract: with it, the results are equal bit for bit.
"""

import math

import numpy as np


def best(scores, eligible, priority, skip=-1):
    """The eligible action other than `skip` with the largest score, the smallest priority among equals."""
    candidates = [a for a in np.flatnonzero(eligible) if a != skip]
    return min(candidates, key=lambda a: (-scores[a], priority[a]), default=-1)


def doubts(mean, deviation, eligible, leader, tolerance, factor=1.0):
    """Φ(−(m_a − m_b + τ)/(factor·sqrt(s_a² + s_b²))) for each rival b of the leader a, (K,), and their sum."""
    gap = mean[leader] - mean + tolerance
    scale = factor * np.sqrt(deviation[leader] * deviation[leader] + deviation * deviation)
    terms = np.zeros(len(mean))
    for b in np.flatnonzero(eligible):
        if b != leader:
            sure = 1.0 if gap[b] < 0 else 0.0
            terms[b] = 0.5 * math.erfc(gap[b] / (scale[b] * math.sqrt(2.0))) if scale[b] > 0 else sure
    total = 0.0
    for term in terms.tolist():
        total += term
    return terms, total
