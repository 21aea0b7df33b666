"""Do completed tables carry their uncertainty? Estimates from 20 draws, pooled by Rubin's rules: 95 % cover 95 %.

Tables of 100 rows of three normal columns, correlations .5, each floored at its 60 or 80 % quantile; the mean of a
column, its slopes on the two others and a correlation (on Fisher's scale). ``python -m benchmarks.rubin``.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.special import ndtri
from scipy.stats import t

from benchmarks.studies import show
from benchmarks.table import Claim
from unrelu import FloorImputer

TABLES, DRAWS, ROWS, R = 300, 20, 100, 0.5
TRUTH = np.array([0.0, R / (1.0 + R), R / (1.0 + R), np.arctanh(R)])
NAMES = ("mean", "slope", "other slope", "correlation")


def run(tables: int = TABLES) -> list[Claim]:
    claims, lines = [], []
    for share in (0.6, 0.8):
        found = {kind: coverage(share, tables, parameters=kind) for kind in ("drawn", "fitted")}
        for name in NAMES:
            lines.append([f"{share:.0%}", name, *(f"{100.0 * each[name]:.1f}" for each in found.values())])
            name_of_claim = f"coverage of pooled 95 % intervals (%), {name}, {share:.0%} floored"
            claims.append(Claim(name_of_claim, 100.0 * found["drawn"][name], 97.0, 93.0))
    show(f"coverage (%), {tables} tables", ["floored", "of", "parameters drawn", "fitted"], lines)
    return claims


def coverage(
    share: float, tables: int, method: str = "full_likelihood", parameters: str | None = None
) -> dict[str, float]:
    """The share of tables whose pooled intervals have the truth in them."""
    floor, covered = float(ndtri(share)), np.zeros(len(NAMES))
    for number in range(tables):
        rng = np.random.default_rng([number, round(100 * share)])
        X = np.maximum(rng.multivariate_normal(np.zeros(3), R + (1.0 - R) * np.eye(3), ROWS), floor)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few rows and rare values are under study
            imputer = FloorImputer(method, floor=floor, margins="normal").fit(X)
            found = [estimates(table) for table in imputer.draw(X, DRAWS, number, parameters=parameters)]
        mean, reach = pool(
            *(np.array(part) for part in zip(*found, strict=True)), np.array([ROWS - 1.0, *[ROWS - 3.0] * 3])
        )
        covered += np.abs(mean - TRUTH) <= reach
    return dict(zip(NAMES, (covered / tables).tolist(), strict=True))


def estimates(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(estimates, their variances) of a completed table, by the usual formulas."""
    n, y = len(table), table[:, 0]
    a = np.column_stack([np.ones(n), table[:, 1:]])
    inverse = np.linalg.inv(a.T @ a)
    slopes = inverse @ a.T @ y
    variance = np.sum((y - a @ slopes) ** 2) / (n - a.shape[1]) * np.diagonal(inverse)
    z = np.arctanh(np.corrcoef(y, table[:, 1])[0, 1])
    return np.array([y.mean(), *slopes[1:], z]), np.array([y.var(ddof=1) / n, *variance[1:], 1.0 / (n - 3.0)])


def pool(
    estimates: np.ndarray, variances: np.ndarray, complete_degrees: np.ndarray | float, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """(means, half widths of intervals) by Rubin's rules, with Barnard and Rubin's (1999) degrees of freedom."""
    m = len(estimates)
    between = (1.0 + 1.0 / m) * estimates.var(axis=0, ddof=1)
    total = variances.mean(axis=0) + between
    share = between / total
    observed = (complete_degrees + 1.0) / (complete_degrees + 3.0) * complete_degrees * (1.0 - share)
    degrees = 1.0 / (share**2 / (m - 1.0) + 1.0 / observed)
    return estimates.mean(axis=0), t.ppf(0.5 + 0.5 * level, degrees) * np.sqrt(total)


if __name__ == "__main__":
    sys.exit(1 if any(claim.holds is False for claim in run(*map(int, sys.argv[1:2]))) else 0)
