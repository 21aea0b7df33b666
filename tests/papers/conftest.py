"""Tiny versions of the experiments, and results made up by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from unrelu.papers.experiments import EXPERIMENTS
from unrelu.papers.study import ROWS, Axis, Curve, Experiment, Measure, Panel, SeriesOf, Setting, Study, series_of


def ends(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    return settings[:: max(len(settings) - 1, 1)]


def shrunk(experiment: Experiment, rows: int = 300, runs: int = 2) -> Experiment:
    """The ends of every panel of the quick plan, with a few rows and at most four columns; n keeps its order."""

    def small(place: int, setting: Setting, axis: Axis) -> Setting:
        n = rows * (place + 1) if axis is ROWS else rows
        return replace(setting, rows=n, columns=2 + setting.columns // 10)

    panels = tuple(
        replace(panel, settings=tuple(small(i, s, panel.axis) for i, s in enumerate(ends(panel.settings))), runs=runs)
        for panel in experiment.quick
    )
    return replace(experiment, quick=panels, repeats=1)


@pytest.fixture
def tiny() -> Callable[..., Study]:
    """A tiny study of the experiment of that name."""
    return lambda name, seed=0, **how: Study(shrunk(EXPERIMENTS[name], **how), quick=True, seed=seed)


MadeUp = dict[tuple[Curve, Measure], np.ndarray]


@pytest.fixture
def made_up() -> Callable[[Axis, tuple[Setting, ...], MadeUp], SeriesOf]:
    """Results with given values, points x runs for every curve and measure."""

    def build(axis: Axis, settings: tuple[Setting, ...], values: MadeUp) -> SeriesOf:
        arrays = {key: np.asarray(array, dtype=float) for key, array in values.items()}
        runs = next(iter(arrays.values())).shape[1]
        outcomes: dict[tuple[int, int, int], dict[str, dict[str, float]]] = {}
        for (curve, measure), array in arrays.items():
            for point, run in np.ndindex(array.shape):
                trial = outcomes.setdefault((0, point, run), {})
                trial.setdefault(curve.name, {})[measure.name] = float(array[point, run])
        return partial(series_of, (Panel(axis, settings, "made up", runs),), outcomes)

    return build
