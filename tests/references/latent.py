"""Latent recovery by the book: v = ReLU(A c + b) + e + w with nothing but sums, SciPy's minimizers and many starts."""

from __future__ import annotations

import numpy as np
from scipy.optimize import lsq_linear, minimize

CUT = 4.685


def draw(rng, d, k, *, share=0.0, noise=0.0, outliers="gaussian", norm=1.0):
    """(A, b, c, v, corrupted): A and b standard normal, |c| = norm, a share of the entries replaced or raised."""
    A, b, c = rng.standard_normal((d, k)), rng.standard_normal(d), rng.standard_normal(k)
    c *= norm / np.linalg.norm(c)
    v = np.maximum(A @ c + b, 0.0) + noise * rng.standard_normal(d)
    corrupted = np.zeros(d, dtype=bool)
    corrupted[rng.choice(d, round(share * d), replace=False)] = True
    e = 10.0 * rng.standard_normal(d)
    v[corrupted] += (np.abs(e) if outliers == "one-sided" else e)[corrupted]
    return A, b, c, v, corrupted


def tukey_objective(A, b, v, c, scale, ridge=0.0, sparsity=0.0):
    """J(c), entry by entry."""
    total = 0.5 * ridge * sum(x * x for x in c) + sparsity * sum(abs(x) for x in c)
    for a_i, b_i, v_i in zip(A, b, v, strict=True):
        u = (v_i - max(float(a_i @ c) + b_i, 0.0)) / scale
        total += CUT**2 / 6 if abs(u) >= CUT else CUT**2 / 6 * (1 - (1 - (u / CUT) ** 2) ** 3)
    return total


def brute_force(A, b, v, scale, rng, starts=200):
    """(J, c) of the lowest optimum among many: exact solves of random entries, each polished by a general minimizer."""
    k = A.shape[1]
    found = []
    for _ in range(starts):
        entries = rng.choice(np.flatnonzero(v > 0.0), k, replace=False)
        c = np.linalg.lstsq(A[entries], (v - b)[entries])[0]
        found.append((tukey_objective_fast(A, b, v, c, scale), c))
    found.sort(key=lambda candidate: candidate[0])
    polished = []
    for _, start in found[:8]:
        c = start
        for wide in (4.0, 2.0, 1.0):
            c = minimize(lambda x, s=wide * scale: tukey_objective_fast(A, b, v, x, s), c, method="BFGS").x
        polished.append((tukey_objective_fast(A, b, v, c, scale), c))
    return min(polished, key=lambda candidate: candidate[0])


def tukey_objective_fast(A, b, v, c, scale):
    """J(c) without a penalty, in one line of NumPy."""
    u = (v - np.maximum(A @ c + b, 0.0)) / (CUT * scale)
    return float(CUT**2 / 6 * (1 - np.maximum(1 - u * u, 0.0) ** 3).sum())


def oracle(A, b, v, c, corrupted):
    """Least squares given which entries are corrupted and which the layer has switched on."""
    used = ~corrupted & (A @ c + b > 0.0)
    return np.linalg.lstsq(A[used], (v - b)[used])[0]


def program_47(A, v, penalty, intercept=False):
    """(c, e, intercept) of program (47): e = soft(v - A c, d lambda) leaves Huber's loss, given to BFGS."""
    d, k = A.shape
    design = np.column_stack([A, np.ones(d)]) if intercept else A
    t = d * penalty

    def huber(x):
        r = v - design @ x
        size = np.abs(r)
        return (float(np.where(size <= t, r * r / 2, t * size - t * t / 2).sum()), -design.T @ np.clip(r, -t, t))

    x = minimize(huber, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000}).x
    r = v - design @ x
    e = np.sign(r) * np.maximum(np.abs(r) - t, 0.0)
    return x[:k], e, float(x[k]) if intercept else 0.0


def value_47(A, v, c, e, penalty, intercept=0.0):
    """The objective of (47) itself."""
    return float(np.sum((v - A @ c - e - intercept) ** 2)) / (2 * len(v)) + penalty * float(np.abs(e).sum())


def penalized(gram, right, sparsity, nonnegative):
    """Minimizer of x'G x/2 - g'x + sparsity |x|_1, x = p - n with p, n >= 0 (n = 0 where x >= 0).

    G = L L': |L'x - L^-1 g|^2 / 2 is the quadratic part; the linear term is taken into g, for p and n apart.
    """
    k = len(right)
    if nonnegative:
        L = np.linalg.cholesky(gram)
        return lsq_linear(L.T, np.linalg.solve(L, right - sparsity), (0.0, np.inf), tol=1e-14).x
    stacked = np.block([[gram, -gram], [-gram, gram]])
    linear = np.concatenate([right - sparsity, -right - sparsity])
    found = minimize(
        lambda x: (0.5 * x @ stacked @ x - linear @ x, stacked @ x - linear),
        np.zeros(2 * k),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * (2 * k),
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-11},
    ).x
    return found[:k] - found[k:]
