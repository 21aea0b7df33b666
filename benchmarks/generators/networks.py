"""Networks x = max(A2 h + b2, 0), h = ReLU(A1 z + b1), and rows of them: z standard normal, fewer inputs than units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from benchmarks.rivals.layers import Layers
from unrelu.contracts import BoolArray, FloatArray

SPREAD = 0.5  # standard deviation of biases


class Size(NamedTuple):
    """d outputs from p units from q inputs, and n rows."""

    d: int
    p: int
    q: int
    n: int

    def __str__(self) -> str:
        return f"{self.d} <- {self.p} <- {self.q}, n={self.n:,}"


SIZES = (Size(120, 30, 6, 6_000), Size(160, 40, 8, 10_000), Size(200, 60, 10, 15_000))


@dataclass(frozen=True, eq=False)
class Network:
    """``rectified`` says whether outputs are cut off at 0."""

    A1: FloatArray
    b1: FloatArray
    A2: FloatArray
    b2: FloatArray
    rectified: bool = True

    @classmethod
    def draw(cls, size: Size, seed: int, rectified: bool = True) -> Network:
        """Standard normal weights, biases of variance .25."""
        rng = np.random.default_rng([seed, *size])
        A1, b1 = rng.standard_normal((size.p, size.q)), SPREAD * rng.standard_normal(size.p)
        A2, b2 = rng.standard_normal((size.d, size.p)), SPREAD * rng.standard_normal(size.d)
        return cls(A1, b1, A2, b2, rectified)

    def with_shares_off(self, shares: FloatArray) -> Network:
        """With biases b1 for which units are off in these shares of the rows."""
        return replace(self, b1=-ndtri(shares) * np.linalg.norm(self.A1, axis=1))

    def hidden(self, z: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(z @ self.A1.T + self.b1, 0.0))

    def outputs(self, T: FloatArray) -> FloatArray:
        """The outputs of A2 h + b2: with ``rectified`` cut off at 0."""
        return np.asarray(np.maximum(T, 0.0)) if self.rectified else T

    def rows(self, n: int, *seed: int) -> Rows:
        z = np.random.default_rng([*seed, 17]).standard_normal((n, self.A1.shape[1]))
        H = self.hidden(z)
        T = H @ self.A2.T + self.b2
        return Rows(self, z, H, T, self.outputs(T), np.ones(n, dtype=bool))


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs z, units H, T = A2 h + b2 and the table X of outputs; ``inlier`` is False for outlier rows."""

    network: Network
    z: FloatArray
    H: FloatArray
    T: FloatArray
    X: FloatArray
    inlier: BoolArray

    def noisy(self, share: float, seed: int) -> Rows:
        """With noise inside the rectifier, of this share of T's root mean square."""
        noise = np.random.default_rng([seed, 1]).standard_normal(self.T.shape)
        size = float(np.sqrt((self.T**2).mean()))
        return replace(self, X=self.network.outputs(self.T + share * size * noise))

    def with_outliers(self, kind: str, share: float, seed: int) -> Rows:
        """With this share of the rows replaced, as :class:`benchmarks.rivals.layers.Layers` does, then rectified."""
        net = self.network
        layers = Layers(net.A2, net.A1, net.b1, self.H, self.T - net.b2)
        replaced = layers.with_outliers(kind, share, seed).X
        inlier = np.asarray((replaced == layers.X).all(axis=1))
        return replace(self, X=np.where(inlier[:, None], self.X, net.outputs(replaced + net.b2)), inlier=inlier)


def draw(size: Size, seed: int, rectified: bool = True) -> Rows:
    """A network and its rows."""
    return Network.draw(size, seed, rectified).rows(size.n, seed)
