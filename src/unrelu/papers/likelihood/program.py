"""Maximum likelihood under a known density of the biases: program (34) of Mazumdar and Rawat 2018, section 3.1.

The paper's matrices are d x n and ours n x d, so that its rows are our columns: X = ReLU(M + 1 b'), (23), with biases
b_j drawn independently from p. Where column j has positive cells they give b_j = X_ij - M_ij, (27); where it has none,
b_j <= -max_i M_ij, (28). The log-likelihood (33) of M is therefore

    L(M) = sum over columns with positive cells of log p(b_j) + sum over the others of log P(B <= -max_i M_ij),

and program (34) maximises it over the set (29): |M|_inf <= gamma; X_ij - M_ij the same on all positive cells of a
column; the smallest of those M_ij at least nu above the largest M_ij at the floor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unrelu.contracts import BoolArray, FloatArray
from unrelu.engines.local import map_in_threads, one_blas_thread
from unrelu.errors import InvalidParameterError, PartialRecoveryWarning
from unrelu.papers.likelihood.columns import Columns, FeasibleSet, Split, literal_program, relative_residual
from unrelu.papers.likelihood.density import BiasDensity, FrozenDistribution
from unrelu.papers.likelihood.gauge import likeliest_gauge
from unrelu.papers.likelihood.nuclear import NuclearProgram
from unrelu.recovery.matrix.cells import Cells, tiles
from unrelu.recovery.matrix.descent import Iterate, Recovered, Task, descend
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.newton import LeastSquares
from unrelu.validation import check_choice, check_positive, label_columns, warn

_CONSTRAINTS = ("rank", "nuclear", "none")
_ADMM_TOLERANCE = 1e-5  # on |M - Z|/|M|, Z in the ball: a first-order method gains little beyond
_MARGIN_TOLERANCE = 1e-6  # share of a column's largest value by which T may miss its margin


@dataclass(frozen=True)
class Likelihood:
    """Program (34) of Mazumdar and Rawat 2018: the likeliest M given the biases' density p, a frozen scipy one.

    ``gamma`` bounds |M|_inf (None: no bound) and ``nu`` is the margin between a column's positive cells and its zeros.

    - ``constraint="rank"``, rank(M) <= k as in (20), which the paper's model has and its program leaves out. T =
      M + 1 b' is then determined by X, whatever p is: it is recovered first, by least squares with the margin as a cap
      on zero cells, and the likelihood only chooses how T is split, M -> M - 1 (A v)', b -> b + A v: the *gauge*. Under
      a normal density with mean 0 that is the b orthogonal to A. For A, C, b ~ N(0, 1) the relative error of M is about
      1/sqrt(d); centring C, which uses the n rows and not p, has 1/sqrt(n). Columns with no more than k positive
      cells have no say in the gauge.
    - ``constraint="nuclear"``, |M|_* <= ``nuclear_norm``, the convex relaxation (21): by ADMM. The factors are the top
      k singular vectors of M.
    - ``constraint="none"``, the program as printed. Columns decouple: every b_j is the mode of p wherever gamma lets
      it, and zero cells are not determined (:func:`unrelu.papers.likelihood.columns.literal_program`). The factors are
      again the top k singular vectors.

    Rows without noise are assumed: (29) takes X_ij - M_ij to be the same to the last digit.

    >>> from scipy.stats import norm
    >>> from unrelu.recovery.matrix.cells import DenseCells
    >>> rng = np.random.default_rng(0)
    >>> C, A, b = rng.standard_normal((300, 3)), rng.standard_normal((40, 3)), 0.5 * rng.standard_normal(40)
    >>> T = C @ A.T + b
    >>> recovered = Likelihood(norm(0, 0.5)).recover(Task(DenseCells(np.maximum(T, 0.0)), n_components=3))
    >>> bool(np.abs(recovered.factors.matrix() - T).max() < 1e-6)
    True
    >>> bool(np.abs(recovered.factors.loadings.T @ recovered.factors.bias).max() < 1e-4)
    True
    """

    bias_density: FrozenDistribution
    gamma: float | None = None
    nu: float = 0.0
    constraint: str = "rank"
    nuclear_norm: float | None = None

    def __post_init__(self) -> None:
        check_choice("constraint", self.constraint, _CONSTRAINTS)
        BiasDensity.checked(self.bias_density)
        if self.gamma is not None:
            check_positive("gamma", self.gamma)
        if not (isinstance(self.nu, Real) and 0.0 <= self.nu < np.inf):
            raise InvalidParameterError(f"nu must be a finite number of at least 0, got {self.nu!r}.")
        if self.constraint == "nuclear":
            if self.nuclear_norm is None:
                raise InvalidParameterError(
                    "constraint='nuclear' needs nuclear_norm, the bound on the sum of M's singular values; where the"
                    " entries of M are about 1 it is at most about sqrt(k n d)."
                )
            check_positive("nuclear_norm", self.nuclear_norm)
        elif self.nuclear_norm is not None:
            raise InvalidParameterError(
                f"nuclear_norm={self.nuclear_norm!r} has no effect with constraint={self.constraint!r}: leave it out,"
                " or ask for constraint='nuclear'."
            )

    def recover(self, task: Task) -> Recovered:
        if not task.free_bias:
            raise InvalidParameterError(
                "Likelihood maximises the density of the biases and cannot fit a model without them: ask for a bias, or"
                " take another method."
            )
        if task.unit != 1.0:
            return _in_own_units(self, task)
        density = BiasDensity.checked(self.bias_density)
        gamma = np.inf if self.gamma is None else float(self.gamma)
        feasible = FeasibleSet(Columns.of(task.cells), gamma, float(self.nu))
        feasible.check_gamma()
        feasible.check_support(density)
        if self.constraint == "rank":
            return _rank_program(task, feasible, density)
        values = task.cells.rows(0, task.cells.shape[0])
        if self.constraint == "none":
            factors = literal_program(values, feasible, density).truncated(task.n_components)
            residual = relative_residual(values, factors)
            task.watch(Iterate(1, residual, factors).step())
            return Recovered(factors, 1, residual, converged=True, fixed_bias=True)
        with one_blas_thread():  # many decompositions of matrices too small for several
            return _nuclear_program(task, NuclearProgram(values, feasible, density, float(self.nuclear_norm or 0.0)))


def _in_own_units(method: Likelihood, task: Task) -> Recovered:
    """In the data's units, which are those of the density, gamma, nu and the nuclear norm."""
    unit = task.unit
    watch = task.watched_through(lambda factors: factors.scaled(1.0 / unit))
    start = None if task.start is None else task.start.scaled(unit)
    own = replace(task, cells=task.cells.scaled(unit), start=start, watch=watch, unit=1.0)
    found = method.recover(own)
    return replace(found, factors=found.factors.scaled(1.0 / unit), ridge=found.ridge / unit)


