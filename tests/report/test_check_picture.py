"""The picture of a check: which columns and pairs are drawn, in which order."""

from __future__ import annotations

import numpy as np

import unrelu
from unrelu.report.check import check_picture
from unrelu.report.pictures import rendered


def titles(figure):
    return [axes.get_title(loc="left").splitlines()[0] for axes in figure.axes if axes.get_title(loc="left")]


def test_the_worst_column_comes_first_and_pairs_last():
    model = unrelu.RectifiedGaussian(np.full(8, 0.3), np.eye(8), feature_names=[f"${j}" for j in range(8)])
    x = model.sample(120, random_state=0)
    x[:, 5] *= 3.0
    check = unrelu.check_model(model, x, n_simulations=19)
    figure = check_picture(check)
    shown = titles(figure)
    assert shown[:1] == [r"\$5"]
    assert len(shown) == 8
    assert shown[-2].startswith("Rows in quadrants")
    assert rendered(figure).startswith(b"\x89PNG")
    points = figure.axes[0].get_lines()[1]
    seen = check.quantiles[0, :, 5]
    np.testing.assert_array_equal(points.get_ydata(), seen[~np.isnan(seen)])
    assert set(points.get_ydata()) <= set(x[:, 5])


def test_one_column_has_no_pairs():
    model = unrelu.RectifiedGaussian([0.0], [[1.0]], -np.inf, ceiling=1.0)
    figure = check_picture(unrelu.check_model(model, model.sample(60, random_state=1), n_simulations=19))
    assert titles(figure) == ["x0"]
    assert rendered(figure, ".svg")


def test_quantiles_are_within_their_band_for_tables_of_the_model():
    model = unrelu.RectifiedGaussian([0.5], [[4.0]])
    outside = []
    for seed in range(60):
        check = unrelu.check_model(model, model.sample(200, random_state=100 + seed), n_simulations=19)
        seen, _, low, high = check.quantiles[:, ~np.isnan(check.quantiles[0, :, 0]), 0]
        outside.append(np.mean((seen < low) | (seen > high)))
    assert np.mean(outside) < 0.03  # 1 % of the points, with a standard error of .7 % as those of a table go together
