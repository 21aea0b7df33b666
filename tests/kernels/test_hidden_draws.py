"""Draws of hidden cells against rejection and quadrature: in tails, of singular models, where a walk is needed."""

import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

from tests.references import hidden_draws as reference
from unrelu.kernels.hidden_draws import draw_hidden, draw_workspace
from unrelu.kernels.random_numbers import seed_stream


def draws(m, v, limit, floored, n, seed=0, row=0, start=None, room=0):
    """(draws, how many of them from a walk)."""
    stream, out = np.empty(4, np.uint64), np.empty((n, len(m)))
    seed_stream(seed, row, stream)
    start = np.minimum(m, limit - 0.1) if start is None else start
    return out, draw_hidden(m, v, limit, floored, start, stream, draw_workspace(len(m) + room), out)


def model(seed, d):
    """Correlations up to .9; the first cells floored, the others missing."""
    rng = np.random.default_rng(seed)
    correlation = np.eye(d)
    while not 0.6 < np.abs(correlation - np.eye(d)).max() <= 0.9:
        w = rng.standard_normal((d, int(rng.integers(1, 4))))
        v = w @ w.T + np.diag(rng.uniform(0.05, 1.0, d))
        correlation = v / np.sqrt(np.outer(v.diagonal(), v.diagonal()))
    scale = np.exp(rng.normal(0.0, 0.7, d))
    m, floored = rng.normal(0.0, 1.0, d), int(rng.integers(1, d + 1))
    limit = m + scale * rng.uniform(-0.5, 1.0, d)
    limit[floored:] = np.inf
    return m, correlation * np.outer(scale, scale), limit, floored, rng


def correlation_errors(x, i, j):
    """The correlation of two columns and its standard error, whatever their distribution."""
    a, b = (x[:, i] - x[:, i].mean()) / x[:, i].std(), (x[:, j] - x[:, j].mean()) / x[:, j].std()
    r = np.mean(a * b)
    return r, np.std(a * b - 0.5 * r * (a * a + b * b)) / np.sqrt(len(x))


@pytest.mark.parametrize(("seed", "d"), [(2, 2), (13, 3), (4, 4), (35, 5), (16, 6), (28, 8)])
def test_against_rejection(seed, d):
    """At most 36 tests a model, six models: each at the level 1e-3/200. Seeds: rejection keeps enough of them."""
    m, v, limit, floored, rng = model(seed, d)
    out, walked = draws(m, v, limit, floored, 10_000)
    expected = reference.rejection_draws(m, v, limit, 10_000, rng)
    assert walked == 0
    assert (out <= limit).all()
    for j in range(d):
        assert ks_2samp(out[:, j], expected[:, j]).pvalue > 5e-6
        for i in range(j):
            (r, error), (truth, other) = correlation_errors(out, i, j), correlation_errors(expected, i, j)
            assert abs(r - truth) < 4.6 * np.hypot(error, other)
    after = np.array([np.corrcoef(out[1:, j], out[:-1, j])[0, 1] for j in range(d)])
    assert np.abs(after).max() < 4.0 / np.sqrt(len(out))


def test_what_is_not_kept_matters():
    """Ten cells with correlations .9, of whose proposals a third is not kept: their lowest, highest and mean."""
    v = np.full((10, 10), 0.9) + 0.1 * np.eye(10)
    out, walked = draws(np.zeros(10), v, np.zeros(10), 10, 20_000)
    expected = reference.rejection_draws(np.zeros(10), v, np.zeros(10), 20_000, np.random.default_rng(0))
    assert walked == 0
    for summary in (np.min, np.max, np.mean):
        assert ks_2samp(summary(out, axis=1), summary(expected, axis=1)).pvalue > 1e-3


