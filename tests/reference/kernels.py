"""The compiled kernels in plain NumPy: vectorised over actions, feature by feature in the same order.

The order of the sums is part of the contract: with it, the results are equal bit for bit.
"""

import math

import numpy as np


def evaluate(x, theta, inverse, radius, frozen, slack, misfit):
    """Centre x·θ̂_a and half-width sqrt((ρ_a·sqrt(xᵀV_a⁻¹x))² + misfit²) for every action, (K,) each."""
    mean = np.zeros(len(theta))
    square = np.zeros(len(theta))
    for i in range(len(x)):
        mean = mean + x[i] * theta[:, i]
        row = np.zeros(len(theta))
        for j in range(len(x)):
            row = row + inverse[:, i, j] * x[j]
        square = square + x[i] * row
    half = radius * np.sqrt(np.maximum(square, 0.0))
    spread = np.sqrt(half * half + misfit * misfit) if misfit > 0 else half
    return mean, np.where(frozen, slack, spread)


def best(scores, eligible, priority, skip=-1):
    """The eligible action other than `skip` with the largest score, the smallest priority among equals."""
    candidates = [a for a in np.flatnonzero(eligible) if a != skip]
    return min(candidates, key=lambda a: (-scores[a], priority[a]), default=-1)


def doubts(mean, deviation, eligible, leader, tolerance):
    """Φ(−(m_a − m_b + τ)/sqrt(s_a² + s_b²)) for each rival b of the leader a, (K,), and their sum."""
    gap = mean[leader] - mean + tolerance
    scale = np.sqrt(deviation[leader] * deviation[leader] + deviation * deviation)
    terms = np.zeros(len(mean))
    for b in np.flatnonzero(eligible):
        if b != leader:
            sure = 1.0 if gap[b] < 0 else 0.0
            terms[b] = 0.5 * math.erfc(gap[b] / (scale[b] * math.sqrt(2.0))) if scale[b] > 0 else sure
    total = 0.0
    for term in terms.tolist():
        total += term
    return terms, total


def absorb(x, reward, gram, response, inverse):
    """V + xxᵀ, b + x·r, Sherman–Morrison's V⁻¹, θ̂ = V⁻¹b and log(1 + xᵀV⁻¹x), of one action."""
    d = len(x)
    product = np.zeros(d)
    for j in range(d):
        product = product + inverse[:, j] * x[j]
    square = 0.0
    for i in range(d):
        square += x[i] * product[i]
    gram = gram + np.outer(x, x)
    response = response + x * reward
    inverse = inverse - np.outer(product, product) / (1.0 + square)
    theta = np.zeros(d)
    for j in range(d):
        theta = theta + inverse[:, j] * response[j]
    return gram, response, inverse, theta, math.log1p(square)
