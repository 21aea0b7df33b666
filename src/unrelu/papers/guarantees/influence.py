"""How one row moves every learned parameter, relative to |W|_F as the errors are.

The learner's influences are linear in the twelve statistics m of a pair, centred (:mod:`unrelu.kernels.pair_model`).
With H_i, a row's influence on (b_i, s_i) in units of s_i, and w, G_i as in :mod:`unrelu.kernels.pair_solver`,

    on b_i:   s_i H_i[0]' m_i             on s_i:   s_i H_i[1]' m_i             on r_ij:  (w - H_i'G_i'w - H_j'G_j'w)' m
    on S_ii:  2 s_i (on s_i)              on S_ij:  s_i s_j (on r_ij) + r_ij ( s_j (on s_i) + s_i (on s_j) ),

the last by S_ij = s_i s_j r_ij. The statistics' covariance V being known, so is the variance of every influence.

A pair that is hardly ever above its floors together says little of r_ij, and the learner's prior, worth a row, decides.
Influences would give it an error without bound; :meth:`Pairs.at` asks the learner's solver what it makes of n rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from unrelu.contracts import BoolArray, FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.kernels import pair_model, pair_solver
from unrelu.marginals.censored_likelihood import row_influence
from unrelu.papers.guarantees.error_law import Influences

_PAIRS_AT_ONCE = 256  # with 1000 rows, 2 MB an array
_PERFECT = 1.0 - 1e-9  # the learner sees that such a pair lies on a line: its correlation has no error
_LEAST_INFORMATION = 1e-14  # of a row on r: beyond it rounding decides, and rows that nobody has
_UNSURE = 0.05  # standard error of a correlation from which the prior may be felt


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a model, all varying: a_i, the probability to be above the floor, s_i / |W|_F, r and so on.

    ``moments`` is d x 5, E[v^p 1{above}]; ``influence`` is d x 2 x 3, H_i.
    """

    a: FloatArray
    share: FloatArray
    scale: FloatArray
    correlation: FloatArray
    moments: FloatArray
    influence: FloatArray

    @classmethod
    def of(cls, model: RectifiedGaussian) -> Columns:
        s = model.row_norms
        a = np.minimum((model.bias - model.floor) / s, pair_model.LARGEST_A)
        influence = row_influence(a, at_bound=np.zeros(len(a), dtype=np.bool_))
        return cls(a, ndtr(a), s / np.linalg.norm(s), model.correlation, pair_model.moments_of_columns(a), influence)

    def for_kernels(self, n: float) -> pair_solver.Columns:
        return pair_solver.Columns(self.a, self.moments, self.influence, np.full(len(self.a), n))

    @property
    def on_bias(self) -> FloatArray:
        """d x 3: effect of the statistics (p, v, v^2) on b_i."""
        return np.asarray(self.scale[:, None] * self.influence[:, 0])

    @property
    def on_variance(self) -> FloatArray:
        """d x 3: effect on S_ii = s_i^2."""
        return np.asarray(2.0 * self.scale[:, None] ** 2 * self.influence[:, 1])

    def variance_of(self, effect: FloatArray) -> FloatArray:
        """Variance of effect' m_i: products of statistics are moments again."""
        second = np.stack([self.moments[:, p : p + 3] for p in range(3)], axis=1)
        mean = self.moments[:, :3]
        covariance = second - mean[:, :, None] * mean[:, None, :]
        return np.asarray(np.einsum("ik,ikl,il->i", effect, covariance, effect))


