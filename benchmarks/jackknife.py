"""Standard errors of a jackknife over groups where the model is wrong, beside the model's own; and its cost.

The truth is what the estimator converges to: the fit to 2,000,000 rows. Squared z-scores of 20 groups average 19/17.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.speed import floored, seconds
from benchmarks.table import Claim
from unrelu import RectifiedGaussianLearner
from unrelu.errors import AssumptionWarning

D, ROWS, REPETITIONS, ROUNDS = 4, 2000, 150, 5
ROWS_A_DAY = 50
UPPER = np.triu_indices(D, 1)


class Rows(NamedTuple):
    """A table, and the group of every row where groups matter."""

    x: np.ndarray
    groups: np.ndarray | None = None


def run() -> list[Claim]:
    claims = []
    for name, draw in {"lognormal": lognormal, "heavy tails": heavy_tails, "clustered": clusters}.items():
        model, jackknife = squared_z(draw)
        for quantity in model:
            note = f"model errors: {model[quantity]:.2f}"
            # Where the eighth moment is infinite, errors of a standard deviation have no finite variance: no bound.
            most, least = (None, None) if draw is heavy_tails else (1.25, 0.85)
            claim = f"mean squared z, {quantity}, {name}, jackknife"
            claims.append(Claim(claim, jackknife[quantity], most, least, note))
    return [*claims, cost()]


def mixed_normals(rng: np.random.Generator, n: int) -> np.ndarray:
    """Unit normals with correlations of .5."""
    return np.sqrt(0.5) * (rng.standard_normal((n, 1)) + rng.standard_normal((n, D)))


def lognormal(n: int, seed: int) -> Rows:
    """Columns exp(y/2), cut off where 20 to 60 % of the values are."""
    y = np.exp(0.5 * mixed_normals(np.random.default_rng(seed), n))
    return Rows(np.maximum(y - np.linspace(0.65, 1.15, D), 0.0))


def heavy_tails(n: int, seed: int) -> Rows:
    """Rows of a t distribution with 8 degrees of freedom: symmetric, with a kurtosis of 4.5."""
    rng = np.random.default_rng(seed)
    y = mixed_normals(rng, n) / np.sqrt(rng.chisquare(8.0, size=(n, 1)) / 8.0)
    return Rows(np.maximum(y - np.linspace(-1.0, 0.3, D), 0.0))


def clusters(n: int, seed: int) -> Rows:
    """Days with an effect of their own on the mean of every column and on the spread of all."""
    rng = np.random.default_rng(seed)
    days = np.arange(n) // ROWS_A_DAY
    n_days = int(days[-1]) + 1
    mean, spread = 0.25 * rng.standard_normal((n_days, D)), np.exp(0.15 * rng.standard_normal((n_days, 1)))
    shared = 0.6 + 0.15 * rng.standard_normal((n_days, 1))  # the columns' common part differs from day to day
    y = spread[days] * (shared[days] * rng.standard_normal((n, 1)) + 0.8 * rng.standard_normal((n, D))) + mean[days]
    return Rows(np.maximum(y + np.linspace(-0.3, 0.6, D), 0.0), days)


def estimates(learner: RectifiedGaussianLearner) -> dict[str, np.ndarray]:
    return {"mean": learner.mean_, "standard deviation": learner.std_, "correlation": learner.correlation_[UPPER]}


def errors(learner: RectifiedGaussianLearner) -> dict[str, np.ndarray]:
    stderr = learner.correlation_stderr_[UPPER]
    return {"mean": learner.mean_stderr_, "standard deviation": learner.std_stderr_, "correlation": stderr}


def squared_z(draw: Callable[[int, int], Rows]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean squared z-scores of the model's and of the jackknife's errors."""
    warnings.simplefilter("ignore", AssumptionWarning)  # skewed columns are what is studied
    truth = estimates(RectifiedGaussianLearner("one_pass", margins="normal").fit(draw(2_000_000, 0).x))
    model: dict[str, list[np.ndarray]] = {quantity: [] for quantity in truth}
    jackknife: dict[str, list[np.ndarray]] = {quantity: [] for quantity in truth}
    for repetition in range(REPETITIONS):
        rows = draw(ROWS, repetition + 1)
        plain = RectifiedGaussianLearner("one_pass", margins="normal").fit(rows.x)
        grouped = RectifiedGaussianLearner("one_pass", margins="normal", stderr="jackknife").fit(
            rows.x, groups=rows.groups
        )
        for quantity, estimate in estimates(plain).items():
            off = estimate - truth[quantity]
            model[quantity].append((off / errors(plain)[quantity]) ** 2)
            jackknife[quantity].append((off / errors(grouped)[quantity]) ** 2)
    return tuple({q: float(np.mean(z)) for q, z in scores.items()} for scores in (model, jackknife))  # type: ignore[return-value]


def cost() -> Claim:
    """Time of the fit with a jackknife over that of the plain fit."""
    x = floored(200_000, 50)
    plain, grouped = (
        RectifiedGaussianLearner("one_pass", margins="normal"),
        RectifiedGaussianLearner("one_pass", margins="normal", stderr="jackknife"),
    )
    grouped.fit(x[:5000])  # compiled or loaded from the cache
    times, spent = [], []
    for _ in range(ROUNDS):
        start = time.process_time()
        first = seconds(lambda: plain.fit(x))
        middle = time.process_time()
        times.append((first, seconds(lambda: grouped.fit(x))))
        spent.append((middle - start, time.process_time() - middle))
    wall, cores = np.median(times, axis=0), np.min(spent, axis=0)
    note = f"{wall[1]:.2f} s against {wall[0]:.2f} s; time of all cores, best of {ROUNDS}: {cores[1] / cores[0]:.2f}"
    return Claim("fit with jackknife / plain fit, n=200,000, d=50 (medians)", float(wall[1] / wall[0]), 3.0, note=note)
