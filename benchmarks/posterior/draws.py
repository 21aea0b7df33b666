"""Draws of hidden cells against rejection sampling; posterior means against draws' means; coverage of intervals.

50 models of 3 to 12 columns, one row each: two cells are seen, the others floored, at a ceiling or missing. Rejection
draws normals given the seen cells and keeps those on their side of the limits. Every hidden cell is tested by
Kolmogorov and Smirnov's two-sample test, every pair by the difference of its correlations over its standard error,
which is that of the correlation's influence function, as cut-off normals are not normal. A model is rejected where its
smallest p-value times the number of its tests is below .001: of 50 models so many are by chance, .05 on average.

Means of draws are made precise by averaging each cell's mean given the row's other cells, over our draws and those of
rejection together.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr
from scipy.stats import ks_2samp, kstest, norm

import unrelu
from benchmarks.posterior.tables import QUANTILES, lognormal
from benchmarks.studies import print_claims
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

MODELS, DRAWS, COPIES, KEPT = 50, 10_000, 20, 40_000
LEVEL = 1e-3
TABLES = 20


@dataclass(frozen=True, eq=False)
class Case:
    """A model, a row, and the distribution of its hidden cells: N(mean, covariance) with ``side`` * y <= ``side`` *
    limit."""

    model: unrelu.RectifiedGaussian
    row: FloatArray
    mean: FloatArray
    covariance: FloatArray
    limit: FloatArray
    side: FloatArray

    def within(self, y: FloatArray) -> FloatArray:
        return np.asarray(y[((y - self.limit) * self.side <= 0.0).all(axis=1)])

    def normals(self, n: int, rng: np.random.Generator) -> FloatArray:
        return np.asarray(self.mean + rng.standard_normal((n, len(self.mean))) @ np.linalg.cholesky(self.covariance).T)

    def rejection(self, n: int, rng: np.random.Generator) -> FloatArray:
        parts = [self.within(self.normals(100_000, rng))]
        while sum(map(len, parts)) < n:
            parts.append(self.within(self.normals(100_000, rng)))
        return np.concatenate(parts)[:n]

    def draw(self, seed: int) -> FloatArray:
        """Ours: copies of the row have streams of their own, and both cores are busy."""
        rows = np.tile(self.row, (COPIES, 1))
        draws = self.model.sample_latent(rows, n_draws=DRAWS // COPIES, random_state=seed, below="latent")
        return draws.reshape(-1, len(self.row))[:, 2:]

    def means_given_others(self, y: FloatArray) -> FloatArray:
        """E[y_j | the other hidden cells] of every draw and cell: a cut-off normal's mean."""
        precision = np.linalg.inv(self.covariance)
        spread = 1.0 / np.sqrt(np.diagonal(precision))
        centre = y - (y - self.mean) @ precision * spread**2
        a = self.side * (self.limit - centre) / spread
        with np.errstate(invalid="ignore"):
            cut = np.where(self.side == 0.0, 0.0, np.exp(norm.logpdf(a) - log_ndtr(a)))
        return np.asarray(centre - self.side * spread * cut)


def case(seed: int) -> Case:
    """Limits are loosened until rejection keeps one normal of fifty."""
    rng = np.random.default_rng(seed)
    hidden = 1 + seed % 10
    d = hidden + 2
    y = unrelu.synthetic.random_model(d, condition_number=[3.0, 30.0, 300.0][seed % 3], random_state=rng)
    v, mean = y.covariance, y.mean
    side = np.ones(hidden)
    side[rng.random(hidden) < 0.2] = -1.0  # at a ceiling
    if hidden > 2 and seed % 2:
        side[0] = 0.0  # missing
    seen = mean[:2] + np.sqrt(np.diagonal(v)[:2]) * rng.uniform(-1.0, 1.0, 2)
    gain = np.linalg.solve(v[:2, :2], v[:2, 2:]).T
    expected, left = mean[2:] + gain @ (seen - mean[:2]), v[2:, 2:] - gain @ v[:2, 2:]
    loose = rng.uniform(-1.0, 0.5, hidden)
    while True:
        limit = expected + side * loose * np.sqrt(np.diagonal(left))
        row = np.concatenate([seen, np.where(side == 0.0, np.nan, limit)])
        open_ended = np.full(2, np.inf)
        floor = np.concatenate([-open_ended, np.where(side > 0.0, limit, -np.inf)])
        ceiling = np.concatenate([open_ended, np.where(side < 0.0, limit, np.inf)])
        found = Case(unrelu.RectifiedGaussian(mean, v, floor, ceiling=ceiling), row, expected, left, limit, side)
        if len(found.within(found.normals(20_000, np.random.default_rng(0)))) >= 400:
            return found
        loose += 0.1


