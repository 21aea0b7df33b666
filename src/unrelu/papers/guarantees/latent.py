"""Mazumdar and Rawat (2018), Theorem 4: how well the latent c behind v = ReLU(A c + b) + e + w can be recovered.

A is d x k with standard normal entries, |c| = 1, e has at most s entries that are not 0 and is chosen without knowledge
of A, |w|_inf <= delta. The paper treats the layer as a linear one (Plan and Vershynin 2016) and minimizes

    1/(2d) |v - A c - e|^2 + lambda |e|_1                                                                        (47)

over c and e. The minimizer c^ is near mu c: :func:`linear_image` has mu and what the layer adds to mu A c,
:func:`latent_recovery_bound` the bound at the end of the proof, :func:`latent_recovery_rate` its rate.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import integrate, optimize, stats
from scipy.special import ndtr

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.papers.guarantees.arguments import not_negative, positive, whole

_PROOF_FACTOR = 128.0  # of Lemma 3, (65)
_FAILURE = 0.05
_TINY = 1e-300
_LEVELS = (1e-3, 0.05, 0.25, 0.5)  # quantiles that cut the range of a bias, from both ends
_REACH = 8.0  # standard deviations over which Phi goes from 0 to 1
_MOST_POINTS = 2_000_000
_ACCURACY, _SMALL = 1e-6, 1e-13
_EXAMPLE = "Give a number, an array of biases, or a frozen distribution of scipy.stats, such as scipy.stats.norm(1, 2)."
_Function: TypeAlias = Callable[[FloatArray], FloatArray]


class _Mean(Protocol):
    """E[f(b)]; ``cuts`` are where f turns, ``small`` is what does not matter of it."""

    def __call__(self, f: _Function, cuts: Iterable[float], small: float = ...) -> float: ...


# --- the layer as a linear one ------------------------------------------------------------------


@dataclass(frozen=True)
class LinearImage:
    """(58): ReLU(A c + b) is ``mu`` A c and a rest; ``sigma`` and ``eta`` say how large the rest is.

    >>> linear_image(0.0).mu
    0.5
    """

    mu: float
    sigma: float
    eta: float


def linear_image(p: Any, norm: float = 1.0) -> LinearImage:
    """(58), for Theorem 4: mu, sigma and eta of a layer whose biases follow ``p``, at |c| = ``norm``.

    ``p`` is a frozen distribution of scipy.stats, continuous or discrete, or the biases themselves: an array, each as
    likely as the others, or a number. With g standard normal, n = |c| and z = ReLU(n g + b) - mu n g,

        mu = E[ReLU(n g + b) g] / n,   sigma^2 = E[z^2],   eta^2 = E[g^2 z^2],

    so that c^ of (47) is near mu c for any n. Stein's identity, E[g f(g)] = E[f'(g)], leaves expectations over b only.
    With a = b/n and S(a) = E[ReLU(g + a)^2] = (a^2 + 1) Phi(a) + a phi(a):

        mu = E[Phi(a)],   sigma^2 = n^2 (E[S(a)] - mu^2),   eta^2 = sigma^2 + 2 n^2 mu (1 + E[a phi(a)] - mu).

    sigma and eta are infinite where p has no variance (unless it has an upper end).

    >>> image = linear_image(0.0)  # no biases: 1/2, 1/2, sqrt(3)/2
    >>> image.mu, image.sigma, round(image.eta, 6)
    (0.5, 0.5, 0.866025)
    >>> from scipy import stats
    >>> round(linear_image(stats.norm(1.0, 2.0)).mu, 6)  # Phi(1/sqrt(5))
    0.67264
    """
    mean, square_integrable = _expectation(p)
    return _image(mean, square_integrable, positive("norm", norm))


def _image(mean: _Mean, square_integrable: bool, n: float) -> LinearImage:
    def phi(a: FloatArray) -> FloatArray:
        density: FloatArray = np.exp(-0.5 * np.minimum(np.abs(a), 50.0) ** 2) / math.sqrt(2.0 * math.pi)
        return density

    cuts = (-_REACH * n, 0.0, _REACH * n)
    mu = min(mean(lambda b: ndtr(b / n), cuts), 1.0)
    if not square_integrable:
        return LinearImage(mu, math.inf, math.inf)
    bump = mean(lambda b: b / n * phi(b / n), cuts)
    square = mean(lambda b: ((b / n) ** 2 + 1.0) * ndtr(b / n) + b / n * phi(b / n), cuts)  # S(a)
    sigma2 = max(square - mu * mu, 0.0)
    eta2 = max(sigma2 + 2.0 * mu * (1.0 + bump - mu), 0.0)
    return LinearImage(mu, n * math.sqrt(sigma2), n * math.sqrt(eta2))


# --- Theorem 4 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LatentRecoveryBound:
    """Theorem 4: ``bound`` on |mu c - c^| + |e - e^|/sqrt(d), the larger of ``latent_term`` and ``outlier_term``.

    ``says_nothing`` where it is no less than ``mu``: c^ = 0 is as good. ``reason`` then says why, else it is empty.

    >>> latent_recovery_bound(0.0, n_features=100, rank=4, n_outliers=10, noise_bound=0.0).says_nothing
    True
    """

    bound: float
    latent_term: float
    outlier_term: float
    mu: float
    lambda_: float
    says_nothing: bool
    reason: str


def latent_recovery_bound(
    p: Any,
    n_features: int,
    rank: int,
    n_outliers: int,
    noise_bound: float,
    lambda_: float | None = None,
    constant: float = 1.0,
) -> LatentRecoveryBound:
    """Theorem 4, as (66): |mu c - c^| + |e - e^|/sqrt(d) is at most the larger of

        128 ( C (sqrt(k) sigma + eta)/sqrt(d) + sqrt(k)/d |A'w|_inf )   and   128 * 2 lambda sqrt(s d),

    with |c| = 1, d = ``n_features``, k = ``rank``, s = ``n_outliers``, delta = ``noise_bound``, C = ``constant``, and
    the biases' law ``p`` as in :func:`linear_image`. c itself is c^/mu, with an error of bound/mu.

    The constant. (57) leaves C open. E|A'z|^2 = d ((k - 1) sigma^2 + eta^2) for z = ReLU(A c + b) - mu A c, so that C =
    1 holds in mean square; by Markov's inequality C = 4.5 holds with probability .95.

    The noise. For w independent of A, the entries of A'w are normal with standard deviation |w| <= delta sqrt(d), and
    |A'w|_inf <= delta sqrt(2 d log(2 k/.05)) with probability .95: we take this, as (67) does. A w that knows A can do
    more: with |A'w|_inf near delta d sqrt(2/pi) the error stays however large d is, and (67) cannot hold.

    The penalty. The proof needs lambda >= 2 |z + w|_inf / d. By default ``lambda_`` is 2 (q + delta)/d where q solves
    d P(|z_i| > q) = .05, a union bound. The bound is infinite for a smaller one, of which the theorem does not speak.

    What it says. Factor 128 is what (65) gives "for large enough d": by the proof of Lemma 3, (90), at least 640^2
    (sqrt(k) + sqrt(s))^2, which is not checked here. Without biases and outliers the bound falls below mu at d = 128^2
    (sqrt(k) + sqrt(3))^2, with C = 1. The theorem tells what the error depends on, not how large it is.

    >>> bound = latent_recovery_bound(0.0, n_features=10**6, rank=4, n_outliers=0, noise_bound=0.0)
    >>> round(bound.bound, 4), bound.mu, bound.says_nothing  # 128 (sqrt(4)/2 + sqrt(3)/2) / 1000
    (0.2389, 0.5, False)
    >>> latent_recovery_bound(0.0, n_features=1000, rank=4, n_outliers=10, noise_bound=0.1).reason
    'The bound is 218 times mu = 0.5, the error of c^ = 0.'
    """
    d, k, s = whole("n_features", n_features), whole("rank", rank), whole("n_outliers", n_outliers, least=0)
    if k > d:
        raise InvalidParameterError(
            f"rank is {k}, n_features {d}: fewer equations than unknowns leave c undetermined. Theorem 4 needs"
            " n_features well above rank."
        )
    if s > d:
        raise InvalidParameterError(f"n_outliers is {s}, but there are only {d} entries: give at most n_features.")
    delta = not_negative("noise_bound", noise_bound)
    constant = positive("constant", constant)
    given = None if lambda_ is None else positive("lambda_", lambda_)
    mean, square_integrable = _expectation(p)
    image = _image(mean, square_integrable, 1.0)
    least = 2.0 * (_largest_rest(mean, image.mu, d) + delta) / d
    penalty = least if given is None else given
    correlation = delta * math.sqrt(2.0 * d * math.log(2.0 * k / _FAILURE))
    rest = constant * (math.sqrt(k) * image.sigma + image.eta) / math.sqrt(d)
    latent = _PROOF_FACTOR * (rest + math.sqrt(k) / d * correlation)
    outlier = _PROOF_FACTOR * 2.0 * penalty * math.sqrt(s * d)
    bound = max(latent, outlier)
    if penalty < least * (1.0 - 1e-9):
        bound = math.inf
        reason = f"lambda_ is {penalty:g}; the theorem needs at least 2 |z + w|_inf / d, which may be {least:g}."
    elif bound == math.inf:
        reason = "sigma and eta are infinite: the bias has no variance."
    elif bound >= image.mu:
        times = f"{bound / image.mu:.3g} times " if image.mu > 0.0 else f"{bound:.3g}, not below "
        reason = f"The bound is {times}mu = {image.mu:.3g}, the error of c^ = 0."
    else:
        reason = ""
    return LatentRecoveryBound(bound, latent, outlier, image.mu, penalty, says_nothing=reason != "", reason=reason)


def latent_recovery_rate(n_features: int, rank: int, n_outliers: int) -> float:
    """Theorem 4, (49) and (67): max( sqrt(k log k / d), sqrt(s log d / d) ), without its constant.

    The constant hides delta, sigma and eta. As printed the first term is 0 for k = 1, where (66) is not; the paper's
    introduction has sqrt((k + s) log d / d) instead.

    >>> round(latent_recovery_rate(n_features=1000, rank=10, n_outliers=5), 4)  # sqrt(5 log(1000) / 1000)
    0.1858
    """
    d, k, s = whole("n_features", n_features), whole("rank", rank), whole("n_outliers", n_outliers, least=0)
    return max(math.sqrt(k * math.log(k) / d), math.sqrt(s * math.log(d) / d))


def _largest_rest(mean: _Mean, mu: float, d: int) -> float:
    """q with d P(|z| > q) = .05, for z = ReLU(g + b) - mu g of (55) at |c| = 1.

    z is the larger of -mu g and (1 - mu) g + b: z <= q where g is from -q/mu to (q - b)/(1 - mu), and z < -q where g is
    from q/mu to (-q - b)/(1 - mu), if that is an interval.
    """
    mu, other = max(mu, _TINY), max(mean(lambda b: ndtr(-b), (-_REACH, 0.0, _REACH)), _TINY)

    def excess(q: float) -> float:
        def exceeds(b: FloatArray) -> FloatArray:
            with np.errstate(over="ignore"):
                above = ndtr(-q / mu) + ndtr((b - q) / other)
                below = np.maximum(ndtr(-q / mu) - ndtr((q + b) / other), 0.0)
            return np.minimum(above + below, 1.0)

        around = [q + other * step for step in (-_REACH, 0.0, _REACH)]
        cuts = (*around, q / mu, -q / mu, -q / mu - _REACH * other)
        return d * mean(exceeds, cuts, small=1e-5 * _FAILURE / d) - _FAILURE

    high = 1.0
    while excess(high) > 0.0:
        high *= 2.0
    return float(optimize.brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-10))


# --- expectations over the bias -----------------------------------------------------------------


def _expectation(p: Any) -> tuple[_Mean, bool]:
    """E[f(b)] under what ``p`` stands for, and whether E[ReLU(b)^2] is finite."""
    if isinstance(p, stats.rv_continuous | stats.rv_discrete):
        raise InvalidParameterError(f"p is the family {p.name!r} without parameters. {_EXAMPLE}")
    if not hasattr(p, "dist"):
        return _mean_over_values(p), True
    if not isinstance(p.dist, stats.rv_continuous | stats.rv_discrete):
        raise InvalidParameterError(f"p must be a distribution of one number, got {type(p).__name__}. {_EXAMPLE}")
    ends = np.asarray(p.support(), dtype=np.float64)
    if ends.shape != (2,):
        raise InvalidParameterError(f"p stands for {ends[0].size} distributions; take one of them. {_EXAMPLE}")
    start, stop = (float(end) for end in ends)
    discrete = isinstance(p.dist, stats.rv_discrete)
    if not (start < stop or (discrete and start == stop)):
        raise InvalidParameterError(f"p, {p.dist.name}, has parameters outside their domain. {_EXAMPLE}")
    with np.errstate(all="ignore"):
        integrable = stop < math.inf or math.isfinite(float(p.var()))
        mean = _mean_over_points(p, start, stop, integrable) if discrete else _mean_over_density(p, start, stop)
    return mean, integrable


def _mean_over_values(p: ArrayLike) -> _Mean:
    """Biases that are given, each as likely as the others."""
    try:
        values = np.asarray(p, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidParameterError(
            f"p cannot be read as biases: it is of type {type(p).__name__}. {_EXAMPLE}"
        ) from None
    if not values.size or not np.isfinite(values).all():
        what = "empty" if not values.size else f"not finite at position {int(np.argmin(np.isfinite(values)))}"
        raise InvalidParameterError(f"p, an array of biases, is {what}. {_EXAMPLE}")
    weights = np.full(values.size, 1.0 / values.size)
    return lambda f, cuts, small=_SMALL: float(weights @ f(values))  # noqa: ARG005


def _mean_over_points(p: Any, start: float, stop: float, integrable: bool) -> _Mean:
    """A discrete law: its points, up to tails that do not matter."""
    if hasattr(p.dist, "xk"):  # given by a table
        values = np.asarray(p.dist.xk, dtype=np.float64).ravel()
        values = values + (start - values.min())
    else:
        first = start if start > -math.inf else float(p.ppf(1e-15))
        last = first + _MOST_POINTS
        if stop < math.inf:
            last = min(stop, last)
        elif not p.sf(last) > 1e-12:  # scipy may search long for a quantile that is farther out than that
            last = min(float(p.isf(1e-15)), last)
        values = np.arange(first, last + 1.0)
    weights = np.asarray(p.pmf(values), dtype=np.float64)
    whole_mass = abs(weights.sum() - 1.0) <= _ACCURACY
    second = float(p.var()) + float(p.mean()) ** 2 if integrable else 0.0
    if not whole_mass or (integrable and abs(weights @ values**2 - second) > _ACCURACY * (1.0 + second)):
        raise InvalidParameterError(
            f"p, {p.dist.name}, spreads over too many points to be summed. Give an array of biases drawn from it."
        )
    weights = weights / weights.sum()
    return lambda f, cuts, small=_SMALL: float(weights @ f(values))  # noqa: ARG005


def _mean_over_density(p: Any, start: float, stop: float) -> _Mean:
    """A density, integrated between quantiles and cuts; beyond the outermost in log-distances, for poles and tails."""
    levels = {float(x) for level in _LEVELS for x in (p.ppf(level), p.isf(level))}
    bins = np.asarray(getattr(p.dist, "_hbins", ()), dtype=np.float64)  # a histogram jumps at its bins' ends
    if bins.size:
        levels |= {float(x) for x in start + (bins - bins[0]) * ((stop - start) / (bins[-1] - bins[0]))}
    quantiles = sorted(x for x in levels if start < x < stop and math.isfinite(x))
    if not quantiles:
        raise InvalidParameterError(f"p, {p.dist.name}, has no quantiles that can be computed. {_EXAMPLE}")
    first, last = quantiles[0], quantiles[-1]
    width = (last - first) or 1.0

    def mean(f: _Function, cuts: Iterable[float], small: float = _SMALL) -> float:
        # Between quantiles and cuts within the support, and on the way to far cuts in steps that grow.
        near = [x for x in cuts if abs(x - first) < 1e12 * width]
        far = max([first - x for x in near] + [x - last for x in near], default=0.0)
        steps = [width * 4.0**j for j in range(math.ceil(math.log(max(far / width, 1.0), 4.0)))]
        ladder = [first - step for step in steps] + [last + step for step in steps]
        inner = sorted({x for x in (*quantiles, *near, *ladder) if start < x < stop})

        def value(x: float) -> float:
            return float(f(np.float64(x)))  # type: ignore[arg-type]

        def weighted(x: float, dx: float = 1.0, less: float = 0.0) -> float:
            density = float(p.pdf(x)) * dx if dx > 0.0 else 0.0
            return (value(x) - less) * density if 0.0 < density < math.inf else 0.0

        def beyond(edge: float, end: float) -> Callable[[float], float]:
            if math.isinf(end):
                length = math.copysign(width, end - edge)
                return lambda y: weighted(edge + length * math.expm1(min(y, 600.0)), width * math.exp(min(y, 600.0)))
            less, length = value(end), edge - end
            return lambda y: weighted(end + length * math.exp(-y), abs(length) * math.exp(-y), less)

        # a pole at an end may hold more probability than double precision resolves: f(end) P + E[f - f(end)]
        atoms = [value(start) * float(p.cdf(inner[0]))] if start > -math.inf else []
        atoms += [value(stop) * float(p.sf(inner[-1]))] if stop < math.inf else []
        pieces: list[tuple[Callable[[float], float], float, float]]
        pieces = [(weighted, left, right) for left, right in pairwise(inner)]
        pieces += [(beyond(inner[0], start), 0.0, math.inf), (beyond(inner[-1], stop), 0.0, math.inf)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # the errors are added up below
            parts = [integrate.quad(*piece, epsabs=small, epsrel=1e-9, limit=200)[:2] for piece in pieces]
        total, error = math.fsum([*atoms, *(part[0] for part in parts)]), math.fsum(part[1] for part in parts)
        if not error <= max(_ACCURACY * abs(total), 1e3 * small):
            raise InvalidParameterError(
                f"An expectation over the bias could not be computed: quadrature over the density of {p.dist.name}"
                " does not converge. Give an array of biases drawn from it instead."
            )
        return total

    mass = mean(np.ones_like, ())
    if abs(mass - 1.0) > _ACCURACY:
        raise InvalidParameterError(
            f"The density of p, {p.dist.name}, integrates to {mass:g} instead of 1. Check its parameters, or give an"
            " array of biases drawn from it."
        )
    return mean
