"""The inputs behind given units: h = ReLU(A z + b) is a table of rank q behind a rectifier.

Matrix recovery of some rows gives A, b and z up to an affine map of z (Mazumdar and Rawat 2018); every other row's z
then follows by least squares over its units that are on. A row needs q of them, and a few more where they are nearly
dependent. :class:`InnerLayer` is such a layer with inputs of mean 0 and covariance I.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError, about
from unrelu.model import RectifiedGaussian
from unrelu.passes import map_in_threads, one_blas_thread
from unrelu.recovery.matrix.factors import Cells, singular_start
from unrelu.recovery.matrix.matrix import recover_matrix
from unrelu.validation import RandomState, generator, integer

U = TypeVar("U")
_ROWS, _ROWS_PER_INPUT = 300, 60  # rows that the recovery uses
_LEAST_PER_INPUT = 8  # rows that it needs
_SPARE = 2  # units on beyond the inputs that such a row has; with one only, false inputs have been found
_ON = 4  # times the unknowns of a unit: rows in which it must be on
_EXACT = 1e-8  # relative residual that rounding explains
_NOISY = 3.0  # times the noise that noise explains
_ROUNDS = 3  # of inputs from weights and weights from inputs
_DRAWS = 12  # rounds in which the inputs of rows that do not determine them are drawn
_FLAT = 1e-12  # of the longest weights: those of a unit that is the same in every row
_WORST = 1e4  # condition of a row's equations beyond which z is a guess
_OFF = 6.0  # standard deviations of noise below which a unit is taken to be off
_ROUNDING = 1e-6  # of a unit's root mean square, likewise
_STEPS, _DAMPING = 4, 1e-10  # of Gauss and Newton's steps
_TILE = 256
UNEXPLAINED = 1e-4  # relative error of units without noise that inputs may leave


@dataclass(frozen=True, eq=False)
class InnerLayer:
    """h = ReLU(A z + b): ``weights`` A (p x q) and ``bias`` b, for z of mean 0 and covariance I.

    ``choice`` are pairs of a number of inputs tried and the relative residual that it leaves of the units found until
    then.
    """

    weights: Annotated[FloatArray, "floats p q"]
    bias: Annotated[FloatArray, "floats p"]
    choice: tuple[tuple[int, float], ...] = ()

    @property
    def n_inputs(self) -> int:
        """q."""
        return int(self.weights.shape[1])

    def units(self, inputs: FloatArray) -> FloatArray:
        """ReLU(A z + b) of rows z."""
        return np.maximum(inputs @ self.weights.T + self.bias, 0.0)

    def sample(self, n_samples: int, random_state: RandomState) -> FloatArray:
        """Rows of units whose inputs are drawn."""
        n = integer("n_samples", n_samples)
        if n < 0:
            raise InvalidParameterError(f"n_samples, the number of rows to draw, must be 0 or more; got {n}.")
        return self.units(generator(random_state).standard_normal((n, self.n_inputs)))

    def inputs(self, hidden: FloatArray) -> FloatArray:
        """z of rows of units, NaN where they do not determine it."""
        z, amplified = inputs_of(hidden, self.weights, self.bias)
        return np.where(np.isfinite(amplified)[:, None], z, np.nan)

    def left_of(self, hidden: FloatArray) -> tuple[float, int]:
        """The relative error that the inputs of rows leave in their units, and the number of rows that have inputs."""
        z = self.inputs(hidden)
        determined = np.isfinite(z[:, 0])
        error = relative_error(self.units(z[determined]), hidden[determined])
        return error, int(np.count_nonzero(determined))

    @property
    def distribution(self) -> RectifiedGaussian:
        """The distribution of h."""
        return RectifiedGaussian(self.bias, self.weights @ self.weights.T)

    def rescale(self, lengths: FloatArray) -> InnerLayer:
        """The same layer, its units multiplied by ``lengths``."""
        return replace(self, weights=self.weights * lengths[:, None], bias=self.bias * lengths)

    def standardize_inputs(self, mean: FloatArray, covariance: FloatArray) -> InnerLayer:
        """The same layer for inputs z' of mean 0 and covariance I: z = ``mean`` + L z', ``covariance`` = L L'."""
        root = np.linalg.cholesky(covariance)
        return replace(self, weights=self.weights @ root, bias=self.bias + self.weights @ mean)

    def of(self, units: NDArray[Any]) -> InnerLayer:
        """The layer of some units."""
        return replace(self, weights=self.weights[units], bias=self.bias[units])


def relative_error(rebuilt: FloatArray, seen: FloatArray) -> float:
    """|rebuilt - seen| / |seen|, 1 where nothing was seen."""
    size = float(np.linalg.norm(seen))
    return float(np.linalg.norm(rebuilt - seen)) / size if size > 0.0 else 1.0


