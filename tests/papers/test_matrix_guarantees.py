"""Mazumdar and Rawat 2018, Theorems 3 and 5, against grids, quadrature, other formulas, and random matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from unrelu import guarantees
from unrelu.contracts import FloatArray
from unrelu.errors import InvalidParameterError


class _TwoNormals(stats.rv_continuous):
    """A mixture, of which scipy has none: shares w and 1 - w."""

    def _argcheck(self, w: Any, m1: Any, s1: Any, m2: Any, s2: Any) -> Any:
        return (w > 0) & (w < 1) & (s1 > 0) & (s2 > 0)

    def _pdf(self, x: Any, w: Any, m1: Any, s1: Any, m2: Any, s2: Any) -> Any:
        return w * stats.norm.pdf(x, m1, s1) + (1 - w) * stats.norm.pdf(x, m2, s2)

    def _cdf(self, x: Any, w: Any, m1: Any, s1: Any, m2: Any, s2: Any) -> Any:
        return w * stats.norm.cdf(x, m1, s1) + (1 - w) * stats.norm.cdf(x, m2, s2)

    def _sf(self, x: Any, w: Any, m1: Any, s1: Any, m2: Any, s2: Any) -> Any:
        return w * stats.norm.sf(x, m1, s1) + (1 - w) * stats.norm.sf(x, m2, s2)


class _ExpCube(stats.rv_continuous):
    """p ~ exp(x^3) on [-2, 2]: it rises throughout, but its slope is 0 at x = 0."""

    def _pdf(self, x: Any) -> Any:
        return np.exp(x**3) / 248.7128421365218


class _TwoSlopes(stats.rv_continuous):
    """exp(x) below 0 and exp(3 x) above, up to 1: a kink at 0, where the density is no mode."""

    def _pdf(self, x: Any) -> Any:
        return np.exp(np.where(x < 0.0, x, 3.0 * x)) / (1.0 + (math.exp(3.0) - 1.0) / 3.0)

    def _cdf(self, x: Any) -> Any:
        below = np.exp(np.minimum(x, 0.0)) + np.expm1(3.0 * np.clip(x, 0.0, 1.0)) / 3.0
        return below / (1.0 + (math.exp(3.0) - 1.0) / 3.0)


class _Sawtooth(stats.rv_continuous):
    """It rises as exp(x) but for a fall by half at .1; on (-inf, 1]."""

    mass = math.exp(0.1) + 0.5 * (math.e - math.exp(0.1))

    def _pdf(self, x: Any) -> Any:
        return np.exp(x) * np.where(x < 0.1, 1.0, 0.5) / self.mass

    def _cdf(self, x: Any) -> Any:
        return (np.exp(np.minimum(x, 0.1)) + 0.5 * (np.exp(np.maximum(x, 0.1)) - math.exp(0.1))) / self.mass


two_normals, exp_cube = _TwoNormals(name="two_normals"), _ExpCube(a=-2.0, b=2.0, name="exp_cube")
two_slopes = _TwoSlopes(b=1.0, name="two_slopes")
SHOULDER = two_normals(0.1, -0.6, 0.8, 2.5, 1.2)  # rises on [-1, 1], slowest near -.28
VALLEY = two_normals(0.4, -2.0, 0.6, 2.5, 0.7)  # two modes, and a valley near 0

RISING_OR_FALLING = [
    (stats.norm(2.0, 1.0), 1.0),
    (stats.norm(-3.0, 0.7), 2.0),
    (stats.norm(1.0 + 1e-4, 1.0), 1.0),
    (stats.cauchy(1.2), 1.0),
    (stats.logistic(4.0, 0.8), 1.5),
    (stats.gumbel_r(1.5), 1.0),
    (stats.gamma(5.0, loc=-2.0), 1.0),
    (stats.t(3.0, loc=-30.0), 7.0),
    (stats.expon(-2.0), 1.0),
    (stats.lognorm(1.0, loc=-20.0), 2.0),
    (two_normals(0.3, -3.0, 1.0, 3.0, 2.0), 0.5),
]


def _near(expected: Any, rel: float) -> Any:
    """Without pytest's absolute tolerance of 1e-12: many numbers here are smaller."""
    return pytest.approx(expected, rel=rel, abs=0.0)


