"""Floored cells of a lognormal table beside the optimum and rivals; outlier rows; completed tables.

The error is the root mean square of log value - log truth over floored cells, over that of the posterior mean of log x
under the true parameters, which is the least possible. On that scale ours is the posterior mean of log x, imputed in
latent units; FloorImputer's own values are means of x, the best guesses of x itself: their logarithms are shown too.
Rivals are compared by the logarithm of the values that they fill in. With outliers only inlier rows count. Figures are
of all cells of all tables; noise is a bootstrap's over tables.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import unrelu
from benchmarks.margins.contaminated import KINDS
from benchmarks.posterior.rivals import RIVALS
from benchmarks.posterior.tables import QUANTILES, D, N, Table, lognormal, with_outliers
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

TABLES, TABLES_WITH_OUTLIERS, DRAWS = 40, 20, 3
MOST = {0.3: 1.01, 0.6: 1.02}
WITH_OUTLIERS = 1.05
ELSEWHERE = {  # R's packages on such tables, over the optimum at 30 and 60 %
    "mvnimpute": (1.006, 1.02),
    "cglasso": (1.03, 1.17),
    "zCompositions lrEM": (1.10, 1.43),
    "zCompositions multLN, robust": (1.14, 1.17),
    "zCompositions lrSVD": (1.7, 1.8),
}
UPPER = np.triu_indices(D, 1)


def imputer_of(table: Table, method: str) -> unrelu.FloorImputer:
    return unrelu.FloorImputer(method, floor=table.limit, margins="log").fit(table.x)


def log_means(imputer: unrelu.FloorImputer, x: FloatArray) -> FloatArray:
    """Posterior means of log x."""
    model = imputer.distribution_
    filled: FloatArray = model.latent.impute(model.to_latent(x), below="latent")
    return filled


def methods() -> list[str]:
    """Our methods: full likelihood where this version has it."""
    with_likelihood = hasattr(unrelu.methods, "FullLikelihood")
    return ["one_pass", *(["full_likelihood"] if with_likelihood else [])]


class Errors:
    """Squared errors of a method and of the optimum, a table each, and seconds."""

    def __init__(self) -> None:
        self.pairs: list[tuple[float, float]] = []
        self.seconds: list[float] = []

    def add(self, table: Table, fill: Callable[[], FloatArray]) -> None:
        start = time.perf_counter()
        logs = fill()
        self.seconds.append(time.perf_counter() - start)
        self.pairs.append(table.squared_errors(logs))

    @property
    def ratio(self) -> float:
        ours, best = np.mean(self.pairs, axis=0)
        return float(np.sqrt(ours / best))

    @property
    def noise(self) -> float:
        pairs = np.array(self.pairs)
        picks = np.random.default_rng(0).integers(len(pairs), size=(200, len(pairs)))
        ours, best = pairs[picks].mean(axis=1).T
        return float(np.std(np.sqrt(ours / best)))

    @property
    def row(self) -> list[str]:
        return [f"{self.ratio:.3f}", f"{self.noise:.3f}", f"{np.median(self.seconds):.3f}"]


def compare(tables: int) -> list[Claim]:
    found: dict[float, dict[str, Errors]] = {level: {} for level in QUANTILES}
    for level, errors in found.items():
        for seed in range(tables):
            table = lognormal(level, seed)
            for method in methods():
                at = errors.setdefault(f"FloorImputer, {method}", Errors())
                at.add(table, lambda table=table, method=method: log_means(imputer_of(table, method), table.x))  # type: ignore[misc]
            imputer = imputer_of(table, "one_pass")
            own = errors.setdefault("  log of its values, means of x", Errors())
            own.add(table, lambda table=table, imputer=imputer: np.log(imputer.transform(table.x)))  # type: ignore[misc]
            for name, fill in RIVALS.items():
                at = errors.setdefault(name, Errors())
                at.add(table, lambda table=table, fill=fill: fill(table.x, table.limit))  # type: ignore[misc]
    rows = [[name, *(cell for level in QUANTILES for cell in found[level][name].row)] for name in found[QUANTILES[0]]]
    rows += [[f"R: {name} (not run here)", f"{a:g}", "", "", f"{b:g}", "", ""] for name, (a, b) in ELSEWHERE.items()]
    header = [f"{level:.0%} {word}" if word else f"{level:.0%}" for level in QUANTILES for word in ("", "noise", "s")]
    show(f"Error of floored cells / of the optimum, {tables} lognormal tables of {N} x {D}", ["", *header], rows)
    claims = []
    for level, errors in found.items():
        for name, each in errors.items():
            ours = name.startswith("FloorImputer")
            note = f"noise {each.noise:.4f}, {np.median(each.seconds):.3f} s"
            label = f"RMSE of floored cells' logs / optimum, limits at the {level:.0%} quantile, {name.strip()}"
            claims.append(Claim(label, each.ratio, MOST[level] if ours else None, note=note))
    quick = {level: float(np.median(errors["FloorImputer, one_pass"].seconds)) for level, errors in found.items()}
    note = ", ".join(f"{value:.3f} s at {level:.0%}" for level, value in quick.items())
    return [*claims, Claim(f"seconds to fit and impute {N} x {D}, one_pass", max(quick.values()), 0.3, note=note)]


def with_outlier_rows(tables: int) -> list[Claim]:
    claims = []
    for level in QUANTILES:
        for kind, outliers in KINDS.items():
            errors = {"robust": Errors(), "one_pass": Errors(), "inlier rows alone": Errors()}
            for seed in range(tables):
                table = lognormal(level, seed)
                table = table if outliers is None else with_outliers(table, outliers, seed)
                for method, at in errors.items():
                    inliers_alone = method.startswith("inlier")
                    learned = replace(table, x=table.x[table.inlier]) if inliers_alone else table
                    by = "one_pass" if inliers_alone else method
                    at.add(table, lambda t=table, s=learned, by=by: log_means(imputer_of(s, by), t.x))  # type: ignore[misc]
            robust, others = errors["robust"], {name: each.ratio for name, each in errors.items() if name != "robust"}
            note = ", ".join(f"{name} {ratio:.3f}" for name, ratio in others.items())
            note += f"; noise {robust.noise:.4f}, {tables} tables, {np.median(robust.seconds):.2f} s"
            what = "no outliers" if outliers is None else f"10 % outlier rows: {kind}"
            name = f"RMSE / optimum, limits at the {level:.0%} quantile, {what}, method='robust'"
            claims.append(Claim(name, robust.ratio, WITH_OUTLIERS, note=note))
    return claims


def completed_tables(tables: int) -> list[Claim]:
    """Standard deviations and correlations of logarithms, of completed tables over the full table's."""
    claims = []
    for level in QUANTILES:
        ratios: dict[str, list[FloatArray]] = {"draws": [], "means": []}
        errors: dict[str, list[FloatArray]] = {"draws": [], "means": []}
        for seed in range(tables):
            table = lognormal(level, seed)
            imputer, full = imputer_of(table, "one_pass"), np.log(table.truth)
            filled = {
                "draws": np.log(imputer.draw(table.x, DRAWS, random_state=seed)),
                "means": log_means(imputer, table.x)[None],
            }
            for name, each in ((name, each) for name, several in filled.items() for each in several):
                ratios[name].append(each.std(axis=0) / full.std(axis=0))
                errors[name].append((np.corrcoef(each, rowvar=False) - np.corrcoef(full, rowvar=False))[UPPER])
        sd = {name: float(np.mean(each)) for name, each in ratios.items()}
        off = {name: float(np.sqrt(np.mean(np.square(each)))) for name, each in errors.items()}
        per_table = np.array(ratios["draws"]).reshape(tables, -1).mean(axis=1)
        most, least, furthest = (1.01, 0.99, 0.045) if level == QUANTILES[-1] else (None, None, None)
        noise = f"standard error {per_table.std() / np.sqrt(tables):.4f}"
        here = f"of completed tables, limits at the {level:.0%} quantile"
        claims += [
            Claim(f"sd / full table's, {here}", sd["draws"], most, least, note=f"means {sd['means']:.3f}; {noise}"),
            Claim(f"RMSE of correlations, {here}", off["draws"], furthest, note=f"means {off['means']:.4f}"),
        ]
    return claims


def run(most: int = 10**9) -> list[Claim]:
    tables = min(TABLES, most)
    imputer_of(lognormal(0.3, 0), "one_pass").draw(lognormal(0.3, 0).x)  # compiled or loaded from the cache
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of diagnostics about contaminated tables
        return print_claims(
            *compare(tables), *with_outlier_rows(min(tables, TABLES_WITH_OUTLIERS)), *completed_tables(tables)
        )
