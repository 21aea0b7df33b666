"""log_prob against references of another make: exact integrals for one factor, quasi-Monte-Carlo for the rest.

One factor, y_j = b_j + l_j z + s_j e_j: the density of a row is one integral over z, by trapezoids. Other covariances:
Genz' separation of variables on scrambled Sobol points, the least likely cell first; the spread over the scrambles says
how precise that is. Rows are drawn from the model, about half of their cells at the floor; one more has all cells at
the floor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri_exp
from scipy.stats import multivariate_normal, norm
from scipy.stats.qmc import Sobol

import unrelu
from benchmarks.margins.tables import draw
from benchmarks.studies import print_claims
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

WIDTHS, ROWS = (4, 6, 10, 20, 50), 6
MODELS, MODELS_OF_ONE_FACTOR = 6, 30
LOG2_POINTS, SCRAMBLES = 13, 8
STRONG = 0.9
Reference = Callable[[unrelu.RectifiedGaussian, FloatArray], tuple[float, float]]


def one_factor(mean: FloatArray, loading: FloatArray, row: FloatArray) -> float:
    """Log of the integral of phi(z) prod N(x_j; b_j + l_j z, s_j^2) prod Phi((0 - b_j - l_j z)/s_j), s^2 = 1 - l^2."""
    spread, floored = np.sqrt(1.0 - loading**2), row <= 0.0

    def log_integrand(z: FloatArray) -> FloatArray:
        u = (row - mean - z[:, None] * loading) / spread
        of_cells = np.where(floored, log_ndtr(u), norm.logpdf(u) - np.log(spread))
        return np.asarray(norm.logpdf(z) + of_cells.sum(axis=1))

    coarse = np.linspace(-60.0, 60.0, 6001)
    height = log_integrand(coarse)
    within = coarse[height > height.max() - 45.0]
    z = np.linspace(within[0] - 0.02, within[-1] + 0.02, 2001)
    return float(logsumexp(log_integrand(z)) + np.log(z[1] - z[0]))


def least_likely_first(covariance: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(Cholesky factor, limits) in the order that takes the least likely cell next (Gibson, Glasbey and Elston)."""
    d = len(upper)
    factor, limit, v, y = np.zeros((d, d)), upper.copy(), covariance.copy(), np.zeros(d)
    for k in range(d):
        left = np.sqrt(np.maximum(np.diagonal(v)[k:] - (factor[k:, :k] ** 2).sum(axis=1), 1e-14))
        at = k + int(np.argmin((limit[k:] - factor[k:, :k] @ y[:k]) / left))
        order = np.arange(d)
        order[[k, at]] = at, k
        v, limit, factor = v[np.ix_(order, order)], limit[order], factor[order]
        factor[k, k] = left[at - k]
        factor[k + 1 :, k] = (v[k + 1 :, k] - factor[k + 1 :, :k] @ factor[k, :k]) / factor[k, k]
        a = (limit[k] - factor[k, :k] @ y[:k]) / factor[k, k]
        y[k] = -np.exp(norm.logpdf(a) - log_ndtr(a))
    return factor, limit


def log_orthant(covariance: FloatArray, upper: FloatArray) -> tuple[float, float]:
    """(log P(y <= upper), standard error), y ~ N(0, covariance)."""
    factor, limit = least_likely_first(covariance, upper)
    found = []
    for scramble in range(SCRAMBLES):
        u = Sobol(len(upper), rng=np.random.default_rng(scramble)).random_base2(LOG2_POINTS)
        y, log_weight = np.zeros_like(u), np.zeros(len(u))
        for k in range(len(upper)):
            log_share = log_ndtr((limit[k] - y[:, :k] @ factor[k, :k]) / factor[k, k])
            log_weight += log_share
            y[:, k] = ndtri_exp(log_share + np.log(np.maximum(u[:, k], 1e-300)))
        found.append(logsumexp(log_weight) - np.log(len(u)))
    mean = logsumexp(found) - np.log(SCRAMBLES)
    return float(mean), float(np.std(np.exp(found - mean), ddof=1) / np.sqrt(SCRAMBLES))


def separate(model: unrelu.RectifiedGaussian, row: FloatArray) -> tuple[float, float]:
    """Log density of a row: that of the cells seen, times an orthant probability given these."""
    below, mean, v = row <= 0.0, model.mean, model.covariance
    seen = ~below
    if not seen.any():
        return log_orthant(v, -mean)
    gain = np.linalg.solve(v[np.ix_(seen, seen)], v[np.ix_(seen, below)]).T
    density = float(multivariate_normal(mean[seen], v[np.ix_(seen, seen)]).logpdf(row[seen]))
    if not below.any():
        return density, 0.0
    left = v[np.ix_(below, below)] - gain @ v[np.ix_(seen, below)]
    probability, error = log_orthant(left, -(mean[below] + gain @ (row - mean)[seen]))
    return density + probability, error


