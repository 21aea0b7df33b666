"""Limits of single cells, as arrays beside a table: cells at their limit are marked, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrelu.contracts import Block, CellLimits, Censoring, FloatArray, Samples
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.kernels.limit_rows import mark_cells
from unrelu.limits import is_by_cell, levels
from unrelu.passes.columns import cell_floors_of_data, floors_of_data
from unrelu.passes.rows import RowsOf
from unrelu.passes.tiles import NOISE, ROUNDINGS, without_absent
from unrelu.validation import column_label, listed, row_label, suggestion, warn

_NONE = {"floor": -np.inf, "ceiling": np.inf}


class LimitedSamples(RowsOf):
    """The rows of ``samples`` with a floor and a ceiling for every cell (n x d, infinite where it has none).

    A cell at its limit is marked in ``Block.censoring`` and holds exactly the limit; so does a 0 below a floor, which
    stands for a non-detect. Any other value outside its limits is an error. One floor, or one ceiling, in all rows is
    that of the column, in ``limits``; other columns with limits are in ``limits_by_cell``.
    """

    def __init__(self, samples: Samples, floor: FloatArray, ceiling: FloatArray) -> None:
        super().__init__(samples)
        if samples.limits_by_cell or samples.limits is not None:
            raise InvalidParameterError(
                "Cells of the table state limits themselves, such as '<0.25', and floor= or ceiling= gives one per"
                " cell as well: leave these out, or read the stated ones as missing with limits='missing'."
            )
        self._floor, self._ceiling, self._beside = floor, ceiling, len(floor)
        self._check(samples.n_rows)
        has_floor, has_ceiling = np.isfinite(floor), np.isfinite(ceiling)
        crossed = has_floor & has_ceiling & (floor >= ceiling)
        if crossed.any():
            row, column = np.unravel_index(int(crossed.argmax()), crossed.shape)
            raise InvalidParameterError(
                f"{_place(int(row), int(column), self.feature_names)}: its floor {floor[row, column]:g} is not"
                f" below its ceiling {ceiling[row, column]:g}. Correct one of them, or set it to NaN for none."
            )
        any_floor, any_ceiling = has_floor.any(axis=0), has_ceiling.any(axis=0)
        one_floor = any_floor & ~any_ceiling & (floor == floor[:1]).all(axis=0)
        one_ceiling = any_ceiling & ~any_floor & (ceiling == ceiling[:1]).all(axis=0)
        own = (any_floor | any_ceiling) & ~one_floor & ~one_ceiling
        self.limits_by_cell = tuple(np.flatnonzero(own).tolist())
        found = [
            tuple((int(j), float(each[0, j])) for j in np.flatnonzero(one))
            for each, one in ((floor, one_floor), (ceiling, one_ceiling))
        ]
        self.limits = CellLimits(*found) if any(found) else None

    def weighted(self, weights: ArrayLike) -> LimitedSamples:
        """The same rows with a weight each."""
        return LimitedSamples(self._samples.weighted(weights), self._floor, self._ceiling)

    def _convert(self, block: Block) -> Block:
        rows = slice(block.first_row, block.first_row + block.n_rows)
        floor, ceiling = self._floor[rows], self._ceiling[rows]
        values = without_absent(block.values, block.weights)
        censoring = censoring_at_limits(values, floor, ceiling, self.feature_names, block.first_row)
        if censoring.any():
            held = np.where(censoring < 0, floor, ceiling)
            values = np.where(censoring == 0, values, held.astype(values.dtype))
        return replace(block, values=values, censoring=censoring)

    def _other_number(self, more: str, n_rows: int) -> Exception:
        return InvalidParameterError(_other_margin(f"{more}{n_rows:,}", self.n_features, self._floor.shape))


def cell_limits(
    floor: Any, ceiling: Any, shape: tuple[int | None, int], names: Sequence[str] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Floors and ceilings of every cell of a table of that shape (rows may not be known), infinite where none is.

    One of both must be given by cell, unless the number of rows is known; NaN means none there. Columns of a frame are
    matched by name, its rows by position. A number for all columns is not for columns that have limits on the other
    side, as with limits per column.
    """
    given = {"floor": floor, "ceiling": ceiling}
    cells = {what: _cells(what, each, shape, names) for what, each in given.items() if is_by_cell(each)}
    n_rows = len(next(iter(cells.values()))) if cells else shape[0]
    assert n_rows is not None, "limits by cell, or a number of rows"
    for what, other in (("ceiling", "floor"), ("floor", "ceiling")):
        if what not in cells:
            numbers, from_data, named = levels(what, given[what], shape[1], names)
            if from_data.any():
                raise InvalidParameterError(f"{what} must be numbers beside limits by cell, got {given[what]!r}.")
            if other in cells:
                numbers[np.isfinite(cells[other]).any(axis=0) & ~named] = _NONE[what]
            cells[what] = np.broadcast_to(numbers, (n_rows, shape[1]))
    return cells["floor"], cells["ceiling"]


