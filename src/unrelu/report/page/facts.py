"""All numbers of a page: of columns, of pairs, and of rows."""

from __future__ import annotations

import base64
import functools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from unrelu.checks.fit_check import FitCheck, Simulations
from unrelu.contracts import FloatArray, Progress
from unrelu.errors import UnreluError, UnreluWarning, about
from unrelu.estimators import FloorOutlierDetector
from unrelu.fit.nearest import largest_eigenpairs
from unrelu.model import RectifiedGaussian
from unrelu.posterior.cells import Cells, SampledCells
from unrelu.posterior.marginals import CutNormals, imputed
from unrelu.report.check import column_order
from unrelu.report.model import strongest_pairs
from unrelu.report.outliers import OutlyingCells
from unrelu.report.pictures import Numbers, evenly
from unrelu.report.tables import facts, labels, margin_words
from unrelu.tables import ArraySamples

_MOST_ROWS, _MOST_CELLS, _FEWEST_ROWS = 20_000, 10_000_000, 2_000  # of the sample
_WIDTH, _HEIGHT = 160.0, 44.0  # of a picture
_BARS, _FAR = 28, 3.3  # bars of a histogram; how far a curve goes, in standard deviations
_MANY, _POINTS, _FEW_POINTS = 300, 56, 28  # from so many columns on curves have fewer points: pages must stay small
_SCALE_POINTS, _SCALE_END = 65, 4.0  # of a column's curve f, for axes in the user's units
_MOST_LINES, _GROUPS = 500, 200  # of the heat map: with more columns it has 200, and a cell stands for several pairs
_ORDERED = 300  # columns up to which the order of the leaves is optimal
_SCATTER_CELLS, _FEWEST_POINTS, _MOST_POINTS = 60_000, 40, 600
_STRONGEST = 12
_SHARES, _COMPONENTS, _LOADINGS = 15, 4, 8  # of components: shares, components with loadings, columns of each
_STEPS, _UNKNOWN = 10_000, 32_767  # a correlation is kept to four digits
_WORST = 6  # columns and pairs of a check
_SIMULATIONS = ((40, 99), (150, 39), (500, 19))  # tables that are simulated for so many columns; none for more
MOST_COLUMNS = 600  # a row's score costs as the square of its columns, filling in a cell as their cube
_ROWS, _CELLS = 15, 15  # outlying ones that are shown
_MOST_WORK = 1e9  # rows whose cells are scored, times the cube of the columns
_MOST_FILLING, _MOST_FILLED = 2e9, 2_000  # the same of rows whose cells are filled in; rows


def rounded(values: FloatArray | Iterable[float], digits: int = 4) -> list[float | None]:
    """Numbers to a few significant digits, None where there is none: they take less room."""
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in np.asarray(values).tolist()]


# --- columns --------------------------------------------------------------------------------------


Sample = tuple[SampledCells, Numbers]
"""A sample of the rows; and cells at the floor, at the ceiling and missing (3 x columns), counted over all rows."""


