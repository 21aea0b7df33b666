"""Program (34) of Mazumdar and Rawat 2018, section 3.1: the likeliest matrix M of X = ReLU(M + 1 b') given p.

With a rank, T = M + 1 b' is determined by X, and the likelihood chooses the gauge (:func:`likeliest_gauge`). With a
nuclear norm, Davenport's constraint (21), it is a convex program (:func:`solve_nuclear`). As printed, its columns have
nothing in common (:func:`unrelu.papers.likelihood.literal_program`). b is the core's mean of the latent columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from scipy.optimize import linprog, minimize

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.papers.likelihood import (
    BiasDensity,
    FeasibleSet,
    FrozenDistribution,
    leading_factors,
    literal_program,
    relative_residual,
)
from unrelu.passes import one_blas_thread
from unrelu.recovery.matrix import Factors, Iterate, Recovered, Task, descend, tile_by_tile
from unrelu.validation import check_choice, check_positive, label_columns, warn

_MARGIN_TOLERANCE = 1e-6  # share of a column's largest value by which T may miss its margin
_RANK_TOLERANCE = 1e-10
_SLACK_TOLERANCE = 1e-9  # of the spread of p: constraints missed by less are rounding of T
_INSIDE = 1e-9  # of the spread: how far from the ends of the support biases keep
_ITERATIONS = 300

_ADMM_TOLERANCE = 1e-5  # on |M - Z|/|M|, Z in the ball: a first-order method gains little beyond
_RELAXATION = 1.6
_PULL = 0.1  # |S - Z| beside |M| that rho aims at
_LEAST_PULL = 0.1  # multipliers smaller than this share of that are as good as none
_ADAPT = (5, 10, 20, 40, 80)  # rounds after which rho is set anew
_MEMORY, _REGULARISATION = 20, 1e-12
_SQUARE_ROOT = 1e-5  # share of the largest singular value above which those of a Gram have digits enough
_ROOT_ROUNDS, _ROOT_TOLERANCE = 100, 1e-10  # the density's slope has this many digits


@dataclass(frozen=True)
class Likelihood:
    """Program (34) of Mazumdar and Rawat 2018: the likeliest M given the biases' density p, a frozen scipy one.

    ``gamma`` bounds |M|_inf (None: no bound) and ``nu`` is the margin between a column's positive cells and its zeros.

    - ``constraint="rank"``, rank(M) <= k as in (20), which the paper's model has and its program leaves out. T =
      M + 1 b' is then determined by X, whatever p is: it is recovered first, by least squares with the margin as a cap
      on zero cells, and the likelihood only chooses how T is split, M -> M - 1 (A v)', b -> b + A v: the *gauge*. Under
      a normal density with mean 0 that is the b orthogonal to A. For A, C, b ~ N(0, 1) the relative error of M is about
      1/sqrt(d); centring C, which uses the n rows and not p, has 1/sqrt(n). Columns with no more than k positive
      cells do not enter the choice of the gauge.
    - ``constraint="nuclear"``, |M|_* <= ``nuclear_norm``, the convex relaxation (21): by ADMM. The factors are the top
      k singular vectors of M.
    - ``constraint="none"``, the program as printed. Columns decouple: every b_j is the mode of p wherever gamma lets
      it, and zero cells are not determined (:func:`unrelu.papers.likelihood.literal_program`). The factors are
      again the top k singular vectors.

    Rows without noise are assumed: (29) takes X_ij - M_ij to be the same to the last digit.

    >>> from scipy.stats import norm
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> C, A = rng.standard_normal((300, 3)), rng.standard_normal((40, 3))
    >>> b = 0.5 * rng.standard_normal(40)
    >>> X = np.maximum(C @ A.T + b, 0.0)
    >>> recovery = unrelu.ReLUMatrixRecovery(3, method=Likelihood(norm(0, 0.5))).fit(X)
    >>> bool(np.abs(recovery.hidden() - C @ A.T - b).max() < 1e-6)
    True
    """

    bias_density: FrozenDistribution
    gamma: float | None = None
    nu: float = 0.0
    constraint: str = "rank"
    nuclear_norm: float | None = None

    def __post_init__(self) -> None:
        check_choice("constraint", self.constraint, ("rank", "nuclear", "none"))
        BiasDensity.of(self.bias_density)
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
        if task.unit != 1.0:  # the density, gamma, nu and the nuclear norm are in the data's units
            unit = task.unit
            progress = task.progress_of_part(lambda factors: factors.rescale(1.0 / unit))
            start = None if task.start is None else task.start.rescale(unit)
            found = self.recover(
                replace(task, cells=task.cells.rescale(unit), start=start, progress=progress, unit=1.0)
            )
            return replace(found, factors=found.factors.rescale(1.0 / unit), ridge=found.ridge / unit)
        density = BiasDensity.of(self.bias_density)
        gamma = np.inf if self.gamma is None else float(self.gamma)
        feasible = FeasibleSet.of(task.cells, gamma, float(self.nu))
        feasible.check(density)
        if self.constraint == "rank":
            return _rank_program(task, feasible, density)
        values = task.cells.rows(0, task.cells.shape[0])
        if self.constraint == "none":
            found = _leading(task, values, *literal_program(values, feasible, density), 1)
            task.progress(Iterate(1, found.residual, found.factors).step())
            return found
        with one_blas_thread():  # many decompositions of matrices too small for several
            return _nuclear_program(task, values, feasible, density, float(self.nuclear_norm or 0.0))


def _leading(
    task: Task, values: FloatArray, matrix: FloatArray, bias: FloatArray, iterations: int, converged: bool = True
) -> Recovered:
    """The leading factors of a matrix of any rank."""
    factors = leading_factors(*np.linalg.svd(matrix, full_matrices=False), task.n_components, bias)
    return Recovered(factors, iterations, relative_residual(values, factors), converged, fixed_bias=True)


# --- a rank: T by least squares, then the gauge -------------------------------------------------


def _rank_program(task: Task, feasible: FeasibleSet, density: BiasDensity) -> Recovered:
    seen, never = feasible.seen, feasible.never
    if never.any() and density.lowest >= 0.0:
        raise InvalidParameterError(
            f"bias_density allows positive biases only, and {label_columns(never, None)} never rises above its"
            " floor. Drop such columns or give a density with a wider support."
        )
    caps = np.where(seen & (feasible.zeros > 0), np.minimum(0.0, feasible.caps), 0.0)
    recovered = descend(task, caps)
    if feasible.nu > 0.0:

        def excess(values: FloatArray, rows: slice) -> FloatArray:
            """By how much T of each column's zero cells exceeds its cap at most."""
            found = replace(recovered.factors, latent=recovered.factors.latent[rows]).matrix()
            return np.asarray(np.where(values <= 0.0, found - caps, -np.inf).max(axis=0))

        miss = np.max(tile_by_tile(task.cells, excess), axis=0)
        late: BoolArray = miss > _MARGIN_TOLERANCE * np.maximum(feasible.largest, 0.0)
        if late.any():
            warn(
                f"No matrix of rank {recovered.factors.rank} with the margin nu={feasible.nu:g} was found:"
                f" {label_columns(late, None)} miss it by up to {float(miss.max()):.3g}, and the fit ends with a"
                f" relative residual of {recovered.residual:.3g}. Lower nu; at 0 there is no margin.",
                "partial-recovery",
            )
    # In a gauge with v inside the hull of C's rows no a_j keeps a column lower than a_j = 0 does: max_i M_ij = 0.
    loadings = np.where(seen[:, None], recovered.factors.loadings, 0.0)
    factors = likeliest_gauge(
        replace(recovered.factors, loadings=loadings), density, feasible.gamma, feasible.positives > task.n_components
    )
    likeliest = density.argmax(np.full(len(seen), -np.inf), np.where(never, 0.0, np.inf))
    bias = np.where(seen, np.asarray(factors.bias), likeliest)  # of columns never positive, or never observed
    return replace(recovered, factors=replace(factors, bias=bias), fixed_bias=True)


