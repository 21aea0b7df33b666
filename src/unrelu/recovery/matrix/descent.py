"""From a start to the end: alternating steps while they are fast, joint ones after, until nothing is left to gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unrelu.contracts import FloatArray, Step
from unrelu.engines.local import map_in_threads, one_blas_thread
from unrelu.recovery.matrix.cells import Cells, tiles
from unrelu.recovery.matrix.contracts import RECOVERING, Iterate, Recovered, Task
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.losses import LeastSquares, Loss
from unrelu.recovery.matrix.newton import Descent, State
from unrelu.recovery.matrix.starts import singular_start

_SLOW = 0.3  # alternation that leaves more than this share of the residual a round has become slow
_FIRST_ROUNDS = 4
_SLOWED = 1e-3  # share of the objective gained by a round that shows an exact fit out of reach
_COLUMN_TOLERANCE = 1e3  # times the table's, for each column by itself
_STAGE = 10  # rounds for each rank on the way up
_TRIAL = 30  # rounds after which a second start shows whether it is better
_TRIAL_ENOUGH = 10.0  # times what ends a descent ends a trial
_CLEARLY = 0.98  # of the first one's residual
_PRIOR_SHARE = 0.5  # the table's singular values are about half of those of T
_REBALANCE = 10  # rounds of alternation after which the factors' scales may have drifted apart
_CG_ACCURACY, _CG_ROUNDS = 3e-2, 40


@dataclass(frozen=True)
class CensoredALS:
    """The default: least squares on F(T) = 1/2 sum_{X>0} (X - T)^2 + 1/2 sum_{X=0} max(0, T)^2.

    Censored alternating least squares, finished by joint Gauss-Newton steps (:mod:`unrelu.recovery.matrix.newton`):
    exact where X = ReLU(C A' + 1 b') exactly, from about half of the cells. Noise inside the rectifier biases it:
    use :class:`TobitEM` there.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 40)) + 0.3 * rng.standard_normal(40)
    >>> recovery = unrelu.ReLUMatrixRecovery(3, method=unrelu.recovery.CensoredALS()).fit(np.maximum(T, 0.0))
    >>> bool(np.abs(recovery.hidden() - T).max() < 1e-6)
    True
    """

    def recover(self, task: Task) -> Recovered:
        return descend(task, LeastSquares(np.zeros(task.cells.shape[1])))


def descend(task: Task, loss: Loss) -> Recovered:
    """Lower F from ``task.start``, or from the table's singular vectors, until it is done.

    Those of a rectified table mislead where true components are smaller than what the rectifier adds. So a fit that is
    not exact is begun again from components found one after the other, and the better one kept.
    """
    with one_blas_thread():  # tiles run on all cores; each one's products are small
        found = _descent(task, loss, Prior(task))
        if task.start is not None or found.residual <= task.tolerance or task.n_components == 1:
            return found
        watch = task.told("a second start")
        other = replace(task, start=built_up(replace(task, watch=watch), loss), watch=watch)
        trial = replace(other, max_iterations=min(_TRIAL, task.max_iterations), enough=_TRIAL_ENOUGH * task.enough)
        short = _descent(trial, loss, Prior(other))
        if short.residual >= _CLEARLY * found.residual:
            return found
        again = _descent(replace(other, start=short.factors, watch=task.watch), loss, Prior(other))
        return again if again.residual < found.residual else found


def built_up(task: Task, loss: Loss) -> Factors:
    """Factors of rank 1, then of rank 2, ...: each time the leading singular pair of what is left joins them.

    Where ``task.fewer`` is known, one more is all that is to be found.
    """
    if task.fewer is not None:
        return _with_one_more(task, loss, task.fewer)
    descent = Descent(task.cells, loss)
    factors = singular_start(task.cells, 1, task.free_bias)
    for rank in range(1, task.n_components):
        walk = Walk(descent, factors.balanced())
        for _ in range(_STAGE):
            walk.step()
            task.watch(Step(RECOVERING, words=f"{rank} of {task.n_components} components"))
        factors = _with_one_more(task, loss, walk.state.factors)
    return factors


def _with_one_more(task: Task, loss: Loss, factors: Factors) -> Factors:
    """The leading singular pair of what is left joins the factors."""
    factors = factors.balanced()
    left, right = Descent(task.cells, loss).leading_residual(factors)
    return replace(
        factors,
        latent=np.column_stack([factors.latent, left]),
        loadings=np.column_stack([factors.loadings, right]),
    )


def _descent(task: Task, loss: Loss, prior: Prior) -> Recovered:
    """One descent from ``prior.start``.

    Where T fits exactly no penalty is needed, and none is used. Where it does not, rows and columns that few positive
    cells determine would fit their noise and predict wild values; so once the descent slows down short of an exact
    fit, F gets the penalty of :class:`Prior` for the noise seen, again until that noise no longer changes.
    """
    sizes = column_norms(task.cells)
    scale = float(np.linalg.norm(sizes)) or 1.0
    walk = Walk(Descent(task.cells, loss), prior.start)
    residual, done, settled = math.inf, False, False
    for iteration in range(1, task.max_iterations + 1):
        gain = walk.step()
        residual = math.sqrt(max(walk.state.sums.squares, 0.0)) / scale
        task.watch(Iterate(iteration, residual, walk.state.factors).step())
        exact = residual <= task.tolerance and worst_column(walk.state, sizes) <= _COLUMN_TOLERANCE * task.tolerance
        if exact or (gain <= task.enough and (settled or residual <= task.tolerance)):
            done = True
            break
        if not settled and gain <= _SLOWED and residual > task.tolerance:
            wanted = prior.ridge(noise_left(walk.state))
            settled = 0.5 * wanted <= walk.descent.ridge <= 2.0 * wanted
            if not settled:
                walk = Walk(replace(walk.descent, ridge=wanted), walk.state.factors.balanced(), warm=True)
    return Recovered(walk.state.factors, iteration, residual, done, ridge=walk.descent.ridge)


class Prior:
    """Where a fit begins, and the penalty that noise calls for.

    n sigma^2 / S on (|C|^2 + |A|^2)/2 is what a standard normal c_i would cost, S the mean singular value of C A'. S is
    that of the table's own singular vectors, also if the fit goes on from factors given: that of the fit would shrink
    under the penalty, which would then grow.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.start = self._own_start if task.start is None else task.start.balanced()

    @cached_property
    def _own_start(self) -> Factors:
        return singular_start(self._task.cells, self._task.n_components, self._task.free_bias).balanced()

    def ridge(self, noise: float) -> float:
        n, k = self._own_start.latent.shape
        singular = float((self._own_start.latent**2).sum()) / k
        return _PRIOR_SHARE * n * noise * noise / singular if singular > 0.0 else 0.0


