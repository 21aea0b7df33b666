"""Cell by cell: the projection P(Theta) on matrices that agree with X = ReLU(.), and momentum, in one sweep each."""

from __future__ import annotations

from numba import njit

from unrelu.contracts import FloatArray


@njit(cache=True, nogil=True)
def gap_cells(values: FloatArray, theta: FloatArray, out: FloatArray) -> None:
    """P(Theta) - Theta."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            x, t = values[i, j], theta[i, j]
            above = max(t, 0.0)
            out[i, j] = x - t if x > 0.0 else (-above if x == 0.0 else 0.0)


@njit(cache=True, nogil=True)
def projected_cells(values: FloatArray, theta: FloatArray, momentum: float, old: FloatArray, out: FloatArray) -> None:
    """(1 + b) P(Theta) - b Z_old with b the momentum; ``out`` is another array, so that the loop runs in vectors."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            x, t = values[i, j], theta[i, j]
            below = min(t, 0.0)
            z = x if x > 0.0 else (below if x == 0.0 else t)
            out[i, j] = (1.0 + momentum) * z - momentum * old[i, j]


@njit(cache=True, nogil=True)
def pushed_cells(new: FloatArray, momentum: float, old: FloatArray, out: FloatArray) -> None:
    """(1 + b) Theta - b Theta_old with b the momentum; ``out`` is another array."""
    for i in range(new.shape[0]):
        for j in range(new.shape[1]):
            out[i, j] = (1.0 + momentum) * new[i, j] - momentum * old[i, j]