def likeliest_gauge(factors: Factors, density: BiasDensity, gamma: float, counted: BoolArray) -> Factors:
    """The factors of the same T whose bias is likeliest; only ``counted`` columns enter the likelihood.

    T = C A' + 1 b' is given, and C -> C - 1 v', b -> b + A v leaves it as it is. The likelihood (33) of b + A v is
    maximised over v in R^k,

        maximise sum_j log p(b_j + a_j'v)    subject to    max_i M_ij - gamma <= a_j'v <= min_i M_ij + gamma,

    and b_j + a_j'v in the support of p. It is concave where p is log-concave, and then v is its only maximiser. In
    coordinates u with A v = Q u, Q'Q = I, the problem is well conditioned whatever the factors' scales.
    """
    left, singular, right = np.linalg.svd(factors.loadings[counted], full_matrices=False)
    kept = singular > _RANK_TOLERANCE * singular.max(initial=0.0)
    basis, to_shift = left[:, kept], (right[kept] / singular[kept, None]).T
    mean = factors.latent.mean(axis=0)
    if not kept.any():
        return factors.shift(mean)
    columns = (factors.latent @ a for a in factors.loadings[counted])  # of M = C A', one by one: they may be large
    bottom, top = np.array([(column.min(), column.max()) for column in columns]).T
    b = np.asarray(factors.bias)[counted]
    inset = _INSIDE * density.spread
    box = top - gamma, bottom + gamma
    support = density.lowest + inset - b, density.highest - inset - b
    low, high = np.maximum(support[0], box[0]), np.minimum(support[1], box[1])
    centre, slack = _centre(basis, low, high, density.spread)
    if slack < -_SLACK_TOLERANCE * density.spread:
        _refuse(density, basis, box, support, gamma)
    sure = np.zeros(len(b), dtype=bool)

    def negative(u: FloatArray) -> tuple[float, FloatArray]:
        """Minus the mean log-likelihood per column, and its gradient."""
        bias = b + basis @ u
        rise = density.derivatives(bias, sure)[0]
        return -float(density.term(bias, sure).sum()) / len(b), -(rise @ basis) / len(b)

    def pull_inside(u: FloatArray) -> FloatArray:
        """The point of the way from the feasible centre to u where the first bound is met, or u."""
        start, step = basis @ centre, basis @ (u - centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step > 0.0, (high - start) / step, np.where(step < 0.0, (low - start) / step, 1.0))
        share = float(np.clip(np.nan_to_num(room, nan=1.0), 0.0, 1.0).min(initial=1.0))
        return centre + share * (u - centre)

    rows, limits = _rows_of(basis, low, high)
    constraints: Any = {"type": "ineq", "fun": lambda u: limits - rows @ u, "jac": lambda _: -rows} if len(rows) else ()
    options: Any = {"maxiter": _ITERATIONS, "ftol": 1e-15}

    def ascend(u: FloatArray) -> FloatArray:
        """A local maximiser of the likelihood, by sequential least squares."""
        with np.errstate(all="ignore"):
            result = minimize(negative, u, jac=True, method="SLSQP", constraints=constraints, options=options)
        return np.asarray(result.x, dtype=np.float64)

    starts = [centre, basis.T @ (factors.loadings[counted] @ mean), -(basis.T @ b)]
    ends = [pull_inside(ascend(pull_inside(u))) for u in starts]
    best = min([*ends, *(pull_inside(u) for u in starts)], key=lambda u: negative(u)[0])
    unmoved = mean - right[kept].T @ (right[kept] @ mean)  # the centred gauge's shift that moves no counted bias
    return factors.shift(to_shift @ best + unmoved)


