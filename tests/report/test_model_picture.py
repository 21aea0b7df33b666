"""The picture of a model: every correlation in its place, correlated columns side by side, nothing overlaps."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text
from scipy.stats import norm

from unrelu.margins import BoxCox, Log
from unrelu.model import RectifiedGaussian
from unrelu.report.check import column_order, model_picture
from unrelu.report.pictures import NAIVE, rendered
from unrelu.synthetic import random_model


def quantiles(name: str = "x0", floor: float | None = 0.0, ceiling: float | None = None) -> dict[str, Any]:
    at = np.linspace(0.1, 3.0, 40)
    numbers = {"seen": at**1.5, "fitted": at, "low": at - 0.1, "high": at + 0.2, "z": 4.2}
    return {"name": name, **numbers, "floor": floor, "ceiling": ceiling}


def test_correlations_and_shares():
    model = RectifiedGaussian([0.0, 1.0, 2.0], np.diag([1.0, 1.0, 0.0]), feature_names=["a", "$b", "c" * 40])
    figure = model_picture(model, np.array([0.5, 0.2, 0.0]))
    heat, check = figure.axes[0], figure.axes[-1]
    order = column_order(model.correlation)
    np.testing.assert_array_equal(heat.images[0].get_array(), model.correlation[np.ix_(order, order)])
    shown = np.array(["a", r"\$b", "c" * 15 + "…"])[order].tolist()
    assert [label.get_text() for label in heat.get_yticklabels()] == shown
    assert [label.get_text() for label in heat.get_xticklabels()] == shown
    points = check.collections[0].get_offsets()
    np.testing.assert_allclose(points, [[0.5, 0.5], [0.2, 0.158655]], atol=1e-6)  # the constant one is not drawn


def test_correlated_columns_are_side_by_side():
    group = np.array([0, 1, 2] * 4)
    sign = np.where(np.arange(12) < 6, 1.0, -1.0)  # whatever the sign
    r = np.where(group[:, None] == group, 0.8, 0.05) * np.outer(sign, sign)
    np.fill_diagonal(r, 1.0)
    order = column_order(r)
    assert sorted(order) == list(range(12))
    assert np.count_nonzero(np.diff(group[order])) == 2


def test_columns_without_a_floor_have_no_share_at_it():
    limits = np.array([0.0, -np.inf, -np.inf]), np.array([np.inf, np.inf, 1.0])
    model = RectifiedGaussian([0.0, 1.0, 0.0], np.eye(3), limits[0], ceiling=limits[1])
    check = model_picture(model, [0.5, 0.0, 0.1]).axes[-1]
    np.testing.assert_allclose(check.collections[0].get_offsets(), [[0.5, 0.5], [0.1, 0.158655]], atol=1e-6)
    assert "floor or ceiling" in check.get_title(loc="left")
    free = RectifiedGaussian([0.0, 1.0], np.eye(2), -np.inf)
    assert len(model_picture(free, [0.0, 0.0]).axes) == 2  # correlations and their colours


@pytest.mark.parametrize(
    ("floor", "ceiling", "word"), [(0.0, None, "floor 0"), (None, 3.5, "ceiling 3.5"), (None, None, "")]
)
def test_quantiles_and_their_limit(floor, ceiling, word):
    column = quantiles("As", floor, ceiling)
    panel = model_picture(random_model(2, random_state=0), [0.4, 0.5], [column]).axes[-1]
    np.testing.assert_array_equal(panel.lines[1].get_xydata(), np.column_stack([column["fitted"], column["seen"]]))
    assert [text.get_text() for text in panel.texts] == [word] * bool(word)
    dashed = [line for line in panel.lines if line.get_color() == NAIVE]
    assert [line.get_ydata()[0] for line in dashed] == [level for level in (floor, ceiling) if level is not None]
    assert panel.get_title(loc="left").startswith("As\n")


@pytest.mark.parametrize(
    ("d", "worst"),
    [(1, 1), (12, 5), *(pytest.param(*size, marks=pytest.mark.slow) for size in ((21, 3), (60, 5))), (61, 0)],
)
def test_nothing_overlaps(d, worst):
    names = [f"long name of column {j}" if j % 2 else f"x{j}" for j in range(d)]
    model = RectifiedGaussian(np.zeros(d), random_model(d, random_state=0).covariance, feature_names=names)
    columns = [quantiles(names[j], None if (j + d) % 2 else 0.0, 5.5 if (j + d) % 2 else None) for j in range(worst)]
    figure = model_picture(model, np.full(d, 0.5), columns)
    figure.draw_without_rendering()
    for axes in figure.axes:
        box = axes.get_tightbbox()  # the layout settles to within a pixel
        assert min(box.x0, box.y0) >= -1.0
        assert box.x1 <= figure.bbox.x1 + 1.0
        assert box.y1 <= figure.bbox.y1 + 1.0
    boxes = [thing.get_window_extent() for axes in figure.axes for thing in words_of(axes)]
    assert len(boxes) > d * (d <= 60)
    assert [(a, b) for a, b in combinations(boxes, 2) if overlap(a, b)] == []
    if d > 60:
        assert len(figure.axes[0].get_xticklabels()) == 0


def words_of(axes: Any) -> list[Any]:
    """Everything that is to be read, but for ticks outside the axes."""
    title = axes.get_title(loc="left")
    words = [*axes.texts, axes.xaxis.label, axes.yaxis.label]
    words += axes.findobj(lambda thing: isinstance(thing, Text) and thing.get_text() == title)
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        words += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    shown = [text for text in words if text.get_text() and text.get_visible() and axes.axison]
    return [*shown, axes.get_legend()] if axes.get_legend() is not None else shown


def overlap(a: Any, b: Any) -> bool:
    """By more than a pixel each way."""
    return min(a.x1, b.x1) - max(a.x0, b.x0) > 1.0 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1.0


def test_the_same_picture_each_time():
    model = random_model(3, random_state=0)
    one, two = (rendered(model_picture(model, np.full(3, 0.5), [quantiles()])) for _ in range(2))
    assert one == two


def test_shares_and_quantiles_of_columns_with_margins():
    model = RectifiedGaussian([0.0, 1.0], np.eye(2), floor=[1.0, 0.0], margins=[Log(), BoxCox(0.5, -1.0, 1.0)])
    at = np.geomspace(0.1, 90.0, 40)
    numbers = {"seen": at**1.1, "fitted": at, "low": np.maximum(at - 0.2, 0.0), "high": 2.0 * at}
    column = {"name": "rain", **numbers, "floor": 0.0, "z": 4.2, "margin": "boxcox 0.50"}
    figure = model_picture(model, [0.5, 0.2], [column])
    figure.draw_without_rendering()
    shares, panel = figure.axes[-2:]
    np.testing.assert_allclose(shares.collections[0].get_offsets(), [[0.5, 0.5], [0.2, norm.cdf(-1.0)]], atol=1e-6)
    assert panel.get_title(loc="left").startswith("rain: boxcox 0.50\n")
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert len(panel.texts) == 0  # a floor of 0 has no place on a logarithmic axis
    boxes = [thing.get_window_extent() for axes in figure.axes for thing in words_of(axes)]
    assert [(a, b) for a, b in combinations(boxes, 2) if overlap(a, b)] == []
