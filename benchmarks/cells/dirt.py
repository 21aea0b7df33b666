"""Tables with bad cells, and with outlier rows beside them, of random models (condition number 10, means >= 0)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrelu import RectifiedGaussian, synthetic

N = 5000
DIMENSIONS = (5, 10, 20)
SHARES = (0.01, 0.05, 0.1)
KINDS = ("+4 sd", "+6 sd", "+10 sd", "zero", "N(0,9)", "swapped")
CLEAN, ROWS, EMPTY = "clean", "10 % rows N(5,1), 3 % cells +6 sd", "10 % rows of zeros"

Rows = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Place:
    """A line of the table: the kind of bad cells, the number of columns, the share of bad cells."""

    kind: str
    d: int
    share: float

    @property
    def name(self) -> str:
        return (
            f"d={self.d}, {self.kind}"
            if self.kind in (CLEAN, ROWS, EMPTY)
            else f"d={self.d}, {self.kind}, {self.share:.0%}"
        )

    def draw(self, seed: int) -> tuple[RectifiedGaussian, Rows, Mask, Mask]:
        """The true model, the table, its bad cells and its outlier rows; inlier cells of all kinds are alike."""
        truth = synthetic.random_model(self.d, condition_number=10.0, mean="nonnegative", random_state=seed)
        x = truth.sample(N, random_state=np.random.default_rng([seed, self.d]))
        rng = np.random.default_rng([seed, self.d, 7])
        bad, outliers = rng.random(x.shape) < self.share, np.zeros(N, dtype=np.bool_)
        if self.kind not in (CLEAN, EMPTY):
            x = np.where(bad, spoil("+6 sd" if self.kind == ROWS else self.kind, x, truth, rng), x)
        if self.kind in (ROWS, EMPTY):
            outliers[rng.choice(N, N // 10, replace=False)] = True
            outlying = np.maximum(rng.normal(5.0, 1.0, (N // 10, self.d)), 0.0)
            x[outliers] = outlying if self.kind == ROWS else 0.0
        return truth, x, bad, outliers


def spoil(kind: str, x: Rows, truth: RectifiedGaussian, rng: np.random.Generator) -> Rows:
    """The cells of a table as bad ones."""
    if kind.startswith("+"):
        return np.asarray(x + float(kind.split()[0]) * truth.std)
    if kind == "zero":
        return np.zeros_like(x)
    if kind == "N(0,9)":
        return np.maximum(rng.normal(0.0, 3.0, x.shape), 0.0)
    other = (np.arange(x.shape[1]) + rng.integers(1, x.shape[1], size=x.shape)) % x.shape[1]
    return np.take_along_axis(x, other, axis=1)


def places() -> list[Place]:
    dirty = [Place(kind, d, share) for d in DIMENSIONS for kind in KINDS for share in SHARES]
    rows = [Place(kind, d, share) for kind, share in ((ROWS, 0.03), (EMPTY, 0.0)) for d in DIMENSIONS]
    return [*(Place(CLEAN, d, 0.0) for d in DIMENSIONS), *dirty, *rows]
