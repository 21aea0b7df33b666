"""ReLUMatrixRecovery: the low-rank matrix behind a rectified table, the way scikit-learn's decompositions work.

The mathematics is in :mod:`unrelu.recovery`. With normal rows of C, b (``bias_``) is the core's mean and A A' its
covariance.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Annotated, Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.estimators import FloorEstimator, Table, prepare
from unrelu.margins import from_latent
from unrelu.passes import as_stored
from unrelu.recovery.matrix.descent import MatrixMethod, matrix_method
from unrelu.recovery.matrix.factors import GAUGES, Cells, check_stored
from unrelu.recovery.matrix.matrix import MatrixFit, lifted_cells, recover_matrix, warn_of
from unrelu.recovery.matrix.state import recover_with_state
from unrelu.storage import FilePath
from unrelu.tables import SparseSamples
from unrelu.validation import check_choice, check_count, check_positive


class ReLUMatrixRecovery(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FloorEstimator):
    """Recover the hidden low-rank matrix T = C A' + 1 b' from X = max(floor, T) alone.

    Every value above the floor is a value of T; every value at the floor only says that T is not above it. Where the
    model holds exactly, T comes back exactly, also where X hides it, if enough values are above the floor. C and A are
    determined up to an invertible map of the latent space, b up to a shift along A: ``gauge`` picks one.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Columns of C and A. "auto" fits 90 % of the cells with 1, 2, ... of them and keeps the smallest number that
        predicts the others as well as the best one does.
    method : str or object from :mod:`unrelu.recovery`, default="censored_als"
        "censored_als": least squares, exact without noise. "tobit_em": likelihood under normal noise inside the
        rectifier, with standard errors.
        ``unrelu.papers.Likelihood(density, ...)``: program (34) of Mazumdar and Rawat, given the biases' density.
    gauge : {"centered", "orthogonal", "bayes", "zero"}, default="centered"
        "centered": C has mean 0 and unit covariance, so that b is the column mean of T. "orthogonal": b is orthogonal
        to the columns of A. "bayes": a compromise of both, the most accurate where C and b are random. "zero": the
        model has no bias.
    floor : float or one per column, default=0.0
        Values at the floor are cut off there; values below it are an error. NaN means not observed. Sparse tables need
        a floor of 0.
    margins : str, object of :mod:`unrelu.margins`, one per column, or dict by name, default="normal"
        The margins of T, before it is cut off, as for :class:`unrelu.RectifiedGaussianLearner`. C, A and b are then of
        latent values; :meth:`hidden` gives your units. Not for sparse tables.
    floor_tolerance : float, default=0.0
        Noise after the floor: values within it of the floor, above or below, count as floored.
    tol : float, default=1e-12
        Relative residual at which the fit counts as exact. Iterations also end when they gain no more.
    max_iter : int, default=500
        Most iterations; the best factors are kept, with a ConvergenceWarning that names the residual.
    warm_start : bool, default=False
        Begin :meth:`fit` at the factors of the last one, where the shapes agree.
    random_state : int, Generator or None, default=0
        Chooses the held-out cells of n_components="auto".

    Attributes
    ----------
    components_ : array of shape (k, d), k = ``n_components_``
        A transposed: rows by falling singular value, orthogonal to each other.
    bias_ : array of shape (d,)
        b, measured from zero as the table is.
    latent_ : array of shape (n, k)
        C, of unit covariance over the rows that the fit rests on.
    n_components_ : int
        The number of components, chosen or given.
    floor_ : array of shape (d,)
        Every column's floor, in your units.
    margins_ : tuple of margins, or None where all are normal
        The margin of every column.
    column_space_ : array of shape (d, k)
        Orthonormal basis of the columns of A.
    column_identifiable_, row_identifiable_ : arrays of bool
        Whether a column's (a row's) values above the floor determine it. What they do not is filled in: a guess.
    column_condition_, row_condition_ : arrays
        Condition numbers of their equations: how much they amplify errors. Infinite where unknowns are left open.
    noise_ : float
        With method="tobit_em": standard deviation of the noise inside the rectifier.
    components_stderr_, mean_stderr_, latent_stderr_ : arrays
        With method="tobit_em": standard errors, relative to the latent axes as fitted.
    report_ : MatrixReport
        How the fit went.
    n_iter_, n_features_in_, feature_names_in_ : int, int, array
        Iterations; the columns seen by :meth:`fit`, and their names where they have any.

    Notes
    -----
    Standard errors treat C as parameters: they are too small where the square root of the number of rows is not small
    against the number of columns, and the noise not small against T (docs/benchmarks.md has figures).

    1-bit matrix completion (Davenport et al. 2014) is the relative that sees only whether T is above a random
    threshold; docs/papers.md says what the two share.

    Examples
    --------
    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 40))
    >>> T += 0.3 * rng.standard_normal(40)
    >>> X = np.maximum(T, 0.0)
    >>> recovery = unrelu.ReLUMatrixRecovery(3).fit(X)
    >>> bool(np.abs(recovery.hidden() - T).max() < 1e-6), bool(recovery.column_identifiable_.all())
    (True, True)
    >>> unrelu.ReLUMatrixRecovery("auto").fit(X).n_components_
    3
    """

    _derived = (
        "report_", "n_components_", "n_iter_", "margins_", "floor_", "components_", "bias_", "latent_", "column_space_",
        "column_condition_", "row_condition_", "column_identifiable_", "row_identifiable_", "noise_",
        "components_stderr_", "mean_stderr_", "latent_stderr_",
    )  # fmt: skip
    _takes_sparse = True
    _no_weights = (
        "every row has a latent vector of its own, and columns are fitted to all rows alike. Repeat rows that count"
        " more, and leave out those of weight 0."
    )
    _fit: MatrixFit | None = None
    _lifted: NDArray[np.int64]  # cells at the floor whose T is above, by row x columns + column

    def __init__(
        self,
        n_components: int | str = "auto",
        method: str | MatrixMethod = "censored_als",
        gauge: str = "centered",
        *,
        floor: ArrayLike = 0.0,
        margins: Any = "normal",
        floor_tolerance: float = 0.0,
        tol: float = 1e-12,
        max_iter: int = 500,
        warm_start: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.gauge = gauge
        self.floor = floor
        self.margins = margins
        self.floor_tolerance = floor_tolerance
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    # --- fitting ----------------------------------------------------------------------------------

    def fit(self, X: Table, y: Any = None, *, state: FilePath | None = None) -> Self:  # noqa: ARG002
        """Recover the factors behind X, dense, scipy sparse, or rows read in blocks.

        ``state`` names a file in which the state is kept while working. If it exists, the work goes on from it, as long
        as table and parameters are those of its run; tol and max_iter may change. Delete it when it is needed no more.

        >>> import pathlib, tempfile, warnings
        >>> import numpy as np
        >>> import unrelu
        >>> T = np.outer(np.linspace(-1.0, 2.0, 40), [1.0, 2.0, -1.0, 0.5]) + 0.3
        >>> X, state = np.maximum(T, 0.0), pathlib.Path(tempfile.mkdtemp()) / "state.npz"
        >>> with warnings.catch_warnings(action="ignore"):
        ...     first = unrelu.ReLUMatrixRecovery(1, max_iter=3).fit(X, state=state)
        >>> then = unrelu.ReLUMatrixRecovery(1).fit(X, state=state)
        >>> then.report_.resumed == (3, first.report_.residual), then.report_.converged
        (True, True)
        """
        start = self._fit.factors if self.warm_start and self._fit is not None else None
        self._fit = None
        self._forget()
        method, k = matrix_method(self.method), self.n_components
        check_choice("gauge", self.gauge, GAUGES)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        if not (isinstance(k, str) and k == "auto") and (isinstance(k, bool) or not isinstance(k, Integral)):
            raise InvalidParameterError(f"n_components must be a whole number or 'auto', got {k!r}.")
        cells = self._cells(X, reset=True)
        assumed, seed = self._assumptions(), self._seed()
        request: dict[str, Any] = {"tolerance": float(self.tol), "max_iterations": int(self.max_iter), "seed": seed}
        if state is None:
            fit = recover_matrix(cells, k, method, self.gauge, start=start, progress=self._progress, **request)
        else:
            facts = {"floor": assumed.floor, "floor_tolerance": assumed.floor_tolerance}
            fit = recover_with_state(state, facts, cells, k, method, self.gauge, progress=self._progress, **request)
        self._fit, self._lifted = fit, lifted_cells(cells, fit.factors)
        self._solve("report_")
        warn_of(fit, self._names())
        return self

    def _cells(self, X: Any, *, reset: bool) -> Cells:
        """X as heights above the floor."""
        smallest = 2 if reset else 1
        options = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": False}
        if scipy.sparse.issparse(X):
            table = validate_data(self, X, reset=reset, ensure_min_samples=smallest, **options)
            return self._sparse_cells(table, reset)
        if isinstance(X, SparseSamples):
            prepare(X, self, None if reset else self._columns)
            return self._sparse_cells(check_array(X.matrix, ensure_min_samples=smallest, **options), reset)
        values = self._floats(X, reset=reset, smallest=smallest, standard=True)  # else results depend on units
        assumptions = self._assumptions()
        heights = values.astype(np.float64) - as_stored(np.array(assumptions.floor), values)
        heights[heights <= assumptions.floor_tolerance] = 0.0
        return Cells(heights)

    def _sparse_cells(self, X: Any, reset: bool) -> Cells:
        table = scipy.sparse.csr_array(X)
        if not (isinstance(self.margins, str) and self.margins == "normal"):
            raise InvalidParameterError("margins= goes with dense tables: write it as one.")
        if reset:
            self._learn_columns(SparseSamples(table, self._names()), part=True)
        assumptions = self._assumptions()
        if any(assumptions.floor):
            raise InvalidParameterError(
                "A sparse table needs floor=0, as what it does not store is 0: subtract the floor first, or pass a"
                " dense array."
            )
        check_stored(table, assumptions.floor_tolerance)
        keep = ~(table.data <= assumptions.floor_tolerance)
        if not keep.all():
            table = table.copy()
            table.data[~keep] = 0.0
            table.eliminate_zeros()
        return Cells(table)

    @classmethod
    def stored(cls) -> dict[str, Any]:
        return {**super().stored(), "_fit": MatrixFit, "_lifted": Annotated[NDArray[np.int64], "ints c"]}

    def check_loaded(self) -> None:
        """Raise InvalidParameterError or InvalidDataError if a file held what no fit can have given."""
        super().check_loaded()
        fit = self._result()
        check_choice("gauge", self.gauge, GAUGES)
        if fit.report.n_features != self.n_features_in_:
            raise InvalidDataError(f"it has factors of {fit.report.n_features} columns, not {self.n_features_in_}")

    # --- the result -------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return self._fit is not None

    def _result(self) -> MatrixFit:
        check_is_fitted(self)
        assert self._fit is not None
        return self._fit

    def _solve(self, name: str) -> None:
        fit, factors = self._result(), self._result().factors
        report = self.report_ = fit.report
        self.n_components_, self.n_iter_, self.margins_ = report.n_components, report.iterations, self._columns.margins
        self.floor_, floor = self._columns.floor, np.array(self._assumptions().floor)
        self.components_ = np.ascontiguousarray(factors.loadings.T)
        self.bias_ = floor if factors.bias is None else floor + factors.bias
        self.latent_, self.column_space_ = factors.latent, np.asarray(np.linalg.qr(factors.loadings)[0])
        self.column_condition_, self.row_condition_ = fit.conditions.columns, fit.conditions.rows
        self.column_identifiable_ = fit.conditions.column_identifiable
        self.row_identifiable_ = fit.conditions.row_identifiable
        if report.noise is not None:
            self.noise_ = report.noise
        elif name == "noise_":
            raise AttributeError(f"Only method='tobit_em' learns a noise, not {report.method!r}.")
        if fit.errors is not None:
            self.components_stderr_ = np.ascontiguousarray(fit.errors.loadings.T)
            self.mean_stderr_ = np.zeros(self.n_features_in_) if fit.errors.bias is None else fit.errors.bias
            self.latent_stderr_ = fit.errors.latent
        elif name.endswith("_stderr_"):
            raise AttributeError(f"Only method='tobit_em' gives standard errors, not {report.method!r}.")

    # --- using it ---------------------------------------------------------------------------------

    def transform(self, X: Table) -> FloatArray:
        """Latent vectors of the rows of X, from the columns that are identified."""
        fit = self._result()
        cells = self._cells(X, reset=False)
        identified, every = self.column_identifiable_, np.ones(cells.shape[0], dtype=bool)
        bias = None if fit.factors.bias is None else fit.factors.bias[identified]
        used = replace(fit.factors, loadings=fit.factors.loadings[identified], bias=bias)
        mean = fit.latent_mean if bias is not None else np.zeros_like(fit.latent_mean)
        part = cells if identified.all() else cells.part(every, identified)
        return fit.filling.latent_of(part, used.shift(mean)) + mean

    def fit_transform(self, X: Table, y: Any = None) -> FloatArray:
        """Fit to X and return ``latent_``."""
        return self.fit(X, y).latent_

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """The table that latent vectors give: max(floor, C A' + 1 b')."""
        hidden = self._hidden_of(X)
        return np.maximum(self._uncut(hidden), self.floor_)

    def hidden(self, X: Table | None = None) -> FloatArray:
        """T = C A' + 1 b', also below the floor: of the table fitted, or of the rows of X.

        Cells that are at their floor in the table are at most there: where T is above, they are given as the floor.

        >>> import numpy as np
        >>> import unrelu
        >>> T = np.outer(np.linspace(-1.0, 2.0, 40), [1.0, 2.0, -1.0, 0.5]) + 0.3
        >>> recovery = unrelu.ReLUMatrixRecovery(1).fit(np.maximum(T, 0.0))
        >>> bool(np.abs(recovery.hidden() - T).max() < 1e-8)
        True
        """
        if X is None:
            return self.hidden_rows(0, len(self.latent_))
        hidden, cells, floor = self._hidden_of(self.transform(X)), self._cells(X, reset=False), self._latent_floor()
        return self._uncut(np.where(cells.rows(0, len(hidden)) <= 0.0, np.minimum(hidden, floor), hidden))

    def hidden_rows(self, start: int, stop: int) -> FloatArray:
        """Those rows of :meth:`hidden` of the table fitted, which may be too large for memory."""
        hidden, d = self._hidden_of(self.latent_[start:stop]), self.n_features_in_
        lifted = self._lifted
        at = lifted[np.searchsorted(lifted, start * d) : np.searchsorted(lifted, (start + len(hidden)) * d)]
        hidden[at // d - start, at % d] = self._latent_floor()[at % d]
        return self._uncut(hidden)

    def _latent_floor(self) -> FloatArray:
        return np.array(self._assumptions().floor)

    def _uncut(self, hidden: FloatArray) -> FloatArray:
        """Latent values in the user's units, below the floor as well."""
        return hidden if self._columns.margins is None else from_latent(self._columns.margins, hidden)

    def score(self, X: Table, y: Any = None) -> float:  # noqa: ARG002
        """Share of the variance of X (of latent values, with margins) about column means that the model explains."""
        latent = self.transform(X)
        cells = self._cells(X, reset=False)
        values = cells.rows(0, cells.shape[0])
        fitted = np.maximum(self._hidden_of(latent) - np.array(self._assumptions().floor), 0.0)
        seen = ~np.isnan(values)
        mean = np.where(seen, values, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        left = float(np.nansum((values - fitted) ** 2))
        total = float(np.nansum((values - mean) ** 2))
        return 1.0 - left / total if total > 0.0 else 0.0

    # --- for scikit-learn ---------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _hidden_of(self, latent: ArrayLike) -> FloatArray:
        k, values = self.n_components_, np.asarray(latent, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != k:
            raise InvalidDataError(f"Latent vectors have {k} columns; got an array of shape {values.shape}.")
        return np.asarray(values @ self.components_ + self.bias_)
