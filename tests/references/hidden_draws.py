"""Draws of y ~ N(m, V) below limits by rejection, marginals by quadrature, and the generator in plain integers."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

_WORD = (1 << 64) - 1


def rejection_draws(m, v, limit, n, rng):
    """All of many normals that lie below ``limit``, n of them; V may be singular."""
    values, vectors = np.linalg.eigh(v)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    kept, count = [], 0
    while count < n:
        y = m + rng.standard_normal((20 * n, len(m))) @ root.T
        kept.append(y[(y <= limit).all(axis=1)])
        count += len(kept[-1])
    return np.concatenate(kept)[:n]


def marginal_cdf(x, m, v, limit):
    """P(y_1 <= x | y <= limit) of one or two cells: trapezoids of y_1's density times P(y_2 <= limit_2 | y_1)."""
    sd = np.sqrt(v[0, 0])
    if len(m) == 1:
        return np.exp(log_ndtr((x - m[0]) / sd) - log_ndtr((limit[0] - m[0]) / sd))
    slope = v[0, 1] / v[0, 0]
    gap = np.sqrt(v[1, 1] - slope * v[0, 1])

    def log_density(y):
        return -0.5 * ((y - m[0]) / sd) ** 2 + log_ndtr((limit[1] - m[1] - slope * (y - m[0])) / gap)

    high = min(limit[0], m[0] + 12.0 * sd)
    coarse = high - sd * np.linspace(0.0, 60.0, 200_001)
    height = log_density(coarse)
    within = coarse[height > height.max() - 40.0]
    grid = np.linspace(within.min(), within.max(), 20_001)
    height = np.exp(log_density(grid) - height.max())
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (height[1:] + height[:-1]))])
    return np.interp(x, grid, mass / mass[-1])


def _mixed(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


def _rotated(word, k):
    return ((word << k) | (word >> (64 - k))) & _WORD


def uniforms(seed, row, n):
    """The first n numbers of a row's stream: xoshiro256++, its state from splitmix64."""
    word = _mixed((seed + 0x9E3779B97F4A7C15) & _WORD)
    word = _mixed(word ^ ((row * 0x94D049BB133111EB + 0x9E3779B97F4A7C15) & _WORD))
    state = [_mixed((word + k * 0x9E3779B97F4A7C15) & _WORD) for k in (1, 2, 3, 4)]
    numbers = []
    for _ in range(n):
        numbers.append(((((_rotated((state[0] + state[3]) & _WORD, 23) + state[0]) & _WORD) >> 12) + 0.5) / 2.0**52)
        shifted = (state[1] << 17) & _WORD
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= shifted
        state[3] = _rotated(state[3], 45)
    return numbers
