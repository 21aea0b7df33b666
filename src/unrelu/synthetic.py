"""True models to learn, and contamination to resist: the settings of the papers' experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrelu.contracts import BoolArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.model import RectifiedGaussian
from unrelu.validation import RandomState, generator, refuse_old_names


@runtime_checkable
class Drawable(Protocol):
    """A frozen distribution of scipy.stats, or anything else with its ``rvs``.

    >>> from scipy import stats
    >>> X, is_outlier = contaminate(np.ones((10, 2)), 0.2, stats.norm(50.0, 1.0), random_state=0)
    >>> bool((X[is_outlier] > 40.0).all()), int(is_outlier.sum())
    (True, 2)
    """

    def rvs(self, *, size: Any, random_state: Any) -> Any: ...


Outliers: TypeAlias = ArrayLike | RectifiedGaussian | Drawable | Callable[[int, np.random.Generator], ArrayLike]
Floats: TypeAlias = NDArray[np.floating[Any]]


@refuse_old_names
def random_model(
    d: int,
    k: int | None = None,
    condition_number: float = 1.0,
    mean: Literal["nonnegative", "signed"] = "nonnegative",
    random_state: RandomState = None,
) -> RectifiedGaussian:
    """A random x = ReLU(W z + b), as in section 6 of Wu, Dimakis and Sanghavi (2019).

    W is d x k (``k=None`` means d) with uniformly random orthonormal left singular vectors. The eigenvalues of W W'
    fall geometrically from 1 to 1 / ``condition_number``, which is therefore the condition number of W W' (of its k
    nonzero eigenvalues if k < d). The paper gives the condition number only; the spacing is ours. Note that k = d with
    condition number 1 makes W orthonormal and the coordinates of x independent. ``mean`` is a standard normal vector
    for "signed", and its positive part for "nonnegative".

    >>> model = random_model(5, condition_number=10.0, random_state=0)
    >>> round(float(np.linalg.cond(model.covariance)), 6), bool((model.mean >= 0).all())
    (10.0, True)
    """
    k = d if k is None else k
    for name, value in (("d", d), ("k", k)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InvalidParameterError(f"{name} must be an integer of 1 or more, got {value!r}.", parameter=name)
    if k > d:
        raise InvalidParameterError(
            f"k must be at most d = {d}, the largest rank W W' can have; got {k}.", parameter="k"
        )
    if not 1.0 <= condition_number < float("inf"):
        raise InvalidParameterError(f"condition_number must be 1 or more and finite, got {condition_number!r}.")
    if k == 1 and condition_number != 1.0:
        raise InvalidParameterError("A W with one column has condition_number 1: leave it out, or take k=2 or more.")
    if mean not in ("nonnegative", "signed"):
        raise InvalidParameterError(f'mean must be "nonnegative" or "signed", got {mean!r}.')
    rng = generator(random_state)
    # Orthonormal columns, uniform among all such: a Gaussian matrix is Q R with R's diagonal positive.
    q, r = np.linalg.qr(rng.standard_normal((d, k)))
    q = q * np.where(np.diagonal(r) < 0.0, -1.0, 1.0)
    weights = q * np.sqrt(np.geomspace(1.0, 1.0 / condition_number, k))
    b = rng.standard_normal(d)
    return RectifiedGaussian.from_weights(weights, np.maximum(b, 0.0) if mean == "nonnegative" else b)


def contaminate(
    X: ArrayLike, fraction: float, outliers: Outliers, random_state: RandomState = None, fixed: bool = False
) -> tuple[Floats, BoolArray]:
    """Replace every row of ``X`` with probability ``fraction``, by itself, by an outlier.

    That is Huber's contamination model, Definition 2.1 of Bulusu et al. 2022, with p = 1 - ``fraction``. ``fixed``
    replaces exactly ``round(fraction * n)`` rows instead, chosen at random, so that a study does not vary by their
    number.

    Returns a changed copy, and a mask of the rows replaced. ``outliers`` says what they become:

    - rows, m x d (or one row of length d): used in random order, again from the start if m is too small;
    - a callable ``(n_rows, rng) -> rows``;
    - a :class:`RectifiedGaussian`, sampled;
    - a frozen distribution of scipy.stats, drawn for every cell by itself (for one over whole rows,
      give a callable).

    Outliers are put in as they are: nothing is raised to the floor or clipped otherwise.

    The outliers N(5, 1) of the paper on arbitrary outliers, section 5:

    >>> from scipy import stats
    >>> X = random_model(3, random_state=0).sample(100, random_state=1)
    >>> Y, is_outlier = contaminate(X, 0.05, stats.norm(5, 1), random_state=2, fixed=True)
    >>> int(is_outlier.sum()), bool((Y[~is_outlier] == X[~is_outlier]).all())
    (5, True)
    """
    rows = _table(X)
    n, d = rows.shape
    if not 0.0 <= fraction < 1.0:
        raise InvalidParameterError(f"fraction must be at least 0 and below 1, got {fraction!r}.")
    rng = generator(random_state)
    if fixed:
        is_outlier: BoolArray = np.zeros(n, dtype=np.bool_)
        is_outlier[rng.choice(n, size=round(fraction * n), replace=False)] = True
    else:
        is_outlier = np.asarray(rng.random(n) < fraction)
    if count := int(np.count_nonzero(is_outlier)):
        rows[is_outlier] = _draw(outliers, count, d, rng)
    return rows, is_outlier


def _table(X: ArrayLike) -> Floats:
    """A copy of X, of its own floating type; NaN, a missing cell, may stay."""
    try:
        array = np.array(X)
        if array.dtype.kind == "c":
            raise TypeError("it holds complex ones")
        array = array if array.dtype.kind == "f" else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidDataError(f"X must be a table of real numbers: {error}.") from error
    if array.ndim != 2:
        raise InvalidDataError(f"X must be a table, rows x columns, got shape {array.shape}.")
    return array


def _draw(outliers: Outliers, count: int, d: int, rng: np.random.Generator) -> Floats:
    """``count`` rows of outliers, count x d."""
    given: ArrayLike
    if isinstance(outliers, RectifiedGaussian):
        given, source = outliers.sample(count, rng), "The outlier model"
    elif isinstance(outliers, Drawable):
        given, source = outliers.rvs(size=(count, d), random_state=rng), "The outlier distribution"
    elif callable(outliers):
        given, source = outliers(count, rng), "The outlier function"
    else:
        pool, source = np.atleast_2d(outliers), "The array of outliers"
        if len(pool) == 0:
            raise InvalidParameterError("The array of outliers holds no rows.")
        given = pool[np.resize(rng.permutation(len(pool)), count)]
    rows = np.asarray(given)
    if rows.dtype.kind not in "fiub":
        raise InvalidParameterError(f"{source} gives {rows.dtype} values; needed are real numbers.")
    if rows.shape != (count, d):
        raise InvalidParameterError(f"{source} gives rows of shape {rows.shape}; needed is ({count}, {d}).")
    return rows
