"""3B-NMD: Z, W and H in turn, each by its closed form, with momentum on Z and on Theta = W H."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.rivals.latent_cells import projected_cells, pushed_cells
from benchmarks.rivals.latent_matrix import Course, LatentMatrix, orthonormal
from unrelu.recovery.matrix.descent import Recovered, Task


@dataclass(frozen=True)
class ThreeBlock:
    """Three-block alternation on |Z - W H|^2, Z agreeing with X = ReLU(Theta), with a fixed ``momentum`` b.

    One iteration, with P the projection onto the Z that agree with X:

        Z     = (1 + b) P(Theta) - b Z_old
        W     = argmin |Z - W H|,  then  H = argmin |Z - W H|
        Theta = (1 + b) W H - b Theta_old

    Nothing makes the objective fall, so the best factors met are given back. No bias, no noise.

    Least squares depend on H, and then on W, by their span alone: W H is Q Q^T Z with Q an orthonormal basis of the
    columns of Z H^T. Q stands for W here, and Q^T Z for H, which spares the normal equations and their rounding.

    G. Seraghiti, A. Awari, A. Vandaele, M. Porcelli, N. Gillis, Accelerated algorithms for nonlinear matrix
    decomposition with the ReLU function, 2023, arXiv:2305.08687.

    >>> from unrelu.recovery.matrix.factors import Cells
    >>> draw = np.random.default_rng(0).standard_normal
    >>> theta = draw((90, 3)) @ draw((3, 70))
    >>> cells = Cells(np.maximum(theta, 0.0))
    >>> found = ThreeBlock().recover(Task(cells, n_components=3, free_bias=False, tolerance=1e-9))
    >>> bool(np.abs(found.factors.matrix() - theta).max() < 1e-6)
    True
    """

    momentum: float = 0.7

    def recover(self, task: Task) -> Recovered:
        table = LatentMatrix.of(task.cells)
        z, w, h = table.start(task)
        theta = w @ h
        product, work = np.empty_like(theta), np.empty_like(theta)
        course = Course(task, table, w, h, table.residual(theta, work))
        while course.goes_on:
            projected_cells(table.values, theta, self.momentum, z, work)
            z, work = work, z
            w = orthonormal(z @ h.T)
            h = w.T @ z
            np.matmul(w, h, out=product)
            course.add(w, h, table.residual(product, work))
            pushed_cells(product, self.momentum, theta, work)
            theta, work = work, theta
        return course.recovered()
