"""What one cell says about the fitted value t, and the many small systems that rows and columns solve.

A cell gives a residual r and a weight w, minus the first and the second derivative of its loss in t:

    seen value x > 0        loss (x - t)^2 / 2                     r = x - t            w = 1
    zero, least squares     loss max(t - cap, 0)^2 / 2             r = -max(t - cap, 0) w = 1 if t > cap else 0
    zero, normal noise      loss -sigma^2 log Phi(-t/sigma)        r = -sigma lambda    w = lambda (lambda - t/sigma)
    missing (NaN)           nothing                                r = 0                w = 0

with lambda = phi(t/sigma) / Phi(-t/sigma), and cap = 0 unless columns have caps. A row's Newton step solves
(sum_j w_j a_j a_j') step = sum_j r_j a_j: the weighted Grams of all rows come packed (upper triangle, row by row) from
one matrix product and are factored here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.kernels.normal import log_probability_and_hazard

_CAREFUL_ROUNDS = 5
_FAR = 1e5  # standard deviations above the floor at which a zero pulls like a seen 0, to all digits


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def floor_cells(
    values: Any, fitted: FloatArray, caps: FloatArray, weight: Any, row_loss: FloatArray, column_loss: FloatArray
) -> None:
    """Least squares: ``fitted`` becomes the residuals; losses are added to, weights written."""
    for i in range(values.shape[0]):
        total = 0.0
        for j in range(values.shape[1]):  # without branches, so that it runs in vectors
            x = values[i, j]
            r = x - fitted[i, j] + (0.0 if x > 0.0 else caps[j])
            counts = (x > 0.0) | (r < 0.0)  # neither a zero with t <= cap, nor NaN
            r = r if counts else 0.0
            fitted[i, j] = r
            weight[i, j] = 1.0 if counts else 0.0
            loss = 0.5 * r * r
            total += loss
            column_loss[j] += loss
        row_loss[i] += total


@njit(cache=True, nogil=True)
def tobit_cells(
    values: Any, fitted: FloatArray, sigma: float, weight: Any, row_loss: FloatArray, column_loss: FloatArray
) -> float:
    """Normal noise: as :func:`floor_cells`; returns the expected sum of squared noise, given what was seen."""
    squares = 0.0
    for i in range(values.shape[0]):
        total = 0.0
        for j in range(values.shape[1]):
            x = values[i, j]
            t = fitted[i, j]
            r, w, loss = 0.0, 0.0, 0.0
            if x > 0.0:
                r = x - t
                w = 1.0
                loss = 0.5 * r * r
                squares += r * r
            elif x <= 0.0:
                s = t / sigma
                log_probability, hazard = log_probability_and_hazard(-s)
                r = -sigma * hazard
                w = min(max(hazard * (hazard - s), 0.0), 1.0) if s < _FAR else 1.0
                loss = -sigma * sigma * log_probability
                squares += sigma * sigma * (1.0 + s * hazard)
            fitted[i, j] = r
            weight[i, j] = w
            total += loss
            column_loss[j] += loss
        row_loss[i] += total
    return squares


@njit(cache=True, nogil=True)
def weigh(product: Any, weight: Any) -> None:
    """``product *= weight``, whatever the weights' precision."""
    for i in range(product.shape[0]):
        for j in range(product.shape[1]):
            product[i, j] *= weight[i, j]


@njit(cache=True, nogil=True)
def factor_grams(packed: Any, ridge: FloatArray, damping: float, factor: FloatArray, least_pivot: FloatArray) -> None:
    """Cholesky factors L, transposed and packed like the Grams, of each G + diag(ridge), with a reciprocal diagonal.

    ``damping`` is added to the diagonal, relative to it: the share that the Grams' precision cannot resolve. A
    direction without any curvature gets a reciprocal of 0: nothing is stepped along it. ``least_pivot`` is the smallest
    pivot of each system relative to its diagonal entry: small where the system is nearly singular.
    """
    k = len(ridge)
    for m in range(packed.shape[0]):
        row = factor[m]
        least = 1.0
        at = 0
        for i in range(k):
            diagonal = packed[m, at] + ridge[i]
            row[at] = diagonal * (1.0 + damping)
            for j in range(1, k - i):
                row[at + j] = packed[m, at + j]
            before = i  # packed position of (0, i)
            for h in range(i):
                lead = row[before]
                for j in range(k - i):
                    row[at + j] -= lead * row[before + j]
                before += k - h - 1
            pivot = row[at]
            reciprocal = 0.0
            if pivot > 0.1 * damping * diagonal:
                reciprocal = 1.0 / math.sqrt(pivot)
                least = min(least, pivot / diagonal)
            elif diagonal > 0.0:
                least = 0.0
            row[at] = reciprocal
            for j in range(1, k - i):
                row[at + j] *= reciprocal
            at += k - i
        least_pivot[m] = least


