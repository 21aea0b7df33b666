"""method="full_likelihood": never above one_pass, near the Cramer-Rao bound with one limit a column or three, and fast.

Errors of mean and standard deviation are in true standard deviations. The bound is the inverse of the scores' second
moment over many rows of the true model; a ratio to it has a standard error of 1/sqrt(2 x tables x independent numbers).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy.stats import norm

import unrelu
from benchmarks.studies import print_claims
from benchmarks.table import Claim
from unrelu.contracts import Assumptions, Block, Evidence, FloatArray, Samples
from unrelu.fit.likelihood.maximizing import CovarianceModel
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import LocalEngine

D, N, TABLES = 8, 2000, 60
BOUND_D, BOUND_N, BOUND_TABLES, BOUND_ROWS = 5, 2000, 600, 200_000
LIMITS = np.array([-0.8, 0.0, 0.5])  # in true standard deviations from the mean
QUANTITIES = ("mean", "std", "correlation")

Errors = dict[str, list[FloatArray]]


def of_weights(weights: FloatArray, noise: float, mean: FloatArray) -> RectifiedGaussian:
    """Unit standard deviations; the noise is in units of the weights'."""
    covariance = weights @ weights.T + noise**2 * np.eye(len(weights))
    scale = np.sqrt(np.diagonal(covariance))
    return RectifiedGaussian(mean, covariance / np.outer(scale, scale))


KINDS: dict[str, Callable[[np.random.Generator], RectifiedGaussian]] = {
    "signed means": lambda rng: of_weights(
        rng.standard_normal((D, D)), 0.0, np.clip(rng.standard_normal(D), -1.5, 1.5)
    ),
    "two factors, noise .7": lambda rng: of_weights(rng.standard_normal((D, 2)), 0.7, 0.5 * rng.standard_normal(D)),
    "two factors, noise .3": lambda rng: of_weights(rng.standard_normal((D, 2)), 0.3, 0.5 * rng.standard_normal(D)),
    "correlations .9": lambda rng: RectifiedGaussian(0.5 * rng.standard_normal(D), 0.9 + 0.1 * np.eye(D)),
    "80 % floored": lambda rng: of_weights(rng.standard_normal((D, D)), 0.0, np.full(D, norm.ppf(0.2))),
}


def run(most: int = 10**9) -> list[Claim]:
    claims = [claim for kind in KINDS for claim in against_one_pass(kind, min(most, TABLES))]
    tables = min(most, BOUND_TABLES)
    return [*claims, *against_bound(tables, by_cell=False), *against_bound(tables, by_cell=True), *seconds()]


def add_errors(errors: Errors, model: RectifiedGaussian, truth: RectifiedGaussian) -> None:
    upper = np.triu_indices(truth.n_features, 1)
    errors["mean"].append((model.mean - truth.mean) / truth.std)
    errors["std"].append(model.std / truth.std - 1.0)
    errors["correlation"].append((model.correlation - truth.correlation)[upper])


