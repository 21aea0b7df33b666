"""Correlations that can be inverted: shrunken towards factors plus noise, by as much as their errors say.

Pairs are learned one by one; made one matrix X they often have directions without variance, where rows do have some.
Rows are therefore scored by

    (1 - a) X + a T,     T = L L' + Psi with unit diagonal and k factors.

Errors E of the correlations cost a row's log density tr(T^-1 E T^-1 E)/4 on average (the Kullback-Leibler divergence
to second order). Mixing costs least at a = E|E|^2 / |R - T|^2 in that metric, as Ledoit and Wolf (2004) have it for
squared errors, less the share of E that T follows. With Y = T^-1/2 R T^-1/2, Q = T^-1, n rows and standard errors s,

    E|E|^2 = ( |Y|^2 + (tr Y)^2 ) / n                                as of the covariance of n rows,
           + 1/2 sum x_ij (Q_ii Q_jj + Q_ij^2)                       for x_ij = s_ij^2 - (1 - r_ij^2)^2 / n > 0,
           + 2 sum of squares of Y's negative eigenvalues            pairs that disagree by more than that.

Errors of rows (the first line) fit together: they leave a direction without variance alone. What floors and gaps add
(the second) does so only in part; one half is near the best on simulated tables (docs/research/022). k counts the
directions that stand out of noise: T^-1 X has an eigenvalue beyond 1.5 (1 + sqrt(d/n'))^2, the edge for n' rows, n' by
the errors, or leaves a pair so strong that shrinking it would cost more than all noise.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, svd
from scipy.linalg.lapack import dpotri

from unrelu.contracts import FloatArray, PairCorrelations, Shrinkage
from unrelu.fit.nearest import is_definite, largest_eigenpairs, largest_eigenvalue, smallest_eigenvalue
from unrelu.passes.device import all_eigenvalues, multiplier

_MOST_FACTORS = 6
_EDGE = 1.5  # times the largest eigenvalue that noise alone has
_STRONG, _CERTAIN = 0.6, 5.0  # a pair that T leaves as strong as that, by so many standard errors, needs a factor, too
_PART_APART = 0.5  # of the errors that floors and gaps add, does not fit together
_AS_GOOD = 0.5  # an amount from which T alone is at least as good as the correlations alone
_NO_MATTER = 0.04  # four times the log density that errors of X may cost a row before anything is shrunken
_LEAST_FREE = 0.1  # share of the pairs that T does not follow: a T that follows all differs only where X is singular
_ROUNDING = 1e-6  # noise of every column, for columns that determine each other exactly
_CONVERGED = 1e-3  # of a uniqueness: T need not be exact
_MOST_ROUNDS, _WORK = 30, 2e9  # rounds of a factor fit, and rounds x d^3 where there are many factors
_LEAST_EIGENVALUE = 1e-9
_SMALLEST_ERROR = 1e-8  # of a correlation, that of a perfect one


def scoring_correlation(
    pairs: PairCorrelations, nearest_one: FloatArray, n_rows: float, rank: int | None = None, place: Any = None
) -> tuple[FloatArray, Shrinkage]:
    """(correlations to score rows by, what was done). ``nearest_one``: X; constant columns have no covariance in it.
    With a ``rank`` k the model is W W' and noise: T of k factors itself, with what W leaves of each column as Psi."""
    d = len(nearest_one)
    r, variance, apart = _with_variances(pairs, n_rows)
    if rank is not None and rank >= d:
        rank = None
    certain = d == 1
    # Are the errors of X so small that they cost scores next to nothing?
    if rank is None and not certain and d * (d + 1) / n_rows <= _NO_MATTER:
        with suppress(LinAlgError):
            lower, _ = dpotri(np.linalg.cholesky(nearest_one), lower=True)  # X^-1, its lower half alone
            energy = _apart_energy(lower + np.tril(lower, -1).T, apart)
            certain = d * (d + 1) / n_rows + energy <= _NO_MATTER
    if certain:
        return nearest_one, Shrinkage(0.0, 0, smallest_eigenvalue(nearest_one, place))
    rows = rows_by_errors(r, variance, n_rows)
    if rank is not None:
        target = Target(factor_loadings(r, rank, _least_noise(variance, rows / (rank + 1)), place))
        amount, k, mixed = 1.0, rank, target.matrix
    else:
        k, target = _target(nearest_one, rows, _least_noise(variance, rows), place=place)
        amount = _amount(r, target, apart, n_rows, k, place)
        mixed = target.matrix
        mixed *= amount
        mixed += (1.0 - amount) * nearest_one
    mixed *= 1.0 - _ROUNDING
    mixed[np.diag_indices(d)] += _ROUNDING
    return mixed, Shrinkage(amount, k, smallest_eigenvalue(mixed, place))