@dataclass(frozen=True, eq=False)
class PairErrors:
    """Pairs at some number of rows: the ``share`` of r's influence that is felt, the ``variance`` of that on S_ij.

    ``fixed`` is the sum of the pairs' squared errors that do not scatter.
    """

    share: FloatArray
    variance: FloatArray
    fixed: float


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs i < j: effects (pairs x 12) on s_i s_j r_ij through the correlation, and through the norms.

    ``mean`` are the statistics' expectations, ``second`` (pairs x 3) the variances and covariance of the two parts:
    of the correlation's (infinite where the pair is blind, never above both floors), of both, of the norms'.
    """

    columns: Columns
    i: NDArray[np.intp]
    j: NDArray[np.intp]
    on_correlation: FloatArray
    on_norms: FloatArray
    mean: FloatArray
    second: FloatArray

    @classmethod
    def of(cls, columns: Columns) -> Pairs:
        first, second = np.triu_indices(len(columns.a), 1)
        shape = (len(first), pair_model.N_STATISTICS)
        pairs = cls(
            columns, first, second, np.zeros(shape), np.zeros(shape), np.empty(shape), np.empty((len(first), 3))
        )
        work = _PairWork(columns)
        for k, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            work.fill(i, j, pairs.on_correlation[k], pairs.on_norms[k], pairs.mean[k], pairs.second[k])
        return pairs

    @property
    def size(self) -> FloatArray:
        """s_i s_j / |W|_F^2."""
        return np.asarray(self.columns.scale[self.i] * self.columns.scale[self.j])

    def at(self, n: float) -> PairErrors:
        """What n rows make of every pair.

        Where r is unsure, its influence is scaled to the standard error that the learner's solver states for expected
        statistics, and its estimate from them, where the prior has drawn it, is a fixed error.
        """
        n = float(n)
        correlation, both, norms = self.second.T
        unsure = np.flatnonzero(correlation > n * (_UNSURE * self.size) ** 2)
        estimate, stderr = self._solve(unsure, n)
        blind = np.isinf(correlation[unsure])
        error2 = (self.size[unsure] * stderr) ** 2
        share = np.ones(len(correlation))  # of the influence on r, in standard deviations
        share[unsure] = np.where(blind, 0.0, np.minimum(np.sqrt(n * error2 / correlation[unsure]), 1.0))
        variance = share**2 * np.where(np.isinf(correlation), 0.0, correlation) + 2.0 * share * both + norms
        drawn = self.size[unsure] * (estimate - self.columns.correlation[self.i[unsure], self.j[unsure]])
        fixed = float(np.sum(drawn**2) + np.sum(error2[blind]))
        return PairErrors(share, np.maximum(variance, 0.0), fixed)

    def _solve(self, which: NDArray[np.intp], n: float) -> tuple[FloatArray, FloatArray]:
        """The learner's correlation and standard error, from n rows whose statistics are as expected."""
        rows, estimate, stderr = np.full(len(which), n), np.empty(len(which)), np.empty(len(which))
        pairs, columns = (self.i[which], self.j[which]), self.columns.for_kernels(n)
        pair_solver.solve_pairs(pairs, self.mean[which], rows, rows, columns, estimate, stderr)
        return estimate, stderr


