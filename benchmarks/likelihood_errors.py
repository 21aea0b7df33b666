"""Standard errors of the full likelihood: beside the scatter of its estimates over tables of the model, and beside a
bootstrap of the rows where tails are heavier.

Columns have correlations of .5 and the same share of their cells floored. "Contaminated": one row in ten has three
times the spread; "t5": Student's t, 5 degrees of freedom. Figures are root mean squares over the columns, or over the
pairs, of a typical table: the median over tables.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from benchmarks.studies import command, run_each, show
from benchmarks.table import Claim
from unrelu import RectifiedGaussianLearner

R, LEVEL = 0.5, 0.95
SHARES = (0.2, 0.5, 0.8)
TABLES = {(3, 200): 1000, (3, 1000): 600, (8, 200): 400, (8, 1000): 250}
FACTORS = {(5, 200): 400}
TAILED, BOOTSTRAPS = 20, 60
QUANTITIES = ("mean", "std", "correlation")
CONTAMINATED, T5 = "contaminated", "t5"

Numbers = tuple[np.ndarray, ...]


def table(kind: str, n: int, d: int, share: float, seed: int) -> np.ndarray:
    """n rows whose columns have about this share of their cells at the floor 0."""
    rng = np.random.default_rng([seed, n, d, *kind.encode()])
    y = np.sqrt(R) * rng.standard_normal((n, 1)) + np.sqrt(1.0 - R) * rng.standard_normal((n, d))
    if kind == CONTAMINATED:
        y *= np.where(rng.random((n, 1)) < 0.1, 3.0, 1.0)
    elif kind == T5:
        y /= np.sqrt(rng.chisquare(5.0, (n, 1)) / 3.0)
    return np.maximum(y - ndtri(share), 0.0)


def fit(x: np.ndarray, n_components: int | None = None) -> RectifiedGaussianLearner:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns that are not normal
        return RectifiedGaussianLearner("full_likelihood", margins="normal", n_components=n_components).fit(x)


def estimates(learner: RectifiedGaussianLearner) -> Numbers:
    return learner.mean_, learner.std_, learner.correlation_[np.triu_indices(len(learner.mean_), 1)]


def errors(learner: RectifiedGaussianLearner) -> Numbers:
    upper = np.triu_indices(len(learner.mean_), 1)
    return learner.mean_stderr_, learner.std_stderr_, learner.correlation_stderr_[upper]


def coverage(learner: RectifiedGaussianLearner, truth: Numbers) -> np.ndarray:
    """Shares of means, standard deviations and correlations whose interval has the truth."""
    upper = np.triu_indices(len(learner.mean_), 1)
    found = learner.confidence_intervals(LEVEL)
    ends = found["mean"], found["std"], found["correlation"][upper]
    return np.array([np.mean((e[:, 0] <= t) & (t <= e[:, 1])) for e, t in zip(ends, truth, strict=True)])


def typical(values: list[Numbers], middle: Callable[..., np.ndarray]) -> np.ndarray:
    """Root mean square over columns of the middle (or spread) over tables, for each quantity."""
    return np.array([np.sqrt(np.mean(middle(np.array(each), axis=0) ** 2)) for each in zip(*values, strict=True)])


def scatter(values: np.ndarray, axis: int) -> np.ndarray:
    return np.std(values, axis=axis, ddof=1)


def of_the_model(sizes: dict[tuple[int, int], int], most: int, n_components: int | None = None) -> list[Claim]:
    claims, rows = [], []
    for (d, n), number in sizes.items():
        for share in SHARES:
            fits = [fit(table("normal", n, d, share, seed), n_components) for seed in range(min(number, most))]
            ratio = typical([errors(each) for each in fits], np.median) / typical([estimates(e) for e in fits], scatter)
            truth = np.full(d, -ndtri(share)), np.ones(d), np.full(d * (d - 1) // 2, R)
            inside = 100.0 * np.mean([coverage(each, truth) for each in fits], axis=0)
            where = f"d={d}, n={n}, {share:.0%} floored"
            for quantity, over, within in zip(QUANTITIES, ratio, inside, strict=True):
                name = f"full likelihood{'' if n_components is None else ', factors'}: {quantity}, {where}"
                claims.append(Claim(f"{name}: error over scatter", over, 1.05, 0.95, f"{len(fits)} tables"))
                claims.append(Claim(f"{name}: coverage of 95 % intervals (%)", within, 97.0, 93.0))
            rows.append([where, *(f"{each:.3f}" for each in ratio), *(f"{each:.1f}" for each in inside)])
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    show("errors over scatter, coverage (%) of 95 % intervals", ["table", *QUANTITIES, *QUANTITIES], rows)
    return claims


def tails(most: int) -> list[Claim]:
    """Beside a bootstrap of the rows, table by table."""
    claims, rows = [], []
    for kind in (CONTAMINATED, T5):
        for n in (200, 1000):
            for share in SHARES:
                ratios = []
                for seed in range(min(TAILED, most)):
                    x = table(kind, n, 3, share, seed)
                    rng = np.random.default_rng(seed)
                    again = [estimates(fit(x[rng.integers(n, size=n)])) for _ in range(BOOTSTRAPS)]
                    ratios.append(typical([errors(fit(x))], np.median) / typical(again, scatter))
                ratio, where = np.median(ratios, axis=0), f"{kind}, d=3, n={n}, {share:.0%} floored"
                for quantity, over in zip(QUANTITIES, ratio, strict=True):
                    name = f"full likelihood: {quantity}, {where}: error over a bootstrap's"
                    claims.append(Claim(name, over, 1.15, 0.85, f"{len(ratios)} tables"))
                rows.append([where, *(f"{each:.3f}" for each in ratio)])
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    show("errors over a bootstrap's", ["table", *QUANTITIES], rows)
    return claims


STUDIES = {
    "model": lambda most: of_the_model(TABLES, most),
    "factors": lambda most: of_the_model(FACTORS, most, 1),
    "tails": tails,
}


def run(chosen: tuple[str, ...] | list[str] = (), most: int = 10**9) -> list[Claim]:
    return run_each("likelihood_errors", STUDIES, chosen, most)


if __name__ == "__main__":
    sys.exit(command("likelihood_errors", STUDIES, run))
