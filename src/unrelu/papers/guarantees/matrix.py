"""Mazumdar and Rawat (2018): how well the matrix M behind Y = ReLU(M + b 1') can be learned, and its column space.

The paper writes samples as columns: M = A C is d x n, and every coordinate i has one random bias b_i with density p,
the same for all samples. (In our tables, where rows are samples, the bias is shared along a column.) Theorem 3 bounds
the error of the constrained maximum likelihood (34) by three numbers of the density on [-gamma, gamma], which holds
the entries of M: beta (:func:`flatness`), L (:func:`steepness`) and omega (:func:`least_probability`). Theorem 5, of
Yu, Wang and Samworth (2015), turns an error of M into an error of its column space.

Relation to 1-bit matrix completion (Davenport, Plan, van den Berg and Wootters 2014; (18) to (22) in the paper). The
same: a random threshold stands between a low-rank matrix and what is seen, so that the entries' likelihood is known up
to M; it is maximised over matrices with entries within gamma; a bound on the nuclear norm may stand in for the rank;
the error depends on how flat and how steep the threshold's law is. What differs: there every entry is compared with a
threshold of its own and only the sign is told, of a random part of the entries; here all samples of a coordinate share
one threshold, and whatever exceeds it is seen exactly. So differences of positive entries are known without error, one
coordinate teaches about b but once however many samples there are, and the sums that concentrate have d terms, not d n.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev, chebpts2, chebvander
from scipy import integrate, stats

from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.papers.guarantees.arguments import not_negative, number, positive, whole
from unrelu.validation import listed

_PROOF_CONSTANT = 8.0 * math.e  # see matrix_recovery_bound
_DEGREE = 24
_NODES = chebpts2(_DEGREE + 1)
_TO_COEFFICIENTS = np.linalg.inv(chebvander(_NODES, _DEGREE))
_TO_HALF = np.linalg.inv(chebvander(_NODES[::2], _DEGREE // 2))
_HALVINGS = 20
_MOST_PIECES = 3000
_MOST_TO_LOCATE = 400  # for places where a function is computed once more
_RESOLVED = 2e-14  # of the scale: the last coefficients of a piece that needs no further halving
_AGREED = 1e-8  # or slopes that interpolants of degrees 24 and 12 agree on so well: all to be had if p has noise
_JUMP = 1e-3  # in log p, within a millionth of the piece we began with
_EPSILON = float(np.finfo(np.float64).eps)
_Function: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Density(Protocol):
    """What we ask of a frozen continuous distribution of scipy.stats."""

    def pdf(self, x: Any, /) -> Any: ...
    def logpdf(self, x: Any, /) -> Any: ...
    def cdf(self, x: Any, /) -> Any: ...
    def logcdf(self, x: Any, /) -> Any: ...
    def sf(self, x: Any, /) -> Any: ...
    def ppf(self, q: Any, /) -> Any: ...
    def support(self) -> tuple[Any, Any]: ...


# --- the density's three numbers ----------------------------------------------------------------


def flatness(p: Density, gamma: float) -> float:
    """(7), for Theorem 3: beta_gamma(p) = inf over |x| <= gamma of p'(x)^2 / (4 p(x)), the square of sqrt(p)'.

    ``p`` is a frozen continuous distribution of scipy.stats, of the bias. Exactly 0 where p has a mode or another
    stationary point in [-gamma, gamma] (a normal density with |mean| <= gamma, say), where it is 0, and where its slope
    cannot be told from 0 in double precision. A peak with a kink counts as a mode, although (7) leaves its one point
    out: the theorem asks for a derivative, and its proof for a density that rises or falls throughout.

    >>> from scipy import stats
    >>> round(flatness(stats.norm(2.0, 1.0), 1.0), 6)  # at x = -1: (9/4) phi(3)
    0.009972
    >>> flatness(stats.norm(0.5, 1.0), 1.0)
    0.0
    """
    return _flattest_place(_density(p), positive("gamma", gamma))[0]


def steepness(p: Density, gamma: float) -> float:
    """(8), for Theorem 3: L_gamma(p), the larger of sup p(x) / P(B <= x) and sup |p'(x)| / p(x) over |x| <= gamma.

    The paper prints p'(x) / p(x); its proof needs a Lipschitz constant of log p, hence the modulus, which makes a
    difference for a falling density. Infinite if p vanishes, begins, ends or jumps in [-gamma, gamma], or if log P(B <=
    -gamma) is beyond double precision. For a log-concave density that rises it is p / P at x = -gamma.

    >>> from scipy import stats
    >>> round(steepness(stats.norm(2.0, 1.0), 1.0), 4)  # phi(3) / Phi(-3)
    3.2831
    """
    p, gamma = _density(p), positive("gamma", gamma)
    with np.errstate(all="ignore"):
        if np.isneginf(p.logcdf(-gamma)):
            return math.inf
    pieces = _log_density(p, gamma)
    if any(piece.jumps for piece in pieces):
        return math.inf
    steepest = max(float(np.max(np.abs(piece.slopes(piece.extremes(order=2))), initial=0.0)) for piece in pieces)

    def log_ratio(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        density, below = p.logpdf(x), p.logcdf(x)
        return density - below, 1.0 + np.abs(density)

    x = _extremes(log_ratio, _breaks_of(p, -gamma, gamma))
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
    p, gamma = _density(p), positive("gamma", gamma)
    nu = _separation(nu, gamma)
    if nu == 0.0:
        return 0.0

    def probability(u: FloatArray) -> tuple[FloatArray, FloatArray]:
        below, above = p.cdf(u + nu), p.sf(u)
        return np.where(below < above, below - p.cdf(u), above - p.sf(u + nu)), np.minimum(below, above)

    last = max(gamma - nu, -gamma)
    places = _extremes(probability, _breaks_of(p, -gamma, last, shift=nu))
    with np.errstate(all="ignore"):
        least = float(places[np.argmin(probability(places)[0])])
    return min(_interval_probability(p, u, nu) for u in (-gamma, least, last))


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

    The constant. The paper leaves C_0 open, and the end of its proof, "C_0 >= 4/e and t = log(d + n)", does not close:
    (4/C)^t <= 1/(d + n) for that t is C >= 4 e, while 4/e gives d + n. The supremum is then at most 4 e L gamma d, and
    (38) doubles it: C_0 = 8 e = 21.7, the default. Less will do. (41) holds for every t, which makes the supremum at
    most 4 L gamma d almost surely: C_0 = 8. And its terms are at most L gamma each, so that no sum strays further than
    2 L gamma d from its mean, without any probability: C_0 = 4.

    The least probability. Step (iii) of (80) replaces an integral over an interval by omega, its probability; what it
    has is its length, nu or more. Where p <= 1, as (7) supposes, omega <= nu and the step holds. Where omega > nu we
    take nu, as the proof then needs. (It uses beta, L and omega beyond gamma too, where p must fall; we follow (35).)

    What it says. Entries within gamma give |M - M^|_F^2 <= 4 gamma^2 d n without any data: ``trivial_squared``, for
    the most samples with entries nu apart, n = 1 + 2 gamma/nu. (35) is never below that: sqrt(p) changes at a rate of
    at least sqrt(beta), p at a rate of at most L p, so that 1 >= P(|B| <= gamma) >= 8/3 beta ((1/L + gamma)^3 - 1/L^3),
    and (35) is at least 1.07 C_0 times the trivial bound, for any density. The theorem tells what the error depends
    on, not how large it is: ``says_nothing`` can be False only for a ``constant`` below .93.

    >>> from scipy import stats
    >>> bound = matrix_recovery_bound(stats.norm(2.0, 1.0), 1.0, 0.5, n_features=10)
    >>> round(bound.bound_squared), bound.trivial_squared
    (14732807, 200.0)
    >>> matrix_recovery_bound(stats.norm(0.0, 1.0), 1.0, 0.5, n_features=10).reason
    'beta is 0: the density is flat or turns at x = 0, within [-gamma, gamma].'
    """
    p, gamma = _density(p), positive("gamma", gamma)
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
    p, gamma = _density(p), positive("gamma", gamma)
    nu, distance = _separation(nu, gamma), not_negative("distance", distance)
    return flatness(p, gamma) * min(least_probability(p, gamma, nu), nu) * distance**2


