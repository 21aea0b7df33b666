"""Values that other tools put into floored cells, as logarithms: rivals are compared by the logarithm of their values.

All get the limits, and those that fit something work on logarithms, as the table is lognormal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from unrelu.contracts import FloatArray

Filler = Callable[[FloatArray, FloatArray], FloatArray]


def limit_over(by: float) -> Filler:
    """The limit over a number."""
    return lambda x, limit: np.log(np.where(x <= limit, limit / by, x))


def iterative(x: FloatArray, limit: FloatArray) -> FloatArray:
    """scikit-learn's IterativeImputer: regressions in turn, predictions cut at the limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        missing = np.log(np.where(x <= limit, np.nan, x))
        return np.asarray(IterativeImputer(max_value=np.log(limit), random_state=0).fit_transform(missing))


def order_statistics(x: FloatArray, limit: FloatArray) -> list[FloatArray]:
    """Values of every column that regression on order statistics puts into its floored cells, ascending.

    Sorted logarithms of the values seen against normal quantiles of their plotting positions (Helsel and Cohn: the
    share seen is spread evenly over the values seen, the share floored over the floored cells); the line goes on below.
    """
    filled = []
    for column, low in zip(x.T, limit, strict=True):
        seen = np.sort(np.log(column[column > low]))
        hidden, share = len(column) - len(seen), len(seen) / len(column)
        place = 1.0 - share + share * np.arange(1, len(seen) + 1) / (len(seen) + 1)
        slope, level = np.polyfit(ndtri(place), seen, 1)
        below = (1.0 - share) * np.arange(1, hidden + 1) / (hidden + 1)
        filled.append(np.minimum(level + slope * ndtri(below), np.log(low)))
    return filled


def ros(x: FloatArray, limit: FloatArray) -> FloatArray:
    """The values in random order, as the method does not assign them to rows."""
    logs = np.log(x)
    for j, values in enumerate(order_statistics(x, limit)):
        logs[x[:, j] <= limit[j], j] = np.random.default_rng(j).permutation(values)
    return logs


def ros_mean(x: FloatArray, limit: FloatArray) -> FloatArray:
    """Their mean in every floored cell: the best that can be made of a column alone."""
    logs = np.log(x)
    for j, values in enumerate(order_statistics(x, limit)):
        logs[x[:, j] <= limit[j], j] = values.mean() if len(values) else 0.0
    return logs


RIVALS: dict[str, Filler] = {
    "limit/2": limit_over(2.0),
    "limit/sqrt(2)": limit_over(np.sqrt(2.0)),
    "scikit-learn's IterativeImputer with bounds": iterative,
    "regression on order statistics": ros,
    "its mean in every floored cell": ros_mean,
}