def _id(value: Any) -> str:
    return f"{value.dist.name}{value.args}" if hasattr(value, "dist") else str(value)


def _central(p: Any, x: FloatArray, gamma: float) -> FloatArray:
    """p'(x), by an eighth-order difference of p itself."""
    h = 2e-3 * min(gamma, p.ppf(0.75) - p.ppf(0.25))
    pairs = [(1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280)]
    return np.asarray(sum(c * (p.pdf(x + k * h) - p.pdf(x - k * h)) for k, c in pairs) / h)


# --- beta, (7) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "gamma"), RISING_OR_FALLING, ids=_id)
def test_flatness_is_the_least_of_a_dense_grid(p: Any, gamma: float) -> None:
    x = np.linspace(-gamma, gamma, 20_001)
    expected = np.min(_central(p, x, gamma) ** 2 / (4 * p.pdf(x)))
    assert guarantees.flatness(p, gamma) == _near(expected, rel=1e-7)


def test_flatness_of_densities_with_closed_forms() -> None:
    x = np.linspace(-1.0, 1.0, 5)
    for mean, s in ((2.0, 1.0), (-1.5, 0.4), (40.0, 7.0)):
        ends = np.array([-1.0, 1.0])  # p (x - m)^2 / (4 s^4), least at one of them
        exact = min(stats.norm.pdf(ends, mean, s) * (ends - mean) ** 2) / (4 * s**4)
        assert guarantees.flatness(stats.norm(mean, s), 1.0) == _near(exact, rel=1e-12)
    assert guarantees.flatness(stats.expon(-2.0, 0.5), 1.0) == _near(2.0 * math.exp(-6.0), rel=1e-12)
    assert guarantees.flatness(stats.laplace(1.0), 1.0) == _near(min(np.exp(x - 1.0)) / 8, rel=1e-12)
    assert guarantees.flatness(two_slopes(), 0.9) == _near(two_slopes().pdf(-0.9) / 4, rel=1e-8)


def test_flatness_finds_a_shoulder_inside() -> None:
    p, gamma = SHOULDER, 1.0
    x = np.linspace(-gamma, gamma, 200_001)
    values = _central(p, x, gamma) ** 2 / (4 * p.pdf(x))
    assert 1_000 < np.argmin(values) < 199_000
    assert 0.0 < guarantees.flatness(p, gamma) == _near(values.min(), rel=1e-6)


@pytest.mark.parametrize("mean", [0.0, 0.3, -0.999, 1.0 - 1e-12, 1.0, -1.0, 0.12345])
@pytest.mark.parametrize("s", [1e-4, 0.3, 1.0, 50.0])
def test_flatness_is_exactly_0_with_a_mode_within(mean: float, s: float) -> None:
    assert guarantees.flatness(stats.norm(mean, s), 1.0) == 0.0


@pytest.mark.parametrize(
    "p",
    [
        stats.t(2.5, loc=0.7, scale=1e-3),
        stats.laplace(0.2, 0.5),  # a mode with a kink
        stats.dgamma(0.5),  # a mode with a pole
        stats.uniform(-3.0, 7.0),
        stats.beta(0.5, 0.5, -2.0, 4.1),  # a valley
        VALLEY,
        exp_cube(),
        _Sawtooth(b=1.0, name="sawtooth")(),
        stats.expon(),  # 0 below 0
        stats.expon(-0.999),
        stats.uniform(-4.0, 4.5),
        stats.rv_histogram((np.array([1.0, 2.0, 3.0]), np.array([-1.5, -0.5, 0.5, 1.5]))).freeze(),
        stats.norm(60.0, 1.0),  # all but 0
    ],
    ids=_id,
)
def test_flatness_is_exactly_0_where_the_density_is_flat_or_0(p: Any) -> None:
    assert guarantees.flatness(p, 1.0) == 0.0


