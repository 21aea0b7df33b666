"""What the rest of their rows says of cells at a limit: values to fill in, and how sure they are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.errors import UnreluWarning
from unrelu.posterior.cells import Cells
from unrelu.posterior.imputation import imputed
from unrelu.posterior.marginal_values import CutNormals
from unrelu.report.page.looking import Looked
from unrelu.report.page.packing import rounded

MOST_COLUMNS = 600
_MOST_WORK, _MOST_ROWS = 2e9, 2_000  # rows times the cube of the columns


def filling_facts(model: RectifiedGaussian, looked: Looked) -> dict[str, Any] | None:
    """Per column with cells at a limit, from some rows; None where no such cell is in them.

    ``typical_std``: the root of the mean posterior variance. ``told``: the share by which the rest of a row lowers the
    variance that a cell beyond its limit has anyway.
    """
    rows = int(np.clip(_MOST_WORK // model.n_features**3, 20, _MOST_ROWS))
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
