"""The filter over a row against exact densities, against its own algebra in covariances, and at the edges."""

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from tests.references import row_density as reference
from tests.references.likelihood import lower_orthant
from unrelu.kernels.hidden_cells import cell_residuals, hidden_rows
from unrelu.kernels.normal import log_probability_and_hazard
from unrelu.passes.tiles import censoring_of


def model(seed, d, largest=None):
    """(mean, scale, correlation, floor) of any size; correlations at most ``largest``, where that is given."""
    rng = np.random.default_rng(seed)
    if largest is None:
        w = rng.standard_normal((d, d)) + 0.5 * np.eye(d)
        correlation = w @ w.T + 0.3 * d * np.eye(d)
        correlation /= np.sqrt(np.outer(correlation.diagonal(), correlation.diagonal()))
    else:
        correlation = np.eye(d)
        upper = np.triu_indices(d, 1)
        correlation[upper] = rng.uniform(-largest, largest, len(upper[0]))
        correlation = correlation + np.triu(correlation, 1).T
    scale = np.exp(rng.normal(0.0, 0.7, d))
    floor = rng.normal(0.0, 1.0, d)
    return floor + scale * rng.normal(0.0, 1.0, d), scale, correlation, floor


def draw(parameters, n, seed):
    mean, scale, correlation, floor = parameters
    z = np.random.default_rng(seed).standard_normal((n, len(mean)))
    return np.maximum(mean + scale * (z @ np.linalg.cholesky(correlation).T), floor)


def sweep_once(x, censoring, mean, scale, precision, out):
    mean, scale = np.ascontiguousarray(mean), np.ascontiguousarray(scale)
    hidden_rows(x, censoring, mean, scale, precision, False, out, np.empty((4, 0, len(mean))), np.empty((0, 0)))


def density(x, parameters):
    mean, scale, correlation, floor = parameters
    out = np.empty(len(x))
    log_det = float(np.linalg.slogdet(correlation)[1])
    sweep_once(*censoring_of(x, None, floor), mean, scale, np.linalg.inv(correlation), out)
    return out - 0.5 * log_det


def residuals(x, parameters):
    mean, scale, correlation, floor = parameters
    out = np.empty(x.shape)
    cell_residuals(*censoring_of(x, None, floor), mean, scale, np.linalg.inv(correlation), out)
    return out


def floor_cells(x, floor, count, seed):
    """The same rows with ``count`` cells of each at the floor, and all others above it."""
    x = np.maximum(x, floor + 0.1)
    for row, cells in enumerate(
        np.random.default_rng(seed).permuted(np.tile(np.arange(x.shape[1]), (len(x), 1)), axis=1)
    ):
        x[row, cells[:count]] = floor[cells[:count]]
    return x


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("count", [0, 1])
def test_exact_with_at_most_one_floored_cell(d, count):
    parameters = model(d, d)
    x = floor_cells(draw(parameters, 20, d), parameters[3], count, d)
    expected = [reference.exact_log_density(row, *parameters) for row in x]
    np.testing.assert_allclose(density(x, parameters), expected, rtol=1e-10, atol=1e-10)


def test_exact_for_independent_columns():
    mean, scale, _, floor = model(0, 6)
    parameters = (mean, scale, np.eye(6), floor)
    x = draw(parameters, 50, 1)
    u, limit = (x - mean) / scale, (floor - mean) / scale
    expected = np.where(x > floor, -0.5 * (u**2 + np.log(2 * np.pi)), log_ndtr(limit)).sum(axis=1)
    assert 0 < np.count_nonzero(x == floor) < x.size
    np.testing.assert_allclose(density(x, parameters), expected, rtol=1e-10)