def test_flatness_near_a_mode_keeps_its_digits() -> None:
    for h in (1e-3, 1e-6, 1e-9):
        mean = 1.0 + h
        exact = (mean - 1.0) ** 2 * stats.norm.pdf(0.0) / 4
        assert guarantees.flatness(stats.norm(mean, 1.0), 1.0) == _near(exact, rel=1e-3 * 1e-9 / h + 1e-6)


def test_a_noisy_density_will_do() -> None:
    class Noisy(stats.rv_continuous):
        def _logpdf(self, x: Any) -> Any:
            return stats.norm.logpdf(x, 2.0, 1.0) + 1e-11 * np.sin(1e9 * x)

        def _cdf(self, x: Any) -> Any:
            return stats.norm.cdf(x, 2.0, 1.0)

    p = Noisy(name="noisy")()
    assert guarantees.flatness(p, 1.0) == _near(2.25 * stats.norm.pdf(3.0), rel=1e-6)
    assert guarantees.steepness(p, 1.0) == _near(stats.norm.pdf(3.0) / stats.norm.cdf(-3.0), rel=1e-6)


# --- L, (8) -------------------------------------------------------------------------------------


BENT = [pytest.param(*case, marks=pytest.mark.slow) for case in ((VALLEY, 3.0), (SHOULDER, 2.0))]


@pytest.mark.parametrize(("p", "gamma"), [*RISING_OR_FALLING, (stats.norm(0.2, 0.7), 1.0), *BENT], ids=_id)
def test_steepness_is_the_most_of_a_dense_grid(p: Any, gamma: float) -> None:
    x = np.linspace(-gamma, gamma, 4_001)
    low = p.support()[0] if np.isfinite(p.support()[0]) else -np.inf
    log_slope = np.abs(_central(p, x, gamma)) / p.pdf(x)
    coarse = x[::800]
    with np.errstate(over="ignore"):
        below = [integrate.quad(p.pdf, low, end, epsabs=1e-13, limit=200)[0] for end in coarse]
    assert p.cdf(coarse) == pytest.approx(below, rel=1e-6, abs=1e-12)
    expected = max(log_slope.max(), (p.pdf(x) / p.cdf(x)).max())
    assert guarantees.steepness(p, gamma) == _near(expected, rel=1e-5)


def test_steepness_of_densities_with_closed_forms() -> None:
    mills = stats.norm.pdf(3.0) / stats.norm.cdf(-3.0)
    assert guarantees.steepness(stats.norm(2.0, 1.0), 1.0) == _near(mills, rel=1e-12)
    assert guarantees.steepness(stats.gumbel_r(3.0), 1.0) == pytest.approx(math.exp(4.0), rel=1e-12)  # p / P = exp(3-x)
    # falling: |p'| / p = 6, while p' / p is negative and p / P(B <= x) at most 0.009
    assert guarantees.steepness(stats.norm(-5.0, 1.0), 1.0) == _near(6.0, rel=1e-9)
    assert guarantees.steepness(stats.cauchy(), 2.0) == pytest.approx(1.0, rel=1e-9)  # 2 x / (1 + x^2), inside
    narrow = stats.t(3.0, scale=1e-8)  # 4 x / (3 + x^2) in its units, at sqrt(3)
    assert guarantees.steepness(narrow, 1.0) == _near(2e8 / math.sqrt(3.0), rel=1e-5)
    assert guarantees.steepness(two_slopes(), 0.9) == _near(3.0, rel=1e-6)


@pytest.mark.parametrize(
    "p",
    [
        stats.expon(),
        stats.expon(-1.0),  # begins at -gamma: no probability below
        stats.uniform(-4.0, 4.5),  # ends within
        stats.dgamma(0.5),
        stats.dweibull(2.0),  # 0 at 0
        _Sawtooth(b=1.0, name="sawtooth")(),
        stats.rv_histogram((np.array([1.0, 2.0, 3.0]), np.array([-1.5, -0.5, 0.5, 1.5]))).freeze(),
    ],
    ids=_id,
)
def test_steepness_is_infinite_where_the_density_begins_ends_or_jumps(p: Any) -> None:
    assert guarantees.steepness(p, 1.0) == math.inf


