"""Columns that the model fits least: the table's quantiles beside those of the model, from a sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import beta

from unrelu.contracts import Block, FloatArray, RowParameters, Samples
from unrelu.distribution import RectifiedGaussian
from unrelu.doubts.skewness import Skewness, skewness_of
from unrelu.engines import engine_for
from unrelu.estimators import RectifiedGaussianLearner
from unrelu.report.summaries import labels, shape_words
from unrelu.samples.turned import TurnedSamples
from unrelu.statistics.column_shapes import ShapeSums
from unrelu.statistics.subsample import SubsampleQuestion
from unrelu.statistics.tiles import seen_above

_ROWS = 4096  # of the sample: all of them are looked at
_POINTS = 100  # evenly spaced in standard deviations, so that tails are seen
_BAND = 0.99  # of the tables that the model fits have a given quantile within the band


@dataclass(frozen=True, eq=False)
class ColumnQuantiles:
    """Quantiles of a column that are off its limit, the smallest first: of the table, and of the fitted model.

    All in the table's units. ``low`` and ``high``: where the table's would be 99 times out of 100 if the model were
    true. ``z`` is the test of skewness of latent values, standard normal then. ``shape``: its name, and its exponent.
    """

    name: str
    seen: FloatArray
    fitted: FloatArray
    low: FloatArray
    high: FloatArray
    floor: float | None
    ceiling: float | None
    z: float
    shape: str = "normal"


def worst_columns(learner: RectifiedGaussianLearner, samples: Samples, most: int = 5) -> list[ColumnQuantiles]:
    """The columns with the largest test statistics for skewness, largest first; another pass over the learned rows.

    Rows that a robust fit took for outliers, with weights below half, are left out.

    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(0.0, 1.0, 500), np.exp(rng.normal(0.0, 1.0, 500)) - 1.0]).clip(0.0)
    >>> learner = unrelu.RectifiedGaussianLearner(shape="normal").fit(X)
    >>> worst_columns(learner, unrelu.samples.ArraySamples(X), most=1)[0].name
    'x1'
    """
    model = learner.distribution_
    mirrored = model.ceiling < np.inf
    sign = np.where(mirrored, -1.0, 1.0)
    law = model.latent.reflected(mirrored)  # only floors
    limit = np.where(mirrored, -model.ceiling, model.floor) + learner.floor_tolerance
    question = SubsampleQuestion(_ROWS, 0, tuple(limit.tolist()), (-np.inf,) * len(limit))
    sample = engine_for(samples).collect(TurnedSamples(samples, mirrored), question)
    x, above = sample.values.astype(np.float64), seen_above(limit, sample.values)
    weights = getattr(learner, "row_weights_", None)
    if weights is not None:
        x = x[weights[sample.rows] >= 0.5]
    values, floor = (x, limit) if model.shapes is None else (sign * model.to_latent(sign * x), law.floor)
    values = np.where(x <= above, np.minimum(values, floor), values)
    unknown = np.full((len(floor), 2, 3), np.nan)
    rows = RowParameters(law.bias, law.row_norms, floor, unknown[:, :, :2], unknown)
    test = _tested(values, rows)
    own = getattr(samples, "limits_by_cell", ())  # whose order statistics are not known
    ordered = [j for j in np.argsort(-np.abs(test.z), kind="stable").tolist() if j not in own]
    worst = [j for j in ordered[:most] if test.z[j] != 0.0]
    return [_column(model, j, _points(values[:, j], rows, j), test) for j in worst]


def _tested(values: FloatArray, rows: RowParameters) -> Skewness:
    block = Block(values)
    sums = ShapeSums(block, rows.floor, rows.bias)
    sums.add(block)
    return skewness_of(sums.record(), rows)


def _points(values: FloatArray, rows: RowParameters, column: int) -> FloatArray:
    """Seen, fitted, low, high (4 x points): order statistics above the floor, and what the model says of them.

    The i-th smallest of n values is the model's quantile at a probability that has the law Beta(i, n - i + 1).
    """
    ordered = np.sort(values[~np.isnan(values)])
    n, floor = len(ordered), rows.floor[column]
    edge = -ndtri(0.5 / n)
    wanted = np.linspace(-edge, edge, _POINTS)
    rank = np.unique(np.clip(np.floor(n * ndtr(wanted)).astype(int), 0, n - 1))
    rank = rank[ordered[rank] > floor]
    tail = 0.5 * (1.0 - _BAND)
    probabilities = np.stack([(rank + 0.5) / n, *(beta.ppf(p, rank + 1, n - rank) for p in (tail, 1.0 - tail))])
    fitted = np.maximum(rows.bias[column] + rows.scale[column] * ndtri(probabilities), floor)
    return np.vstack([ordered[rank], fitted])


def _column(model: RectifiedGaussian, column: int, points: FloatArray, test: Skewness) -> ColumnQuantiles:
    """The points of a column, the right way up again, and in the table's units."""
    limits = (float(levels[column]) for levels in (model.floor, model.ceiling))
    floor, ceiling = (level if np.isfinite(level) else None for level in limits)
    sign = 1.0 if ceiling is None else -1.0
    points, shape = points if ceiling is None else -points[[0, 1, 3, 2], ::-1], "normal"
    if model.shapes is not None:
        points, shape = model.shapes[column].from_latent(points), shape_words(model.shapes[column])
    seen, fitted, low, high = points
    z = sign * float(test.z[column])
    return ColumnQuantiles(labels(model)[column], seen, fitted, low, high, floor, ceiling, z, shape)
