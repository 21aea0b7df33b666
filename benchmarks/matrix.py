"""Matrix recovery: exactness, gauges, noise, speed against published algorithms, scale, held-out pixels."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA

import unrelu
from benchmarks.held_out_pixels import compare
from benchmarks.rivals.a_nmd import ANMD
from benchmarks.rivals.ebcd import EBCD
from benchmarks.rivals.three_block import ThreeBlock
from benchmarks.table import Claim
from unrelu.errors import UnreluWarning
from unrelu.metrics import subspace_distance

SEEDS = range(20)
GAUGES = {"centered": 0.032, "orthogonal": 0.072, "bayes": 0.027}
PORTS = {"a_nmd": ANMD(), "three_block": ThreeBlock(), "ebcd": EBCD()}


@dataclass(frozen=True)
class Instance:
    """T = C A' + 1 b' with standard normal parts, and X = ReLU(T + noise)."""

    latent: np.ndarray
    loadings: np.ndarray
    bias: np.ndarray
    noise: np.ndarray

    @classmethod
    def draw(cls, n: int, d: int, k: int, seed: int, bias: bool = True, noise: float = 0.0) -> Instance:
        rng = np.random.default_rng(seed)
        latent, loadings = rng.standard_normal((n, k)), rng.standard_normal((d, k))
        offset = rng.standard_normal(d) if bias else np.zeros(d)
        return cls(latent, loadings, offset, noise * rng.standard_normal((n, d)) if noise else np.zeros((1, 1)))

    @property
    def low_rank(self) -> np.ndarray:
        return self.latent @ self.loadings.T

    @property
    def hidden(self) -> np.ndarray:
        return self.low_rank + self.bias

    @property
    def table(self) -> np.ndarray:
        return np.maximum(self.hidden + self.noise, 0.0)


def run() -> list[Claim]:
    _fit(unrelu.ReLUMatrixRecovery(3), Instance.draw(300, 40, 3, 99).table)  # compiles
    return [
        *exactness(5, 0.5),
        *exactness(20, 1.5),
        *gauges(),
        *noise(),
        *standard_errors(),
        *speed(),
        *scale(),
        *digits(),
    ]


def _fit(recovery: unrelu.ReLUMatrixRecovery, table: np.ndarray) -> tuple[unrelu.ReLUMatrixRecovery, float]:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        recovery.fit(table)
    return recovery, time.perf_counter() - start


def _error(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def exactness(k: int, seconds: float) -> list[Claim]:
    """Every seed: T and the column space on identifiable rows and columns; PCA and a port without a bias beside it."""
    errors, sines, times, weak = [], [], [], 0
    for seed in SEEDS:
        instance = Instance.draw(1000, 200, k, seed)
        recovery, took = _fit(unrelu.ReLUMatrixRecovery(k), instance.table)
        rows, columns = recovery.row_identifiable_, recovery.column_identifiable_
        weak += int((~columns).sum())
        part = np.ix_(rows, columns)
        errors.append(_error(recovery.hidden()[part], instance.hidden[part]))
        sines.append(subspace_distance(recovery.components_[:, columns].T, instance.loadings[columns]))
        times.append(took)
    what = f"n=1000, d=200, k={k}, worst of {len(SEEDS)} seeds"
    return [
        Claim(
            f"relative error of T, {what}", max(errors), most=1e-9, note=f"{weak} columns of {200 * len(SEEDS)} weak"
        ),
        Claim("  sine of the column space", max(sines), most=1e-9),
        Claim("  seconds", max(times), most=seconds, note=f"median {np.median(times):.3f}"),
        *_others(k),
    ]


def _others(k: int) -> list[Claim]:
    """Alternatives of a user, on the first seed."""
    instance = Instance.draw(1000, 200, k, 0)
    pca = PCA(k).fit(instance.table)
    port, took = _fit(unrelu.ReLUMatrixRecovery(k, ANMD(), max_iter=1000), instance.table)
    part = np.ix_(port.row_identifiable_, port.column_identifiable_)
    biasless, _ = _fit(unrelu.ReLUMatrixRecovery(k, ANMD(), "zero", max_iter=1000), instance.table)
    return [
        Claim("  sine by PCA of X", subspace_distance(pca.components_.T, instance.loadings)),
        Claim(
            "  error of T by A-NMD of rank k + 1",
            _error(port.hidden()[part], instance.hidden[part]),
            note=f"{took:.1f} s",
        ),
        Claim("  sine by A-NMD of rank k, without bias", subspace_distance(biasless.components_.T, instance.loadings)),
    ]


def gauges() -> list[Claim]:
    """The error of M = C A' under each convention for b, T being exact: the mean over seeds."""
    errors: dict[str, list[float]] = {gauge: [] for gauge in (*GAUGES, "zero")}
    for seed in SEEDS:
        instance = Instance.draw(1000, 200, 5, seed)
        for gauge, found in errors.items():
            recovery, _ = _fit(unrelu.ReLUMatrixRecovery(6 if gauge == "zero" else 5, gauge=gauge), instance.table)
            columns = recovery.column_identifiable_
            low_rank = recovery.latent_ @ recovery.components_[:, columns]
            found.append(_error(low_rank, instance.low_rank[:, columns]))
    return [
        Claim(
            f"relative error of M, gauge {gauge}",
            float(np.mean(found)),
            most=GAUGES.get(gauge, 0.45),
            note=f"mean of {len(found)}, standard error {np.std(found, ddof=1) / len(found) ** 0.5:.4f}",
        )
        for gauge, found in errors.items()
    ]