@pytest.mark.parametrize(("p", "gamma"), [(stats.norm(2.0, 1.0), 1.0), (stats.t(3.0, loc=-4.0), 1.0)], ids=_id)
@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e6])
def test_units(p: Any, gamma: float, unit: float) -> None:
    scaled = p.dist(*(p.args if p.dist.name == "t" else ()), loc=unit * p.median(), scale=unit)
    beta, steep = guarantees.flatness(p, gamma), guarantees.steepness(p, gamma)
    assert guarantees.flatness(scaled, gamma * unit) == _near(beta / unit**3, rel=1e-9)
    assert guarantees.steepness(scaled, gamma * unit) == _near(steep / unit, rel=1e-9)
    assert guarantees.least_probability(scaled, gamma * unit, 0.4 * unit) == pytest.approx(
        guarantees.least_probability(p, gamma, 0.4), rel=1e-9
    )


# --- omega --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "gamma", "nu"),
    [
        (stats.norm(0.0, 1.0), 1.0, 0.5),
        (stats.norm(2.0, 1.0), 1.0, 0.3),
        (stats.cauchy(-1.0), 2.0, 1.0),
        (stats.expon(-2.0), 1.0, 0.7),
        (VALLEY, 3.0, 0.8),
        (VALLEY, 3.0, 2.9),
        (stats.laplace(0.1, 0.3), 1.0, 1.4),
    ],
    ids=_id,
)
def test_least_probability_is_the_least_of_all_pairs(p: Any, gamma: float, nu: float) -> None:
    """F(x, y) = P(-x <= B <= -y) over all pairs x - y >= nu of a grid that contains differences of exactly nu."""
    starts = np.linspace(-gamma, gamma - nu, 241)
    ends = np.concatenate([starts + nu, np.linspace(-gamma, gamma, 241)])
    probability = p.cdf(ends)[None, :] - p.cdf(starts)[:, None]
    expected = probability[ends[None, :] - starts[:, None] >= nu - 1e-12].min()
    omega = guarantees.least_probability(p, gamma, nu)
    assert omega <= expected * (1 + 1e-12)
    assert omega == _near(expected, rel=1e-3)


def test_least_probability_of_a_valley_is_the_integral_over_it() -> None:
    nu = 0.8

    def mass(u: float) -> float:
        return float(integrate.quad(VALLEY.pdf, u, u + nu, epsabs=0.0, epsrel=1e-12)[0])

    least = optimize.minimize_scalar(mass, bounds=(-1.0, 1.0), method="bounded", options={"xatol": 1e-10})
    assert -0.99 < least.x < 0.99
    assert least.fun < min(mass(-3.0), mass(3.0 - nu))
    assert guarantees.least_probability(VALLEY, 3.0, nu) == _near(least.fun, rel=1e-9)


def test_least_probability_at_its_limits() -> None:
    p = stats.norm(2.0, 1.0)
    assert guarantees.least_probability(p, 1.0, 0.0) == 0.0
    assert guarantees.least_probability(p, 1.0, 2.0) == _near(p.cdf(1.0) - p.cdf(-1.0), rel=1e-12)
    assert guarantees.least_probability(p, 1.0, 2.0) == pytest.approx(
        guarantees.least_probability(p, 1.0, 2.0 - 1e-9), rel=1e-7
    )
    assert guarantees.least_probability(stats.expon(), 1.0, 0.5) == 0.0
    assert guarantees.least_probability(stats.uniform(-2.0, 4.0), 1.0, 0.5) == _near(0.125, rel=1e-12)
    assert 0.0 < guarantees.least_probability(stats.expon(), 1.0, 1.5) == _near(-math.expm1(-0.5), rel=1e-12)


