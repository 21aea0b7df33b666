"""The strangest rows of a table and their cells, judged by the model that the page shows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Watch
from unrelu.distribution import RectifiedGaussian
from unrelu.errors import SingularCovarianceWarning
from unrelu.estimators import FloorOutlierDetector
from unrelu.posterior.cells import Cells
from unrelu.report.cell_summary import StrangestCells
from unrelu.report.outlier_summary import Judged
from unrelu.samples import ArraySamples

MOST_COLUMNS = 600  # a row's score costs as the square of its columns
_ROWS, _CELLS = 15, 15  # that are shown
_MOST_WORK = 1e9  # rows whose cells are looked at, one by one, times the cube of the columns


def odd_facts(
    model: RectifiedGaussian,
    table: Any,
    blocks: Iterable[Cells],
    ids: Mapping[str, Sequence[str]],
    how: tuple[float, int],
    watch: Watch,
) -> dict[str, Any]:
    """Rows and cells; ``blocks`` are the rows of the table again, ``how`` is (floor tolerance, seed)."""
    tolerance, seed = how
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SingularCovarianceWarning)
        detector = FloorOutlierDetector.from_model(model, floor_tolerance=tolerance, random_state=seed)
        detector = detector.watched_by(watch)
        verdict = detector.judge(table, top=_ROWS)
        rows = Judged.by(detector, verdict, ids).facts()
        few = int(np.clip(_MOST_WORK // model.n_features**3, _ROWS, len(verdict.scores)))
        strangest = np.sort(np.argsort(verdict.scores, kind="stable")[:few])
        cells = _cells_of(blocks, strangest)
        chosen = ArraySamples(cells.given, feature_names=model.feature_names)
        judged = detector.strangeness(chosen), detector.cell_probabilities(chosen)
        found = StrangestCells.of(model, judged, [cells], _CELLS, {})
    found = replace(found, rows=strangest[found.rows], ids=ids)
    told = found.facts(_CELLS, None)
    return {
        "n_rows": rows["rows"],
        "flagged": rows["flagged"],
        "expected_if_clean": rows["expected_if_clean"],
        "false_alarm_rate": rows["false_alarm_rate"],
        "rows": rows["strangest"],
        "rows_whose_cells_were_looked_at": few,
        "cells_beyond_4": told["cells_beyond_4"],
        "cells": told["strangest_cells"],
    }


def _cells_of(blocks: Iterable[Cells], rows: NDArray[np.intp]) -> Cells:
    """Some rows, by their numbers, which rise."""
    found: Cells | None = None
    first = 0
    for block in blocks:
        n = len(block.given)
        inside = block.of_rows(rows[(rows >= first) & (rows < first + n)] - first)
        found = inside if found is None else found.joined(inside)
        first += n
    assert found is not None, "a table has at least one row"
    return found
