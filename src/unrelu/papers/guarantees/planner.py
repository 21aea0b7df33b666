"""How many rows the default learner needs for a model: not a worst case, but the law of its errors.

For large n the learned parameters move by the average of the rows' influences
(:mod:`unrelu.papers.guarantees.influence`). With H the influences on all biases, or on all covariances, relative to
|W|_F or |W|_F^2,

    n error^2  ->  |Z|^2,   Z ~ N(0, C),   C = E[H H'],

whose quantiles :class:`unrelu.guarantees.error_law.SquaredError` gives: rows = quantile / error^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from unrelu.distribution import RectifiedGaussian
from unrelu.errors import InvalidParameterError
from unrelu.papers.guarantees.checks import between_0_and_1, number, samples, whole
from unrelu.papers.guarantees.error_law import SquaredError
from unrelu.papers.guarantees.influence import Columns, DrawnRows, Pairs
from unrelu.parameters import RandomState, generator
from unrelu.validation import column_label

_DRAWS = 1000  # rows drawn: their 1000 x 1000 products take 8 MB, and the answer is sure to about one per cent
_SIMILAR = 0.5  # numbers of rows, in logarithms
_MOST_ROWS = 1e15  # more than anyone has
_TINY = 1e-12  # instead of 0, the quantile of a probability near 0
_RAREST = 1e-12  # a column less often above its floor needs more


@dataclass(frozen=True)
class RowsNeeded:
    """What :func:`rows_needed` found.

    ``rows`` is the larger of ``for_bias`` and ``for_weights`` (None where no such error was asked for), each of which
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
    must be given. The law used is that of many rows: right to a few per cent where every column, and every pair
    together, is above its floor tens of times (``fewest_positives`` and ``fewest_joint_positives`` tell), and a rough
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
    plan = _Plan(model.latent, random_state)
    for_bias = None if bias_error is None else plan.rows_for_bias(bias_error, probability)
    for_weights = None if weight_error is None else plan.rows_for_weights(weight_error, probability)
    rows = max(for_bias or 0, for_weights or 0, 2)  # fewer the learner refuses
    fewest = _fewest_positives(model.latent, rows)
    bias, weights = plan.mean_errors(rows)
    return RowsNeeded(rows, for_bias, for_weights, probability, bias, weights, fewest, rows * plan.rarest_pair)


def expected_errors(model: RectifiedGaussian, n: int, *, random_state: RandomState = 0) -> dict[str, float]:
    """Mean errors "bias" and "weights" of the default learner from ``n`` rows of ``model``; see :func:`rows_needed`.

    For one column far above its floor, (b^ - b) / s is the mean of n standard normals: sqrt(2 / (pi n)) on average.

    >>> errors = expected_errors(RectifiedGaussian([20.0], [[4.0]]), 10_000)
    >>> {name: round(error, 4) for name, error in errors.items()}
    {'bias': 0.008, 'weights': 0.0113}
    """
    n = whole("n", n)
    plan = _Plan(model.latent, random_state)
    _fewest_positives(model.latent, n)
    bias, weights = plan.mean_errors(n)
    return {"bias": bias, "weights": weights}