def test_least_probability_keeps_its_digits() -> None:
    for nu in (1e-6, 1e-10, 1e-14):  # p(-1) nu
        expected = stats.norm.pdf(3.0) * nu * (1 + 1.5 * nu)
        assert guarantees.least_probability(stats.norm(2.0, 1.0), 1.0, nu) == _near(expected, rel=1e-9)
    for mean in (-6.0, -20.0):  # in the upper tail
        far = stats.norm(mean, 1.0)
        assert guarantees.least_probability(far, 1.0, 0.5) == _near(far.sf(0.5) - far.sf(1.0), rel=1e-9)
    p = two_normals(1.0 - 1e-10, -8.0, 1.0, 4.0, 1.5)  # a valley in the upper tail of the large component
    least = optimize.minimize_scalar(
        lambda u: p.sf(u) - p.sf(u + 0.5), bounds=(-2.0, 1.5), method="bounded", options={"xatol": 1e-10}
    )
    assert -1.9 < least.x < 1.4
    assert guarantees.least_probability(p, 2.0, 0.5) == _near(least.fun, rel=1e-9)


def test_a_narrow_density_does_not_take_long() -> None:
    """Rounding of u + nu makes P(u <= B <= u + nu) noisy near -nu: that must not be mistaken for kinks."""

    class Counted(stats.rv_continuous):
        cells = 0

        def _pdf(self, x: Any) -> Any:
            return stats.norm.pdf(x)

        def _cdf(self, x: Any) -> Any:
            Counted.cells += np.size(x)
            return stats.norm.cdf(x)

        def _sf(self, x: Any) -> Any:
            Counted.cells += np.size(x)
            return stats.norm.sf(x)

        def _ppf(self, q: Any) -> Any:
            return stats.norm.ppf(q)

    p = Counted(name="counted")(loc=0.2, scale=1e-7)
    assert guarantees.least_probability(p, 1.0, 0.3) == 0.0
    assert Counted.cells < 30_000


# --- Theorem 3 ----------------------------------------------------------------------------------


def test_matrix_recovery_by_hand() -> None:
    bound = guarantees.matrix_recovery_bound(stats.norm(2.0, 1.0), 1.0, 0.5, 10, constant=3.0)
    beta, steep = 2.25 * stats.norm.pdf(3.0), stats.norm.pdf(3.0) / stats.norm.cdf(-3.0)
    omega = stats.norm.cdf(-2.5) - stats.norm.cdf(-3.0)
    assert bound.flatness == _near(beta, rel=1e-12)
    assert bound.steepness == _near(steep, rel=1e-12)
    assert bound.least_probability == _near(omega, rel=1e-9)
    assert bound.bound_squared == _near(3.0 * steep * 1.0 * 10 / (beta * omega), rel=1e-9)
    assert bound.trivial_squared == 4.0 * 10 * 5  # -1, -.5, 0, .5, 1 are the most entries half a unit apart


def test_the_constant_is_the_one_that_closes_the_proof() -> None:
    """(42): (4/C)^t <= 1/(d + n) at t = log(d + n) for the supremum; (38) doubles C."""
    p = stats.norm(2.0, 1.0)
    default = guarantees.matrix_recovery_bound(p, 1.0, 0.5, 7).bound_squared
    constant = default / guarantees.matrix_recovery_bound(p, 1.0, 0.5, 7, constant=1.0).bound_squared
    for total in (10, 10_000):
        t = math.log(total)
        assert (4 / (constant / 2)) ** t <= (1 + 1e-9) / total
        assert (4 / (0.99 * constant / 2)) ** t > 1 / total
        assert (4 / (4 / math.e)) ** t == pytest.approx(total)  # as printed


def test_how_the_bound_grows() -> None:
    p = stats.norm(2.0, 1.0)
    one = guarantees.matrix_recovery_bound(p, 1.0, 0.5, 1).bound_squared
    assert guarantees.matrix_recovery_bound(p, 1.0, 0.5, 12).bound_squared == pytest.approx(12 * one)
    assert guarantees.matrix_recovery_bound(p, 1.0, 0.25, 1).bound_squared > one
    assert guarantees.matrix_recovery_bound(p, 1.2, 0.5, 1).bound_squared > one