def _cells(what: str, given: Any, shape: tuple[int | None, int], names: Sequence[str] | None) -> FloatArray:
    """Limits by cell as they were given, infinite where there is none."""
    if hasattr(given, "columns") and names is not None:
        labels = [str(name) for name in given.columns]
        for name in [name for name in names if name not in labels]:
            raise InvalidParameterError(
                f"{what}: no column {name!r} in the frame, but in the table: add it, with NaN where there is no limit."
            )
        for label in [label for label in labels if label not in names]:
            raise InvalidParameterError(f"{what}: no column {label!r}. {suggestion(label, names, most=8)}")
        given = given[[given.columns[labels.index(name)] for name in names]]
    try:
        limits = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(f"{what} must hold numbers, NaN for cells without one ({error}).") from error
    if limits.shape[1] != shape[1] or shape[0] not in (None, len(limits)):
        rows = "?" if shape[0] is None else f"{shape[0]:,}"
        raise InvalidParameterError(_other_margin(rows, shape[1], limits.shape, what))
    if (limits == -_NONE[what]).any():
        raise InvalidParameterError(f"{what} of a cell cannot be {-_NONE[what]}: give a number, or NaN for none.")
    limits[np.isnan(limits)] = _NONE[what]
    return limits


def _other_margin(rows: str, n_features: int, given: tuple[int, ...], what: str = "floor or ceiling") -> str:
    return (
        f"{what} has shape ({given[0]:,}, {given[1]:,}), the table ({rows}, {n_features:,}): limits by cell go with the"
        " table that they were given for. Give those of this table (set_params(floor=...)), or one per column."
    )


def censoring_at_limits(
    values: NDArray[np.floating[Any]],
    floor: FloatArray,
    ceiling: FloatArray,
    names: Sequence[str] | None = None,
    first_row: int = 0,
) -> Censoring:
    """-1 for cells at their floor, 1 for cells at their ceiling, 0 elsewhere; values beyond are an error."""
    marks = np.zeros(values.shape, np.int8)
    level_of = np.float32 if values.dtype == np.float32 else np.float64
    near = max(ROUNDINGS * float(np.finfo(level_of).eps), NOISE)
    for mark, limits, side, what in ((-1, floor, "below", "floor"), (1, ceiling, "above", "ceiling")):
        if not np.isfinite(limits).any():
            continue
        row, column, wrong = mark_cells(_plain(values), _plain(limits), mark, near, marks)
        if wrong:
            more = f" (and {wrong - 1:,} more such cells)" if wrong > 1 else ""
            raise InvalidDataError(
                f"{_place(first_row + row, column, names)}: the value {float(values[row, column])!r} is {side} its"
                f" {what} {float(limits[row, column])!r}{more}. Correct the value or the limit, or set the limit to NaN"
                " if this cell has none.",
                rows=[first_row + row],
            )
    return marks


def _plain(cells: NDArray[Any]) -> NDArray[Any]:
    """As kernels are compiled for."""
    return np.require(cells, None, ("C", "W"))


def limits_of_data(
    values: NDArray[np.floating[Any]],
    floor: FloatArray,
    ceiling: FloatArray,
    names: Sequence[str] | None = None,
    *,
    fewest: int = 2,
    tell: bool = True,
) -> tuple[FloatArray, FloatArray]:
    """Limits of columns, or of cells; in place of those that are the table's own but for rounding the table's.

    ``values``: of the first rows. The extreme value of a column is its limit if it occurs ``fewest`` times. ``tell``: a
    warning says which limits were given with other digits.
    """
    found = []
    for what, given, sign in (("floor", floor, 1.0), ("ceiling", ceiling, -1.0)):
        if not np.isfinite(given).any():
            found.append(given)
            continue
        x, level = (values, given) if sign > 0.0 else (-values, -given)
        if floor.ndim == 2:
            taken, typed = cell_floors_of_data(x, level)
        else:
            taken, marked = floors_of_data(x, level, fewest)
            typed = [(int(j), float(level[j]), float(taken[j])) for j in np.flatnonzero(marked)]
        found.append(given if taken is level else np.where(taken == level, given, sign * taken))
        if typed and tell:
            extreme, word = ("smallest", "min") if what == "floor" else ("largest", "max")
            of, its, say = "a column", f"its {what}", f"Say {what}={word!r}"
            if floor.ndim == 2:
                of, its, say = f"cells with one {what}", "it", f"Give these numbers as {what}="
            each = [f"{column_label(j, names)}: {sign * new:.12g} for {sign * old:.12g}" for j, old, new in typed]
            warn(
                f"The {extreme} value of {of}, which repeats, was taken for {its}, as it is the same but for rounding."
                f" In {listed(each, most=6)}. {say} if that is right; if not, correct the values there.",
                "rounded-limit",
            )
    return found[0], found[1]


def _place(row: int, column: int, names: Sequence[str] | None) -> str:
    return f"{row_label(row).capitalize()}, {column_label(column, names)}"
