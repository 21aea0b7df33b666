"""Alternatives of a user: fresh rows rebuilt, and the weights A2 after matching.

Successive projection and NMF get p and rebuild a row from p numbers; NMF with q, the autoencoder and unrelu from
q. The autoencoder is scikit-learn's MLPRegressor x -> (d, q, p) -> x, cut off at 0: its last layer stands for A2. With
ReLU, which it has at its q inputs too, some of them are lost; tanh rebuilds better.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from benchmarks.generators.networks import SIZES, Rows
from benchmarks.generators.recovered import THREADS, Recovered, of_first_size
from benchmarks.rivals.layers import successive_projection, worst_sine
from benchmarks.studies import print_claims, show
from benchmarks.table import Claim
from unrelu.contracts import FloatArray

SEEDS, FRESH = 3, 2000
MINUTES, TRIAL = 10.0, 0.2  # of the autoencoder: in the whole study, and where there are fewer draws
_STARTS, _EPOCHS, _STEP = 4, 5, 2e-3  # of the autoencoder; epochs between readings of the clock


class Rival(NamedTuple):
    """Weights d x p, how rows are rebuilt, and seconds."""

    weights: FloatArray | None
    rebuild: Callable[[FloatArray], FloatArray]
    seconds: float


def run(most: int = 10**9) -> list[Claim]:
    minutes = MINUTES if most >= SEEDS else TRIAL
    rows, claims = [], []
    for seed in range(min(SEEDS, most)):
        fit = of_first_size(seed)
        fresh = fit.truth.network.rows(FRESH, seed, 5).X
        outputs = np.ones(fresh.shape[1], dtype=bool) if fit.parts is None or not fit.complete else fit.parts.identified
        rebuilt, sine = rebuilt_rows(fit, fresh), fit.sine
        ours, everywhere = relative_error(rebuilt[:, outputs], fresh[:, outputs]), relative_error(rebuilt, fresh)
        note = f"{outputs.sum()} outputs with weights; {everywhere:.2g} with the others as their mean; {fit.words}"
        rows.append([f"{seed}", "unrelu", f"{SIZES[0].q}", f"{ours:.1e}", "1", f"{sine:.1e}", f"{fit.seconds:.0f}"])
        claims.append(Claim(f"relative error of fresh rows, {SIZES[0]}, seed {seed}", ours, note=note))
        for name, numbers, rival in rivals_of(fit.truth, minutes if seed == 0 else None):
            error = relative_error(rival.rebuild(fresh)[:, outputs], fresh[:, outputs])
            off = "" if rival.weights is None else f"{worst_sine(rival.weights, fit.truth.network.A2):.2f}"
            rows.append(
                [f"{seed}", name, f"{numbers}", f"{error:.1e}", f"{error / ours:.1e}", off, f"{rival.seconds:.0f}"]
            )
            claims.append(Claim(f"  {name}'s / ours", error / ours, note=f"{error:.3g}; weights' worst sine {off}"))
    header = ["seed", "", "numbers a row", "error of fresh rows", "/ unrelu's", "weights' worst sine", "s"]
    show(f"{SIZES[0]}, {FRESH:,} fresh rows", header, rows)
    return print_claims(*claims)


def rivals_of(truth: Rows, minutes: float | None) -> list[tuple[str, int, Rival]]:
    """Name, numbers kept of a row, rival; the autoencoder where minutes are given."""
    (p, q), X = truth.network.A1.shape, truth.X
    with threadpool_limits(THREADS):
        found = [
            ("successive projection", p, projection(X, p)),
            (f"NMF, {p} components", p, nmf(X, p)),
            (f"NMF, {q} components", q, nmf(X, q)),
        ]
        if minutes is not None:
            for word in ("relu", "tanh"):
                name = f"autoencoder, {word}, {minutes:g} minutes"
                found.append((name, q, autoencoder(X, p, q, 60.0 * minutes, word)))
    return found


# --- how well rows are rebuilt ----------------------------------------------------------------------


def relative_error(rebuilt: FloatArray, X: FloatArray) -> float:
    return float(np.linalg.norm(rebuilt - X) / np.linalg.norm(X))


def rebuilt_rows(fit: Recovered, fresh: FloatArray) -> FloatArray:
    """x -> z -> x; a value that is not determined is the mean of its column."""
    rebuilt = np.full_like(fresh, np.nan)
    if fit.complete:
        with threadpool_limits(THREADS):
            z = fit.model.transform(fresh)
            determined = np.isfinite(z).all(axis=1)
            rebuilt[determined] = fit.model.inverse_transform(z[determined])
    return np.where(np.isnan(rebuilt), fit.truth.X.mean(axis=0), rebuilt)


# --- rivals -----------------------------------------------------------------------------------------


def projection(X: FloatArray, p: int) -> Rival:
    """Rows that stand for single units; others are non-negative sums of them."""
    start = time.perf_counter()
    weights = successive_projection(X, p)
    seconds = time.perf_counter() - start
    return Rival(weights, lambda rows: np.array([nnls(weights, row)[0] for row in rows]) @ weights.T, seconds)


def nmf(X: FloatArray, components: int) -> Rival:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = NMF(components, init="nndsvda", tol=1e-6, max_iter=1000).fit(X)
    seconds = time.perf_counter() - start

    def rebuild(rows: FloatArray) -> FloatArray:
        return np.asarray(model.transform(rows) @ model.components_)

    return Rival(model.components_.T, rebuild, seconds)


def autoencoder(X: FloatArray, p: int, q: int, seconds: float, activation: str) -> Rival:
    """Adam from the best of a few starts (inputs that are off in every row never come back), its step falling to a
    hundredth as time runs out."""
    table = X / (scale := float(np.sqrt((X**2).mean())))
    start = time.perf_counter()
    trials = [_network(X.shape[1], p, q, activation, seed) for seed in range(_STARTS)]
    for trial in trials:
        _train(trial, table, 0.05 * seconds, last=1.0)
    best = min(trials, key=lambda trial: float(trial.loss_))
    _train(best, table, seconds - (time.perf_counter() - start), last=0.01)

    def rebuild(rows: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(scale * best.predict(rows / scale), 0.0))

    return Rival(best.coefs_[-1].T, rebuild, time.perf_counter() - start)


def _network(d: int, p: int, q: int, activation: str, seed: int) -> MLPRegressor:
    sizes = {"hidden_layer_sizes": (d, q, p), "activation": activation, "batch_size": 100}
    return MLPRegressor(**sizes, alpha=0.0, max_iter=_EPOCHS, tol=0.0, warm_start=True, random_state=seed)


def _train(model: MLPRegressor, table: FloatArray, seconds: float, last: float) -> None:
    """Rounds of a few epochs, with steps that fall to the share ``last`` of the first."""
    start = time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds or not hasattr(model, "coefs_"):
        model.set_params(learning_rate_init=_STEP * last ** min(spent / seconds, 1.0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(table, table)
