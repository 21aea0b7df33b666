"""Problems of latent recovery, the oracle, and alternatives of a user (for benchmarks/latent.py).

Every rival is set up as well as the layer, |c| = 1 and the noise's standard deviation allow; unrelu's robust method
gets the layer alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.linear_model import HuberRegressor, LinearRegression, RANSACRegressor

import unrelu
from unrelu.errors import UnreluWarning

try:
    import cvxpy
    import statsmodels.api as statsmodels
except ImportError as error:
    raise ImportError(
        f"{error.name} is missing: benchmarks.latent compares with cvxpy and statsmodels. Install them with"
        ' pip install "unrelu[benchmark]".'
    ) from error

NOISE = 0.05
SIZE = 10.0  # of outliers
KINDS = ("gaussian", "one-sided", "structured")


@dataclass(frozen=True)
class Problem:
    """v = ReLU(A c + b) + e + w, and where e is not 0."""

    A: np.ndarray
    b: np.ndarray
    c: np.ndarray
    v: np.ndarray
    e: np.ndarray

    @property
    def clean(self) -> np.ndarray:
        return self.e == 0.0

    def error(self, found: np.ndarray) -> float:
        return float(np.linalg.norm(found - self.c))


def unit(rng: np.random.Generator, k: int) -> np.ndarray:
    c = rng.standard_normal(k)
    return c / np.linalg.norm(c)


def draw(
    d: int, k: int, kind: str, outliers: int, seed: int, noise: float = NOISE, c: np.ndarray | None = None
) -> Problem:
    """Standard normal A and b, |c| = 1 unless c is given. Outliers: 10 N(0,1) added ("gaussian"), its absolute value
    added ("one-sided"), or entries that another unit vector has put out ("structured")."""
    rng = np.random.default_rng([seed, d, k, outliers, KINDS.index(kind)])
    A, b, latent = rng.standard_normal((d, k)), rng.standard_normal(d), unit(rng, k)
    latent = latent if c is None else c
    e = np.zeros(d)
    hit = rng.choice(d, outliers, replace=False)
    y = np.maximum(A @ latent + b, 0.0)
    if kind == "structured":
        e[hit] = (np.maximum(A @ unit(rng, k) + b, 0.0) - y)[hit]  # 0 where both are off: such an entry is clean
    else:
        e[hit] = SIZE * rng.standard_normal(outliers)
        e = np.abs(e) if kind == "one-sided" else e
    return Problem(A, b, latent, y + e + noise * rng.standard_normal(d), e)


# --- the oracle and unrelu ------------------------------------------------------------------------


def oracle(problem: Problem) -> np.ndarray:
    """Least squares of v - ReLU(A c + b) on the clean entries, from the true c: solve on those that are on, while these
    change."""
    A, b, v = (part[problem.clean] for part in (problem.A, problem.b, problem.v))
    c, before = problem.c, None
    best, lowest = c, float(((v - np.maximum(A @ c + b, 0.0)) ** 2).sum())
    for _ in range(50):
        on = A @ c + b > 0.0
        if before is not None and (on == before).all():
            break
        c, before = np.linalg.lstsq(A[on], (v - b)[on])[0], on
        loss = float(((v - np.maximum(A @ c + b, 0.0)) ** 2).sum())
        if loss < lowest:
            best, lowest = c, loss
    return best


def recover(problem: Problem, method: object = "robust", prior: object = None) -> unrelu.recovery.LatentResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        return unrelu.recover_latent(problem.A, problem.b, problem.v, method, prior=prior)


def robust(problem: Problem, prior: object = None) -> np.ndarray:
    """c^ = 0 where unrelu refuses: too few entries are above the floor, or agree, to determine c."""
    try:
        return recover(problem, prior=prior).latent
    except unrelu.errors.InvalidDataError:
        return np.zeros_like(problem.c)


def lasso(problem: Problem) -> np.ndarray:
    """Program (47) and division by mu."""
    return recover(problem, unrelu.recovery.LatentLasso(noise_bound=4.0 * NOISE)).latent


def tuned_lasso(problem: Problem) -> np.ndarray:
    """The same with an intercept and the d lambda that is usual for Huber's loss: 1.345 standard deviations of what the
    linear fit leaves."""
    penalty = 1.345 * unrelu.guarantees.linear_image(problem.b)[1] / len(problem.b)
    return recover(problem, unrelu.recovery.LatentLasso(penalty, intercept=True)).latent


# --- rivals ---------------------------------------------------------------------------------------


def huber(problem: Problem) -> np.ndarray:
    """scikit-learn's Huber regression of v, less its mean given b, on A; divided by mu = mean of Phi(b)."""
    mean = problem.b * ndtr(problem.b) + norm.pdf(problem.b)
    fit = HuberRegressor(alpha=0.0, max_iter=1000).fit(problem.A, problem.v - mean)
    return fit.coef_ / ndtr(problem.b).mean()


def ransac(problem: Problem) -> np.ndarray:
    """scikit-learn's RANSAC on entries surely above the floor: v - b = A c there, but for outliers."""
    A, target = _above(problem)
    k = A.shape[1]
    fit = RANSACRegressor(
        LinearRegression(fit_intercept=False),
        min_samples=k,
        residual_threshold=3.0 * NOISE,
        max_trials=1000,
        random_state=0,
    )
    try:
        return fit.fit(A, target).estimator_.coef_
    except ValueError:  # no consensus
        return np.zeros(k)


def rlm(problem: Problem) -> np.ndarray:
    """statsmodels' M-estimate with Tukey's biweight, on the same entries."""
    A, target = _above(problem)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return statsmodels.RLM(target, A, M=statsmodels.robust.norms.TukeyBiweight()).fit(maxiter=200).params


def cauchy(problem: Problem) -> np.ndarray:
    """scipy's least squares of v - ReLU(A c + b) with Cauchy's loss, from the rescaled Huber fit."""

    def residual(c: np.ndarray) -> np.ndarray:
        return np.maximum(problem.A @ c + problem.b, 0.0) - problem.v

    def slope(c: np.ndarray) -> np.ndarray:
        return problem.A * (problem.A @ c + problem.b > 0.0)[:, None]

    return least_squares(residual, huber(problem), slope, loss="cauchy", f_scale=2.385 * NOISE).x


def _above(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    above = problem.v > 3.0 * NOISE
    return problem.A[above], (problem.v - problem.b)[above]


RIVALS: dict[str, Callable[[Problem], np.ndarray]] = {
    "scikit-learn Huber, linearised": huber,
    "scikit-learn RANSAC, v > tau": ransac,
    "statsmodels RLM Tukey, v > tau": rlm,
    "scipy least_squares Cauchy": cauchy,
}


# --- program (47) by a general solver -------------------------------------------------------------


def solve_by_cvxpy(A: np.ndarray, v: np.ndarray, penalty: float, intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """(c, e) of program (47)."""
    d, k = A.shape
    c, e, shift = cvxpy.Variable(k), cvxpy.Variable(d), cvxpy.Variable()
    rest = v - A @ c - e - (shift if intercept else 0.0)
    # d times (47): the same minimizers, and tolerances that do not shrink with lambda
    program = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(rest) + d * penalty * cvxpy.norm1(e)))
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-13)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": as near as double precision comes
        program.solve(solver=cvxpy.CLARABEL, max_iter=500, **tight)
    return c.value, e.value
