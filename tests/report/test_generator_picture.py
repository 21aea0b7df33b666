"""The picture of a generator: weights of inputs in their places, what chose their number, samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from unrelu.recovery.layers.decoding import LayerReport
from unrelu.report.layers import Network, peel_picture
from unrelu.report.pictures import LEARNED, SEEN, rendered

D, P, Q, N = 9, 5, 3, 60
RNG = np.random.default_rng(0)
LAYER = LayerReport("facets", N, D, P, P, (18,) * P, 1e-8, 1e-12, 0, (), True, 1)
A2, A1 = RNG.standard_normal((D, P)), RNG.standard_normal((P, Q))
CHOICE = ((1, 0.5), (2, 0.1), (3, 0.0))
ROWS, SAMPLES = RNG.standard_normal((N, D)), RNG.standard_normal((N, D))
UNITS = np.maximum(RNG.standard_normal((N, P)), 0.0)


@pytest.fixture
def network():
    """The true one in other words: units in another order and scale, inputs mixed, an output not determined."""
    order, scale = RNG.permutation(P), np.linalg.norm(A2, axis=0)
    outer = (A2 / scale)[:, order]
    outer[4] = np.nan
    inner = (A1 * scale[:, None])[order] @ RNG.standard_normal((Q, Q))
    return Network((LAYER,), (outer,), tuple("abcdefghi"), ((),), None, inner, np.zeros(P), CHOICE)


def panels(figure):
    return {axes.get_title(loc="left").split(":")[0]: axes for axes in figure.axes if axes.get_title(loc="left")}


def test_inputs_have_their_weights_and_residuals(network):
    shown = panels(peel_picture(network, UNITS))
    np.testing.assert_array_equal(np.ma.filled(shown["Inputs"].images[0].get_array()), network.input_weights.T)
    assert [label.get_text() for label in shown["Inputs"].get_yticklabels()] == ["z0", "z1", "z2"]
    assert [label.get_text() for label in shown["Inputs"].get_xticklabels()] == [f"h{i}" for i in range(P)]
    residuals = shown["Residual by inputs tried"]
    assert residuals.get_yscale() == "log"
    (points,) = residuals.collections
    np.testing.assert_array_equal(points.get_offsets()[:2], CHOICE[:2])
    assert 0.0 < points.get_offsets()[2, 1] < 1e-15  # none at all is drawn at the bottom
    assert [to_hex(colour).upper() for colour in points.get_facecolors()] == [SEEN, SEEN, LEARNED]
    assert "Samples of the network" not in shown


def test_samples_stand_beside_the_table_in_its_principal_components(network):
    samples = SAMPLES.copy()
    samples[:, 4] = np.nan  # not determined
    figure = peel_picture(network, UNITS, (ROWS, samples))
    scatters = [axes for axes in figure.axes if "component" in axes.get_xlabel()]
    assert [axes.get_xlabel()[-1] + axes.get_ylabel()[-1] for axes in scatters] == ["12", "13", "23"]
    table, drawn = (np.asarray(each.get_offsets()) for each in scatters[0].collections)
    known = np.arange(D) != 4
    covariance = np.cov(ROWS[:, known].T, bias=True)
    np.testing.assert_allclose(table.var(axis=0), np.linalg.eigvalsh(covariance)[::-1][:2])
    directions = np.linalg.lstsq(ROWS[:, known] - ROWS[:, known].mean(axis=0), table)[0]
    np.testing.assert_allclose(drawn, (samples[:, known] - ROWS[:, known].mean(axis=0)) @ directions, atol=1e-9)


@pytest.mark.slow  # some seconds
def test_small_generators_are_drawn(network):
    one = replace(network, input_weights=np.ones((P, 1)), input_choice=())
    assert rendered(peel_picture(one, UNITS, (ROWS, SAMPLES))).startswith(b"\x89PNG")
    few = replace(one, layers=(replace(LAYER, n_features=2),), weights=(np.ones((2, P)),), names=("a", "b"))
    assert rendered(peel_picture(few, UNITS, (ROWS[:, :2], SAMPLES[:, :2]))).startswith(b"\x89PNG")
    many = replace(one, input_weights=np.ones((P, 40)), input_choice=tuple((q, 0.1) for q in range(1, 41)))
    assert rendered(peel_picture(many, UNITS)).startswith(b"\x89PNG")