@pytest.mark.parametrize("d", [3, 4, 5])
def test_close_to_the_integral_for_mild_correlations(d):
    """Over 500 random models with |r| <= .3 and rows of their own the worst error of moment matching was .005."""
    for seed in range(6):
        parameters = model(100 + seed, d, largest=0.3)
        x = draw(parameters, 100, seed)
        x = x[np.count_nonzero(x == parameters[3], axis=1) >= min(d - 1, 3)][:2]  # where there is much to approximate
        assert len(x) > 0
        expected = [reference.exact_log_density(row, *parameters) for row in x]
        np.testing.assert_allclose(density(x, parameters), expected, atol=0.01)


@pytest.mark.parametrize("limits", [[0.0, 0.0, 0.0], [0.5, -0.3, 0.2], [-1.0, -0.5, 0.3, 0.8]])
def test_what_moment_matching_leaves_out_is_third_order_in_the_correlations(limits):
    """Equal correlations r: P(all floored) = E prod Phi((limit - sqrt(r) z) / sqrt(1 - r)), one integral."""
    limits = np.array(limits)
    d = len(limits)
    z, weight = np.polynomial.hermite_e.hermegauss(150)
    errors = []
    for r in (0.05, 0.025):
        inner = ndtr((limits - np.sqrt(r) * z[:, None]) / np.sqrt(1.0 - r)).prod(axis=1)
        exact = np.log(weight @ inner / weight.sum())
        parameters = (-limits, np.ones(d), np.full((d, d), r) + (1.0 - r) * np.eye(d), np.zeros(d))
        errors.append(density(np.zeros((1, d)), parameters)[0] - exact)
    # Half the correlation, an eighth of the error; the next order adds r, so a few percent.
    assert errors[0] / errors[1] == pytest.approx(8.0, rel=0.05)


@pytest.mark.parametrize("d", [1, 2, 4, 7, 12, 70])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_same_algebra_in_covariances(d, missing):
    parameters = model(10 * d, d)
    x = draw(parameters, 40 if d < 50 else 8, d)
    x[np.random.default_rng(d).random(x.shape) < missing] = np.nan
    expected = [reference.matched_log_density(row, *parameters) for row in x]
    np.testing.assert_allclose(density(x, parameters), expected, rtol=1e-9, atol=1e-9)


def test_the_order_of_the_draws_is_that_of_the_columns():
    """Moment matching depends on the order a little, so the twin above must tell one order from another."""
    parameters = model(5, 5)
    mean, scale, correlation, floor = parameters
    backwards = (mean[::-1], scale[::-1], correlation[::-1, ::-1], floor[::-1])
    difference = density(floor[None, :].copy(), parameters) - density(floor[None, ::-1].copy(), backwards)
    assert 1e-6 < abs(difference[0]) < 0.05


@pytest.mark.parametrize("r", [-0.6, 0.0, 0.3, 0.8])
def test_integrates_to_one(r):
    """Both cells seen, either, none: by Gauss-Legendre from the floor to nine standard deviations."""
    mean, scale, floor = np.array([0.4, -0.3]), np.array([1.0, 2.0]), np.array([0.1, -0.5])
    parameters = (mean, scale, np.array([[1.0, r], [r, 1.0]]), floor)
    nodes, weights = np.polynomial.legendre.leggauss(120)
    reach = (mean + 9.0 * scale - floor) / 2.0
    grid = floor + reach * (nodes[:, None] + 1.0)  # 120 x 2
    weight = reach / scale * weights[:, None]  # densities are per unit of scale
    x = np.stack(np.meshgrid(grid[:, 0], grid[:, 1], indexing="ij"), axis=2).reshape(-1, 2)
    both = np.outer(weight[:, 0], weight[:, 1]).ravel() @ np.exp(density(x, parameters))
    first = weight[:, 0] @ np.exp(density(np.c_[grid[:, 0], np.full(120, floor[1])], parameters))
    second = weight[:, 1] @ np.exp(density(np.c_[np.full(120, floor[0]), grid[:, 1]], parameters))
    limit = (floor - mean) / scale
    none = lower_orthant(limit[0], limit[1], r)
    assert both + first + second == pytest.approx(1.0 - none, abs=1e-9)  # exact with at most one floored cell
    # Two floored cells are approximated. The first term left out is r^3 / 6 Phi(h) kappa phi''(k), kappa the third
    # cumulant of a normal below h: |Phi kappa| <= .26 and |phi''| <= .4. As much again for the terms after it.
    approximated = float(np.exp(density(floor[None, :].copy(), parameters)[0]))
    assert approximated == pytest.approx(none, abs=2.0 * abs(r) ** 3 / 6.0 * 0.26 * 0.4 + 1e-9)


