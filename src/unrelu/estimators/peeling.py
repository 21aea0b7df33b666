"""peel: a network x = ReLU(A_L ... ReLU(A_1 c + b_1) ... + b_L), from samples of x alone, layer by layer.

Mazumdar and Rawat 2019 propose this peeling decoder and leave it as future work. A layer x = ReLU(A h + b) comes off in
two steps: matrix recovery undoes the rectifier, T = A h + b (Mazumdar and Rawat 2018, section 3), and the facets
{h_i = 0} of T's rows, which need not meet in the origin because of b, give A, b and h (:mod:`unrelu.recovery.layers`).
Then h is the next x. The innermost units are rectified Gaussian: their law is learned.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unrelu.contracts import BoolArray, FloatArray
from unrelu.distribution import RectifiedGaussian, generator
from unrelu.errors import (
    CannotPeelError,
    DoubtfulUnitsWarning,
    InvalidDataError,
    InvalidParameterError,
    WeakColumnsWarning,
    WeakRowsWarning,
)
from unrelu.estimators import peeled_file
from unrelu.estimators.matrix import ReLUMatrixRecovery
from unrelu.estimators.two_layer import ROWS_PER_UNIT, hidden_law, warn_of
from unrelu.methods import Method
from unrelu.recovery.layers.decoding import LayerReport, decode_by_facets
from unrelu.recovery.layers.subspace import Subspace
from unrelu.recovery.matrix.contracts import MatrixReport
from unrelu.storage import FilePath
from unrelu.validation import warn

# Hears of a layer's number, counted from the outermost, 1, of the units found in it so far (None while its rectifier is
# being undone), and of how many there are to find (0 while that is not known).
PeelTold: TypeAlias = Callable[[int, int | None, int], None]

_ON_PER_UNIT = 20  # rows in which an output must be on, where there is noise
_INEXACT = 1e-6  # relative residual of matrix recovery from where on there is noise
_TOLERANCE, _ITERATIONS = 1e-11, 100  # of matrix recovery: facets need exact zeros
_LEAST = 1e-8  # of the root mean square of T: errors of T below this are rounding
_FLAT = 1e-7  # of the largest entry of T: directions that vary less are not there
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

    def save(self, path: FilePath, details: Mapping[str, Any] | None = None) -> None:
        """Write layers, their reports, ``rows`` and the law of the innermost units: a NumPy .npz without pickle.

        ``hidden`` is not written, as it may be as large as the table: it is empty (0 rows) in what :meth:`load` gives.
        ``details`` are facts for the file's header.

        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import unrelu
        >>> from unrelu.estimators import Peeled
        >>> rng = np.random.default_rng(0)
        >>> h = np.maximum(rng.standard_normal((500, 2)), 0.0)
        >>> peeled = unrelu.peel(np.maximum(h @ rng.standard_normal((2, 12)) + 0.3, 0.0), widths=[2])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "layers.unrelu"
        >>> peeled.save(path)
        >>> again = Peeled.load(path)
        >>> bool((again.sample(3, 0) == peeled.sample(3, 0)).all()), again.hidden.shape
        (True, (0, 2))
        """
        peeled_file.write(self, path, details or {})

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read what :meth:`save` wrote, with ``hidden`` empty; the example is there."""
        return peeled_file.read(cls, path)


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
    >>> rng = np.random.default_rng(1)
    >>> A2, A1 = rng.standard_normal((30, 4)), rng.standard_normal((4, 4))
    >>> h = np.maximum(rng.standard_normal((1500, 4)) @ A1.T + 0.2, 0.0)
    >>> X = np.maximum(h @ A2.T + 0.5, 0.0)
    >>> peeled = unrelu.peel(X, widths=[4])
    >>> layer = peeled.layers[0]
    >>> cosines = np.abs(layer.weights.T @ (A2 / np.linalg.norm(A2, axis=0)))
    >>> bool(layer.column_identifiable.all()), bool(np.allclose(cosines.max(axis=0), 1.0))
    (True, True)
    """
    return peel_told(X, widths, hidden_method, random_state, None)


def peel_told(
    X: ArrayLike, widths: Sequence[int | str], hidden_method: str | Method, random_state: Any, told: PeelTold | None
) -> Peeled:
    """:func:`peel`, with someone who hears of the layers and the units found."""
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
    try:
        law = hidden_law(hidden, threshold, hidden_method)
    except InvalidDataError as error:
        so_far = Peeled(tuple(layers), hidden, rows, None)
        raise CannotPeelError(f"The law of the innermost units cannot be learned: {error}", so_far) from error
    return Peeled(tuple(layers), hidden, rows, law)


def _peel_one(
    so_far: Peeled, width: int | str, innermost: bool, rng: np.random.Generator, told: PeelTold | None
) -> tuple[PeeledLayer, FloatArray, BoolArray, FloatArray]:
    """(layer, its units in the rows it explains, these rows, thresholds of the units) of the next layer."""
    depth, X = len(so_far.layers) + 1, so_far.hidden
    if told is not None:
        told(depth, None, 0 if isinstance(width, str) else width)
    recovery = _unrectified(X, width, so_far)
    determined = recovery.row_identifiable_ & (recovery.row_condition_ < _DETERMINED)
    p = recovery.rank_
    if np.count_nonzero(determined) < ROWS_PER_UNIT * p:
        raise CannotPeelError(
            f"Layer {depth}: {np.count_nonzero(determined):,} of {len(X):,} rows have enough outputs above 0 to"
            f" determine {p} hidden units; {ROWS_PER_UNIT * p} such rows are needed. Lower the width, or add rows.",
            so_far,
            recovery.report_,
        )
    known = recovery.column_identifiable_
    if recovery.report_.residual > _INEXACT:  # with noise, outputs that are rarely on are not known well enough
        known = known & (np.count_nonzero(X > 0.0, axis=0) >= _ON_PER_UNIT * (p + 1))
    T = recovery.hidden()[:, known]
    rank = int(
        np.linalg.matrix_rank(T[determined] - T[determined].mean(axis=0), tol=_FLAT * np.abs(T).max(initial=0.0))
    )
    if rank < p:
        raise CannotPeelError(
            f"Layer {depth}: what is behind the outputs varies in {rank} dimensions, fewer than the {p} hidden units"
            " asked for. Columns of its weights are dependent, or units are never on: lower the width.",
            so_far,
            recovery.report_,
        )
    found = None if told is None else lambda units, _: told(depth, units, p)
    decoded = decode_by_facets(T, _space(recovery, T, determined), True, innermost, rng, found)
    if not decoded.report.complete:
        raise CannotPeelError(
            f"Layer {depth}: {decoded.report.units_found} of {p} hidden units were found. The others are hardly ever"
            " off, or hardly ever on, or off only where another one is: their weights cannot be told. Try another"
            " width, or add rows.",
            so_far,
            decoded.report,
        )
    _warn(decoded.report, recovery.report_, depth, innermost)
    layer = decoded.layer
    weights, bias = np.full((X.shape[1], p), np.nan), np.full(X.shape[1], np.nan)
    weights[known], bias[known] = layer.weights, layer.bias
    peeled = PeeledLayer(weights, bias, known, decoded.report, recovery.report_)
    return peeled, layer.hidden(T[decoded.genuine]), decoded.genuine, layer.threshold


def _warn(report: LayerReport, matrix: MatrixReport, depth: int, innermost: bool) -> None:
    where = f"Layer {depth}: "
    warn_of(report, where)
    if not innermost:
        # The units of the next layer are this one's inputs, and undoing its rectifier takes more outputs than units.
        warn(
            f"{where}it has more units than inputs, since the next layer has fewer. Planes can then hold many rows by"
            " coincidence, and what was found may not be the layer's units.",
            DoubtfulUnitsWarning,
        )
    if matrix.residual > _INEXACT:
        warn(
            f"{where}the rectifier could be undone only up to a relative residual of {matrix.residual:.1g}: the outputs"
            " have noise, or another number of units, and weights are no more exact than that.",
            DoubtfulUnitsWarning,
        )


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