class InputFit(NamedTuple):
    """The layer of the inputs of some ``units``, and its residual: whether noise ``explains`` it, or rounding alone."""

    layer: InnerLayer
    units: NDArray[np.int64]
    residual: float
    explains: bool
    exact: bool


def _useful(on: BoolArray, q: int) -> NDArray[np.int64]:
    """Rows with some units on beyond the inputs, or with one where these are few."""
    count = np.count_nonzero(on, axis=1)
    rows = np.flatnonzero(count >= q + _SPARE)
    return rows if len(rows) >= _LEAST_PER_INPUT * (q + 1) else np.flatnonzero(count > q)


def fit_inputs(heights: FloatArray, noise: FloatArray, q: int, rng: np.random.Generator) -> InputFit | None:
    """h = ReLU(A z + b) of units (n x m, 0 where off), or None where too few are on together.

    ``noise`` is the standard deviation of noise in each unit.
    """
    on = heights > 0.0
    rows = _useful(on, q)
    most = _ROWS + _ROWS_PER_INPUT * q
    if len(rows) > most:
        rows = np.sort(rng.choice(rows, most, replace=False))
    units = np.count_nonzero(on[rows], axis=0) >= _ON * (q + 1)
    if heights.shape[1] < q + _SPARE or units.sum() <= q or len(rows) < _LEAST_PER_INPUT * (q + 1):
        return None
    scale = np.sqrt((heights[:, units] ** 2).mean(axis=0))
    table = np.ascontiguousarray(heights[np.ix_(rows, units)] / scale)
    relative = float(np.sqrt(((noise[units] / scale) ** 2).mean() / (table**2).mean()))
    cells = Cells(table)
    try:
        fit = recover_matrix(cells, q, max_iterations=60, start=singular_start(cells, q, True))
    except InvalidDataError:
        return None
    assert fit.factors.bias is not None
    layer = InnerLayer(np.ascontiguousarray(fit.factors.loadings), fit.factors.bias).rescale(scale)
    bound = max(_EXACT, _NOISY * relative)
    return InputFit(layer, np.flatnonzero(units), fit.report.residual, fit.report.residual <= bound, bound <= _EXACT)


def without_worst(fit: InputFit, heights: FloatArray) -> int:
    """The unit of a fit whose heights it explains least in most rows: least squares spread its error over all units."""
    seen = heights[:, fit.units]
    z = fit.layer.inputs(seen)
    determined = np.isfinite(z[:, 0])
    fitted, seen = fit.layer.units(z[determined]), seen[determined]
    left = np.median(np.abs(seen - fitted), axis=0) / np.sqrt(np.maximum((seen**2).mean(axis=0), 1e-300))
    return int(fit.units[left.argmax()])


def inputs_of(heights: FloatArray, weights: FloatArray, bias: FloatArray) -> tuple[FloatArray, FloatArray]:
    """z of every row by least squares over its units that are on, and by how much noise in units is amplified.

    Amplification is against a row with every unit on; it is infinite where a row does not determine its z.
    """
    scale = np.sqrt((weights**2).mean(axis=0))
    A = weights / scale
    products = (A[:, :, None] * A[:, None, :]).reshape(len(A), -1)
    least = float(np.linalg.eigvalsh(A.T @ A)[0])

    def at(rows: slice) -> tuple[FloatArray, FloatArray]:
        on = (heights[rows] > 0.0).astype(np.float64)
        gram = (on @ products).reshape(len(on), A.shape[1], A.shape[1])
        values, vectors = np.linalg.eigh(gram)
        determined = values[:, 0] > values[:, -1] / _WORST**2
        inverse = np.where(determined[:, None], 1.0 / np.where(determined[:, None], values, 1.0), 0.0)
        z = np.zeros((len(on), A.shape[1]))
        for _ in range(2):  # the second round takes off what the squares of the first one lose
            left = on * (heights[rows] - z @ A.T - bias)
            rotated = np.einsum("nij,ni->nj", vectors, left @ A)
            z = z + np.einsum("nij,nj->ni", vectors, inverse * rotated)
        amplified = np.full(len(z), np.inf)
        amplified[determined] = np.sqrt(least / values[determined, 0])
        return z / scale, amplified

    z, amplified = zip(*_in_tiles(at, max(len(heights), 1)), strict=True)
    return np.concatenate(z), np.concatenate(amplified)


def _in_tiles(work: Callable[[slice], U], n: int) -> list[U]:
    with one_blas_thread():
        return map_in_threads(work, [slice(start, start + _TILE) for start in range(0, n, _TILE)])


