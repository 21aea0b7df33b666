"""Invertible activations (Wu et al. 2019, footnote 2): undone exactly, they leave a Gaussian to learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.validation import check_choice, check_positive, column_label

Inverse = Callable[[FloatArray], FloatArray]


def undo_activation(X: ArrayLike, activation: str | Inverse = "leaky_relu", slope: float = 0.01) -> FloatArray:
    """y of x = f(y), y = W z + b, for an activation f that has an inverse: y ~ N(b, W W').

    ``activation``: "leaky_relu" (x = ``slope`` y below 0), "elu" (x = e^y - 1 below 0), "softplus", "sigmoid", "tanh",
    or a function that is the inverse itself. Missing cells (NaN) stay missing. A value that f does not take, or takes
    only at infinity, such as a sigmoid that was rounded to 1, is refused. Learn what comes out without a floor:

    >>> import unrelu
    >>> y = np.random.default_rng(0).multivariate_normal([0.5, -1.0], [[1.0, 0.5], [0.5, 1.0]], 5000)
    >>> X = np.where(y > 0.0, y, 0.01 * y)  # a leaky ReLU
    >>> learner = unrelu.RectifiedGaussianLearner(floor=None).fit(undo_activation(X))
    >>> bool(np.allclose(learner.bias_, y.mean(axis=0), atol=1e-6))
    True
    """
    try:
        x = np.array(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidDataError(f"X must be a table of real numbers: {error}.") from error
    if x.ndim != 2:
        raise InvalidDataError(f"X must be a table, rows x columns, got shape {x.shape}.")
    if isinstance(activation, str):
        inverse = _named(activation, slope)
    elif callable(activation):
        inverse = activation
    else:
        raise InvalidParameterError(f"activation must be a name or the inverse function, got {activation!r}.")
    with np.errstate(all="ignore"):
        y = np.asarray(inverse(x), dtype=np.float64)
    if y.shape != x.shape:
        raise InvalidParameterError(
            f"The inverse gives shape {y.shape} for a table of shape {x.shape}: it must be kept."
        )
    lost = ~np.isfinite(y) & ~np.isnan(x)
    if lost.any():
        i, j = np.argwhere(lost)[0]
        raise InvalidDataError(
            f"{x[i, j]!r} in row {i} of {column_label(int(j), None)} is no value of the activation ({int(lost.sum())}"
            " such cells): check its name, and that values were not rounded or cut off."
        )
    return y


def _named(name: str, slope: float) -> Inverse:
    if name == "relu":
        raise InvalidParameterError(
            "The ReLU has no inverse: give X itself to RectifiedGaussianLearner, which is made for it."
        )
    check_positive("slope", slope)
    inverses: dict[str, Inverse] = {
        "leaky_relu": lambda x: np.where(x > 0.0, x, x / slope),
        "elu": lambda x: np.where(x > 0.0, x, np.log1p(np.minimum(x, 0.0))),
        "softplus": lambda x: x + np.log(-np.expm1(-x)),  # log(e^x - 1), without overflow
        "sigmoid": logit,
        "tanh": np.arctanh,
    }
    check_choice("activation", name, list(inverses))
    return inverses[name]
