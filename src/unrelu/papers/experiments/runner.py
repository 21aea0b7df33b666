"""The whole reproduction on one screen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from unrelu.contracts import Step, Watch, unwatched
from unrelu.errors import DoubtfulTableWarning, RowOrderWarning
from unrelu.papers.experiments.checklist import checklist_page
from unrelu.papers.experiments.claims import Judgement
from unrelu.papers.experiments.design import Curve, Setting
from unrelu.papers.experiments.experiment import Study
from unrelu.papers.experiments.journal import Journal, write_text
from unrelu.papers.experiments.measures import SECONDS
from unrelu.papers.experiments.results import Outcomes, Results
from unrelu.papers.experiments.trial import Trial, draw, measured

_WARM_UP = Setting(rows=500, columns=3)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """A finished study: its results, the verdicts on the paper's claims under each reading, and where they are."""

    study: Study
    results: Results
    judgements: tuple[Judgement, ...]
    csv_path: Path
    checklist_path: Path


def reproduce(study: Study, journal: Journal, watch: Watch = unwatched) -> Reproduction:
    """Run the trials that are not finished, judge the claims, write the checklist.

    ``watch`` hears of every fit before it starts, with the work done in cells of tables; what it raises stops the run.
    Finished trials stay in the journal.

    >>> import tempfile, pathlib
    >>> from dataclasses import replace
    >>> from unrelu.papers.experiments.catalogue import experiment_named
    >>> from unrelu.papers.experiments.design import Panel, Plan
    >>> from unrelu.papers.experiments.measures import ROWS
    >>> tiny = Plan((Panel(ROWS, (Setting(200, 2), Setting(800, 2)), "d = 2"),), runs=2)
    >>> study = Study(replace(experiment_named("wu2019-figure1"), quick=tiny, readings=()), quick=True)
    >>> done = reproduce(study, Journal(study, pathlib.Path(tempfile.mkdtemp())))
    >>> done.csv_path.name, len(done.results.outcomes)
    ('wu2019-figure1-quick.csv', 4)
    """
    work = sum(trial.setting.cells for trial in study.trials())
    passed = 0
    if len(journal) < sum(1 for _ in study.trials()):
        _warm_up(study)
    with journal:
        for trial in study.trials():
            if trial not in journal:
                journal.add(trial, _attempt(study, trial, partial(_tell, watch, study, trial, passed, work)))
            passed += trial.setting.cells
    results = journal.results()
    judgements = tuple(reading.judge(results) for reading in study.experiment.readings)
    checklist_path = journal.csv_path.with_name(f"{study.stem}-checklist.md")
    write_text(checklist_path, checklist_page(study, results, judgements))
    return Reproduction(study, results, judgements, journal.csv_path, checklist_path)


def _tell(watch: Watch, study: Study, trial: Trial, done: int, work: int, curve: Curve) -> None:
    runs = study.plan.runs_of(study.plan.panel(trial.axis))
    where = f"{trial.axis.text(trial.setting)}, run {trial.run + 1} of {runs}"
    watch(Step(study.experiment.name, done, work, f"{where}: {curve.name}", trial))


def _attempt(study: Study, trial: Trial, about_to_fit: Callable[[Curve], None]) -> Outcomes:
    """Every curve learns from the same rows."""
    drawn = draw(trial.setting, study.entropy(trial))
    outcomes = {}
    for curve in study.experiment.curves:
        about_to_fit(curve)
        with warnings.catch_warnings():
            for studied in (DoubtfulTableWarning, RowOrderWarning):  # outliers, and where they sit
                warnings.simplefilter("ignore", studied)
            outcomes[curve.name] = measured(curve, drawn, study.experiment.repeats)
    return outcomes


def _warm_up(study: Study) -> None:
    """Loads (the first time: compiles) the kernels, which must not count as a method's time."""
    if SECONDS in study.experiment.measures:
        drawn = draw(_WARM_UP, (study.seed,))
        for curve in study.experiment.curves:
            measured(curve, drawn)
