"""Synthetic tables beside those of Copulas' GaussianMultivariate, on the two files of real data, where present.

Columns: the mean distance of distribution functions (Kolmogorov and Smirnov's). Zeros: the mean difference of their
shares; a value that Copulas draws below 0 counts as a zero. Pairs: the mean difference of Spearman's correlations, and
of the latent ones that margins="monotone" learns from either table. Both tools fit the same rows and are compared with
them: all of Casco's, and as many of the proteins, drawn at random, as Copulas fits and draws in minutes. No cell is
missing.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.stats import ks_2samp, spearmanr

import unrelu
from benchmarks.real.files import present
from benchmarks.rivals.other_python import answer, python_for
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

FILES = {"Casco": ("casco_pah.csv", 5), "Proteins": ("proteomics_pxd000501_ibaq.csv", 1)}  # tables drawn of each
MOST_ROWS = 600
COPULAS = """
import pandas as pd
from copulas.multivariate import GaussianMultivariate
def solve(table):
    model = GaussianMultivariate(random_state=0)
    model.fit(pd.DataFrame(table, columns=[str(j) for j in range(table.shape[1])]))
    return model.sample(DRAWN * len(table)).to_numpy()
"""


def numbers(name: str) -> FloatArray | None:
    data = present(name)
    if data is None:
        return None
    table = data.iloc[:, 3:] if name.startswith("casco") else data.select_dtypes("number")
    rows = np.random.default_rng(0).permutation(len(table))[:MOST_ROWS]
    return table.to_numpy(float)[np.sort(rows)]


def latent(table: FloatArray) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return unrelu.RectifiedGaussianLearner(margins="monotone").fit(table).correlation_


def ours(table: FloatArray, drawn: int) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = unrelu.RectifiedGaussianLearner(margins="monotone").fit(table)
    return learner.sample(drawn * len(table), random_state=0)


def differences(table: FloatArray, drawn: FloatArray) -> dict[str, float]:
    upper = np.triu_indices(table.shape[1], 1)
    drawn = np.maximum(drawn, 0.0)
    pairs = {"Spearman's correlations": lambda x: spearmanr(x).statistic, "latent correlations": latent}
    columns = zip(table.T, drawn.T, strict=True)
    return {
        "columns": float(np.mean([ks_2samp(seen, new).statistic for seen, new in columns])),
        "zeros": float(np.abs((table <= 0.0).mean(axis=0) - (drawn <= 0.0).mean(axis=0)).mean()),
        **{name: float(np.abs(of(table) - of(drawn))[upper].mean()) for name, of in pairs.items()},
    }


def best(found: dict[str, dict[str, float]], quantity: str) -> float:
    """Copulas' smaller difference: fitted to the values or to their logarithms."""
    return min(of[quantity] for tool, of in found.items() if tool != "unrelu")


def compare(name: str, file: str, drawn: int, python: str | None) -> list[Claim]:
    table = numbers(file)
    if table is None:
        return []
    found = {"unrelu": differences(table, ours(table, drawn))}
    if python is not None:
        raw, logs = answer(python, f"DRAWN = {drawn}\n{COPULAS}", [table, np.log1p(table)])
        found |= {"Copulas": differences(table, raw), "Copulas, log(1 + x)": differences(table, np.expm1(logs))}
    quantities = list(found["unrelu"])
    rows = [[tool, *(f"{of[quantity]:.4f}" for quantity in quantities)] for tool, of in found.items()]
    size = f"{len(table):,} x {table.shape[1]}"
    show(f"{name} ({size}): differences of synthetic tables from the real one", ["", *quantities], rows)
    if python is None:
        return []
    pair = [(q, found["unrelu"][q], best(found, q)) for q in quantities]
    return print_claims(
        *(
            Claim(f"{name}, {q}: ours / Copulas' better one", a / b, 1.0, note=f"{a:.4f} against {b:.4f}")
            for q, a, b in pair
        )
    )


def run(most: int = 10**9) -> list[Claim]:
    python = python_for("copulas", "UNRELU_COPULAS")
    if python is None:
        print("Without Copulas only our own differences are shown.", file=sys.stderr)
    return [claim for name, (file, drawn) in FILES.items() for claim in compare(name, file, min(drawn, most), python)]
