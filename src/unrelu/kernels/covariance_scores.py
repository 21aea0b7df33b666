"""Stand-in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from unrelu.contracts import FloatArray
from unrelu.kernels.normal import log_probability_and_hazard

_LOG_2PI = math.log(2.0 * math.pi)


@njit(cache=True, nogil=True, fastmath={"contract"})
def ep(limit, m, v, h, f, tau, nu, mu, s, c, most, tol):
    for i in range(h):
        mu[i] = 0.0
        tau[i] = 0.0
        nu[i] = 0.0
        for j in range(h):
            s[i, j] = v[i, j]
    logdet = 0.0
    for sweep in range(most):
        moved = 0.0
        for k in range(f):
            skk = s[k, k]
            t_c = 1.0 / skk - tau[k]
            v_c = 1.0 / t_c
            m_c = (mu[k] / skk - nu[k]) * v_c
            sd = math.sqrt(v_c)
            a = (limit[k] - m[k] - m_c) / sd
            lp, hz = log_probability_and_hazard(a)
            shrink = hz * (hz + a)
            shrink = min(max(shrink, 1e-12), 1 - 1e-12)
            tnew = shrink / ((1.0 - shrink) * v_c)
            mean = m_c - sd * hz
            nnew = mean / (v_c * (1.0 - shrink)) - m_c / v_c
            dt = tnew - tau[k]
            dn = nnew - nu[k]
            scale = 1.0 / (1.0 + dt * skk)
            logdet += math.log(1.0 + dt * skk)
            gain = (dn - dt * mu[k]) * scale
            for i in range(h):
                c[i] = s[i, k]
            for i in range(h):
                mu[i] += gain * c[i]
                fac = dt * scale * c[i]
                for j in range(h):
                    s[i, j] -= fac * c[j]
            moved = max(moved, abs(gain) * math.sqrt(skk), abs(dt) * skk)
            tau[k] = tnew
            nu[k] = nnew
        if moved < tol:
            break
    total = -0.5 * logdet
    for k in range(f):
        skk = s[k, k]
        t_c = 1.0 / skk - tau[k]
        v_c = 1.0 / t_c
        m_c = (mu[k] / skk - nu[k]) * v_c
        a = (limit[k] - m[k] - m_c) / math.sqrt(v_c)
        lp, _ = log_probability_and_hazard(a)
        w = 1.0 + tau[k] * v_c
        total += (
            lp
            + 0.5 * math.log(w)
            - (nu[k] * nu[k] * v_c + 2 * nu[k] * m_c - tau[k] * m_c * m_c) / (2 * w)
            + 0.5 * nu[k] * mu[k]
        )
    return total


@njit(cache=True, nogil=True)
def covariance_scores(
    u: Any, side: Any, mean: FloatArray, precision: FloatArray, log_det: float, densities: FloatArray, scores: Any
) -> None:
    n, d = u.shape
    order = np.empty(d, np.int64)
    limit, m, tau, nu, mu, c = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    s, e, pe, pv = np.empty((d, d)), np.empty(d), np.empty(d), np.empty((d, d))
    for row in range(n):
        f = 0
        for j in range(d):
            if abs(side[row, j]) == 1:
                order[f] = j
                f += 1
        h = f
        for j in range(d):
            if side[row, j] == 2:
                order[h] = j
                h += 1
        n_seen = d - h
        for j in range(d):
            e[j] = u[row, j] - mean[j] if side[row, j] == 0 else 0.0
        for i in range(d):
            t = 0.0
            for j in range(d):
                t += precision[i, j] * e[j]
            pe[i] = t
        square = 0.0
        for j in range(d):
            square += e[j] * pe[j]
        q = np.empty((h, h))
        g = np.empty(h)
        for i in range(h):
            sgn = -float(side[row, order[i]]) if i < f else 1.0
            g[i] = sgn * pe[order[i]]
            for j in range(h):
                sj = -float(side[row, order[j]]) if j < f else 1.0
                q[i, j] = sgn * sj * precision[order[i], order[j]]
        v = np.linalg.inv(q)
        ld = 2 * np.sum(np.log(np.diag(np.linalg.cholesky(q)))) if h else 0.0
        mm = -v @ g
        explained = -np.dot(g, mm)
        for i in range(f):
            sgn = -float(side[row, order[i]])
            limit[i] = sgn * (u[row, order[i]] - mean[order[i]])
        lz = ep(limit, mm, v, h, f, tau, nu, mu, s, c, 100, 1e-10)
        densities[row] = -0.5 * (square - explained + n_seen * _LOG_2PI + log_det + ld) + lz
        for i in range(h):
            sgn = -float(side[row, order[i]]) if i < f else 1.0
            e[order[i]] = sgn * (mm[i] + mu[i])
        for i in range(d):
            t = 0.0
            for j in range(d):
                t += precision[i, j] * e[j]
            pe[i] = t
            for a in range(h):
                t = 0.0
                for b in range(h):
                    sgn = -float(side[row, order[b]]) if b < f else 1.0
                    t += sgn * precision[i, order[b]] * s[b, a]
                pv[i, a] = t
        at = d
        for i in range(d):
            scores[row, i] = pe[i]
            for j in range(i + 1):
                t = pe[i] * pe[j] - precision[i, j]
                for a in range(h):
                    sgn = -float(side[row, order[a]]) if a < f else 1.0
                    t += pv[i, a] * sgn * precision[order[a], j]
                scores[row, at] = 0.5 * t if i == j else t
                at += 1