def one_bit_completion_error(
    rank: int, d: int, n: int, observed: float, *, alpha: float = 1.0, constant: float = 1.0
) -> float:
    """Proposition 1 (22): C_2 alpha sqrt( r (d+n)/E|Omega| ) sqrt( 1 + (d+n) log(d n)/E|Omega| ), for 1-bit completion.

    M is d x n with |M|_* <= alpha sqrt(r d n), and the signs of ``observed`` = E|Omega| of its entries are told. The
    paper prints it as a bound on |M - M^|_F / (d n); Davenport et al. 2014, from where it is, bound the square,
    |M - M^|_F^2 / (d n), and its place between two such results here says the same. ``constant`` is C_2, which depends
    on how flat and steep the law of the signs is and is not given.

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

        |sin Theta(U, U^)|_F <= 2 (2 sigma_1 + |E|) min( sqrt(r) |E|, |E|_F ) / (sigma_r^2 - sigma_{r+1}^2),

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


# --- checks -------------------------------------------------------------------------------------


def _density(p: Any) -> Density:
    """``p`` if it is one distribution with a density, all its parameters given and valid."""
    example = "Give a frozen continuous distribution of scipy.stats, such as scipy.stats.norm(2.0, 1.0)."
    if isinstance(p, stats.rv_continuous):
        raise InvalidParameterError(f"p is the family {p.name!r} without parameters. {example}")
    if isinstance(getattr(p, "dist", None), stats.rv_discrete):
        raise InvalidParameterError(f"p is discrete ({p.dist.name}) and has no density. {example}")
    if not isinstance(getattr(p, "dist", None), stats.rv_continuous):
        raise InvalidParameterError(f"p must be a distribution with a density, got {type(p).__name__}. {example}")
    ends = np.asarray(p.support(), dtype=np.float64)
    if ends.shape != (2,):
        raise InvalidParameterError(f"p stands for {ends[0].size} distributions; take one of them. {example}")
    if not ends[0] < ends[1]:
        words = listed([f"{value!r}" for value in p.args] + [f"{name}={value!r}" for name, value in p.kwds.items()])
        raise InvalidParameterError(f"p, {p.dist.name}({words}), has parameters outside their domain. {example}")
    return cast(Density, p)


def _separation(nu: float, gamma: float) -> float:
    words = f"at least 0 and at most 2 gamma = {2.0 * gamma:g}, the length of [-gamma, gamma]"
    return not_negative("nu", nu, words, below=2.0 * gamma)


# --- densities on an interval, piece by piece ---------------------------------------------------
#
# Extremes of smooth functions from Chebyshev interpolants, halved until resolved; kinks, jumps, poles and regions
# without density end pieces of their own.


@dataclass(frozen=True)
class _Piece:
    """A function on [start, stop]: its values at Chebyshev's points, and where it is smooth its interpolant."""

    start: float
    stop: float
    values: FloatArray
    interpolant: Chebyshev | None = None
    slope_noise: float = math.inf

    def places(self, t: FloatArray) -> FloatArray:
        """x of t in [-1, 1]; the ends exactly."""
        x = 0.5 * (self.start + self.stop) + 0.5 * (self.stop - self.start) * t
        return np.where(t == -1.0, self.start, np.where(t == 1.0, self.stop, x))

    def slopes(self, t: FloatArray) -> FloatArray:
        """Derivatives in x; none of a piece that is not smooth."""
        if self.interpolant is None:
            return np.empty(0)
        return np.asarray(self.interpolant.deriv()(t) * (2.0 / (self.stop - self.start)), dtype=np.float64)

    @property
    def jumps(self) -> bool:
        """A jump, a pole or a zero of p; not a kink, nor the seam of two formulas for p."""
        return self.interpolant is None and not np.ptp(self.values) <= _JUMP

    def extremes(self, order: int) -> FloatArray:
        """The nodes and the zeros of the order-th derivative: where the one before it may be largest or smallest."""
        return self._with_zeros(None if self.interpolant is None else self.interpolant.deriv(order))

    def flat_candidates(self) -> FloatArray:
        """Where exp(f) f'^2 may be smallest: f' = 0 or f'^2 + 2 f'' = 0, and where f' itself turns."""
        if self.interpolant is None:
            return _NODES
        first, second = self.interpolant.deriv(), self.interpolant.deriv(2)
        zeros = [self._with_zeros(first), self._with_zeros(second), self._with_zeros(first * first + 2.0 * second)]
        return np.unique(np.concatenate(zeros))

    @staticmethod
    def _with_zeros(polynomial: Chebyshev | None) -> FloatArray:
        """The nodes and the zeros near [-1, 1]; of complex ones the real part, a place as good as any."""
        if polynomial is None or not np.any(polynomial.coef):
            return _NODES
        trimmed = polynomial.trim(_EPSILON * float(np.max(np.abs(polynomial.coef))))
        zeros = np.real(trimmed.roots())
        return np.unique(np.concatenate([_NODES, zeros[np.abs(zeros) < 1.0]]))


