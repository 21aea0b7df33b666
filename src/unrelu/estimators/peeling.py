"""peel: a network x = ReLU(A_L ... ReLU(A_1 c + b_1) ... + b_L), from samples of x alone, layer by layer.

Paper 002 proposes this peeling decoder and leaves it as future work. A layer x = ReLU(A h + b) comes off in two steps:
matrix recovery undoes the rectifier, T = A h + b (section 3 of paper 003), and the facets {h_i = 0} of T's rows, which
need not meet in the origin because of b, give A, b and h (:mod:`unrelu.recovery.layers`). Then h is the next x. The
innermost units are rectified Gaussian: their law is learned.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import BoolArray, FloatArray
from unrelu.distribution import RectifiedGaussian, generator
from unrelu.errors import (
    CannotPeelError,
    InvalidDataError,
    InvalidParameterError,
    WeakColumnsWarning,
    WeakRowsWarning,
)
from unrelu.estimators.matrix import ReLUMatrixRecovery
from unrelu.estimators.two_layer import hidden_law
from unrelu.methods import Method
from unrelu.recovery.layers.decoding import LayerReport, decode_by_facets
from unrelu.recovery.layers.facets import Told
from unrelu.recovery.layers.subspace import Subspace
from unrelu.recovery.matrix.contracts import MatrixReport

_ROWS_PER_UNIT = 6
_TOLERANCE, _ITERATIONS = 1e-11, 2000  # of matrix recovery: facets need exact zeros
_LEAST = 1e-8  # of the root mean square of T: errors of T below this are rounding
_DETERMINED = 1e6  # largest condition number of a row whose part of T is to be relied on


@dataclass(frozen=True)
class PeeledLayer:
    """x = ReLU(A h + b): ``weights`` A (d x p, columns of length 1), ``bias`` b, and how they were found.

    ``column_identifiable`` is False for outputs whose weights the table does not determine; they are NaN.
    """

    weights: FloatArray
    bias: FloatArray
    column_identifiable: BoolArray
    report: LayerReport
    matrix_report: MatrixReport

    def output(self, hidden: FloatArray) -> FloatArray:
        """ReLU(A h + b) of rows of hidden units."""
        rows: FloatArray = np.maximum(hidden @ self.weights.T + self.bias, 0.0)
        return rows


@dataclass(frozen=True)
class Peeled:
    """Layers from the outermost inwards, the innermost units of the rows used, and the law of these units.

    ``rows`` marks the rows of the table that every layer explains; ``hidden`` has one row for each of them.
    """

    layers: tuple[PeeledLayer, ...]
    hidden: FloatArray
    rows: BoolArray
    hidden_distribution: RectifiedGaussian | None

    def sample(self, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Rows drawn from the network."""
        if self.hidden_distribution is None:
            raise InvalidDataError("The innermost layer was not learned: there is nothing to sample from.")
        return self.output(self.hidden_distribution.sample(n_samples, random_state))

    def output(self, hidden: FloatArray) -> FloatArray:
        """What the layers make of innermost units."""
        for layer in reversed(self.layers):
            hidden = layer.output(hidden)
        return hidden


def peel(
    X: ArrayLike,
    widths: Sequence[int | str],
    *,
    hidden_method: str | Method = "one_pass",
    random_state: Any = 0,
) -> Peeled:
    """Peel layers x = ReLU(A h + b) off a table; ``widths`` are their numbers of hidden units, outermost first.

    A width may be "auto". ``hidden_method`` is how the law of the innermost units is learned. A layer that cannot be
    peeled is refused with the reason, :class:`unrelu.errors.CannotPeelError`, which holds what was found until then.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> A2, A1 = rng.standard_normal((30, 4)), rng.standard_normal((4, 4))
    >>> h = np.maximum(rng.standard_normal((1500, 4)) @ A1.T + 0.2, 0.0)
    >>> X = np.maximum(h @ A2.T + 0.5 * rng.standard_normal(30), 0.0)
    >>> peeled = unrelu.peel(X, widths=[4])
    >>> cosines = np.abs(peeled.layers[0].weights.T @ (A2 / np.linalg.norm(A2, axis=0)))
    >>> bool(np.allclose(cosines.max(axis=0), 1.0)), peeled.layers[0].report.units_found
    (True, 4)
    """
    return peel_told(X, widths, hidden_method, random_state, None)


def peel_told(
    X: ArrayLike, widths: Sequence[int | str], hidden_method: str | Method, random_state: Any, told: Told | None
) -> Peeled:
    """:func:`peel`, with someone who hears of facets found and starts used."""
    hidden, plan = _checked(X), _checked_widths(widths)
    rng = generator(random_state)
    rows, layers = np.ones(len(hidden), dtype=bool), list[PeeledLayer]()
    threshold = np.zeros(hidden.shape[1])
    for depth, width in enumerate(plan, start=1):
        so_far = Peeled(tuple(layers), hidden, rows, None)
        layer, hidden, genuine, threshold = _peel_one(so_far, width, depth == len(plan), rng, told)
        layers.append(layer)
        rows = rows.copy()
        rows[rows] = genuine
    return Peeled(tuple(layers), hidden, rows, hidden_law(hidden, threshold, hidden_method))


