"""An experiment as data, and a study: the experiment with its plan and seed chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from unrelu._version import __version__
from unrelu.papers.experiments.claims import Reading
from unrelu.papers.experiments.design import Curve, Layout, Measure, Plan
from unrelu.papers.experiments.trial import Trial


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
