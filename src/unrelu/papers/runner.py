"""A whole reproduction: it draws and learns trials, keeps them on disk, tests the claims, and writes a page to read.

One trial draws a true model and rows, from which every curve learns. Its streams derive from (seed, panel, point, run)
alone, so that a run that was stopped and started again gives the same numbers.
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from unrelu import RectifiedGaussian
from unrelu.contracts import Assumptions, BoolArray, Evidence, FloatArray, Progress, Step, no_progress
from unrelu.errors import InputFileError, NotSemidefiniteError, about
from unrelu.metrics import parameter_errors
from unrelu.papers.study import SECONDS, Curve, Key, Outcomes, Reading, SeriesOf, Setting, Study, series_of
from unrelu.passes import LocalEngine
from unrelu.storage import atomic_write
from unrelu.synthetic import random_model
from unrelu.tables import ArraySamples

_WARM_UP = Setting(rows=500, columns=3)
_OUTLIER_MEAN, _OUTLIER_SD = 5.0, 1.0  # Bulusu et al. 2022, section 5
_TRIAL_COLUMNS = ("panel", "point", "rows", "columns", "condition_number", "inlier", "run", "curve")

Draw = tuple[RectifiedGaussian, FloatArray, BoolArray, int]  # truth, rows, a mask of inliers, a seed for the methods


def reproduce(study: Study, journal: Journal, progress: Progress = no_progress) -> tuple[SeriesOf, tuple[Reading, ...]]:
    """Run the trials that are not finished, test the claims under each reading, write the checklist.

    ``progress`` is called before every fit, with the work done in cells of tables; an exception that it raises ends
    the run. Finished trials stay in the journal.
    """
    experiment, trials = study.experiment, list(study.trials())
    settings = [study.panels[place].settings[point] for place, point, _ in trials]
    work, passed = sum(setting.rows * setting.columns for setting in settings), 0
    if len(journal) < len(trials) and SECONDS in experiment.measures:
        # Loads (the first time: compiles) the kernels, which must not count as a method's time.
        drawn = draw(_WARM_UP, (study.seed,))
        for curve in experiment.curves:
            fit_errors(curve, drawn)
    for trial, setting in zip(trials, settings, strict=True):
        if trial not in journal:
            drawn, outcomes, panel = draw(setting, (study.seed, *trial)), {}, study.panels[trial[0]]
            where = f"{panel.axis.text(setting)}, run {trial[2] + 1} of {panel.runs}"
            for curve in experiment.curves:
                progress(Step(experiment.name, passed, work, f"{where}: {curve.name}", trial))
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", about("row-order"))  # the places of outliers are under study
                    outcomes[curve.name] = fit_errors(curve, drawn, experiment.repeats)
            journal.add(trial, outcomes)
        passed += setting.rows * setting.columns
    results = journal.results()
    readings = tuple(reading.evaluate(results) for reading in experiment.readings)
    _write_text(journal.checklist_path, checklist_page(study, results, readings))
    return results, readings


# --- one trial ----------------------------------------------------------------------------------


def draw(setting: Setting, entropy: tuple[int, ...]) -> Draw:
    """The true model and the rows of a setting.

    W has uniformly random orthonormal singular vectors, b is the positive part of a normal vector, and every row is
    replaced with probability 1 - p by independent N(5, 1) cells. A cell of an outlier below 0 (one in three million)
    becomes 0: the rows stay possible values of a ReLU.
    """
    streams = np.random.SeedSequence(entropy).spawn(4)
    model_rng, rows_rng, outlier_rng, method_rng = (np.random.default_rng(stream) for stream in streams)
    truth = random_model(setting.columns, condition_number=setting.condition_number, random_state=model_rng)
    rows = truth.sample(setting.rows, rows_rng)
    is_inlier = outlier_rng.random(setting.rows) < setting.inlier
    replaced = (int(np.count_nonzero(~is_inlier)), setting.columns)
    rows[~is_inlier] = np.maximum(outlier_rng.normal(_OUTLIER_MEAN, _OUTLIER_SD, replaced), 0.0)
    return truth, rows, is_inlier, int(method_rng.integers(2**31))


def rows_for(curve: Curve, drawn: Draw) -> FloatArray:
    """The rows that a curve learns from."""
    _, rows, is_inlier, _ = drawn
    if curve.oracle:
        return rows[is_inlier]
    return np.concatenate([rows[is_inlier], rows[~is_inlier]]) if curve.in_block else rows


def fit_errors(curve: Curve, drawn: Draw, repeats: int = 1) -> dict[str, float]:
    """The errors of one curve and its seconds, by the names of the measures.

    Errors are of the model, or of the papers' matrix as it is where no model has it. Seconds are of computing, which
    other work on the machine does not lengthen, in the fastest repeat.
    """
    truth, *_, method_seed = drawn
    rows = rows_for(curve, drawn)
    assumptions = Assumptions(floor=(0.0,) * rows.shape[1], nonnegative_mean=True)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        evidence = Evidence(ArraySamples(rows, block_rows=len(rows)), LocalEngine())
        try:
            learned = curve.method.learn(evidence, assumptions, method_seed)
            errors = parameter_errors(learned.distribution, truth)
        except NotSemidefiniteError as found:
            w_squared = float(np.trace(truth.covariance))
            bias = float(np.linalg.norm(np.asarray(found.mean) - truth.mean)) / w_squared**0.5
            weights = float(np.linalg.norm(np.asarray(found.covariance) - truth.covariance)) / w_squared
            errors = {"bias": bias, "weights": weights, "kl": float("inf"), "tv_bound": 1.0}
        seconds.append(time.process_time() - start)
    return {**errors, SECONDS.name: min(seconds)}


# --- finished trials on disk --------------------------------------------------------------------


class Journal:
    """The trials of a study that are finished, in memory and in ``csv_path``, a CSV that is always whole.

    A run that was stopped goes on from the CSV. Results of other settings are put aside, never mixed in. ``found`` is
    how many trials were there at the start; ``set_aside`` says why earlier results were not used, or is None.
    """

    def __init__(self, study: Study, folder: Path) -> None:
        self._study = study
        self._measures = [measure.name for measure in study.experiment.measures]
        self.csv_path = folder / f"{study.stem}.csv"
        self.settings_path = folder / f"{study.stem}-settings.json"
        self.checklist_path = folder / f"{study.stem}-checklist.md"
        self.set_aside: str | None = None
        if self.csv_path.exists() and (differences := self._differences()):
            aside = self.csv_path.with_name(f"{study.stem}-earlier.csv")
            os.replace(self.csv_path, aside)
            self.set_aside = (
                f"{self.csv_path} holds results of other settings ({differences}): starting over, they are now in"
                f" {aside}."
            )
        self._finished: dict[Key, Outcomes] = self._read() if self.csv_path.exists() else {}
        self.found = len(self._finished)

    def __contains__(self, trial: Key) -> bool:
        return trial in self._finished

    def __len__(self) -> int:
        return len(self._finished)

    def add(self, trial: Key, outcomes: Outcomes) -> None:
        """Keep the outcomes of a trial. The settings are written first: without them results belong to no study."""
        if not self.csv_path.exists():
            settings = json.dumps(self._study.settings(), indent=2, ensure_ascii=False)
            _write_text(self.settings_path, settings + "\n")
        self._finished[trial] = outcomes
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*_TRIAL_COLUMNS, *self._measures])
        for finished in filter(self.__contains__, self._study.trials()):
            for curve, outcome in self._finished[finished].items():
                numbers = [repr(float(outcome[measure])) for measure in self._measures]
                writer.writerow([*self._cells_of(finished), curve, *numbers])
        _write_text(self.csv_path, text.getvalue())

    def results(self) -> SeriesOf:
        """The results of the whole study: every trial must be finished."""
        return partial(series_of, self._study.panels, self._finished)

    def _differences(self) -> str:
        """How the settings beside the CSV differ from these, in words."""
        now = json.loads(json.dumps(self._study.settings()))
        try:
            earlier = json.loads(self.settings_path.read_text("utf-8"))
        except (OSError, ValueError):
            earlier = None
        if not isinstance(earlier, dict):
            return "unknown"
        found = []
        for key, after in now.items():
            before = earlier.get(key)
            brief = all(isinstance(value, bool | int | str) for value in (before, after))
            if before != after:
                found.append(f"{key} {before}, now {after}" if brief else f"other {key}")
        return ", ".join(found)

    def _cells_of(self, trial: Key) -> list[str]:
        """A trial's cells in the CSV."""
        place, point, run = trial
        panel = self._study.panels[place]
        setting = panel.settings[point]
        numbers = (point, setting.rows, setting.columns, setting.condition_number, setting.inlier, run)
        return [panel.axis.name, *(f"{number:g}" if isinstance(number, float) else str(number) for number in numbers)]

    def _read(self) -> dict[Key, Outcomes]:
        """Trials of which every curve is there."""
        trials = {tuple(self._cells_of(trial)): trial for trial in self._study.trials()}
        found: dict[Key, dict[str, dict[str, float]]] = {}
        try:
            with open(self.csv_path, encoding="utf-8", newline="") as stream:
                for row in csv.DictReader(stream, strict=True):
                    *described, curve = (row[name] for name in _TRIAL_COLUMNS)
                    if None in row.values():
                        raise ValueError("a line is too short")
                    outcome = {name: float(row[name]) for name in self._measures}
                    found.setdefault(trials[tuple(described)], {})[curve] = outcome
        except (ValueError, KeyError, UnicodeDecodeError) as error:
            raise InputFileError(
                f"{self.csv_path} is damaged ({error}): delete it to start over, or give another folder."
            ) from error
        curves = [curve.name for curve in self._study.experiment.curves]
        return {key: {c: trial[c] for c in curves} for key, trial in found.items() if set(curves) <= set(trial)}


