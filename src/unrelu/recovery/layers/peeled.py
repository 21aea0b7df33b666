"""The result of peeling: layers from the outermost inwards, the distribution of the innermost units, their inverses.

A and b of a layer are its weights and bias as in the papers. The innermost units are a RectifiedGaussian of the core:
its mean is their b, its covariance their W W'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from unrelu import storage
from unrelu.contracts import BoolArray, FloatArray, Progress, no_progress
from unrelu.errors import InvalidDataError
from unrelu.estimators import Columns
from unrelu.model import RectifiedGaussian
from unrelu.notebook import Shown
from unrelu.passes import as_stored
from unrelu.recovery.latent_methods import NonnegativePrior, RobustLatent
from unrelu.recovery.latent_rows import recover_rows
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.recovery.layers.inputs import InnerLayer, inputs_behind, inputs_of
from unrelu.recovery.matrix.matrix import MatrixReport
from unrelu.validation import RandomState, label_columns, row_label, row_labels, warn

if TYPE_CHECKING:
    from unrelu.storage import FilePath

_UNSURE = 4.0  # standard errors below which a unit is taken to be off
_OFF, _ROUNDING = 6.0, 1e-8  # standard deviations of noise below which a unit is off, and noise at least
_POOL = 5000  # inputs drawn, from which the search for those of rows of deeper networks starts


def refuse_gaps(what: str, cells: BoolArray, names: Sequence[str] | None) -> None:
    """Raise InvalidDataError where some cells are not usable numbers."""
    unusable = np.asarray(cells.any(axis=0))
    if unusable.any():
        raise InvalidDataError(
            f"X holds {what} in {label_columns(unusable, names)}: layers are found from whole rows. Leave such rows"
            " out, or the columns."
        )


def heights_of(values: Any, columns: Columns) -> tuple[FloatArray, FloatArray]:
    """Whole rows as heights above the level of every column, and these levels.

    The level is the floor plus its tolerance: a value below it is left-censored there.
    """
    refuse_gaps("NaN", np.isnan(values), columns.names)
    level = as_stored(np.array(columns.assumptions.censored_at), values)
    return np.maximum(values.astype(np.float64) - level, 0.0), level


@dataclass(frozen=True, eq=False)
class PeeledLayer:
    """x = max(A h + b, floor): ``weights`` A (d x p, columns of length 1), ``bias`` b, and the reports of the search.

    ``floor`` has one number per output, 0 in all layers but the outermost. ``column_identifiable`` is False for outputs
    whose weights the table does not determine; they are NaN, or in the second of three layers those that explain all
    rows of the table but need not be the only ones.
    """

    weights: Annotated[FloatArray, "unbounded floats o u"]
    bias: Annotated[FloatArray, "unbounded floats o"]
    floor: Annotated[FloatArray, "floats o"]
    column_identifiable: Annotated[BoolArray, "bools o"]
    report: LayerReport
    matrix_report: MatrixReport

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together, as a damaged file may hold them."""
        identified = self.column_identifiable
        for name, values in (("weights", self.weights), ("bias", self.bias)):
            if not np.isfinite(values[identified]).all():
                raise InvalidDataError(f"{name} of a layer holds values that are not finite")
        if (self.matrix_report.n_features, self.report.n_hidden) != self.weights.shape:
            raise InvalidDataError("a layer's report is of another layer")

    def _identified(self, heights: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rows, weights and bias of the outputs that are identified, as heights above a level."""
        identified = self.column_identifiable
        rows, weights = np.ascontiguousarray(heights[:, identified]), np.ascontiguousarray(self.weights[identified])
        return rows, weights, (self.bias - level)[identified]

    def inputs_behind(self, heights: FloatArray, inner: InnerLayer) -> FloatArray:
        """Inputs of rows, as heights above the floor, of a network whose other layer is ``inner``."""
        return inputs_behind(*self._identified(heights, self.floor), inner, self.report.noise)

    def units_behind(self, heights: FloatArray) -> FloatArray:
        """Hidden units of rows, as heights above the floor, 0 where off and NaN where a row does not determine them."""
        units, amplified = inputs_of(*self._identified(heights, self.floor))
        off = _OFF * max(self.report.noise, _ROUNDING * float(np.sqrt((units**2).mean())))
        return np.where(np.isfinite(amplified)[:, None], np.where(units > off, units, 0.0), np.nan)

    def units_of(
        self, heights: FloatArray, level: FloatArray, seed: int = 0, progress: Progress = no_progress
    ) -> FloatArray:
        """h >= 0 of each row of x = max(A h + b, floor), from the outputs that are identified.

        Up to nearly half of a row's outputs may be outliers. A row whose outputs do not determine its units gets NaN.
        """
        rows, weights, bias = self._identified(heights, level)
        method = RobustLatent(NonnegativePrior())
        found = recover_rows(weights, bias, rows, method, seed, progress, skip_bad_rows=True)
        if found.faults:
            row, why = found.faults[0]
            warn(
                f"{len(found.faults):,} of {len(rows):,} rows do not determine their hidden units, which are NaN there."
                f" {row_label(row).capitalize()} {why}",
                "weak-rows",
                rows=[row],
            )
        if found.ambiguous.any():
            numbers = np.flatnonzero(found.ambiguous).tolist()
            message = f"Other hidden units explain {row_labels(numbers)} about equally well."
            warn(message, "ambiguous-optimum", rows=numbers)
        errors = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
        return np.where(found.latent <= _UNSURE * errors, 0.0, found.latent)

    def output(self, hidden: FloatArray) -> FloatArray:
        """max(A h + b, floor) of rows of hidden units."""
        return np.maximum(hidden @ self.weights.T + self.bias, self.floor)


@dataclass(frozen=True)
class PeelReport(Shown):
    """The numbers of rows and of outlier rows, and the reports of each layer's two steps.

    ``layers`` are those of the search for units, ``rectifiers`` those of the rectifiers above them; outermost first.
    ``learned`` says whether the distribution of the innermost units was learned.
    """

    n_rows: int
    n_outlier_rows: int
    layers: tuple[LayerReport, ...]
    rectifiers: tuple[MatrixReport, ...]
    learned: bool

    @property
    def converged(self) -> bool:
        """Whether every unit was found, every rectifier undone as exactly as could be, and the distribution learned."""
        found = all(layer.converged for layer in self.layers)
        return self.learned and found and all(rectifier.converged for rectifier in self.rectifiers)


@dataclass(frozen=True, eq=False)
class Peeled(Shown):
    """Layers from the outermost inwards, the innermost units of the rows, and the distribution of these units.

    ``outlier_rows`` marks the rows of the table that some layer does not explain; ``hidden`` has one row for each of
    the others. ``hidden_distribution`` is None where peeling ended early. ``feature_names`` are those of the table.
    Where ``n_inputs`` was given, ``inner`` is the layer of the inputs, h = ReLU(A z + b), and ``inputs``
    are those of the same rows as ``hidden``, NaN in rows that do not determine them: the network is a generator.

    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> h = np.maximum(rng.standard_normal((500, 2)), 0.0)
    >>> peeled = unrelu.peel(np.maximum(h @ rng.standard_normal((2, 12)) + 0.3, 0.0), widths=[2])
    >>> peeled.report.converged, peeled.report.n_outlier_rows, peeled.sample(5).shape
    (True, 0, (5, 12))
    """

    layers: tuple[PeeledLayer, ...]
    hidden: Annotated[FloatArray, "floats m p"]
    outlier_rows: Annotated[BoolArray, "bools n"]
    hidden_distribution: Annotated[RectifiedGaussian | None, "own sizes"]
    feature_names: tuple[str, ...] | None = None
    inner: InnerLayer | None = None
    inputs: Annotated[FloatArray, "unbounded floats m q"] | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together, as a damaged file may hold them."""
        widths = [self.hidden.shape[1]]
        for depth, layer in enumerate(self.layers, start=1):
            if depth > 1 and len(layer.bias) != widths[-1]:
                raise InvalidDataError(
                    f"layer {depth} has {len(layer.bias)} outputs, the layer above it {widths[-1]} units"
                )
            widths.append(layer.report.units_found)
        distribution = self.hidden_distribution
        if self.hidden.shape[1] != widths[-1] or (distribution is not None and distribution.n_features != widths[-1]):
            raise InvalidDataError(
                f"the innermost layer has {widths[-1]} units, its units or their distribution another number"
            )
        if self.layers and len(self.outlier_rows) != self.layers[0].report.n_rows:
            raise InvalidDataError(f"outlier_rows does not mark {self.layers[0].report.n_rows:,} rows")
        inner = self.inner
        if inner is not None and inner.weights.shape[0] != widths[-1]:
            raise InvalidDataError(f"the layer of the inputs has {inner.weights.shape[0]} units, not {widths[-1]}")
        names = self.feature_names
        if self.layers and names is not None and len(names) != len(self.layers[0].bias):
            raise InvalidDataError(f"it does not name its {len(self.layers[0].bias)} columns")

    @property
    def report(self) -> PeelReport:
        """The outcome, layer by layer."""
        n, outliers = len(self.outlier_rows), int(np.count_nonzero(self.outlier_rows))
        layers = tuple(layer.report for layer in self.layers)
        rectifiers = tuple(layer.matrix_report for layer in self.layers)
        return PeelReport(n, outliers, layers, rectifiers, learned=self.hidden_distribution is not None)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> FloatArray:
        """Rows drawn from the network."""
        if self.hidden_distribution is None:
            raise InvalidDataError("The innermost layer was not learned: there is nothing to sample from.")
        if self.inner is None:
            return self.output(self.hidden_distribution.sample(n_samples, random_state))
        return self.output(self.inner.sample(n_samples, random_state))

    def transform(self, X: ArrayLike) -> FloatArray:
        """Inputs z of rows x, NaN in rows that do not determine them.

        >>> import unrelu
        >>> rng = np.random.default_rng(0)
        >>> z, A1, A2 = (rng.standard_normal(shape) for shape in ((1500, 4), (4, 12), (12, 60)))
        >>> X = np.maximum(np.maximum(z @ A1 + 0.3, 0.0) @ A2 + 0.2, 0.0)
        >>> network = unrelu.peel(X, widths=[12], n_inputs=4)
        >>> again = network.inverse_transform(network.transform(X[:5]))
        >>> bool(np.nanmax(np.abs(again - X[:5])) < 1e-6)
        True
        """
        return self._inputs_of(self._heights(X))

    def inverse_transform(self, Z: ArrayLike) -> FloatArray:
        """Rows x of inputs z; NaN for outputs that the table did not determine."""
        inner = self._generator()
        inputs = np.asarray(Z, dtype=np.float64)
        if inputs.ndim != 2 or inputs.shape[1] != inner.n_inputs:
            raise InvalidDataError(f"There are {inner.n_inputs} inputs; got an array of shape {inputs.shape}.")
        return self.output(inner.units(inputs))

    def relative_error(self, X: ArrayLike) -> float:
        """|x - x rebuilt from its inputs| / |x| over rows X, those that do not determine their inputs left out."""
        inner, heights = self._generator(), self._heights(X)
        z = self._inputs_of(heights)
        determined, outputs = np.isfinite(z[:, 0]), self.layers[0].column_identifiable
        rebuilt = self.output(inner.units(z[determined])) - self.layers[0].floor
        seen = heights[determined][:, outputs]
        return float(np.linalg.norm(seen - rebuilt[:, outputs]) / max(float(np.linalg.norm(seen)), 1e-300))

    def score(self, X: ArrayLike) -> float:
        """1 - relative_error(X)^2: the share of the rows' squares that the network explains."""
        return 1.0 - self.relative_error(X) ** 2

    def _generator(self) -> InnerLayer:
        if self.inner is None:
            raise InvalidDataError("The inputs were not recovered: peel with n_inputs, a number or 'auto'.")
        return self.inner

    def _inputs_of(self, heights: FloatArray) -> FloatArray:
        inner, last = self._generator(), self.layers[-1]
        if len(self.layers) == 1:
            return last.inputs_behind(heights, inner)
        from unrelu.recovery.layers.experimental.three_layers import inputs_near  # only such networks need it

        for layer in self.layers[:-1]:
            heights = layer.units_behind(heights)
        pool, outputs = np.random.default_rng(0).standard_normal((_POOL, inner.n_inputs)), last.column_identifiable
        return inputs_near(heights[:, outputs], last.weights[outputs], last.bias[outputs], inner, pool)[0]

    def _heights(self, X: ArrayLike) -> FloatArray:
        """Rows as heights above the floor."""
        rows, outer = np.asarray(X, dtype=np.float64), self.layers[0]
        if rows.ndim != 2 or rows.shape[1] != len(outer.bias):
            raise InvalidDataError(f"Rows have {len(outer.bias)} outputs; got an array of shape {rows.shape}.")
        if not np.isfinite(rows).all():
            raise InvalidDataError("X holds NaN or infinity: inputs are found from whole rows. Leave such rows out.")
        return np.maximum(rows - outer.floor, 0.0)

    def output(self, hidden: FloatArray) -> FloatArray:
        """Rows x of innermost units."""
        for layer in reversed(self.layers):
            hidden = layer.output(hidden)
        return hidden

    def save(self, path: FilePath, details: Mapping[str, Any] | None = None) -> None:
        """Write layers, reports, ``outlier_rows`` and the distribution of the innermost units: a NumPy .npz without
        pickle.

        ``hidden`` and ``inputs`` are not written, as they may be as large as the table: they are empty (0 rows) in what
        :meth:`load` gives. ``details`` are facts for the file's header.

        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import unrelu
        >>> rng = np.random.default_rng(0)
        >>> h = np.maximum(rng.standard_normal((500, 2)), 0.0)
        >>> peeled = unrelu.peel(np.maximum(h @ rng.standard_normal((2, 12)) + 0.3, 0.0), widths=[2])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "layers.unrelu"
        >>> peeled.save(path)
        >>> again = unrelu.Peeled.load(path)
        >>> bool((again.sample(3, 0) == peeled.sample(3, 0)).all()), again.hidden.shape
        (True, (0, 2))
        """
        if not self.layers:
            raise InvalidDataError("No layer was peeled: there is nothing to save.")
        inputs = None if self.inputs is None else self.inputs[:0]
        storage.write(path, replace(self, hidden=self.hidden[:0], inputs=inputs), details)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read what :meth:`save` wrote, with ``hidden`` empty; the example is there."""
        return storage.read(path, cls)

    def check_loaded(self) -> None:
        """Raise InvalidDataError if a file held nothing."""
        if not self.layers:
            raise InvalidDataError("it holds no layer")