def _peel_one(
    so_far: Peeled, width: int | str, innermost: bool, rng: np.random.Generator, told: Told | None
) -> tuple[PeeledLayer, FloatArray, BoolArray, FloatArray]:
    """(layer, its units in the rows it explains, these rows, thresholds of the units) of the next layer."""
    depth, X = len(so_far.layers) + 1, so_far.hidden
    recovery = _unrectified(X, width, so_far)
    determined = recovery.row_identifiable_ & (recovery.row_condition_ < _DETERMINED)
    p = recovery.rank_
    if np.count_nonzero(determined) < _ROWS_PER_UNIT * p:
        raise CannotPeelError(
            f"Layer {depth}: only {np.count_nonzero(determined):,} of {len(X):,} rows have enough outputs above 0 to"
            f" determine {p} hidden units. Lower the width, or add rows.",
            so_far,
            recovery.report_,
        )
    known = recovery.column_identifiable_
    T = recovery.hidden()[:, known]
    decoded = decode_by_facets(T, _space(recovery, T, determined), True, innermost, rng, told)
    if not decoded.report.complete:
        raise CannotPeelError(
            f"Layer {depth}: {decoded.report.units_found} of {p} hidden units were found. The others are hardly ever"
            " off, or hardly ever on, or off only where another one is: their weights cannot be told. Try another"
            " width, or add rows.",
            so_far,
            decoded.report,
        )
    layer = decoded.layer
    weights, bias = np.full((X.shape[1], p), np.nan), np.full(X.shape[1], np.nan)
    weights[known], bias[known] = layer.weights, layer.bias
    peeled = PeeledLayer(weights, bias, known, decoded.report, recovery.report_)
    return peeled, layer.hidden(T[decoded.genuine]), decoded.genuine, layer.threshold


def _unrectified(X: FloatArray, width: int | str, so_far: Peeled) -> ReLUMatrixRecovery:
    """Matrix recovery of a layer's outputs, or the reason why not."""
    depth = len(so_far.layers) + 1
    if not isinstance(width, str) and width >= X.shape[1]:
        raise CannotPeelError(
            f"Layer {depth}: {width} hidden units behind {X.shape[1]} outputs. Undoing the rectifier needs more outputs"
            " than hidden units.",
            so_far,
        )
    try:
        with warnings.catch_warnings():
            for category in (WeakColumnsWarning, WeakRowsWarning):  # the layer says itself what is not determined
                warnings.simplefilter("ignore", category)
            return ReLUMatrixRecovery(width, tol=_TOLERANCE, max_iter=_ITERATIONS).fit(X)
    except InvalidDataError as error:
        raise CannotPeelError(f"Layer {depth}: {error}", so_far) from error


def _space(recovery: ReLUMatrixRecovery, T: FloatArray, determined: BoolArray) -> Subspace:
    """The space of T, with the errors of T as noise: those of x, larger where fewer outputs are on."""
    rows = T[determined]
    center = rows.mean(axis=0)
    basis = np.linalg.svd(rows - center, full_matrices=False)[2][: recovery.rank_].T
    size = float(np.sqrt((rows**2).mean()))
    left = recovery.report_.residual * size
    noise = left / math.sqrt(max(1.0 - recovery.report_.share_floored, 0.05))
    return Subspace(center, basis, max(noise, _LEAST * size), determined)


def _checked(X: ArrayLike) -> FloatArray:
    try:
        table = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidDataError(f"X must be a table of numbers: {error}.") from error
    if table.ndim != 2 or 0 in table.shape:
        raise InvalidDataError(f"X must be a table with rows and columns, got an array of shape {table.shape}.")
    if not np.isfinite(table).all():
        raise InvalidDataError("X holds NaN or infinite values: peeling needs whole rows. Leave these rows out.")
    if (table < 0.0).any():
        raise InvalidDataError("X holds negative values, but the outputs of a rectifier are not below 0.")
    return table


def _checked_widths(widths: Sequence[int | str]) -> list[int | str]:
    if isinstance(widths, str | Integral) or not isinstance(widths, Sequence | np.ndarray) or len(widths) == 0:
        raise InvalidParameterError(f"widths must be a list with one number per layer, such as [8], got {widths!r}.")
    plan: list[int | str] = []
    for width in widths:
        if isinstance(width, str) and width == "auto":
            plan.append(width)
        elif isinstance(width, Integral) and not isinstance(width, bool) and width >= 1:
            plan.append(int(width))
        else:
            raise InvalidParameterError(f"Every width must be a whole number of 1 or more, or 'auto', got {width!r}.")
    return plan