def _pieces(function: _Function, breaks: FloatArray, most: int) -> list[_Piece]:
    """``function`` between the breaks, halved until polynomials of degree 24 follow it to rounding.

    The function also says how large the numbers are that its values are a difference of: its rounding goes with them.
    At a kink, jump or pole halving ends with a piece that is not smooth, as it does everywhere once there are ``most``
    pieces. Values of -inf are not looked into.
    """
    done: list[_Piece] = []
    reach = max(abs(float(breaks[0])), abs(float(breaks[-1])))
    todo = deque((float(a), float(b), 0) for a, b in pairwise(breaks))
    while todo:
        start, stop, halvings = todo.popleft()
        places = _Piece(start, stop, _NODES).places(_NODES)
        with np.errstate(all="ignore"):
            values, sizes = function(places)
        if np.isnan(values).any():
            x = places[np.isnan(values)][0]
            raise InvalidParameterError(f"The density of p is not a number at x = {x:g}: check p's parameters.")
        with np.errstate(all="ignore"):  # the values' rounding, and that of x where they are steep
            scale = float(np.max(sizes) + reach * np.max(np.abs(np.diff(values) / np.diff(places))))
        piece = _interpolated(start, stop, values, scale, float(breaks[-1] - breaks[0]))
        last = np.isneginf(values).any() or halvings == _HALVINGS or len(done) + len(todo) > most
        if piece.interpolant is not None or last:
            done.append(piece)
        else:
            middle = 0.5 * (start + stop)
            todo += [(start, middle, halvings + 1), (middle, stop, halvings + 1)]
    return sorted(done, key=lambda piece: piece.start)


