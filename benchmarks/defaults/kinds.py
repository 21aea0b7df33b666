"""Twelve kinds of table: four columns with correlations near .5, a share of each hidden below a floor.

Positive kinds have columns of different units and a floor above 0, which the user names; in the others values below 0
are hidden and nothing is named. The truth is of the inlier cells before anything was hidden: correlations of the
normal behind the columns, or of the normal scores of very many rows where there is none; means and standard deviations;
and the values themselves. Zeros of counts hide nothing: their means are of the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri
from scipy.stats import rankdata

from unrelu.contracts import BoolArray, FloatArray

D, R = 4, 0.5
UNITS = np.array([1.0, 10.0, 0.1, 100.0])
MANY = 200_000
SIZES, SHARES = (60, 200, 2000), (0.2, 0.5, 0.8)
OUTLIERS, AWAY = 0.05, 6.0  # share of outlier rows, and how far they lie from the mean, in standard deviations
BAD, OFF = 0.03, 8.0  # the same of bad cells
STEP = 0.02  # of rounded values, in standard deviations
APART = 0.15  # two laboratories: the share that each hides differs so much from the mean of both
SECOND, SHIFT = 0.4, 3.0  # share of the second group of a mixture, and how far it lies from the first

Values = Callable[[np.random.Generator, int], FloatArray]


def normals(rng: np.random.Generator, n: int, r: float = R) -> FloatArray:
    return np.sqrt(1.0 - r) * rng.standard_normal((n, D)) + np.sqrt(r) * rng.standard_normal((n, 1))


def lognormals(rng: np.random.Generator, n: int) -> FloatArray:
    return np.asarray(np.exp(normals(rng, n)))


def gammas(rng: np.random.Generator, n: int) -> FloatArray:
    """Gamma distributions with shape parameter 2."""
    return np.asarray(gammaincinv(2.0, ndtr(normals(rng, n))))


def student(rng: np.random.Generator, n: int) -> FloatArray:
    """Multivariate t with 5 degrees of freedom: far rows are far in all columns."""
    return normals(rng, n) * np.sqrt(5.0 / rng.chisquare(5.0, (n, 1)))


def quadratic(rng: np.random.Generator, n: int) -> FloatArray:
    """Columns follow a common z and its square."""
    z = rng.standard_normal((n, 1))
    common = 0.55 * z + 0.5 * (z * z - 1.0) / np.sqrt(2.0)
    return common + np.sqrt(1.0 - 0.55**2 - 0.25) * rng.standard_normal((n, D))


def mixture(rng: np.random.Generator, n: int) -> FloatArray:
    return normals(rng, n, 0.2) + SHIFT * (rng.random((n, 1)) < SECOND)


@dataclass(frozen=True)
class Kind:
    """How values are before they are hidden; ``clean``: the model is right, and there should be no warning."""

    name: str
    values: Values = normals
    positive: bool = False
    clean: bool = False
    gaussian: bool = True
    dirty: bool = False

    def __str__(self) -> str:
        return self.name


KINDS = (
    Kind("normal", clean=True),
    Kind("lognormal", lognormals, positive=True, clean=True),
    Kind("gamma", gammas, positive=True),
    Kind("t5", student, gaussian=False),
    Kind("quadratic", quadratic, gaussian=False),
    Kind("mixture", mixture, gaussian=False),
    Kind("zero-inflated"),
    Kind("counts", lognormals),
    Kind("ties", clean=True),
    Kind("several limits", lognormals, positive=True, clean=True),
    Kind("outlier rows", dirty=True),
    Kind("bad cells", dirty=True),
)
NAMED = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, eq=False)
class Truth:
    """Of very many values: correlations, and of any column its mean, deviations of values and logs, sorted values."""

    correlation: FloatArray
    mean: float
    sd: float
    log_sd: float
    ordered: FloatArray

    def level(self, share: float) -> float:
        """The value that this share is below."""
        return float(self.ordered[int(share * len(self.ordered))])


@cache
def truth_of(name: str) -> Truth:
    kind = NAMED[name]
    values = kind.values(np.random.default_rng(0), MANY)
    correlation = np.full((D, D), R) + (1.0 - R) * np.eye(D)
    if not kind.gaussian:
        scores = ndtri((np.apply_along_axis(rankdata, 0, values) - 0.5) / MANY)
        correlation = np.corrcoef(scores, rowvar=False)
    log_sd = float(np.log(values).std()) if kind.positive else 1.0
    return Truth(correlation, float(values.mean()), float(values.std()), log_sd, np.sort(values, axis=None))


@dataclass(frozen=True, eq=False)
class Drawn:
    """A table as the user gets it, what is behind it, and the truth in its units.

    ``hidden``: cells at their limit; ``scored``: those of them that are inliers and have a value behind them.
    """

    kind: Kind
    x: FloatArray
    behind: FloatArray
    limit: FloatArray
    hidden: BoolArray
    scored: BoolArray
    options: dict[str, Any]
    correlation: FloatArray
    mean: FloatArray
    sd: FloatArray
    scale: FloatArray

    def cell_errors(self, filled: FloatArray) -> float:
        """Mean squared error of scored cells in deviations of the column; of logarithms where values are positive.

        A filled value that is not above 0 there counts as a thousandth of the limit.
        """
        if not self.scored.any():
            return np.nan
        found, wanted = filled, self.behind
        if self.kind.positive:
            found = np.log(np.maximum(filled, 1e-3 * self.limit))
            wanted = np.log(self.behind)
        return float(np.mean(((found - wanted) / self.scale)[self.scored] ** 2))


def draw(kind: Kind, n: int, share: float, seed: int) -> Drawn:
    rng = np.random.default_rng([seed, n, round(100 * share), *kind.name.encode()])
    truth, values = truth_of(kind.name), kind.values(rng, n)
    if kind.name == "several limits":
        second = rng.random((n, 1)) < 0.5
        limit = np.where(second, truth.level(share + APART), truth.level(share - APART)) * np.ones(D)
    elif kind.name == "zero-inflated":  # half of the zeros are no small values
        limit = np.full((n, D), truth.level(0.5 * share / (1.0 - 0.5 * share)))
    else:
        limit = np.full((n, D), truth.level(share))
    if kind.positive:
        behind, limit = values * UNITS, limit * UNITS
        floor = limit if kind.name == "several limits" else limit[0]
        options, mean, sd = {"floor": floor}, truth.mean * UNITS, truth.sd * UNITS
    elif kind.name == "counts":
        behind, options = values / limit, {}
        counts = np.floor(truth.ordered / limit[0, 0])
        mean, sd, limit = np.full(D, counts.mean()), np.full(D, counts.std()), np.zeros_like(limit)
    else:
        behind, options = values - limit, {}
        mean, sd, limit = truth.mean - limit[0], np.full(D, truth.sd), np.zeros_like(limit)
    x, inlier = _as_seen(kind.name, rng, behind, limit, share)
    hidden = x <= limit
    scored = hidden & inlier & (kind.name != "counts")
    scale = np.full(D, truth.log_sd) if kind.positive else sd
    return Drawn(kind, x, behind, limit, hidden, scored, options, truth.correlation, mean, sd, scale)


def _as_seen(
    name: str, rng: np.random.Generator, behind: FloatArray, limit: FloatArray, share: float
) -> tuple[FloatArray, BoolArray]:
    """(the table, its inlier cells)."""
    x, inlier = np.maximum(behind, limit), np.ones(behind.shape, dtype=np.bool_)
    if name == "counts":
        return np.floor(behind), inlier
    if name == "ties":
        return np.maximum(np.round(behind / STEP) * STEP, 0.0), inlier
    if name == "zero-inflated":
        inlier = rng.random(x.shape) >= 0.5 * share
        return np.where(inlier, x, 0.0), inlier
    if name == "outlier rows":
        outlying = rng.permutation(len(x)) < max(1, round(OUTLIERS * len(x)))
        centre = behind.mean(axis=0) + AWAY
        return np.where(outlying[:, None], centre + rng.standard_normal(x.shape), x), inlier & ~outlying[:, None]
    if name == "bad cells":
        inlier = rng.random(x.shape) >= BAD
        return np.where(inlier, x, x + OFF), inlier
    return x, inlier
