"""Pictures: rendered without a display or global state, complete, and the same each time."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from unrelu.errors import MissingDependencyError, OutputError
from unrelu.report.pictures import check_picture, rendered, write_picture
from unrelu.report.trying import layer_picture, moments_of_rows


@pytest.fixture
def result() -> tuple:
    rows = np.random.default_rng(0).normal(0.2, 1.0, (300, 4))
    seen = np.maximum(rows, 0.0)
    true, naive = moments_of_rows(rows), moments_of_rows(seen)
    names = tuple(f"unit {i}" for i in range(4))
    return rows, names, (true, naive, true), np.full(4, 0.1)


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        (".png", b"\x89PNG"),
        *(pytest.param(*kind, marks=pytest.mark.slow) for kind in ((".svg", b"<?xml"), (".PDF", b"%PDF"))),
    ],
)
def test_kinds_of_pictures(tmp_path, kind, start, result):
    one, two = (rendered(layer_picture(*result), kind) for _ in range(2))
    assert one.startswith(start)
    assert one == two
    write_picture(tmp_path / f"p{kind}", one)
    assert (tmp_path / f"p{kind}").read_bytes() == one


def test_the_picture_of_a_layer_shows_every_pair_unit_and_row(result):
    figure = layer_picture(*result)
    correlations, means, typical, most = figure.axes
    assert [len(points.get_offsets()) for points in correlations.collections] == [6, 6]
    np.testing.assert_allclose(means.lines[0].get_xydata()[:, 0], result[2][0].mean)
    shares = (result[0] <= 0.0).mean(axis=0)
    assert f"Unit {int(np.argmax(shares))} (floored most)" in most.get_title(loc="left")
    for panel in (typical, most):
        area = sum(bar.get_height() * bar.get_width() / 0.92 for bar in panel.patches)
        assert area == pytest.approx(1.0)


def test_nothing_in_the_pictures_overlaps_the_edge(result):
    figure = layer_picture(*result)
    figure.draw_without_rendering()
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box.x0 >= 0.0
        assert box.x1 <= figure.bbox.x1


def test_no_global_state_is_touched(result):
    rendered(layer_picture(*result))
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_pictures_are_refused_early(monkeypatch):
    with pytest.raises(OutputError, match="unknown kind of picture"):
        check_picture("picture.doc")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match="unrelu\\[plot\\]"):
        check_picture("picture.png")
