"""Tables whose detection limits differ by cell: one pass beside the full likelihood, its errors, and its time.

Three laboratories have a limit each, in every column; cells below it only say that they are.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from numpy.typing import NDArray

from benchmarks.graphs.tables import Cell, f1, table
from benchmarks.table import Claim
from unrelu import FloorImputer, RectifiedGaussian, RectifiedGaussianGraph, RectifiedGaussianLearner

Array = NDArray[np.float64]
SIZES = ((5, 500, 60), (5, 5000, 24), (20, 500, 24), (20, 5000, 6))  # columns, rows, tables
_LEVELS = np.array([-0.6, 0.0, 0.6])
_SHARES = {30: -0.62, 60: 0.31}  # by how much limits are moved so that such a share, in percent, is below them


def laboratories(d: int, n: int, seed: int, moved: float = 0.0, several: bool = True) -> tuple[Array, Array, Array]:
    """(latent rows of unit normals with correlations .6, limits of the cells, correlations)."""
    rng = np.random.default_rng([seed, d, n])
    correlation = 0.6 * np.ones((d, d)) + 0.4 * np.eye(d)
    y = rng.standard_normal((n, d)) @ np.linalg.cholesky(correlation).T
    level = _LEVELS[rng.integers(0, 3, n)] if several else np.zeros(n)
    return y, np.tile(level[:, None] + moved, (1, d)), correlation


def run() -> list[Claim]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tables of few rows are told to be; figures are what is asked here
        return [*accuracy(), *calibration(), *imputation(), *graphs(), *speed()]


def fitted(method: str, x: Array, floor: Array | float, **options: object) -> RectifiedGaussianLearner:
    return RectifiedGaussianLearner(method, floor=floor, **{"margins": "normal", **options}).fit(x)


def numbers(learner: RectifiedGaussianLearner, correlation: Array) -> tuple[list[Array], list[Array]]:
    """(errors of means, standard deviations and correlations, what the learner takes for their size)."""
    at = np.triu_indices(len(correlation), 1)
    errors = [learner.mean_, learner.std_ - 1.0, (learner.correlation_ - correlation)[at]]
    return errors, [learner.mean_stderr_, learner.std_stderr_, learner.correlation_stderr_[at]]


def accuracy() -> list[Claim]:
    claims = []
    for d, n, tables in SIZES:
        squares: dict[str, list[list[float]]] = {"one_pass": [], "full_likelihood": []}
        for seed in range(tables):
            y, floor, correlation = laboratories(d, n, seed)
            for method, found in squares.items():
                errors, _ = numbers(fitted(method, np.maximum(y, floor), floor), correlation)
                found.append([float(np.mean(each**2)) for each in errors])
        one, full = (np.sqrt(np.mean(squares[method], axis=0)) for method in ("one_pass", "full_likelihood"))
        for what, ratio, size in zip(("mean", "sd", "correlation"), one / full, one, strict=True):
            name = f"one pass / full likelihood, RMSE of {what}, three limits, {n:,} x {d}"
            claims.append(Claim(name, float(ratio), most=1.1, note=f"RMSE {size:.4f}, {tables} tables"))
    return claims


def calibration(tables: int = 300) -> list[Claim]:
    """Mean squares of (estimate - truth) / standard error over small tables, many so that chance is small."""
    squares = []
    for seed in range(tables):
        y, floor, correlation = laboratories(5, 500, 10_000 + seed)
        errors, sizes = numbers(fitted("one_pass", np.maximum(y, floor), floor), correlation)
        squares.append([float(np.mean((e / s) ** 2)) for e, s in zip(errors, sizes, strict=True)])
    spread = np.std(squares, axis=0) / np.sqrt(tables)
    return [
        Claim(f"mean square of z, {what}, three limits, 500 x 5", float(z), 1.1, 0.9, f"{tables} tables, +- {se:.3f}")
        for what, z, se in zip(("mean", "sd", "correlation"), np.mean(squares, axis=0), spread, strict=True)
    ]


def imputation(tables: int = 8) -> list[Claim]:
    """RMSE of filled cells over that of the true model, which is the least there can be."""
    claims = []
    for share, most in ((30, 1.01), (60, 1.015)):
        sums = np.zeros(2)
        for seed in range(tables):
            y, floor, correlation = laboratories(5, 500, 20_000 + seed, _SHARES[share])
            x = np.maximum(y, floor)
            hidden = x == floor
            imputer = FloorImputer(floor=floor, margins="normal").fit(x)
            best = RectifiedGaussian(np.zeros(5), correlation, floor=-np.inf).impute(x, floor=floor)
            for k, filled in enumerate((imputer.transform(x), best)):
                sums[k] += np.sum((filled - y)[hidden] ** 2)
        name = f"imputation / optimum, three laboratories, {share} % censored"
        claims.append(Claim(name, float(np.sqrt(sums[0] / sums[1])), most=most, note=f"{tables} tables of 500 x 5"))
    return claims


def graphs(tables: int = 8) -> list[Claim]:
    """F1 of a sparse graph's edges, with three limits and with one, at the same share of censored cells."""
    cell, scores = Cell("scale-free", 20, 400, 0.5), np.empty((2, tables))
    for seed in range(tables):
        made = table(cell, seed)
        rng = np.random.default_rng(seed)
        y = made.latent
        level = _LEVELS[rng.integers(0, 3, len(y))]
        middle, spread = np.median(y, axis=0), y.std(axis=0)
        for k, limits in enumerate((middle + spread * level[:, None], middle)):
            with_limits = RectifiedGaussianGraph(floor=limits, margins="normal").fit(np.maximum(y, limits))
            scores[k, seed] = f1(with_limits.adjacency_, made.edges)
    three, one = scores.mean(axis=1)
    note = f"{three:.3f} and {one:.3f}, {tables} tables"
    return [Claim("graph, F1 with three limits less F1 with one", three - one, least=-0.02, note=note)]


def speed() -> list[Claim]:
    y, floor, _ = laboratories(50, 200_000, 0)
    x, one = np.maximum(y, floor), np.maximum(y, 0.0)
    seconds = {}
    for name, rows, limits in (("one", one, 0.0), ("three", x, floor)):
        fitted("one_pass", rows, limits)  # kernels are compiled
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            fitted("one_pass", rows, limits)
            best = min(best, time.perf_counter() - start)
        seconds[name] = best
    note = f"{seconds['three']:.2f} s for {seconds['one']:.2f} s"
    return [
        Claim(
            "one pass, time with three limits / with one, 200,000 x 50",
            seconds["three"] / seconds["one"],
            4.0,
            note=note,
        )
    ]
