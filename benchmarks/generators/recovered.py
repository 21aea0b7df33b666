"""A network recovered from its rows, and its distance from the truth."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import unrelu
from benchmarks.generators.networks import SIZES, Rows, Size, draw
from benchmarks.rivals.layers import sines, worst_sine
from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import CannotPeelError, UnreluWarning

RIGHT = 1e-6
THREADS = 2
PATIENCE = 600.0  # seconds


@dataclass(frozen=True, eq=False)
class Parts:
    """A2, b2 and a mask of outputs that have them; A1, b1; a mask of rows, and their units and inputs."""

    weights: FloatArray
    bias: FloatArray
    identified: BoolArray
    input_weights: FloatArray | None
    input_bias: FloatArray | None
    rows: BoolArray
    hidden: FloatArray
    inputs: FloatArray | None
    doubtful: tuple[int, ...]

    @classmethod
    def of_peeled(cls, peeled: unrelu.Peeled) -> Parts:
        layer, inner = peeled.layers[0], peeled.inner
        return cls(
            layer.weights,
            layer.bias,
            layer.column_identifiable,
            None if inner is None else inner.weights,
            None if inner is None else inner.bias,
            ~peeled.outlier_rows,
            peeled.hidden,
            peeled.inputs,
            tuple(layer.report.doubtful_units),
        )

    @classmethod
    def of_learner(cls, learner: unrelu.TwoLayerReLULearner, X: FloatArray) -> Parts:
        rows, whole = ~learner.outlier_rows_, learner.report_.converged
        return cls(
            learner.output_weights_,
            learner.output_bias_,
            learner.column_identifiable_,
            learner.input_weights_ if whole else None,
            learner.input_bias_ if whole else None,
            rows,
            learner.hidden_units(X)[rows],
            learner.transform(X)[rows] if whole else None,
            tuple(learner.report_.doubtful_units),
        )


@dataclass(frozen=True, eq=False)
class Recovered:
    """A recovery; ``model`` is None where it was refused, ``warned`` the kinds of warnings and errors with texts."""

    truth: Rows
    model: Any
    parts: Parts | None
    seconds: float
    warned: tuple[tuple[str, str], ...]
    units_found: int

    @property
    def words(self) -> str:
        """Kinds of the warnings and the name of the error."""
        return ", ".join(dict.fromkeys(name for name, _ in self.warned)) or "nothing"

    # --- units ------------------------------------------------------------------------------------

    @cached_property
    def unit_sines(self) -> FloatArray:
        """Of each found unit the sine between its heights and those of the nearest true one, over inlier rows."""
        parts = self.parts
        if parts is None or parts.hidden.shape[1] == 0:
            return np.zeros(0)
        whole = self.truth.inlier[parts.rows] & np.isfinite(parts.hidden).all(axis=1)
        return nearest_sines(parts.hidden[whole], self.truth.H[parts.rows][whole])

    def right(self, most: float = RIGHT) -> int:
        return int((self.unit_sines <= most).sum())

    def wrong_unnamed(self, most: float = RIGHT) -> int:
        """Units that are no true ones, and not named as doubtful."""
        doubtful = () if self.parts is None else self.parts.doubtful
        return sum(j not in doubtful for j in np.flatnonzero(self.unit_sines > most))

    @property
    def complete(self) -> bool:
        return self.right() == self.truth.H.shape[1]

    # --- weights and inputs -----------------------------------------------------------------------

    @property
    def sine(self) -> float:
        """The sine of A2's worst column, over the outputs that have weights; 1 where units are missing."""
        if self.parts is None or not self.parts.identified.any():
            return 1.0
        return worst_sine(self.parts.weights[self.parts.identified], self.truth.network.A2[self.parts.identified])

    @property
    def inputs_error(self) -> float:
        """|z - M z_found - c| / |z - mean| for the best M, c; 1 where there are no inputs."""
        if self.parts is None or self.parts.inputs is None:
            return 1.0
        found, z = self.parts.inputs, self.truth.z[self.parts.rows]
        rows = np.isfinite(found).all(axis=1) & self.truth.inlier[self.parts.rows]
        return affine_error(found[rows], z[rows])

    @property
    def rows_determined(self) -> float:
        """The share of rows that determine their inputs."""
        if self.parts is None or self.parts.inputs is None:
            return 0.0
        return float(np.isfinite(self.parts.inputs).all(axis=1).sum() / len(self.truth.X))

    @property
    def input_weight_errors(self) -> tuple[float, float, float]:
        """Relative errors of (A1, b1): after the best affine map of z, after the best rotation, and after a rotation
        where z is made standard by the moments of the true z, which is the optimum for these rows."""
        parts, net = self.parts, self.truth.network
        if parts is None or parts.input_weights is None or parts.input_bias is None or self.sine == 1.0:
            return 1.0, 1.0, 1.0
        weights, A2 = parts.weights[parts.identified], net.A2[parts.identified]
        partners = sines(weights, A2)[1]
        scale = np.linalg.norm(A2[:, partners], axis=0) / np.linalg.norm(weights, axis=0)  # h found / h true
        A1, b1 = net.A1[partners] * scale[:, None], net.b1[partners] * scale
        true, found = np.column_stack([A1, b1]), np.column_stack([parts.input_weights, parts.input_bias])
        mapped = found @ np.linalg.lstsq(found, true)[0]
        z = self.truth.z[self.truth.inlier]
        root = np.linalg.cholesky(np.cov(z.T, bias=True).reshape(len(z.T), -1))
        standard = np.column_stack([A1 @ root, b1 + A1 @ z.mean(axis=0)])
        return (
            float(np.linalg.norm(mapped - true) / np.linalg.norm(true)),
            rotation_error(found, true),
            rotation_error(standard, true),
        )


