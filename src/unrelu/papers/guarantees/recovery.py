"""Mazumdar and Rawat 2018: how well the matrix behind a ReLU, or the latent vector of a row, can be recovered.

The matrix. The paper writes samples as columns: M = A C is d x n, Y = ReLU(M + b 1'), and every coordinate i has one
random bias b_i with density p, the same for all samples. (In our tables, where rows are samples, the bias is shared
along a column.) Theorem 3 bounds the error of the constrained maximum likelihood (34) by three numbers of the density
on [-gamma, gamma], which holds the entries of M: beta (:func:`flatness`), L (:func:`steepness`) and omega
(:func:`least_probability`). Theorem 5, of Yu, Wang and Samworth (2015), turns an error of M into an error of its column
space.

The latent vector c behind v = ReLU(A c + b) + e + w: A is d x k with standard normal entries, |c| = 1, e has at most s
entries that are not 0 and is chosen without knowledge of A, |w|_inf <= delta. The paper treats the layer as a linear
one (Plan and Vershynin 2016) and minimizes over c and e

    1/(2d) |v - A c - e|^2 + lambda |e|_1                                                                        (47)

The minimizer c^ is near mu c: :func:`linear_image` has mu and what the layer adds to mu A c,
:func:`latent_recovery_bound` the bound at the end of the proof, :func:`latent_recovery_rate` its rate.

What the theorems leave open, and how 1-bit completion (18) to (22) is related: docs/papers.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev
from scipy import integrate, optimize
from scipy.special import ndtr

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.papers.guarantees.arguments import (
    NODES,
    Density,
    Mean,
    breaks_of,
    density_of,
    expectation,
    extremes,
    log_density,
    not_negative,
    number,
    positive,
    whole,
)

_PROOF_CONSTANT = 8.0 * math.e  # see matrix_recovery_bound
_PROOF_FACTOR = 128.0  # of Lemma 3, (65)
__all__ = [
    "ColumnSpaceBound",
    "LatentRecoveryBound",
    "MatrixRecoveryBound",
    "column_space_bound",
    "flatness",
    "latent_recovery_bound",
    "latent_recovery_rate",
    "least_probability",
    "likelihood_gap",
    "linear_image",
    "matrix_recovery_bound",
    "one_bit_completion_error",
    "steepness",
]

_FAILURE = 0.05
_TINY = 1e-300
_REACH = 8.0  # standard deviations over which Phi goes from 0 to 1


# --- the density's three numbers ----------------------------------------------------------------


def flatness(p: Density, gamma: float) -> float:
    """(7), for Theorem 3: beta_gamma(p) = inf over |x| <= gamma of p'(x)^2 / (4 p(x)), the square of sqrt(p)'.

    ``p`` is a frozen continuous distribution of scipy.stats, of the bias. Exactly 0 where p has a mode or another
    stationary point in [-gamma, gamma] (a normal density with |mean| <= gamma, say), where it is 0, and where its slope
    is 0 up to double precision. A peak with a kink counts as a mode, although (7) leaves its one point
    out: the theorem asks for a derivative, and its proof for a density that rises or falls throughout.

    >>> from scipy import stats
    >>> round(flatness(stats.norm(2.0, 1.0), 1.0), 6)  # at x = -1: (9/4) phi(3)
    0.009972
    >>> flatness(stats.norm(0.5, 1.0), 1.0)
    0.0
    """
    return _flattest_place(density_of(p), positive("gamma", gamma))[0]


def steepness(p: Density, gamma: float) -> float:
    """(8), for Theorem 3: L_gamma(p), the larger of sup p(x) / P(B <= x) and sup |p'(x)| / p(x) over |x| <= gamma.

    The paper prints p'(x) / p(x); its proof needs a Lipschitz constant of log p, hence the modulus, which makes a
    difference for a falling density. Infinite if p vanishes, begins, ends or jumps in [-gamma, gamma], or if log P(B <=
    -gamma) is beyond double precision. For a log-concave density that rises it is p / P at x = -gamma.

    >>> from scipy import stats
    >>> round(steepness(stats.norm(2.0, 1.0), 1.0), 4)  # phi(3) / Phi(-3)
    3.2831
    """
    p, gamma = density_of(p), positive("gamma", gamma)
    with np.errstate(all="ignore"):
        if np.isneginf(p.logcdf(-gamma)):
            return math.inf
    pieces = log_density(p, gamma)
    if any(piece.jumps for piece in pieces):
        return math.inf
    steepest = max(
        float(np.max(np.abs(piece.slopes(piece.candidates(lambda f: f.deriv(2)))), initial=0.0)) for piece in pieces
    )

    def log_ratio(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        density, below = p.logpdf(x), p.logcdf(x)
        return density - below, 1.0 + np.abs(density)

    x = extremes(log_ratio, breaks_of(p, -gamma, gamma))
    with np.errstate(all="ignore"):
        return max(steepest, float(np.exp(np.max(log_ratio(x)[0]))))


def least_probability(p: Density, gamma: float, nu: float) -> float:
    """omega_{p,gamma,nu} of Theorem 3: the least probability of an interval of length nu within [-gamma, gamma].

    The paper asks for F(x, y) = P(-x <= B <= -y) >= omega for all x, y in [-gamma, gamma] with |x - y| > nu; we read x
    > y, as F is 0 otherwise. A longer interval is no less probable, so that the infimum is

        omega = min over -gamma <= u <= gamma - nu of P(u <= B <= u + nu),

    for a density with one mode taken at one of the ends. It is 0 for nu = 0, and P(|B| <= gamma) for nu = 2 gamma.

    >>> from scipy import stats
    >>> round(least_probability(stats.norm(0.0, 1.0), 1.0, 0.5), 6)  # Phi(1) - Phi(1/2)
    0.149882
    >>> round(least_probability(stats.norm(0.0, 1.0), 1.0, 2.0), 6)
    0.682689
    """
    p, gamma = density_of(p), positive("gamma", gamma)
    nu = _separation(nu, gamma)
    if nu == 0.0:
        return 0.0

    def probability(u: FloatArray) -> tuple[FloatArray, FloatArray]:
        below, above = p.cdf(u + nu), p.sf(u)
        return np.where(below < above, below - p.cdf(u), above - p.sf(u + nu)), np.minimum(below, above)

    last = max(gamma - nu, -gamma)
    places = extremes(probability, breaks_of(p, -gamma, last, shift=nu))
    with np.errstate(all="ignore"):
        least = float(places[np.argmin(probability(places)[0])])

    def of_interval(u: float) -> float:
        """From the nearer tail, or where that would lose digits by quadrature."""
        below, above = float(p.cdf(u + nu)), float(p.sf(u))
        found = below - float(p.cdf(u)) if below < above else above - float(p.sf(u + nu))
        if found < 1e-4 * min(below, above):
            found = float(integrate.quad(lambda x: p.pdf(u + x), 0.0, nu, epsabs=0.0, epsrel=1e-11)[0])
        return min(max(found, 0.0), 1.0)

    with np.errstate(all="ignore"):
        return min(of_interval(u) for u in (-gamma, least, last))


# --- Theorem 3 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MatrixRecoveryBound:
    """Theorem 3: ``bound_squared`` on |M - M^|_F^2, what it is made of, and the trivial bound that needs no data.

    ``says_nothing`` where the bound is no better than the trivial one; ``reason`` then says why, else it is empty.

    >>> from scipy import stats
    >>> matrix_recovery_bound(stats.norm(2.0, 1.0), 1.0, 0.5, n_features=10).says_nothing
    True
    """

    bound_squared: float
    flatness: float
    steepness: float
    least_probability: float
    trivial_squared: float
    says_nothing: bool
    reason: str


def matrix_recovery_bound(
    p: Density, gamma: float, nu: float, n_features: int, *, constant: float = _PROOF_CONSTANT
) -> MatrixRecoveryBound:
    """Theorem 3 (35): |M - M^|_F^2 <= C_0 L gamma d / (beta omega), with probability at least 1 - 1/(d + n).

    M is d x n with entries within ``gamma``, d = ``n_features``; in each of its rows the entries are at least ``nu``
    apart, as the proof takes them to be. M^ solves (34). Infinite where beta or omega is 0.

    ``constant`` is C_0, which the paper leaves open: its proof gives 8 e, less will do. Where omega > nu we take nu, as
    the proof then needs. Entries within gamma give |M - M^|_F^2 <= 4 gamma^2 d n without any data: ``trivial_squared``,
    for the most samples with entries nu apart, n = 1 + 2 gamma/nu. (35) is at least 1.07 C_0 times that, for any
    density: the theorem shows what the error depends on, not how large it is.

    >>> from scipy import stats
    >>> bound = matrix_recovery_bound(stats.norm(2.0, 1.0), 1.0, 0.5, n_features=10)
    >>> round(bound.bound_squared), bound.trivial_squared
    (14732807, 200.0)
    >>> matrix_recovery_bound(stats.norm(0.0, 1.0), 1.0, 0.5, n_features=10).reason
    'beta is 0: the density is flat or turns at x = 0, within [-gamma, gamma].'
    """
    p, gamma = density_of(p), positive("gamma", gamma)
    nu, d, constant = _separation(nu, gamma), whole("n_features", n_features), positive("constant", constant)
    (beta, why), steep, least = _flattest_place(p, gamma), steepness(p, gamma), least_probability(p, gamma, nu)
    trivial = 4.0 * gamma * gamma * d * (1.0 + (2.0 * gamma / nu * (1.0 + 1e-12)) // 1.0) if nu > 0.0 else math.inf
    omega = min(least, nu)
    bound = constant * steep * gamma * d / beta / omega if beta > 0.0 and omega > 0.0 else math.inf
    if beta == 0.0:
        reason = f"beta is 0: {why}, within [-gamma, gamma]."
    elif omega == 0.0:
        reason = f"omega is 0: the bias has probability 0 on an interval of length nu = {nu:g} within [-gamma, gamma]."
    elif steep == math.inf:
        reason = "L is infinite: the density begins, ends or jumps within [-gamma, gamma]."
    elif bound >= trivial:
        reason = f"The bound is {bound / trivial:.3g} times the one that entries within gamma give without any data."
    else:
        reason = ""
    return MatrixRecoveryBound(bound, beta, steep, least, trivial, says_nothing=reason != "", reason=reason)


# --- Lemma 1, and Proposition 1 on 1-bit completion ---------------------------------------------


def likelihood_gap(p: Density, gamma: float, nu: float, distance: float) -> float:
    """Lemma 1 (36): E[ L(M) - L(X) ] >= beta omega |M - X|_F^2, for X in the set (29) whatever the biases.

    L is :func:`unrelu.papers.normalized_log_likelihood`, ``distance`` |M - X|_F; beta is :func:`flatness` and omega
    :func:`least_probability`, or nu where that is smaller, as in :func:`matrix_recovery_bound`. So the true M is the
    likeliest on average, by a margin that Theorem 3 turns into an error. The proof uses beta beyond gamma too.

    >>> from scipy import stats
    >>> f"{likelihood_gap(stats.norm(2.0, 1.0), 1.0, 0.5, distance=2.0):.3g}"
    '0.000194'
    """
    p, gamma = density_of(p), positive("gamma", gamma)
    nu, distance = _separation(nu, gamma), not_negative("distance", distance)
    return flatness(p, gamma) * min(least_probability(p, gamma, nu), nu) * distance**2


def one_bit_completion_error(
    rank: int, d: int, n: int, observed: float, *, alpha: float = 1.0, constant: float = 1.0
) -> float:
    """Proposition 1 (22): C_2 alpha sqrt( r (d+n)/E|Omega| ) sqrt( 1 + (d+n) log(d n)/E|Omega| ), for 1-bit completion.

    M is d x n with |M|_* <= alpha sqrt(r d n), and the signs of ``observed`` = E|Omega| of its entries are given. The
    paper prints it as a bound on |M - M^|_F / (d n); Davenport et al. 2014, from where it is, bound the square,
    |M - M^|_F^2 / (d n), and its place between two such results here says the same. ``constant`` is C_2, which depends
    on how flat and steep the distribution of the signs is and is not given.

    >>> round(one_bit_completion_error(rank=2, d=100, n=100, observed=10_000), 4)
    0.2176
    """
    r, d, n = whole("rank", rank), whole("d", d), whole("n", n)
    if r > min(d, n):
        raise InvalidParameterError(f"rank must be at most {min(d, n)}, the smaller of d and n; got {r}.")
    count = number("observed", observed, f"above 0 and at most d n = {d * n}", above=0.0, below=d * n, closed=True)
    scale = positive("constant", constant) * positive("alpha", alpha)
    return scale * math.sqrt(r * (d + n) / count) * math.sqrt(1.0 + (d + n) * math.log(d * n) / count)


# --- Theorem 5 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnSpaceBound:
    """Theorem 5: bounds on ``sine``, |sin Theta|_F, and on ``basis``, |U - U^ O|_F for the best orthogonal O.

    ``says_nothing`` from sine = sqrt(rank), which no r angles exceed.

    >>> column_space_bound(10.0, 25.0, error_spectral=9.0, error_frobenius=9.0, rank=2).says_nothing
    True
    """

    sine: float
    basis: float
    says_nothing: bool


def column_space_bound(
    largest_singular: float, gap: float, error_spectral: float, error_frobenius: float, rank: int
) -> ColumnSpaceBound:
    """Theorem 5 (71), (72): how far an error E turns the space of the r leading left singular vectors of M.

        |sin Theta(U, U^)|_F <= 2 (2 sigma_1 + |E|) min( sqrt(r) |E|, |E|_F )
                                / (sigma_r^2 - sigma_{r+1}^2),

    and sqrt(2) times that bounds |U - U^ O|_F. sigma_1 = ``largest_singular``; ``gap`` is the denominator, a
    difference of squares (sigma_k^2 for M of rank k = r); ``error_spectral`` and ``error_frobenius`` are |E| and |E|_F,
    r = ``rank``. Infinite without a gap. Theorem 3 bounds |E|_F, and so |E|: with it for both this is (45).

    >>> bound = column_space_bound(10.0, 25.0, error_spectral=0.1, error_frobenius=0.15, rank=2)
    >>> round(bound.sine, 4), round(bound.basis, 4), bound.says_nothing
    (0.2274, 0.3216, False)
    """
    sigma, r = positive("largest_singular", largest_singular), whole("rank", rank)
    gap, spectral = not_negative("gap", gap), not_negative("error_spectral", error_spectral)
    frobenius = not_negative("error_frobenius", error_frobenius)
    rounding = 1.0 + 1e-9
    if gap > sigma * sigma * rounding:
        raise InvalidParameterError(
            f"gap is sigma_r^2 - sigma_{{r+1}}^2 and cannot exceed largest_singular^2 = {sigma * sigma:g}, got {gap:g}."
            " Check that both are of the same matrix."
        )
    if spectral > frobenius * rounding:
        raise InvalidParameterError(
            f"error_spectral, {spectral:g}, exceeds error_frobenius, {frobenius:g}; the spectral norm of a matrix is"
            " never the larger. If only one of them is known, give it for both."
        )
    error = min(math.sqrt(r) * spectral, frobenius)
    sine = 0.0 if error == 0.0 else 2.0 * (2.0 * sigma + spectral) * error / gap if gap > 0.0 else math.inf
    return ColumnSpaceBound(sine, math.sqrt(2.0) * sine, says_nothing=sine >= math.sqrt(r))


def _separation(nu: float, gamma: float) -> float:
    words = f"at least 0 and at most 2 gamma = {2.0 * gamma:g}, the length of [-gamma, gamma]"
    return not_negative("nu", nu, words, below=2.0 * gamma)


def _flattest_place(p: Density, gamma: float) -> tuple[float, str]:
    """beta, and in words where and why it is 0."""
    low, high = (float(end) for end in p.support())
    if low > -gamma or high < gamma:
        return 0.0, f"the density is 0 {f'below x = {low:.4g}' if low > -gamma else f'above x = {high:.4g}'}"
    where, slope, log_value = [], [], []
    for piece in log_density(p, gamma):
        if np.isneginf(piece.values).any():
            x = piece.places(NODES)[np.isneginf(piece.values)][0]
            return 0.0, f"the density is 0 at x = {x:.4g}"
        if piece.interpolant is None:
            if piece.jumps:  # only up or down counts
                where.append(np.array([0.5 * (piece.start + piece.stop)]))
                slope.append(piece.values[-1:] - piece.values[:1])
                log_value.append(np.array([math.inf]))
            continue
        # exp(f) f'^2 may be smallest where f' = 0, where f' itself turns, and where f'^2 + 2 f'' = 0
        t = piece.candidates(Chebyshev.deriv, lambda f: f.deriv(2), lambda f: f.deriv() ** 2 + 2.0 * f.deriv(2))
        slopes = piece.slopes(t)
        where.append(piece.places(t))
        slope.append(np.where(np.abs(slopes) <= piece.slope_noise, 0.0, slopes))
        with np.errstate(divide="ignore"):
            log_value.append(piece.interpolant(t) + 2.0 * np.log(np.abs(slopes) / 2.0))
    x, slopes, log_values = (np.concatenate(each) for each in (where, slope, log_value))
    order = np.argsort(x, kind="stable")
    changes = np.flatnonzero(np.diff(np.sign(slopes[order])))
    if (slopes == 0.0).any() or changes.size:
        flat = x[slopes == 0.0]
        turn = float(flat[0] if flat.size else 0.5 * (x[order][changes[0]] + x[order][changes[0] + 1]))
        return 0.0, f"the density is flat or turns at x = {0.0 if abs(turn) < 1e-9 * gamma else turn:.4g}"
    with np.errstate(over="ignore"):
        least = float(np.exp(np.min(log_values)))
    return least, f"the density all but vanishes at x = {x[np.argmin(log_values)]:.4g}"


# --- the layer as a linear one ------------------------------------------------------------------


def linear_image(p: Any, norm: float = 1.0) -> tuple[float, float, float]:
    """(58), for Theorem 4: (mu, sigma, eta) of a layer whose biases follow ``p``, at |c| = ``norm``.

    ReLU(A c + b) is mu A c and a rest; sigma and eta are the size of the rest.

    ``p`` is a frozen distribution of scipy.stats, continuous or discrete, or the biases themselves: an array, each as
    likely as the others, or a number. With g standard normal, n = |c| and z = ReLU(n g + b) - mu n g,

        mu = E[ReLU(n g + b) g] / n,   sigma^2 = E[z^2],   eta^2 = E[g^2 z^2],

    so that c^ of (47) is near mu c for any n. Stein's identity, E[g f(g)] = E[f'(g)], leaves expectations over b only.
    With a = b/n and S(a) = E[ReLU(g + a)^2] = (a^2 + 1) Phi(a) + a phi(a):

        mu = E[Phi(a)],   sigma^2 = n^2 (E[S(a)] - mu^2),
        eta^2 = sigma^2 + 2 n^2 mu (1 + E[a phi(a)] - mu).

    sigma and eta are infinite where p has no variance (unless it has an upper end).

    >>> mu, sigma, eta = linear_image(0.0)  # no biases: 1/2, 1/2, sqrt(3)/2
    >>> mu, sigma, round(eta, 6)
    (0.5, 0.5, 0.866025)
    >>> from scipy import stats
    >>> round(linear_image(stats.norm(1.0, 2.0))[0], 6)  # Phi(1/sqrt(5))
    0.67264
    """
    mean, square_integrable = expectation(p)
    return _image(mean, square_integrable, positive("norm", norm))


def _image(mean: Mean, square_integrable: bool, n: float) -> tuple[float, float, float]:
    def phi(a: FloatArray) -> FloatArray:
        density: FloatArray = np.exp(-0.5 * np.minimum(np.abs(a), 50.0) ** 2) / math.sqrt(2.0 * math.pi)
        return density

    cuts = (-_REACH * n, 0.0, _REACH * n)
    mu = min(mean(lambda b: ndtr(b / n), cuts), 1.0)
    if not square_integrable:
        return mu, math.inf, math.inf
    bump = mean(lambda b: b / n * phi(b / n), cuts)
    square = mean(lambda b: ((b / n) ** 2 + 1.0) * ndtr(b / n) + b / n * phi(b / n), cuts)  # S(a)
    sigma2 = max(square - mu * mu, 0.0)
    eta2 = max(sigma2 + 2.0 * mu * (1.0 + bump - mu), 0.0)
    return mu, n * math.sqrt(sigma2), n * math.sqrt(eta2)


# --- Theorem 4 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LatentRecoveryBound:
    """Theorem 4: ``bound`` on |mu c - c^| + |e - e^|/sqrt(d), the larger of ``latent_term`` and ``outlier_term``.

    ``says_nothing`` where it is no less than ``mu``: c^ = 0 is as good. ``reason`` then says why, else it is empty.

    >>> bound = latent_recovery_bound(0.0, n_features=100, rank=4, n_outliers=10, noise_bound=0.0)
    >>> bound.says_nothing
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
    the biases' distribution ``p`` as in :func:`linear_image`. c itself is c^/mu, with an error of bound/mu.

    (57) leaves C open: 1 holds in mean square, 4.5 with probability .95. For w independent of A, |A'w|_inf <= delta
    sqrt(2 d log(2 k/.05)) with probability .95: we take this, as (67) does. The proof needs lambda >= 2 |z + w|_inf/d;
    by default ``lambda_`` is 2 (q + delta)/d where q solves d P(|z_i| > q) = .05, a union bound. The bound is infinite
    for a smaller one, of which the theorem does not speak.

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
    mean, square_integrable = expectation(p)
    mu, sigma, eta = _image(mean, square_integrable, 1.0)
    least = 2.0 * (_largest_rest(mean, mu, d) + delta) / d
    penalty = least if given is None else given
    correlation = delta * math.sqrt(2.0 * d * math.log(2.0 * k / _FAILURE))
    rest = constant * (math.sqrt(k) * sigma + eta) / math.sqrt(d)
    latent = _PROOF_FACTOR * (rest + math.sqrt(k) / d * correlation)
    outlier = _PROOF_FACTOR * 2.0 * penalty * math.sqrt(s * d)
    bound = max(latent, outlier)
    if penalty < least * (1.0 - 1e-9):
        bound = math.inf
        reason = f"lambda_ is {penalty:g}; the theorem needs at least 2 |z + w|_inf / d, which may be {least:g}."
    elif bound == math.inf:
        reason = "sigma and eta are infinite: the bias has no variance."
    elif bound >= mu:
        times = f"{bound / mu:.3g} times " if mu > 0.0 else f"{bound:.3g}, not below "
        reason = f"The bound is {times}mu = {mu:.3g}, the error of c^ = 0."
    else:
        reason = ""
    return LatentRecoveryBound(bound, latent, outlier, mu, penalty, says_nothing=reason != "", reason=reason)


def latent_recovery_rate(n_features: int, rank: int, n_outliers: int) -> float:
    """Theorem 4, (49) and (67): max( sqrt(k log k / d), sqrt(s log d / d) ), without its constant.

    The constant hides delta, sigma and eta. As printed the first term is 0 for k = 1, where (66) is not; the paper's
    introduction has sqrt((k + s) log d / d) instead.

    >>> rate = latent_recovery_rate(n_features=1000, rank=10, n_outliers=5)
    >>> round(rate, 4)  # sqrt(5 log(1000) / 1000)
    0.1858
    """
    d, k, s = whole("n_features", n_features), whole("rank", rank), whole("n_outliers", n_outliers, least=0)
    return max(math.sqrt(k * math.log(k) / d), math.sqrt(s * math.log(d) / d))


def _largest_rest(mean: Mean, mu: float, d: int) -> float:
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