def loadings(kind: str, d: int, rng: np.random.Generator) -> FloatArray:
    strong = np.full(d, np.sqrt(STRONG))
    if kind == "correlations .9":
        return strong
    signs = rng.permutation(np.where(np.arange(d) % 2, 1.0, -1.0))
    return np.asarray(strong * (signs if kind == "correlations .9 and -.9" else rng.uniform(-1.0, 1.0, d)))


def model_of(kind: str, d: int, seed: int) -> tuple[unrelu.RectifiedGaussian, Reference]:
    """A model with unit variances and floors of 0, and a function with its exact density."""
    rng = np.random.default_rng([seed, d])
    mean = rng.uniform(-1.0, 1.0, d) * 2.0 ** (seed % 3)
    if kind == "three factors":
        return unrelu.RectifiedGaussian(mean, draw(1, seed, d).correlation), separate
    if kind == "a chain of .9":
        return unrelu.RectifiedGaussian(mean, STRONG ** np.abs(np.subtract.outer(range(d), range(d)))), separate
    loading = loadings(kind, d, rng)
    correlation = np.outer(loading, loading)
    np.fill_diagonal(correlation, 1.0)
    return unrelu.RectifiedGaussian(mean, correlation), lambda _, row: (one_factor(mean, loading, row), 0.0)


SEPARATED = ("three factors", "a chain of .9")
ONE_FACTOR = ("correlations .9", "correlations .9 and -.9", "one factor, random loadings")
KINDS = SEPARATED + ONE_FACTOR


@dataclass
class Worst:
    """The largest errors of a floored cell, in absolute value, and of the reference, by width."""

    error: float = 0.0
    of_reference: float = 0.0


def against_reference(kind: str, models: int) -> Claim:
    worst = {d: Worst() for d in WIDTHS}
    for d, found in worst.items():
        for seed in range(models):
            model, reference = model_of(kind, d, seed)
            rows = np.vstack([model.sample(ROWS, random_state=seed), np.zeros(d)])
            for row, log_prob in zip(rows, model.log_prob(rows), strict=True):
                wanted, noise = reference(model, row)
                cells = max(int((row <= 0.0).sum()), 1)
                found.error = max(found.error, abs(log_prob - wanted) / cells)
                found.of_reference = max(found.of_reference, noise / cells)
    by_width = ", ".join(f"d={d} {each.error:.1e}" for d, each in worst.items())
    noise = max(each.of_reference for each in worst.values())
    exact = "exact reference" if noise == 0.0 else f"standard error of the reference at most {noise:.0e} a cell"
    largest = max(each.error for each in worst.values())
    name = f"log_prob, largest error a floored cell, {kind}"
    return Claim(name, largest, 2e-3, note=f"{by_width}; {models * (ROWS + 1)} rows each; {exact}")


def references_agree() -> Claim:
    """Both references on rows with nothing above the floor, of one factor."""
    differences = []
    for d in WIDTHS:
        model, exact = model_of("one factor, random loadings", d, 0)
        other, error = separate(model, np.zeros(d))
        differences.append(abs(exact(model, np.zeros(d))[0] - other) / max(error, 1e-9))
    return Claim("  exact integral against quasi-Monte-Carlo, in standard errors", max(differences), 5.0)


def far_tails() -> list[Claim]:
    """Rows all at the floor whose means are raised until their log probability is below -800."""
    error, lost, lowest, count = 0.0, 0, 0.0, 0
    for kind in ONE_FACTOR:
        for d in WIDTHS:
            loading = loadings(kind, d, np.random.default_rng(d))
            correlation = np.outer(loading, loading)
            np.fill_diagonal(correlation, 1.0)
            for raised in np.geomspace(1.0, 40.0, 25):
                mean = raised * np.linspace(0.5, 1.0, d)
                wanted = one_factor(mean, loading, np.zeros(d))
                if wanted < -900.0:
                    break
                found = float(unrelu.RectifiedGaussian(mean, correlation).log_prob(np.zeros((1, d)))[0])
                lost, lowest, count = lost + (not np.isfinite(found)), min(lowest, wanted), count + 1
                error = max(error, abs(found - wanted) / d)
    note = f"{count} rows, the lowest log probability {lowest:.0f}"
    return [
        Claim("log_prob in far tails: rows without a finite one", float(lost), 0.0, note=note),
        Claim("  largest error a floored cell", error, 2e-3),
    ]


def run(most: int = 10**9) -> list[Claim]:
    models = [min(MODELS if kind in SEPARATED else MODELS_OF_ONE_FACTOR, most) for kind in KINDS]
    claims = [against_reference(kind, number) for kind, number in zip(KINDS, models, strict=True)]
    return print_claims(*claims, references_agree(), *far_tails())