def _interpolated(start: float, stop: float, values: FloatArray, scale: float, width: float) -> _Piece:
    """The piece with its interpolant, if that can be trusted: see _RESOLVED and _AGREED."""
    if not np.isfinite(values).all():
        return _Piece(start, stop, values)
    coefficients = _TO_COEFFICIENTS @ values
    tail = float(np.max(np.abs(coefficients[-4:])))
    noise = tail + 8.0 * _EPSILON * scale
    full, half = Chebyshev(coefficients).trim(0.5 * noise), Chebyshev(_TO_HALF @ values[::2])
    per_x = 2.0 / (stop - start)
    if tail <= _RESOLVED * scale:
        return _Piece(start, stop, values, full, (full.degree() ** 2 + 1) * noise * per_x)
    slopes = full.deriv()(_NODES) * per_x
    difference = float(np.max(np.abs(slopes - half.deriv()(_NODES) * per_x)))
    agreed = difference <= _AGREED * (float(np.max(np.abs(slopes))) + scale / width)
    return _Piece(start, stop, values, full, difference) if agreed else _Piece(start, stop, values)


def _extremes(function: _Function, breaks: FloatArray) -> FloatArray:
    """Where ``function`` may be largest or smallest."""
    pieces = _pieces(function, breaks, most=_MOST_TO_LOCATE)
    return np.concatenate([breaks, *(piece.places(piece.extremes(order=1)) for piece in pieces)])


