"""ReLUMatrixRecovery: the low-rank matrix behind a rectified table, the way scikit-learn's decompositions work.

The mathematics is in :mod:`unrelu.recovery`.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from unrelu.contracts import BoolArray, FloatArray
from unrelu.distribution import generator
from unrelu.engines.local import LocalEngine
from unrelu.errors import (
    InvalidDataError,
    InvalidParameterError,
    RankDeficientWarning,
    WeakColumnsWarning,
    WeakRowsWarning,
)
from unrelu.estimators.learner import RectifiedGaussianLearner, _numeric
from unrelu.estimators.matrix_file import read, write
from unrelu.kernels.row_block import LARGEST
from unrelu.recovery.matrix.cells import Cells, DenseCells, SparseCells
from unrelu.recovery.matrix.contracts import MatrixMethod, Task, Watch, WatchRank, unwatched
from unrelu.recovery.matrix.factors import GAUGES, Factors
from unrelu.recovery.matrix.filling import Filling
from unrelu.recovery.matrix.identifiability import effective_components
from unrelu.recovery.matrix.matrix import MatrixFit, recover_matrix
from unrelu.recovery.matrix.methods import matrix_method, method_name
from unrelu.recovery.matrix.rank import RankChoice, choose_rank
from unrelu.samples import ArraySamples
from unrelu.samples.blocks import as_floats
from unrelu.statistics.screening import ScreeningQuestion
from unrelu.statistics.tiles import as_stored
from unrelu.storage import FilePath
from unrelu.validation import check_choice, check_count, check_positive, floor_per_column, label_columns, warn


class ReLUMatrixRecovery(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Recover the hidden low-rank matrix T = C A' + 1 b' from X = max(floor, T) alone.

    Every value above the floor is a value of T; every value at the floor only says that T is not above it. Where the
    model holds exactly, T comes back exactly, also where X hides it, if enough values are above the floor. C and A are
    determined up to an invertible map of the latent space, b up to a shift along A: ``gauge`` picks one.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Columns of C and A. "auto" fits 90 % of the cells with ranks 1, 2, ... and keeps the smallest that predicts the
        others as well as the best one does.
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
    floor_tolerance : float, default=0.0
        Noise after the floor: values within it of the floor, above or below, count as floored.
    tol : float, default=1e-12
        Relative residual at which the fit counts as exact. Iterations also end when they gain no more.
    max_iter : int, default=500
        Most iterations; what was reached is kept, with a ConvergenceWarning that names the residual.
    warm_start : bool, default=False
        Begin :meth:`fit` at the factors of the last one, where the shapes agree.
    random_state : int, Generator or None, default=0
        Chooses the held-out cells of rank="auto".

    Attributes
    ----------
    components_ : array of shape (rank, d)
        A transposed: rows by falling singular value, orthogonal to each other.
    bias_ : array of shape (d,)
        b, measured from zero as the table is.
    latent_ : array of shape (n, rank)
        C, of unit covariance over the rows that the fit rests on.
    rank_ : int
        The rank, chosen or given.
    column_space_ : array of shape (d, rank)
        Orthonormal basis of the columns of A.
    column_identifiable_, row_identifiable_ : arrays of bool
        Whether a column's (a row's) values above the floor determine it. What they do not is filled in: a guess.
    column_condition_, row_condition_ : arrays
        Condition numbers of their equations: how much they amplify errors. Infinite where unknowns are left open.
    noise_ : float
        With method="tobit_em": standard deviation of the noise inside the rectifier.
    components_stderr_, bias_stderr_, latent_stderr_ : arrays
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
    threshold; :mod:`unrelu.papers.guarantees.matrix` says what the two share.

    Examples
    --------
    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 40)) + 0.3 * rng.standard_normal(40)
    >>> X = np.maximum(T, 0.0)
    >>> recovery = unrelu.ReLUMatrixRecovery(3).fit(X)
    >>> bool(np.abs(recovery.hidden() - T).max() < 1e-6), bool(recovery.column_identifiable_.all())
    (True, True)
    >>> unrelu.ReLUMatrixRecovery("auto").fit(X).rank_
    3
    """

    _factors: Factors | None
    _filling: Filling
    _latent_mean: FloatArray

    def __init__(
        self,
        rank: int | str = "auto",
        method: str | MatrixMethod = "censored_als",
        gauge: str = "centered",
        *,
        floor: ArrayLike = 0.0,
        floor_tolerance: float = 0.0,
        tol: float = 1e-12,
        max_iter: int = 500,
        warm_start: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.rank = rank
        self.method = method
        self.gauge = gauge
        self.floor = floor
        self.floor_tolerance = floor_tolerance
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state

    # --- fitting ----------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: Any = None) -> Self:  # noqa: ARG002
        """Recover the factors behind X, dense or scipy sparse."""
        before = self.__dict__.get("_factors") if self.warm_start else None
        return self._fit_from(X, before)

    def _fit_from(
        self,
        X: Any,
        start: Factors | None,
        watch: Watch = unwatched,
        watch_rank: WatchRank = unwatched,
    ) -> Self:
        """:meth:`fit`, from given factors and with someone watching."""
        self._factors = None
        method = self._checked_method()
        cells = self._cells(X, reset=True)
        task = Task(cells, 1, self.gauge != "zero", float(self.tol), int(self.max_iter), None, watch)
        choice = self._choose_rank(task, method, watch_rank)
        self._check_rank(choice.rank, cells.shape)
        fits = start is not None and _shapes(start) == (*cells.shape, choice.rank, task.free_bias)
        task = replace(task, rank=choice.rank, start=start if fits else None)
        fit = recover_matrix(task, method, self.gauge)
        self._store(fit, cells, choice, method)
        self._warn(fit)
        return self

    def _checked_method(self) -> MatrixMethod:
        check_choice("gauge", self.gauge, GAUGES)
        check_positive("tol", self.tol)
        check_count("max_iter", self.max_iter)
        return matrix_method(self.method)

    def _choose_rank(self, task: Task, method: MatrixMethod, watch: WatchRank) -> RankChoice:
        if isinstance(self.rank, str) and self.rank == "auto":
            seed = int(generator(self.random_state).integers(2**31))
            return choose_rank(task, lambda trial: recover_matrix(trial, method, self.gauge).factors, seed, watch)
        if isinstance(self.rank, bool) or not isinstance(self.rank, Integral):
            raise InvalidParameterError(f"rank must be a whole number or 'auto', got {self.rank!r}.")
        return RankChoice(int(self.rank), ())

    @staticmethod
    def _check_rank(rank: int, shape: tuple[int, int]) -> None:
        if rank < 1:
            raise InvalidParameterError(f"rank must be at least 1, got {rank}.")
        if rank >= min(shape):
            raise InvalidParameterError(
                f"rank={rank} is not below both n_samples = {shape[0]} and n_features = {shape[1]}: any table has such"
                " a factorization. Lower the rank."
            )

    def _cells(self, X: Any, *, reset: bool) -> Cells:
        """X as heights above the floor."""
        if scipy.sparse.issparse(X):
            return self._sparse_cells(X, reset)
        values = as_floats(_numeric(self, X, reset=reset, smallest=2 if reset else 1))
        assumptions = self._assumptions()
        samples = ArraySamples(values, feature_names=self._names())
        found = LocalEngine().collect(samples, ScreeningQuestion(assumptions.lowest))
        found.check(assumptions.lowest, self._names())
        heights = values.astype(np.float64) - as_stored(np.array(assumptions.floor), values)
        heights[heights <= float(self.floor_tolerance)] = 0.0
        return DenseCells(heights)

    def _sparse_cells(self, X: Any, reset: bool) -> SparseCells:
        table = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )  # fmt: skip
        if np.any(floor_per_column(self.floor, table.shape[1]) != 0.0):
            raise InvalidParameterError(
                "A sparse table needs floor=0, as what it does not store is 0: subtract the floor first, or pass a"
                " dense array."
            )
        self._assumptions()
        table = scipy.sparse.csr_array(table)
        _check_stored(table, float(self.floor_tolerance))
        keep = ~(table.data <= float(self.floor_tolerance))
        if not keep.all():
            table = table.copy()
            table.data[~keep] = 0.0
            table.eliminate_zeros()
        return SparseCells(table)

    def _assumptions(self) -> Any:
        """The floor and its tolerance, as the learner checks them."""
        learner = RectifiedGaussianLearner(floor=self.floor, floor_tolerance=self.floor_tolerance)
        learner.n_features_in_ = self.n_features_in_
        return learner._assumptions()

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(names.tolist())

    def _store(self, fit: MatrixFit, cells: Cells, choice: RankChoice, method: MatrixMethod) -> None:
        factors = fit.factors
        floor = np.array(self._assumptions().floor)
        self.rank_ = factors.rank
        self.components_ = np.ascontiguousarray(factors.loadings.T)
        self.bias_ = floor + (0.0 if factors.bias is None else factors.bias)
        self.latent_ = factors.latent
        self.n_iter_ = fit.recovered.iterations
        self.column_condition_, self.row_condition_ = fit.conditions.columns, fit.conditions.rows
        self.column_identifiable_ = fit.conditions.column_identifiable
        self.row_identifiable_ = fit.conditions.row_identifiable
        self._filling, self._latent_mean = fit.filling, fit.latent_mean
        for name in ("noise_", "components_stderr_", "bias_stderr_", "latent_stderr_"):
            self.__dict__.pop(name, None)
        if fit.recovered.noise is not None and fit.errors is not None:
            self.noise_ = fit.recovered.noise
            self.components_stderr_ = np.ascontiguousarray(fit.errors.loadings.T)
            self.bias_stderr_ = np.zeros(len(floor)) if fit.errors.bias is None else fit.errors.bias
            self.latent_stderr_ = fit.errors.latent
        self.report_ = fit.report(cells, method_name(method), self.gauge, choice)
        self._factors = factors

    def _warn(self, fit: MatrixFit) -> None:
        weak = ~self.column_identifiable_
        if weak.any():
            warn(
                f"Not determined by their values above the floor: {label_columns(weak, self._names())}. What"
                " components_, bias_ and hidden() say of them is filled in. Lower the rank, add rows or leave them"
                " out.",
                WeakColumnsWarning,
            )
        rows = int(np.count_nonzero(~self.row_identifiable_))
        if rows:
            warn(
                f"{rows:,} of {len(self.latent_):,} rows have too few values above the floor to determine their latent"
                " vector: row_identifiable_ marks them, and latent_ holds a guess there.",
                WeakRowsWarning,
            )
        zero = int(np.count_nonzero(~effective_components(fit.factors)))
        if zero:
            warn(
                f"{zero} of {self.rank_} components are zero: the table needs no more than rank {self.rank_ - zero}."
                " Lower the rank.",
                RankDeficientWarning,
            )
        if not fit.recovered.converged:
            warn(
                f"Not converged after max_iter={self.max_iter} iterations: relative residual"
                f" {fit.recovered.residual:.3g}. The best state is kept: raise max_iter, or go on from it with"
                " warm_start=True.",
                ConvergenceWarning,
            )

    # --- using it ---------------------------------------------------------------------------------

    def transform(self, X: ArrayLike) -> FloatArray:
        """Latent vectors of the rows of X, from the columns that are identified."""
        factors = self._fitted()
        cells = self._cells(X, reset=False)
        known = self.column_identifiable_
        every = np.ones(cells.shape[0], dtype=bool)
        used = replace(factors, loadings=factors.loadings[known], bias=_chosen(factors.bias, known))
        mean = np.zeros(factors.rank) if used.bias is None else self._latent_mean
        centred = used.shifted(mean)
        part = cells if known.all() else cells.part(every, known)
        latent: FloatArray = self._filling.latent_of(part, centred) + mean
        return latent

    def fit_transform(self, X: ArrayLike, y: Any = None) -> FloatArray:
        """Fit to X and return :attr:`latent_`."""
        latent: FloatArray = self.fit(X, y).latent_
        return latent

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """The table that latent vectors give: max(floor, C A' + 1 b')."""
        table: FloatArray = np.maximum(self._hidden_of(X), np.array(self._assumptions().floor))
        return table

    def hidden(self, X: ArrayLike | None = None) -> FloatArray:
        """T = C A' + 1 b', also below the floor: of the table fitted, or of the rows of X.

        >>> import numpy as np
        >>> import unrelu
        >>> T = np.outer(np.linspace(-1.0, 2.0, 40), [1.0, 2.0, -1.0, 0.5]) + 0.3
        >>> recovery = unrelu.ReLUMatrixRecovery(1).fit(np.maximum(T, 0.0))
        >>> bool(np.abs(recovery.hidden() - T).max() < 1e-8)
        True
        """
        self._fitted()
        return self._hidden_of(self.latent_ if X is None else self.transform(X))

    def score(self, X: ArrayLike, y: Any = None) -> float:  # noqa: ARG002
        """Share of the variance of X about its column means that the model explains."""
        latent = self.transform(X)
        cells = self._cells(X, reset=False)
        values = cells.rows(0, cells.shape[0])
        fitted = np.maximum(self._hidden_of(latent) - np.array(self._assumptions().floor), 0.0)
        seen = ~np.isnan(values)
        mean = np.where(seen, values, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        left = float(np.nansum((values - fitted) ** 2))
        total = float(np.nansum((values - mean) ** 2))
        return 1.0 - left / total if total > 0.0 else 0.0

    @property
    def column_space_(self) -> FloatArray:
        """Orthonormal basis (d x rank) of the columns of A."""
        check_is_fitted(self)
        basis: FloatArray = np.linalg.qr(self.components_.T)[0]
        return basis

    def save(self, path: FilePath) -> None:
        """Write what was recovered to ``path``: a NumPy .npz without pickle, for :meth:`load`.

        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import unrelu
        >>> T = np.outer(np.linspace(-1.0, 2.0, 40), [1.0, 2.0, -1.0, 0.5]) + 0.3
        >>> recovery = unrelu.ReLUMatrixRecovery(1).fit(np.maximum(T, 0.0))
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "factors.npz"
        >>> recovery.save(path)
        >>> bool(np.array_equal(unrelu.ReLUMatrixRecovery.load(path).hidden(), recovery.hidden()))
        True
        """
        self._fitted()
        write(self, path)

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read what :meth:`save` wrote; the example is there."""
        return read(cls, path)

    # --- for scikit-learn ---------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.rank_

    def _hidden_of(self, latent: ArrayLike) -> FloatArray:
        self._fitted()
        values = np.asarray(latent, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.rank_:
            raise InvalidDataError(f"Latent vectors have {self.rank_} columns; got an array of shape {values.shape}.")
        hidden: FloatArray = values @ self.components_ + self.bias_
        return hidden

    def _fitted(self) -> Factors:
        check_is_fitted(self)
        assert self._factors is not None
        return self._factors

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_factors", None) is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = RectifiedGaussianLearner(floor=self.floor)._floor_is_nonnegative()
        return tags


def _shapes(factors: Factors) -> tuple[int, int, int, bool]:
    return len(factors.latent), len(factors.loadings), factors.rank, factors.bias is not None


def _chosen(bias: FloatArray | None, columns: BoolArray) -> FloatArray | None:
    return None if bias is None else bias[columns]


def _check_stored(table: Any, tolerance: float) -> None:
    """No stored value of a sparse table is infinite or below the floor."""
    data: NDArray[np.float64] = table.data
    for wrong, what, advice in (
        (
            np.abs(data) > LARGEST,
            f"infinite or beyond {LARGEST:g},",
            "Replace infinite values or mark them as missing with NaN; divide huge numbers by a constant",
        ),
        (data < -tolerance, "negative, below the floor of 0,", "Set them to 0 if they are noise around it"),
    ):
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            row = int(np.searchsorted(table.indptr, at, side="right")) - 1
            raise InvalidDataError(
                f"Stored values of the sparse table ({int(wrong.sum()):,}) are {what} the first {data[at]:g} in row"
                f" {row}, column {table.indices[at]}. {advice}."
            )
