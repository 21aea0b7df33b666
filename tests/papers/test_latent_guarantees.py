"""Mazumdar and Rawat 2018, Theorem 4, against integrals over g and b, sums, Monte Carlo, and program (47) at work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from unrelu import guarantees
from unrelu.errors import InvalidParameterError

HISTOGRAM = stats.rv_histogram(np.histogram(np.random.default_rng(0).normal(size=500), bins=20))(0.5, 2.0)
TABLE = stats.rv_discrete(values=([-1.0, 0.5, 2.0], [0.2, 0.3, 0.5]))(loc=0.25)


def _rest_by_g(b: float, mu: float, norm: float, power: int) -> float:
    """E[g^power (ReLU(norm g + b) - mu norm g)^2] by quadrature over g, cut at the rectifier's kink."""

    def integrand(g: float) -> float:
        return float(g**power * (max(norm * g + b, 0.0) - mu * norm * g) ** 2 * stats.norm.pdf(g))

    kink = min(max(-b / norm, -12.0), 12.0)
    return float(integrate.quad(integrand, -12, kink)[0] + integrate.quad(integrand, kink, 12)[0])


def _image_by_g(values: Any, weights: Any, norm: float) -> tuple[float, float, float]:
    """mu, sigma, eta of a discrete distribution, each expectation over g by quadrature."""
    pairs = list(zip(np.ravel(values), np.ravel(weights), strict=True))
    mu = sum(
        w * integrate.quad(lambda g, b=b: (norm * g + b) * g * stats.norm.pdf(g), max(-b / norm, -12), 12)[0] / norm
        for b, w in pairs
    )
    rests = [math.sqrt(sum(w * _rest_by_g(b, mu, norm, power) for b, w in pairs)) for power in (0, 2)]
    return mu, rests[0], rests[1]


# --- mu, sigma, eta, (58) -----------------------------------------------------------------------


@pytest.mark.parametrize("norm", [1.0, 0.4, 3.0])
@pytest.mark.parametrize("b", [-3.0, -0.7, 0.0, 0.3, 1.9, 6.0])
def test_closed_forms_in_the_bias(b: float, norm: float) -> None:
    expected = _image_by_g([b], [1.0], norm)
    assert guarantees.linear_image(b, norm) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    "p", [stats.norm(0.5, 1.5), stats.uniform(-2.0, 3.0), stats.expon(-1.0)], ids=lambda p: p.dist.name
)
def test_image_of_a_density_is_the_double_integral(p: Any) -> None:
    norm = 0.8
    low, high = max(p.support()[0], p.ppf(1e-13)), min(p.support()[1], p.isf(1e-13))

    nodes, weights = np.polynomial.legendre.leggauss(300)

    def over_both(f: Any) -> float:
        """f(g, x) p(b) phi(g), x = norm g + b, on either side of the kink x = 0: Gauss-Legendre, g given b."""
        b = 0.5 * (high - low) * nodes[:, None] + 0.5 * (high + low)
        kink = np.clip(-b / norm, -9.0, 9.0)
        total = np.zeros_like(b[:, 0])
        for left, right in ((-9.0, kink), (kink, 9.0)):
            g = 0.5 * (right - left) * nodes + 0.5 * (right + left)
            inner = f(g, np.maximum(norm * g + b, 0.0)) * stats.norm.pdf(g)
            total += (0.5 * (right - left) * weights * inner).sum(axis=1)
        return float(0.5 * (high - low) * (weights * p.pdf(b[:, 0]) * total).sum())

    mu = over_both(lambda g, x: x * g) / norm
    sigma = math.sqrt(over_both(lambda g, x: (x - mu * norm * g) ** 2))
    eta = math.sqrt(over_both(lambda g, x: (g * (x - mu * norm * g)) ** 2))
    assert guarantees.linear_image(p, norm) == pytest.approx((mu, sigma, eta), rel=2e-6)