@njit(cache=True, nogil=True)
def solve_grams(factor: FloatArray, vectors: FloatArray) -> None:
    """Solve each factored system, in place."""
    k = vectors.shape[1]
    for m in range(vectors.shape[0]):
        row, v = factor[m], vectors[m]
        at = 0
        for i in range(k):
            v[i] *= row[at]
            for j in range(1, k - i):
                v[i + j] -= row[at + j] * v[i]
            at += k - i
        for back in range(k):
            i = k - 1 - back
            at -= k - i
            total = v[i]
            for j in range(1, k - i):
                total -= row[at + j] * v[i + j]
            v[i] = total * row[at]


@njit(cache=True, nogil=True)
def _row_state(
    x: Any, latent: FloatArray, offset: FloatArray, loadings: FloatArray, how: Any, r: FloatArray, w: FloatArray
) -> float:
    """Residuals and weights of one row's cells at ``latent``; returns its loss and penalty."""
    ridge, caps, sigma = how
    total = 0.0
    for m in range(len(latent)):
        total += 0.5 * ridge[m] * latent[m] * latent[m]
    for j in range(len(x)):
        t = offset[j]
        for m in range(len(latent)):
            t += loadings[j, m] * latent[m]
        r[j], w[j] = 0.0, 0.0
        if x[j] > 0.0 or (sigma == 0.0 and x[j] - t + caps[j] < 0.0):
            r[j] = x[j] - t + (0.0 if x[j] > 0.0 else caps[j])
            w[j] = 1.0
            total += 0.5 * r[j] * r[j]
        elif sigma > 0.0 and x[j] <= 0.0:
            s = t / sigma
            log_probability, hazard = log_probability_and_hazard(-s)
            r[j] = -sigma * hazard
            w[j] = min(max(hazard * (hazard - s), 0.0), 1.0) if s < _FAR else 1.0
            total -= sigma * sigma * log_probability
    return total


@njit(cache=True, nogil=True)
def _weighted_gram(vectors: FloatArray, weights: FloatArray, packed: FloatArray) -> None:
    """Upper triangle of sum_j w_j v_j v_j', row by row."""
    packed[:] = 0.0
    k = vectors.shape[1]
    for j in range(len(weights)):
        if weights[j] != 0.0:
            at = 0
            for m in range(k):
                lead = weights[j] * vectors[j, m]
                for h in range(m, k):
                    packed[at + h - m] += lead * vectors[j, h]
                at += k - m


@njit(cache=True, nogil=True)
def careful_rows(
    values: Any, latent: FloatArray, offset: FloatArray, loadings: FloatArray, how: Any, damping: float, still: float
) -> None:
    """Newton steps for each row in place, until one gains a share ``still`` or less.

    ``how`` = (ridge per component, caps, sigma): sigma = 0 for least squares. A step that raises a row's objective is
    tried again with ever more of A'A added to its Gram. As no cell weighs more than 1, A'A bounds the curvature
    everywhere: with all of it the objective cannot rise.
    """
    d, k = loadings.shape
    size = k * (k + 1) // 2
    gram, packed, factor, bound = np.empty(size), np.empty((1, size)), np.empty((1, size)), np.empty(size)
    gradient, step, pivot = np.empty(k), np.empty((1, k)), np.empty(1)
    _weighted_gram(loadings, np.ones(d), bound)
    r, w, moved = np.empty(d), np.empty(d), np.empty(k)
    r_there, w_there = np.empty(d), np.empty(d)
    for i in range(values.shape[0]):
        x, c = values[i], latent[i]
        objective = _row_state(x, c, offset, loadings, how, r, w)
        for _ in range(_CAREFUL_ROUNDS):
            before = objective
            _weighted_gram(loadings, w, gram)
            gradient[:] = -how[0] * c
            for j in range(d):
                if r[j] != 0.0:
                    gradient += r[j] * loadings[j]
            for share in (0.0, 1e-3, 1e-2, 1e-1, 1.0):
                packed[0] = gram + share * bound
                step[0] = gradient
                factor_grams(packed, how[0], damping, factor, pivot)
                solve_grams(factor, step)
                moved[:] = c + step[0]
                there = _row_state(x, moved, offset, loadings, how, r_there, w_there)
                if there <= objective:
                    objective = there
                    c[:], r[:], w[:] = moved, r_there, w_there
                    break
            if before - objective <= still * before:
                break


def unpacked(packed: NDArray[Any], width: int) -> NDArray[Any]:
    """Packed symmetric matrices in full."""
    first, second = np.triu_indices(width)
    full = np.empty((len(packed), width, width), packed.dtype)
    full[:, first, second] = packed
    full[:, second, first] = packed
    return full


def packed_products(vectors: NDArray[Any]) -> NDArray[Any]:
    """Per vector v, the upper triangle of v v', row by row."""
    first, second = np.triu_indices(vectors.shape[1])
    products: NDArray[Any] = vectors[:, first] * vectors[:, second]
    return products