@pytest.mark.parametrize("r", [-0.99, -0.5, 0.0, 0.9, 0.99])
@pytest.mark.parametrize("limit", [[1.0, -0.5], [-3.0, -6.0], [-30.0, -25.0], [-30.0, np.inf]])
def test_pairs_in_the_tail_against_quadrature(r, limit):
    """Forty tests: the level is 1e-3/40."""
    m, scale, limit = np.array([0.3, -0.2]), np.array([2.0, 0.5]), np.array(limit)
    v = np.array([[1.0, r], [r, 1.0]]) * np.outer(scale, scale)
    limit = m + scale * limit
    out, walked = draws(m, v, limit, 2, 4000)
    assert walked == 0
    for a, b in ([0, 1], [1, 0]):
        if np.isfinite(limit[a]):
            turned = np.ix_([a, b], [a, b])
            cdf = reference.marginal_cdf(out[:, a], m[[a, b]], v[turned], limit[[a, b]])
            assert kstest(cdf, "uniform").pvalue > 2.5e-5


def test_without_limits_it_is_the_normal():
    m, v, _, _, _ = model(1, 4)
    out, _ = draws(m, v, np.full(4, np.inf), 0, 20_000)
    white = np.linalg.solve(np.linalg.cholesky(v), (out - m).T)
    assert kstest(white.ravel(), "norm").pvalue > 1e-3
    np.testing.assert_allclose(np.corrcoef(white), np.eye(4), atol=4.0 / np.sqrt(20_000))
    floored, _ = draws(m, v, np.full(4, np.inf), 4, 20_000)  # limits at infinity are none
    np.testing.assert_array_equal(floored, out)


def test_a_row_does_not_depend_on_its_batch():
    m, v, limit, floored, _ = model(3, 5)
    out, _ = draws(m, v, limit, floored, 20, seed=4, row=7)
    again, _ = draws(m, v, limit, floored, 5, seed=4, row=7, room=3)
    np.testing.assert_array_equal(again, out[:5])
    for seed, row in [(4, 8), (5, 7)]:
        assert not np.any(draws(m, v, limit, floored, 5, seed=seed, row=row)[0] == again)


def test_degenerate_directions_stay_so():
    """Three factors behind ten cells without noise, two of them missing; and a cell without any variance."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((10, 3))
    w[4] = 0.0
    y = w @ rng.standard_normal(3)
    limit = np.where(np.arange(10) < 8, np.maximum(y, 0.0) + 0.2, np.inf)
    out, _ = draws(np.zeros(10), w @ w.T, limit, 8, 4000, start=y)
    expected = reference.rejection_draws(np.zeros(10), w @ w.T, limit, 4000, rng)
    assert np.abs(out @ np.linalg.svd(w)[0][:, 3:]).max() < 1e-8
    assert (out <= limit).all()
    assert min(ks_2samp(out[:, j], expected[:, j]).pvalue for j in range(10) if j != 4) > 1e-4


@pytest.mark.parametrize("width", [1.0, 1e-3, 1e-6])
def test_two_cells_that_leave_each_other_a_gap(width):
    """y_2 = -y_1, both limited: y_1 is nearly uniform between -width and 0. Narrow gaps need the walk."""
    out, walked = draws(
        np.zeros(2),
        np.array([[1.0, -1.0], [-1.0, 1.0]]),
        np.array([0.0, width]),
        2,
        2000,
        start=np.array([-width / 2, width / 2]),
    )
    assert walked == (0 if width == 1.0 else 2000)
    assert np.abs(out.sum(axis=1)).max() < 1e-8 * width
    x = -out[:, 0] / width
    if width < 1.0:
        assert kstest(x, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 4.0 / np.sqrt(len(x))


def test_a_walk_of_many_cells():
    """A hundred independent pairs with correlation .9: of each .9 proposals are kept, of all none. Quadrature knows."""
    pair, limit = np.array([[1.0, 0.9], [0.9, 1.0]]), np.zeros(2)
    out, walked = draws(
        np.zeros(200), np.kron(np.eye(100), pair), np.tile(limit, 100), 200, 40, start=np.full(200, -0.5)
    )
    assert walked == 40
    for a, b in ([0, 1], [1, 0]):
        cdf = reference.marginal_cdf(out[:, a::2].ravel(), np.zeros(2), pair, limit[[a, b]])
        assert kstest(cdf, "uniform").pvalue > 1e-3
    after = np.mean([np.corrcoef(out[1:, j], out[:-1, j])[0, 1] for j in range(200)])
    assert abs(after + 1 / 39) < 4.0 / np.sqrt(39 * 100)