@dataclass(frozen=True, eq=False)
class Target:
    """T = L L' + Psi with unit diagonal, from L alone; k directions and d numbers, whatever the use. With D =
    Psi^1/2 and D^-1 L = U diag(s) V' the matrix A = (I - U diag(1 - 1/sqrt(1 + s^2)) U') D^-1 has A T A' = I."""

    loadings: FloatArray

    @property
    def matrix(self) -> FloatArray:
        matrix: FloatArray = self.loadings @ self.loadings.T
        np.fill_diagonal(matrix, 1.0)
        return matrix

    @cached_property
    def spread(self) -> FloatArray:
        """The diagonal of D."""
        return np.asarray(np.sqrt(1.0 - np.sum(self.loadings * self.loadings, axis=1)))

    @cached_property
    def _directions(self) -> tuple[FloatArray, FloatArray]:
        """U and s."""
        if self.loadings.shape[1] == 0:
            return self.loadings, np.zeros(0)
        u, s, _ = svd(self.loadings / self.spread[:, None], full_matrices=False)
        return u, s

    def _whiten(self, v: FloatArray) -> FloatArray:
        """(I - U diag(1 - 1/sqrt(1 + s^2)) U') v."""
        u, s = self._directions
        kept = 1.0 - 1.0 / np.sqrt(1.0 + s * s)
        return np.asarray(v - (u * kept) @ (u.T @ v))

    def whitened(self, r: FloatArray) -> FloatArray:
        """A R A': the Y of the module's text, up to a rotation."""
        half = self._whiten(r / self.spread[:, None])
        half /= self.spread
        return self._whiten(half.T)

    def largest_of(self, x: FloatArray, place: Any = None) -> float:
        """The largest eigenvalue of T^-1 X."""
        times = multiplier(x, place)
        return largest_eigenvalue(
            lambda v: self._whiten(times(self._whiten(v) / self.spread) / self.spread), len(self.loadings)
        )

    @property
    def inverse(self) -> FloatArray:
        u, s = self._directions
        w = u * (s / np.sqrt(1.0 + s * s)) / self.spread[:, None]
        inverse = w @ -w.T
        inverse[np.diag_indices(len(w))] += self.spread**-2
        return np.asarray(inverse)

    @property
    def inverse_diagonal(self) -> FloatArray:
        u, s = self._directions
        return np.asarray((1.0 - np.sum(u * u * (s * s / (1.0 + s * s)), axis=1)) / self.spread**2)


def _apart_energy(q: FloatArray, apart: FloatArray) -> float:
    diagonal = np.diagonal(q)
    return _PART_APART * float(np.sum(apart * (np.outer(diagonal, diagonal) + q * q)))


def _least_noise(variance: FloatArray, rows: float) -> FloatArray:
    """Per column, the least variance that the others may leave it: the error of its best pair, and that of a mean."""
    others = variance + np.diag(np.full(len(variance), np.inf))
    return np.asarray(np.clip(np.sqrt(np.min(others, axis=0)), min(1.0 / rows, 0.5), 0.5))


def rows_of_pairs(r: FloatArray, variance: FloatArray, n: float) -> FloatArray:
    """For every pair, how many rows without floors and gaps would have as small an error: (1 - r^2)^2 / variance,
    at most n."""
    rows = np.full_like(r, n)
    np.divide((1.0 - r * r) ** 2, variance, out=rows, where=variance > 0.0)
    return np.asarray(np.clip(rows, 1.0, n))


def rows_by_errors(r: FloatArray, variance: FloatArray, n: float) -> float:
    """The number of rows without floors and gaps that would have as small an error of a typical pair."""
    at = np.triu_indices(len(r), 1)
    positive = variance[at] > 0.0
    if not positive.any():
        return n
    return float(np.clip(np.median(((1.0 - r[at] ** 2) ** 2)[positive] / variance[at][positive]), 1.0, n))


def _amount(r: FloatArray, target: Target, apart: FloatArray, n: float, k: int, place: Any = None) -> float:
    """The a of the module's text."""
    d = len(r)
    y = target.whitened(r)
    size, trace = float(np.vdot(y, y)), float(np.trace(y))
    distance = size - 2.0 * trace + d  # |Y - I|^2
    noise = (size + trace**2) / n + _apart_energy(target.inverse, apart)
    followed = (d * k - k * (k - 1) / 2) / (d * (d - 1) / 2)  # parameters of T among the pairs
    free = max(1.0 - followed, _LEAST_FREE)
    if free * noise < distance and not is_definite(r):  # Y has as many negative eigenvalues as R
        below = np.minimum(all_eigenvalues(y, place), 0.0)
        noise += 2.0 * float(below @ below)
    return float(min(1.0, free * noise / max(distance, 1e-300)))