@pytest.mark.parametrize("a", [8.0, 1.5, 0.0, -1.0, -10.0, -30.0, -34.9, -35.1, -40.0, -300.0, -1e6, -1e12])
def test_log_probability_and_hazard(a):
    """Beyond -35 a series is cut off before 15/a^6."""
    log_probability, hazard = log_probability_and_hazard(a)
    cut_off = 15.0 / a**6 if a < -35.0 else 0.0
    assert log_probability == pytest.approx(log_ndtr(a), rel=1e-12, abs=1.01 * cut_off + 1e-15)
    expected = np.exp(-0.5 * a * a - 0.5 * np.log(2 * np.pi) - log_ndtr(a)) if a > -30.0 else None
    if expected is not None:
        assert hazard == pytest.approx(expected, rel=1e-11)
    else:  # a continued fraction: lambda = -a + 1/(-a + 2/(-a + 3/...))
        tail = -a
        for k in range(60, 0, -1):
            tail = -a + k / tail
        assert hazard == pytest.approx(tail, rel=1.01 * cut_off + 1e-11)


@pytest.mark.parametrize("distance", [40.0, 1e3, 1e5])
def test_floors_far_in_the_tail(distance):
    """Floors far below every value (nothing should be there) and far above (everything must be)."""
    correlation = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, -0.3], [0.2, -0.3, 1.0]])
    parameters = (np.zeros(3), np.ones(3), correlation, np.array([-distance, 0.0, 0.0]))
    x = np.array([[-distance, 0.5, 0.0], [-distance, 0.0, 0.0], [-distance, 0.3, 2.0]])
    got = density(x, parameters)
    assert np.isfinite(got).all()
    # The last row has one floored cell, so it is exact, up to where the series is cut off.
    assert got[2] == pytest.approx(reference.exact_log_density(x[2], *parameters), rel=1e-10)
    assert np.isfinite(residuals(x, parameters)).all()
    above = (np.zeros(3), np.ones(3), correlation, np.full(3, distance))
    assert density(np.full((1, 3), distance), above)[0] == pytest.approx(0.0, abs=1e-12)


def test_values_far_out_stay_finite():
    parameters = model(3, 4)
    x = np.vstack([np.full(4, 1e6), [1e6, *parameters[3][1:]], np.full(4, 1e140)])
    assert np.isfinite(density(x, parameters)[:2]).all()
    assert not np.isnan(density(x, parameters)).any()


def test_rows_without_any_value_have_density_one():
    parameters = model(4, 3)
    np.testing.assert_allclose(density(np.full((2, 3), np.nan), parameters), 0.0, atol=1e-14)