def test_a_density_above_1_cannot_count_for_more_than_the_length() -> None:
    p, unit = stats.norm(2.0, 1.0), 1e-4
    small = guarantees.matrix_recovery_bound(stats.norm(2.0 * unit, unit), unit, 0.5 * unit, 10)
    assert small.least_probability > 0.5 * unit
    steep, beta = guarantees.steepness(p, 1.0) / unit, guarantees.flatness(p, 1.0) / unit**3
    expected = 8 * math.e * steep * unit * 10 / (beta * 0.5 * unit)
    assert small.bound_squared == _near(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("p", "gamma", "nu", "words"),
    [
        (stats.norm(0.25, 1.0), 1.0, 0.5, "beta is 0: the density is flat or turns at x = 0.25, within"),
        (stats.laplace(0.2), 1.0, 0.5, "beta is 0: the density is flat or turns at x = 0.2, within"),
        (stats.expon(0.5), 1.0, 0.1, "beta is 0: the density is 0 below x = 0.5"),
        (stats.uniform(-4.0, 4.5), 1.0, 0.1, "beta is 0: the density is 0 above x = 0.5"),
        (stats.norm(60.0, 1.0), 1.0, 0.5, "beta is 0: the density all but vanishes at x = -1"),
        (stats.norm(2.0, 1.0), 1.0, 0.0, "omega is 0: the bias has probability 0 on an interval of length nu = 0"),
        (stats.expon(-1.0), 1.0, 0.5, "L is infinite: the density begins, ends or jumps"),
    ],
    ids=_id,
)
def test_an_infinite_bound_has_a_reason(p: Any, gamma: float, nu: float, words: str) -> None:
    bound = guarantees.matrix_recovery_bound(p, gamma, nu, 5)
    assert bound.bound_squared == math.inf
    assert bound.says_nothing
    assert bound.reason.startswith(words)
    assert bound.reason.endswith(".")
    assert bound.reason.count(". ") == 0


class _Steepest(stats.rv_continuous):
    """sqrt(p) of constant slope on [-1, 1], with p'/p = L = sqrt(3) at -1 and an exponential tail below: (35) at best.

    Below -1 p = p(-1) exp(L (x + 1)); on [-1, 1] p = beta (2/L + x + 1)^2; 0 above.
    """

    steep = math.sqrt(3.0)
    beta = 1.0 / (4.0 / steep**3 + ((2.0 / steep + 2.0) ** 3 - (2.0 / steep) ** 3) / 3.0)

    def _pdf(self, x: Any) -> Any:
        inside = self.beta * (2.0 / self.steep + x + 1.0) ** 2
        below = self.beta * 4.0 / self.steep**2 * np.exp(self.steep * np.minimum(x + 1.0, 0.0))
        return np.where(x < -1.0, below, inside)

    def _cdf(self, x: Any) -> Any:
        below = self.beta * 4.0 / self.steep**3 * np.exp(self.steep * np.minimum(x + 1.0, 0.0))
        t = np.clip(x + 1.0, 0.0, 2.0)
        return below + self.beta * ((2.0 / self.steep + t) ** 3 - (2.0 / self.steep) ** 3) / 3.0


@pytest.mark.parametrize(("p", "gamma"), [*RISING_OR_FALLING, (_Steepest(b=1.0, name="steepest")(), 1.0)], ids=_id)
@pytest.mark.parametrize("share", [0.01, 0.3, 1.0, 2.0])
def test_the_bound_never_beats_the_trivial_one(p: Any, gamma: float, share: float) -> None:
    """The docstring's claim, for any density: at least (2 + sqrt(3)) / (2 sqrt(3)) = 1.07 C_0 times as large."""
    bound = guarantees.matrix_recovery_bound(p, gamma, share * gamma, 3)
    inverse = 1.0 / bound.steepness
    within = p.cdf(gamma) - p.cdf(-gamma)
    assert within >= 8 / 3 * bound.flatness * ((inverse + gamma) ** 3 - inverse**3) * (1 - 1e-9)
    assert bound.bound_squared >= 8 * math.e * 1.077 * bound.trivial_squared
    assert bound.says_nothing
    assert "times the one that entries within gamma give" in bound.reason


