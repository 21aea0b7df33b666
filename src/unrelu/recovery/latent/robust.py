"""Robust recovery of c from v = ReLU(A c + b) + e + w, e sparse, w small (Mazumdar and Rawat 2018, section 4).

The noise's scale first: where the layer is off, v is noise, so negative entries are noise or outliers; a half-normal
part and an even one are told apart by EM. Without negative entries (noise before the rectifier, a model that fits only
roughly) a ladder of scales is searched, and the likelihood of the residuals chooses.

Then a search for the lowest optimum of Tukey's loss of v - ReLU(A c + b) (:mod:`unrelu.kernels.latent_search`), at a
scale somewhat below: a narrow loss tells two candidate vectors apart, a wide one averages them. Then the scale again
from all residuals, descent at it, and least squares on the entries that are on and agree: as accurate as if somebody
had pointed out the outliers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unrelu.contracts import BoolArray, FloatArray
from unrelu.errors import InvalidDataError
from unrelu.kernels.latent_search import (
    descend,
    half_normal_scale,
    penalized_minimum,
    residual_sizes,
    search,
)
from unrelu.recovery.latent.priors import Prior

_NARROW = 0.65
_ROUNDS, _AGREED = 40, 6
_AGREES = 3.5  # standard deviations: rejecting from 3 on would cost 1.5 % of accuracy, this costs .3 %
_POLISH = 50
_LADDER = (1e-3, 4e-3, 0.016, 0.064, 0.256)  # of the median entry
_MOST, _SOME = 0.5, 0.2  # share of the entries that agree which chance cannot explain; where they agree exactly
_EXACT = 0.02  # of the scale that was searched at: less is exact
_LEAST = 1e-9  # of the largest entry: below it noise is as good as none
_UNSURE = 3.0  # difference of log-likelihoods below which two optima cannot be told apart
_QUARTILE = 0.3186393639643752  # of a half-normal law


@dataclass(frozen=True)
class Recovery:
    """c, what it rests on, and the next best optimum where that is nearly as good."""

    latent: FloatArray
    inliers: BoolArray
    noise_scale: float
    covariance: FloatArray
    rival: FloatArray | None


def recover_robustly(
    A: FloatArray, b: FloatArray, v: FloatArray, prior: Prior, noise_scale: float | None, seed: int
) -> Recovery:
    """One vector; missing entries are left out."""
    seen = ~np.isnan(v)
    A, b, v = np.ascontiguousarray(A[seen]), b[seen], v[seen]
    least = _LEAST * _typical(v)
    penalty = prior.penalty
    if noise_scale is not None:
        scale = max(noise_scale, least)
        best, _, other, _, _ = search(A, b, v, _NARROW * scale, penalty, _ROUNDS, _AGREED, seed)
    else:
        scale, best, other = _found_with_scale(A, b, v, penalty, seed)
    candidates = []
    for start in (best, other):
        c = start.copy()
        candidates.append((descend(A, b, v, c, scale, penalty, _POLISH), c))
    candidates.sort(key=lambda candidate: candidate[0])
    (objective, c), (rival_objective, rival) = candidates
    c, agree, scale, covariance = _least_squares(A, b, v, c, scale, prior, known=noise_scale is not None)
    inliers = np.zeros(len(seen), dtype=bool)
    inliers[seen] = agree
    close = rival_objective - objective < _UNSURE and _apart(rival, c, covariance)
    return Recovery(c, inliers, scale, covariance, rival if close else None)


def _found_with_scale(
    A: FloatArray, b: FloatArray, v: FloatArray, penalty: FloatArray, seed: int
) -> tuple[float, FloatArray, FloatArray]:
    """(scale, c, next best c): the search, where the noise's scale is to be found too."""
    d, k = A.shape
    typical, largest = _typical(v), float(np.abs(v).max(initial=0.0))
    first = initial_scale(v)
    chosen, highest = (math.nan, np.zeros(k), np.zeros(k)), -math.inf
    for level in [first] if first is not None else [rung * typical for rung in _LADDER]:
        best, _, other, _, _ = search(A, b, v, _NARROW * level, penalty, _ROUNDS, _AGREED, seed)
        sizes = residual_sizes(A, b, v, best)
        if first is None:  # where v is 0 and c agrees, noise was cut off
            sizes = sizes[(v != 0.0) | (sizes > 0.0)]
        scale = half_normal_scale(sizes, level, _LEAST * typical, largest)
        value = _log_likelihood(np.sort(sizes)[k:], max(scale, 1e-6 * typical), largest)
        if value > highest:
            chosen, highest = (scale * math.sqrt(d / max(d - k, 1.0)), best, other), value
        agree = np.count_nonzero(sizes <= _AGREES * level) - k
        if agree > (_SOME if scale < _EXACT * level else _MOST) * (len(sizes) - k):
            break
    return chosen


