"""What a cell at the floor says of the value behind it: never above it, or above it by noise only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.kernels.floor_cells import floor_cells, tobit_cells


class Loss(Protocol):
    """Turns a tile of fitted values into residuals and weights (kernels/floor_cells.py)."""

    def cells(
        self, values: FloatArray, fitted: FloatArray, weight: Any, row_loss: FloatArray, column_loss: FloatArray
    ) -> float:
        """In place; returns the expected sum of squared noise."""
        ...

    def of_rows(self, n_columns: int) -> tuple[FloatArray, float]:
        """(caps, sigma) for steps row by row."""
        ...


@dataclass(frozen=True)
class LeastSquares:
    """F(T) = 1/2 sum_{X>0} (X - T)^2 + 1/2 sum_{X=0} max(0, T - cap)^2: no noise inside the rectifier.

    ``caps``, one per column and 0 but where a margin is asked for, is what T may reach where X = 0.
    """

    caps: FloatArray

    def cells(
        self, values: FloatArray, fitted: FloatArray, weight: Any, row_loss: FloatArray, column_loss: FloatArray
    ) -> float:
        before = float(row_loss.sum())
        floor_cells(values, fitted, self.caps, weight, row_loss, column_loss)
        return 2.0 * (float(row_loss.sum()) - before)

    def of_rows(self, n_columns: int) -> tuple[FloatArray, float]:  # noqa: ARG002 - the protocol's
        return self.caps, 0.0


@dataclass(frozen=True)
class Tobit:
    """sigma^2 times the negative log-likelihood of X = ReLU(T + sigma noise), but for the logarithm of sigma."""

    sigma: float

    def cells(
        self, values: FloatArray, fitted: FloatArray, weight: Any, row_loss: FloatArray, column_loss: FloatArray
    ) -> float:
        return float(tobit_cells(values, fitted, self.sigma, weight, row_loss, column_loss))

    def of_rows(self, n_columns: int) -> tuple[FloatArray, float]:
        return np.zeros(n_columns), self.sigma
