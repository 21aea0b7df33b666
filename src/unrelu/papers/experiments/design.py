"""The nouns of an experiment: settings, panels, curves and measures; a study of them, and its results.

An experiment is data: what to run, what to measure, how to lay it out, what the paper says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu._version import __version__
from unrelu.contracts import FloatArray
from unrelu.methods import Method

if TYPE_CHECKING:
    from unrelu.papers.experiments.claims import Reading

Key = tuple[int, int, int]
Outcomes = Mapping[str, Mapping[str, float]]
"""Curve name -> measure name -> value, of one trial."""


@dataclass(frozen=True)
class Setting:
    """What one point of a figure is made of: rows n, columns d, condition number of W W', share p of genuine rows."""

    rows: int
    columns: int
    condition_number: float = 1.0
    genuine: float = 1.0

    @property
    def cells(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True)
class Axis:
    """What varies along a panel. Axes are told apart by name."""

    name: str
    symbol: str
    label: str
    value: Callable[[Setting], float]
    logarithmic: bool = False

    def text(self, setting: Setting) -> str:
        """The setting as this axis sees it.

        >>> ROWS.text(Setting(20_000, 5)), GENUINE.text(Setting(1, 1, genuine=0.95))
        ('n = 20,000', 'p = 0.95')
        """
        return f"{self.symbol} = {self.value(setting):,g}"


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: the points along an axis, and what stays fixed, in words.

    ``runs`` of every point, where they are not the plan's.
    """

    axis: Axis
    settings: tuple[Setting, ...]
    fixed: str
    runs: int | None = None


@dataclass(frozen=True)
class Plan:
    """The panels and the number of runs of every point. A run has its own W, b and rows."""

    panels: tuple[Panel, ...]
    runs: int

    def panel(self, axis: Axis) -> Panel:
        """The panel along that axis."""
        return next(panel for panel in self.panels if panel.axis == axis)

    def runs_of(self, panel: Panel) -> int:
        """The number of runs of every point of a panel."""
        return self.runs if panel.runs is None else panel.runs

    @property
    def runs_in_words(self) -> str:
        """
        >>> Plan((), 10).runs_in_words
        '10'
        """
        more = {panel.axis.symbol: self.runs_of(panel) for panel in self.panels if self.runs_of(panel) != self.runs}
        return str(self.runs) + "".join(f" ({runs} along {symbol})" for symbol, runs in more.items())


@dataclass(frozen=True)
class Curve:
    """A learner under test; an oracle learns from the genuine rows alone.

    ``in_block``: it sees the same rows with all outliers at the end, instead of anywhere.
    """

    name: str
    method: Method
    oracle: bool = False
    ours: bool = False
    in_block: bool = False


@dataclass(frozen=True)
class Measure:
    """What is measured of a learned model; ``name`` is its column in the CSV."""

    name: str
    short: str
    label: str


@dataclass(frozen=True)
class TableLayout:
    """A table of one measure at the only setting there is.

    A row has a name, its curves, and what the paper printed of them (None: not in the paper).
    """

    measure: Measure
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Curve | None, ...], tuple[float | None, ...]], ...]


Layout = tuple[tuple[Measure, ...], ...] | TableLayout
"""A row of panels for every group of measures, which share their panels; or a table."""

ROWS = Axis("rows", "n", "number of rows n", lambda setting: setting.rows, logarithmic=True)
COLUMNS = Axis("columns", "d", "dimension d", lambda setting: setting.columns)
CONDITION = Axis("condition", "κ", "condition number κ of W W'", lambda setting: setting.condition_number)
GENUINE = Axis("genuine", "p", "probability p of a genuine row", lambda setting: setting.genuine)
BIAS = Measure("bias", "bias", "error in bias  |b̂ − b| / |W|")
WEIGHTS = Measure("weights", "weights", "error in weights  |Ŝ − W W'| / |W|²")
KL = Measure("kl", "KL", "KL divergence")
TV = Measure("tv_bound", "sqrt(KL/2)", "sqrt(KL / 2), at most 1, which bounds the total variation distance")
SECONDS = Measure("seconds", "seconds", "seconds of computing")


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper: what to run, what to measure, how to lay it out, what the paper says of it.

    ``readings``: ways to understand what the paper leaves open, each with the same claims; one where nothing is open.

    ``notes`` say where our run departs from the paper's, or had to choose what the paper leaves open. ``repeats`` is
    how often a fit is repeated for its time, of which the shortest counts: other work on the machine only adds to it.
    """

    name: str
    title: str
    paper: str
    full: Plan
    quick: Plan
    curves: tuple[Curve, ...]
    measures: tuple[Measure, ...]
    layout: Layout
    readings: tuple[Reading, ...]
    notes: tuple[str, ...] = ()
    repeats: int = 1


@dataclass(frozen=True)
class Trial:
    """One run of one point; ``key`` is (panel, point, run), counted from 0."""

    axis: Axis
    setting: Setting
    key: tuple[int, int, int]

    @property
    def run(self) -> int:
        return self.key[2]


@dataclass(frozen=True)
class Study:
    """An experiment to be run with one of its plans and a seed."""

    experiment: Experiment
    quick: bool = False
    seed: int = 0

    @property
    def plan(self) -> Plan:
        return self.experiment.quick if self.quick else self.experiment.full

    @property
    def stem(self) -> str:
        """How its files begin; a quick run never overwrites a full one."""
        return f"{self.experiment.name}-quick" if self.quick else self.experiment.name

    def trials(self) -> Iterator[Trial]:
        """Every run of every point, point after point."""
        for place, panel in enumerate(self.plan.panels):
            for point, setting in enumerate(panel.settings):
                for run in range(self.plan.runs_of(panel)):
                    yield Trial(panel.axis, setting, (place, point, run))

    def entropy(self, trial: Trial) -> tuple[int, ...]:
        """What the random streams of a trial derive from."""
        return (self.seed, *trial.key)

    def settings(self) -> dict[str, Any]:
        """All that the numbers depend on, as JSON holds it: results of other settings are not mixed with these."""
        return {
            "experiment": self.experiment.name,
            "quick": self.quick,
            "seed": self.seed,
            "version": __version__,
            "runs": self.plan.runs_in_words,
            "panels": {panel.axis.name: [asdict(s) for s in panel.settings] for panel in self.plan.panels},
            "curves": {curve.name: repr(curve.method) for curve in self.experiment.curves},
            "in_block": [curve.name for curve in self.experiment.curves if curve.in_block],
            "repeats": self.experiment.repeats,
            "measures": [measure.name for measure in self.experiment.measures],
        }


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
