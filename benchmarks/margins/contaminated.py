"""The robust method on lognormal tables, one row in ten replaced by an outlier.

The oracle is the robust method with the true margins: margins="log" on the same rows, outliers included. (The notes
have the error of one pass with the true margins, on the inlier rows alone.) A mean is the logarithm of the column's
median. Before: margins="normal" on the same rows, which takes skewness for several groups.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

import unrelu
from benchmarks.margins.correlations import noise, rmse
from benchmarks.margins.price import in_user_units
from benchmarks.margins.tables import draw
from benchmarks.studies import print_claims
from benchmarks.table import Claim
from unrelu.contracts import FloatArray
from unrelu.model import RectifiedGaussian

D, N, SHARE, SPREAD, REPETITIONS = 8, 2000, 0.1, 0.8, 10
UPPER = np.triu_indices(D, 1)
Outliers = Callable[[np.random.Generator, FloatArray], FloatArray]


def scatter_cells(rng: np.random.Generator, x: FloatArray) -> FloatArray:
    """Every cell by itself, anywhere from the floor to twice the column's largest value of a hundred."""
    low, high = x.min(axis=0), 2.0 * np.quantile(x, 0.99, axis=0)
    return rng.uniform(low, high, x.shape)


def far(rng: np.random.Generator, x: FloatArray) -> FloatArray:
    """A cloud at a hundred medians, as a wrong unit gives."""
    return 100.0 * np.median(x, axis=0) * np.exp(0.3 * rng.standard_normal(x.shape))


def cloud_nearby(rng: np.random.Generator, x: FloatArray) -> FloatArray:
    """A cloud of the table's own kind, three standard deviations up in logarithms, without correlations."""
    return np.median(x, axis=0) * np.exp(SPREAD * (3.0 + rng.standard_normal(x.shape)))


KINDS: dict[str, Outliers | None] = {"none": None, "scattered": scatter_cells, "moved": cloud_nearby, "far": far}


def fit(x: FloatArray, floor: FloatArray, margin: str, method: str = "robust") -> tuple[RectifiedGaussian, bool]:
    """The model, and whether several groups were warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = unrelu.RectifiedGaussianLearner(method, floor=floor, margins=margin).fit(x).distribution_
    return model, any("ambiguous-majority" in getattr(warning.message, "kinds", ()) for warning in caught)


def study(kind: str, tables: int) -> list[Claim]:
    outliers = KINDS[kind]
    found: dict[str, dict[str, list[FloatArray]]] = {}
    warned = {"log": 0, "auto": 0, "normal": 0}
    for seed in range(tables):
        truth = draw(N, seed, D)
        x, floor = np.exp(SPREAD * truth.latent), np.exp(SPREAD * truth.level)
        x = np.maximum(x, floor)
        inlier = np.ones(N, dtype=bool)
        if outliers is not None:
            rng = np.random.default_rng([seed, 7])
            inlier[rng.choice(N, int(SHARE * N), replace=False)] = False
            x[~inlier] = np.maximum(outliers(rng, x[~inlier]), floor)
        fits = {margin: fit(x, floor, margin) for margin in warned}
        fits["inlier rows"] = fit(x[inlier], floor, "log", "one_pass")
        for name, (model, ambiguous) in fits.items():
            if name in warned:
                warned[name] += ambiguous
            median = np.log(np.maximum(in_user_units(model)[0], 1e-3)) / SPREAD
            errors = {"correlation": (model.correlation - truth.correlation)[UPPER], "mean": median}
            for quantity, error in errors.items():
                found.setdefault(name, {}).setdefault(quantity, []).append(error)
    here = f"lognormal, outliers: {kind}, d={D}, n={N:,}"
    claims = []
    for quantity in ("correlation", "mean"):
        ours, oracle, before = (found[name][quantity] for name in ("auto", "log", "normal"))
        best = rmse(found["inlier rows"][quantity])
        note = f"{rmse(ours):.4f}; inlier rows {best:.4f}, margins='normal' {rmse(before):.4f};"
        note += f" noise {noise(ours, oracle):.3f}, {tables} tables"
        name = f"{quantity} RMSE of robust 'auto' / of robust with the true margins, {here}"
        claims.append(Claim(name, rmse(ours) / rmse(oracle), 1.3, note=note))
    note = f"margins='normal': {warned['normal']} of {tables}; with the true margins: {warned['log']}"
    claims.append(Claim(f"tables with a warning of several groups, {here}", warned["auto"], 0.0, note=note))
    for claim in claims:
        print(f"    {claim.name}: {claim.figure:.3f} ({claim.note})")
    return print_claims(*claims)


def run(most: int = 10**9) -> list[Claim]:
    return [claim for kind in KINDS for claim in study(kind, min(most, REPETITIONS))]