def test_the_bound_nearly_reaches_what_we_say_of_it() -> None:
    """So that 1.07 is about the right number: in suitable units omega = nu, and the best density pays 1.3 times it."""
    p = _Steepest(b=1.0, name="steepest")()
    assert guarantees.flatness(p, 1.0) == _near(p.dist.beta, rel=1e-9)
    assert guarantees.steepness(p, 1.0) == _near(p.dist.steep, rel=1e-6)
    small = p.dist(loc=0.0, scale=1e-3)
    bound = guarantees.matrix_recovery_bound(small, 1e-3, 2e-3, 3, constant=1.0)
    assert 1.077 <= bound.bound_squared / bound.trivial_squared < 1.5
    better = guarantees.matrix_recovery_bound(small, 1e-3, 2e-3, 3, constant=0.5)
    assert not better.says_nothing
    assert better.reason == ""


# --- Theorem 5 ----------------------------------------------------------------------------------


def test_column_space_by_hand() -> None:
    bound = guarantees.column_space_bound(10.0, 25.0, 0.1, 0.15, 2)  # sqrt(2) * .1 < .15
    assert bound.sine == pytest.approx(2 * 20.1 * math.sqrt(2) * 0.1 / 25)
    assert bound.basis == pytest.approx(2**1.5 * 20.1 * math.sqrt(2) * 0.1 / 25)
    assert guarantees.column_space_bound(10.0, 25.0, 0.1, 0.15, 4).sine == pytest.approx(2 * 20.1 * 0.15 / 25)
    assert not bound.says_nothing
    assert guarantees.column_space_bound(10.0, 0.1, 0.1, 0.15, 4).says_nothing
    assert guarantees.column_space_bound(10.0, 0.0, 0.1, 0.15, 4).sine == math.inf
    exact = guarantees.column_space_bound(10.0, 0.0, 0.0, 0.0, 4)
    assert (exact.sine, exact.basis, exact.says_nothing) == (0.0, 0.0, False)


@pytest.mark.parametrize("noise", [1e-6, 1e-2, 0.3])
def test_random_matrices_obey_theorem_5(noise: float) -> None:
    rng = np.random.default_rng(3)
    informative = 0
    for _ in range(100):
        d, n, r = int(rng.integers(4, 12)), int(rng.integers(4, 12)), int(rng.integers(1, 4))
        m = rng.standard_normal((d, r)) @ rng.standard_normal((r, n)) * 2.0 + 0.1 * rng.standard_normal((d, n))
        e = noise * rng.standard_normal((d, n)) * (rng.random((d, n)) < rng.choice([0.05, 1.0]))
        e[0, 0] += noise
        u, sigma, _ = np.linalg.svd(m)
        u_hat = np.linalg.svd(m + e)[0]
        u, u_hat = u[:, :r], u_hat[:, :r]
        gap = float(sigma[r - 1] ** 2 - sigma[r] ** 2)
        bound = guarantees.column_space_bound(
            float(sigma[0]), gap, float(np.linalg.norm(e, 2)), float(np.linalg.norm(e)), r
        )
        sine = np.linalg.norm(u_hat - u @ (u.T @ u_hat))
        left, _, right = np.linalg.svd(u_hat.T @ u)
        assert sine <= bound.sine
        assert np.linalg.norm(u - u_hat @ (left @ right)) <= bound.basis
        assert sine <= math.sqrt(r)
        informative += not bound.says_nothing
    assert informative > 5


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (stats.poisson(3.0), r"p is discrete \(poisson\) and has no density"),
        (stats.norm, "p is the family 'norm' without parameters"),
        (lambda x: x, "must be a distribution with a density, got function"),
        (None, "got NoneType"),
        (stats.gaussian_kde([1.0, 2.0, 4.0]), "got gaussian_kde"),
        (stats.norm([0.0, 1.0], 1.0), "p stands for 2 distributions"),
        (stats.norm(0.0, -1.0), r"norm\(0.0, -1.0\), has parameters outside their domain"),
        (stats.norm(loc=math.nan), "parameters outside their domain"),
        (stats.t(-1.0, loc=2.0), r"t\(-1.0, loc=2.0\), has parameters outside"),
    ],
)
def test_p_must_be_a_frozen_continuous_distribution(p: Any, words: str) -> None:
    for call in (
        lambda: guarantees.flatness(p, 1.0),
        lambda: guarantees.steepness(p, 1.0),
        lambda: guarantees.least_probability(p, 1.0, 0.5),
        lambda: guarantees.matrix_recovery_bound(p, 1.0, 0.5, 3),
    ):
        with pytest.raises(InvalidParameterError, match=words) as error:
            call()
        assert "such as scipy.stats.norm(2.0, 1.0)" in str(error.value)


