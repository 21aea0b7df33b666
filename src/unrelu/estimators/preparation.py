"""From any table to rows that can be learned from, then to the limits and margins of their columns.

:func:`prepare` turns arrays, frames, sparse matrices, Dask's tables, arrays of devices and rows of files into one kind
of rows, with the weights, limits of cells and groups that were given beside them. :func:`learn_columns` finds the
limits of the columns, and :func:`learn_margins` learns their margins in one pass over the rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from unrelu.contracts import CellLimits, Engine, FloatArray, Progress, RowLabels, Samples, Step
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.limits import LIMITS_OF_CELLS, is_by_cell, limits_of
from unrelu.margins import Log, Margin, Normal, margin_requests
from unrelu.passes.columns import ColumnValues, extremes, first_values, margins_of
from unrelu.passes.device import Place, brought_home, place_of
from unrelu.passes.engine import LocalEngine, engine_for
from unrelu.passes.rows import ArraySamples, all_values, as_floats, as_rows
from unrelu.passes.tiles import screening_of
from unrelu.tables.frames import table_fault
from unrelu.tables.groups import LabelledRows
from unrelu.tables.limited import LimitedSamples, cell_limits, limits_of_data
from unrelu.tables.prepared import Columns, PreparedRows, as_stored, names_of, prepared
from unrelu.validation import column_label, counted, label_columns, listed

_LARGEST_WEIGHT = 1e100
_FEWEST = 20  # cells of a first part from which on a column without zeros counts as positive
_LARGE = 2**24  # cells of a sparse matrix, zeros included, beyond which its columns are taken for normal


# --- tables ---------------------------------------------------------------------------------------


def prepare(
    X: Any,
    estimator: Any = None,
    columns: Columns | None = None,
    *,
    sample_weight: Any = None,
    floor: Any = None,
    ceiling: Any = None,
    tolerance: Any = 0.0,
    by_cell: bool = False,
    labels: RowLabels | None = None,
    long: bool = False,
    smallest: int = 1,
    sparse: bool = False,
    whole: Progress | None = None,
) -> Samples:
    """The rows of any table of numbers; its columns are those of the estimator, or are learned where there are none.

    Messages name the ``estimator``, which gets ``n_features_in_`` and ``feature_names_in_`` where ``columns`` is None.
    ``floor`` and ``ceiling`` count where they are limits of cells; ``by_cell``: the caller uses ``Block.censoring``, so
    that single cells may have limits. ``labels`` and ``long``: as of :class:`unrelu.tables.groups.LabelledRows`.
    ``sparse``: sparse matrices stay sparse. ``whole``: all rows are needed in memory; it is called with the progress of
    reading them.
    """
    rows = X if type(X) is np.ndarray else _in_blocks(X, sparse)
    if isinstance(rows, Samples):
        _match_columns(rows, estimator, columns)
        if whole is not None:
            rows = _all_of(rows, _name_of(estimator), smallest, whole)
    else:
        rows = _array_rows(rows, estimator, columns, smallest)
    _check_cell_limits(rows, by_cell, tolerance, InvalidDataError)
    if sample_weight is not None:
        rows = _with_weights(rows, sample_weight)
    if is_by_cell(floor, ceiling):
        rows = _with_cell_limits(rows, floor, ceiling, warns=estimator is not None and columns is None)
        _check_cell_limits(rows, by_cell, tolerance, InvalidParameterError)
    return LabelledRows(rows, labels, long=long) if labels is not None or long else rows


def _in_blocks(X: Any, sparse: bool) -> Any:
    """Rows that are read in blocks, for tables that NumPy cannot read: arrays on a device, Dask's tables, frames with
    text. Other tables as they are, lazy frames computed."""
    X = as_rows(X)
    if isinstance(X, Samples):
        return X
    if sparse and issparse(X):
        from unrelu.tables.numpy_files import SparseSamples

        return SparseSamples(X)
    if hasattr(X, "__dask_graph__"):
        from unrelu.tables.dask_rows import DaskSamples
        from unrelu.tables.frames import refuse_times

        refuse_times(X)
        return DaskSamples(X)
    if type(X).__name__ != "LazyFrame" and not hasattr(X, "columns"):
        X = brought_home(X)
        if place_of(X) is None:
            return X
        from unrelu.tables.device import DeviceSamples

        return DeviceSamples(X)
    from unrelu.tables.frames import collected, holds_text, read_frame, refuse_times
    from unrelu.tables.grid_table import plain_frame

    X = collected(X)
    X = plain_frame(X, holds_text(X))
    refuse_times(X)
    if not holds_text(X):
        return X
    try:
        return read_frame(X)
    except InvalidDataError as error:
        if "limits=" not in str(error) and "nondetect=" not in str(error):
            raise
        raise InvalidDataError(f"{error} limits= and nondetect= are those of unrelu.tables.read_frame.") from error


def _array_rows(X: Any, estimator: Any, columns: Columns | None, smallest: int) -> Samples:
    """The rows of a table that NumPy reads, not copied where it is an array; infinite values are checked later."""
    stored_as = getattr(X, "dtype", None)
    names = names_of(X) if estimator is None else None
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    if isinstance(X, np.ndarray) and X.dtype.name == "bfloat16":
        X = as_floats(X)
    options = {"dtype": "numeric", "ensure_all_finite": False, "ensure_min_samples": smallest}
    try:
        if estimator is None:
            values = check_array(X, **options)
        else:
            values = validate_data(estimator, X, reset=columns is None, **options)
            names = vars(estimator).get("feature_names_in_")
    except (ValueError, TypeError) as error:
        if (fault := table_fault(X)) is not None:
            raise InvalidDataError(fault) from error
        if estimator is not None:
            raise
        raise InvalidDataError(f"X must be a table of numbers, with rows and columns: {error}") from error
    if values.dtype == object:
        raise InvalidDataError(table_fault(X) or "The table holds something other than numbers.")
    # Questions work through a block in tiles, so that an array that needs no conversion can be one block.
    block_rows = max(len(values), 1) if values.dtype in (np.float32, np.float64) else None
    rows = ArraySamples(values, feature_names=names, block_rows=block_rows)
    rows.stored_as = stored_as
    if estimator is None:
        _match_columns(rows, None, columns)
    return rows


def _name_of(estimator: Any) -> str:
    return "The function" if estimator is None else type(estimator).__name__


def _match_columns(rows: Samples, estimator: Any, columns: Columns | None) -> None:
    """Raise InvalidDataError where rows have other columns than those learned; without these, the estimator gets the
    rows' columns."""
    names = rows.feature_names
    if columns is None:
        if estimator is not None:
            estimator.n_features_in_ = rows.n_features
            estimator.__dict__.pop("feature_names_in_", None)
            if names is not None:
                estimator.feature_names_in_ = np.array(names, dtype=object)
        return
    whose = "the model has" if estimator is None else f"{_name_of(estimator)} was fitted to"
    if rows.n_features != len(columns.floor):
        raise InvalidDataError(f"The table has {rows.n_features} columns, but {whose} {len(columns.floor)}.")
    if names is not None and columns.names is not None and tuple(names) != columns.names:
        raise InvalidDataError(
            f"The table's columns ({listed(names)}) are not those that {whose} ({listed(columns.names)}), in order."
        )


