"""eBCD: block descent on Z, W and H, each block solved exactly, with Z extrapolated away from W H."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.rivals.latent_matrix import Course, LatentMatrix, orthonormal
from unrelu.recovery.matrix.descent import Recovered, Task


@dataclass(frozen=True)
class EBCD:
    """Extrapolated block coordinate descent on |Z - W H|^2, Z agreeing with X = ReLU(Theta), Theta = W H.

    One iteration, with P the projection onto the Z that agree with X:

        Z_a = a Z + (1 - a) W H
        W'  = an orthonormal basis of the columns of Z_a H^T
        H'  = W'^T Z_a
        Z'  = P(W' H')

    is kept if |Z' - W' H'| < |Z - W H|. If it was kept but fell by less than the factor ``enough``, a grows by mu,
    mu = max(mu, (a - 1)/4), and goes back to 1 where it reaches ``most``; if it was not kept, a = 1, with which the
    objective cannot rise. No bias and no noise; the iterates are shown to converge.

    With R = Z - W H, Z_a is W H + a R: products with the small R replace those with Z_a.

    N. Gillis, M. Porcelli, G. Seraghiti, An extrapolated and provably convergent algorithm for nonlinear matrix
    decomposition with the ReLU function, 2025, arXiv:2503.23832.

    >>> from unrelu.recovery.matrix.factors import Cells
    >>> draw = np.random.default_rng(0).standard_normal
    >>> theta = draw((90, 3)) @ draw((3, 70))
    >>> cells = Cells(np.maximum(theta, 0.0))
    >>> found = EBCD().recover(Task(cells, n_components=3, free_bias=False, tolerance=1e-9))
    >>> bool(np.abs(found.factors.matrix() - theta).max() < 1e-6)
    True
    """

    extrapolation: float = 1.0
    growth: float = 0.3
    most: float = 4.0
    enough: float = 0.8

    def recover(self, task: Task) -> Recovered:
        table = LatentMatrix.of(task.cells)
        _, w, h = table.start(task)
        theta = w @ h
        gap, tried_gap = np.empty_like(theta), np.empty_like(theta)
        residual = table.residual(theta, gap)
        course = Course(task, table, w, h, residual)
        alpha, mu = self.extrapolation, self.growth
        while course.goes_on:
            tried_w = orthonormal(w @ (h @ h.T) + alpha * (gap @ h.T))
            tried_h = (tried_w.T @ w) @ h + alpha * (tried_w.T @ gap)
            tried = table.residual(np.matmul(tried_w, tried_h, out=theta), tried_gap)
            if tried < residual:
                if tried > self.enough * residual:
                    mu = max(mu, (alpha - 1.0) / 4.0)
                    alpha = alpha + mu if alpha + mu < self.most else 1.0
                w, h, residual = tried_w, tried_h, tried
                gap, tried_gap = tried_gap, gap
            else:
                alpha = 1.0
            course.add(w, h, residual)
        return course.recovered()
