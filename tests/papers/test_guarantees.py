"""The theorems' numbers against hand calculation and simulation; the planner against exact distributions and real
fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import ndtr

from unrelu import RectifiedGaussian, RectifiedGaussianLearner, guarantees
from unrelu.errors import InvalidParameterError
from unrelu.metrics import parameter_errors
from unrelu.papers.guarantees.planner import Influences, SquaredError
from unrelu.synthetic import random_model

one_pass = partial(RectifiedGaussianLearner, "one_pass", margins="normal")  # what the planner plans for


def test_every_function_has_an_example_and_cites_its_source() -> None:
    for name in guarantees.__all__:
        item = getattr(guarantees, name)
        if not isinstance(item, type):
            assert ">>>" in item.__doc__, name
            if item.__module__ != "unrelu.papers.guarantees.planner":
                cited = ("Theorem", "Proposition", "Corollary", "Lemma", "Claim", "Fact", "Psi", "Algorithm")
                assert any(word in item.__doc__ for word in cited), name


# --- Wu et al. 2019 ----------------------------------------------------------------------------------


def test_samples_for_the_parameters_by_hand() -> None:
    assert guarantees.parameter_samples(0.1, 0.05, 20) == 600  # 100 ln 400 = 599.15
    assert guarantees.parameter_samples(0.1, 0.05, 20, constant=3.0) == 1798
    assert guarantees.parameter_samples(0.5, 1.0 / math.e, 1) == 4
    cost = guarantees.parameter_complexity(0.1, 0.05, 20, constant=3.0)
    assert (cost.samples, cost.time, cost.space) == (1798, 1798 * 400, 1798 * 20 + 3 * 400)
    assert guarantees.parameter_samples_lower_bound(0.1, constant=0.5) == 50


def test_samples_for_the_distribution_by_hand() -> None:
    assert guarantees.distribution_samples(0.5, 0.1, 3, 2.0) == 490  # (2 * 3 / .5)^2 ln 30 = 489.77
    cost = guarantees.distribution_complexity(0.5, 0.1, 3, 2.0)
    assert (cost.samples, cost.time, cost.space) == (490, 490 * 9, 490 * 3)
    assert guarantees.distribution_samples_lower_bound(0.5, 3) == 12


def test_samples_grow_as_the_theorems_say() -> None:
    many = {"delta": 0.1, "d": 10, "constant": 1e9}  # rounding up then does not matter
    assert guarantees.parameter_samples(0.01, **many) / guarantees.parameter_samples(0.1, **many) == pytest.approx(100)
    kappa = [guarantees.distribution_samples(0.1, **many, condition_number=k) for k in (1.0, 7.0)]
    assert kappa[1] / kappa[0] == pytest.approx(49)
    ratio = guarantees.distribution_samples(0.1, **many) / guarantees.parameter_samples(0.1, **many)
    assert ratio == pytest.approx(100)  # d^2
    for smaller, larger in [
        ({"d": 5}, {"d": 6}),
        ({"delta": 0.2}, {"delta": 0.1}),
        ({"epsilon": 0.2}, {"epsilon": 0.1}),
    ]:
        default: dict[str, Any] = {"epsilon": 0.1, "delta": 0.1, "d": 5}
        for bound in (guarantees.parameter_samples, guarantees.distribution_samples):
            assert bound(**(default | smaller)) < bound(**(default | larger))


def test_lower_bounds_are_below_upper_ones() -> None:
    for d in (2, 50):
        for epsilon in (0.01, 0.3):
            lower = guarantees.parameter_samples_lower_bound(epsilon)
            assert lower <= guarantees.parameter_samples(epsilon, 1 / 3, d)
            assert lower <= guarantees.distribution_samples_lower_bound(epsilon, d)
            lower = guarantees.distribution_samples_lower_bound(epsilon, d)
            assert lower <= guarantees.distribution_samples(epsilon, 1 / 3, d)


@pytest.mark.parametrize("b", [-0.5, -2.0, -5.0])
def test_a_negative_bias_is_rarely_seen(b: float) -> None:
    assert guarantees.negative_bias_samples(b) == math.ceil(math.exp(b**2 / 2))
    assert guarantees.negative_bias_samples(10.0 * b, scale=10.0) == guarantees.negative_bias_samples(b)
    # Never more than the average wait for a positive value; so few rows show one with probability q at most.
    assert math.exp(b**2 / 2) <= 1.0 / ndtr(b)
    n = guarantees.negative_bias_samples(b, constant=0.3)
    assert 1.0 - (1.0 - ndtr(b)) ** (n - 1) <= 0.3


def test_both_positive_probability_is_that_of_simulation() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 4)) * [[3.0], [0.1]]
    z = rng.standard_normal((200_000, 4))
    share = np.mean((z @ u > 0) & (z @ v > 0))
    assert guarantees.both_positive_probability(u, v) == pytest.approx(share, abs=4 * 0.5 / 200_000**0.5)
    assert guarantees.both_positive_probability(u, 2 * u) == pytest.approx(0.5, abs=1e-12)
    assert guarantees.both_positive_probability(u, -u) == pytest.approx(0.0, abs=1e-12)


def test_exceedances_do_not_depend_on_the_biases() -> None:
    model = RectifiedGaussian([0.3, 5.0, 1.0], [[1, -0.6, 0], [-0.6, 1, 0.4], [0, 0.4, 4]], floor=[0.0, 4.0, -1.0])
    x = model.sample(200_000, random_state=0)
    for i, j in [(0, 1), (1, 2), (0, 2)]:
        share = np.mean((x[:, i] > model.mean[i]) & (x[:, j] > model.mean[j]))
        assert guarantees.exceedance_probability(model, i, j) == pytest.approx(share, abs=4 * 0.5 / 200_000**0.5)
        w = model.weights()
        assert guarantees.exceedance_probability(model, i, j) == pytest.approx(
            guarantees.both_positive_probability(w[i], w[j]), abs=1e-9
        )


def test_wrong_biases_shift_the_probability_by_no_more_than_lemma_3() -> None:
    for r in (-0.99, -0.3, 0.0, 0.8):
        distribution = stats.multivariate_normal(cov=[[1.0, r], [r, 1.0]])
        for epsilon in (0.01, 0.3, 1.0, 3.0):
            shifts = [
                abs(distribution.cdf([first * epsilon, second * epsilon]) - distribution.cdf([0.0, 0.0]))
                for first in (-1, 0, 1)
                for second in (-1, 0, 1)
            ]
            assert max(shifts) <= min(guarantees.probability_shift(epsilon), math.sqrt(2 / math.pi) * epsilon) + 1e-6
    assert guarantees.probability_shift(3.0) == 1.0


def test_samples_for_an_angle_keep_its_error() -> None:
    assert guarantees.angle_samples(0.1, 0.05)[0] == 29512  # 8000 ln 40 = 29511.04
    assert guarantees.angle_samples(0.4, 2 / math.e)[0] == 500
    epsilon, delta, r = 0.5, 0.2, 0.0
    n, bias_error = guarantees.angle_samples(epsilon, delta)

    def missed(n: int, bias_error: float, repetitions: int = 1000) -> float:
        """Share of angles by the papers' rule (14) with a cosine off by more than epsilon."""
        u = np.random.default_rng(0).standard_normal((repetitions, n, 2))
        share = np.mean((u > bias_error).all(axis=2), axis=1)
        return float(np.mean(np.abs(np.cos(math.pi - 2 * math.pi * share) - r) > epsilon))

    for sign in (-1.0, 1.0):
        assert missed(n, sign * bias_error) <= delta
    # Each half of epsilon is used up: by the biases through Lemma 3, and by Hoeffding's deviation at 79 for 80.
    assert 2 * math.pi * guarantees.probability_shift(bias_error) == pytest.approx(epsilon / 2)
    deviation = math.sqrt(math.log(2 / delta) / (2 * n))
    assert 2 * math.pi * deviation == pytest.approx(epsilon / 2, rel=0.01)
    # Not because the rule cannot fail: it does with much fewer samples, or with biases off by epsilon itself.
    assert missed(n // 80, 0.0) > delta
    assert missed(n, -epsilon) > delta


# --- Bulusu et al. 2022 ----------------------------------------------------------------------------------


def test_gradient_error_by_hand() -> None:
    settings: dict[str, Any] = {"distance": 2.0, "steps": 3, "convexity": 0.5, "smoothness": 2.0}
    # 2 (1 - 2/2.5)^3 + 2 * .1 * 2.5 / 1
    assert guarantees.gradient_error(0.1, **settings) == pytest.approx(0.016 + 0.5)
    # gamma = 1/L: 2 (1 - .5/2.5)^3
    assert guarantees.gradient_error(0.1, **settings, step_size=0.5) == pytest.approx(2 * 0.8**3 + 0.5)


@pytest.mark.parametrize("step_size", [0.1, 0.5, 0.8])
def test_the_usual_contraction_holds_for_gradient_descent_and_the_printed_one_does_not(step_size: float) -> None:
    eta, big_l, error, steps = 0.5, 2.0, 0.05, 12
    curvature = np.array([eta, big_l])
    v = np.array([1.0, 1.0])
    start = float(np.linalg.norm(v))
    for _ in range(steps):
        v = v - step_size * (curvature * v - error / math.sqrt(2.0))  # a gradient wrong by ``error``, always outwards
    distance = float(np.linalg.norm(v))
    settings: dict[str, Any] = {"distance": start, "steps": steps, "convexity": eta, "smoothness": big_l}
    assert distance <= guarantees.gradient_error(error, **settings, step_size=step_size)
    tiny = 1e-12
    shrunk = max(abs(1 - step_size * curvature)) ** steps
    assert shrunk <= guarantees.gradient_error(tiny, **(settings | {"distance": 1.0}), step_size=step_size)
    assert shrunk > guarantees.gradient_error(tiny, **(settings | {"distance": 1.0}))


@pytest.mark.parametrize("step_size", [None, 0.3])
def test_gradient_steps_are_the_fewest_that_do(step_size: float | None) -> None:
    settings: dict[str, Any] = {"distance": 3.0, "convexity": 0.7, "smoothness": 1.9, "step_size": step_size}
    steps = guarantees.gradient_steps(0.01, **settings)
    first_term = [guarantees.gradient_error(1e-15, **settings, steps=t) for t in (steps, steps - 1)]
    assert first_term[0] <= 0.01 + 1e-12 < first_term[1]
    assert guarantees.gradient_steps(5.0, **settings) == 0


def test_filtered_samples_by_hand() -> None:
    assert guarantees.filtered_samples(0.75, p=1.0, delta=math.exp(-1)) == 16
    assert guarantees.filtered_samples(0.75, p=0.8, delta=math.exp(-2)) == 313  # 2 / (.8 * .1)^2 = 312.5
    assert guarantees.filtered_parameter_samples(0.1, 0.05, 20, p=1.0) == 60
    assert guarantees.filtered_parameter_samples(0.1, 0.05, 20, p=0.8, constant=2.0) == 293  # 20 ln 400 / .4096
    assert guarantees.deviation_range(0.25, p=1.0) == (0.5, 0.5)
    assert guarantees.deviation_range(0.9, p=0.6, lower_constant=1.2) == pytest.approx((1.2 * 0.729, math.sqrt(0.9)))


def test_filtered_errors_by_hand() -> None:
    bound = guarantees.filtered_angle_error(0.1, psi=0.75, p=0.8)
    assert bound.value == pytest.approx(math.pi * (math.sqrt(2) * 0.8 * 0.1 + 0.6 + 0.24))
    assert bound.vacuous
    assert not guarantees.filtered_angle_error(0.01, psi=0.6, p=1.0).vacuous
    bound = guarantees.filtered_weight_error(0.1, psi=0.75, p=0.8)
    assert bound.value == pytest.approx(math.pi * (math.sqrt(2) * 0.8 * 0.1 + 1.2 * 3.2))
    best = guarantees.filtered_weight_error(1e-9, psi=0.5 + 1e-9, p=1.0)
    assert best.vacuous
    assert best.value == pytest.approx(3 * math.pi, rel=1e-6)


def test_the_first_term_of_the_angle_error_is_hoeffdings_for_the_samples() -> None:
    """How sqrt(2) pi, and not sqrt(2 pi), was read: the two statements of Proposition 4.2 fit together."""
    psi, p, delta = 0.8, 0.9, 1e-200  # so many samples that rounding up does not matter
    n = guarantees.filtered_samples(psi, p=p, delta=delta)
    deviation = math.sqrt(math.log(1 / delta) / (2 * n))
    rest = 3 * math.pi * (1 - p) + 2 * math.pi * (2 - p) * 1e-9
    first = guarantees.filtered_angle_error(1e-9, psi=psi, p=p).value - rest
    assert first == pytest.approx(2 * math.pi * deviation, rel=1e-4)


# --- arguments ----------------------------------------------------------------------------------

G = guarantees
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: G.parameter_samples(0.0, 0.1, 2), "epsilon must be above 0 and below 1"),
    (lambda: G.parameter_samples(math.nan, 0.1, 2), "epsilon must be above 0 and below 1"),
    (lambda: G.parameter_samples("much", 0.1, 2), "epsilon must be above 0 and below 1"),  # type: ignore[arg-type]
    (lambda: G.parameter_samples(0.1, 1.0, 2), "delta must be above 0 and below 1"),
    (lambda: G.parameter_samples(0.1, 0.1, 0), "d must be an integer of 1 or more"),
    (lambda: G.parameter_samples(0.1, 0.1, 2.5), "d must be an integer of 1 or more"),  # type: ignore[arg-type]
    (lambda: G.parameter_samples(0.1, 0.1, 2, constant=0.0), "constant must be above 0"),
    (lambda: G.parameter_samples(1e-160, 0.1, 2), "beyond double precision"),
    (lambda: G.distribution_samples(1e-200, 0.1, 2), "beyond double precision"),
    (lambda: G.angle_samples(1e-200, 0.1), "beyond double precision"),
    (lambda: G.distribution_samples(0.6, 0.1, 2), "epsilon must be above 0 and at most 1/2"),
    (lambda: G.distribution_samples(0.5, 0.1, 2, 0.5), "condition_number must be 1 or more"),
    (lambda: G.distribution_samples_lower_bound(0.5, True), "d must be an integer"),
    (lambda: G.negative_bias_samples(0.0), "bias must be below 0"),
    (lambda: G.negative_bias_samples(-40.0), "beyond double precision"),
    (lambda: G.negative_bias_samples(-1.0, scale=0.0), "scale must be above 0"),
    (lambda: G.both_positive_probability([0.0, 0.0], [1.0, 0.0]), "u must be a finite vector that is not zero"),
    (lambda: G.both_positive_probability([1.0], [1.0, 0.0]), "the same length, got 1 and 2"),
    (lambda: G.exceedance_probability(RectifiedGaussian([0.0, -1.0], np.eye(2)), 0, 1), "Lemma 2 holds for biases at"),
    (lambda: G.exceedance_probability(RectifiedGaussian([0.0, 1.0], np.diag([1.0, 0.0])), 0, 1), "has no angle"),
    (lambda: G.exceedance_probability(RectifiedGaussian([0.0, 1.0], np.eye(2)), 0, 2), "No feature 2"),
    (lambda: G.probability_shift(0.0), "epsilon must be above 0"),
    (lambda: G.angle_samples(1.0, 0.1), "epsilon must be above 0 and below 1"),
    (lambda: G.filtered_samples(0.9, p=0.5, delta=0.1), "p must be above 1/2 and at most 1"),
    (lambda: G.filtered_samples(0.9, p=1.1, delta=0.1), "p must be above 1/2 and at most 1"),
    (lambda: G.filtered_samples(0.5, p=1.0, delta=0.1), r"psi must be above 1/\(2p\) = 0.5 and at most 1"),
    (lambda: G.filtered_angle_error(0.1, psi=1.1, p=1.0), "psi must be above"),
    (lambda: G.filtered_weight_error(-0.1, psi=0.9, p=1.0), "xi must be above 0"),
    (lambda: G.filtered_parameter_samples(0.1, 0.1, 2, p=0.4), "p must be above 1/2"),
    (lambda: G.deviation_range(0.01, p=0.9), "No Psi: it must be at least 0.556"),
    (lambda: G.gradient_error(0.1, distance=1, steps=-1, convexity=1, smoothness=1), "steps must be an integer of 0"),
    (lambda: G.gradient_error(0.1, distance=1, steps=1, convexity=2, smoothness=1), "convexity must be at most"),
    (
        lambda: G.gradient_error(0.1, distance=1, steps=1, convexity=1, smoothness=3, step_size=0.6),
        r"at most 2/\(convexity \+ smoothness\) = 0.5",
    ),
    (lambda: G.gradient_steps(0.0, distance=1, convexity=1, smoothness=1), "error must be above 0"),
    (lambda: G.rows_needed(RectifiedGaussian([1.0], [[1.0]])), "Give bias_error, weight_error or both"),
    (lambda: G.rows_needed(RectifiedGaussian([1.0], [[1.0]]), bias_error=0.0), "bias_error must be above 1e-7"),
    (lambda: G.rows_needed(RectifiedGaussian([1.0], [[1.0]]), weight_error=-1.0), "weight_error must be above 1e-7"),
    (lambda: G.rows_needed(RectifiedGaussian([1.0], [[1.0]]), bias_error=0.1, probability=1.0), "probability must be"),
    (lambda: G.rows_needed(RectifiedGaussian([1.0], [[0.0]]), bias_error=0.1), "constant"),
    (lambda: G.expected_errors(RectifiedGaussian([1.0], [[1.0]]), 0), "n must be an integer of 1 or more"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments_are_refused(number: int) -> None:
    call, message = WRONG[number]
    with pytest.raises(InvalidParameterError, match=message):
        call()


# --- the distribution of a squared error -----------------------------------------------------------------


@pytest.mark.parametrize(
    "eigenvalues", [[1.0], [2.0, 2.0, 2.0], [1.0, 0.1], [5.0, 2.0, 1.0, 1.0, 0.3], [1.0] * 30 + [9.0]]
)
def test_quantiles_of_weighted_chi_squares(eigenvalues: list[float]) -> None:
    e = np.array(eigenvalues)
    distribution = SquaredError(e.sum(), (e**2).sum(), (e**3).sum())
    draws = np.random.default_rng(0).standard_normal((200_000, len(e))) ** 2 @ e
    for probability, tolerance in ((0.5, 0.07), (0.8, 0.03), (0.9, 0.03), (0.95, 0.03), (0.99, 0.03)):
        assert float(distribution.quantile(probability)) == pytest.approx(
            np.quantile(draws, probability), rel=tolerance
        )
    assert distribution.mean_root() == pytest.approx(np.mean(np.sqrt(draws)), rel=0.015)
    assert distribution.mean_root(4.0, 0.5) == pytest.approx(np.mean(np.sqrt(draws / 4.0 + 0.5)), rel=0.015)
    assert float(distribution.with_trace(3.0 * distribution.trace).quantile(0.9)) == pytest.approx(
        3.0 * float(distribution.quantile(0.9))
    )


def test_traces_from_influences() -> None:
    """Gaussian influences with known C, in batches and with importance weights, against tr C^2 and tr C^3."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6)) + 2.0
    c = root @ root.T
    weight = rng.choice([0.5, 2.0], size=1500, p=[2 / 3, 1 / 3])  # of mean 1
    h = rng.standard_normal((1500, 6)) @ root.T
    batches = [(h[:, :2], np.diag(c)[:2]), (h[:, 2:], np.diag(c)[2:])]
    distribution = SquaredError.of_influences(batches, weight)
    assert distribution.trace == pytest.approx(np.trace(c), rel=1e-12)
    assert distribution.square == pytest.approx(np.trace(c @ c), rel=0.02)
    assert distribution.cube == pytest.approx(np.trace(c @ c @ c), rel=0.03)


def test_a_rare_influence_counts_though_no_draw_shows_it() -> None:
    h = np.random.default_rng(0).standard_normal((500, 2)) * [1.0, 0.01]
    distribution = SquaredError.of_influences([(h, np.array([1.0, 100.0]))], np.ones(500))
    assert distribution.square == pytest.approx(10_001.0, rel=0.01)
    assert distribution.cube == pytest.approx(1e6, rel=0.01)


# --- influences ---------------------------------------------------------------------------------


def _mixed_model() -> RectifiedGaussian:
    """From mostly floored to mostly seen, correlations of both signs, norms from 1/2 to 2."""
    correlation = np.array([[1.0, 0.5, 0.3, 0.1], [0.5, 1.0, -0.2, 0.4], [0.3, -0.2, 1.0, -0.6], [0.1, 0.4, -0.6, 1.0]])
    scale = np.array([1.0, 0.5, 2.0, 1.0])
    return RectifiedGaussian(scale * [-2.0, -0.7, 0.4, 2.0], correlation * np.outer(scale, scale))


def test_drawn_rows_stand_for_the_model() -> None:
    influences = Influences(_mixed_model())
    powers, weight = influences.draw(100_000, np.random.default_rng(0))
    assert weight.max() <= 2.0
    assert powers[0].mean(axis=0).min() > 0.1  # the rarest column is seen, though of probability .02
    averages = powers * weight[:, None]
    error = averages.std(axis=1) / 100_000**0.5
    assert np.all(np.abs(averages.mean(axis=1) - influences.moments[:, :3].T) < 4.5 * error)
    both = averages[0][:, influences.i] * powers[0][:, influences.j]
    assert np.all(np.abs(both.mean(axis=0) - influences.mean[:, 6]) < 4.5 * both.std(axis=0) / 100_000**0.5)


def test_influences_have_mean_zero_and_the_stated_variance() -> None:
    influences = Influences(_mixed_model())
    powers, weight = influences.draw(100_000, np.random.default_rng(1))
    batches = [influences.on_biases(powers), *influences.on_covariances(powers, 1e12)]
    assert sum(h.shape[1] for h, _ in batches) == 4 + 4 + 6
    for h, variance in batches:
        mean = weight @ h / len(h)
        assert np.all(np.abs(mean) < 4.5 * np.sqrt(variance / len(h) * 2.0))
        assert weight @ h**2 / len(h) == pytest.approx(variance, rel=0.06)


def test_influences_are_those_of_the_learner() -> None:
    """A learner's move, when some rows get a little more weight, is the mean influence of these rows."""
    truth = _mixed_model()
    x = truth.sample(20_000, random_state=0)
    model = one_pass().fit(x).distribution_
    influences = Influences(model)
    u = (x - model.mean) / model.std
    above = x > 0.0
    v = np.where(above, u - np.maximum(-influences.a, 0.0), 0.0)
    powers = np.stack([above.astype(float), v, v * v])
    chosen = x[:, 0] + x[:, 1] > 1.0
    step = 1e-4
    moved = one_pass().fit(x, sample_weight=1.0 + step * chosen).distribution_
    w_squared = np.trace(model.covariance)
    on_bias, _ = influences.on_biases(powers)
    expected = step * on_bias[chosen].sum(axis=0) / len(x)
    assert (moved.mean - model.mean) / w_squared**0.5 == pytest.approx(expected, rel=0.02, abs=1e-9)
    (on_variance, _), (on_pairs, _) = influences.on_covariances(powers, len(x))
    change = (moved.covariance - model.covariance) / w_squared
    assert np.diag(change) == pytest.approx(step * on_variance[chosen].sum(axis=0) / len(x), rel=0.02, abs=1e-9)
    expected = step * on_pairs[chosen].sum(axis=0) / len(x) / math.sqrt(2.0)
    assert change[influences.i, influences.j] == pytest.approx(expected, rel=0.02, abs=5e-9)


# --- the planner --------------------------------------------------------------------------------


def test_one_column_far_above_its_floor_is_an_ordinary_sample() -> None:
    plan = guarantees.rows_needed(
        RectifiedGaussian([100.0], [[4.0]]), bias_error=0.1, weight_error=0.1, probability=0.9
    )
    chi2 = stats.chi2.ppf(0.9, 1)
    assert plan.for_bias == math.ceil(chi2 / 0.01)  # var(b^) = s^2 / n
    assert plan.for_weights == plan.rows == math.ceil(2 * chi2 / 0.01)  # var(s^2) = 2 s^4 / n
    assert plan.probability == 0.9
    assert plan.mean_bias_error == pytest.approx(math.sqrt(2 / (math.pi * plan.rows)), rel=1e-3)
    assert plan.mean_weight_error == pytest.approx(math.sqrt(4 / (math.pi * plan.rows)), rel=1e-3)
    assert plan.fewest_positives == plan.fewest_joint_positives == plan.rows


@pytest.mark.parametrize("a", [-2.5, -0.5, 1.0])
def test_one_floored_column_has_fishers_information(a: float) -> None:
    """The information on (b, s) by quadrature of squared scores; the inverse gives both variances."""

    def score(u: float) -> np.ndarray:
        return np.array([u, u * u - 1.0])

    hazard = stats.norm.pdf(a) / stats.norm.sf(a)
    floored = np.array([-hazard, a * hazard])
    information = stats.norm.sf(a) * np.outer(floored, floored)
    for i in range(2):
        for j in range(2):
            information[i, j] += integrate.quad(lambda u: score(u)[i] * score(u)[j] * stats.norm.pdf(u), -a, 12.0)[0]  # noqa: B023
    variance = np.linalg.inv(information)
    plan = guarantees.rows_needed(RectifiedGaussian([3.0 * a], [[9.0]]), bias_error=0.03, weight_error=0.03)
    chi2 = stats.chi2.ppf(0.95, 1)
    assert plan.for_bias == pytest.approx(chi2 * variance[0, 0] / 0.03**2, rel=1e-3)
    assert plan.for_weights == pytest.approx(chi2 * 4 * variance[1, 1] / 0.03**2, rel=1e-3)
    assert plan.fewest_positives == pytest.approx(plan.rows * stats.norm.cdf(a))


def test_without_floors_the_errors_are_those_of_a_sample_covariance() -> None:
    """Cov(S_ij, S_kl) = (S_ik S_jl + S_il S_jk) / n: another road to C, and quantiles by simulation."""
    model = random_model(4, condition_number=20.0, random_state=1)
    model = RectifiedGaussian(model.mean + 100.0, model.covariance)
    s, trace = model.covariance, np.trace(model.covariance)
    c = (np.einsum("ik,jl->ijkl", s, s) + np.einsum("il,jk->ijkl", s, s)).reshape(16, 16) / trace**2
    rng = np.random.default_rng(0)
    plan = guarantees.rows_needed(model, bias_error=0.02, weight_error=0.02)
    for planned, eigenvalues in [
        (plan.for_bias, np.linalg.eigvalsh(s) / trace),
        (plan.for_weights, np.maximum(np.linalg.eigvalsh(c), 0.0)),
    ]:
        draws = rng.standard_normal((200_000, len(eigenvalues))) ** 2 @ eigenvalues
        assert planned == pytest.approx(np.quantile(draws, 0.95) / 0.02**2, rel=0.03)


@pytest.mark.slow
def test_fits_have_the_planned_errors() -> None:
    model = RectifiedGaussian([1.0, 0.2, -0.5], [[1.0, 0.7, 0.1], [0.7, 2.0, -0.4], [0.1, -0.4, 1.0]])
    n, repetitions = 500, 200
    plan = guarantees.rows_needed(model, bias_error=0.1, weight_error=0.1, probability=0.8)
    assert plan.for_bias is not None
    assert plan.for_weights is not None
    bounds = {"bias": 0.1 * (plan.for_bias / n) ** 0.5, "weights": 0.1 * (plan.for_weights / n) ** 0.5}
    fits = [one_pass().fit(model.sample(n, random_state=k)).distribution_ for k in range(repetitions)]
    expected = guarantees.expected_errors(model, n)
    for name, bound in bounds.items():
        errors = np.array([parameter_errors(fit, model)[name] for fit in fits])
        assert np.mean(errors <= bound) == pytest.approx(0.8, abs=3.5 * (0.8 * 0.2 / repetitions) ** 0.5)
        assert np.mean(errors) == pytest.approx(expected[name], abs=3.5 * np.std(errors) / repetitions**0.5)
        assert 0.07 < bound < 0.15  # the plan of another model would not do


def test_a_pair_never_above_both_floors_is_left_to_the_prior() -> None:
    model = RectifiedGaussian([-1.5, -1.5], [[1.0, -0.95], [-0.95, 1.0]])
    fits = [one_pass().fit(model.sample(5000, random_state=k)).distribution_ for k in range(15)]
    mean = np.mean([parameter_errors(fit, model)["weights"] for fit in fits])
    assert guarantees.expected_errors(model, 5000)["weights"] == pytest.approx(mean, rel=0.25)


def test_harmless_rare_pairs_do_not_ask_for_rows() -> None:
    """Two rare columns of little weight beside two ordinary ones: what is not known of their covariance is small."""
    correlation = np.eye(4)
    correlation[2, 3] = correlation[3, 2] = -0.9
    scale = np.array([1.0, 1.0, 0.1, 0.1])
    model = RectifiedGaussian(scale * [0.0, 0.0, -1.5, -1.5], correlation * np.outer(scale, scale))
    plan = guarantees.rows_needed(model, weight_error=0.1)
    ordinary = guarantees.rows_needed(model.marginal([0, 1]), weight_error=0.1)
    assert plan.rows == pytest.approx(ordinary.rows, rel=0.2)
    assert plan.fewest_joint_positives < 1e-3


def test_units_floors_and_constant_columns_do_not_matter() -> None:
    model = random_model(3, condition_number=3.0, mean="signed", random_state=2)
    rows = guarantees.rows_needed(model, bias_error=0.1, weight_error=0.1)
    unit = 1e100
    shifted = RectifiedGaussian((model.mean + 7.0) * unit, model.covariance * unit**2, floor=7.0 * unit)
    again = guarantees.rows_needed(shifted, bias_error=0.1, weight_error=0.1)
    assert (again.for_bias, again.for_weights) == pytest.approx((rows.for_bias, rows.for_weights), rel=1e-3)
    padded = np.zeros((4, 4))
    padded[:3, :3] = model.covariance
    constant = RectifiedGaussian([*model.mean, 5.0], padded)
    assert guarantees.rows_needed(constant, bias_error=0.1, weight_error=0.1).rows == rows.rows


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_exact_images_add_no_uncertainty(sign: float) -> None:
    twice = RectifiedGaussian([10.0, sign * 20.0 + 60.0], [[1.0, 2.0 * sign], [2.0 * sign, 4.0]])
    once = guarantees.rows_needed(RectifiedGaussian([10.0], [[1.0]]), bias_error=0.1, weight_error=0.1)
    plan = guarantees.rows_needed(twice, bias_error=0.1, weight_error=0.1)
    assert (plan.for_bias, plan.for_weights) == pytest.approx((once.for_bias, once.for_weights), rel=0.01)


@pytest.mark.slow
def test_more_is_needed_for_more() -> None:
    model = _mixed_model()
    plan = guarantees.rows_needed(model, bias_error=0.1, weight_error=0.1, probability=0.9)
    finer = guarantees.rows_needed(model, bias_error=0.02, weight_error=0.02, probability=0.9, random_state=1)
    surer = guarantees.rows_needed(model, bias_error=0.1, weight_error=0.1, probability=0.99)
    for name in ("for_bias", "for_weights"):
        assert getattr(finer, name) == pytest.approx(25 * getattr(plan, name), rel=0.03)
        assert getattr(surer, name) > 1.2 * getattr(plan, name)
    assert plan.rows == max(plan.for_bias or 0, plan.for_weights or 0)
    assert guarantees.rows_needed(model, bias_error=0.1, probability=0.9).for_weights is None
    sure = RectifiedGaussian([9.0, 9.0], np.eye(2))
    assert guarantees.rows_needed(sure, bias_error=1e6, weight_error=1e6, probability=1e-9).rows == 2
    errors = [guarantees.expected_errors(model, n) for n in (1000, 4000)]
    for name in ("bias", "weights"):
        assert errors[0][name] == pytest.approx(2.0 * errors[1][name], rel=0.01)


def test_columns_that_are_hardly_ever_seen_are_named() -> None:
    names = ["As", "Pb"]
    never = RectifiedGaussian([1.0, -9.0], np.eye(2), feature_names=names)
    with pytest.raises(InvalidParameterError, match=r"Column 1 \('Pb'\) is practically never above its floor"):
        guarantees.rows_needed(never, bias_error=0.1)
    constant = RectifiedGaussian([1.0, -1.0], np.diag([1.0, 0.0]))
    with pytest.raises(InvalidParameterError, match="Column 1 is practically never"):
        guarantees.rows_needed(constant, bias_error=0.1)
    rare = RectifiedGaussian([1.0, -0.04], np.diag([1.0, 1e-4]), feature_names=names)
    with pytest.raises(InvalidParameterError, match=r"\('Pb'\) is above its floor in one row of 31,574, so that in"):
        guarantees.rows_needed(rare, bias_error=0.2)
    with pytest.raises(InvalidParameterError, match="in 1,000 rows it would probably never be"):
        guarantees.expected_errors(rare, 1000)
    assert guarantees.rows_needed(rare, bias_error=0.001).fewest_positives > 1.0


def test_a_covariance_that_cannot_be_learned_is_refused() -> None:
    model = RectifiedGaussian([-3.0, -3.0], [[1.0, -0.95], [-0.95, 1.0]])
    with pytest.raises(InvalidParameterError, match="More than 1e\\+15 rows would be needed: the rarest pair"):
        guarantees.rows_needed(model, weight_error=0.01)
