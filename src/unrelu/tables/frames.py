"""Tables of other libraries as rows: lazy frames, frames with columns of text, tables of several laboratories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unrelu.contracts import CellLimits, Censoring, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.rows import ArraySamples, Floats
from unrelu.tables.cells import (
    Reading,
    Seen,
    UnreadableCell,
    at_limits,
    plain_float,
    read_distinct,
    stated_limits,
    warn_of_nondetects,
)
from unrelu.tables.limited import LimitedSamples, cell_limits
from unrelu.tables.table_file import Faults
from unrelu.validation import counted, row_label

MARKED_MISSING = "set {} to NaN"
"""The remedy for a cell without a value in a table in memory."""


def read_frame(
    frame: Any, *, decimal: str = ".", limits: str | None = None, nondetect: Any = None
) -> ArraySamples | LimitedSamples:
    """The rows of a pandas or polars frame with columns of text: numbers, limits such as "<0.25", "ND".

    Estimators do this with every frame; here it has options, those of :func:`unrelu.tables.open_samples`. Raises
    InvalidDataError for a cell that cannot be read.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"As": ["0.5", "<0.1", "<0.25"], "Pb": [1, 2, 3]})
    >>> samples = read_frame(frame, limits="highest")
    >>> samples.limits, next(samples.blocks()).values.tolist()
    (CellLimits(floor=((0, 0.25),), ceiling=()), [[0.5, 1.0], [0.25, 2.0], [0.25, 3.0]])
    """
    frame = collected(frame)
    if not hasattr(frame, "columns"):
        raise InvalidParameterError(f"Expected a pandas or polars frame, got {type(frame).__name__}.")
    from unrelu.tables.grid_table import plain_frame  # arrays do without

    plain = plain_frame(frame, holds_text(frame), decimal)
    frame, decimal = plain, decimal if plain is frame else "."
    refuse_times(frame)
    values, censoring, found = _read(frame, Reading(decimal=decimal, limits=limits, nondetect=nondetect))
    samples = ArraySamples(values, feature_names=list(frame.columns), limits=found)
    return samples if censoring is None else LimitedSamples(samples, *_limits_of(values, censoring))


def _read(frame: Any, reading: Reading) -> tuple[Floats, Censoring | None, CellLimits | None]:
    """Numbers, marks of cells that state limits of their own, and limits of columns."""
    decimal, columns = reading.decimal or ".", []
    seen: dict[int, Seen] = {}
    for position, name in enumerate(frame.columns):
        cells = frame[name].to_list()
        if not any(isinstance(cell, str) for cell in cells):
            columns.append(np.array(frame[name], dtype=np.float64))
            continue
        texts = [_text(cell, decimal) for cell in cells]
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        try:
            numbers, seen[position] = read_distinct(list(places), np.array([places[text] for text in texts]), decimal)
        except UnreadableCell as error:
            raise InvalidDataError(frame_fault(frame, decimal)) from error
        columns.append(numbers)
    names = tuple(map(str, frame.columns))
    found, own = stated_limits(seen, names, reading)
    warn_of_nondetects(seen, names, reading)
    return *at_limits(np.column_stack(columns), found, own, reading), found


def _limits_of(values: Floats, censoring: Censoring) -> tuple[FloatArray, FloatArray]:
    """A floor and a ceiling of every cell, infinite where it is no limit."""
    low, high = np.where(censoring < 0, values, -np.inf), np.where(censoring > 0, values, np.inf)
    return low.astype(np.float64), high.astype(np.float64)


def collected(table: Any) -> Any:
    """A lazy polars frame computed, in batches; anything else as it is."""
    is_lazy = type(table).__name__ == "LazyFrame" and hasattr(table, "collect")
    return table.collect(engine="streaming") if is_lazy else table


def holds_text(frame: Any) -> bool:
    """Whether a frame has a column of text, or one of objects among which there is some."""
    if not (hasattr(frame, "columns") and hasattr(frame, "dtypes")) or len(set(frame.columns)) < len(frame.columns):
        return False
    kinds = {name: str(kind).lower() for name, kind in zip(frame.columns, frame.dtypes, strict=True)}
    texts = [name for name, kind in kinds.items() if kind.startswith(("str", "object", "utf8", "large_string"))]
    return any(isinstance(cell, str) for name in texts for cell in frame[name])


def _text(cell: Any, decimal: str) -> str:
    """A cell of a column with text as text; an empty one is missing."""
    if isinstance(cell, str):
        return cell
    missing = cell is None or cell != cell or type(cell).__name__ in ("NAType", "NaTType")
    return "" if missing else repr(float(cell)).replace(".", decimal)


# --- cells that cannot be read ----------------------------------------------------------------------


def frame_fault(frame: Any, decimal: str = ".") -> str | None:
    """All columns of a frame that hold text or times, with a line that drops them, and the first other bad cell."""
    labels = list(frame.columns)
    held, faults = (
        dict.fromkeys(_times(frame), ("dates or times", "")),
        Faults([*map(str, labels)], decimal, MARKED_MISSING),
    )
    for position, label in enumerate(labels):
        column = frame[label]
        if position in held or not hasattr(column, "to_list"):  # Dask's, or one of two of the same name
            continue
        for row, cell in enumerate(column.to_list()):
            if isinstance(cell, str):
                faults.add(row_label(row), position, cell)
            else:
                faults.add_numbers(position, int(_text(cell, decimal) != ""))

    def dropped(positions: list[int]) -> str:
        inside = repr([labels[position] for position in positions])
        return f"X.drop({inside})" if type(frame).__module__.startswith("polars") else f"X.drop(columns={inside})"

    fault = faults.describe(held, len(labels), dropped)
    return fault and fault[0].upper() + fault[1:]


def table_fault(table: Any) -> str | None:
    """The columns of a frame or an array that hold text, and the first other cell that is no number."""
    if hasattr(table, "columns"):
        return frame_fault(table)
    try:
        cells = np.asarray(table, dtype=object)
    except (TypeError, ValueError):
        return None
    if cells.ndim != 2:
        return None
    faults = Faults(None, emptied=MARKED_MISSING)
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if not isinstance(cell, str) or plain_float(cell) is not None:
                faults.add_numbers(j, int(cell is not None))
            else:
                faults.add_bad(row_label(i), j, cell)
    fault = faults.describe({}, cells.shape[1], lambda them: f"np.delete(X, {them}, axis=1).astype(float)")
    return fault and fault[0].upper() + fault[1:]


def refuse_times(frame: Any) -> None:
    """Raise InvalidDataError for dates, which would pass as huge integers; it names columns of text as well."""
    if _times(frame):
        raise InvalidDataError(frame_fault(frame))


def _times(frame: Any) -> list[int]:
    dtypes = getattr(frame, "dtypes", None)
    if dtypes is None or not hasattr(frame, "columns"):
        return []
    kinds = [str(kind).lower() for kind in dtypes]
    return [position for position, kind in enumerate(kinds) if "date" in kind or "time" in kind or "duration" in kind]


# --- tables of several laboratories ---------------------------------------------------------------------


def joined(
    tables: Sequence[Any], *, floor: Sequence[Any] | None = None, ceiling: Sequence[Any] | None = None
) -> LimitedSamples:
    """Rows of several tables, one after the other, each table with limits of its own.

    Learn from them with ``RectifiedGaussianLearner(method="full_likelihood")``; where a column has the same limit in
    every table that it is in, that is its floor, and any method will do. Files are joined by
    ``open_samples([...], limits="cell")``.

    Parameters
    ----------
    tables : sequence of arrays or data frames
        Columns of frames are matched by name; one that a table does not have is missing in its rows. Arrays must have
        the same columns. Cells of text such as "<0.25" in a frame have that limit; such a table is given no other.
    floor : sequence, one item per table, optional
        The floors of each table: a number, one per column, a dict by name (0 for those that it does not name), one per
        cell (an array or frame of the table's shape, NaN where there is none), or None. None at all by default.
    ceiling : sequence, one item per table, optional
        Upper limits, likewise.

    Returns
    -------
    LimitedSamples
        The rows; cells at their limit are marked in ``Block.censoring``. A column without limits anywhere has the
        learner's floor, as in any table.

    Examples
    --------
    >>> import pandas as pd
    >>> north = pd.DataFrame({"As": [0.5, 2.0], "Pb": [1.0, 3.0]})
    >>> south = pd.DataFrame({"Pb": [0.2, 0.7], "Zn": [5.0, 1.0]})
    >>> samples = joined([north, south], floor=[{"As": 0.5, "Pb": 1.0}, {"Pb": 0.2, "Zn": None}])
    >>> samples.feature_names, samples.limits, samples.limits_by_cell
    (('As', 'Pb', 'Zn'), CellLimits(floor=((0, 0.5),), ceiling=()), (1,))
    >>> block = next(samples.blocks())
    >>> block.values[:, 1].tolist(), block.censoring[:, 1].tolist()
    ([1.0, 3.0, 0.2, 0.7], [-1, 0, -1, 0])
    """
    tables = [collected(table) for table in tables]
    for what, given in (("floor", floor), ("ceiling", ceiling)):
        if given is not None and (not isinstance(given, Sequence) or len(given) != len(tables)):
            raise InvalidParameterError(
                f"{what} must be a list with one item for each of the {counted(len(tables), 'table')}."
            )
    if not tables:
        raise InvalidParameterError("No tables to join: give at least one.")
    nothing = [None] * len(tables)
    parts = [_part(*each) for each in zip(tables, floor or nothing, ceiling or nothing, strict=True)]
    widths = [cells.shape[2] for cells, _ in parts]
    named = [names for _, names in parts if names is not None]
    if len(named) < len(parts) and (named or len(set(widths)) > 1):
        raise InvalidParameterError(
            f"Tables without column names must all be so, and have the same columns: these have"
            f" {', '.join(map(str, widths))} columns, and {len(named)} of them have names. Give frames."
        )
    every = tuple(dict.fromkeys(name for names in named for name in names)) or None
    for k, (cells, names) in enumerate(parts):
        if every is not None and names is not None:  # the columns of a table where they are among all of them
            wide = np.full((3, cells.shape[1], len(every)), np.nan)
            wide[:, :, [every.index(name) for name in names]] = cells
            parts[k] = wide, every
    values, low, high = np.concatenate([cells for cells, _ in parts], axis=1)
    low, high = _with_absent(low, -np.inf), _with_absent(high, np.inf)
    return LimitedSamples(ArraySamples(values, feature_names=every), low, high)


def _part(table: Any, floor: Any, ceiling: Any) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Values, floors and ceilings of every cell, stacked, and names of a table's columns."""
    names = tuple(map(str, table.columns)) if hasattr(table, "columns") else None
    if hasattr(table, "columns"):
        from unrelu.tables.grid_table import plain_frame

        table = plain_frame(table, holds_text(table))
        names = tuple(map(str, table.columns))
    if holds_text(table):
        if floor is not None or ceiling is not None:
            raise InvalidParameterError(
                "A table with cells of text such as '<0.25' has its limits in them: give it the floor None, and no"
                " ceiling."
            )
        refuse_times(table)
        values, censoring, _ = _read(table, Reading(limits="cell"))
        marks = np.zeros(values.shape, np.int8) if censoring is None else censoring
        return np.stack([values, *_limits_of(values, marks)]), names
    values = np.array(table, dtype=np.float64)
    if values.ndim != 2:
        raise InvalidDataError(f"Expected rows and columns (2 dimensions), got shape {values.shape}.")
    for name in [name for name in names or () if names is not None and names.count(name) > 1]:
        raise InvalidDataError(f"The column name {name!r} occurs twice in a table. Rename one of them.")
    return np.stack([values, *cell_limits(floor, ceiling, values.shape, names)]), names


def _with_absent(levels: FloatArray, none: float) -> FloatArray:
    """Rows of tables without a column (NaN) get the limit of the first row that has one."""
    absent = np.isnan(levels)
    first = levels[(~absent).argmax(axis=0), np.arange(levels.shape[1])]
    return np.where(absent, np.where(np.isnan(first), none, first), levels)
