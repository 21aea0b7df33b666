"""The kernel's predictions of single cells, against dense algebra; bins and posteriors against plain loops."""

import numpy as np

import unrelu
from unrelu.kernels.cell_patterns import cell_log_odds
from unrelu.kernels.cell_shares import bin_posteriors


def test_densities_of_cells_given_the_others_are_exact_without_floors():
    model = unrelu.synthetic.random_model(5, condition_number=10.0, random_state=1)
    r = model.correlation
    rng = np.random.default_rng(3)
    x = rng.multivariate_normal(np.zeros(5), r, 40)
    x[3, 2] = np.nan
    never = np.full(x.shape, -50.0)
    ratios, predicted, rows = np.empty(x.shape), np.empty((2, *x.shape)), np.empty(40)
    precision = np.linalg.inv(r)
    distribution = (np.full(5, -np.inf), np.zeros(5), np.ones(5), precision)
    cell_log_odds(x, distribution, float(np.linalg.slogdet(precision)[1]), never, False, ratios, predicted, rows)
    for i in range(40):
        known = np.flatnonzero(~np.isnan(x[i]))
        for j in known:
            rest = known[known != j]
            weights = np.linalg.solve(r[np.ix_(rest, rest)], r[rest, j])
            variance = 1.0 - weights @ r[rest, j]
            log_density = -0.5 * ((x[i, j] - weights @ x[i, rest]) ** 2 / variance + np.log(2.0 * np.pi * variance))
            np.testing.assert_allclose(predicted[:, i, j], [weights @ x[i, rest], np.sqrt(variance)], atol=1e-5)
            np.testing.assert_allclose(ratios[i, j] + never[i, j], log_density, rtol=1e-6, atol=1e-6)
    assert ratios[3, 2] == 0.0


def test_a_bad_cell_does_not_change_the_probabilities_of_the_others():
    r = np.full((6, 6), 0.8) + 0.2 * np.eye(6)
    x = np.zeros((1, 6))
    x[0, 1], x[0, 4] = 9.0, -7.0
    ratios, predicted, rows = np.empty((1, 6)), np.empty((2, 1, 6)), np.empty(1)
    precision = np.linalg.inv(r)
    distribution = (np.full(6, -np.inf), np.zeros(6), np.ones(6), precision)
    cell_log_odds(
        x, distribution, float(np.linalg.slogdet(precision)[1]), np.full((1, 6), -7.0), False, ratios, predicted, rows
    )
    np.testing.assert_array_equal(ratios[0] < 0.0, [False, True, False, False, True, False])
    assert (ratios[0, [0, 2, 3, 5]] > 5.0).all()
    np.testing.assert_allclose(predicted[0, 0], 0.0, atol=1e-4)  # what all kept cells say, of the bad ones as well


def test_bin_posteriors():
    bins = np.array([[0, 2], [1, -1], [1, 2]])
    inlier, bad = np.full((3, 2), 0.5), np.full((3, 2), 2.0)
    shares, sums = np.array([[0.1, 0.0, 0.2], [0.9, 0.9, 0.8]]), np.zeros((2, 3))
    bin_posteriors(bins, inlier / bad, np.array([1.0, 1.0, 0.5]), shares, sums)
    first, second = 0.1 * 2.0 / (0.9 * 0.5), 0.2 * 2.0 / (0.8 * 0.5)
    np.testing.assert_allclose(sums[0], [first / (1 + first), 0.0, 1.5 * second / (1 + second)])
    np.testing.assert_allclose(sums[1], [np.log1p(first), 0.0, 1.5 * np.log1p(second)])