def correlation_and_error(y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Correlation and its error of every pair, from the influence function u v - r (u^2 + v^2)/2."""
    i, j = np.triu_indices(y.shape[1], 1)
    u = (y - y.mean(axis=0)) / y.std(axis=0)
    r = np.asarray(np.corrcoef(y, rowvar=False))[i, j]
    influence = u[:, i] * u[:, j] - 0.5 * r * (u[:, i] ** 2 + u[:, j] ** 2)
    return r, influence.std(axis=0) / np.sqrt(len(y))


def p_values(ours: FloatArray, theirs: FloatArray) -> FloatArray:
    """p-values of every cell's distribution and of every pair's correlation."""
    p = [ks_2samp(a, b).pvalue for a, b in zip(ours.T, theirs.T, strict=True)]
    if ours.shape[1] == 1:
        return np.array(p)
    (r, error), (other, noise) = correlation_and_error(ours), correlation_and_error(theirs)
    return np.concatenate([p, 2.0 * ndtr(-np.abs(r - other) / np.hypot(error, noise))])


def against_rejection(models: int) -> list[Claim]:
    p, shifts, noises, walked = [], [], [], 0
    for seed in range(models):
        of = case(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ours = of.draw(seed)
        walked += any("dependent-draws" in getattr(each.message, "kinds", ()) for each in caught)
        theirs = of.rejection(KEPT, np.random.default_rng([seed, 1]))
        p.append(p_values(ours, theirs))
        both = np.concatenate([ours, theirs])
        exact, sd = of.means_given_others(both), both.std(axis=0)
        filled = of.model.impute(of.row[None], below="latent")[0, 2:]
        shifts.append((filled - exact.mean(axis=0)) / sd)
        noises.append(exact.std(axis=0) / sd / np.sqrt(len(both)))
    each = np.array([len(of_model) * of_model.min() for of_model in p])
    tests, shift = np.concatenate(p), np.abs(np.concatenate(shifts))
    at = int(np.argmax(shift))
    note = f"smallest p-value {tests.min():.1e} of {len(tests):,} tests, {int((tests < LEVEL).sum())} below .001"
    note += f"; walks in {walked} models; p-values uniform: p={kstest(tests, 'uniform').pvalue:.2f} (pairs dependent)"
    far = f"{len(shift)} cells, root mean square {np.sqrt(np.mean(shift**2)):.2%}, 95 % below"
    far += f" {np.quantile(shift, 0.95):.2%}; standard error there {np.concatenate(noises)[at]:.2%}"
    return [
        Claim(f"draws: of {models} models, rejected at the .001 level", float((each < LEVEL).sum()), 0.0, note=note),
        Claim("posterior mean off the draws' mean, largest, in posterior sd", float(shift[at]), 0.02, note=far),
    ]


def coverage(tables: int) -> list[Claim]:
    """Shares of floored cells, of lognormal tables, within their intervals from 5 to 95 %."""
    claims = []
    for level in QUANTILES:
        learned, true = [], []
        for seed in range(tables):
            table = lognormal(level, seed)
            imputer = unrelu.FloorImputer(floor=table.limit, margins="log").fit(table.x)
            low, high = (imputer.quantile(table.x, q)[table.floored] for q in (0.05, 0.95))
            learned.append(np.mean((table.truth[table.floored] >= low) & (table.truth[table.floored] <= high)))
            y, truth = np.log(table.x), np.log(table.truth[table.floored])
            low, high = (table.distribution.impute(y, quantile=q)[table.floored] for q in (0.05, 0.95))
            true.append(np.mean((truth >= low) & (truth <= high)))
        note = f"by the true parameters {100 * np.mean(true):.2f}; {tables} tables of 500 x 10"
        name = f"coverage of 90 % intervals (%), cells floored at the {level:.0%} quantile, learned"
        claims.append(Claim(name, float(100 * np.mean(learned)), 92.0, 88.0, note=note))
    return claims


def run(most: int = 10**9) -> list[Claim]:
    return print_claims(*against_rejection(min(MODELS, most)), *coverage(min(TABLES, most)))
