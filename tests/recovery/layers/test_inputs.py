"""Inputs behind units: row by row, by SciPy, and up to standard errors where rows do not determine them."""

import warnings

import numpy as np
import pytest

from tests.references import generators as reference
from unrelu.recovery.layers.inputs import (
    InnerLayer,
    fit_inputs,
    inputs_behind,
    inputs_of,
    refit,
    standard_layer,
    without_worst,
)


def seeded(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def net():
    """8 units of 3 inputs."""
    return reference.draw(1, 40, 8, 3, 600)


def none(m):
    return np.zeros(m)


# --- rows, one by one -----------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_inputs_are_least_squares_over_units_that_are_on(net, noise):
    weights = net.A1 * [1.0, 1e-3, 1e3]  # units of measurement differ
    heights = np.where(net.h > 0.0, np.maximum(net.h + noise * seeded().standard_normal(net.h.shape), 1e-9), 0.0)
    z, amplified = inputs_of(heights, weights, net.b1)
    expected = reference.inputs_by_row(heights, weights, net.b1)
    determined = np.isfinite(amplified)
    assert 0 < np.count_nonzero(~determined) < 300
    np.testing.assert_array_equal(determined, np.isfinite(expected[:, 0]))
    # Rounding of 1e-16, times a condition of 1e4 at worst.
    np.testing.assert_allclose(z[determined] * [1.0, 1e-3, 1e3], expected[determined] * [1.0, 1e-3, 1e3], atol=1e-9)


def test_amplification_is_that_of_the_worst_direction(net):
    scaled = net.A1 / np.sqrt((net.A1**2).mean(axis=0))
    least = np.linalg.svd(scaled, compute_uv=False)[-1]
    _, amplified = inputs_of(net.h, net.A1, net.b1)
    for row, found in zip(net.h[:100], amplified[:100], strict=True):
        if np.isfinite(found):
            assert found == pytest.approx(least / np.linalg.svd(scaled[row > 0.0], compute_uv=False)[-1], rel=1e-6)
    assert (amplified >= 1.0 - 1e-12).all()


def test_units_that_are_nearly_dependent_lose_no_more_digits_than_they_must():
    weights = seeded(1).standard_normal((5, 3))
    weights[:, 2] = weights[:, 0] + weights[:, 1] + 1e-3 * weights[:, 2]
    z = seeded().uniform(5.0, 50.0, (50, 3))
    found, _ = inputs_of(z @ weights.T + 500.0, weights, np.full(5, 500.0))
    # A condition of 6e3 loses four of 13 digits behind 500; its square, as in the equations that are solved, eight.
    np.testing.assert_allclose(found, z, rtol=0.0, atol=1e-8)


def test_no_rows_more_than_a_tile_and_one_row(net):
    whole = inputs_of(net.h, net.A1, net.b1)
    parts = [inputs_of(net.h[i : i + 1], net.A1, net.b1)[0] for i in (0, 255, 256, 599)]
    np.testing.assert_allclose(np.vstack(parts), whole[0][[0, 255, 256, 599]], atol=1e-12)


def test_which_units_determine_inputs(net):
    on, possible = np.count_nonzero(net.h > 0.0, axis=1), []
    for q in (1, 2, 3, 4, 6, 7):
        enough = q + 2 <= 8 and np.count_nonzero(on >= q + 2) >= 8 * (q + 1)
        possible.append(enough)
        assert enough or fit_inputs(net.h, none(8), q, seeded()) is None
    assert possible == [True, True, True, True, False, False]
    assert fit_inputs(net.h, none(8), 3, seeded()) is not None
    assert fit_inputs(net.h[:20], none(8), 3, seeded()) is None


# --- the layer ------------------------------------------------------------------------------------


def test_units_and_inputs_are_each_others_inverse(net):
    layer = InnerLayer(net.A1, net.b1)
    np.testing.assert_array_equal(layer.units(net.z), net.h)
    inputs = layer.inputs(net.h)
    few = np.count_nonzero(net.h > 0.0, axis=1) < 3
    assert 0 < np.count_nonzero(few) < 300
    np.testing.assert_array_equal(np.isnan(inputs).all(axis=1), few)
    np.testing.assert_allclose(inputs[~few], net.z[~few], atol=1e-9)
    assert layer.n_inputs == 3
    np.testing.assert_allclose(layer.distribution.covariance, net.A1 @ net.A1.T)
    np.testing.assert_array_equal(layer.distribution.mean, net.b1)


def test_a_scaled_layer_and_a_moved_one(net):
    layer, lengths = InnerLayer(net.A1, net.b1, ((3, 1e-12),)), seeded().uniform(0.1, 10.0, 8)
    np.testing.assert_allclose(layer.rescale(lengths).units(net.z), net.h * lengths, atol=1e-12)
    mean, root = seeded(1).standard_normal(3), np.tril(seeded(2).standard_normal((3, 3)))
    root[np.diag_indices(3)] = np.abs(root.diagonal())
    moved = layer.standardize_inputs(mean, root @ root.T)
    np.testing.assert_allclose(moved.units(np.linalg.solve(root, (net.z - mean).T).T), net.h, atol=1e-9)
    assert moved.choice == layer.rescale(lengths).choice == ((3, 1e-12),)


def test_refitted_is_least_squares_of_each_unit(net):
    layer = InnerLayer(net.A1 + 0.01, net.b1)
    inputs = layer.inputs(net.h)
    found = refit(layer, net.h)
    for unit in range(8):
        rows = (net.h[:, unit] > 0.0) & ~np.isnan(inputs[:, 0])
        expected = np.linalg.pinv(np.column_stack([inputs[rows], np.ones(rows.sum())])) @ net.h[rows, unit]
        np.testing.assert_allclose(np.append(found.weights[unit], found.bias[unit]), expected, atol=1e-9)
    exact = refit(InnerLayer(net.A1, net.b1), net.h)
    np.testing.assert_allclose(exact.weights, net.A1, atol=1e-9)


def moved_away(network, seed=3):
    """The network's layer with other inputs than standard ones."""
    turn = seeded(seed).standard_normal((network.A1.shape[1],) * 2)
    return InnerLayer(network.A1 @ turn, network.b1 + network.A1 @ seeded(seed + 1).standard_normal(len(turn)))


def test_inputs_get_mean_0_and_covariance_1():
    net = reference.draw(2, 40, 10, 2, 500, shift=1.5)
    assert (np.count_nonzero(net.h > 0.0, axis=1) >= 2).all()
    layer = standard_layer(moved_away(net), net.h, 0)
    inputs = layer.inputs(net.h)
    np.testing.assert_allclose(inputs.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.cov(inputs.T, bias=True), np.eye(2), atol=1e-9)
    np.testing.assert_allclose(layer.units(inputs), net.h, atol=1e-9)


def test_rows_that_do_not_determine_their_inputs_count():
    net = reference.draw(4, 40, 5, 2, 4000)
    few = np.count_nonzero(net.h > 0.0, axis=1) < 2
    assert 0.1 < few.mean() < 0.5
    truth, n = net.A1 @ net.A1.T, len(net.h)
    errors = np.sqrt((np.outer(np.diag(truth), np.diag(truth)) + truth**2) / n)

    def off(layer):
        """Largest errors of bias and covariance, in standard errors of a distribution learned from true inputs."""
        bias = np.abs(layer.bias - net.b1) / np.sqrt(np.diag(truth) / n)
        return max(bias.max(), (np.abs(layer.weights @ layer.weights.T - truth) / errors).max())

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # draws of inputs warn of nothing
        layer = standard_layer(moved_away(net), net.h, 0)
    inputs = InnerLayer(net.A1, net.b1).inputs(net.h)[~few]
    dropped = InnerLayer(net.A1, net.b1).standardize_inputs(inputs.mean(axis=0), np.cov(inputs.T))
    assert off(layer) < 5.0  # draws add to the errors of determined inputs
    assert off(dropped) > 15.0
    np.testing.assert_array_equal(standard_layer(moved_away(net), net.h, 0).weights, layer.weights)


# --- the number of inputs -------------------------------------------------------------------------


def same_layer(fit, net):
    """What is left of A and b where inputs are any affine map of the true ones."""
    A, weights, bias = net.A1[fit.units], fit.layer.weights, fit.layer.bias
    turn = np.linalg.lstsq(A, np.column_stack([weights, bias - net.b1[fit.units]]))[0]
    return np.abs(A @ turn - np.column_stack([weights, bias - net.b1[fit.units]])).max()


def test_the_right_number_of_inputs_leaves_nothing(net):
    fits = {q: fit_inputs(net.h, none(8), q, seeded()) for q in (1, 2, 3, 4)}
    assert [q for q, fit in fits.items() if fit.explains] == [3, 4]
    assert fits[3].exact
    np.testing.assert_array_equal(fits[3].units, np.arange(8))
    assert same_layer(fits[3], net) < 1e-6
    # Two inputs leave what the third does: a tenth of the squares at least.
    assert fits[2].residual > 0.03
    assert fits[1].residual > fits[2].residual


def test_noise_explains_its_part(net):
    noise = 1e-3
    heights = np.where(net.h > 6.0 * noise, net.h + noise * seeded().standard_normal(net.h.shape), 0.0)
    fit = fit_inputs(heights, np.full(8, noise), 3, seeded())
    assert fit.explains
    assert not fit.exact
    assert same_layer(fit, net) < 0.05
    assert not fit_inputs(heights, none(8), 3, seeded()).explains
    assert not fit_inputs(heights, np.full(8, noise), 2, seeded()).explains


def test_units_that_are_hardly_ever_on_are_left_out(net):
    heights = net.h.copy()
    heights[np.flatnonzero(heights[:, 4])[5:], 4] = 0.0
    fit = fit_inputs(heights, none(8), 3, seeded())
    np.testing.assert_array_equal(fit.units, [0, 1, 2, 3, 5, 6, 7])
    assert same_layer(fit, net) < 1e-6


def test_too_few_rows_or_units_give_nothing(net):
    assert fit_inputs(net.h[:30], none(8), 3, seeded()) is None
    assert fit_inputs(net.h[:, :4], none(4), 4, seeded()) is None


@pytest.mark.parametrize(("p", "q", "seed"), [(12, 3, 1), (12, 4, 2), (20, 4, 2)])
def test_the_worst_unit_is_one_that_is_none(p, q, seed):
    heights = reference.draw(seed, 40, p, q, 1500).h
    heights[:, 2] = 0.7 * (heights[:, 2] + 0.5 * heights[:, 5])
    heights[:, 5] = 0.0
    fit = fit_inputs(heights, none(p), q, seeded())
    assert not fit.explains
    assert without_worst(fit, heights) == 2
    heights[:, 2] = 0.0
    assert fit_inputs(heights, none(p), q, seeded()).explains


# --- inputs behind outputs ------------------------------------------------------------------------


def test_inputs_behind_rows_exactly(net):
    layer = InnerLayer(net.A1, net.b1)
    found = inputs_behind(net.X, net.A2, net.b2, layer, 0.0)
    determined = np.isfinite(found[:, 0])
    enough = (np.count_nonzero(net.h > 0.0, axis=1) >= 3) & (np.count_nonzero(net.X > 0.0, axis=1) >= 8)
    assert determined[enough].mean() > 0.99  # some systems are nearly singular
    assert not determined[~enough].any()
    np.testing.assert_allclose(found[determined], net.z[determined], atol=1e-7)


def test_inputs_behind_noisy_rows_are_the_nearest():
    noise = 0.01
    net = reference.draw(1, 40, 8, 3, 60, noise=noise)
    found = inputs_behind(net.X, net.A2, net.b2, InnerLayer(net.A1, net.b1), noise)
    determined = np.flatnonzero(np.isfinite(found[:, 0]))
    assert len(determined) > 40
    best = np.stack([reference.nearest_inputs(net.X[i], net, net.z[i]) for i in determined])
    size = np.linalg.norm(found[determined] - best, axis=1)
    # Errors of z are about noise over weights' length, sqrt(20) * sqrt(4): both minimizers are at the same place.
    assert np.mean(size < 1e-4 * noise) > 0.9
    assert np.median(np.abs(found[determined] - net.z[determined])) < noise


def test_no_rows_have_no_inputs(net):
    assert inputs_behind(net.X[:0], net.A2, net.b2, InnerLayer(net.A1, net.b1), 0.0).shape == (0, 3)


# --- mistakes found, to be mended -----------------------------------------------------------------


def test_rows_that_determine_no_inputs_leave_the_layer_as_it_was_found(net):
    """Means of no rows became the bias, and a covariance of one row has no root."""
    layer, on = InnerLayer(net.A1, net.b1), (net.h > 0.0).sum(axis=1)
    few, most = net.h[on < 3], net.h[[on.argmax()]]
    assert len(few) > 20
    moved = standard_layer(layer, few, 0)
    np.testing.assert_allclose(moved.weights, net.A1, atol=1e-9)
    np.testing.assert_allclose(moved.bias, net.b1, atol=1e-9)
    hidden = np.concatenate([most, few])
    moved = standard_layer(layer, hidden, 0)
    assert reference.nearest_sine(moved.weights, net.A1 @ np.linalg.lstsq(net.A1, moved.weights)[0]).max() < 1e-9
    np.testing.assert_allclose(moved.units(moved.inputs(most)), most, atol=1e-9)


def test_a_unit_that_is_the_same_in_every_row_does_not_stop_the_draws(net):
    """The distribution of the units has a variance of 0 there, by which draws were divided."""
    weights, bias = net.A1.copy(), net.b1.copy()
    weights[2], bias[2] = 0.0, 0.3
    hidden = np.maximum(net.z @ weights.T + bias, 0.0)
    layer = InnerLayer(weights, bias)
    assert np.isnan(layer.inputs(hidden)).any()
    moved = standard_layer(layer, hidden, 0)
    np.testing.assert_allclose(moved.weights[2], 0.0, atol=1e-12)
    units = moved.units(moved.inputs(hidden))
    determined = np.isfinite(units[:, 0])
    np.testing.assert_allclose(units[determined], hidden[determined], atol=1e-9)
