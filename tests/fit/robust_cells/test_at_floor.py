"""Shares of cells that are bad and at the floor: the kernel against numerical derivatives, and what is found."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import unrelu
from unrelu.fit.robust_cells.cell_model import CellModel, floor_shares
from unrelu.kernels.cell_shares import floor_scores


def log_densities(x, floor, bins, log_bin, predicted, mean, log_norm, shares, at_floor):
    """Of the cells of one column, by plain formulas; ``at_floor`` takes the place of the share of the first bin."""
    shares = np.concatenate([[at_floor], shares[1:]])
    scale = np.exp(log_norm)
    expected, deviation = mean + scale * predicted[0], scale * predicted[1]
    inlier = np.where(x > floor, norm.pdf(x, expected, deviation), norm.cdf(floor, expected, deviation))
    return np.log((1.0 - shares.sum()) * inlier + shares[bins] * np.exp(log_bin))


def test_scores_are_the_derivatives_of_the_log_density():
    rng = np.random.default_rng(0)
    x = np.maximum(rng.normal(0.3, 1.0, (30, 1)), 0.0)
    predicted = np.stack([rng.normal(0.0, 0.5, (30, 1)), rng.uniform(0.5, 1.0, (30, 1))])
    bins = np.where(x > 0.0, np.where(x > 1.0, 2, 1), 0)
    log_bin = np.where(x > 0.0, np.log(0.8), 0.0)
    shares, weights = np.array([0.04, 0.01, 0.03]), rng.uniform(0.5, 2.0, 30)
    gradient, information = np.zeros((1, 3)), np.zeros((1, 3, 3))
    floor_scores(
        x, np.zeros(1), bins, log_bin, predicted, weights, np.array([[0.4], [1.2]]), shares,
        np.array([1.0 - shares.sum()]), gradient, information,
    )  # fmt: skip
    at, h = np.array([0.4, np.log(1.2), 0.04]), 1e-6

    def by_cell(point):
        return log_densities(x[:, 0], 0.0, bins[:, 0], log_bin[:, 0], predicted[:, :, 0], *point[:2], shares, point[2])

    units = np.diag([1.2, 1.0, 1.0])  # the mean moves by standard deviations
    scores = np.array([(by_cell(at + h * e) - by_cell(at - h * e)) / (2.0 * h) for e in units])
    np.testing.assert_allclose(gradient[0], scores @ weights, rtol=1e-5)
    np.testing.assert_allclose(information[0], (scores * weights) @ scores.T, rtol=1e-5)


@pytest.fixture(scope="module")
def floored():
    model = unrelu.RectifiedGaussian(np.full(6, 0.5), np.full((6, 6), 0.6) + 0.4 * np.eye(6))
    return model, model.sample(4000, random_state=0), CellModel.of_model(model)


def found_in(distribution, x, open_columns=None):
    open_columns = np.ones(6, dtype=bool) if open_columns is None else open_columns
    others = np.full(distribution.background.n_bins, 1e-8)
    found = np.zeros(6)
    for _ in range(5):  # rounds of the learner go on from the shares of those before
        shares = others.copy()
        shares[distribution.background.first_bins] = np.maximum(found, 1e-8)
        distribution = replace(distribution, bad_share=shares)
        found = floor_shares(distribution, distribution.densities(x), x, np.ones(len(x)), others, open_columns)
    return found


def test_one_share_for_all_and_one_of_its_own(floored):
    _, x, distribution = floored
    failed = np.random.default_rng(1).random(x.shape) < [0.05, 0.05, 0.05, 0.05, 0.05, 0.3]
    found = found_in(distribution, np.where(failed, 0.0, x))
    assert len(set(found[:5].tolist())) == 1
    np.testing.assert_allclose(found, [0.05] * 5 + [0.3], atol=0.02)


def test_none_in_a_clean_table_nor_in_columns_that_are_closed(floored):
    _, x, distribution = floored
    np.testing.assert_array_equal(found_in(distribution, x), 0.0)
    failed = np.random.default_rng(1).random(x.shape) < 0.1
    found = found_in(distribution, np.where(failed, 0.0, x), np.arange(6) != 2)
    assert found[2] == 0.0
    assert (found[[0, 1, 3, 4, 5]] > 0.05).all()