@pytest.mark.parametrize(
    ("p", "points"),
    [
        pytest.param(stats.poisson(2.0), np.arange(40), marks=pytest.mark.slow),
        pytest.param(stats.skellam(1.0, 2.0), np.arange(-40, 40), marks=pytest.mark.slow),
        (TABLE, [-0.75, 0.75, 2.25]),
    ],
    ids=["poisson", "skellam", "table"],
)
def test_image_of_a_discrete_distribution_is_the_sum(p: Any, points: Any) -> None:
    expected = _image_by_g(points, p.pmf(points), 1.0)
    assert guarantees.linear_image(p) == pytest.approx(expected, rel=1e-7)


def test_an_array_is_its_empirical_distribution() -> None:
    b = np.array([[-1.0, 0.2], [0.2, 3.0]])
    table = stats.rv_discrete(values=([-1.0, 0.2, 3.0], [0.25, 0.5, 0.25]))()
    expected = guarantees.linear_image(table, 1.5)
    assert guarantees.linear_image(b, 1.5) == pytest.approx(expected, rel=1e-12)
    assert guarantees.linear_image(b.tolist(), 1.5) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "p",
    [
        stats.norm(0.0, 0.01),
        stats.norm(0.0, 1000.0),
        stats.t(2.5),
        stats.laplace(0.0, 3.0),
        stats.uniform(-40.0, 80.0),
        stats.logistic(),
    ],
    ids=lambda p: p.dist.name,
)
def test_image_of_a_symmetric_distribution_has_a_closed_form(p: Any) -> None:
    """Phi(a) + Phi(-a) = 1 and S(a) + S(-a) = a^2 + 1: mu = 1/2, sigma^2 = Var/2 + 1/4, eta^2 = sigma^2 + 1/2."""
    mu, sigma, eta = guarantees.linear_image(p)
    assert mu == pytest.approx(0.5, rel=1e-8)
    assert sigma**2 == pytest.approx(p.var() / 2 + 0.25, rel=1e-7)
    assert eta**2 == pytest.approx(p.var() / 2 + 0.75, rel=1e-7)


def test_image_of_a_bias_far_above_0() -> None:
    mu, sigma, _ = guarantees.linear_image(stats.norm(1000.0, 0.01))  # nothing is cut off: z = b
    assert mu == pytest.approx(1.0, abs=1e-8)
    assert sigma == pytest.approx(math.hypot(1000.0, 0.01), rel=1e-8)


@pytest.mark.parametrize(
    "p", [stats.gamma(0.3, loc=-0.2), stats.lognorm(0.7, loc=-2.0), HISTOGRAM], ids=["gamma", "lognorm", "histogram"]
)
def test_image_of_a_density_with_a_pole_a_tail_or_jumps(p: Any) -> None:
    n = 400_000
    rng = np.random.default_rng(1)
    b, g = p.rvs(size=n, random_state=rng), rng.standard_normal(n)
    mu, sigma, eta = guarantees.linear_image(p)
    relu = np.maximum(g + b, 0.0)
    rest = (relu - mu * g) ** 2
    for sample, value in ((relu * g, mu), (rest, sigma**2), (g * g * rest, eta**2)):
        assert abs(sample.mean() - value) < 4.5 * sample.std() / math.sqrt(n)


def test_without_a_variance_mu_is_left() -> None:
    mu, sigma, eta = guarantees.linear_image(stats.cauchy(0.0, 2.0))
    assert mu == pytest.approx(0.5, rel=1e-8)
    assert sigma == eta == math.inf
    assert guarantees.linear_image(stats.levy_l())[1] < 1.0  # no variance, but an upper end


# --- (66) ---------------------------------------------------------------------------------------


def test_bound_is_the_larger_term_written_out() -> None:
    d, k, s, delta, lambda_, constant = 5_000, 7, 3, 0.2, 0.01, 2.5
    bound = guarantees.latent_recovery_bound(0.0, d, k, s, delta, lambda_, constant)
    rest = constant * (0.5 * math.sqrt(k) + math.sqrt(0.75)) / math.sqrt(d)
    noise = math.sqrt(k) * delta * math.sqrt(2 * math.log(40 * k) / d)
    assert bound.latent_term == pytest.approx(128 * (rest + noise), rel=1e-12)
    assert bound.outlier_term == pytest.approx(256 * lambda_ * math.sqrt(s * d), rel=1e-12)
    assert bound.bound == bound.outlier_term > bound.latent_term
    assert (bound.mu, bound.lambda_, bound.says_nothing) == (0.5, lambda_, True)
    fewer = guarantees.latent_recovery_bound(0.0, d, k, 0, delta, lambda_, constant)
    assert fewer.bound == bound.latent_term
    assert fewer.outlier_term == 0.0


