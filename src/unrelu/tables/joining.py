"""Tables of several laboratories as one: columns matched by name, every cell with the limits of its laboratory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unrelu.contracts import FloatArray, Marks
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.rows import ArraySamples
from unrelu.tables.frames import collected, holds_text, read_frame
from unrelu.tables.limited import LimitedSamples, cell_limits
from unrelu.validation import counted

Part = tuple[FloatArray, tuple[FloatArray, FloatArray], tuple[str, ...] | None]


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
        The rows; cells at their limit are marked in ``Block.beyond``. A column without limits anywhere has the
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
    >>> block.values[:, 1].tolist(), block.beyond[:, 1].tolist()
    ([1.0, 3.0, 0.2, 0.7], [-1, 0, -1, 0])
    """
    tables = [collected(table) for table in tables]
    for what, given in (("floor", floor), ("ceiling", ceiling)):
        if given is not None and (not isinstance(given, Sequence) or len(given) != len(tables)):
            raise InvalidParameterError(
                f"{what} must be a list with one item for each of the {counted(len(tables), 'table')}."
            )
    nothing = [None] * len(tables)
    parts = [_part(*each) for each in zip(tables, floor or nothing, ceiling or nothing, strict=True)]
    if not parts:
        raise InvalidParameterError("No tables to join: give at least one.")
    names = _all_names([part[2] for part in parts], [part[0].shape[1] for part in parts])
    values = np.concatenate([_spread(part[0], part[2], names, np.nan) for part in parts])
    low, high = (
        _with_absent(np.concatenate([_spread(part[1][side], part[2], names, np.nan) for part in parts]), none)
        for side, none in ((0, -np.inf), (1, np.inf))
    )
    return LimitedSamples(ArraySamples(values, feature_names=names), low, high)


def _part(table: Any, floor: Any, ceiling: Any) -> Part:
    """Values, limits of every cell, and names of a table's columns."""
    if holds_text(table):
        if floor is not None or ceiling is not None:
            raise InvalidParameterError(
                "A table with cells of text such as '<0.25' has its limits in them: give it the floor None, and no"
                " ceiling."
            )
        samples = read_frame(table, limits="cell")
        blocks = list(samples.blocks())
        values = np.concatenate([block.values for block in blocks])
        marks = [np.zeros(block.values.shape, np.int8) if block.beyond is None else block.beyond for block in blocks]
        beyond: Marks = np.concatenate(marks)
        limits = (np.where(beyond < 0, values, -np.inf), np.where(beyond > 0, values, np.inf))
        return values, limits, samples.feature_names
    values = np.array(table, dtype=np.float64)
    if values.ndim != 2:
        raise InvalidDataError(f"Expected rows and columns (2 dimensions), got shape {values.shape}.")
    names = tuple(map(str, table.columns)) if hasattr(table, "columns") else None
    for name in [name for name in names or () if names is not None and names.count(name) > 1]:
        raise InvalidDataError(f"The column name {name!r} occurs twice in a table. Rename one of them.")
    return values, cell_limits(floor, ceiling, values.shape, names), names


def _all_names(named: Sequence[tuple[str, ...] | None], widths: Sequence[int]) -> tuple[str, ...] | None:
    """All columns, in the order in which they come."""
    known = [names for names in named if names is not None]
    if not known and len(set(widths)) == 1:
        return None
    if len(known) < len(named):
        raise InvalidParameterError(
            f"Tables without column names must all be so, and have the same columns: these have"
            f" {', '.join(map(str, widths))} columns, and {len(known)} of them have names. Give frames."
        )
    return tuple(dict.fromkeys(name for names in known for name in names))


def _spread(
    cells: FloatArray, names: tuple[str, ...] | None, every: tuple[str, ...] | None, absent: float
) -> FloatArray:
    """The columns of one table where they are among all columns."""
    if names is None or every is None:
        return cells
    wide = np.full((len(cells), len(every)), absent)
    wide[:, [every.index(name) for name in names]] = cells
    return wide


def _with_absent(levels: FloatArray, none: float) -> FloatArray:
    """Rows of tables without a column (NaN) have no say in its limit: they get that of the first row that has one."""
    absent = np.isnan(levels)
    first = levels[(~absent).argmax(axis=0), np.arange(levels.shape[1])]
    return np.where(absent, np.where(np.isnan(first), none, first), levels)
