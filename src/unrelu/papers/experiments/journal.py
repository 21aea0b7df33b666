"""Finished trials on disk: a CSV that is always whole, and the settings it belongs to.

A run that was stopped goes on from the CSV. Results of other settings are put aside, never mixed in.
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from unrelu.errors import InputFileError
from unrelu.papers.experiments.experiment import Study
from unrelu.papers.experiments.results import Key, Outcomes, Results
from unrelu.papers.experiments.trial import Trial
from unrelu.storage import atomic_write

_TRIAL_COLUMNS = ("panel", "point", "rows", "columns", "condition_number", "genuine", "run", "curve")
_SECONDS_BETWEEN_WRITES = 2.0  # the whole file is written each time


class Journal:
    """The trials of a study that are finished, in memory and in ``csv_path``.

    The file follows every few seconds, and at the end of a ``with`` block, however that ends. ``found`` is how many
    trials were there at the start; ``set_aside`` says why earlier results were not used, or is None.
    """

    def __init__(self, study: Study, folder: Path) -> None:
        self._study = study
        self.csv_path = folder / f"{study.stem}.csv"
        self.settings_path = folder / f"{study.stem}-settings.json"
        self.set_aside = self._put_others_aside()
        self._finished: dict[Key, Outcomes] = self._read() if self.csv_path.exists() else {}
        self.found = self._on_disk = len(self._finished)
        self._written_at = time.monotonic()

    def __contains__(self, trial: Trial) -> bool:
        return trial.key in self._finished

    def __len__(self) -> int:
        return len(self._finished)

    def add(self, trial: Trial, outcomes: Outcomes) -> None:
        """Keep the outcomes of a trial."""
        self._finished[trial.key] = outcomes
        if time.monotonic() - self._written_at >= _SECONDS_BETWEEN_WRITES:
            self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        if len(self) > self._on_disk:
            self._write()

    def results(self) -> Results:
        """Of the whole plan: every trial must be finished."""
        return Results(self._study.plan, self._finished)

    # --- the settings -----------------------------------------------------------------------------

    def _put_others_aside(self) -> str | None:
        """Rename results that belong to other settings, and say so."""
        if not self.csv_path.exists():
            return None
        differences = self._differences()
        if not differences:
            return None
        aside = self.csv_path.with_name(f"{self._study.stem}-earlier.csv")
        os.replace(self.csv_path, aside)
        return (
            f"{self.csv_path} holds results of other settings ({differences}): starting over, they are now in {aside}."
        )

    def _differences(self) -> str:
        """How the settings beside the CSV differ from the study's; empty where they do not."""
        try:
            earlier = json.loads(self.settings_path.read_text("utf-8"))
        except (OSError, ValueError):
            return "unknown"
        now = json.loads(json.dumps(self._study.settings()))
        if not isinstance(earlier, dict):
            return "unknown"
        return ", ".join(_difference(key, earlier.get(key), now[key]) for key in now if earlier.get(key) != now[key])

    # --- the CSV ----------------------------------------------------------------------------------

    def _write(self) -> None:
        """The settings go first: without them, results are nobody's."""
        if not self._on_disk:
            settings = json.dumps(self._study.settings(), indent=2, ensure_ascii=False)
            write_text(self.settings_path, settings + "\n")
        write_text(self.csv_path, self._as_csv())
        self._on_disk, self._written_at = len(self), time.monotonic()

    def _as_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        measures = [measure.name for measure in self._study.experiment.measures]
        writer.writerow([*_TRIAL_COLUMNS, *measures])
        for trial in filter(self.__contains__, self._study.trials()):
            for curve, outcome in self._finished[trial.key].items():
                writer.writerow([*_described(trial), curve, *(repr(float(outcome[measure])) for measure in measures)])
        return text.getvalue()

    def _read(self) -> dict[Key, Outcomes]:
        """Trials of which every curve is there."""
        keys = {tuple(_described(trial)): trial.key for trial in self._study.trials()}
        found: dict[Key, dict[str, dict[str, float]]] = {}
        try:
            for described, curve, outcome in self._rows():
                found.setdefault(keys[described], {})[curve] = outcome
        except (ValueError, KeyError, UnicodeDecodeError) as error:
            raise InputFileError(
                f"{self.csv_path} is damaged ({error}): delete it to start over, or give another folder."
            ) from error
        curves = [curve.name for curve in self._study.experiment.curves]
        return {key: {c: trial[c] for c in curves} for key, trial in found.items() if set(curves) <= set(trial)}

    def _rows(self) -> Iterator[tuple[tuple[str, ...], str, dict[str, float]]]:
        measures = [measure.name for measure in self._study.experiment.measures]
        with open(self.csv_path, encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream, strict=True):
                *described, curve = (row[name] for name in _TRIAL_COLUMNS)
                yield tuple(described), curve, {name: _number(row[name]) for name in measures}


def write_text(path: Path, text: str) -> None:
    """Put a text into a file, whole or not at all."""
    with atomic_write(path) as stream:
        stream.write(text.encode("utf-8"))


def _described(trial: Trial) -> list[str]:
    setting, (_, point, run) = trial.setting, trial.key
    numbers = (point, setting.rows, setting.columns, setting.condition_number, setting.genuine, run)
    return [trial.axis.name, *(f"{number:g}" if isinstance(number, float) else str(number) for number in numbers)]


def _number(text: str | None) -> float:
    if text is None:
        raise ValueError("a line is too short")
    return float(text)


def _difference(key: str, earlier: Any, now: Any) -> str:
    brief = all(isinstance(value, bool | int | str) for value in (earlier, now))
    return f"{key} {earlier}, now {now}" if brief else f"other {key}"
