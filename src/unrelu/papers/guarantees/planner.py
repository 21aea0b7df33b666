"""How many rows the default learner needs for a model: not a worst case, but the distribution of its errors.

For large n the learned parameters move by the average of the rows' influences. With H the influences on all biases, or
on all covariances, relative to |W|_F or |W|_F^2,

    n error^2  ->  |Z|^2,   Z ~ N(0, C),   C = E[H H'],

whose quantiles :class:`SquaredError` gives: rows = quantile / error^2.

The learner's influences are linear in the twelve statistics m of a pair, centred (:mod:`unrelu.kernels.pair_solver`).
With H_i, a row's influence on (b_i, s_i) in units of s_i, and w, G_i as in :mod:`unrelu.kernels.pair_solver`,

    on b_i:   s_i H_i[0]' m_i             on s_i:   s_i H_i[1]' m_i             on r_ij:  (w - H_i'G_i'w - H_j'G_j'w)' m
    on S_ii:  2 s_i (on s_i)              on S_ij:  s_i s_j (on r_ij) + r_ij ( s_j (on s_i) + s_i (on s_j) ),

the last by S_ij = s_i s_j r_ij. The statistics' covariance V being known, so is the variance of every influence.

A pair that is hardly ever above its floors together says little of r_ij, and the learner's prior, worth a row, decides.
Influences would give it an error without bound; the learner's solver gives its error from n rows instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr, ndtri

from unrelu import RectifiedGaussian
from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.fit import (
    JOINT_P,
    JOINT_Q,
    LARGEST_A,
    expected_correlations,
    moments_of_columns,
    pair_influence,
    row_influence,
)
from unrelu.papers.guarantees.arguments import between_0_and_1, number, samples, whole
from unrelu.validation import RandomState, column_label, generator

__all__ = ["RowsNeeded", "expected_errors", "rows_needed"]

_DRAWS = 1000  # rows drawn: their 1000 x 1000 products take 8 MB, and the result is right to about one per cent
_SIMILAR = 0.5  # numbers of rows, in logarithms
_MOST_ROWS = 1e15  # more than any table has
_LEAST_SPREAD = 1e-12  # instead of 0, the quantile of a probability near 0
_RAREST = 1e-12  # a column less often above its floor needs more
_LEVELS = 10_000
_TINY = 1e-300  # instead of 0, where a parameter has no error
_PAIRS_AT_ONCE = 256  # with 1000 rows, 2 MB an array
_N_STATISTICS, _N_MARGINAL = 12, 6  # of a pair, of which each column has three, and together they have six
_UNSURE = 0.05  # standard error of a correlation from which the prior may matter

Moves = tuple[FloatArray, FloatArray]  # influences of n rows on some parameters, n x q, and their q exact variances
OfWeights = Callable[
    [float], tuple["SquaredError", float]
]  # n -> the distribution of the scattering part, and the fixed one


@dataclass(frozen=True)
class RowsNeeded:
    """The result of :func:`rows_needed`.

    ``rows`` is the larger of ``for_bias`` and ``for_weights`` (None where no such error was given), each of which
    keeps its error with ``probability``. At that many rows ``mean_bias_error`` and ``mean_weight_error`` are to be
    expected; the column rarest above its floor is so ``fewest_positives`` times on average, and the pair rarest above
    its floors together ``fewest_joint_positives`` times.

    >>> import unrelu
    >>> model = unrelu.synthetic.random_model(3, random_state=0)
    >>> needed = rows_needed(model, bias_error=0.05)
    >>> needed.rows == needed.for_bias, needed.for_weights
    (True, None)
    """

    rows: int
    for_bias: int | None
    for_weights: int | None
    probability: float
    mean_bias_error: float
    mean_weight_error: float
    fewest_positives: float
    fewest_joint_positives: float


def rows_needed(
    model: RectifiedGaussian,
    *,
    bias_error: float | None = None,
    weight_error: float | None = None,
    probability: float = 0.95,
    random_state: RandomState = 0,
) -> RowsNeeded:
    """Rows of ``model`` at which the default learner's errors stay within bounds with ``probability``.

    The errors are "bias" and "weights" of :func:`unrelu.metrics.parameter_errors`, each bounded by itself; at least one
    must be given. The distribution used is that of many rows: right to a few per cent where every column, and every
    pair together, is above its floor tens of times (``fewest_positives`` and ``fewest_joint_positives``), and a rough
    guide below. It leaves out the learner's step to a semidefinite matrix, which changes the errors of singular models
    by a few per cent. ``random_state`` draws rows to find how much the errors scatter; their mean square is exact.

    >>> model = RectifiedGaussian([1.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])
    >>> need = rows_needed(model, bias_error=0.05, weight_error=0.05)
    >>> need.for_bias < need.for_weights == need.rows
    True
    >>> again = rows_needed(model, weight_error=0.025)  # half the error: four times the rows
    >>> round(again.rows / need.rows, 2)
    4.0
    """
    if bias_error is None and weight_error is None:
        raise InvalidParameterError("Give bias_error, weight_error or both: the errors that the rows must keep.")
    probability = between_0_and_1("probability", probability)
    for name, error in (("bias_error", bias_error), ("weight_error", weight_error)):
        if error is not None:
            number(name, error, "above 1e-7 and below 1e7", above=1e-7, below=1e7)
    influences, of_bias, of_weights = _distributions(model.latent, random_state)
    for_bias = None if bias_error is None else samples(float(of_bias.quantile(probability)) / bias_error**2)
    for_weights = None
    if weight_error is not None:
        for_weights = _rows_for_weights(influences, of_weights, weight_error, probability)
    rows = max(for_bias or 0, for_weights or 0, 2)  # fewer the learner refuses
    positives, (distribution, fixed) = influences.fewest_positives(rows), of_weights(rows)
    errors = of_bias.mean_root(rows), distribution.mean_root(rows, fixed)
    return RowsNeeded(rows, for_bias, for_weights, probability, *errors, positives, rows * influences.rarest_pair)


def expected_errors(model: RectifiedGaussian, n: int, *, random_state: RandomState = 0) -> dict[str, float]:
    """Mean errors "bias" and "weights" of the default learner from ``n`` rows of ``model``; see :func:`rows_needed`.

    For one column far above its floor, (b^ - b) / s is the mean of n standard normals: sqrt(2 / (pi n)) on average.

    >>> errors = expected_errors(RectifiedGaussian([20.0], [[4.0]]), 10_000)
    >>> {name: round(error, 4) for name, error in errors.items()}
    {'bias': 0.008, 'weights': 0.0113}
    """
    n = whole("n", n)
    influences, of_bias, of_weights = _distributions(model.latent, random_state)
    influences.fewest_positives(n)
    distribution, fixed = of_weights(n)
    return {"bias": of_bias.mean_root(n), "weights": distribution.mean_root(n, fixed)}


def _distributions(model: RectifiedGaussian, random_state: RandomState) -> tuple[Influences, SquaredError, OfWeights]:
    """Influences, and the distributions of errors at any number of rows n: error^2 = |Z|^2 / n + fixed, fixed = 0
    for biases."""
    influences = Influences(model)
    powers, weight = influences.draw(_DRAWS, generator(random_state))
    last: tuple[float, SquaredError] | None = None

    def of_weights(n: float) -> tuple[SquaredError, float]:
        """With the shape of a similar n, as it is costly and hardly depends on n; and fixed(n)."""
        nonlocal last
        if last is None or abs(math.log(n / last[0])) > _SIMILAR:
            last = n, SquaredError.of_influences(influences.on_covariances(powers, n), weight)
        trace, fixed = influences.moments_at(n)
        return last[1].with_trace(trace), fixed

    return influences, SquaredError.of_influences([influences.on_biases(powers)], weight), of_weights


def _rows_for_weights(influences: Influences, of_weights: OfWeights, error: float, probability: float) -> int:
    """n with error^2 = quantile(n) / n + fixed(n), from n for the mean square in two rounds."""
    spread, most = 1.0, math.log(_MOST_ROWS)

    def excess(log_n: float) -> float:
        """Of spread trace(n) / n + fixed(n), which falls with n, over the squared error."""
        n = math.exp(log_n)
        trace, fixed = influences.moments_at(n)
        return math.log((spread * trace / n + fixed) / error**2)

    for last in (False, False, True):
        if excess(most) > 0.0:
            raise InvalidParameterError(
                f"More than {_MOST_ROWS:.0e} rows would be needed: the rarest pair of columns is above its floors"
                f" together with probability {influences.rarest_pair:.1e}. Ask for a larger weight_error, or leave"
                " columns out with model.marginal."
            )
        n = math.exp(brentq(excess, 0.0, most, xtol=1e-6)) if excess(0.0) > 0.0 else 1.0
        if not last:
            distribution, _ = of_weights(n)
            spread = max(float(distribution.quantile(probability)) / distribution.trace, _LEAST_SPREAD)
    return samples(n)


# --- the distribution of a squared error -----------------------------------------------------------------


@dataclass(frozen=True)
class SquaredError:
    """The distribution of n error^2 = |Z|^2, Z ~ N(0, C): ``trace``, ``square`` and ``cube`` are tr C, tr C^2 and
    tr C^3.

    The cumulants are tr C, 2 tr C^2 and 8 tr C^3. A chi-square of f degrees, shifted and scaled, has the same three
    (Pearson's approximation, in Imhof 1961):

        tr C + (tr C^3 / tr C^2) (chi^2_f - f),    f = (tr C^2)^3 / (tr C^3)^2,

    exact where C's nonzero eigenvalues are equal, else right to 3 % from the .7-quantile on (6 % at the median).
    """

    trace: float
    square: float
    cube: float

    @classmethod
    def of_influences(cls, batches: Iterable[Moves], weight: FloatArray) -> SquaredError:
        """From the influences of independent rows with importance weights, and each influence's exact variance.

        With G_kl = H_k'H_l of rows k, l, E[G_kl^2] = tr C^2 and E[G_kl G_lm G_mk] = tr C^3 for distinct k, l, m:
        averages whatever the number of parameters. The draws are used for correlations only, every influence scaled to
        its exact variance; and what C's diagonal contributes is exact, sum C_aa^2 and sum C_aa^3. So rare and large
        influences count even where the draws have missed them.
        """
        n = len(weight)
        pairs, triples = n * (n - 1), n * (n - 1) * (n - 2)
        gram = np.zeros((n, n))
        trace = exact2 = exact3 = drawn2 = drawn3 = 0.0
        for influences, variances in batches:
            h = influences * np.sqrt(variances / np.maximum(weight @ influences**2 / n, _TINY))
            gram += h @ h.T
            trace += float(np.sum(variances))
            exact2 += float(np.sum(variances**2))
            exact3 += float(np.sum(variances**3))
            h2 = h**2 * weight[:, None]
            p1, p2, p3 = h2.sum(axis=0), (h2**2).sum(axis=0), (h2**3).sum(axis=0)
            drawn2 += float(np.sum(p1**2 - p2)) / pairs  # sums over distinct rows, from power sums
            drawn3 += float(np.sum(p1**3 - 3.0 * p1 * p2 + 2.0 * p3)) / triples
        gram *= np.sqrt(np.outer(weight, weight))
        np.fill_diagonal(gram, 0.0)
        square = exact2 + max(float(np.sum(gram**2)) / pairs - drawn2, 0.0)
        cube = exact3 + float(np.sum((gram @ gram) * gram)) / triples - drawn3
        # Any C keeps to these bounds (Cauchy-Schwarz); averages over draws may miss them by a little.
        square = min(square, trace**2)
        return cls(trace, square, min(max(cube, square**2 / trace), square**1.5))

    def with_trace(self, trace: float) -> SquaredError:
        """The distribution of the same shape with another mean."""
        k = trace / self.trace
        return SquaredError(trace, k**2 * self.square, k**3 * self.cube)

    def quantile(self, probability: ArrayLike) -> FloatArray:
        degrees = self.square**3 / self.cube**2
        unit = self.cube / self.square
        chi2 = chdtri(degrees, 1.0 - np.asarray(probability, dtype=np.float64))
        return np.asarray(np.maximum(self.trace + unit * (chi2 - degrees), 0.0))  # below 0 by rounding only

    def mean_root(self, n: float = 1.0, fixed: float = 0.0) -> float:
        """E[error] at n rows, error^2 = |Z|^2 / n + fixed: the average of the quantiles' roots."""
        levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
        return float(np.mean(np.sqrt(self.quantile(levels) / n + fixed)))


# --- how one row moves every learned parameter, relative to |W|_F as the errors are -------------


class Influences:
    """How one row of a model moves the learned parameters of its columns; constant ones are learned without error.

    Of columns: ``a``, ``share`` the probability to be above the floor, ``scale`` s_i / |W|_F, ``moments`` d x 5,
    E[v^p 1{above}], ``influence`` d x 2 x 3, H_i. Of pairs ``i`` < ``j``: effects (pairs x 12) on s_i s_j r_ij through
    the correlation, and through the norms; ``mean`` are the statistics' expectations, ``second`` (pairs x 3) the
    variances and covariance of the two parts: of the correlation's (infinite where the pair is blind, never above both
    floors), of both, of the norms'. ``rarest_pair``: the least probability that a pair is above its floors together.
    """

    def __init__(self, model: RectifiedGaussian) -> None:
        s, above = model.std, model.mean - model.floor
        if not s.any():
            raise InvalidParameterError("The model is constant (W = 0): errors relative to |W| are undefined.")
        share = np.where(s > 0.0, ndtr(above / np.where(s > 0.0, s, 1.0)), above > 0.0)
        label = column_label(int(np.argmin(share)), model.feature_names)
        self._rarest = label[0].upper() + label[1:], float(share.min())
        if share.min() < _RAREST:
            raise InvalidParameterError(
                f"{self._rarest[0]} is practically never above its floor (probability {share.min():.1e}): no feasible"
                " number of rows determines its bias and norm. Leave it out with model.marginal."
            )
        model = model.marginal(np.flatnonzero(s > 0.0).tolist())
        s = model.std
        self._standard = model.weights() / s[:, None]
        self.a = np.minimum((model.mean - model.floor) / s, LARGEST_A)
        self.share, self.scale, self.correlation = ndtr(self.a), s / np.linalg.norm(s), model.correlation
        self.moments = moments_of_columns(self.a)
        self.influence = row_influence(self.a, at_bound=np.zeros(len(s), dtype=np.bool_))
        # effects of the statistics (p, v, v^2) on b_i, and on S_ii = s_i^2
        self._on_bias: FloatArray = self.scale[:, None] * self.influence[:, 0]
        self._on_variance: FloatArray = 2.0 * self.scale[:, None] ** 2 * self.influence[:, 1]
        self._variances = float(np.sum(self._variance_of(self._on_variance)))
        self.i, self.j = np.triu_indices(len(s), 1)
        size = self.scale[self.i] * self.scale[self.j]  # s_i s_j / |W|_F^2
        on_norms = (size * self.correlation[self.i, self.j])[:, None] * np.ones(_N_STATISTICS)
        on_norms[:, :3] *= self.influence[self.i, 1]
        on_norms[:, 3:_N_MARGINAL] *= self.influence[self.j, 1]
        on_norms[:, _N_MARGINAL:] = 0.0
        self.on_norms, self.on_correlation, self.mean = on_norms, np.empty_like(on_norms), np.empty_like(on_norms)
        self.second = np.empty((len(size), 3))
        for k, (mean, through, v, blind) in enumerate(pair_influence(self.a, self.correlation)):
            through, norms = size[k] * through, on_norms[k]
            self.mean[k], self.on_correlation[k] = mean, through
            self.second[k] = np.inf if blind else through @ v @ through, through @ v @ norms, norms @ v @ norms
        self.rarest_pair = float(np.min(self.mean[:, 6], initial=float(np.min(self.share))))

    def fewest_positives(self, rows: int) -> float:
        """Expected rows above the floor of the rarest column; an error if it would probably not be seen at all."""
        label, share = self._rarest
        if rows * share < 1.0:
            raise InvalidParameterError(
                f"{label} is above its floor in one row of {1.0 / share:,.0f}, so that in {rows:,} rows it would"
                " probably never be, and the learner would refuse it. Plan for more rows (a smaller error), or leave"
                " the column out with model.marginal."
            )
        return rows * share

    def _variance_of(self, effect: FloatArray) -> FloatArray:
        """Variance of effect' m_i: products of statistics are moments again."""
        second = np.stack([self.moments[:, p : p + 3] for p in range(3)], axis=1)
        mean = self.moments[:, :3]
        covariance = second - mean[:, :, None] * mean[:, None, :]
        return np.asarray(np.einsum("ik,ikl,il->i", effect, covariance, effect))

    def at(self, n: float) -> tuple[FloatArray, FloatArray, float]:
        """Of every pair at n rows: the share of r's influence that remains, and the variance of the influence on S_ij.

        Where r has a large error, its influence is scaled to the standard error that the learner's solver states for
        expected statistics, and its estimate from them, where the prior has drawn it, is a fixed error: their squares'
        sum, which does not scatter, comes last.
        """
        n, (correlation, both, norms) = float(n), self.second.T
        size = self.scale[self.i] * self.scale[self.j]  # s_i s_j / |W|_F^2
        unsure = np.flatnonzero(correlation > n * (_UNSURE * size) ** 2)
        i, j, size = self.i[unsure], self.j[unsure], size[unsure]
        estimate, stderr = expected_correlations((i, j), self.mean[unsure], self.a, n)
        blind = np.isinf(correlation[unsure])
        error2 = (size * stderr) ** 2
        share = np.ones(len(correlation))  # of the influence on r, in standard deviations
        share[unsure] = np.where(blind, 0.0, np.minimum(np.sqrt(n * error2 / correlation[unsure]), 1.0))
        variance = share**2 * np.where(np.isinf(correlation), 0.0, correlation) + 2.0 * share * both + norms
        drawn = size * (estimate - self.correlation[i, j])
        fixed = float(np.sum(drawn**2) + np.sum(error2[blind]))
        return share, np.maximum(variance, 0.0), fixed

    def moments_at(self, n: float) -> tuple[float, float]:
        """tr C and the fixed part, of the weights."""
        _, variance, fixed = self.at(n)
        return self._variances + 2.0 * float(np.sum(variance)), 2.0 * fixed

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Rows of the model in the statistics' terms, 3 x n x d, (p, v p, v^2 p), and their weights.

        A column that is rarely above its floor has rare, large influences, which plain draws would miss. Half of the
        rows are therefore drawn given that some column, each as often as the others, is above its floor. Their density
        is 1/2 + 1/2 mean_i( 1{above_i} / P(above_i) ) times the model's; averages weighted by its inverse, at most 2,
        are the model's.
        """
        d = len(self.a)
        u = rng.standard_normal((n, d)) @ self._standard.T
        lifted = np.flatnonzero(rng.random(n) < 0.5)
        column = rng.integers(d, size=len(lifted))
        # P(u > -a) = Phi(a), and -u given u > -a is Phi^-1 of a uniform share of Phi(a).
        lift = -ndtri(self.share[column] * rng.random(len(lifted))) - u[lifted, column]
        u[lifted] += lift[:, None] * self.correlation[column]  # the others, given this one
        above: BoolArray = u > -self.a
        weight = 1.0 / (0.5 + 0.5 * np.mean(above / self.share, axis=1))
        v = np.where(above, u - np.maximum(-self.a, 0.0), 0.0)
        return np.stack([above.astype(np.float64), v, v * v]), weight

    def on_biases(self, powers: FloatArray) -> Moves:
        """Of drawn rows on the biases."""
        return np.einsum("knd,dk->nd", self._centred(powers), self._on_bias), self._variance_of(self._on_bias)

    def on_covariances(self, powers: FloatArray, n: float) -> Iterator[Moves]:
        """On the covariances that n rows give, some at a time; those of pairs times sqrt(2), for S_ij and S_ji."""
        centred, effect = self._centred(powers), self._on_variance
        yield np.einsum("knd,dk->nd", centred, effect), self._variance_of(effect)
        share, variance, _ = self.at(n)
        for start in range(0, len(self.i), _PAIRS_AT_ONCE):
            batch = slice(start, start + _PAIRS_AT_ONCE)
            i, j, mean = self.i[batch], self.j[batch], self.mean[batch]
            effect = share[batch, None] * self.on_correlation[batch] + self.on_norms[batch]
            total = np.einsum("knp,pk->np", centred[:, :, i], effect[:, :3])
            total += np.einsum("knp,pk->np", centred[:, :, j], effect[:, 3:_N_MARGINAL])
            x, y = powers[:, :, i], powers[:, :, j]
            for k, (p, q) in enumerate(zip(JOINT_P, JOINT_Q, strict=True), start=_N_MARGINAL):
                total += effect[:, k] * (x[p] * y[q] - mean[:, k])
            yield np.sqrt(2.0) * total, 2.0 * variance[batch]

    def _centred(self, powers: FloatArray) -> FloatArray:
        # Centred before they are multiplied: far above the floor, p = 1 has effects as large as (b - floor)^2 / s^2.
        return np.asarray(powers - self.moments[:, :3].T[:, None, :])