def _log_likelihood(sizes: FloatArray, scale: float, top: float) -> float:
    """Of residual sizes under half-normal noise of this scale, or else even up to ``top``, in the best shares."""
    noise = math.sqrt(2.0 / math.pi) / scale * np.exp(-0.5 * np.minimum(sizes / scale, 38.0) ** 2)
    share = 0.5
    for _ in range(30):
        density = share * noise + (1.0 - share) / top
        share = min(max(float((share * noise / density).mean()), 0.02), 0.98) if len(sizes) else 0.5
    return float(np.log(share * noise + (1.0 - share) / top).sum())


def initial_scale(v: FloatArray) -> float | None:
    """The noise's scale from the negative entries; None where there are hardly any, or where they are outliers.

    Noise leaves nothing at 0 exactly: where many entries are, what is negative is not noise.
    """
    negative = -v[v < 0.0]
    largest, typical = float(np.abs(v).max(initial=0.0)), _typical(v)
    if len(negative) < 4 or 2 * np.count_nonzero(v == 0.0) >= len(negative):
        return None
    start = float(np.quantile(negative, 0.25)) / _QUARTILE
    return half_normal_scale(negative, start, _LEAST * typical, largest)


def _typical(v: FloatArray) -> float:
    """The median size of entries that are not 0."""
    sizes = np.abs(v[v != 0.0])
    return float(np.median(sizes)) if len(sizes) else 1.0


def _least_squares(
    A: FloatArray, b: FloatArray, v: FloatArray, c: FloatArray, scale: float, prior: Prior, known: bool
) -> tuple[FloatArray, BoolArray, float, FloatArray]:
    """The last word: least squares on entries that are on and agree, while these change.

    (c, which agree, scale, covariance)
    """
    k = A.shape[1]
    agree = np.zeros(len(v), dtype=bool)
    used = agree
    for _ in range(10):
        t = A @ c + b
        agree = np.abs(v - np.maximum(t, 0.0)) <= _AGREES * scale
        before, used = used, agree & (t > 0.0)
        if (used == before).all() or (used.sum() < k and not prior.proper):
            break
        gram = A[used].T @ A[used] / scale**2 + prior.penalty[0] * np.eye(k)
        c = _penalized(A[used] / scale, (v - b)[used] / scale, gram, prior, c)
    if not known and used.sum() > k:
        clean = np.maximum(A @ c + b, 0.0)
        noisy = agree & ((v != 0.0) | (clean > 0.0))  # elsewhere noise was cut off
        squares = ((v - clean)[noisy] ** 2).sum()
        scale = max(float(np.sqrt(squares / max(noisy.sum() - k, 1))), _LEAST * _typical(v))
    if not prior.proper and not _determined(A[used], v[used] > _AGREES * scale):
        raise InvalidDataError(
            f"The {used.sum()} entries of an output that are on and agree do not determine {k} latent numbers. Give a"
            " prior, such as prior='gaussian', or leave the output out."
        )
    covariance = np.linalg.pinv(A[used].T @ A[used] / scale**2 + prior.penalty[0] * np.eye(k), hermitian=True)
    return c, agree, scale, np.asarray(covariance)


def _determined(A: FloatArray, clear: BoolArray) -> bool:
    """Whether entries determine c: those that are clearly on, or many that may be.

    A small entry agrees with being off as well, and c can always be made to switch a few of them on.
    """
    k = A.shape[1]
    lacking = k - (int(np.linalg.matrix_rank(A[clear])) if clear.any() else 0)
    few = np.count_nonzero(~clear) <= 2 * lacking
    return lacking == 0 or (not few and int(np.linalg.matrix_rank(A)) == k)


def _penalized(A: FloatArray, target: FloatArray, gram: FloatArray, prior: Prior, c: FloatArray) -> FloatArray:
    """The minimum of |A x - target|^2/2 and the prior's penalty, from c."""
    ridge, sparsity, nonnegative = prior.penalty
    if sparsity == 0.0 and not nonnegative:
        root = np.sqrt(ridge) * np.eye(A.shape[1])
        padded = np.concatenate([target, np.zeros(A.shape[1])])
        return np.asarray(np.linalg.lstsq(np.concatenate([A, root]), padded)[0], dtype=np.float64)
    solution = c.copy()
    penalized_minimum(np.tril(gram), A.T @ target, float(sparsity), bool(nonnegative), solution)
    return solution


def _apart(one: FloatArray, other: FloatArray, covariance: FloatArray) -> bool:
    """Whether two vectors differ by more than the errors of one."""
    difference = one - other
    return bool(difference @ np.linalg.pinv(covariance, hermitian=True) @ difference > 9.0 * len(one))