def _write_text(path: Path, text: str) -> None:
    """Put a text into a file, whole or not at all."""
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8"))


# --- the page -----------------------------------------------------------------------------------


def checklist_page(study: Study, results: SeriesOf, readings: Sequence[Reading]) -> str:
    """The paper's claims, each with its results, rule and numbers; then notes, learners and all means."""
    experiment = study.experiment
    claims = list(zip(*(reading.claims for reading in readings), strict=True))  # each under every reading
    lines = [
        f"# {experiment.title}",
        "",
        f"{experiment.paper}. {'Quick' if study.quick else 'Full'} plan, {study.runs_in_words} runs a point,"
        f" seed {study.seed}.",
        "",
        "## Claims",
        "",
        *(f"- **{reading.summary}.** {reading.says}" for reading in readings),
        "",
        *_head("claim", "where", *(reading.name for reading in readings)),
        *(f"| {found[0].says} | {found[0].where} | {' | '.join(each.word for each in found)} |" for found in claims),
        "",
        "The claims are the paper's, in our words; every result is computed from this run alone, by the rule that is"
        " printed with it. docs/papers.md says which choices were made with results in sight. Numbers are means over"
        " the runs, in the order of the points; a/b compares two curves.",
        "",
        "## How each was tested",
    ]
    for number, found in enumerate(claims, 1):
        lines += ["", f"{number}. {found[0].says}", "", f"   Rule: {found[0].rule}."]
        for claim, reading in zip(found, readings, strict=True):
            met = f"{sum(held for held, _ in claim.parts)} of {len(claim.parts)}"
            why = "" if claim.held or not claim.otherwise else f" {claim.otherwise}"
            lines += ["", f"   {reading.name}: **{claim.word}** ({met}).{why}", ""]
            lines += [f"   - {'yes' if held else 'NO'}: {text}" for held, text in claim.parts]
    lines += ["", "## Notes", "", *(f"- {note}" for note in experiment.notes)]
    lines += [f"- {curve.name}: `{curve.method!r}`" for curve in experiment.curves]
    lines += ["", "## Means ± standard deviations over the runs"]
    for panel in study.panels:
        lines += ["", f"Along {panel.axis.symbol}, with {panel.fixed}:", ""]
        lines += _head("measure", "curve", *(panel.axis.text(setting) for setting in panel.settings))
        for measure, curve in product(experiment.measures, experiment.curves):
            series = results(panel.axis, curve, measure)
            cells = [f"{mean:.3g} ± {std:.2g}" for mean, std in zip(series.mean, series.std, strict=True)]
            lines.append(f"| {measure.short} | {curve.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _head(*names: str) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |"]
