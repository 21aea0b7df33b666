"""Correlations from columns of unknown margin.

The oracle has the true margins: one pass over the latent table. Spearman's and Kendall's bridges, 2 sin(pi rho/6) and
sin(pi tau/2), are those of a table without floors: they ignore the floor and its ties. latentcor has Kendall's bridge
for columns cut off at 0. Ratios are paired: both methods see the same tables; their noise is a bootstrap's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.stats import kendalltau, spearmanr

import unrelu
from benchmarks.margins.tables import MARGINS, D, Table, draw
from benchmarks.rivals.other_python import answer, python_for
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

REPETITIONS = {500: 150, 5000: 60}
LATENTCOR_TABLES = {"approx": {500: 40, 5000: 20}, "original": {500: 3, 5000: 3}}  # the latter takes a minute each
UPPER = np.triu_indices(D, 1)
MIX = "a mix of them"
LATENTCOR = """
from latentcor import latentcor
def solve(table):
    return latentcor(table, tps=["tru"] * table.shape[1], method=METHOD, showplot=False)["R"].to_numpy()
"""


def learn(x: FloatArray, floor: FloatArray, margin: str) -> tuple[FloatArray, FloatArray]:
    """Correlations and their standard errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = unrelu.RectifiedGaussianLearner(floor=floor, margins=margin).fit(x)
    return learner.correlation_[UPPER], learner.correlation_stderr_[UPPER]


def kendall(x: FloatArray) -> FloatArray:
    tau = [kendalltau(x[:, i], x[:, j]).statistic for i, j in zip(*UPPER, strict=True)]
    return np.sin(0.5 * np.pi * np.array(tau))


RANKED: dict[str, Callable[[FloatArray], FloatArray]] = {  # the same whatever the margins
    "Spearman's bridge": lambda x: 2.0 * np.sin(np.pi / 6.0 * spearmanr(x).statistic[UPPER]),
    "Kendall's bridge": kendall,
}


def rmse(errors: list[FloatArray]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def noise(errors: list[FloatArray], others: list[FloatArray]) -> float:
    """Standard error of the ratio of their root mean squares, by 200 bootstraps of the tables."""
    ours, theirs = (np.mean(np.square(each), axis=1) for each in (errors, others))
    picks = np.random.default_rng(0).integers(len(ours), size=(200, len(ours)))
    return float(np.std(np.sqrt(ours[picks].mean(axis=1) / theirs[picks].mean(axis=1))))


def names_of(margin: str) -> list[str]:
    kinds = list(MARGINS)
    return [kinds[j % len(kinds)] for j in range(D)] if margin == MIX else [margin] * D


class Study:
    """Errors of every method on the tables of one margin and size, and squared z-scores of ours."""

    def __init__(self, margin: str, tables: list[Table], oracle: list[FloatArray]) -> None:
        self.margin, self.tables, self.oracle = margin, tables, oracle
        self.errors: dict[str, list[FloatArray]] = {}
        self.squared_z: dict[str, list[FloatArray]] = {}
        for table in tables:
            x, floor = table.with_margins(names_of(margin))
            truth = table.correlation[UPPER]
            for kind in ("monotone", "auto", "normal"):
                estimate, stderr = learn(x, floor, kind)
                self.errors.setdefault(kind, []).append(estimate - truth)
                self.squared_z.setdefault(kind, []).append(((estimate - truth) / stderr) ** 2)
            self.errors.setdefault("np.corrcoef", []).append(np.corrcoef(x, rowvar=False)[UPPER] - truth)

    def claims(self, n: int) -> list[Claim]:
        here = f"{self.margin}, n={n:,}"
        margins = ("monotone", "auto") if self.margin == MIX else ("monotone",)
        claims = []
        for margin in margins:
            found, z = self.errors[margin], float(np.mean(self.squared_z[margin]))
            note = f"{rmse(found):.4f}; noise of the ratio {noise(found, self.oracle):.4f}, {len(found)} tables"
            most = 1.05 if margin == "auto" else 1.03
            name = f"correlation RMSE of {margin!r} / of the oracle, {here}"
            claims.append(Claim(name, rmse(found) / rmse(self.oracle), most, note=note))
            claims.append(Claim("  mean squared z", z, 1.1, 0.9))
        return claims


def latentcor_rows(tables: list[Table], oracle: list[FloatArray], n: int, width: int) -> list[list[str]]:
    """On the first tables, whatever their margins: it sees ranks alone, with floored values as 0."""
    python = python_for("latentcor", "UNRELU_LATENTCOR")
    rows = []
    for method, counts in LATENTCOR_TABLES.items() if python else ():
        some = tables[: counts[n]]
        code = f"METHOD = {method!r}\n{LATENTCOR}"
        found = answer(str(python), code, [table.latent - table.level for table in some])
        errors = [estimate[UPPER] - table.correlation[UPPER] for estimate, table in zip(found, some, strict=True)]
        rows.append([f"latentcor {method!r}, {len(some)} tables", *[f"{rmse(errors):.4f}"] * width])
        rows.append(["  the oracle on these", *[f"{rmse(oracle[: len(some)]):.4f}"] * width])
    return rows


def run(most: int = 10**9) -> list[Claim]:
    claims: list[Claim] = []
    for n, repetitions in REPETITIONS.items():
        tables = [draw(n, seed) for seed in range(min(repetitions, most))]
        oracle = [learn(table.latent, table.level, "normal")[0] - table.correlation[UPPER] for table in tables]
        studies = [Study(margin, tables, oracle) for margin in (*MARGINS, MIX)]
        rows = [["oracle", *[f"{rmse(oracle):.4f}"] * len(studies)]]
        labels = {"monotone": "margins='monotone'", "auto": "margins='auto'", "normal": "one_pass on raw values"}
        for method in studies[0].errors:
            rows.append([labels.get(method, method), *(f"{rmse(study.errors[method]):.4f}" for study in studies)])
        for name, rival in RANKED.items():
            found = rmse([rival(table.latent) - table.correlation[UPPER] for table in tables])
            rows.append([name, *[f"{found:.4f}"] * len(studies)])
        rows += latentcor_rows(tables, oracle, n, len(studies))
        show(f"Correlation RMSE, d={D}, n={n:,}, {len(tables)} tables", ["", *(s.margin for s in studies)], rows)
        claims += print_claims(*(claim for study in studies for claim in study.claims(n)))
    return claims