def test_a_missing_cell_is_integrated_over():
    """The same as leaving the column out of the model."""
    mean, scale, correlation, floor = model(6, 4)
    x = draw((mean, scale, correlation, floor), 30, 2)
    holes = x.copy()
    holes[:, 2] = np.nan
    keep = [0, 1, 3]
    without = density(x[:, keep].copy(), (mean[keep], scale[keep], correlation[np.ix_(keep, keep)], floor[keep]))
    np.testing.assert_allclose(density(holes, (mean, scale, correlation, floor)), without, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_residuals_without_floored_cells_are_plain_regressions(d):
    """(x_j - E[x_j | rest]) / sd = (Q u)_j / sqrt(Q_jj)."""
    mean, scale, correlation, floor = parameters = model(20 + d, d)
    x = np.maximum(draw(parameters, 20, d), floor + 0.01)
    q = np.linalg.inv(correlation)
    expected = ((x - mean) / scale) @ q / np.sqrt(q.diagonal())
    np.testing.assert_allclose(residuals(x, parameters), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("missing", [False, True])
def test_residuals_with_one_floored_cell(d, missing):
    parameters = model(30 + d, d)
    x = floor_cells(draw(parameters, 15, d), parameters[3], 1, d)
    if missing and d > 2:
        x[:, 0] = np.nan
    expected = [
        [np.nan if np.isnan(row[j]) else reference.cell_residual(row, j, *parameters) for j in range(d)] for row in x
    ]
    np.testing.assert_allclose(residuals(x, parameters), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_residuals_are_those_of_a_missing_cell(count):
    """By the posterior that the converged density has of the cell where it is missing: the same through both doors."""
    mean, scale, correlation, floor = parameters = model(40, 8)
    x = floor_cells(draw(parameters, 5, 1), floor, count, 2)
    x[:, 7] = np.where(np.arange(5) % 2 == 0, np.nan, x[:, 7])
    found = residuals(x, parameters)
    for j in range(8):
        values, marks = censoring_of(np.where(np.arange(8) == j, np.nan, x), None, floor)
        moments = np.empty((4, *x.shape))
        given = (mean, scale, np.linalg.inv(correlation), True)
        hidden_rows(values, marks, *given, np.empty(5), moments, np.empty((0, 0)))
        u = (np.maximum(x[:, j], floor[j]) - mean[j]) / scale[j]
        np.testing.assert_allclose(found[:, j], (u - moments[0, :, j]) / np.sqrt(moments[1, :, j]), rtol=1e-7)


def test_residuals_with_three_floored_cells_by_brute_force():
    """Correlations of .6, one cell seen: a single sweep over the floored ones is .09 off."""
    correlation = np.full((4, 4), 0.6) + 0.4 * np.eye(4)
    y = np.random.default_rng(0).standard_normal((2_000_000, 4)) @ np.linalg.cholesky(correlation).T
    last = y[(y[:, :3] <= 0.0).all(axis=1), 3]
    expected = (2.0 - last.mean()) / last.std()
    got = residuals(np.array([[0.0, 0.0, 0.0, 2.0]]), (np.zeros(4), np.ones(4), correlation, np.zeros(4)))[0, 3]
    assert got == pytest.approx(expected, abs=0.05)


def test_residuals_with_one_floored_cell_by_brute_force():
    """Mean and deviation of a cell given the others, from two million draws thinned to those that agree with them."""
    correlation = np.array([[1.0, 0.7], [0.7, 1.0]])
    parameters = (np.array([0.2, 0.5]), np.ones(2), correlation, np.zeros(2))
    z = np.random.default_rng(0).standard_normal((2_000_000, 2))
    y = parameters[0] + z @ np.linalg.cholesky(correlation).T
    second = y[y[:, 0] <= 0.0, 1]
    expected = (1.3 - second.mean()) / second.std()
    got = residuals(np.array([[0.0, 1.3]]), parameters)[0, 1]
    # Errors of mean and deviation in standard deviations: 1/sqrt(n), and |residual|/sqrt(2n); five of them.
    assert got == pytest.approx(expected, abs=5.0 * np.sqrt((1.0 + expected**2 / 2.0) / len(second)))


def test_at_least_is_at_most_negated():
    mean, scale, correlation, floor = parameters = model(7, 4)
    x, marks = censoring_of(draw(parameters, 40, 3), None, floor)
    sign = np.array([1.0, -1.0, 1.0, -1.0])
    out, turned = np.empty(40), np.empty(40)
    sweep_once(x, marks, mean, scale, np.linalg.inv(correlation), out)
    given = (x * sign, (marks * sign).astype(np.int8), mean * sign, scale)
    sweep_once(*given, np.linalg.inv(correlation * np.outer(sign, sign)), turned)
    assert (marks[:, [1, 3]] != 0).any()
    np.testing.assert_allclose(turned, out, rtol=1e-12)