def test_constant_1_holds_in_mean_square() -> None:
    """E|A'z|^2 = d ((k - 1) sigma^2 + eta^2), the claim behind C = 1 in (57)."""
    d, k, repeats = 40, 4, 20_000
    p, rng = stats.norm(0.5, 1.0), np.random.default_rng(2)
    mu, sigma, eta = guarantees.linear_image(p)
    A = rng.standard_normal((repeats, d, k))
    g = A[:, :, 0]  # c is the first unit vector
    z = np.maximum(g + p.rvs(size=g.shape, random_state=rng), 0.0) - mu * g
    squares = (np.einsum("rdk,rd->rk", A, z) ** 2).sum(axis=1)
    exact = d * ((k - 1) * sigma**2 + eta**2)
    assert abs(squares.mean() - exact) < 4.5 * squares.std() / math.sqrt(repeats)
    assert exact <= d * (math.sqrt(k) * sigma + eta) ** 2


def test_noise_stays_below_its_bound() -> None:
    d, k, repeats, delta = 30, 6, 4_000, 0.3
    bound = guarantees.latent_recovery_bound(0.0, d, k, 0, delta)
    noiseless = guarantees.latent_recovery_bound(0.0, d, k, 0, 0.0)
    limit = (bound.latent_term - noiseless.latent_term) / 128 * d / math.sqrt(k)  # on |A'w|_inf
    rng = np.random.default_rng(3)
    w = delta * rng.choice([-1.0, 1.0], size=(repeats, d))
    largest = np.abs(np.einsum("rdk,rd->rk", rng.standard_normal((repeats, d, k)), w)).max(axis=1)
    share = np.mean(largest > limit)
    assert 0.001 < share < 0.05  # Chernoff's bound: not exact, not far off


@pytest.mark.parametrize(
    ("p", "d"),
    [
        (0.0, 50),
        (-3.0, 50),
        (-2.0, 1),  # z below -q matters
        (2.0, 50),
        (np.array([-4.0, 0.0, 1.0]), 50),
        (stats.norm(-0.5, 2.0), 50),
        (stats.expon(-3.0), 50),
        (stats.poisson(1.0), 50),
    ],
    ids=["0", "-3", "-2", "2", "array", "norm", "expon", "poisson"],
)
def test_default_penalty_holds_19_times_in_20(p: Any, d: int) -> None:
    repeats, delta = 20_000, 0.25
    bound = guarantees.latent_recovery_bound(p, d, 1, 1, delta)
    rng = np.random.default_rng(4)
    g = rng.standard_normal((repeats, d))
    b = p.rvs(size=g.shape, random_state=rng) if hasattr(p, "rvs") else rng.choice(np.ravel(p), size=g.shape)
    z = np.abs(np.maximum(g + b, 0.0) - bound.mu * g).max(axis=1)
    share = np.mean(2.0 * (z + delta) / d > bound.lambda_)
    exact = 1.0 - (1.0 - 0.05 / d) ** d  # .0488: the union bound gives away this little
    assert abs(share - exact) < 4.5 * math.sqrt(exact * (1 - exact) / repeats)


def test_program_47_keeps_the_bound() -> None:
    """c^ from (47), as Huber's loss, by iteratively reweighted least squares: error far below (66), near mu c."""
    d, k, s, delta = 4_000, 5, 40, 0.05
    rng = np.random.default_rng(5)
    A, c = rng.standard_normal((d, k)), np.full(k, 1 / math.sqrt(k))
    b, e = rng.normal(0.3, 1.0, d), np.zeros(d)
    e[:s] = 30.0
    v = np.maximum(A @ c + b, 0.0) + e + rng.uniform(-delta, delta, d)
    bound = guarantees.latent_recovery_bound(stats.norm(0.3, 1.0), d, k, s, delta)
    found = np.zeros(k)
    for _ in range(200):
        weights = np.minimum(1.0, d * bound.lambda_ / np.maximum(np.abs(v - A @ found), 1e-9))
        found = np.linalg.solve(A.T * weights @ A, A.T @ (weights * v))
    residual = v - A @ found
    e_found = np.sign(residual) * np.maximum(np.abs(residual) - d * bound.lambda_, 0.0)
    error = np.linalg.norm(bound.mu * c - found) + np.linalg.norm(e - e_found) / math.sqrt(d)
    assert error < bound.bound
    assert np.linalg.norm(bound.mu * c - found) < 0.2 * bound.mu