def nearest_sines(found: FloatArray, truth: FloatArray) -> FloatArray:
    """Of each found column the smallest sine to a true one; 1 where it is zero."""
    found = found / np.maximum(np.linalg.norm(found, axis=0), 1e-300)
    truth = truth / np.maximum(np.linalg.norm(truth, axis=0), 1e-300)
    cosines = found.T @ truth
    nearest = cosines.argmax(axis=1)
    left = found - truth[:, nearest] * cosines.max(axis=1)
    return np.where(cosines.max(axis=1) > 0.0, np.linalg.norm(left, axis=0), 1.0)


def affine_error(found: FloatArray, truth: FloatArray) -> float:
    if len(found) <= found.shape[1] + 1:
        return 1.0
    design = np.column_stack([found, np.ones(len(found))])
    left = truth - design @ np.linalg.lstsq(design, truth)[0]
    return float(np.linalg.norm(left) / np.linalg.norm(truth - truth.mean(axis=0)))


def rotation_error(found: FloatArray, truth: FloatArray) -> float:
    """|[A Q, b] - [A true, b true]| / |[A true, b true]| for the best orthogonal Q; b is the last column."""
    if found.shape != truth.shape:
        return 1.0
    u, _, vt = np.linalg.svd(found[:, :-1].T @ truth[:, :-1])
    rotated = np.column_stack([found[:, :-1] @ u @ vt, found[:, -1]])
    return float(np.linalg.norm(rotated - truth) / np.linalg.norm(truth))


def recover(
    rows: Rows,
    n_inputs: int | str | None,
    X: Any = None,
    width: int | None = None,
    max_seconds: float = PATIENCE,
) -> Recovered:
    """By :func:`unrelu.peel`, or :class:`unrelu.TwoLayerReLULearner` where outputs have no rectifier; ``X`` is another
    form of the table, ``width`` another number of units."""
    table, width = rows.X if X is None else X, rows.H.shape[1] if width is None else width
    learner = unrelu.TwoLayerReLULearner(width, n_inputs=n_inputs, max_seconds=max_seconds, output_bias=True)
    model: Any = None
    refused: list[tuple[str, str]] = []
    units = 0
    start = time.perf_counter()
    with threadpool_limits(THREADS), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnreluWarning)
        try:
            if rows.network.rectified:
                model = unrelu.peel(table, [width], n_inputs=n_inputs, max_seconds=max_seconds)
            else:
                model = learner.fit(table)
        except Exception as error:  # one that is not unrelu's is recorded under its own name
            refused = [(type(error).__name__, str(error))]
            units = getattr(error.report, "units_found", 0) if isinstance(error, CannotPeelError) else 0
    seconds = time.perf_counter() - start
    warned = [(one.message.kind, str(one.message)) for one in caught if isinstance(one.message, UnreluWarning)]
    parts = None
    if isinstance(model, unrelu.Peeled) and model.layers:
        parts, units = Parts.of_peeled(model), model.layers[0].report.units_found
    elif isinstance(model, unrelu.TwoLayerReLULearner):
        parts, units = Parts.of_learner(model, rows.X), model.report_.units_found
    return Recovered(rows, model, parts, seconds, (*warned, *refused), units)


@lru_cache(maxsize=20)
def of_first_size(seed: int) -> Recovered:
    """The first of ``SIZES``, its number of inputs given: several studies use it."""
    return recover(draw(SIZES[0], seed), SIZES[0].q)


def warm_up() -> None:
    """Compile the kernels, on small networks."""
    small = Size(60, 12, 4, 1500)
    for rectified in (True, False):
        recover(draw(small, 0, rectified), small.q, max_seconds=20.0)
