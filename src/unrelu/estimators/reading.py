"""What people pass as a table: frames in memory or lazy, with text in them or times, and which cell is at fault.

And what only a table can tell of its limits: those of columns, and those of single cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import CellLimits, FloatArray, Samples, Step, Watch
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.limits import Limits
from unrelu.passes.device import Place, brought_home, place_of
from unrelu.passes.engine import engine_for
from unrelu.passes.rows import Rows, as_rows
from unrelu.validation import column_label, counted, label_columns, row_label

if TYPE_CHECKING:
    from unrelu.tables.limited import LimitedSamples

_LARGEST_WEIGHT = 1e100

T = TypeVar("T")
Found = dict[str, dict[str, float]]


def readable(X: Any) -> Any:
    """What is no array for NumPy as rows: arrays on a device, Dask's tables, lazy frames, frames with text."""
    X = as_rows(X)
    if isinstance(X, Rows):
        return X
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

    X = collected(X)
    refuse_times(X)
    if not holds_text(X):
        return X
    try:
        return read_frame(X)
    except InvalidDataError as error:
        if "limits=" not in str(error) and "nondetect=" not in str(error):
            raise
        raise InvalidDataError(f"{error} limits= and nondetect= are those of unrelu.tables.read_frame.") from error


def read_all(samples: Samples, smallest: int, watch: Watch) -> NDArray[Any]:
    """All rows in memory."""
    blocks, done = [], 0
    for block in samples.blocks():
        blocks.append(block.values)
        done = block.first_row + len(block.values)
        watch(Step("Reading rows", done, samples.n_rows, f"{done:,} rows"))
    if done < max(smallest, 1):
        raise InvalidDataError(f"The table has {counted(done, 'row')}: at least {smallest} are needed.")
    return np.concatenate(blocks)


def text_cell(X: Any) -> str | None:
    """Which columns hold text, and which other cell is not a number, if one is not."""
    from unrelu.tables.frames import MARKED_MISSING, fault_told, frame_fault
    from unrelu.tables.table_file import Faults

    if hasattr(X, "columns"):
        return frame_fault(X)
    try:
        cells = np.asarray(X, dtype=object)
    except (TypeError, ValueError):
        return None
    if cells.ndim != 2:
        return None
    faults = Faults(emptied=MARKED_MISSING)
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if not isinstance(cell, str) or _reads_as_number(cell):
                faults.add_numbers(j, int(cell is not None))
            else:
                faults.add_bad(row_label(i), j, cell)
    return fault_told(faults, {}, None, lambda them: f"np.delete(X, {them}, axis=1).astype(float)", cells.shape[1])


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_apart(samples: Samples, who: str) -> None:
    """Raise InvalidParameterError for rows that are read by others, where all are needed in memory."""
    if samples.source.engine is not None and not samples.in_memory:
        raise InvalidParameterError(
            f"{who} needs all rows in memory: give it an array or a frame, as X.compute() is of Dask's, and files"
            " without scheduler= or checkpoint=."
        )


# --- weights --------------------------------------------------------------------------------------


def weighted(samples: Rows, sample_weight: Any, checked: Callable[..., FloatArray]) -> Samples:
    """Rows that are read in blocks with a weight each, ``checked`` against a table of as many rows; or refused."""
    if type(samples).weighted is Rows.weighted:
        return samples.weighted(sample_weight)  # which says why not
    if not (hasattr(sample_weight, "__dask_graph__") and type(samples).parts is not Rows.parts):
        sample_weight = checked(sample_weight, np.broadcast_to(0.0, (samples.n_rows or 0, 1)))
    else:
        from unrelu.tables.dask_rows import weight_range

        check_weights(*weight_range(sample_weight))
    return samples.weighted(sample_weight)


def weights_beside(sample_weight: Any, place: Place | None) -> Any:
    """Weights on the host; those of another device than the rows' are refused."""
    sample_weight = brought_home(sample_weight)
    where = place_of(sample_weight)
    if where is None:
        return sample_weight
    if place != where:
        rows = "this machine's memory" if place is None else str(place.device)
        raise InvalidParameterError(
            f"The rows are in {rows} and sample_weight on {where.device}: put both on one device, or give the weights"
            " as a NumPy array."
        )
    return where.host(sample_weight)


def check_weights(smallest: float, largest: float, least: float) -> None:
    """Raise InvalidDataError unless weights from smallest to largest, ``least`` the smallest above 0, can be used."""
    if not (smallest >= 0.0 and largest < np.inf):
        raise InvalidDataError("sample_weight holds a number that is negative, infinite or missing.")
    if largest == 0.0:
        raise InvalidDataError("sample_weight holds no positive number: at least one row must have a non-zero weight.")
    if largest > _LARGEST_WEIGHT or least < 1.0 / _LARGEST_WEIGHT:
        raise InvalidDataError("sample_weight leaves the range of squares: rescale it to a mean near 1.")


# --- limits ---------------------------------------------------------------------------------------


