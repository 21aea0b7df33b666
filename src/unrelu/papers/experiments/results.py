"""Measures of all trials, and what pictures and claims ask of them: means, spreads, paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.papers.experiments.design import Axis, Curve, Measure, Plan, Setting

Key = tuple[int, int, int]
Outcomes = Mapping[str, Mapping[str, float]]
"""Curve name -> measure name -> value, of one trial."""


@dataclass(frozen=True, eq=False)
class Series:
    """One curve along one axis: ``values`` is points x runs."""

    settings: tuple[Setting, ...]
    x: FloatArray
    values: FloatArray

    @property
    def mean(self) -> FloatArray:
        return np.asarray(self.values.mean(axis=1))

    @property
    def std(self) -> FloatArray:
        """Spread over the runs; 0 where there is only one run, or a value is not finite."""
        if self.values.shape[1] < 2:
            return np.zeros(len(self.values))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(self.values.std(axis=1, ddof=1)))

    @property
    def stderr(self) -> FloatArray:
        """Of the mean over the runs."""
        return np.asarray(self.std / np.sqrt(self.values.shape[1]))

    def minus(self, other: Series) -> Series:
        """Run by run: both have learned from the same rows."""
        with np.errstate(invalid="ignore"):
            return Series(self.settings, self.x, self.values - other.values)

    def where(self, wanted: Callable[[Setting], bool]) -> Series:
        """The points of some settings."""
        kept = [i for i, setting in enumerate(self.settings) if wanted(setting)]
        return Series(tuple(self.settings[i] for i in kept), self.x[kept], self.values[kept])


@dataclass(frozen=True, eq=False)
class Results:
    """Outcomes of every trial of a plan, by the trial's key (panel, point, run)."""

    plan: Plan
    outcomes: Mapping[Key, Outcomes]

    def series(self, axis: Axis, curve: Curve, measure: Measure) -> Series:
        """A curve of one panel."""
        panel = self.plan.panel(axis)
        place = self.plan.panels.index(panel)
        values = [
            [self.outcomes[place, point, run][curve.name][measure.name] for run in range(self.plan.runs_of(panel))]
            for point in range(len(panel.settings))
        ]
        x = np.array([axis.value(setting) for setting in panel.settings], dtype=np.float64)
        return Series(panel.settings, x, np.array(values, dtype=np.float64))