def rmse(errors: list[FloatArray]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def against_one_pass(kind: str, tables: int) -> list[Claim]:
    found: dict[str, Errors] = {name: {q: [] for q in QUANTITIES} for name in ("one_pass", "full_likelihood")}
    for seed in range(tables):
        rng = np.random.default_rng([seed, *kind.encode()])
        truth = KINDS[kind](rng)
        x = truth.sample(N, random_state=rng)
        for method, errors in found.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                add_errors(
                    errors, unrelu.RectifiedGaussianLearner(method, margins="normal").fit(x).distribution_, truth
                )
    ratios = {q: rmse(found["full_likelihood"][q]) / rmse(found["one_pass"][q]) for q in QUANTITIES}
    return print_claims(
        *(
            Claim(
                f"{q} RMSE of full_likelihood / of one_pass, {kind}",
                ratio,
                most=1.0,
                note=f"d={D}, n={N:,}, {tables} tables; {rmse(found['full_likelihood'][q]):.4f}",
            )
            for q, ratio in ratios.items()
        )
    )


class CensoredRows(Samples):
    """Rows in memory with the censoring of every cell."""

    n_rows = None

    def __init__(self, values: FloatArray, censoring: FloatArray) -> None:
        self.block = Block(values, censoring=censoring.astype(np.int8))
        self.n_rows, self.n_features = values.shape

    def blocks(self):  # type: ignore[no-untyped-def]
        yield self.block


def draw(truth: RectifiedGaussian, n: int, by_cell: bool, rng: np.random.Generator) -> Samples:
    """Rows with the censoring of each cell: a floor of 0, or one of three limits for each cell."""
    y = rng.multivariate_normal(truth.mean, truth.covariance, size=n, method="cholesky")
    limit = LIMITS[rng.integers(len(LIMITS), size=y.shape)] * truth.std + truth.mean if by_cell else 0.0
    rows: Samples = CensoredRows(np.maximum(y, limit), -(y < limit).astype(np.float64))
    return rows


def against_bound(tables: int, by_cell: bool) -> list[Claim]:
    """Errors over the Cramer-Rao bound, at one true model of three factors and noise."""
    rng = np.random.default_rng(7)
    truth = of_weights(rng.standard_normal((BOUND_D, 3)), 0.7, 0.5 * rng.standard_normal(BOUND_D))
    distribution = CovarianceModel(truth.mean, truth.covariance)
    many = next(iter(draw(truth, BOUND_ROWS, by_cell, rng).blocks()))
    _, _, scores = distribution.scores(many.values.astype(np.float64), many.censoring)  # type: ignore[arg-type]
    both, variance = distribution.errors(np.linalg.inv(scores.T @ scores * (BOUND_N / BOUND_ROWS)))
    upper = np.triu_indices(BOUND_D, 1)
    bounds = dict(zip(QUANTITIES, (both[:, 0, 0], both[:, 1, 1], variance[upper]), strict=True))
    errors: Errors = {q: [] for q in QUANTITIES}
    method, assumed = unrelu.methods.FullLikelihood(), Assumptions((-np.inf,) * BOUND_D)
    for _ in range(tables):
        evidence = Evidence(draw(truth, BOUND_N, by_cell, rng), LocalEngine())
        add_errors(errors, method.learn(evidence, assumed).distribution, truth)
    where, most = ("three limits a column", 1.05) if by_cell else ("one floor", 1.03)
    return print_claims(
        *(
            Claim(
                f"{q} RMSE over the Cramer-Rao bound, {where}, d={BOUND_D}, n={BOUND_N:,}",
                rmse(errors[q]) / float(np.sqrt(np.mean(bounds[q]))),
                most=most,
                note=f"{tables} tables: +- {1.0 / np.sqrt(2.0 * tables * BOUND_D):.3f}",
            )
            for q in QUANTITIES
        )
    )


def seconds() -> list[Claim]:
    """Half of the cells floored; the first fit compiles."""
    rng = np.random.default_rng(0)
    truth = of_weights(rng.standard_normal((20, 3)), 0.7, rng.uniform(-0.5, 0.5, 20))
    x = truth.sample(20_000, random_state=1)
    unrelu.RectifiedGaussianLearner("full_likelihood", margins="normal").fit(x[:500])
    claims = []
    for k, most in ((None, 60.0), (3, 60.0), ("auto", None)):
        start = time.perf_counter()
        report = unrelu.RectifiedGaussianLearner("full_likelihood", margins="normal", n_components=k).fit(x).report_
        taken, words = time.perf_counter() - start, "" if k is None else f", n_components={k!r}"
        note = f"{report.rounds} rounds, {100 * report.share_floored:.0f} % floored"
        claims.append(Claim(f"full_likelihood{words}, s, d=20, n=20,000", taken, most=most, note=note))
    return print_claims(*claims)