def _all_of(rows: Samples, name: str, smallest: int, progress: Progress) -> Samples:
    """Rows that are read in blocks, in memory; rows that another engine reads are refused."""
    if rows.source.engine is not None and not rows.in_memory:
        raise InvalidParameterError(
            f"{name} needs all rows in memory: give it an array or a frame, as X.compute() is of Dask's, and files"
            " without scheduler= or checkpoint=."
        )
    blocks, done = [], 0
    for block in rows.blocks():
        blocks.append(block.values)
        done = block.first_row + len(block.values)
        progress(Step("Reading rows", done, rows.n_rows, f"{done:,} rows"))
    if done < max(smallest, 1):
        raise InvalidDataError(f"The table has {counted(done, 'row')}: at least {smallest} are needed.")
    found = ArraySamples(np.concatenate(blocks), None, rows.feature_names, max(done, 1), rows.limits)
    found.limits_by_cell, found.stored_as = rows.limits_by_cell, rows.stored_as
    return found


def screened_floats(rows: Samples, columns: Columns) -> NDArray[Any]:
    """All rows in memory as latent values, after a check that no cell is infinite, or below its floor."""
    plain, upright = columns.plain, prepared(rows, replace(columns, margins=None))
    LocalEngine().collect(upright, partial(screening_of, lowest=plain.lowest)).check(plain, rows.feature_names)
    return all_values(prepared(rows, columns, screened=True))