class _Plan:
    """The laws of a model's errors at any number of rows n: error^2 = |Z|^2 / n + fixed, fixed = 0 for the bias."""

    def __init__(self, model: RectifiedGaussian, random_state: RandomState) -> None:
        varying = np.flatnonzero(model.row_norms > 0.0)  # a constant column is learned without error
        if varying.size == 0:
            raise InvalidParameterError("The model is constant (W = 0): errors relative to |W| are undefined.")
        _require_visible(model)
        model = model.marginal(varying.tolist())
        columns = Columns.of(model)
        self._pairs = Pairs.of(columns)
        self._drawn = DrawnRows.draw(model, columns, _DRAWS, generator(random_state))
        self._bias = SquaredError.of_influences(self._drawn.on_bias(), self._drawn.weight)
        self._variances = float(np.sum(columns.variance_of(columns.on_variance)))
        self._last: tuple[float, SquaredError] | None = None
        # P(both above their floors), of the pair where it is smallest
        self.rarest_pair = float(np.min(self._pairs.mean[:, 6], initial=float(np.min(columns.share))))

    def rows_for_bias(self, error: float, probability: float) -> int:
        return samples(float(self._bias.quantile(probability)) / error**2)

    def rows_for_weights(self, error: float, probability: float) -> int:
        """n with error^2 = quantile(n) / n + fixed(n), from n for the mean square in two rounds."""
        n = self._rows_for_mean_square(error**2, spread=1.0)
        for _ in range(2):
            law = self._weights(n)
            n = self._rows_for_mean_square(error**2, spread=max(float(law.quantile(probability)) / law.trace, _TINY))
        return samples(n)

    def mean_errors(self, n: int) -> tuple[float, float]:
        """Of bias and weights."""
        return self._bias.mean_root(n), self._weights(n).mean_root(n, self._moments(n)[1])

    def _rows_for_mean_square(self, error2: float, spread: float) -> float:
        """n with error2 = spread trace(n) / n + fixed(n), which falls with n."""

        def excess(log_n: float) -> float:
            n = math.exp(log_n)
            trace, fixed = self._moments(n)
            return math.log((spread * trace / n + fixed) / error2)

        most = math.log(_MOST_ROWS)
        if excess(most) > 0.0:
            raise InvalidParameterError(
                f"More than {_MOST_ROWS:.0e} rows would be needed: the rarest pair of columns is above its floors"
                f" together with probability {self.rarest_pair:.1e}. Ask for a larger weight_error, or leave columns"
                " out with model.marginal."
            )
        return math.exp(brentq(excess, 0.0, most, xtol=1e-6)) if excess(0.0) > 0.0 else 1.0

    def _moments(self, n: float) -> tuple[float, float]:
        """tr C and the fixed part, of the weights."""
        pairs = self._pairs.at(n)
        return self._variances + 2.0 * float(np.sum(pairs.variance)), 2.0 * pairs.fixed

    def _weights(self, n: float) -> SquaredError:
        """The law of |Z|^2. Its shape is costly and hardly depends on n: that found for a similar n will do."""
        if self._last is None or abs(math.log(n / self._last[0])) > _SIMILAR:
            influences = self._drawn.on_covariance(self._pairs, self._pairs.at(n))
            self._last = n, SquaredError.of_influences(influences, self._drawn.weight)
        return self._last[1].with_trace(self._moments(n)[0])


def _require_visible(model: RectifiedGaussian) -> None:
    rarest, share = _rarest(model)
    if share < _RAREST:
        raise InvalidParameterError(
            f"{_label(model, rarest)} is practically never above its floor (probability {share:.1e}): no number of rows"
            " that could be had tells its bias and norm. Leave it out with model.marginal."
        )


def _fewest_positives(model: RectifiedGaussian, rows: int) -> float:
    """Expected rows above the floor of the rarest column; an error if it would probably not be seen at all."""
    rarest, share = _rarest(model)
    if rows * share < 1.0:
        raise InvalidParameterError(
            f"{_label(model, rarest)} is above its floor in one row of {1.0 / share:,.0f}, so that in {rows:,} rows it"
            " would probably never be, and the learner would refuse it. Plan for more rows (a smaller error), or leave"
            " the column out with model.marginal."
        )
    return rows * share


def _rarest(model: RectifiedGaussian) -> tuple[int, float]:
    """The column least often above its floor, and its probability to be."""
    s = model.row_norms
    above = model.bias - model.floor
    share = np.where(s > 0.0, ndtr(above / np.where(s > 0.0, s, 1.0)), above > 0.0)
    rarest = int(np.argmin(share))
    return rarest, float(share[rarest])


def _label(model: RectifiedGaussian, column: int) -> str:
    label = column_label(column, model.feature_names)
    return label[0].upper() + label[1:]