def _rank_program(task: Task, feasible: FeasibleSet, density: BiasDensity) -> Recovered:
    """T by least squares, then the gauge."""
    columns = feasible.columns
    silent = ~columns.seen  # never positive, or never observed
    if columns.never.any() and density.lowest >= 0.0:
        raise InvalidParameterError(
            f"bias_density allows positive biases only, and {label_columns(columns.never, None)} never rises above its"
            " floor. Drop such columns or give a density with a wider support."
        )
    caps = np.where(columns.seen & (columns.zeros > 0), np.minimum(0.0, feasible.caps), 0.0)
    recovered = descend(task, LeastSquares(caps))
    if feasible.nu > 0.0:
        _warn_of_margins(task.cells, recovered, caps, feasible)
    # In a gauge with v inside the hull of C's rows no a_j keeps a column lower than a_j = 0 does: max_i M_ij = 0.
    loadings = np.where(silent[:, None], 0.0, recovered.factors.loadings)
    factors = likeliest_gauge(
        replace(recovered.factors, loadings=loadings), density, feasible.gamma, columns.positives > task.n_components
    )
    likeliest = density.argmax(np.full(len(silent), -np.inf), np.where(columns.never, 0.0, np.inf))
    bias = np.where(silent, likeliest, np.asarray(factors.bias))
    return replace(recovered, factors=replace(factors, bias=bias), fixed_bias=True)


def _warn_of_margins(cells: Cells, recovered: Recovered, caps: FloatArray, feasible: FeasibleSet) -> None:
    """Name the columns whose zero cells T does not keep nu below the positive ones."""
    factors = recovered.factors

    def missed(rows: slice) -> FloatArray:
        part = Factors(factors.latent[rows], factors.loadings, factors.bias).matrix()
        most: FloatArray = np.where(cells.rows(rows.start, rows.stop) <= 0.0, part - caps, -np.inf).max(axis=0)
        return most

    miss = np.max(map_in_threads(missed, tiles(cells.shape)), axis=0)
    late: BoolArray = miss > _MARGIN_TOLERANCE * np.maximum(feasible.columns.largest, 0.0)
    if late.any():
        warn(
            f"No matrix of rank {factors.rank} with the margin nu={feasible.nu:g} was found:"
            f" {label_columns(late, None)} miss it by up to {float(miss.max()):.3g}, and the fit ends with a relative"
            f" residual of {recovered.residual:.3g}. Lower nu; at 0 there is no margin.",
            PartialRecoveryWarning,
        )


def _nuclear_program(task: Task, program: NuclearProgram) -> Recovered:
    """ADMM from the literal solution, or from given factors."""
    values, feasible, density = program.values, program.feasible, program.density
    split, iterations, converged = program.solve(
        _nuclear_start(task, program),
        task.n_components,
        max(task.tolerance, _ADMM_TOLERANCE),
        task.max_iterations,
        task.watch,
    )
    if not converged:
        norm = float(np.linalg.norm(split.matrix, "nuc"))
        warn(
            f"ADMM had not settled after max_iterations={iterations}: its matrix in (29) has nuclear norm {norm:.6g},"
            f" nuclear_norm={program.nuclear_norm:g} was asked for. Raise max_iterations; if the two stay apart, no"
            " matrix meets both: raise nuclear_norm.",
            ConvergenceWarning,
        )
    never = feasible.columns.never
    bias = density.argmax(np.where(never, -np.inf, split.bias), split.bias)
    factors = Split(split.matrix, bias).truncated(task.n_components)
    return Recovered(factors, iterations, relative_residual(values, factors), converged, fixed_bias=True)


def _nuclear_start(task: Task, program: NuclearProgram) -> Split:
    """Given factors, or the literal solution, which is the answer where the ball is wide enough."""
    if task.start is not None:
        bias = np.zeros(task.cells.shape[1]) if task.start.bias is None else task.start.bias
        return Split(task.start.latent @ task.start.loadings.T, bias)
    values, feasible = program.values, program.feasible
    if np.isinf(feasible.gamma):  # the literal program would send columns that are never positive to -infinity
        never = feasible.columns.never
        values = np.where(never, np.nan, values)
        feasible = replace(
            feasible, columns=replace(feasible.columns, zeros=np.where(never, 0.0, feasible.columns.zeros))
        )
    return literal_program(values, feasible, program.density)