def _target(
    x: FloatArray, rows: float, least: FloatArray, most: int = _MOST_FACTORS, place: Any = None
) -> tuple[int, Target]:
    """(k, T) with as many factors as stand out of the noise."""
    d = len(x)
    most = min(most, (d - 1) // 2)
    edge = _EDGE * (1.0 + np.sqrt(d / rows)) ** 2
    certain = max(_STRONG, _CERTAIN / np.sqrt(rows))
    k, target = 0, Target(np.zeros((d, 0)))
    while k < most and (target.largest_of(x, place) > edge or _strongest_left(x, target) >= certain):
        k += 1
        target = Target(factor_loadings(x, k, least, place))
    return k, target


def _strongest_left(x: FloatArray, target: Target) -> float:
    """The largest |X - T|, relative to what all other columns leave of the two."""
    left = target.matrix
    left -= x
    np.abs(left, out=left)
    size = np.sqrt(target.inverse_diagonal)
    left *= size
    left *= size[:, None]
    return float(left.max())


def factor_loadings(x: FloatArray, k: int, least: FloatArray, place: Any = None) -> FloatArray:
    """L of L L' + Psi with unit diagonal: the most likely L given Psi, and Psi = 1 - diag(L L'), at least ``least``."""
    d = len(x)
    noise = np.full(d, 0.5)
    for _ in range(_MOST_ROUNDS if k <= _MOST_FACTORS else int(np.clip(_WORK / d**3, 3, _MOST_ROUNDS))):
        noise_std = np.sqrt(noise)
        values, vectors = largest_eigenpairs(x, k, noise_std, place)
        loadings = noise_std[:, None] * vectors * np.sqrt(np.maximum(values - 1.0, 0.0))
        explained = np.sum(loadings * loadings, axis=1)
        before, noise = noise, np.clip(1.0 - explained, least, 1.0)
        if np.max(np.abs(noise - before)) < _CONVERGED:
            break
    return np.asarray(loadings * np.sqrt(np.minimum(1.0, (1.0 - least) / np.maximum(explained, 1e-300)))[:, None])


# --- factors alone, where rows by the thousand are to be scored many times -------------------------


def enough_factors(pairs: PairCorrelations, n_rows: float, most: int) -> int | None:
    """With how many factors T costs rows no more than the errors of R do; None if with more than ``most``. T misses R
    by |R - T|^2, of which E|E|^2 is due to errors, so that it costs less where a is at least one half."""
    r, variance, apart = _with_variances(pairs, n_rows)
    rows = rows_by_errors(r, variance, n_rows)
    k, target = _target(r, rows, _least_noise(variance, rows), most)
    return k if _amount(r, target, apart, n_rows, k) >= _AS_GOOD else None


def factor_target(pairs: PairCorrelations, n_rows: float, k: int) -> Target:
    """T of k factors, for correlations that are the less believed the larger their errors."""
    r, variance, _ = _with_variances(pairs, n_rows)
    keep = 1.0 - error_share(pairs.correlation, pairs.stderr)
    r *= keep
    np.fill_diagonal(r, 1.0)
    return Target(factor_loadings(r, k, _least_noise(variance, rows_by_errors(r, variance, n_rows))))


def _with_variances(pairs: PairCorrelations, n: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Correlations, their squared errors, and the x_ij of the module's text; a pair that was not recovered is 0 and may
    be anything."""
    r, variance = np.nan_to_num(pairs.correlation), np.nan_to_num(pairs.stderr, nan=1.0) ** 2
    apart = np.maximum(variance - (1.0 - r * r) ** 2 / n, 0.0)
    np.fill_diagonal(apart, 0.0)
    return r, variance, apart


# --- towards independence, for groups of rows that come and go ---------------------------------------


def error_share(correlation: FloatArray, stderr: FloatArray) -> float:
    """The share of the correlations' squares that is sampling error, the best weight of the identity (Schaefer and
    Strimmer 2005, target D), squares weighted by 1/stderr^2, lest one uncertain pair takes all others with it."""
    at = np.triu_indices(len(correlation), 1)
    certain = float(np.sum((correlation[at] / np.maximum(stderr[at], _SMALLEST_ERROR)) ** 2))
    return min(1.0, len(at[0]) / certain) if certain > 0.0 else 0.0


def shrunken(correlation: FloatArray, keep: float) -> FloatArray:
    """keep R + (1 - keep) I, with less of R where pairs estimated one by one do not fit together. Components come and
    go; only the model at the end is worth a proper assembly."""
    alone = np.eye(len(correlation))
    while True:
        mixed = keep * correlation + (1.0 - keep) * alone
        try:
            np.linalg.cholesky(mixed + _LEAST_EIGENVALUE * alone)
        except np.linalg.LinAlgError:
            keep *= 0.95
        else:
            return mixed
