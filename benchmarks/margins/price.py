"""margins="auto" on tables that are normal: the price of its choice.

Mean and std are those of the user's units, the median f(b) and half the distance of f(b - s) and f(b + s), over the
true std: for a normal column b and s themselves. Both fits see the same tables.
"""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np

import unrelu
from benchmarks.margins.correlations import noise, rmse
from benchmarks.studies import print_claims
from benchmarks.table import Claim
from unrelu.contracts import FloatArray
from unrelu.model import RectifiedGaussian

REPETITIONS = {300: 300, 500: 300, 5000: 100}


def in_user_units(model: RectifiedGaussian) -> tuple[FloatArray, FloatArray]:
    """(mean, std) of every column."""
    if model.margins is None:
        return model.mean, model.std
    at = [model.mean + k * model.std for k in (-1, 0, 1)]
    low, middle, high = (np.array([f.from_latent(y) for f, y in zip(model.margins, row, strict=True)]) for row in at)
    return middle, 0.5 * (high - low)


def errors(model: RectifiedGaussian, truth: RectifiedGaussian) -> dict[str, FloatArray]:
    mean, std = in_user_units(model)
    upper = np.triu_indices(len(mean), 1)
    return {
        "mean": (mean - truth.mean) / truth.std,
        "std": std / truth.std - 1.0,
        "correlation": (model.correlation - truth.correlation)[upper],
    }


def price(d: int, n: int, tables: int) -> list[Claim]:
    found: dict[str, dict[str, list[FloatArray]]] = {"normal": {}, "auto": {}}
    kinds: Counter[str] = Counter()
    for seed in range(tables):
        truth = unrelu.synthetic.random_model(d, random_state=seed)
        x = truth.sample(n, random_state=10_000 + seed)
        for margin, quantities in found.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = unrelu.RectifiedGaussianLearner(margins=margin).fit(x).distribution_
            for quantity, error in errors(model, truth).items():
                quantities.setdefault(quantity, []).append(error)
        kinds.update(f.kind for f in model.margins or ())
    other = f"of {d * tables} columns {kinds['boxcox']} boxcox, {kinds['monotone']} monotone"
    claims = []
    for quantity, ours in found["auto"].items():
        theirs = found["normal"][quantity]
        note = f"noise {noise(ours, theirs):.4f}; {other}"
        name = f"{quantity} RMSE of 'auto' / of 'normal', normal tables, d={d}, n={n:,}"
        claims.append(Claim(name, rmse(ours) / rmse(theirs), 1.02, note=note))
    return print_claims(*claims)


def run(most: int = 10**9) -> list[Claim]:
    sizes = [(d, n) for d in (5, 14) for n in REPETITIONS]
    return [claim for d, n in sizes for claim in price(d, n, min(most, REPETITIONS[n]))]
