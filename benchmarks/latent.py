"""Latent vectors from corrupted outputs: accuracy, success, exactness, program (47), Theorem 4's rate, speed, priors.

    python -m benchmarks.latent                     every study; each prints a table and its claims
    python -m benchmarks.latent success rate        some of them
    python -m benchmarks.latent success --seeds 5   a trial: at most so many draws of each problem

Needs cvxpy and statsmodels: pip install "unrelu[benchmark]". Unless a study says otherwise k = 10, |c| = 1, A and b are
standard normal, w is normal with standard deviation .05. The oracle knows which entries are corrupted.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
from scipy import stats

import unrelu
from benchmarks.rivals.latent import (
    KINDS,
    NOISE,
    RIVALS,
    Problem,
    draw,
    lasso,
    oracle,
    robust,
    solve_by_cvxpy,
    tuned_lasso,
    unit,
)
from benchmarks.studies import command, print_claims, run_each, show
from benchmarks.table import Claim
from unrelu.errors import UnreluWarning
from unrelu.papers.guarantees import latent_recovery_bound, latent_recovery_rate, linear_image
from unrelu.recovery.latent_methods import penalty_rule, solve_lasso

K = 10
BIASES = stats.norm(0.0, 1.0)
DELTA = 5.0 * NOISE  # |w|_inf stays below, but for one draw in many
NEAR_ONE = 0.15
Method: TypeAlias = Callable[[Problem], np.ndarray]


def run(names: Sequence[str] = (), most: int = 10**9) -> list[Claim]:
    """The studies of these names, all without any; ``most`` draws of each problem."""
    robust(draw(100, K, "gaussian", 10, 0))  # compiles
    return run_each("latent", STUDIES, names, most)


# --- how well ---------------------------------------------------------------------------------------


def accuracy(most: int) -> list[Claim]:
    """d=200, one entry in five 10 N(0,1) off: the median of |c^ - c| and the time of one vector."""
    problems = [draw(200, K, "gaussian", 40, seed) for seed in range(min(200, most))]
    methods = {
        "unrelu robust": robust,
        "unrelu lasso, Theorem 4's lambda": lasso,
        "unrelu lasso, intercept, small lambda": tuned_lasso,
        "oracle": oracle,
        **RIVALS,
    }
    errors, times = _measure(methods, problems)
    medians = {name: float(np.median(found)) for name, found in errors.items()}
    best = min(RIVALS, key=medians.__getitem__)
    rows = [
        [
            name,
            f"{medians[name]:.4f}",
            f"{errors[name].max():.4f}",
            f"{medians[name] / medians['oracle']:.3f}",
            f"{medians[name] / medians[best]:.3f}",
            f"{times[name]:.1f}",
        ]
        for name in methods
    ]
    show(
        f"d=200, 20 % gaussian, {len(problems)} draws",
        ["", "median error", "largest", "/ oracle", "/ best rival", "ms"],
        rows,
    )
    note = ", ".join(f"{name} {medians[name]:.4f}" for name in ("oracle", best))
    return print_claims(
        Claim("median |c^ - c|, d=200, 20 % gaussian, robust", medians["unrelu robust"], most=0.018, note=note),
        Claim(
            "  / oracle's median",
            medians["unrelu robust"] / medians["oracle"],
            most=1.03,
            note=f"standard error {_ratio_error(errors['unrelu robust'], errors['oracle']):.3f}; {len(problems)} draws",
        ),
        Claim("  / best rival", medians["unrelu robust"] / medians[best]),
        Claim("  ms for one vector", times["unrelu robust"]),
    )


def _ratio_error(one: np.ndarray, other: np.ndarray) -> float:
    """Standard error of the ratio of two medians over the same draws, by the bootstrap."""
    picks = np.random.default_rng(0).integers(len(one), size=(1000, len(one)))
    return float(np.std(np.median(one[picks], axis=1) / np.median(other[picks], axis=1)))


def success(most: int) -> list[Claim]:
    """Two entries in five are outliers: how often |c^ - c| < 3 x the oracle's error in the same draw; beside it, how
    often it is less than 3 x the oracle's median error over the draws."""
    cells = [(100, "gaussian", 0.92), (100, "one-sided", 0.92), (100, "structured", 0.92), (50, "gaussian", 0.8)]
    names = ("statsmodels RLM Tukey, v > tau", "scipy least_squares Cauchy")
    methods = {"unrelu robust": robust, **{name: RIVALS[name] for name in names}}
    rows, claims = [], []
    for d, kind, least in cells:
        problems = [draw(d, K, kind, round(0.4 * d), seed) for seed in range(min(100, most))]
        errors, _ = _measure({**methods, "oracle": oracle}, problems)
        typical = float(np.median(errors["oracle"]))
        shares = {name: float((found < 3.0 * errors["oracle"]).mean()) for name, found in errors.items()}
        by_median = {name: float((found < 3.0 * typical).mean()) for name, found in errors.items()}
        best = max(names, key=shares.__getitem__)
        rows += [
            [
                f"d={d} {kind}",
                name,
                f"{shares[name]:.2f}",
                f"{by_median[name]:.2f}",
                f"{np.median(errors[name]):.4f}",
                f"{np.median(errors[name]) / typical:.2f}",
                f"{shares[name] / shares[best]:.2f}" if shares[best] else "inf",
            ]
            for name in (*methods, "oracle")
        ]
        spread = math.sqrt(shares["unrelu robust"] * (1.0 - shares["unrelu robust"]) / len(problems))
        note = f"standard error {spread:.3f}; {best} {shares[best]:.2f}; by the median {by_median['unrelu robust']:.2f}"
        claims.append(
            Claim(f"success, d={d}, 40 % {kind}, robust", shares["unrelu robust"], least=least, note=note),
        )
    header = ["", "", "success", "by the median", "median error", "/ oracle", "success / best rival's"]
    show(f"k={K}, 40 % outliers, {min(100, most)} draws each", header, rows)
    return print_claims(*claims)