@pytest.mark.slow
def test_a_density_that_is_nowhere_smooth_is_refused() -> None:
    class Rough(stats.rv_continuous):
        def _logpdf(self, x: Any) -> Any:
            return stats.norm.logpdf(x, 2.0, 1.0) + 0.1 * np.sin(1e9 * x)

        def _cdf(self, x: Any) -> Any:
            return stats.norm.cdf(x, 2.0, 1.0)

    with pytest.raises(InvalidParameterError, match="no derivative to speak of"):
        guarantees.flatness(Rough(name="rough")(), 1.0)

    class Broken(Rough):
        def _logpdf(self, x: Any) -> Any:
            return np.where(x > 0.5, np.nan, 0.0)

    with pytest.raises(InvalidParameterError, match="not a number at x ="):
        guarantees.flatness(Broken(name="broken")(), 1.0)


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.nan, math.inf, "wide", None])
def test_gamma_must_be_positive(gamma: Any) -> None:
    p = stats.norm(2.0, 1.0)
    for call in (
        lambda: guarantees.flatness(p, gamma),
        lambda: guarantees.steepness(p, gamma),
        lambda: guarantees.least_probability(p, gamma, 0.5),
        lambda: guarantees.matrix_recovery_bound(p, gamma, 0.5, 3),
    ):
        with pytest.raises(InvalidParameterError, match="gamma must be above 0 and finite"):
            call()


@pytest.mark.parametrize("nu", [-1e-9, 2.0 + 1e-9, math.nan, math.inf, "small", None])
def test_nu_must_fit_into_the_interval(nu: Any) -> None:
    for call in (
        lambda: guarantees.least_probability(stats.norm(), 1.0, nu),
        lambda: guarantees.matrix_recovery_bound(stats.norm(), 1.0, nu, 3),
    ):
        with pytest.raises(InvalidParameterError, match="nu must be at least 0 and at most 2 gamma = 2"):
            call()


def test_other_arguments_out_of_their_domain() -> None:
    p = stats.norm(2.0, 1.0)
    with pytest.raises(InvalidParameterError, match="n_features must be an integer of 1 or more"):
        guarantees.matrix_recovery_bound(p, 1.0, 0.5, 0)
    with pytest.raises(InvalidParameterError, match="constant must be above 0"):
        guarantees.matrix_recovery_bound(p, 1.0, 0.5, 3, constant=0.0)
    good: dict[str, Any] = {
        "largest_singular": 2.0,
        "gap": 1.0,
        "error_spectral": 0.1,
        "error_frobenius": 0.2,
        "rank": 2,
    }
    for name, value, words in [
        ("largest_singular", 0.0, "largest_singular must be above 0"),
        ("gap", -1.0, "gap must be at least 0"),
        ("gap", 4.1, r"cannot exceed largest_singular\^2 = 4, got 4.1"),
        ("error_spectral", math.nan, "error_spectral must be at least 0"),
        ("error_spectral", 0.3, "exceeds error_frobenius, 0.2"),
        ("error_frobenius", math.inf, "error_frobenius must be at least 0 and finite"),
        ("rank", 0, "rank must be an integer of 1 or more"),
        ("rank", 1.5, "rank must be an integer of 1 or more"),
    ]:
        with pytest.raises(InvalidParameterError, match=words):
            guarantees.column_space_bound(**(good | {name: value}))
