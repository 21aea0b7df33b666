"""Networks of three layers: every weight and the inputs from outputs alone, or a refusal that has the units found."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import unrelu
from tests.warned import warns
from unrelu.errors import CannotPeelError
from unrelu.recovery.layers.experimental.faces import Chart, closure, find_chart, find_faces, join_unit, not_alone
from unrelu.recovery.layers.experimental.three_layers import inputs_near
from unrelu.recovery.layers.inputs import InnerLayer

Q, P0, P, D, N = 3, 5, 12, 40, 2000


class Network:
    """x = A2 h, h = ReLU(A1 g + b1), g = ReLU(A0 z + b0); units of h are off in 25 to 60 % of the rows."""

    def __init__(self, seed: int, n: int = N) -> None:
        rng = np.random.default_rng(seed)
        self.z, self.A0, self.b0 = rng.standard_normal((n, Q)), rng.standard_normal((P0, Q)), rng.uniform(0.2, 0.8, P0)
        self.g = np.maximum(self.z @ self.A0.T + self.b0, 0.0)
        A1 = rng.standard_normal((P, P0))
        self.A1 = A1 / np.linalg.norm(A1, axis=1)[:, None]
        off = zip((self.g @ self.A1.T).T, rng.uniform(0.25, 0.6, P), strict=True)
        self.b1 = -np.array([np.quantile(line, share) for line, share in off])
        self.h = np.maximum(self.g @ self.A1.T + self.b1, 0.0)
        self.A2 = rng.standard_normal((D, P))
        self.X = self.h @ self.A2.T
        self.floor = float(self.X.min()) - 1.0  # a rectifier that is never off: it is undone at once


@pytest.fixture(scope="module")
def network():
    return Network(0)


@pytest.fixture(scope="module")
def peeled(network):
    return unrelu.peel(network.X, widths=[P, P0], n_inputs=Q, floor=network.floor)


def _misfit(found, true):
    """Relative error after the best affine map, over rows that are determined, and the share of these."""
    determined = np.isfinite(found[:, 0])
    lifted = np.column_stack([found[determined], np.ones(determined.sum())])
    left = lifted @ np.linalg.lstsq(lifted, true[determined])[0] - true[determined]
    return np.linalg.norm(left) / np.linalg.norm(true[determined]), determined.mean()


def _match(found, true):
    """Which true column each found one is, and the worst sine."""
    cosines = (found / np.linalg.norm(found, axis=0)).T @ (true / np.linalg.norm(true, axis=0))
    best = cosines.argmax(axis=1)
    assert len(set(best)) == true.shape[1]
    return best, float(np.sqrt(np.maximum(1.0 - cosines.max(axis=1) ** 2, 0.0)).max())


def test_weights_of_both_layers_and_inputs_are_found(network, peeled):
    outer, inner = peeled.layers
    assert outer.report.method == "deepening"
    assert not outer.report.doubtful_units
    assert peeled.report.converged
    units, sine = _match(outer.weights, network.A2)
    assert sine < 1e-6
    named = inner.column_identifiable
    behind, sine = _match(
        inner.weights[named], network.A1[units][named] * _lengths(outer.weights, network.A2, units)[named]
    )
    assert sine < 1e-5
    error, share = _misfit(peeled.hidden, network.g)
    assert error < 1e-6
    assert share > 0.95
    error, share = _misfit(peeled.inputs, network.z)
    assert error < 1e-6
    assert share > 0.5
    # b0 / |A0| and the angles of A0 do not depend on the gauge of z; means and covariances of z have standard errors.
    distribution, true = peeled.inner.distribution, network.A0[behind] @ network.A0[behind].T
    correlation = true / np.sqrt(np.outer(true.diagonal(), true.diagonal()))
    np.testing.assert_allclose(distribution.correlation, correlation, atol=6.0 / np.sqrt(N))


def _lengths(found, true, units):
    """By how much units of columns of length 1 are longer."""
    return np.linalg.norm(true[:, units], axis=0)[:, None] / np.linalg.norm(found, axis=0)[:, None]


def test_the_network_is_a_generator(network, peeled, tmp_path):
    rng = np.random.default_rng(9)
    z = rng.standard_normal((400, Q))
    g = np.maximum(z @ network.A0.T + network.b0, 0.0)
    X = np.maximum(g @ network.A1.T + network.b1, 0.0) @ network.A2.T
    inside = (network.floor < X).all(axis=1)
    X, z = X[inside], z[inside]
    found = peeled.transform(X)
    assert _misfit(found, z)[0] < 1e-6
    again = peeled.inverse_transform(found)
    determined = np.isfinite(again[:, 0])
    assert determined.mean() > 0.4
    assert np.abs(again[determined] - X[determined]).max() < 1e-5
    assert peeled.relative_error(X) < 1e-7
    one_by_one = np.concatenate([peeled.transform(row[None]) for row in X[:3]])
    np.testing.assert_allclose(one_by_one, peeled.transform(X[:3]), atol=1e-8)
    drawn = peeled.sample(20_000, 1)
    error = (drawn.mean(axis=0) - network.X.mean(axis=0)) / (network.X.std(axis=0) / np.sqrt(N))
    assert np.sqrt((error**2).mean()) < 3.0
    peeled.save(tmp_path / "network.npz")
    loaded = unrelu.Peeled.load(tmp_path / "network.npz")
    np.testing.assert_array_equal(loaded.sample(5, 0), peeled.sample(5, 0))


@pytest.mark.slow  # some seconds
def test_wrong_widths_are_refused_with_what_was_found(network):
    began = time.monotonic()
    with pytest.raises(CannotPeelError, match="units behind them") as caught:
        unrelu.peel(network.X, widths=[P, P0 - 1], n_inputs=Q, floor=network.floor, max_seconds=20.0)
    assert time.monotonic() - began < 60.0
    report = caught.value.report
    assert 0 < report.units_found <= P
    assert report.doubtful_units == tuple(range(report.units_found))


def test_noise_is_refused(network):
    noisy = network.X + 1e-4 * np.random.default_rng(1).standard_normal(network.X.shape)
    with pytest.raises(CannotPeelError, match="exact outputs"):
        unrelu.peel(noisy, widths=[P, P0], n_inputs=Q, floor=network.floor - 1.0)


def test_time_that_is_up_keeps_planes(network):
    with warns("unfinished", match="of 12 hidden units"):
        unfinished = unrelu.peel(network.X, widths=[P, P0], n_inputs=Q, floor=network.floor, max_seconds=0.7)
    report = unfinished.layers[0].report
    assert report.ended == "The time was up"
    assert report.doubtful_units == tuple(range(report.units_found))
    assert unfinished.inner is None
    assert np.isnan(unfinished.layers[0].weights).all()


def test_an_interrupt_of_the_search_behind_the_units_ends_the_whole(network):
    def progress(step):
        if step.total == P0:
            raise KeyboardInterrupt

    with warns("unfinished", match="interrupted after"):
        unfinished = unrelu.peel(network.X, widths=[P, P0], n_inputs=Q, floor=network.floor, progress=progress)
    assert unfinished.layers[0].report.ended == "The search was interrupted"
    assert unfinished.inner is None


def test_faces_hold_rows_of_few_units(network):
    rng = np.random.default_rng(0)
    for face in find_faces(network.h, 2, P0, rng):
        g = network.g[face.rows]
        assert np.linalg.matrix_rank(g - g.mean(axis=0), tol=1e-6) == face.z.shape[1]
        assert _misfit(face.z, g)[0] < 1e-6
    chart = find_chart(network.h, P0, rng)
    error, _ = _misfit(chart.z, network.g[chart.rows])
    assert error < 1e-7


def test_values_of_a_unit_imply_others_or_stay_open():
    rng = np.random.default_rng(0)
    H = np.column_stack([rng.standard_normal((60, 3)), np.ones(60)])
    H[:20, 2] = 0.0
    unit = np.maximum(H @ np.array([1.0, 0.5, 0.0, 9.0]), 0.0)
    given = np.full(60, np.nan)
    given[:10] = unit[:10]
    values = closure(H, given)
    assert np.isfinite(values[:20]).all()
    assert np.isnan(values[20:]).all()
    np.testing.assert_allclose(values[:20] / values[0], unit[:20] / unit[0], rtol=1e-9)
    given[30:40] = unit[30:40]
    whole = closure(H, given)
    np.testing.assert_allclose(join_unit(H, values[:, None], 3.0 * whole)[:, 0] / whole[0], unit / unit[0], rtol=1e-9)
    given[0] *= 1.1
    assert closure(H, given) is None


def test_rows_that_hold_a_direction_alone_are_taken_away():
    rows = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(not_alone(rows), [0, 1, 2, 3])
    assert Chart.of(np.arange(2), np.zeros((2, 3))) is None


def test_neighbours_determine_units_that_too_few_are_on_for(network):
    inner = InnerLayer(network.A0, network.b0)
    z, g = inputs_near(network.h, network.A1, network.b1, inner)
    determined = np.isfinite(g[:, 0])
    few = (network.h > 0.0).sum(axis=1) <= P0
    assert (determined & few).sum() > 20
    np.testing.assert_allclose(g[determined], network.g[determined], atol=1e-5)
    sure = np.isfinite(z[:, 0])
    np.testing.assert_allclose(z[sure], network.z[sure], atol=1e-5)


@pytest.mark.slow
def test_a_network_behind_a_rectifier_is_found():
    """100 <- 24 <- 10 <- 6, half of the outputs off."""
    rng = np.random.default_rng(2)
    A0, b0, A1, b1, A2, b2 = (
        rng.normal(0.0, scale, margin)
        for scale, margin in ((1, (10, 6)), (0.5, 10), (1, (24, 10)), (0.5, 24), (1, (100, 24)), (0.5, 100))
    )
    g = np.maximum(rng.standard_normal((6000, 6)) @ A0.T + b0, 0.0)
    X = np.maximum(np.maximum(g @ A1.T + b1, 0.0) @ A2.T + b2, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = unrelu.peel(X, widths=[24, 10], n_inputs=6, max_seconds=600.0)
    determined = found.layers[0].column_identifiable
    assert _match(found.layers[0].weights[determined], A2[determined])[1] < 1e-6
    error, share = _misfit(found.hidden, g[~found.outlier_rows])
    assert error < 1e-6
    assert share > 0.9