def _breaks_of(p: Density, start: float, stop: float, shift: float = 0.0) -> FloatArray:
    """From ``start`` to ``stop`` in steps that grow away from p's median (also shifted), not too near each other."""
    with np.errstate(all="ignore"):
        lower, median, upper = (float(quantile) for quantile in p.ppf([0.25, 0.5, 0.75]))
    spread, width = upper - lower, stop - start
    if width <= 0.0 or not 0.0 < spread < math.inf:
        return np.unique([start, stop])
    steps = spread * 4.0 ** np.arange(-1.0, max(math.log(width / spread, 4.0), 0.0) + 1.0)
    candidates = np.concatenate([median - steps, [median], median + steps])
    apart = 1e-3 * min(width, spread)
    kept = [start]
    for x in np.unique(np.concatenate([candidates, candidates - shift])):
        if kept[-1] + apart < x < stop - apart:
            kept.append(float(x))
    return np.array([*kept, stop])


def _log_density(p: Density, gamma: float) -> list[_Piece]:
    """log p on [-gamma, gamma]; all but a thousandth of it must be smooth, or 0."""

    def log_density(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = np.asarray(p.logpdf(x), dtype=np.float64)
        return values, 1.0 + np.abs(values)

    pieces = _pieces(log_density, _breaks_of(p, -gamma, gamma), most=_MOST_PIECES)
    if any(np.isneginf(piece.values).any() for piece in pieces):
        return pieces
    if sum(piece.stop - piece.start for piece in pieces if piece.interpolant is None) > 2e-3 * gamma:
        raise InvalidParameterError(
            f"The density of p has kinks or noise throughout [{-gamma:g}, {gamma:g}] and no derivative to speak of:"
            " Theorem 3 needs one. Give a smooth density near p."
        )
    return pieces


def _flattest_place(p: Density, gamma: float) -> tuple[float, str]:
    """beta, and in words where and why it is 0."""
    low, high = (float(end) for end in p.support())
    if low > -gamma or high < gamma:
        return 0.0, f"the density is 0 {f'below x = {low:.4g}' if low > -gamma else f'above x = {high:.4g}'}"
    where, slope, log_value = [], [], []
    for piece in _log_density(p, gamma):
        if np.isneginf(piece.values).any():
            x = piece.places(_NODES)[np.isneginf(piece.values)][0]
            return 0.0, f"the density is 0 at x = {x:.4g}"
        if piece.interpolant is None:
            if piece.jumps:  # only up or down counts
                where.append(np.array([0.5 * (piece.start + piece.stop)]))
                slope.append(piece.values[-1:] - piece.values[:1])
                log_value.append(np.array([math.inf]))
            continue
        t = piece.flat_candidates()
        slopes = piece.slopes(t)
        where.append(piece.places(t))
        slope.append(np.where(np.abs(slopes) <= piece.slope_noise, 0.0, slopes))
        with np.errstate(divide="ignore"):
            log_value.append(piece.interpolant(t) + 2.0 * np.log(np.abs(slopes) / 2.0))
    x, turn = np.concatenate(where), _first_turn(np.concatenate(where), np.concatenate(slope))
    if turn is not None:
        return 0.0, f"the density is flat or turns at x = {0.0 if abs(turn) < 1e-9 * gamma else turn:.4g}"
    log_values = np.concatenate(log_value)
    with np.errstate(over="ignore"):
        least = float(np.exp(np.min(log_values)))
    return least, f"the density all but vanishes at x = {x[np.argmin(log_values)]:.4g}"


def _first_turn(x: FloatArray, slope: FloatArray) -> float | None:
    """Where the slope is 0 or first changes its sign, if anywhere."""
    if (slope == 0.0).any():
        return float(x[slope == 0.0][0])
    order = np.argsort(x, kind="stable")
    signs = np.sign(slope[order])
    changes = np.flatnonzero(signs[1:] != signs[:-1])
    return None if changes.size == 0 else float(0.5 * (x[order][changes[0]] + x[order][changes[0] + 1]))


def _interval_probability(p: Density, start: float, length: float) -> float:
    """P(start <= B <= start + length), from the nearer tail, or where that would lose digits by quadrature."""
    with np.errstate(all="ignore"):
        stop = start + length
        below, above = float(p.cdf(stop)), float(p.sf(start))
        probability = below - float(p.cdf(start)) if below < above else above - float(p.sf(stop))
        if probability < 1e-4 * min(below, above):
            probability = float(integrate.quad(lambda x: p.pdf(start + x), 0.0, length, epsabs=0.0, epsrel=1e-11)[0])
    return min(max(probability, 0.0), 1.0)
