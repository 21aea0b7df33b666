"""Noise inside the rectifier, X = ReLU(T + sigma E): the likelihood in place of least squares.

A zero then says only that T plus noise was not positive, so T may well be above 0 there; least squares, which forbids
that, is biased. Each zero contributes -log Phi(-T/sigma) (Tobit). Expectation-maximization would fill the zeros with
truncated-normal means, fit rank k, and update sigma from their variances; the Newton steps of
:mod:`unrelu.recovery.matrix.newton` climb the same likelihood faster, and sigma is updated as EM does.

The ridge of :class:`Prior` keeps rows and columns that are almost always at the floor from running off to minus
infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from unrelu.contracts import unwatched
from unrelu.engines.local import one_blas_thread
from unrelu.recovery.matrix.cells import observed
from unrelu.recovery.matrix.contracts import Iterate, Recovered, Task
from unrelu.recovery.matrix.descent import Prior, Walk, column_norms, descend
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.losses import LeastSquares, Tobit
from unrelu.recovery.matrix.newton import Descent

_FIRST_ROUNDS = 10  # least squares need not converge to be a start
_ALTERNATING = 3  # iterations before the first joint step
_SETTLED = 1e-6  # relative change of sigma, and share of the objective gained, that end the iterations
_LEAST_NOISE = 1e-6  # of the root mean square of X: below it the noise is as good as none


@dataclass(frozen=True)
class TobitEM:
    """Maximum likelihood for X = ReLU(C A' + 1 b' + sigma E), E normal, sigma learned too; gives standard errors.

    >>> import numpy as np
    >>> import unrelu
    >>> rng = np.random.default_rng(0)
    >>> T = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 40))
    >>> X = np.maximum(T + 0.5 * rng.standard_normal(T.shape), 0.0)
    >>> recovery = unrelu.ReLUMatrixRecovery(2, method=unrelu.recovery.TobitEM()).fit(X)
    >>> bool(abs(recovery.noise_ - 0.5) < 0.02)
    True
    """

    def recover(self, task: Task) -> Recovered:
        plain = LeastSquares(np.zeros(task.cells.shape[1]))
        prior = Prior(task)
        quiet = replace(task, max_iterations=min(_FIRST_ROUNDS, task.max_iterations), watch=unwatched)
        factors = task.start if task.start is not None else descend(quiet, plain).factors
        with one_blas_thread():
            return _climb(task, prior, factors.balanced())


def _climb(task: Task, prior: Prior, factors: Factors) -> Recovered:
    scale, seen = float(np.linalg.norm(column_norms(task.cells))) or 1.0, observed(task.cells)
    least = _LEAST_NOISE * scale / math.sqrt(seen)
    sums = Descent(task.cells, LeastSquares(np.zeros(task.cells.shape[1]))).start(factors).sums
    noise, done, residual = max(math.sqrt(sums.squares / sums.weight), least), False, math.inf
    for iteration in range(1, task.max_iterations + 1):
        walk = Walk(
            Descent(task.cells, Tobit(noise), prior.ridge(noise)), factors.balanced(), warm=iteration > _ALTERNATING
        )
        gain = walk.step()
        factors, sums = walk.state.factors, walk.state.sums
        residual = math.sqrt(sums.squares) / scale
        task.watch(Iterate(iteration, residual, factors).step())
        # EM's update, with the noise that the free parameters have fitted put back.
        before, squares = noise, sums.squares + _fitted(walk) * noise * noise
        noise = max(math.sqrt(squares / seen), least)
        settled = max(_SETTLED, task.enough)
        if (abs(noise / before - 1.0) <= settled and gain <= settled) or residual <= task.tolerance:
            done = True
            break
    return Recovered(factors, iteration, residual, done, noise=noise, ridge=walk.descent.ridge)


def _fitted(walk: Walk) -> float:
    """How many parameters the cells have fitted: of the rows' sum_i tr((G_i + ridge)^-1 G_i), which the ridge and rows
    with few cells keep below n k; of the columns' all but those of the gauge."""
    factors = walk.state.factors
    (d, k), extra = factors.loadings.shape, int(factors.bias is not None)
    return float(walk.descent.fitted_by_rows(factors) + (d - k) * (k + extra))
