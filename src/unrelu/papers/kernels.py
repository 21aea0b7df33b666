"""Compiled loops of the papers' gradient methods: sums over batches, and projected steps of a truncated normal.

The negative log-likelihood of a truncated normal is convex in v = (1/sigma^2, mu/sigma^2), with gradient (Wu et al.
2019, (6); Bulusu et al. 2022, (4))

    g = ( E[x^2/2], -E[x] ) + ( -E[z^2/2], E[z] ),   z ~ N(mu, sigma^2) truncated, at the current v.

Wu et al. 2019 draws z; Bulusu et al. 2022 uses the closed form of its moments, (5) and (6).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from unrelu.kernels.normal import density, distribution


@njit(cache=True, nogil=True)
def draw_above(rng: np.random.Generator, low: float, mean: float, sd: float) -> float:
    """One draw of N(mean, sd^2) above ``low``: rejection from the normal, in the tail from an exponential (Robert)."""
    a = (low - mean) / sd
    if a < 0.45:
        u = rng.standard_normal()
        while u <= a:
            u = rng.standard_normal()
        return mean + sd * u
    rate = 0.5 * (a + math.sqrt(a * a + 4.0))
    while True:
        u = a - math.log(1.0 - rng.random()) / rate
        if rng.random() <= math.exp(-0.5 * (u - rate) * (u - rate)):
            return mean + sd * u


@njit(cache=True, nogil=True)
def truncated_moments(mu: float, sigma: float) -> tuple[float, float]:
    """Mean and mean square of N(mu, sigma^2) above 0 (Bulusu et al. 2022, (5) and (6))."""
    a = mu / sigma
    tail = distribution(a)
    # phi(a)/Phi(a), by its expansion where both vanish
    ratio = density(a) / tail if a > -30.0 else -a + 1.0 / max(-a, 1.0)
    mean = mu + sigma * ratio
    variance = sigma * sigma * (1.0 - a * ratio - ratio * ratio)
    return mean, variance + mean * mean


@njit(cache=True, nogil=True)
def project(v: np.ndarray, radius: float) -> None:
    """Onto D_r = {1/r <= v(1) <= r, |v(2)| <= r} (Wu et al. 2019, (8); Bulusu et al. 2022, (10))."""
    v[0] = min(max(v[0], 1.0 / radius), radius)
    v[1] = min(max(v[1], -radius), radius)


@njit(cache=True, nogil=True)
def sampled_descent(
    sums: np.ndarray,
    low: float,
    step: float,
    radius: float,
    draws: int,
    rng: np.random.Generator,
    average: np.ndarray,
) -> None:
    """Wu et al. 2019, Algorithm 3 (ProjSGD): a step a mini-batch, with ``draws`` fresh z a value; average of iterates.

    ``sums`` (T x 3) = (count, sum x, sum x^2/2) of the mini-batches; truncation at ``low``; steps 1/(step t).
    """
    v = np.array([1.0, 0.0])
    average[:] = 0.0
    taken = 0
    for k in range(sums.shape[0]):
        count = int(sums[k, 0])
        if count == 0:
            continue
        taken += 1
        mu = v[1] / v[0]
        sigma = math.sqrt(1.0 / v[0])
        z_sum = 0.0
        z_half_square = 0.0
        for _ in range(draws * count):
            z = draw_above(rng, low, mu, sigma)
            z_sum += z
            z_half_square += 0.5 * z * z
        size = 1.0 / (step * taken)
        v[0] -= size * (sums[k, 2] - z_half_square / draws) / count
        v[1] -= size * (z_sum / draws - sums[k, 1]) / count
        project(v, radius)
        average += v
    average /= taken


@njit(cache=True, nogil=True)
def closed_descent(gradients: np.ndarray, steps: int, step: float, radius: float, v: np.ndarray) -> None:
    """Bulusu et al. 2022, Algorithm 2 (ProjGD): v <- P(v - g/(step t)), g = filtered part + closed form; v becomes v_T.

    ``gradients`` (1 or T x 2) hold the filtered means of (x^2/2, -x): one for gradient descent, one a step for its
    stochastic version. The paper starts at v = (0, 0), outside the domain; we start at its projection.
    """
    v[:] = 0.0
    project(v, radius)
    for t in range(1, steps + 1):
        row = min(t, gradients.shape[0]) - 1
        mean, square = truncated_moments(v[1] / v[0], math.sqrt(1.0 / v[0]))
        size = 1.0 / (step * t)
        first = gradients[row, 0] - 0.5 * square
        second = gradients[row, 1] + mean
        v[0] -= size * first
        v[1] -= size * second
        project(v, radius)


@njit(cache=True, nogil=True)
def add_batch_sums(
    values: np.ndarray,
    floor: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    rank: np.ndarray,
    total: np.ndarray,
    batches: np.ndarray,
    multiplier: np.ndarray,
    shift: np.ndarray,
    chosen: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[j, batch] += (1, t, t^2/2), t = (x - centre)/scale, for every x above the floor of column j.

    The k-th such value of a column, k = rank[j] (advanced here), goes to batch (place * batches) // total with
    place = (multiplier * k + shift) mod total: equal batches, in order of the rows for multiplier 1 and shift 0,
    scattered for a multiplier without common factor with the total. ``chosen`` (d x m, each row rising): the batches
    that are wanted, out[j, k] being that of chosen[j, k]; all of them where m is 0.
    """
    n, d = values.shape
    for i in range(n):
        for j in range(d):
            x = values[i, j]
            if x > floor[j]:
                place = (multiplier[j] * rank[j] + shift[j]) % total[j]
                rank[j] += 1
                batch = (place * batches[j]) // total[j]
                if chosen.shape[1] > 0:
                    wanted = batch
                    batch = np.searchsorted(chosen[j], wanted)
                    if batch == chosen.shape[1] or chosen[j, batch] != wanted:
                        continue
                t = (x - centre[j]) / scale[j]
                out[j, batch, 0] += 1.0
                out[j, batch, 1] += t
                out[j, batch, 2] += 0.5 * t * t