def standard_layer(layer: InnerLayer, hidden: FloatArray, seed: int, inputs: FloatArray | None = None) -> InnerLayer:
    """The layer whose inputs have mean 0 and covariance I in rows of units; ``inputs``, where given, are theirs.

    Rows with too few units on do not determine their inputs, and their inputs differ from those of others: they are
    drawn, given their units, from the distribution found so far, again and again (stochastic EM).
    """
    if inputs is None:
        for _ in range(_ROUNDS):
            layer = refit(layer, hidden)
        inputs = layer.inputs(hidden)
    unknown = np.isnan(inputs[:, 0])
    moved, size = _standardize(layer, inputs[~unknown]), np.linalg.norm(layer.weights, axis=1)
    bent = size > _FLAT * size.max()  # the others are the same in every row, whatever its inputs
    for number in range(_DRAWS if unknown.any() and not unknown.all() else 0):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", about("dependent-draws"))  # those of one row, of which one is drawn
            distribution, seen = moved.of(bent).distribution, hidden[np.ix_(unknown, bent)]
            full = distribution.sample_latent(seen, 1, seed + number, below="latent")[0]
        filled = np.linalg.lstsq(layer.weights[bent], (full - layer.bias[bent]).T)[0].T
        moved = _standardize(layer, np.concatenate([inputs[~unknown], filled]))
    return moved


def _standardize(layer: InnerLayer, inputs: FloatArray) -> InnerLayer:
    """The layer for inputs of mean 0 and covariance I; itself where these do not vary in every direction."""
    if len(inputs) <= layer.n_inputs:
        return layer
    try:
        return layer.standardize_inputs(inputs.mean(axis=0), np.atleast_2d(np.cov(inputs.T, bias=True)))
    except np.linalg.LinAlgError:
        return layer


def refit(layer: InnerLayer, hidden: FloatArray) -> InnerLayer:
    """Weights and bias of every unit by least squares over the rows in which it is on, inputs as the layer has them."""
    inputs = layer.inputs(hidden)
    extended = np.column_stack([inputs, np.ones(len(inputs))])
    determined = ~np.isnan(inputs[:, 0])
    rows = np.column_stack([layer.weights, layer.bias])
    for unit, on in enumerate((determined[:, None] & (hidden > 0.0)).T):
        if np.count_nonzero(on) > len(extended.T):
            rows[unit] = np.linalg.lstsq(extended[on], hidden[on, unit])[0]
    return replace(layer, weights=rows[:, :-1], bias=rows[:, -1])


def inputs_behind(rows: FloatArray, A: FloatArray, b: FloatArray, inner: InnerLayer, noise: float) -> FloatArray:
    """z of rows x = ReLU(A ReLU(A1 z + b1) + b); NaN where a row does not determine it.

    Units by least squares over the outputs that are on, inputs by least squares over the units that are on, then Gauss
    and Newton's steps for z on the outputs.
    """
    units, amplified = inputs_of(rows, A, b)
    size = np.sqrt((units**2).sum(axis=0) / max(len(units), 1))
    off = np.maximum(_OFF * noise * amplified[:, None], _ROUNDING * size)
    z, steady = inputs_of(np.where(units > off, units, 0.0), inner.weights, inner.bias)
    sure = np.isfinite(amplified) & np.isfinite(steady)
    z[sure] = polish_inputs(z[sure], rows[sure], A, b, inner)
    z[~sure] = np.nan
    return z


def polish_inputs(z: FloatArray, rows: FloatArray, A: FloatArray, b: FloatArray, inner: InnerLayer) -> FloatArray:
    """Inputs that rows x = ReLU(A ReLU(A1 z + b1) + b) are nearest to, by steps from ``z`` that lower the distance.

    Cells of ``rows`` may be NaN: they count nothing.
    """
    products = (A[:, :, None] * A[:, None, :]).reshape(len(A), -1)

    def left_of(z: FloatArray, seen: FloatArray) -> FloatArray:
        T = inner.units(z) @ A.T + b
        return np.where(np.isnan(seen), 0.0, np.where(seen > 0.0, seen - T, -np.maximum(T, 0.0)))

    def at(part: slice) -> FloatArray:
        here, seen = z[part], rows[part]
        on = (seen > 0.0).astype(np.float64)
        gram = (on @ products).reshape(len(seen), A.shape[1], A.shape[1])
        left = left_of(here, seen)
        for _ in range(_STEPS):
            slope = (here @ inner.weights.T + inner.bias > 0.0)[:, :, None] * inner.weights
            matrix = np.einsum("npi,npk->nik", slope, gram @ slope)
            matrix[:, range(here.shape[1]), range(here.shape[1])] *= 1.0 + _DAMPING
            aim = np.einsum("npi,np->ni", slope, (on * left) @ A)
            moved = here + np.einsum("nij,nj->ni", np.linalg.pinv(matrix, hermitian=True), aim)
            tried = left_of(moved, seen)
            better = (tried**2).sum(axis=1) < (left**2).sum(axis=1)
            here, left = np.where(better[:, None], moved, here), np.where(better[:, None], tried, left)
        return here

    return np.concatenate(_in_tiles(at, len(z))) if len(z) else z