# --- what is given beside a table -----------------------------------------------------------------


def _with_weights(rows: Samples, sample_weight: Any) -> Samples:
    """The rows with a weight each; weights of another device than the rows' are refused."""
    sample_weight = brought_home(sample_weight)
    where: Place | None = place_of(sample_weight)
    if where is not None:
        if rows.place != where:
            own = "this machine's memory" if rows.place is None else str(rows.place.device)
            raise InvalidParameterError(
                f"The rows are in {own} and sample_weight on {where.device}: put both on one device, or give the"
                " weights as a NumPy array."
            )
        sample_weight = where.host(sample_weight)
    if rows.n_rows is None:
        return rows.weighted(sample_weight)  # which raises the reason why not
    if hasattr(sample_weight, "__dask_graph__"):
        from unrelu.tables.dask_rows import DaskSamples, weight_range

        if isinstance(rows, DaskSamples):
            _check_weights(*weight_range(sample_weight))
            return rows.weighted(sample_weight)
    return rows.weighted(checked_weights(sample_weight, rows.n_rows))


def checked_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """One weight per row, in the range of squares and sums."""
    like = np.broadcast_to(0.0, (n_rows, 1))
    weights: FloatArray = _check_sample_weight(sample_weight, like, dtype=np.float64, ensure_non_negative=True)
    _check_weights(0.0, float(weights.max()), float(np.min(weights, where=weights > 0.0, initial=np.inf)))
    return weights


def _check_weights(smallest: float, largest: float, least: float) -> None:
    """Raise InvalidDataError unless weights from smallest to largest, ``least`` the smallest above 0, can be used."""
    if not (smallest >= 0.0 and largest < np.inf):
        raise InvalidDataError("sample_weight holds a number that is negative, infinite or missing.")
    if largest == 0.0:
        raise InvalidDataError("sample_weight holds no positive number: at least one row must have a non-zero weight.")
    if largest > _LARGEST_WEIGHT or least < 1.0 / _LARGEST_WEIGHT:
        raise InvalidDataError("sample_weight leaves the range of squares: rescale it to a mean near 1.")


def _with_cell_limits(samples: Samples, floor: Any, ceiling: Any, warns: bool) -> Samples:
    """The rows with limits of single cells, as floor= and ceiling= give them.

    A limit that differs from the rows' own by rounding alone becomes the rows' own; ``warns``: with a warning where
    digits were left out.
    """
    margins, names = (samples.n_rows, samples.n_features), samples.feature_names
    low, high = (as_stored(each, samples.stored_as) for each in cell_limits(floor, ceiling, margins, names))
    if samples.place is None:
        values = first_values(samples.blocks(), samples.n_features)[: len(low)]
        low, high = limits_of_data(values, low, high, names, tell=warns)
    return LimitedSamples(samples, low, high)


