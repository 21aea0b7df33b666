"""Is the check of a fit right? False alarms on tables of the model, power on tables that are not of it.

Tables have 5 columns with random correlations, 40 % of every column floored. "Lognormal": x = exp(y/2) above the same
floor, y the latent normal. "Two groups": correlations of .8, those of the first column -.8 in half of the rows. Each is
checked with 99 simulated tables, so that p <= .05 has the chance .05 exactly if the table is like them.
"""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

from benchmarks.studies import command, run_each
from benchmarks.table import Claim
from unrelu import RectifiedGaussian, RectifiedGaussianLearner, synthetic
from unrelu.passes.engine import available_cores

D, FLOORED, SIMULATIONS, LEVEL = 5, 0.4, 99, 0.05
TABLES, TABLES_FOR_POWER = 400, 100
STRONG = 0.8
NORMAL, LOGNORMAL, TWO_GROUPS = "normal", "lognormal, sd .5", "two groups of rows"


def table(kind: str, n: int, seed: int) -> np.ndarray:
    """n rows, 40 % of each column at the floor 0."""
    rng = np.random.default_rng([seed, n, *kind.encode()])
    correlation = synthetic.random_model(D, random_state=rng).correlation
    if kind == TWO_GROUPS:
        correlation = np.full((D, D), STRONG) + (1.0 - STRONG) * np.eye(D)
    level = ndtri(FLOORED)
    y = RectifiedGaussian(np.zeros(D), correlation, -np.inf).sample(n, random_state=rng)
    if kind == TWO_GROUPS:  # every column is normal, and no pair with the first is
        y[: n // 2, 0] *= -1.0
    x = np.exp(0.5 * y) - np.exp(0.5 * level) if kind == LOGNORMAL else y - level
    return np.maximum(x, 0.0)


def p_values(seed: int, kind: str, n: int) -> tuple[float, float, float]:
    """p-values of the whole table, of its columns and of its pairs."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of skewness
        x = table(kind, n, seed)
        found = (
            RectifiedGaussianLearner("one_pass", margins="normal", random_state=seed)
            .fit(x)
            .check(x, n_simulations=SIMULATIONS)
        )
    return found.p_value, found.columns_p_value, found.pairs_p_value


def alarms(kind: str, n: int, tables: int) -> np.ndarray:
    """Shares of tables with p <= .05, in per cent: by the whole table, its columns, its pairs."""
    with ProcessPoolExecutor(available_cores()) as pool:
        found = list(pool.map(partial(p_values, kind=kind, n=n), range(tables), chunksize=5))
    return 100.0 * np.mean(np.array(found) <= LEVEL, axis=0)


def false_alarms(most: int) -> list[Claim]:
    claims = []
    for n in (500, 5000):
        tables = min(TABLES, most)
        whole, columns, pairs = alarms(NORMAL, n, tables)
        error = 100.0 * np.sqrt(LEVEL * (1.0 - LEVEL) / tables)
        note = f"{tables} tables, standard error {error:.1f}; columns {columns:.1f}, pairs {pairs:.1f}"
        claims.append(Claim(f"check: false alarms at 5 % (%), d={D}, n={n}", whole, 6.0, 4.0, note))
    return claims


def power(most: int) -> list[Claim]:
    tables = min(TABLES_FOR_POWER, most)
    claims = []
    for kind, least in ((LOGNORMAL, 90.0), (TWO_GROUPS, None)):
        whole, columns, pairs = alarms(kind, 500, tables)
        note = f"{tables} tables; columns {columns:.0f}, pairs {pairs:.0f}"
        claims.append(Claim(f"check: alarms at 5 % (%), {kind}, n=500, 40 % floored", whole, None, least, note))
    return claims


STUDIES = {"false_alarms": false_alarms, "power": power}


def run(chosen: tuple[str, ...] | list[str] = (), most: int = 10**9) -> list[Claim]:
    return run_each("checks", STUDIES, chosen, most)


if __name__ == "__main__":
    sys.exit(command("checks", STUDIES, run))
