"""The picture of learned layers: weights in their places, units off to scale, the learned distribution over the
rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.stats import norm

import unrelu
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.report.layers import Network, peel_picture
from unrelu.report.pictures import LEARNED, NAIVE, rendered

D, P, Q, N = 6, 4, 2, 500
LAYER = LayerReport("facets", N, D, P, P, (125, 250, 375, 50), 1e-8, 1e-12, 0, (), False, 1)
INNER = LayerReport("facets", N, P, Q, Q, (200, 160), 1e-8, 1e-12, 100, (1,), False, 1)


def network(distribution=True, layers=(LAYER, INNER)):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((layer.n_features, layer.n_hidden)) for layer in layers]
    weights[0][-1] = np.nan
    p = layers[-1].units_found
    learned = unrelu.RectifiedGaussian(np.full(p, 0.3), 4.0 * np.eye(p)) if distribution else None
    unknown = (("x5",), ())[: len(layers)]
    return Network(tuple(layers), tuple(weights), tuple("abcdef"[:D]), unknown, learned)


def units_of(count=Q):
    units = np.maximum(2.0 * np.random.default_rng(1).standard_normal((N, count)) + 0.3, 0.0)
    units[::5] = np.nan
    return units


def panels(figure):
    return {axes.get_title(loc="left").split(":")[0]: axes for axes in figure.axes if axes.get_title(loc="left")}


def test_weights_are_shown_unit_by_unit():
    shown = network()
    figure = peel_picture(shown, units_of())
    assert figure.get_suptitle() == "2 layers learned from 500 x 6 outputs"
    for number, weights in enumerate(shown.weights, start=1):
        axes = panels(figure)[f"Layer {number}"]
        image = np.ma.filled(axes.images[0].get_array(), np.nan)
        np.testing.assert_array_equal(image, weights.T)
        low, high = axes.images[0].get_clim()
        assert high == -low > 0.0  # white is 0
        assert [label.get_text() for label in axes.get_yticklabels()] == [f"h{i}" for i in range(weights.shape[1])]
    first, second = (panels(figure)[f"Layer {number}"] for number in (1, 2))
    assert [label.get_text() for label in first.get_xticklabels()] == list("abcdef")
    assert [label.get_text() for label in second.get_xticklabels()] == ["h0", "h1", "h2", "h3"]
    assert "grey: not determined" in first.get_title(loc="left")
    assert "grey" not in second.get_title(loc="left")


def test_bars_are_shares_of_rows_off_and_doubtful_units_are_marked():
    figure = peel_picture(network(), units_of())
    bars = [axes for axes in figure.axes if axes.get_title(loc="left").startswith("Units off")]
    for axes, shares in zip(bars, ([25, 50, 75, 10], [50, 40]), strict=True):
        np.testing.assert_allclose([bar.get_width() for bar in axes.patches], shares)
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars[1].patches] == [LEARNED, NAIVE]
    assert "doubtful" in bars[1].get_title(loc="left")
    assert "doubtful" not in bars[0].get_title(loc="left")
    assert "Innermost h1 (doubtful)" in panels(figure)


def test_histograms_have_the_mass_of_the_rows_in_which_a_unit_is_on():
    units = units_of()
    figure = peel_picture(network(), units)
    axes = panels(figure)["Innermost h0"]
    values = units[~np.isnan(units[:, 0]), 0]
    density, edges, _ = axes.patches[0].get_data()
    assert (density * np.diff(edges)).sum() == pytest.approx((values > 0.0).mean())
    at, curve = axes.lines[0].get_data()
    np.testing.assert_allclose(curve, norm.pdf(at, 0.3, 2.0))
    assert axes.get_xlabel() == f"off in {(values == 0.0).mean():.0%}, learned {norm.cdf(-0.15):.0%}"
    without = peel_picture(network(distribution=False), units)
    assert not panels(without)["Innermost h0"].lines


@pytest.mark.slow  # many pictures
def test_small_networks_are_drawn():
    incomplete = replace(LAYER, units_found=1, rows_off=(150,), residual=float("nan"))
    none = network(layers=(incomplete,))
    none = replace(none, weights=(np.full((D, P), np.nan),))
    figure = peel_picture(none, units_of(1))
    assert "1 of 4 units found" in panels(figure)["Layer 1"].texts[0].get_text()
    assert rendered(figure).startswith(b"\x89PNG")
    wide = replace(LAYER, n_features=300, n_hidden=90, units_found=90, rows_off=(250,) * 90)
    distribution = unrelu.RectifiedGaussian(np.zeros(90), np.eye(90))
    weights = np.random.default_rng(0).standard_normal((300, 90))
    many = Network((wide,), (weights,), tuple(f"x{j}" for j in range(300)), ((),), distribution)
    assert rendered(peel_picture(many, np.full((N, 90), np.nan))).startswith(b"\x89PNG")
    constant = replace(network(), distribution=unrelu.RectifiedGaussian([0.0, 1.0], np.zeros((2, 2))))
    assert not panels(peel_picture(constant, np.zeros((N, 2))))["Innermost h0"].lines[0].get_ydata().any()


def test_tables_leave_out_what_there_is_nothing_to_say_of():
    lines = [line[0] for line in network().rows()[0].lines]
    assert lines[-2:] == ["outputs not determined", "doubtful units"]
    plain = replace(network(layers=(LAYER,)), undetermined=((),))
    assert [line[0] for line in plain.rows()[0].lines][-1] == "outlier rows"
    many = replace(LAYER, n_hidden=21, units_found=21, rows_off=(250,) * 21)
    distribution = unrelu.RectifiedGaussian(np.zeros(21), np.eye(21))
    _, units = Network((many,), (np.ones((D, 21)),), tuple("abcdef"), ((),), distribution).rows()
    assert units.omitted == "... and 1 more"


def test_a_line_says_why_a_search_ended():
    ended = replace(LAYER, ended="The time was up")
    table = network(layers=(LAYER, ended)).rows()[0]
    assert table.lines[-1] == ("search", "", "The time was up")


def test_tables_of_inputs_show_what_chose_their_number():
    weights = np.arange(150.0).reshape(25, 6) + 0.5
    found = replace(
        network(),
        input_weights=np.column_stack([weights, weights]),
        input_choice=((11, 0.25), (12, 3e-12)),
        rows_without_inputs=7,
    )
    *_, facts, table = found.rows()
    assert [value for _, value in facts.lines] == ["12", "11 leaves 0.25, 12 leaves 3e-12", "7"]
    assert table.heads == ("weights of inputs", *(f">z{i}" for i in range(6)), ">...")
    assert [line[2] for line in table.lines[:2]] == ["1.5", "7.5"]
    assert table.omitted == "... and 5 more"
    without = replace(found, input_choice=(), rows_without_inputs=None).rows()[-2]
    assert [name for name, _ in without.lines] == ["inputs"]


def test_rows_without_inputs_are_those_that_were_used():
    with_inner = replace(network(layers=(INNER,)), input_weights=np.ones((Q, 1)))  # 100 of 500 rows were not used
    inputs = np.full((N, 1), np.nan)
    inputs[:390] = 1.0
    assert with_inner.with_inputs(inputs).rows_without_inputs == 10
    assert network().with_inputs(inputs[:, :0]).input_weights is None
