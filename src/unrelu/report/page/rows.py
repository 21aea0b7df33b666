"""What only rows can tell: whether the model fits them, which are odd, what is hidden in cells at a limit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unrelu.checks.fit_check import Simulations
from unrelu.checks.result import FitCheck
from unrelu.contracts import FloatArray, LearningReport, Watch
from unrelu.errors import SingularCovarianceWarning, UnreluError, UnreluWarning
from unrelu.estimators import FloorOutlierDetector
from unrelu.model import RectifiedGaussian
from unrelu.posterior.cells import Cells
from unrelu.posterior.marginals import CutNormals, imputed
from unrelu.report.cells import StrangestCells
from unrelu.report.check import check_facts
from unrelu.report.outliers import Judged
from unrelu.report.page.columns import Looked
from unrelu.report.page.writing import rounded
from unrelu.report.pictures import Numbers
from unrelu.tables import ArraySamples
from unrelu.validation import listed

_WORST = 6  # columns and pairs of a check
_MOST_CHECKED = 500  # columns: a check learns every simulated table anew
_SIMULATIONS = ((40, 99), (150, 39), (_MOST_CHECKED, 19))  # tables that are simulated for so many columns
MOST_COLUMNS = 600  # a row's score costs as the square of its columns, filling in a cell as their cube
_ROWS, _CELLS = 15, 15  # odd ones that are shown
_MOST_WORK = 1e9  # rows whose cells are looked at, one by one, times the cube of the columns
_MOST_FILLING, _MOST_FILLED = 2e9, 2_000  # the same of rows whose cells are filled in; rows


# --- can the model be trusted ---------------------------------------------------------------------


def simulations(n_features: int, wanted: int | None) -> int:
    """How many tables to simulate: fewer for wide ones, none for those that would take minutes.

    >>> simulations(20, None), simulations(400, None), simulations(2000, None), simulations(2000, 39)
    (99, 19, 0, 39)
    """
    if wanted is not None:
        if wanted != 0:
            Simulations(wanted)  # which refuses what is too few
        return wanted
    return next((number for most, number in _SIMULATIONS if n_features <= most), 0)


def check_told(check: Callable[[], FitCheck], words: Callable[[str], str]) -> dict[str, Any]:
    """The check's verdict and its worst columns and pairs, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the check says it in its own way
            found = check()
    except UnreluError as reason:
        return {"verdict": words(f"Whether the model fits was not checked: {reason}"), "fits": None}
    facts = check_facts(found)
    columns = {found.names[j]: facts["columns"][j] for j in found.worst_columns(_WORST)}
    return {
        "verdict": words(found.verdict),
        "fits": found.fits,
        "p_value": found.p_value,
        "n_simulations": found.n_simulations,
        "n_looked_at": found.n_looked_at,
        "column_adjusted_p_values": found.column_adjusted,
        "worst_columns": list(columns.values()),
        "worst_pairs": facts["worst_pairs"][:_WORST],
    }


def doubt_facts(
    report: LearningReport | None, names: Sequence[str], words: Callable[[str], str]
) -> list[dict[str, str]]:
    """The doubts of a fit: kind, columns, and what to do."""
    found = []
    for doubt in () if report is None else report.doubts:
        text = words(f"{doubt.words[0].upper()}{doubt.words[1:]} {doubt.remedy}")
        found.append({"kind": doubt.kind, "columns": listed([names[j][:60] for j in doubt.columns], 8), "text": text})
    return found


# --- odd rows and cells ---------------------------------------------------------------------------


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
    told = found.facts(_CELLS)
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


def _cells_of(blocks: Iterable[Cells], rows: Numbers) -> Cells:
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


# --- what is under the floor ----------------------------------------------------------------------


def filling_facts(model: RectifiedGaussian, looked: Looked) -> dict[str, Any] | None:
    """Per column with cells at a limit, from some rows; None where no such cell is in them.

    ``typical_std``: the root of the mean posterior variance. ``told``: the share by which the rest of a row lowers the
    variance that a cell beyond its limit has anyway.
    """
    rows = int(np.clip(_MOST_FILLING // model.n_features**3, 20, _MOST_FILLED))
    cells = looked.first(rows)
    at_limit = cells.beyond != 0
    if not at_limit.any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        mean, std = imputed(model, cells)
    columns = [_column(model, j, (cells, mean, std)) for j in np.flatnonzero(at_limit.any(axis=0)).tolist()]
    return {"rows": len(cells.given), "of": looked.n_rows, "cells": int(at_limit.sum()), "columns": columns}


def _column(model: RectifiedGaussian, j: int, found: tuple[Cells, FloatArray, FloatArray]) -> dict[str, Any]:
    cells, mean, std = found
    at = cells.beyond[:, j] != 0
    values, spread = mean[at, j], std[at, j]
    alone = _spread_alone(model, j, cells.of_rows(at))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        variance, whole = np.mean(spread**2), np.mean(alone**2)
        told = float(np.clip(1.0 - variance / whole, 0.0, 1.0)) if whole > 0.0 else np.nan
    places = [np.mean(cells.given[at, j]), *np.quantile(values, [0.05, 0.5, 0.95])]
    numbers = dict(zip(("limit", "low", "median", "high"), rounded(places, 5), strict=True))
    return {
        "column": j,
        "cells": int(at.sum()),
        **numbers,
        "mean": rounded([values.mean()], 5)[0],
        "typical_std": rounded([np.sqrt(variance)], 3)[0],
        "told": rounded([told], 3)[0],
    }


def _spread_alone(model: RectifiedGaussian, j: int, cells: Cells) -> FloatArray:
    """Standard deviations of the same cells if nothing but their limits were known."""
    n = len(cells.given)
    law = CutNormals(np.full(n, model.bias[j]), np.full(n, model.row_norms[j]), cells.latent[:, j], cells.beyond[:, j])
    with np.errstate(over="ignore", invalid="ignore"):
        return law.moments(lambda y: y if model.shapes is None else model.shapes[j].from_latent(y))[1]
