"""The climb: the likelihood never falls, and few rounds are enough where plain EM needs hundreds."""

import numpy as np
import pytest

import unrelu
from unrelu.contracts import Evidence
from unrelu.fit.likelihood.maximizing import Cells, CovarianceModel, FactorModel, Prior, maximize
from unrelu.passes.engine import LocalEngine
from unrelu.tables import ArraySamples

D, N = 6, 1500


@pytest.fixture(scope="module")
def evidence():
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((D, 2))
    covariance = weights @ weights.T + 0.09 * np.eye(D)
    model = unrelu.RectifiedGaussian(rng.uniform(-0.5, 0.5, D) * np.sqrt(np.diagonal(covariance)), covariance)
    return Evidence(ArraySamples(model.sample(N, random_state=1)), LocalEngine())


CELLS = Cells(np.arange(D), np.zeros(D), np.ones(D), np.zeros(D))
LAWS = {
    "covariance": CovarianceModel(np.zeros(D), np.eye(D)),
    "factors": FactorModel(np.zeros(D), np.random.default_rng(2).standard_normal((D, 2)), np.ones(D)),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_likelihood_never_falls_from_a_poor_start(evidence, name):
    climbed = maximize(evidence, CELLS, LAWS[name], Prior(1.0, np.eye(D)), (N, N))
    assert climbed.converged
    assert np.diff(climbed.levels).min() >= -1e-9 * abs(climbed.levels[-1])
    assert climbed.levels[-1] - climbed.levels[0] > 100.0
    again = maximize(evidence, CELLS, climbed.model, Prior(1.0, np.eye(D)), (N, N))
    assert again.rounds <= 3
    assert abs(again.levels[-1] - climbed.levels[-1]) < 1e-4


def test_few_rounds_from_a_good_start_at_little_noise(evidence):
    start = maximize(evidence, CELLS, LAWS["factors"], Prior(1.0, np.eye(D)), (N, N), to_gain=0.1).model
    climbed = maximize(evidence, CELLS, CovarianceModel(start.mean, start.covariance), Prior(1.0, np.eye(D)), (N, N))
    assert climbed.converged
    assert climbed.rounds <= 15


def test_steps_and_slopes_of_covariances_agree():
    """moved() gives the distribution at theta and the chain rule there."""
    rng = np.random.default_rng(3)
    root = rng.standard_normal((4, 4))
    distribution = CovarianceModel(rng.standard_normal(4), root @ root.T + np.eye(4))
    theta, slope = 0.3 * rng.standard_normal(14), rng.standard_normal(14)

    def value(at):
        moved = distribution.moved(at)[0]
        return slope[:4] @ moved.mean + slope[4:] @ moved.covariance[np.tril_indices(4)]

    pulled = distribution.moved(theta)[1](slope)
    for j, e in enumerate(1e-6 * np.eye(14)):
        assert (value(theta + e) - value(theta - e)) / 2e-6 == pytest.approx(pulled[j], rel=1e-5, abs=1e-6)
    _, at_zero = distribution.moved(np.zeros(14))
    outer = np.outer(slope, slope)
    np.testing.assert_allclose(distribution.metric(outer), np.outer(at_zero(slope), at_zero(slope)), atol=1e-8)


@pytest.mark.parametrize("name", LAWS)
def test_the_prior_is_a_row_of_its_second_moment(name):
    distribution, target = LAWS[name], np.eye(D) + 0.2
    value, score = Prior(2.0, target).add(distribution, 0.0, np.zeros(distribution.n_coordinates))
    s = distribution.covariance
    assert value == pytest.approx(-np.linalg.slogdet(s)[1] - np.trace(target @ np.linalg.inv(s)))
    _, pulled = distribution.moved(np.zeros(distribution.n_coordinates))
    for j in (0, D + 1, distribution.n_coordinates - 1):
        e = 1e-6 * np.eye(distribution.n_coordinates)[j]
        ends = [Prior(2.0, target).add(distribution.moved(sign * e)[0], 0.0, score)[0] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(pulled(score)[j], rel=1e-5, abs=1e-5)