@pytest.mark.slow  # many programs
def test_a_vacuous_bound_has_a_reason() -> None:
    useful = guarantees.latent_recovery_bound(0.0, 10**7, 4, 0, 0.0)
    assert (useful.says_nothing, useful.reason) == (False, "")
    assert useful.bound < useful.mu
    edge = 128**2 * (2.0 + math.sqrt(3.0)) ** 2  # with k = 4 the bound is mu here
    assert guarantees.latent_recovery_bound(0.0, math.floor(edge), 4, 0, 0.0).says_nothing
    assert not guarantees.latent_recovery_bound(0.0, math.ceil(edge), 4, 0, 0.0).says_nothing
    least = useful.lambda_
    assert not guarantees.latent_recovery_bound(0.0, 10**7, 4, 0, 0.0, least).says_nothing
    small = guarantees.latent_recovery_bound(0.0, 10**7, 4, 0, 0.0, 0.9 * least)
    assert small.bound == math.inf
    assert small.says_nothing
    assert "the theorem needs at least" in small.reason
    assert "no variance" in guarantees.latent_recovery_bound(stats.cauchy(), 1000, 4, 0, 0.0).reason
    assert guarantees.latent_recovery_bound(-50.0, 1000, 4, 0, 0.0).says_nothing  # mu = 0: nothing is on
    assert guarantees.latent_recovery_bound(0.0, 1000, 4, 0, 0.0).reason.startswith("The bound is 15.1 times mu = 0.5")


def test_rate() -> None:
    assert guarantees.latent_recovery_rate(1000, 10, 0) == pytest.approx(math.sqrt(10 * math.log(10) / 1000))
    assert guarantees.latent_recovery_rate(1000, 10, 9) == pytest.approx(math.sqrt(9 * math.log(1000) / 1000))
    assert guarantees.latent_recovery_rate(1000, 1, 0) == 0.0


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (stats.norm, "family 'norm' without parameters"),
        (stats.norm([0.0, 1.0], 1.0), "stands for 2 distributions"),
        (stats.norm(0.0, -1.0), "outside their domain"),
        (stats.multivariate_normal(np.zeros(2)), "Give a number, an array"),
        pytest.param(stats.zipf(3.1), "too many points to be summed", marks=pytest.mark.slow),
        ("normal", "cannot be read as biases"),
        (None, "Give a number, an array"),
        ([], "is empty"),
        ([0.0, math.nan], "not finite at position 1"),
    ],
)
def test_biases_that_are_none(p: Any, words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        guarantees.linear_image(p)
    with pytest.raises(InvalidParameterError, match=words):
        guarantees.latent_recovery_bound(p, 100, 2, 1, 0.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_features", 0),
        ("n_features", 2.5),
        ("rank", 0),
        ("rank", 101),
        ("n_outliers", -1),
        ("n_outliers", 101),
        ("noise_bound", -0.1),
        ("noise_bound", math.inf),
        ("noise_bound", "none"),
        ("lambda_", 0.0),
        ("constant", math.nan),
    ],
)
def test_numbers_outside_their_domain(name: str, value: Any) -> None:
    good: dict[str, Any] = {"n_features": 100, "rank": 2, "n_outliers": 1, "noise_bound": 0.1}
    with pytest.raises(InvalidParameterError, match=name):
        guarantees.latent_recovery_bound(0.0, **(good | {name: value}))


def test_norm_must_be_positive() -> None:
    with pytest.raises(InvalidParameterError, match="norm"):
        guarantees.linear_image(0.0, 0.0)