def _rows_of(basis: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The finite ones of low <= Q u <= high, as rows @ u <= limits."""
    floor, roof = np.isfinite(low), np.isfinite(high)
    return np.concatenate([-basis[floor], basis[roof]]), np.concatenate([-low[floor], high[roof]])


def _centre(basis: FloatArray, low: FloatArray, high: FloatArray, spread: float) -> tuple[FloatArray, float]:
    """The u whose smallest slack is largest, and that slack: negative where no u is feasible."""
    k = basis.shape[1]
    rows, limits = _rows_of(basis, low, high)
    if not len(rows):
        return np.zeros(k), np.inf
    result = linprog(
        np.append(np.zeros(k), -1.0),
        A_ub=np.column_stack([rows, np.ones(len(rows))]),
        b_ub=limits,
        bounds=[(None, None)] * k + [(None, spread)],
        method="highs",
    )
    best = np.asarray(result.x, dtype=np.float64)
    return best[:k], float(best[k])


def _refuse(
    density: BiasDensity,
    basis: FloatArray,
    box: tuple[FloatArray, FloatArray],
    support: tuple[FloatArray, FloatArray],
    gamma: float,
) -> NoReturn:
    """Raise InvalidParameterError for the constraint that cannot be met: gamma, the support of p, or both at once."""
    tolerance = _SLACK_TOLERANCE * density.spread
    ends = f"[{density.lowest:g}, {density.highest:g}]"
    room, miss = _centre(basis, *box, density.spread)[1], -_centre(basis, *support, density.spread)[1]
    if room < -tolerance:
        raise InvalidParameterError(
            f"gamma={gamma:g} is too small: every way to split the recovered T into M + 1 b' has an |M|_inf of at"
            f" least {gamma - room:.6g}. Raise gamma to that, or leave it out."
        )
    if miss > tolerance:
        raise InvalidParameterError(
            f"bias_density allows biases in {ends} only, and no way to split the recovered T into M + 1 b' puts all"
            f" {len(basis)} of them there: the best one misses by {miss:.6g}. Give a density with a wider support."
        )
    raise InvalidParameterError(
        f"gamma={gamma:g} and bias_density's support {ends} cannot both hold: no way to split the recovered T into"
        " M + 1 b' meets the two. Raise gamma or give a density with a wider support."
    )


# --- a nuclear norm: ADMM ------------------------------------------------------------------------


def _nuclear_program(
    task: Task, values: FloatArray, feasible: FeasibleSet, density: BiasDensity, nuclear_norm: float
) -> Recovered:
    """ADMM from given factors, or from the literal solution, which is the answer where the ball is wide enough."""
    never = feasible.never
    if task.start is not None:
        bias = np.zeros(task.cells.shape[1]) if task.start.bias is None else task.start.bias
        start = task.start.latent @ task.start.loadings.T, bias
    elif np.isinf(feasible.gamma):  # the literal program would send columns that are never positive to -infinity
        unseen = replace(feasible, zeros=np.where(never, 0.0, feasible.zeros))
        start = literal_program(np.where(never, np.nan, values), unseen, density)
    else:
        start = literal_program(values, feasible, density)
    tolerated = replace(task, tolerance=max(task.tolerance, _ADMM_TOLERANCE))
    matrix, bias, iterations, converged = solve_nuclear(tolerated, values, feasible, density, nuclear_norm, start)
    if not converged:
        norm = float(np.linalg.norm(matrix, "nuc"))
        warn(
            f"ADMM had not converged after max_iterations={iterations}: its matrix in (29) has nuclear norm {norm:.6g},"
            f" and nuclear_norm={nuclear_norm:g} is the bound. Raise max_iterations; if the two stay apart, no"
            " matrix meets both: raise nuclear_norm.",
            "not-converged",
        )
    bias = density.argmax(np.where(never, -np.inf, bias), bias)
    return _leading(task, values, matrix, bias, iterations, converged)


def solve_nuclear(
    task: Task,
    values: FloatArray,
    feasible: FeasibleSet,
    density: BiasDensity,
    nuclear_norm: float,
    start: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, int, bool]:
    """Program (34) with |M|_* <= ``nuclear_norm``, (21), by Douglas-Rachford splitting (ADMM).

        minimise f(M) + g(Z)  subject to  M = Z

    with f minus the likelihood (33) on the set (29), and g the indicator of the nuclear-norm ball. Both are convex
    where p is log-concave. One round takes a state S to S + alpha (M - Z), with penalty rho and over-relaxation alpha:

        Z = the point of the ball next to S                      singular values projected on the simplex
        M = argmin f(M) + rho/2 |M - (2 Z - S)|^2                a one-dimensional problem per column, in b_j

    which is ADMM with scaled multipliers S - Z. Where M = Z, rho (S - Z) is a normal of the ball and minus a
    subgradient of f: M is the solution. Anderson mixing of the last states shortens the way; rho keeps |S - Z| at a
    tenth of |M|, where the rounds were found to be fewest. ``start`` and what is returned are (M, b), M of (29), next
    to the ball by the task's tolerance where the flag, last, says converged; the number of rounds stands between them.
    """
    nearest = likelihood_side(values, feasible, density)
    rho = 1.0 / (len(values) * density.spread**2)
    (matrix, bias), done = start, False
    state = matrix
    mixed = _anderson_mixing()
    for iteration in range(1, task.max_iterations + 1):
        left, singular, right = project_on_ball(state, nuclear_norm)
        z = (left * singular) @ right
        matrix, bias = nearest(2.0 * z - state, rho, bias)
        factors = leading_factors(left, singular, right, task.n_components, bias)
        task.progress(Iterate(iteration, relative_residual(values, factors), factors).step())
        step = matrix - z
        gap, size, pull = (float(np.linalg.norm(each)) for each in (step, matrix, state - z))
        if gap <= task.tolerance * min(size, max(pull / _PULL, _LEAST_PULL * size)):
            done = True
            break
        if iteration in _ADAPT:
            factor = min(max(pull / (_PULL * size), 0.1), 10.0) if size > 0.0 else 1.0
            rho, state, mixed = rho * factor, z + (state - z) / factor + _RELAXATION * step, _anderson_mixing()
        else:
            state = mixed(state, _RELAXATION * step)
    return matrix, bias, iteration, done


def _anderson_mixing() -> Callable[[FloatArray, FloatArray], FloatArray]:
    """The state of the next round, given this one's and the step that it asks for: Anderson's mixing of the last ones.

    Of all combinations of the last states with weights that sum to 1 it takes the one whose steps combine to the
    shortest. A mixed state with a longer step than before is given up for the plain one: a plain round never
    lengthens the step, since the iteration is an averaged contraction.
    """
    states: list[FloatArray] = []
    steps: list[FloatArray] = []
    plain: FloatArray | None = None
    shortest = np.inf

    def following(state: FloatArray, step: FloatArray) -> FloatArray:
        nonlocal plain, shortest
        norm = float(np.linalg.norm(step))
        if plain is not None and norm > shortest:
            state, plain = plain, None
            states.clear()
            steps.clear()
            return state
        states[:] = [*states[-_MEMORY:], state.ravel()]
        steps[:] = [*steps[-_MEMORY:], step.ravel()]
        if len(states) == 1:
            return np.asarray(state + step)
        plain, shortest = state + step, norm
        moves, changes = np.diff(states, axis=0), np.diff(steps, axis=0)
        gram = changes @ changes.T
        gram += _REGULARISATION * np.trace(gram) * np.eye(len(gram))
        weights = np.linalg.lstsq(gram, changes @ step.ravel(), rcond=None)[0]
        return np.asarray(plain - (weights @ (moves + changes)).reshape(state.shape))

    return following


def likelihood_side(
    values: FloatArray, feasible: FeasibleSet, density: BiasDensity
) -> Callable[[FloatArray, float, FloatArray], tuple[FloatArray, FloatArray]]:
    """(V, rho, start of b) -> argmin over M of f(M) + rho/2 |M - V|^2, and its b.

    Given b_j the cells of column j are X_ij - b_j (positive), V_ij clipped to [-gamma, cap_j - b_j] (at the floor)
    or to [-gamma, gamma] (missing), so that b_j is the root of an increasing function,

        -d term(b)/db + rho (sum_P (b + V_ij - X_ij) + sum_Z max(0, V_ij + b - cap_j)).
    """
    (low, high), never, gamma, caps = feasible.bounds, feasible.never, feasible.gamma, feasible.caps
    low = np.maximum(low, density.lowest)
    high = np.where(never, high, np.minimum(high, density.highest))
    positive, at_floor = values > 0.0, values <= 0.0
    seen, count = np.where(positive, values, 0.0), positive.sum(axis=0)

    def nearest(v: FloatArray, rho: float, bias: FloatArray) -> tuple[FloatArray, FloatArray]:
        gap = np.where(positive, v - seen, 0.0).sum(axis=0)
        height = np.where(at_floor, v - caps, -np.inf)

        def slope(b: FloatArray) -> tuple[FloatArray, FloatArray]:
            above = height + b
            reached = above > 0.0
            pull = gap + count * b + np.where(reached, above, 0.0).sum(axis=0)
            rise, bend = density.derivatives(b, never)
            return rho * pull - rise, rho * (count + reached.sum(axis=0)) + bend

        b = increasing_root(slope, np.clip(bias, low, high), low, high, density.spread)
        below = np.clip(v, -gamma, np.where(at_floor, caps - b, gamma))
        return np.where(positive, seen - b, below), b

    return nearest


def increasing_root(
    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
    spread: float,
) -> FloatArray:
    """Where increasing functions cross 0 between ``low`` and ``high``, or the end next to it: one root per column.

    ``function`` gives values and slopes at one point per column. Newton steps of bounded growth; once the root lies
    between two points, steps that leave the interval or shrink too slowly are replaced by its middle.
    """
    x, left, right = start, low, high
    below, above = np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
    last = spread + np.abs(x)
    for _ in range(_ROOT_ROUNDS):
        value, slope = function(x)
        below, above = below | (value < 0.0), above | (value > 0.0)
        left, right = np.where(value < 0.0, x, left), np.where(value > 0.0, x, right)
        step = np.clip(-value / np.maximum(slope, np.finfo(float).tiny), -4.0 * last, 4.0 * last)
        slow = (x + step <= left) | (x + step >= right) | (np.abs(step) > 0.5 * last)
        step = np.where(below & above & slow & (value != 0.0), 0.5 * (left + right) - x, step)
        moved = np.clip(x + step, left, right)
        x, last = moved, np.abs(moved - x)
        if (last <= _ROOT_TOLERANCE * (spread + np.abs(x))).all():
            break
    return x


def project_on_ball(matrix: FloatArray, radius: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The matrix of nuclear norm ``radius`` or less next to a matrix, as U, its positive singular values, V'.

    They come from the eigenvectors of the smaller Gram, several times faster than a full decomposition, unless
    singular values that small matter that squaring would lose their digits.
    """
    if matrix.shape[0] < matrix.shape[1]:
        u, singular, vt = project_on_ball(matrix.T, radius)
        return vt.T, singular, u.T
    eigenvalues, vectors = np.linalg.eigh(matrix.T @ matrix)
    singular, v = np.sqrt(np.maximum(eigenvalues[::-1], 0.0)), vectors[:, ::-1]
    cut = _cut(singular, radius)
    if cut > _SQUARE_ROOT * singular[0]:
        kept = singular > cut
        v = v[:, kept]
        return matrix @ (v / singular[kept]), singular[kept] - cut, v.T
    u, singular, vt = np.linalg.svd(matrix, full_matrices=False)
    cut = _cut(singular, radius)
    kept = singular > cut
    return u[:, kept], singular[kept] - cut, vt[kept]


def _cut(singular: FloatArray, radius: float) -> float:
    """What to take off descending singular values, down to 0 at the least, for a sum of ``radius``; 0 inside."""
    if singular.sum() <= radius:
        return 0.0
    excess = (np.cumsum(singular) - radius) / np.arange(1, len(singular) + 1)
    return float(excess[np.flatnonzero(singular > excess)[-1]])
