"""The picture of outliers: every row counted, every cell in its place, readable whatever the scores."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from unrelu.report.outliers import outlier_picture, score_edges
from unrelu.report.pictures import rendered


def scored(scores, simulated, threshold, cells) -> SimpleNamespace:
    top = np.arange(len(cells))
    looked_at = SimpleNamespace(whole=dict(zip(top.tolist(), cells, strict=True)))
    return SimpleNamespace(scores=scores, model_scores=simulated, threshold=threshold, top=top, cells=looked_at)


def picture_of(scored_rows: SimpleNamespace, names: tuple[str, ...] | None = None) -> Figure:
    names = names or tuple(f"column {j}" for j in range(len(scored_rows.cells.whole.get(0, ()))))
    return outlier_picture(scored_rows, names, 0.01)


def result_of(d: int = 4, rows: int = 6, lowest: float = -50.0) -> SimpleNamespace:
    rng = np.random.default_rng(0)
    simulated = np.sort(-rng.chisquare(d, 5000) / 2.0)
    scores = np.concatenate([np.linspace(lowest, -20.0, 30), -rng.chisquare(d, 970) / 2.0])
    cells = rng.normal(0.0, 4.0, (rows, d))
    if rows:
        cells[0, 0] = np.nan
    return scored(scores, simulated, float(np.quantile(simulated, 0.01)), cells)


def outlier_score(result: SimpleNamespace) -> np.ndarray:
    return np.array(list(result.cells.whole.values()))


OTHERS = [pytest.param(*kind, marks=pytest.mark.slow) for kind in ((".svg", b"<?xml"), (".pdf", b"%PDF"))]


@pytest.mark.parametrize(("kind", "start"), [(".png", b"\x89PNG"), *OTHERS])
def test_kinds_of_pictures(kind, start):
    one, two = (rendered(picture_of(result_of()), kind) for _ in range(2))
    assert one.startswith(start)
    assert one == two


@pytest.mark.parametrize("lowest", [-21.0, -50.0, -1e9])
def test_every_row_is_counted_and_far_ones_do_not_hide_the_others(lowest):
    result = result_of(lowest=lowest)
    scores = picture_of(result).axes[0]
    table, model = (patch.get_data() for patch in scores.patches)
    assert table.values.sum() == len(result.scores)
    assert model.values.sum() == pytest.approx(len(result.scores))  # as many clean rows
    assert scores.lines[0].get_xdata()[0] == result.threshold
    # The rows of the model keep at least a fifth of the width.
    inlier = np.ptp(result.model_scores) / np.ptp(score_edges(result))
    assert inlier > 0.2
    censoring = int(np.sum(result.scores < table.edges[0]))
    assert [text.get_text().startswith(f"← {censoring:,} row") for text in scores.texts] == [True] * (censoring > 0)


def test_the_cells_are_those_of_the_most_outlying_rows():
    result = result_of()
    cells = picture_of(result).axes[1]
    shown = cells.collections[0].get_array().reshape(outlier_score(result).shape)
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), np.isnan(outlier_score(result)))
    np.testing.assert_array_equal(shown.compressed(), outlier_score(result)[~np.isnan(outlier_score(result))])
    norm = cells.collections[0].norm
    assert norm(0.0) == pytest.approx(0.5)  # neither red nor blue
    assert norm.vmax >= np.nanmax(np.abs(outlier_score(result)))
    assert [label.get_text() for label in cells.get_xticklabels()] == [f"column {j}" for j in range(4)]
    assert [label.get_text() for label in cells.get_yticklabels()] == ["1", "2", "3", "4", "5", "6"]
    assert cells.yaxis_inverted()  # the most outlying row on top


def test_infinite_cells_and_a_single_row_can_be_drawn():
    result = scored(np.array([-3.0]), np.linspace(-9.0, 0.0, 50), -8.0, np.array([[np.inf, 0.0]]))
    figure = outlier_picture(result, ("a", "$b"), 0.01)
    assert rendered(figure).startswith(b"\x89PNG")
    assert [label.get_text() for label in figure.axes[1].get_xticklabels()] == ["a", r"\$b"]
    assert [text.get_text() for text in figure.axes[1].texts] == ["+inf"]


def test_without_rows_there_is_one_panel():
    figure = picture_of(result_of(rows=0))
    assert len(figure.axes) == 1
    assert rendered(figure).startswith(b"\x89PNG")


def test_of_many_columns_and_rows_the_most_outlying_are_shown():
    result = result_of(d=100, rows=60)
    cells = picture_of(result).axes[1]
    shown = cells.collections[0].get_array().reshape(25, 30)
    kept = np.array([int(label.get_text().split()[1]) for label in cells.get_xticklabels()])
    np.testing.assert_array_equal(kept, np.sort(kept))
    others = np.setdiff1d(np.arange(100), kept)
    strongest = np.nanmax(np.abs(outlier_score(result)[:25]), axis=0)
    assert strongest[kept].min() >= strongest[others].max()
    assert "70 less outlying columns left out" in cells.get_title(loc="left")
    np.testing.assert_array_equal(shown[1], outlier_score(result)[1, kept])


@pytest.mark.parametrize(("d", "rows"), [(4, 6), (40, 25), (2, 1)])
def test_nothing_overlaps_the_edge(d, rows):
    figure = picture_of(result_of(d, rows))
    figure.draw_without_rendering()
    for axes in figure.axes:
        box = axes.get_tightbbox()  # the layout settles to within a pixel
        assert box.x0 >= -1.0
        assert box.y0 >= -1.0
        assert box.x1 <= figure.bbox.x1 + 1.0


@pytest.mark.parametrize(("d", "rows"), [(12, 12), (13, 5), (30, 5)])
def test_numbers_in_cells_do_not_overlap(d, rows):
    result = result_of(d, rows)
    for cells in result.cells.whole.values():
        cells[:] = -1234.0
    figure = picture_of(result)
    figure.draw_without_rendering()
    texts = figure.axes[1].texts
    assert (len(texts) > 0) == (d <= 12)
    boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: (box.y0, box.x0))
    assert all(a.x1 < b.x0 or a.y1 < b.y0 for a, b in pairwise(boxes))