def noise() -> list[Claim]:
    """Noise of standard deviation 1 inside the rectifier, beside the rank-k fit of the unrectified table."""
    tobit, least_squares, oracle, spread, times = [], [], [], [], []
    for seed in range(10):
        instance = Instance.draw(1000, 200, 5, seed, noise=1.0)
        recovery, took = _fit(unrelu.ReLUMatrixRecovery(5, "tobit_em"), instance.table)
        tobit.append(_error(recovery.hidden(), instance.hidden))
        spread.append(recovery.noise_)
        times.append(took)
        least_squares.append(_error(_fit(unrelu.ReLUMatrixRecovery(5), instance.table)[0].hidden(), instance.hidden))
        seen = instance.hidden + instance.noise
        pca = PCA(5).fit(seen)
        oracle.append(_error(pca.inverse_transform(pca.transform(seen)), instance.hidden))
    return [
        Claim("relative error of T, noise 1 inside, tobit_em", float(np.mean(tobit)), most=0.10, note="mean of 10"),
        Claim("  worst seed", max(tobit), most=0.10, note=f"{np.median(times):.1f} s"),
        Claim("  censored_als", float(np.mean(least_squares))),
        Claim("  oracle: PCA of T + noise, unrectified", float(np.mean(oracle))),
        Claim("  learned noise", float(np.mean(spread)), least=0.98, most=1.02),
    ]


def standard_errors() -> list[Claim]:
    """Mean squared z of components and biases, the axes aligned with the true ones, where d is large against sqrt(n)
    and where it is not."""
    claims = []
    for n, d, k, spread, bound in ((400, 150, 5, 0.5, (0.9, 1.1)), (1500, 40, 3, 1.0, (None, None))):
        components, biases = [], []
        for seed in range(8):
            instance = Instance.draw(n, d, k, 0, noise=spread)
            inside = spread * np.random.default_rng(seed + 1).standard_normal((n, d))
            table = np.maximum(instance.hidden + inside, 0.0)
            recovery, _ = _fit(unrelu.ReLUMatrixRecovery(k, "tobit_em"), table)
            identified = recovery.column_identifiable_
            axes = np.linalg.lstsq(instance.loadings[identified], recovery.components_.T[identified])[0]
            shift = np.linalg.lstsq(instance.loadings[identified], (recovery.bias_ - instance.bias)[identified])[0]
            left = recovery.components_.T - instance.loadings @ axes
            components.append((left / recovery.components_stderr_.T)[identified])
            moved = recovery.bias_ - instance.bias - instance.loadings @ shift
            biases.append((moved / recovery.mean_stderr_)[identified])
        correction = d / (d - k)  # for the axes that were fitted
        what = f"n={n}, d={d}, k={k}, noise {spread:g}"
        for name, z in (("components", components), ("biases", biases)):
            figure = correction * float(np.mean(np.concatenate(z) ** 2))
            claims.append(Claim(f"mean squared z, {name}, {what}", figure, least=bound[0], most=bound[1]))
    return claims


