"""One semidefinite matrix from pairs, on a device: the rounds of :mod:`unrelu.fit.covariance`, every one of them whole.

A device finds all eigenvectors sooner than the host finds some, so that none is followed from round to round here, and
far more rounds can be afforded. Written in the Python array API standard.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.passes.device import Place

_FEWEST_ROUNDS, _MOST_ROUNDS, _WORK = 8, 60, 1.2e12  # rounds, and rounds x d^3
_SINGLE = 1e-5  # a tolerance that rounds in single precision reach; the last X is in double precision
_DEPTH = 5  # steps that are mixed
_RIDGE = 1e-9  # of their squares in all
_ASTRAY = 2.0  # times the least step so far: mixing did not help


def alternate_on(place: Place, r: FloatArray, weights: FloatArray, tolerance: float) -> tuple[FloatArray, int, bool]:
    """(X, rounds, whether it settled): the semidefinite X with unit diagonal nearest to R under the weights."""
    xp = place.xp
    kind = xp.float32 if tolerance > _SINGLE else xp.float64
    target = xp.astype(place.array(r), kind)
    share = xp.astype(place.array(1.0 / (weights + 1.0)), kind)
    unit = xp.eye(len(r), dtype=xp.bool, device=place.device)
    one = xp.ones((), dtype=kind, device=place.device)
    v = x = target
    mixing = _Mixing(xp)
    most = int(np.clip(_WORK / len(r) ** 3, _FEWEST_ROUNDS, _MOST_ROUNDS))
    converged, rounds = False, 0
    while not converged and rounds < most:
        rounds += 1
        factor = _positive_factor(xp, v)
        before, x = x, factor @ factor.T
        step = xp.where(unit, one, (2.0 * x - v - target) * share + target) - x
        converged = max(_largest(xp, step), _largest(xp, before - x)) < tolerance
        if not converged:
            v = mixing.next(v + step, step)
    exact = place.double(factor)
    size = xp.sqrt(xp.maximum(xp.sum(exact * exact, axis=1), xp.asarray(1e-300, dtype=xp.float64, device=place.device)))
    exact = exact / size[:, None]
    found = place.host(exact @ exact.T)
    np.fill_diagonal(found, 1.0)
    return found, rounds, converged


def _positive_factor(xp: Any, v: Any) -> Any:
    """F, with F F' the part of the positive eigenvalues."""
    values, vectors = xp.linalg.eigh(v)
    first = int(xp.sum(xp.astype(values <= 0.0, xp.int64)))  # values rise
    return vectors[:, first:] * xp.sqrt(values[first:])


def _largest(xp: Any, x: Any) -> float:
    return float(xp.max(xp.abs(x)))


class _Mixing:
    """Anderson's acceleration, as :mod:`unrelu.fit.covariance` has it."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._reached: list[Any] = []
        self._steps: list[Any] = []
        self._least, self._best = np.inf, None

    def next(self, reached: Any, step: Any) -> Any:
        size = float(self._xp.sum(step * step)) ** 0.5
        if size > _ASTRAY * self._least:
            self._reached, self._steps = [], []
            return self._best
        if size < self._least:
            self._least, self._best = size, reached
        for kept, new in ((self._reached, reached), (self._steps, step)):
            kept.append(new)
            del kept[: -_DEPTH - 1]
        gram = np.array([[float(self._xp.sum(a * b)) for a in self._steps] for b in self._steps])
        gram[np.diag_indices(len(gram))] += _RIDGE * np.trace(gram)
        shares = np.linalg.solve(gram, np.ones(len(gram)))
        shares /= shares.sum()
        return sum(float(each) * part for each, part in zip(shares, self._reached, strict=True))