def sampled(blocks: Iterable[Cells], n_features: int, seed: int) -> Sample:
    """A sample of the rows and the counts, in one pass."""
    counts = np.zeros((3, n_features), dtype=np.int64)

    def counted(block: Cells) -> Cells:
        kinds = (block.censoring < 0, block.censoring > 0, np.isnan(block.given))
        for count, which in zip(counts, kinds, strict=True):
            count += np.count_nonzero(which, axis=0)
        return block

    most = int(np.clip(_MOST_CELLS // n_features, _FEWEST_ROWS, _MOST_ROWS))
    return SampledCells.of(map(counted, blocks), most, seed), counts


def table_facts(sample: Sample) -> dict[str, Any]:
    """Counts over the whole table."""
    (rows, counts), kinds = sample, ("floored", "at_ceiling", "missing")
    shares = counts.sum(axis=1) / (rows.n_rows * counts.shape[1])
    return {
        "n_rows": rows.n_rows,
        "n_columns": counts.shape[1],
        **{f"share_{kind}": float(share) for kind, share in zip(kinds, shares, strict=True)},
        "n_sampled": len(rows.cells.given),
    }


def _first(sample: Sample, rows: int) -> Cells:
    """Some rows of the sample, evenly spread, as they are in the order of the table."""
    cells = sample[0].cells
    return cells if len(cells.given) <= rows else cells.of_rows(evenly(len(cells.given), rows))


def column_numbers(
    model: RectifiedGaussian, sample: Sample | None, mean_stderr: FloatArray | None
) -> dict[str, FloatArray]:
    """Numbers per column. Naive: of the table as it stands, with cells at a limit taken for that limit.

    Mean, median and std are those of the column before censoring, in the user's units; shift is the difference of the
    learned and the naive mean, in learned standard deviations.
    """
    d = model.n_features
    uncut = model.column_summary(below="latent")
    mean, median, std = (np.array([column[key] for column in uncut]) for key in ("mean", "median", "std"))
    unknown = np.full(d, np.nan)
    normal = np.array([model.margins is None or model.margins[j].kind == "normal" for j in range(d)])
    naive, missing = np.full((2, d), np.nan), unknown
    with np.errstate(invalid="ignore", divide="ignore"):
        if sample is None:
            floored = ndtr((model.latent.floor - model.mean) / np.maximum(model.std, 1e-300))
        else:
            rows, (at_floor, at_ceiling, n_missing) = sample
            floored = (at_floor + at_ceiling) / (rows.n_rows - n_missing)
            missing = n_missing / rows.n_rows
            for j, column in enumerate(rows.cells.given.T):
                if len(values := column[~np.isnan(column)]):
                    naive[:, j] = values.mean(), np.median(values)
        shift = np.where(std > 0.0, (mean - naive[0]) / std, np.nan)
    floor, ceiling = (np.where(np.isfinite(limit), limit, np.nan) for limit in (model.floor, model.ceiling))
    return {
        "floor": floor,
        "ceiling": ceiling,
        "share_floored": floored,
        "share_missing": missing,
        "mean": mean,
        "mean_stderr": unknown if mean_stderr is None else np.where(normal, mean_stderr, np.nan),
        "naive_mean": naive[0],
        "median": median,
        "naive_median": naive[1],
        "std": std,
        "shift": shift,
    }


def column_lists(model: RectifiedGaussian, sample: Sample | None, mean_stderr: FloatArray | None) -> dict[str, Any]:
    """Lists with one item per column, for JSON and csv."""
    margins = (
        ["normal"] * model.n_features if model.margins is None else [margin_words(margin) for margin in model.margins]
    )
    numbers = column_numbers(model, sample, mean_stderr)
    return {"name": list(labels(model)), "margins": margins, **{name: rounded(v, 6) for name, v in numbers.items()}}


def scale_points(model: RectifiedGaussian, j: int) -> list[float | None] | None:
    """Values of f(mean + sd z) at even steps of z from -4 to 4; None for a normal column, where they are a line."""
    if model.margins is None or model.margins[j].kind == "normal":
        return None
    z = np.linspace(-_SCALE_END, _SCALE_END, _SCALE_POINTS)
    with np.errstate(over="ignore"):
        return rounded(model.margins[j].from_latent(model.mean[j] + model.std[j] * z), 5)


def picture(model: RectifiedGaussian, j: int, sample: Sample | None) -> dict[str, Any] | None:
    """Paths of an SVG of 160 x 44: bars of the seen values, the curve, its part below a limit, and the limit.

    The scale is one on which the column is normal before censoring; None for a column that is constant in the model.
    """
    latent, std = model.latent, float(model.std[j])
    if std == 0.0:
        return None
    z = np.linspace(-_FAR, _FAR, _POINTS if model.n_features <= _MANY else _FEW_POINTS)
    cut = [float((limit[j] - latent.mean[j]) / std) for limit in (latent.floor, latent.ceiling)]
    z = np.unique([*z, *(place for place in cut if -_FAR < place < _FAR)])
    seen, n_values = np.empty(0), 1
    if sample is not None:
        cells = sample[0].cells
        seen = (cells.latent[~cells.hidden[:, j], j] - latent.mean[j]) / std
        n_values = max(int(np.count_nonzero(~np.isnan(cells.given[:, j]))), 1)
    # Where the curve and nearly all seen values lie, in standard deviations.
    lowest, highest = np.quantile(seen, [0.001, 0.999]) if len(seen) else (0.0, 0.0)
    low, high = min(-_FAR, float(lowest)), max(_FAR, float(highest))
    edges = np.linspace(low, high, _BARS + 1)
    if inside := [place for place in cut if low < place < high]:  # a limit is an edge: no bar lies on both sides of it
        width = edges[1] - edges[0]
        edges = inside[0] + width * (np.arange(_BARS + 2) - np.ceil((inside[0] - low) / width))
    bars = np.histogram(np.clip(seen, low, high), edges)[0] / (n_values * (edges[1] - edges[0]))
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    top = max(float(density.max()), float(bars.max()))

    def x_of(values: Any) -> Any:
        return np.clip(_WIDTH * (np.asarray(values) - low) / (high - low), 0.0, _WIDTH).round(1).tolist()

    def y_of(values: Any) -> Any:
        return (_HEIGHT - 1.0 - (_HEIGHT - 4.0) * np.asarray(values) / top).round(1).tolist()

    def line(which: Any) -> str:
        points = zip(x_of(z[which]), y_of(density[which]), strict=True)
        return "L".join(f"{x:g} {y:g}" for x, y in points)

    base, hidden = f"{_HEIGHT - 1:g}", ""
    for which in (z <= cut[0], z >= cut[1]):
        if which.any():
            ends = x_of(z[which][[0, -1]])
            hidden += f"M{ends[0]:g} {base}L{line(which)}L{ends[1]:g} {base}Z"
    steps = "".join(f"V{y:g}H{x:g}" for x, y in zip(x_of(edges[1:]), y_of(bars), strict=True))
    outline = f"M{x_of(edges[:1])[0]:g} {base}{steps}V{base}Z" if bars.any() else ""
    limit = next((x_of([place])[0] for place in cut if low <= place <= high), None)
    return {"bars": outline, "curve": f"M{line(slice(None))}", "hidden": hidden, "limit": limit}


# --- pairs ----------------------------------------------------------------------------------------


def pair_facts(model: RectifiedGaussian, naive: FloatArray | None, stderr: FloatArray | None) -> dict[str, Any]:
    """For the heat map: upper triangles of lines x lines, row by row, without the diagonal where a line is one column.

    ``naive`` and ``stderr`` may be None. With more columns than lines, a cell stands for several pairs and shows the
    one of the largest latent correlation; "first" and "second" are its columns.
    """
    order = column_order(model.correlation, _ORDERED)
    first, second, lines = shown_pairs(model.correlation, order)
    numbers = {"latent": model.correlation, "naive": naive, "stderr": stderr}
    packed = {}
    for name, values in numbers.items():
        if values is not None:  # base64 of 16-bit integers, little end first
            steps = np.round(np.clip(values[first, second], -2.0, 2.0) * _STEPS)
            steps = np.where(np.isnan(steps), _UNKNOWN, steps).astype("<i2")
            packed[name] = base64.b64encode(steps.tobytes()).decode()
    grouped = {} if lines == model.n_features else {"first": first.tolist(), "second": second.tolist()}
    strongest = []
    for i, j in strongest_pairs(model.correlation, _STRONGEST):
        of_pair = {name: None if each is None else rounded([each[i, j]])[0] for name, each in numbers.items()}
        strongest.append({"first": i, "second": j, **of_pair})
    return {"lines": lines, "order": order.tolist(), **packed, **grouped, "strongest": strongest}


def shown_pairs(latent: FloatArray, order: Numbers) -> tuple[Numbers, Numbers, int]:
    """(first columns, second columns, lines): one pair for every cell above the heat map's diagonal, or on it."""
    d = len(order)
    if d <= _MOST_LINES:
        at = np.triu_indices(d, 1)
        return order[at[0]], order[at[1]], d
    groups, strongest = np.array_split(order, _GROUPS), []
    for i, rows in enumerate(groups):
        for columns in groups[i:]:  # the pair of the largest size between two groups of columns
            size = np.abs(latent[np.ix_(rows, columns)])
            if rows is columns:
                size = np.where(np.eye(len(rows), dtype=bool), -1.0, size)
            row, column = divmod(int(np.argmax(size)), len(columns))
            strongest.append((rows[row], columns[column]))
    first, second = np.array(strongest, dtype=np.intp).T
    return first, second, len(groups)


def pairwise_correlation(x: FloatArray) -> FloatArray:
    """Pearson's, every pair from the rows that have both; NaN where there is no such row, or a column is constant."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        seen = ~np.isnan(x)
        size = np.nanmax(np.where(seen, np.abs(x), 0.0), axis=0, initial=0.0)
        x = x / np.where(size > 0.0, size, 1.0)  # squares of huge numbers would overflow
        centre = np.where(seen.any(axis=0), np.where(seen, x, 0.0).sum(axis=0) / seen.sum(axis=0), 0.0)
        z = np.where(seen, x - centre, 0.0)
        if seen.all():
            cross, square = z.T @ z, np.sum(z * z, axis=0)
            cross = cross / np.sqrt(np.outer(square, square))
        else:
            k = seen.astype(np.float64)
            n, total, square = k.T @ k, z.T @ k, (z * z).T @ k
            spread = square - total**2 / n
            cross = (z.T @ z - total * total.T / n) / np.sqrt(spread * spread.T)
    varies = np.array([len(np.unique(column[there])) > 1 for column, there in zip(x.T, seen.T, strict=True)])
    found = np.where(np.outer(varies, varies), np.clip(cross, -1.0, 1.0), np.nan)
    np.fill_diagonal(found, 1.0)
    return found


def scatter_facts(model: RectifiedGaussian, sample: Sample) -> dict[str, Any]:
    """Rows for scatter plots, few enough for a page: values to four digits, and a letter for every cell.

    ``marks``: s seen, f at a floor, c at a ceiling, m missing.
    """
    most = int(np.clip(_SCATTER_CELLS // model.n_features, _FEWEST_POINTS, _MOST_POINTS))
    cells = _first(sample, most)
    by_mark = np.where(cells.censoring < 0, "f", np.where(cells.censoring > 0, "c", "s"))
    letters = np.where(np.isnan(cells.given), "m", by_mark)
    return {
        "rows": len(cells.given),
        "of": sample[0].n_rows,
        "values": [rounded(column) for column in cells.given.T],
        "marks": ["".join(column) for column in letters.T],
        "mean": rounded(model.mean, 5),
        "std": rounded(model.std, 5),
        "curve": [scale_points(model, j) for j in range(model.n_features)],
    }


def component_facts(latent: FloatArray, naive: FloatArray | None) -> dict[str, Any]:
    """Shares of the variance (columns standardized), naive ones beside them, and the first components' loadings.

    A loading is the correlation of a column with the component. Only components with a larger share than a single
    column have loadings.
    """
    d = len(latent)

    def leading(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, vectors = largest_eigenpairs(matrix, min(_SHARES, d))
        falling = np.argsort(-values, kind="stable")
        return np.maximum(values[falling], 0.0), vectors[:, falling]

    values, vectors = leading(latent)
    components = []
    for k in range(max(1, min(_COMPONENTS, int(np.count_nonzero(values > 1.0))))):
        loadings = vectors[:, k] * np.sqrt(values[k])
        loadings = loadings * (1.0 if loadings[np.argmax(np.abs(loadings))] >= 0.0 else -1.0)  # the largest is positive
        few = np.argsort(-np.abs(loadings), kind="stable")[:_LOADINGS].tolist()
        largest = [{"column": j, "loading": round(float(loadings[j]), 3)} for j in few]
        components.append({"share": float(values[k] / d), "loadings": largest})
    own = None if naive is None or np.isnan(naive).any() else leading(naive)[0]
    return {
        "shares": rounded(values / d),
        "naive_shares": None if own is None else rounded(own / d),
        "components": components,
    }


# --- does the model fit ---------------------------------------------------------------------------


def simulations(n_features: int, wanted: int | None) -> int:
    """How many tables to simulate: fewer for wide ones, none for those that would take minutes."""
    if wanted is not None:
        if wanted != 0:
            Simulations(wanted)  # which refuses too few
        return wanted
    return next((number for most, number in _SIMULATIONS if n_features <= most), 0)


def check_facts(check: Callable[[], FitCheck], words: Callable[[str], str]) -> dict[str, Any]:
    """The check's sentence and its worst columns and pairs, or why there is no check."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the check has its own words for them
            found = check()
    except UnreluError as reason:
        return {"verdict": words(f"Whether the model fits was not checked: {reason}"), "fits": None}
    entries = facts(found)
    return {
        "verdict": words(found.verdict),
        "fits": found.fits,
        "p_value": found.p_value,
        "n_simulations": found.n_simulations,
        "n_looked_at": found.n_looked_at,
        "column_adjusted_p_values": found.column_adjusted,
        "worst_columns": [entries["columns"][j] for j in found.worst_columns(_WORST)],
        "worst_pairs": entries["worst_pairs"][:_WORST],
    }


# --- outlying rows and cells ----------------------------------------------------------------------


def outlier_facts(
    model: RectifiedGaussian,
    table: Any,
    blocks: Iterable[Cells],
    ids: Mapping[str, Sequence[str]],
    how: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    """Rows and cells; ``blocks`` are the rows of the table again, ``how`` a detector's parameters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", about("singular"))
        detector = FloorOutlierDetector.from_model(model, **how).with_progress(progress)
        scored = detector.score_table(table, top=_ROWS)
        rows = facts(scored, detector, ids)
        few = int(np.clip(_MOST_WORK // model.n_features**3, _ROWS, len(scored.scores)))
        most_outlying = np.sort(np.argsort(scored.scores, kind="stable")[:few])
        parts, first = [], 0
        for block in blocks:
            inside = (most_outlying >= first) & (most_outlying < first + len(block.given))
            parts.append(block.of_rows(most_outlying[inside] - first))
            first += len(block.given)
        cells = functools.reduce(Cells.joined, parts)
        chosen = ArraySamples(cells.given, feature_names=model.feature_names)
        scores = detector.cell_outlier_score(chosen, signed=True), detector.cell_probabilities(chosen)
        entries = OutlyingCells(model, scores, [cells], _CELLS, ids, most_outlying).facts(_CELLS)
    return {
        "n_rows": rows["rows"],
        "flagged": rows["flagged"],
        "expected_if_clean": rows["expected_if_clean"],
        "false_alarm_rate": rows["false_alarm_rate"],
        "rows": rows["most_outlying"],
        "rows_whose_cells_were_scored": few,
        "cells_beyond_4": entries["cells_beyond_4"],
        "cells": entries["most_outlying_cells"],
    }


# --- values below the floor -----------------------------------------------------------------------


def filling_facts(model: RectifiedGaussian, sample: Sample) -> dict[str, Any] | None:
    """Per column with cells at a limit, from some rows; None where no such cell is in them.

    ``typical_std``: the root of the mean posterior variance. ``explained``: the share of the variance of a cell, given
    its limit alone, that the rest of its row removes.
    """
    rows = int(np.clip(_MOST_FILLING // model.n_features**3, 20, _MOST_FILLED))
    cells = _first(sample, rows)
    at_limit = cells.censoring != 0
    if not at_limit.any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        mean, std = imputed(model, cells)
    columns = []
    for j in np.flatnonzero(at_limit.any(axis=0)).tolist():
        at = at_limit[:, j]
        n, values = int(at.sum()), mean[at, j]
        latent = cells.of_rows(at).latent[:, j]
        distribution = CutNormals(np.full(n, model.mean[j]), np.full(n, model.std[j]), latent, cells.censoring[at, j])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            # The spread of the same cells given nothing but their limits.
            alone = distribution.moments(functools.partial(_in_user_units, model, j))[1]
            variance, whole = np.mean(std[at, j] ** 2), np.mean(alone**2)
            explained = float(np.clip(1.0 - variance / whole, 0.0, 1.0)) if whole > 0.0 else np.nan
        places = [np.mean(cells.given[at, j]), *np.quantile(values, [0.05, 0.5, 0.95]), values.mean()]
        numbers = dict(zip(("limit", "low", "median", "high", "mean"), rounded(places, 5), strict=True))
        spread = dict(zip(("typical_std", "explained"), rounded([np.sqrt(variance), explained], 3), strict=True))
        columns.append({"column": j, "cells": n, **numbers, **spread})
    return {"rows": len(cells.given), "of": sample[0].n_rows, "cells": int(at_limit.sum()), "columns": columns}


def _in_user_units(model: RectifiedGaussian, j: int, y: FloatArray) -> FloatArray:
    return y if model.margins is None else model.margins[j].from_latent(y)