def noise_left(state: State) -> float:
    """Root mean square of what is left in the cells that count, after the free parameters."""
    left = max(state.sums.weight - free_parameters(state.factors), 0.05 * state.sums.weight, 1.0)
    return math.sqrt(state.sums.squares / left)


def free_parameters(factors: Factors) -> int:
    """Entries of C, A and b less those that the gauge takes up."""
    (n, k), d, extra = factors.latent.shape, len(factors.loadings), int(factors.bias is not None)
    return int(n * k + (d - k) * (k + extra))


def column_norms(cells: Cells) -> FloatArray:
    """|X_j| of every column."""

    def squares(rows: slice) -> FloatArray:
        values = cells.rows(rows.start, rows.stop)
        total: FloatArray = np.nansum(values * values, axis=0)
        return total

    norms: FloatArray = np.sqrt(np.add.reduce(map_in_threads(squares, tiles(cells.shape))))
    return norms


def worst_column(state: State, sizes: FloatArray) -> float:
    """Largest relative residual of a column: a column of large values must not hide what is left in the others."""
    return float(np.sqrt(2.0 * state.sums.loss / np.where(sizes > 0.0, sizes, 1.0) ** 2).max())


class Walk:
    """The state and which kind of step comes next."""

    def __init__(self, descent: Descent, factors: Factors, warm: bool = False) -> None:
        self.descent = descent
        self.state: State = descent.start(factors)
        self._rounds = 0
        self._joint = warm

    def step(self) -> float:
        """Take one step; the share of the objective that it gained, which is small only when no kind of step gains."""
        before = self.state.objective
        if self._joint:
            self.state, fell = self.descent.join(self.state, _CG_ACCURACY, _CG_ROUNDS)
            if fell:
                return self._gain(before)
            self._joint = False
        self._rounds += 1
        if self._rounds % _REBALANCE == 0:
            self.state = self.descent.start(self.state.factors.balanced())
        self.state = self.descent.alternate(self.state)
        gain = self._gain(before)
        self._joint = self._rounds >= _FIRST_ROUNDS and gain < 1.0 - _SLOW**2
        return gain

    def _gain(self, before: float) -> float:
        return 1.0 - self.state.objective / before if before > 0.0 else 0.0
