"""Passes over files that can be interrupted: what was counted is saved now and then, and the same pass goes on there.

A checkpoint holds the record of the first rows of the table and their number, so that no block is counted twice. It is
written between two blocks, whole or not at all, and says of which files, columns and settings it is: a pass over others
refuses it. As blocks and the order of merging are the same, an interrupted pass ends with the very digits of another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, cast

from unrelu import storage
from unrelu._version import __version__
from unrelu.contracts import Progress, Question, R, Samples, Step, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError, OutputError
from unrelu.passes.engine import LocalEngine
from unrelu.passes.pair_moments import GroupedMoments, GroupedMomentsQuestion, PairMoments, PairMomentsQuestion
from unrelu.passes.rows import PartRows
from unrelu.validation import listed, warn

SECONDS = 10.0  # between two saves


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The ``record`` of the first ``n_rows`` rows (``whole``: of all) of the files and settings in ``facts``."""

    record: PairMoments | GroupedMoments | None
    n_rows: int
    whole: bool
    facts: Annotated[Mapping[str, Any], {"version": str, "files": list[list[Any]], "columns": Any, "settings": str}] = (
        field(default_factory=dict)
    )

    def check_loaded(self) -> None:
        """Raise InvalidDataError if a file held nothing to go on from."""
        if self.record is None or self.n_rows < 0 or not all(self.facts["files"]):
            raise InvalidDataError("it does not hold a record of the rows of named files")


class CheckpointedEngine(LocalEngine):
    """Saves the record at ``path`` while it passes over files, and goes on from what is there.

    Only the records of the one-pass learner are saved so; other questions are asked without. The file stays when the
    pass is over: the same pass is then over at once.
    """

    def __init__(self, path: storage.FilePath, progress: Progress = no_progress, stage: str = "Reading rows") -> None:
        super().__init__(progress, stage)
        self._path, self._warned = path, False

    def collect(self, samples: Samples, question: Question[R]) -> R:
        source = samples.source
        files = source.provenance() if isinstance(question, PairMomentsQuestion | GroupedMomentsQuestion) else None
        if files is None:
            return super().collect(samples, question)
        facts = _facts(files, question, samples.over(PartRows(source, samples.n_rows)))
        reached = self._reached(facts)
        first = saved = reached.n_rows
        if reached.whole:
            self._progress(Step(self._stage, first, first))
            return cast(R, reached.record)
        left = samples.over(PartRows(source, samples.n_rows, first, source.blocks_from(first)))
        saved_at = time.monotonic()
        try:
            for record, done in self.growing(left, question, cast(Any, reached.record), first):
                reached = replace(reached, record=record, n_rows=done)
                if time.monotonic() - saved_at >= SECONDS:
                    self._save(reached)
                    saved_at, saved = time.monotonic(), done
        except BaseException as stop:
            if reached.n_rows > saved:
                self._save(reached)
            if reached.n_rows:
                stop.add_note(f"Row {reached.n_rows:,} was reached: do the same again to go on from {self._path}.")
            raise
        self._save(replace(reached, whole=True))
        return cast(R, reached.record)

    def _reached(self, facts: Mapping[str, Any]) -> Checkpoint:
        """What an earlier pass has left at the path; of no rows where none has."""
        if not os.path.exists(self._path):
            return Checkpoint(None, 0, False, facts)
        before = storage.read(self._path, Checkpoint)
        other = _difference(before.facts, facts)
        if other is not None:
            raise InvalidParameterError(
                f"Cannot go on from the checkpoint {os.fspath(self._path)}: {other}. Remove it to start again, or name"
                " another file."
            )
        return before

    def _save(self, checkpoint: Checkpoint) -> None:
        try:
            storage.write(self._path, checkpoint)
        except OutputError as error:
            if not self._warned:
                warn(f"The checkpoint could not be saved, and the work goes on. {error}", "not-saved")
            self._warned = True


def _facts(provenance: dict[str, Any], question: Any, rows: Samples) -> dict[str, Any]:
    """What a record depends on: files as they are now, columns, and a digest of all else."""
    import joblib

    settings = joblib.hash((question, rows, provenance.pop("settings")))
    return {"version": __version__, **provenance, "settings": settings}


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """In which way a checkpoint is of something else, in words."""
    if before["version"] != now["version"]:
        return f"it was written by unrelu {before['version']}"
    names, others = ([name for name, *_ in facts["files"]] for facts in (before, now))
    if names != others:
        return f"it is of other files ({listed(names, most=3)})"
    for old, new in zip(before["files"], now["files"], strict=True):
        if list(old) != list(new):
            return f"{new[0]} has changed since"
    if list(before["columns"]) != list(now["columns"]):
        return f"it is of other columns ({listed(map(str, before['columns']), most=8)})"
    if before["settings"] != now["settings"]:
        return "floors, groups or other settings of the fit, or of how the files are read, were different"
    return None