def _check_cell_limits(samples: Samples, by_cell: bool, tolerance: Any, error: type[Exception]) -> None:
    """Raise where single cells have limits that cannot be used, unless the caller uses them (``by_cell``)."""
    if not samples.limits_by_cell:
        return
    if not by_cell:
        own = np.isin(np.arange(samples.n_features), samples.limits_by_cell)
        raise error(f"Cells of {label_columns(own, samples.feature_names)} have limits of their own. {LIMITS_OF_CELLS}")
    if tolerance != 0.0:
        raise InvalidParameterError("floor_tolerance goes with one floor a column, not with limits of single cells.")


# --- columns --------------------------------------------------------------------------------------


def learn_columns(
    samples: Samples,
    floor: Any,
    ceiling: Any,
    tolerance: Any,
    progress: Progress,
    *,
    without_ceilings: str | None = None,
    cells: bool = False,
    exact: bool = False,
) -> Columns:
    """The columns of a table with their limits, as given or as the table has them, and without margins.

    ``without_ceilings``: the name of an estimator that has no upper limits; ``cells``: limits may be of cells. Unless
    they are ``exact``, limits that differ from the table's own by rounding alone become the table's.
    """
    names, stated = samples.feature_names, samples.limits or CellLimits()
    if cells and is_by_cell(floor, ceiling):
        floor, ceiling = None, None  # the rows have the limits
    limits, from_data, floor_given = limits_of(floor, ceiling, samples.n_features, names)
    floors, ceilings = limits
    if without_ceilings is not None and stated.ceiling:
        column, limit = stated.ceiling[0]
        raise InvalidDataError(
            f"Cells such as '>{limit:g}' in {column_label(column, names)}: {without_ceilings} has no upper limits. Read"
            " them as missing with limits='missing', or leave the column out."
        )
    # Columns whose cells have limits of their own have none.
    own = np.isin(np.arange(samples.n_features), samples.limits_by_cell)
    given = own & (floor_given | (ceilings < np.inf))
    # Limits that only the table has: cells such as "<0.25", extreme values, digits as stored.
    lowest = {column: limit for column, limit in stated.floor if not floor_given[column]}
    highest = {column: limit for column, limit in stated.ceiling if ceilings[column] == np.inf}
    if from_data.any():
        seen = engine_for(samples, progress, "Looking for floors").collect(samples, extremes)
        low, high = np.where(seen.counts > 1.0, seen.ends, [[-np.inf], [np.inf]])
        lowest |= {j: float(low[j]) for j in np.flatnonzero(from_data[0]).tolist()}
        highest |= {j: float(high[j]) for j in np.flatnonzero(from_data[1]).tolist()}
    for level, found in ((floors, lowest), (ceilings, highest)):
        stored = as_stored(level, samples.stored_as)
        found |= {j: float(stored[j]) for j in np.flatnonzero(stored != level).tolist()}
        level[list(found)] = list(found.values())
    if not exact and tolerance == 0.0 and samples.place is None and np.any(np.isfinite(limits) & (limits != 0.0)):
        values = first_values(samples.blocks(), samples.n_features)
        floors[:], ceilings[:] = limits_of_data(values, floors, ceilings, names)
    if given.any():
        raise InvalidParameterError(
            f"{column_label(int(given.argmax()), names)} has cells with limits of their own, such as '<0.25', and a"
            " floor or ceiling besides: leave that out for this column, or read the table with limits='highest'."
        )
    floors[own], ceilings[own] = -np.inf, np.inf
    floors[ceilings < np.inf] = -np.inf
    return Columns(floors, ceilings, names, checked_tolerance(tolerance), None, samples.limits)


def checked_tolerance(tolerance: Any) -> float:
    """floor_tolerance as a number, if it is a finite one of 0 or more."""
    if not (isinstance(tolerance, Real) and 0.0 <= float(tolerance) < np.inf):
        raise InvalidParameterError(f"floor_tolerance must be a number of 0 or more, got {tolerance!r}.")
    return float(tolerance)