class _PairWork:
    """One pair after the other, in the kernels' work space."""

    def __init__(self, columns: Columns) -> None:
        self._columns, self._one_row = columns, columns.for_kernels(1.0)
        self._unused = np.zeros(pair_model.N_STATISTICS)

    def fill(
        self, i: int, j: int, on_correlation: FloatArray, on_norms: FloatArray, mean: FloatArray, second: FloatArray
    ) -> None:
        """Fill a row of :class:`Pairs`."""
        c, work = self._columns, pair_solver.workspace((i, j), self._one_row, self._unused)
        r, size = float(c.correlation[i, j]), c.scale[i] * c.scale[j]
        inner = min(max(r, -_PERFECT), _PERFECT)  # the moments have no limit at 1 that could be computed
        _, information = pair_solver.evaluate(c.a[i], c.a[j], inner, work)
        mean[:] = work[pair_model.MEAN]
        blind = information < _LEAST_INFORMATION
        if inner == r and not blind:
            # leaves its linear form
            pair_solver.sampling_variance(c.a[i], c.a[j], 1.0, 1.0, 1.0, information, work)
            linear = work[pair_solver.WEIGHTS : pair_solver.THROUGH + 2]
            on_correlation[:] = size * linear.sum(axis=0)
        on_norms[:3], on_norms[3:6] = size * r * c.influence[i, 1], size * r * c.influence[j, 1]
        lower = np.tril(work[pair_model.V : pair_model.V + pair_model.N_STATISTICS])
        v = lower + np.tril(lower, -1).T
        second[0] = np.inf if inner == r and blind else on_correlation @ v @ on_correlation
        second[1] = on_correlation @ v @ on_norms
        second[2] = on_norms @ v @ on_norms


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows of the model with weights, in the statistics' terms: ``powers`` is 3 x n x d, (p, v p, v^2 p).

    A column that is rarely above its floor has rare, large influences, which plain draws would miss. Half of the rows
    are therefore drawn given that some column, each as often as the others, is above its floor. Their density is
    1/2 + 1/2 mean_i( 1{above_i} / P(above_i) ) times the model's; averages weighted by its inverse, at most 2, are the
    model's.
    """

    columns: Columns
    powers: FloatArray
    weight: FloatArray

    @classmethod
    def draw(cls, model: RectifiedGaussian, columns: Columns, n: int, rng: np.random.Generator) -> DrawnRows:
        d = len(columns.a)
        u = rng.standard_normal((n, d)) @ (model.weights() / model.row_norms[:, None]).T
        lifted = np.flatnonzero(rng.random(n) < 0.5)
        column = rng.integers(d, size=len(lifted))
        # P(u > -a) = Phi(a), and -u given u > -a is Phi^-1 of a uniform share of Phi(a).
        lift = -ndtri(columns.share[column] * rng.random(len(lifted))) - u[lifted, column]
        u[lifted] += lift[:, None] * columns.correlation[column]  # the others, given this one
        above: BoolArray = u > -columns.a
        weight = 1.0 / (0.5 + 0.5 * np.mean(above / columns.share, axis=1))
        v = np.where(above, u - np.maximum(-columns.a, 0.0), 0.0)
        return cls(columns, np.stack([above.astype(np.float64), v, v * v]), weight)

    @cached_property
    def _centred(self) -> FloatArray:
        # Centred before they are multiplied: far above the floor, p = 1 has effects as large as (b - floor)^2 / s^2.
        return np.asarray(self.powers - self.columns.moments[:, :3].T[:, None, :])

    def on_bias(self) -> Iterator[Influences]:
        """On the biases."""
        yield self._own(self.columns.on_bias)

    def on_covariance(self, pairs: Pairs, errors: PairErrors) -> Iterator[Influences]:
        """On the covariances, some at a time; those of pairs times sqrt(2), for S_ij and S_ji."""
        yield self._own(self.columns.on_variance)
        for start in range(0, len(pairs.i), _PAIRS_AT_ONCE):
            batch = slice(start, start + _PAIRS_AT_ONCE)
            effect = errors.share[batch, None] * pairs.on_correlation[batch] + pairs.on_norms[batch]
            yield np.sqrt(2.0) * self._of_pairs(pairs, batch, effect), 2.0 * errors.variance[batch]

    def _own(self, effect: FloatArray) -> Influences:
        return np.einsum("knd,dk->nd", self._centred, effect), self.columns.variance_of(effect)

    def _of_pairs(self, pairs: Pairs, batch: slice, effect: FloatArray) -> FloatArray:
        i, j = pairs.i[batch], pairs.j[batch]
        marginal = pair_model.N_MARGINAL
        total = np.einsum("knp,pk->np", self._centred[:, :, i], effect[:, :3])
        total += np.einsum("knp,pk->np", self._centred[:, :, j], effect[:, 3:marginal])
        x, y = self.powers[:, :, i], self.powers[:, :, j]
        for k, (p, q) in enumerate(zip(pair_model.JOINT_P, pair_model.JOINT_Q, strict=True), start=marginal):
            total += effect[:, k] * (x[p] * y[q] - pairs.mean[batch, k])
        return np.asarray(total)
