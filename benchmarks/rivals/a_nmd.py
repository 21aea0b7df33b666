"""A-NMD: Z and Theta in turn, Theta by a truncated SVD, with momentum that grows while it helps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.rivals.latent_cells import projected_cells, pushed_cells
from benchmarks.rivals.latent_matrix import Course, LatentMatrix, orthonormal
from unrelu.contracts import FloatArray
from unrelu.recovery.matrix.descent import Recovered, Task

_MOST_STEPS = 50


@dataclass(frozen=True)
class ANMD:
    """Aggressive momentum on the alternation between Z, which agrees with X = ReLU(Theta), and Theta of rank r.

    One iteration, with P the projection onto the Z that agree with X and b the momentum:

        Z     = (1 + b) P(Theta_old) - b Z_old
        Theta = the best fit to Z of rank r;  Theta = (1 + b) Theta - b Theta_old

    is kept if |Z - Theta| is less than it was in the iteration before. Then b = min(bound, ``growth`` b) and
    bound = min(1, ``bound_growth`` b). If not, Z and Theta go back, bound is the momentum of the iteration before and
    b = ``shrinkage`` b. The first iteration is always kept. The factors given back are those of the best fit of rank
    r met, before its momentum. No bias, no noise.

    The truncated SVD goes on from the last one, by subspace iteration, until Theta is within ``accuracy`` |Z - Theta|
    of the best. A closer one often saves iterations (a tenth of them on small tables, none at 1000 x 1000 of rank
    20), but mostly less than it costs.

    G. Seraghiti, A. Awari, A. Vandaele, M. Porcelli, N. Gillis, Accelerated algorithms for nonlinear matrix
    decomposition with the ReLU function, 2023, arXiv:2305.08687.

    >>> from unrelu.recovery.matrix.factors import Cells
    >>> draw = np.random.default_rng(0).standard_normal
    >>> theta = draw((90, 3)) @ draw((3, 70))
    >>> cells = Cells(np.maximum(theta, 0.0))
    >>> found = ANMD().recover(Task(cells, n_components=3, free_bias=False, tolerance=1e-9))
    >>> bool(np.abs(found.factors.matrix() - theta).max() < 1e-6)
    True
    """

    momentum: float = 0.9
    shrinkage: float = 0.4
    growth: float = 1.1
    bound_growth: float = 1.05
    accuracy: float = 0.1

    def recover(self, task: Task) -> Recovered:
        table = LatentMatrix.of(task.cells)
        old_z, w, h = table.start(task)
        old_theta = w @ h
        z, theta, work = np.empty_like(old_z), np.empty_like(old_z), np.empty_like(old_z)
        course = Course(task, table, w, h, table.residual(old_theta, work))
        pace = _Pace(self)
        while course.goes_on:
            projected_cells(table.values, old_theta, pace.momentum, old_z, z)
            w, h = self._best_fit(z, w, h, theta, work)
            course.add(w, h, table.residual(theta, work))
            pushed_cells(theta, pace.momentum, old_theta, work)
            theta, work = work, theta
            if pace.keeps(float(np.linalg.norm(np.subtract(z, theta, out=work)))):
                old_z, z = z, old_z
                old_theta, theta = theta, old_theta
        return course.recovered()

    def _best_fit(
        self, z: FloatArray, w: FloatArray, h: FloatArray, theta: FloatArray, work: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """W, H of the truncated SVD of Z, but for a rotation, from those of a matrix nearby; ``theta`` takes W H.

        A step multiplies the error of the span of W by (s_{r+1} / s_r)^2, s the singular values of Z, which is
        at most |Z - W H|^2 / s_r^2. So a step that moved W H by m leaves it about m c / (1 - c) from the best, c that
        bound or the ratio of the last two moves.
        """
        last = 0.0
        for _ in range(_MOST_STEPS):
            before, w = w, orthonormal(z @ h.T)
            h = w.T @ z
            np.matmul(w, h, out=theta)
            error = float(np.linalg.norm(np.subtract(z, theta, out=work)))
            gram = h @ h.T
            rest = w - before @ (before.T @ w)
            moved = float(np.sqrt(max(0.0, float(np.vdot(rest.T @ rest, gram)))))
            smallest = float(np.linalg.eigvalsh(gram)[0])
            ratio = moved / last if last > 0.0 else np.inf
            contraction = min(error * error / smallest if smallest > 0.0 else np.inf, ratio)
            if moved * contraction <= self.accuracy * error * (1.0 - contraction):
                break
            last = moved
        return w, h


class _Pace:
    """The momentum, and the rule that changes it."""

    def __init__(self, rule: ANMD) -> None:
        self._rule = rule
        self.momentum = self._momentum_before = rule.momentum
        self._bound = 1.0
        self._distance_before = np.inf

    def keeps(self, distance: float) -> bool:
        """Whether an iteration that led to |Z - Theta| = ``distance`` is kept."""
        kept = distance < self._distance_before
        used = self.momentum
        if kept:
            self.momentum = min(self._bound, self._rule.growth * used)
            self._bound = min(1.0, self._rule.bound_growth * self.momentum)
        else:
            self.momentum = self._rule.shrinkage * used
            self._bound = self._momentum_before
        self._momentum_before, self._distance_before = used, distance
        return kept