# --- margins ----------------------------------------------------------------------------------------


def learn_margins(
    margins: Any,
    samples: Samples,
    columns: Columns,
    progress: Progress,
    *,
    by_parts: bool = False,
    tested: bool = True,
    outliers: str = "none",
    standard: bool = False,
) -> Columns:
    """The columns with margins, as given or learned; a floor of 0 that no value of a column reaches is taken away.

    ``by_parts``: the rows are the first of those to be learned from, and only show which columns are positive.
    ``tested``: columns may reject the distribution that "auto" tries first. ``outliers``: "none", "unknown" where some
    rows may be outliers, or "out" where outliers were left out. ``standard``: monotone columns have a spread of 1.
    """
    columns, names = replace(columns, margins=None), samples.feature_names
    requests = margin_requests(margins, samples.n_features, names)
    if all(request == "normal" for request in requests):
        return columns
    left_open = all(isinstance(request, str) and request in ("normal", "auto") for request in requests)
    source = samples.source
    large = source.matrix is not None and (source.n_rows or 0) * source.n_features > _LARGE
    if left_open and (large or samples.read_once):
        return columns
    if columns.tolerance:
        if left_open:
            return columns  # noise after the floor is of normal columns
        raise InvalidParameterError(
            "floor_tolerance goes with margins='normal' alone: set values within it of the floor to the floor."
        )
    # Not imported for normal columns.
    from unrelu.fit.margins import (
        EXTREME_WITH_OUTLIERS,
        chosen_kinds,
        fit_margins,
        refuse_tiny_values,
        unreached_floors,
    )

    engine = engine_for(samples, progress, "Looking at the columns' margins")
    rows = PreparedRows(samples, columns, "original", learning=True)
    margins = _values_of_part(samples, rows, columns, engine)
    refuse_tiny_values(margins, names)
    normal = np.array([request == "normal" for request in requests])
    without = unreached_floors(margins, columns) & ~normal
    if by_parts:  # later rows may be at a floor that few rows have not reached
        few = without & (margins.rows < _FEWEST)
        requests = ["normal" if r == "auto" and some else r for r, some in zip(requests, few, strict=True)]
        without &= ~few
    reached = replace(columns, floor=np.where(without, -np.inf, columns.floor))
    unknown = outliers == "unknown"
    if unknown:  # bent columns are learned again without outliers
        requests = ["auto" if isinstance(each, str) and each in ("boxcox", "monotone") else each for each in requests]
    tested = tested and not by_parts and not unknown
    kinds = chosen_kinds(requests, margins, reached, tested, bent=outliers != "none")
    without &= np.array([kind != "normal" for kind in kinds])  # a column constant so far may reach its floor yet
    columns = replace(columns, floor=np.where(without, -np.inf, columns.floor))
    if all(kind == "normal" for kind in kinds):
        return columns
    if by_parts:
        fixed: dict[str, Margin] = {"normal": Normal(), "log": Log()}
        return replace(columns, margins=tuple(fixed[kind] if isinstance(kind, str) else kind for kind in kinds))
    if not margins.whole and any(kind in ("monotone", "boxcox") for kind in kinds):
        margins = engine.collect(rows, margins_of)
    extreme = EXTREME_WITH_OUTLIERS if unknown else 0.0
    return replace(columns, margins=fit_margins(kinds, margins, reached, names, extreme, standard))


def _values_of_part(samples: Samples, rows: PreparedRows, columns: Columns, engine: Engine) -> ColumnValues:
    """Values of columns in a part of the rows. A block with bad cells ends the pass; the error names those of all."""
    try:
        return engine.collect(rows, partial(margins_of, in_part=True))
    except InvalidDataError as error:
        fault = error
    cells = engine.collect(prepared(samples, columns), partial(screening_of, lowest=columns.plain.lowest))
    cells.check(columns.plain, samples.feature_names)
    raise fault
