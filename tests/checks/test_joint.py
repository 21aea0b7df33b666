"""Tests of rows: their numbers against the posterior of the cells, and their distribution among rows of the model."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from unrelu.checks.misfit import RowSampleQuestion, group_tests, groups_of, numbers_of
from unrelu.contracts import Assumptions, Block
from unrelu.fit.one_pass import learn_record
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.posterior.density import Density

D = 4
R = 0.5 + 0.5 * np.eye(D)


def rows_of(n, hidden, seed=0):
    """(u, marks) of rows of the model, with a share of every column below its limit and some cells missing."""
    u = np.random.default_rng(seed).multivariate_normal(np.zeros(D), R, n)
    low = norm.ppf(hidden)
    marks = -(u <= low).astype(np.int8)
    u = np.maximum(u, low)
    u[: n // 10, 1], marks[: n // 10, 1] = np.nan, 0
    return u, marks


def kinds():
    """Where the tests of D columns are."""
    numbers = {"far": 1, "tails": D + 1, "axis": D, "lopsided": D, "bent": D * (D - 1), "zeros": D + 1, "skewed": D + 1}
    edges = np.cumsum([0, *numbers.values()])
    return {kind: slice(a, b) for kind, a, b in zip(numbers, edges[:-1], edges[1:], strict=True)}


def test_numbers_are_those_of_the_posterior():
    u, marks = rows_of(200, 0.5)
    found = numbers_of(u, marks, R)
    cells = Density(np.zeros(D), np.ones(D), R)
    means, stds, *_ = cells.marginals(u, marks)
    at = kinds()
    assert found[0].shape[1] == at["skewed"].stop
    np.testing.assert_allclose(found[2], means, atol=1e-6)
    square = means**2 + stds**2
    np.testing.assert_allclose(found[0][:, at["tails"]][:, :D], np.log1p(square / 5.0), atol=1e-5)
    q, row = np.linalg.inv(R), 7
    mean, covariance = cells.joint(u[row : row + 1], marks[row : row + 1])
    whole = mean @ q @ mean + np.trace(q @ covariance)
    assert found[0][row, 0] == pytest.approx(np.log1p(whole / 5.0), abs=1e-5)
    bent = (q @ mean)[1] / np.sqrt(q[1, 1]) * (min(square[row, 0], 9.0) - 1.0)
    assert found[0][row, at["bent"]][0] == pytest.approx(bent, abs=1e-5)


def test_zeros_are_tested_by_the_rest_of_their_row():
    """One cut-off cell in a row of seen ones: its probability is that of a conditional normal."""
    u = np.array([[0.0, 1.5, 1.0, 2.0], [0.0, -1.0, -1.5, -0.5]])
    marks = np.array([[-1, 0, 0, 0], [-1, 0, 0, 0]], dtype=np.int8)
    found = numbers_of(u, marks, R)[0][:, kinds()["zeros"]]
    slope = np.linalg.solve(R[1:, 1:], R[1:, 0])
    p = ndtr(-(u[:, 1:] @ slope) / np.sqrt(1.0 - R[0, 1:] @ slope))
    np.testing.assert_allclose(found[:, 0], 1.0 / np.maximum(p, 0.1) - 1.0, rtol=1e-6)
    np.testing.assert_array_equal(found[:, 1:D], -1.0)
    assert found[0, 0] == 9.0  # hardly ever: no more than that is made of it


@pytest.mark.parametrize("hidden", [0.2, 0.5])
def test_scores_have_mean_zero_under_the_model(hidden):
    """The exact ones, of skewness and of zeros (but for the bound on 1/p): within 4.5 standard errors."""
    found = numbers_of(*rows_of(20_000, hidden), R)[0]
    skewed = found[:, kinds()["skewed"]]
    assert np.all(np.abs(skewed.mean(axis=0)) < 4.5 * skewed.std(axis=0) / np.sqrt(len(skewed)))


def fitted(x):
    assumptions = Assumptions((0.0,) * x.shape[1])
    stages = learn_record(PairMomentsQuestion.under(assumptions)(Block(x)), assumptions)
    return RowSampleQuestion((0.0,) * x.shape[1])(Block(x)), stages.rows, stages.pairs.correlation


def test_rows_of_the_model_give_standard_normals():
    """50 tables, 46 tests each: spread of z, and its tail, whatever the errors of the fit."""
    y = np.random.default_rng(0).multivariate_normal(np.full(D, 0.2), R, (50, 300))
    z = np.array([group_tests(*fitted(np.maximum(each, 0.0)), np.arange(D)).z for each in y])
    assert 0.85 < z.std() < 1.15
    assert abs(z.mean()) < 0.25
    assert np.mean(np.abs(z) > 2.5758) < 0.03
    assert np.abs(z).max() < 5.5


def test_a_share_of_zeros_is_measured():
    """To first order, 10 % come out between 6 and 14 %, with an error that says so; means are told to be too low."""
    rng = np.random.default_rng(1)
    x = np.maximum(rng.multivariate_normal(np.full(D, 1.0), R, 4000), 0.0)
    x[rng.random(x.shape) < 0.1] = 0.0
    test = group_tests(*fitted(x), np.arange(D))
    at = kinds()["zeros"].stop - 1
    assert test.z[at] > 10.0
    assert 0.06 < test.size[at] < 0.14
    assert test.error[at] < 0.01
    assert (test.shift[at] < -0.1).all()


def test_groups_are_of_columns_that_belong_together():
    r = np.eye(9)
    r[:4, :4] += 0.6 * (1 - np.eye(4))
    usable = np.ones(9, dtype=bool)
    usable[8] = False
    first, second = groups_of(r, usable)
    assert first.tolist() == [0, 1, 2, 3]
    assert sorted(second.tolist()) == [4, 5, 6, 7]
    r[0, 1] = r[1, 0] = 1.0  # one that repeats another says nothing
    assert not {0, 1} <= set(groups_of(r, usable)[0].tolist())