def found_limits(
    limits: Limits, stated: CellLimits, samples: Samples, stored_as: Any, watch: Watch, exact: bool = False
) -> Found:
    """Limits of columns by "floor" and "ceiling": the table's extreme values, cells such as "<0.25", floors as stored.

    Unless they are ``exact``, limits that are the table's own but for rounding are the table's.

    Columns whose cells have limits of their own have none.
    """
    found = _stated(limits, stated)
    if limits.floor_from_data.any() or limits.ceiling_from_data.any():
        from unrelu.passes.columns import ExtremesQuestion

        seen = engine_for(samples, watch, "Looking for floors").collect(samples, ExtremesQuestion())
        low = np.where(seen.smallest_count > 1.0, seen.smallest, -np.inf)
        high = np.where(seen.largest_count > 1.0, seen.largest, np.inf)
        found["floor"] |= {str(j): float(low[j]) for j in np.flatnonzero(limits.floor_from_data)}
        found["ceiling"] |= {str(j): float(high[j]) for j in np.flatnonzero(limits.ceiling_from_data)}
    for name, levels in (("floor", limits.floor), ("ceiling", limits.ceiling)):
        stored = _as_stored(levels, stored_as)
        found[name] |= {str(j): float(stored[j]) for j in np.flatnonzero(stored != levels)}
    if not exact:
        _take_data_limits(found, limits, samples)
    own = samples.limits_by_cell
    for column in own:
        if limits.floor_given[column] or limits.ceiling[column] < np.inf:
            raise InvalidParameterError(
                f"{column_label(column, samples.feature_names)} has cells with limits of their own, such as '<0.25',"
                " and a floor or ceiling besides: leave that out for this column, or read the table with"
                " limits='highest'."
            )
    found["floor"] |= {str(column): -np.inf for column in own}
    found["ceiling"] |= {str(column): np.inf for column in own}
    return {name: levels for name, levels in found.items() if levels}


def _take_data_limits(found: Found, limits: Limits, samples: Samples) -> None:
    """Put the table's own limits in place of those that were given with other digits, and say so."""
    levels = {"floor": limits.floor.copy(), "ceiling": limits.ceiling.copy()}
    for name, each in levels.items():
        each[[int(column) for column in found[name]]] = [*found[name].values()]
    given = [each[np.isfinite(each) & (each != 0.0)] for each in levels.values()]
    if not any(map(len, given)) or samples.place is not None:
        return
    from unrelu.passes.columns import first_values, floors_of_data

    values = first_values(samples.blocks(), samples.n_features)
    for name, sign in (("floor", 1.0), ("ceiling", -1.0)):
        data = floors_of_data(values if sign > 0.0 else -values, sign * levels[name])
        level = sign * data.floor
        found[name] |= {str(j): float(level[j]) for j in np.flatnonzero(level != levels[name])}
        from unrelu.tables.limited import warn_of_digits

        warn_of_digits(name, levels[name], level, data.typed, samples.feature_names)


def _stated(limits: Limits, stated: CellLimits) -> Found:
    """The limits that cells state, for columns that have no number of their own."""
    free = ~limits.floor_given
    return {
        "floor": {str(column): limit for column, limit in stated.floor if free[column]},
        "ceiling": {str(column): limit for column, limit in stated.ceiling if limits.ceiling[column] == np.inf},
    }


def _as_stored(levels: FloatArray, stored_as: Any) -> FloatArray:
    """What is read as float32 may have been rounded to fewer digits, and so are the limits that it has."""
    if callable(stored_as):  # rows of a device, whose types NumPy need not know
        return np.asarray(stored_as(levels))
    short = getattr(stored_as, "itemsize", 8) == 2
    return levels.astype(stored_as).astype(np.float64) if short else levels


def refuse_ceilings(stated: CellLimits, names: Sequence[str] | None, who: str) -> None:
    """Raise InvalidDataError where cells such as ">100" state an upper limit."""
    for column, limit in stated.ceiling:
        raise InvalidDataError(
            f"Cells such as '>{limit:g}' in {column_label(column, names)}: {who} has no upper limits. Read them as"
            " missing with limits='missing', or leave the column out."
        )


def limited(samples: Samples, floor: Any, ceiling: Any, stored_as: Any, tell: bool = False) -> LimitedSamples:
    """The rows with limits of single cells, as floor= and ceiling= give them.

    Those that are the rows' own but for rounding are the rows'; ``tell``: with a warning where digits were left out.
    """
    from unrelu.passes.columns import first_values
    from unrelu.tables.limited import LimitedSamples, cell_limits, cell_limits_of_data

    shape = (samples.n_rows, samples.n_features)
    low, high = (_as_stored(each, stored_as) for each in cell_limits(floor, ceiling, shape, samples.feature_names))
    rows = LimitedSamples(samples, low, high)
    if samples.place is not None:
        return rows
    values = first_values(samples.blocks(), samples.n_features)[: len(low)]
    own = cell_limits_of_data(values, low, high, samples.feature_names, tell)
    same = all(np.array_equal(mine, given) for mine, given in zip(own, (low, high), strict=True))
    return rows if same else LimitedSamples(samples, *own)


def check_use(table: T, by_cell: bool, floor_tolerance: float, error: type[Exception]) -> T:
    """The table; an error where single cells have limits that cannot be used, as only those ``by_cell`` can."""
    if not (isinstance(table, Rows) and table.limits_by_cell):
        return table
    if not by_cell:
        own = np.isin(np.arange(table.n_features), table.limits_by_cell)
        raise error(
            f"Cells of {label_columns(own, table.feature_names)} have limits of their own. Only"
            " RectifiedGaussianLearner and FloorImputer with method='auto' or 'full_likelihood' can use them. Otherwise"
            " cut every column at its highest limit: limits='highest' where the table is read, or one floor per column."
        )
    if floor_tolerance != 0.0:
        raise InvalidParameterError("floor_tolerance goes with one floor a column, not with limits of single cells.")
    return table