def exact(most: int) -> list[Claim]:
    """No noise, one-sided outliers: the share of draws with |c^ - c| < 1e-6."""
    rows, shares = [], []
    for d in (100, 200):
        for share in (0.1, 0.2, 0.3, 0.4):
            problems = [draw(d, K, "one-sided", round(share * d), seed, noise=0.0) for seed in range(min(50, most))]
            errors = _measure({"": robust}, problems)[0][""]
            shares.append(float((errors < 1e-6).mean()))
            rows.append([f"{d}", f"{100 * share:.0f} %", f"{shares[-1]:.2f}", f"{errors.max():.1e}"])
    show(f"no noise, one-sided, {min(50, most)} draws each", ["d", "outliers", "exact", "largest error"], rows)
    return print_claims(
        Claim("share with error < 1e-6, no noise, least of d=100, 200 x 10 to 40 %", min(shares), least=1.0)
    )


def _measure(methods: dict[str, Method], problems: Sequence[Problem]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Errors, and the median time in milliseconds."""
    errors: dict[str, np.ndarray] = {}
    times: dict[str, float] = {}
    for name, method in methods.items():
        found, taken = [], []
        for problem in problems:
            start = time.perf_counter()
            c = method(problem)
            taken.append(time.perf_counter() - start)
            found.append(problem.error(c))
        errors[name], times[name] = np.array(found), 1e3 * float(np.median(taken))
    return errors, times


# --- program (47) and Theorem 4 ---------------------------------------------------------------------


def program(most: int) -> list[Claim]:
    """Program (47) by unrelu and by cvxpy: Theorem 4's lambda, and a tenth of it, which makes many entries outliers."""
    latent, outliers, rows = [], [], []
    for seed in range(min(10, most)):
        d, kind, tenth = (100, 200, 400)[seed % 3], KINDS[seed % 3], seed % 2 == 1
        problem = draw(d, K, kind, d // 5, seed)
        penalty = penalty_rule(problem.b, 1.0, DELTA) * (0.1 if tenth else 1.0)
        for intercept in (False, True):
            c, e = solve_by_cvxpy(problem.A, problem.v, penalty, intercept)
            found, sparse, _ = solve_lasso(problem.A, problem.v, penalty, intercept)
            latent.append(float(np.abs(c - found).max()))
            outliers.append(float(np.abs(e - sparse).max()))
            rows.append(
                [
                    f"d={d} {kind}",
                    f"{penalty:.4f}",
                    "yes" if intercept else "no",
                    f"{(sparse != 0.0).sum()}",
                    f"{latent[-1]:.1e}",
                    f"{outliers[-1]:.1e}",
                ]
            )
    header = ["", "lambda", "intercept", "nonzero e", "difference of c", "of e"]
    show("program (47), unrelu against cvxpy with CLARABEL", header, rows)
    return print_claims(
        Claim("program (47), largest difference of c from cvxpy's", max(latent), most=1e-6),
        Claim("  of e", max(outliers), most=1e-6),
    )


def rate(most: int) -> list[Claim]:
    """Theorem 4: |mu c - c^| + |e - e^|/sqrt(d), c^ and e^ by (47) with the theorem's lambda, against the rate
    max( sqrt(k log k / d), sqrt(s log d / d) ) of (49) and the bound (66) that it abbreviates.

    Means over 20 draws. Slopes are those of the logarithm of the error on the logarithm of the rate. Without outliers
    the first term dominates and e^ is nearly 0; from s = 3 on the second does, and the error is that of e^, which
    misses every large outlier by d lambda. Beside it |c^ - c| of the robust method: 5 draws, k up to 40.
    """
    growths = {
        "d": [(250 * 2**j, K, 0) for j in range(7)],
        "k": [(8000, 5 * 2**j, 0) for j in range(6)],
        "s": [(4000, K, 4 * 2**j) for j in range(8)],
    }
    mu = linear_image(BIASES)[0]
    claims = []
    for what, cells in growths.items():
        rows, errors, rates, bounds, robusts = [], [], [], [], []
        for d, k, s in cells:
            problems = [draw(d, k, "gaussian", s, seed) for seed in range(min(20, most))]
            bound = latent_recovery_bound(BIASES, d, k, s, DELTA)
            parts = np.array([_parts(problem, bound.lambda_, mu) for problem in problems]).mean(axis=0)
            errors.append(float(parts.sum()))
            rates.append(latent_recovery_rate(d, k, s))
            bounds.append(bound.bound)
            if k <= 40:
                robusts.append(float(np.mean([problem.error(robust(problem)) for problem in problems[:5]])))
            rows.append(
                [
                    *(f"{size}" for size in (d, k, s)),
                    *(f"{part:.4f}" for part in parts),
                    f"{errors[-1]:.4f}",
                    f"{rates[-1]:.4f}",
                    f"{errors[-1] / rates[-1]:.3f}",
                    "k log k" if bound.latent_term >= bound.outlier_term else "s log d",
                    f"{bound.bound / errors[-1]:.0f}",
                    f"{robusts[-1]:.5f}" if k <= 40 else "",
                ]
            )
        header = ["d", "k", "s", "|c^ - mu c|", "|e^ - e|/sqrt(d)", "sum", "rate", "sum / rate", "leading"]
        show(f"Theorem 4, {what} grows (mu = {mu:.3f})", [*header, "bound / sum", "robust |c^ - c|"], rows)
        claims += _slopes(what, errors, rates, bounds, robusts)
    return print_claims(*claims)


def _parts(problem: Problem, penalty: float, mu: float) -> tuple[float, float]:
    """(49)'s left side."""
    found, sparse, _ = solve_lasso(problem.A, problem.v, penalty, intercept=False)
    outliers = float(np.linalg.norm(sparse - problem.e)) / math.sqrt(len(problem.e))
    return float(np.linalg.norm(found - mu * problem.c)), outliers


def _slopes(
    what: str, errors: list[float], rates: list[float], bounds: list[float], robusts: list[float]
) -> list[Claim]:
    """(49) is an upper bound with a log k that the layer's own part of (66) has not: as k grows the error may well grow
    more slowly than (49)'s rate, so that only (66)'s is claimed there."""

    def slope(of: list[float], on: list[float]) -> float:
        return float(np.polyfit(np.log(on[: len(of)]), np.log(of), 1)[0])

    low, high = 1.0 - NEAR_ONE, 1.0 + NEAR_ONE
    on_rate = Claim("  on (49)'s rate", slope(errors, rates), high, low)
    if what == "k":
        on_rate = replace(on_rate, most=None, least=None, note="an upper bound with a log k that (66) has not")
    return [
        Claim(f"slope of (47)'s error on the bound (66), {what} grows", slope(errors, bounds), high, low),
        on_rate,
        Claim("  of the robust |c^ - c| on (49)'s rate", slope(robusts, rates), note="no theorem"),
    ]


# --- many vectors, and priors -----------------------------------------------------------------------


def batch(most: int) -> list[Claim]:
    """A thousand vectors of one layer, d=200, one entry in five an outlier, on all cores."""
    n, d = min(1000, most), 200
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((d, K)), rng.standard_normal(d)
    C = np.stack([unit(rng, K) for _ in range(n)])
    E = np.zeros((n, d))
    for row in E:
        row[rng.choice(d, d // 5, replace=False)] = 10.0 * rng.standard_normal(d // 5)
    V = np.maximum(C @ A.T + b, 0.0) + E + NOISE * rng.standard_normal((n, d))
    start, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        results = unrelu.ReLULatentRecovery(A, b).recover(V)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    errors = np.linalg.norm([result.latent for result in results] - C, axis=1)
    problems = [Problem(A, b, c, v, e) for c, v, e in zip(C, V, E, strict=True)]
    typical = float(np.median([problem.error(oracle(problem)) for problem in problems]))
    rows = [
        ["seconds", f"{seconds:.2f}"],
        ["seconds of processor time, all cores together", f"{used:.2f}"],
        ["ms a vector", f"{1e3 * seconds / n:.2f}"],
        ["median error / oracle's", f"{np.median(errors) / typical:.3f}"],
        ["share of errors < 3 x the oracle's median", f"{(errors < 3.0 * typical).mean():.3f}"],
    ]
    show(f"{n} vectors, d={d}, 20 % gaussian", ["", "robust"], rows)
    return print_claims(
        Claim(
            f"seconds, {n} vectors, d={d}, k={K}, 20 % outliers",
            seconds,
            most=10.0,
            note=f"{used:.1f} s of processor time",
        )
    )


def priors(most: int) -> list[Claim]:
    """d=30, one entry in five 10 N(0,1) off, c as the prior says: |c^ - c| with and without it."""

    def sparse(rng: np.random.Generator) -> np.ndarray:
        c = np.zeros(K)
        c[rng.choice(K, 2, replace=False)] = rng.standard_normal(2)
        return c

    distributions: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
        "gaussian": lambda rng: rng.standard_normal(K),
        "sparse": sparse,
        "nonnegative": lambda rng: np.abs(rng.standard_normal(K)),
    }
    rows, claims = [], []
    for prior, distribution in distributions.items():
        problems = [
            draw(30, K, "gaussian", 6, seed, c=distribution(np.random.default_rng([seed, 7])))
            for seed in range(min(100, most))
        ]
        methods = {"without": robust, "with": partial(robust, prior=prior), "oracle": oracle}
        errors = _measure(methods, problems)[0]
        for what, level in (("median", 0.5), ("90 % quantile", 0.9)):
            found = {name: float(np.quantile(errors[name], level)) for name in methods}
            ratio = found["with"] / found["without"]
            rows.append([prior, what, *(f"{found[name]:.4f}" for name in methods), f"{ratio:.3f}"])
            name = f"{what} of errors with / without the prior, d=30, {prior}"
            # Where c's error is far below 1, N(0, I) carries little information: it helps in the bad draws.
            informs = prior == "gaussian" and level == 0.5
            claims.append(Claim(name, ratio, most=None if informs else 0.9999))
    header = ["c", "error", "without", "with", "oracle without", "with / without"]
    show(f"priors that are true, d=30, 20 % gaussian, {min(100, most)} draws each", header, rows)
    return print_claims(*claims)


# --- printing ---------------------------------------------------------------------------------------


STUDIES: dict[str, Callable[[int], list[Claim]]] = {
    "accuracy": accuracy,
    "success": success,
    "exact": exact,
    "program": program,
    "rate": rate,
    "batch": batch,
    "priors": priors,
}


if __name__ == "__main__":
    sys.exit(command("latent", STUDIES, run))
