"""What a call is worth, in plain NumPy over all actions, contexts and numbers of calls at once."""

import numpy as np
from scipy.special import ndtr


def psi(gap, s):
    """E[(s·Z − gap)⁺]."""
    u = gap / np.maximum(s, 1e-300)
    return np.where(s > 0, s * np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi) - gap * ndtr(-u), 0.0)


def worths(theta, inverse, noise, reservoir, x, *, left, cost, eligible, active=None, misfit=0.0):
    """(K,): max_n (H − n + 1)·mean_j ψ(g_j, s_j(n))/n − c − (max m − m_a); −∞ for actions that may not be played.

    theta (K, d), inverse (K, d, d) = Σ/σ², reservoir (m, d); `eligible` and `active` (K,) say who may be played now and later.
    """
    k = len(theta)
    active = np.ones(k, dtype=bool) if active is None else active
    u = noise**2 * (inverse @ x)  # Σx, (K, d)
    n = np.array([2**i for i in range(8) if 2**i <= max(1, left / 2)], dtype=float)
    variance = (u @ x)[:, None] * n + noise**2 + misfit**2
    s = np.abs(u @ reservoir.T)[:, :, None] * np.sqrt(n / variance)[:, None, :]  # (K, m, n)
    means = np.where(active[:, None], theta @ reservoir.T, -np.inf)  # (K, m)
    others = np.array([np.delete(means, a, axis=0).max(axis=0, initial=-np.inf) for a in range(k)])
    gap = np.abs(others - theta @ reservoir.T)
    gains = psi(gap[:, :, None], s).mean(axis=1) if k > 1 else np.zeros((1, len(n)))
    mean = theta @ x
    loss = mean[eligible].max() - mean
    found = ((left - n + 1) * gains / n).max(axis=1) - cost - loss
    return np.where(eligible, found, -np.inf)
