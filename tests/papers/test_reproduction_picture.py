"""Pictures of reproductions: laid out like the paper's, complete, nothing over anything else."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from unrelu.methods import OnePass
from unrelu.papers.experiments import EXPERIMENTS
from unrelu.papers.study import BIAS, KL, Curve, SeriesOf, Study, series_of
from unrelu.report.pictures import LEARNED, rendered
from unrelu.report.trying import reproduction_picture, strokes


def made_up(name: str) -> tuple[Study, SeriesOf]:
    """The quick plan with values that differ by panel, point, run and curve; one mean is infinite."""
    study = Study(EXPERIMENTS[name], quick=True)
    rng = np.random.default_rng(0)
    outcomes = {
        trial: {
            curve.name: {m.name: float(rng.lognormal(-3.0, 1.5)) for m in study.experiment.measures}
            for curve in study.experiment.curves
        }
        for trial in study.trials()
    }
    first = study.experiment.curves[0].name
    if KL in study.experiment.measures:
        outcomes[0, 0, 0][first]["kl"] = float("inf")
    return study, partial(series_of, study.panels, outcomes)


@pytest.mark.parametrize(("name", "rows"), [("wu2019-figure1", 1), ("outliers-figure1", 2), ("outliers-figure2", 2)])
def test_panels_show_the_means_of_every_curve(name, rows):
    study, results = made_up(name)
    figure = reproduction_picture(study, results)
    panels, groups = study.panels, study.experiment.layout
    assert len(groups) == rows
    assert len(figure.axes) == rows * len(panels)
    for axes, (group, panel) in zip(figure.axes, ((g, p) for g in groups for p in panels), strict=True):
        drawn = [container.lines[0].get_xydata() for container in axes.containers]
        wanted = [results(panel.axis, curve, m) for curve in study.experiment.curves for m in group]
        assert len(drawn) == len(wanted)
        for points, series in zip(drawn, wanted, strict=True):
            np.testing.assert_array_equal(points[:, 0], series.x)
            np.testing.assert_array_equal(points[:, 1], np.where(np.isfinite(series.mean), series.mean, np.nan))
    assert [axes.get_title(loc="left") for axes in figure.axes[: len(panels)]] == [p.fixed for p in panels]


def test_an_infinite_mean_is_shown_as_such():
    study, results = made_up("wu2019-figure1")
    left, *others = reproduction_picture(study, results).axes
    signs = [
        [line for line in axes.lines if line.get_marker() == r"$\infty$" and len(line.get_xdata())]
        for axes in (left, *others)
    ]
    assert [len(found) for found in signs] == [1, 0, 0]
    assert signs[0][0].get_xdata() == [study.panels[0].settings[0].rows]


@pytest.mark.parametrize(
    "name", [name if name == "wu2019-figure1" else pytest.param(name, marks=pytest.mark.slow) for name in EXPERIMENTS]
)
def test_nothing_overlaps(name):
    study, results = made_up(name)
    figure = reproduction_picture(study, results)
    assert rendered(figure).startswith(b"\x89PNG")
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes] + [legend.get_window_extent() for legend in figure.legends]
    boxes.append(figure._suptitle.get_window_extent())
    for i, one in enumerate(boxes):
        assert one.x0 >= 0.0
        assert one.y0 >= 0.0
        assert one.x1 <= figure.bbox.x1
        assert one.y1 <= figure.bbox.y1
        assert not any(one.overlaps(other) for other in boxes[i + 1 :])


def test_the_table_shows_our_times_and_the_papers():
    study, results = made_up("outliers-table1")
    (axes,) = reproduction_picture(study, results).axes
    texts = [text.get_text() for text in axes.texts]
    for printed in ("16.95 s", "17.73 s", "34.44 s", "60.78 s", "1.24 s", "1.60 s", "2.11 s", "3.62 s"):
        assert texts.count(printed) == 1
    assert sum("±" in text for text in texts) == len(study.experiment.curves) + 1  # and the note below


def test_strokes_of_all_curves_differ():
    for name in ("wu2019-figure1", "outliers-figure1", "outliers-figure2"):
        experiment = EXPERIMENTS[name]
        for measures in experiment.layout:
            drawn = strokes(experiment.curves, measures)
            looks = {(style["color"], style["linestyle"], style["marker"]) for *_, style in drawn}
            assert len(looks) == len({label for _, _, label, _ in drawn}) == len(drawn)
            assert all((style["color"] == LEARNED) == curve.ours for curve, *_, style in drawn)
    oracle = Curve("o", lambda seed: OnePass(), oracle=True)
    assert strokes((oracle,), (BIAS,))[0][-1]["linestyle"] == "--"