def speed() -> list[Claim]:
    """1000 x 1000, rank 20, no bias, to a relative residual of 1e-9: the default against three published algorithms."""
    seconds: dict[str, list[float]] = {name: [] for name in ("censored_als", *PORTS)}
    residuals: dict[str, float] = dict.fromkeys(seconds, 0.0)
    for seed in range(3):
        table = Instance.draw(1000, 1000, 20, seed, bias=False).table
        for name in seconds:
            recovery = unrelu.ReLUMatrixRecovery(20, PORTS.get(name, name), "zero", tol=1e-9, max_iter=2000)
            recovery, took = _fit(recovery, table)
            seconds[name].append(took)
            residuals[name] = max(residuals[name], recovery.report_.residual)
    medians = {name: float(np.median(taken)) for name, taken in seconds.items()}
    fastest = min(PORTS, key=medians.__getitem__)
    note = ", ".join(f"{name} {medians[name]:.2f} s" for name in medians)
    return [
        Claim(
            "time / fastest port, 1000 x 1000, rank 20", medians["censored_als"] / medians[fastest], most=1.2, note=note
        ),
        Claim("  largest relative residual reached", max(residuals.values()), most=1e-9),
    ]


_SCALE = """
import json, sys, time, warnings
import numpy as np, scipy.sparse
import unrelu
warnings.simplefilter("ignore")
n, d, k, share = 100_000, 1_000, 10, 0.9
rng = np.random.default_rng(0)
C, A = rng.standard_normal((n, k)), rng.standard_normal((d, k))
b = -1.2815515655446004 * np.sqrt((A**2).sum(axis=1))
X = scipy.sparse.vstack(
    [scipy.sparse.csr_array(np.maximum(C[i : i + 5000] @ A.T + b, 0.0)) for i in range(0, n, 5000)]
).tocsr()
start = time.perf_counter()
recovery = unrelu.ReLUMatrixRecovery(k).fit(X)
seconds = time.perf_counter() - start
with open("/proc/self/status") as lines:
    peak = next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
rows = np.flatnonzero(recovery.row_identifiable_)[:5000]
T = C[rows] @ A.T + b
error = np.linalg.norm(recovery.latent_[rows] @ recovery.components_ + recovery.bias_ - T) / np.linalg.norm(T)
print(json.dumps([X.nnz / n / d, seconds, peak, error, recovery.report_.iterations, recovery.report_.residual]))
"""


def scale() -> list[Claim]:
    """A sparse table of a hundred million cells, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", _SCALE], check=True, capture_output=True, text=True)
    share, seconds, peak, error, iterations, residual = json.loads(done.stdout)
    what = f"n=100,000, d=1,000, k=10, {100 * (1 - share):.0f} % zeros, sparse"
    return [
        Claim(
            f"minutes, {what}", seconds / 60, most=3.0, note=f"{iterations} iterations to a residual of {residual:.1e}"
        ),
        Claim("  peak memory, GiB", peak / 2**30, most=4.0),
        Claim("  relative error of T, identifiable rows", error, most=1e-8),
    ]


def digits() -> list[Claim]:
    """Hidden pixels of handwritten digits: the floor against PCA and NMF of the same rank."""
    runs = [compare(seed).errors() for seed in range(3)]
    means = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    best = min(means["PCA"], means["NMF"])
    ratios = [means[name] / best for name in ("floor modelled", "floor and noise")]
    return [
        Claim("digits, held-out error / best of PCA and NMF", ratios[0], most=0.9999, note=_listing(means)),
        Claim("  the same by tobit_em", ratios[1], most=0.9999),
    ]


def _listing(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {figure:.4f}" for name, figure in figures.items())
