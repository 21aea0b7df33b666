"""The information at a distribution: against differences of the log-likelihood itself, and that of complete rows."""

import numpy as np
import pytest

import unrelu
from unrelu.contracts import Evidence
from unrelu.fit.likelihood import maximizing as curvature
from unrelu.fit.likelihood.maximizing import Cells, CovarianceModel, FactorModel, Prior, maximize, scores_of
from unrelu.passes.engine import LocalEngine
from unrelu.tables import ArraySamples

D, N = 3, 400
CELLS, PRIOR = Cells(np.arange(D), np.zeros(D), np.ones(D), np.zeros(D)), Prior(1.0, np.eye(D))
LAWS = {
    "covariance": CovarianceModel(np.zeros(D), np.eye(D)),
    "factors": FactorModel(np.zeros(D), np.array([[0.5], [0.4], [0.6]]), np.ones(D)),
}


@pytest.fixture(scope="module")
def rows():
    return unrelu.RectifiedGaussian([0.2, -0.3, 0.5], 0.5 * np.eye(D) + 0.5).sample(N, random_state=0)


def around(evidence, cells, distribution):
    outer = scores_of(evidence, cells, distribution, outer=True).outer
    return curvature.curvature(evidence, cells, distribution, PRIOR, (N, N), outer)


@pytest.mark.parametrize("name", LAWS)
def test_information_is_the_bend_of_the_likelihood(rows, name):
    evidence = Evidence(ArraySamples(rows), LocalEngine())
    distribution = maximize(evidence, CELLS, LAWS[name], PRIOR, (N, N)).model
    found, p, step = around(evidence, CELLS, distribution), distribution.n_coordinates, 0.02

    def level(theta):
        moved = distribution.moved(theta)[0]
        return scores_of(evidence, CELLS, moved).log_likelihood + PRIOR.add(moved, 0.0, 0.0)[0]

    for i, j in ((0, 0), (0, D), (D, D), (D + 1, D + 2), (p - 1, p - 1), (1, p - 1)):
        e, f = step * np.eye(p)[[i, j]]
        bend = -(level(e + f) - level(e - f) - level(f - e) + level(-e - f)) / (4.0 * step**2)
        scale = np.sqrt(found[0][i, i] * found[0][j, j])
        assert found[0][i, j] == pytest.approx(bend, abs=0.02 * scale)


def test_the_slope_of_the_correction_is_its_derivative(rows):
    evidence = Evidence(ArraySamples(rows), LocalEngine())
    distribution = maximize(evidence, CELLS, LAWS["covariance"], PRIOR, (N, N)).model
    found = around(evidence, CELLS, distribution)[2]

    def correction(theta):
        levels = [
            scores_of(evidence, CELLS, distribution.moved(theta)[0], corrected=each).log_likelihood
            for each in (True, False)
        ]
        return levels[0] - levels[1]

    for j, e in enumerate(0.01 * np.eye(distribution.n_coordinates)):
        difference = (correction(e) - correction(-e)) / 0.02
        assert found[j] == pytest.approx(difference, abs=0.02 * np.abs(found).max())


def test_complete_rows_have_the_information_of_complete_rows_also_on_a_part_of_them(monkeypatch):
    y = np.random.default_rng(0).multivariate_normal(np.zeros(D), 0.5 * np.eye(D) + 0.5, size=N)
    evidence = Evidence(ArraySamples(y), LocalEngine())
    cells = Cells(np.arange(D), np.zeros(D), np.ones(D), np.full(D, -np.inf))
    distribution = maximize(evidence, cells, LAWS["covariance"], PRIOR, (N, N)).model
    wanted = np.diag(N * distribution.complete_metric)
    np.testing.assert_allclose(around(evidence, cells, distribution)[0], wanted, atol=0.02 * N)
    monkeypatch.setattr(curvature, "_WORK", 1.0)
    monkeypatch.setattr(curvature, "_FEWEST_ROWS", 200)
    half = around(evidence, cells, distribution)[0]
    assert 0.002 * N < np.abs(half - wanted).max() < 0.4 * N  # 200 rows know second moments to a tenth
