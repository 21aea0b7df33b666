"""Floors and ceilings in every form that users may give, as one number per column.

One number is for every column; a list goes by position; a mapping or a Series goes by name, and ``"*"`` in it is for
all columns that it does not name (0 for floors otherwise, none for ceilings). ``None`` or an infinite number means that
the column has no such limit; ``"min"`` (``"max"`` for ceilings) that the limit is the column's smallest (largest) value
where that occurs more than once. :mod:`unrelu.tables.limited` has limits of single cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np

from unrelu.contracts import BoolArray, CellLimits, FloatArray
from unrelu.errors import InvalidParameterError
from unrelu.validation import column_label, label_columns, suggestion

OTHERS = "*"
_DATA = {"floor": "min", "ceiling": "max"}  # the words for a limit that the table has


def limits_of(
    floor: Any, ceiling: Any, n_features: int, names: Sequence[str] | None = None
) -> tuple[FloatArray, BoolArray, BoolArray]:
    """(floors and ceilings, which of them the table has, columns with a given floor), or an error naming the column.

    The first two are 2 x d; a floor is -inf and a ceiling inf where there is none, or where it is the table's own
    extreme value. A floor is given by name or position, or as a number other than 0, the default.

    A column with a ceiling has no floor: a floor for all columns (such as the default) leaves that column out, and a
    floor that names the column is refused.
    """
    low, low_from_data, named = levels("floor", floor, n_features, names)
    high, high_from_data, _ = levels("ceiling", ceiling, n_features, names)
    negated = (high < np.inf) | high_from_data
    both = negated & named & ((low > -np.inf) | low_from_data)
    if both.any():
        raise InvalidParameterError(
            f"Both a floor and a ceiling for {label_columns(both, names)}: a column can have one of them. Leave out the"
            " limit that fewer values reach (floor=None), and mark the values there as missing with NaN."
        )
    low[negated] = -np.inf
    given = named | (np.isfinite(low) & (low != 0.0))
    return np.array([low, high]), np.array([low_from_data & ~negated, high_from_data]), given


def lifts(stated: CellLimits | None, floors: FloatArray, names: Sequence[str] | None) -> dict[int, tuple[float, float]]:
    """(limit, floor) of columns whose floor is above the limit that cells state: such cells are at the floor."""
    found = {}
    for column, limit in () if stated is None else stated.floor:
        floor = float(floors[column])
        if floor < limit:
            has = "has no floor" if np.isinf(floor) else f"has the floor {floor:g}"
            raise InvalidParameterError(
                f"{column_label(column, names)} {has}, but cells such as '<{limit:g}', whose limit is higher: leave"
                " its floor out, raise it to that limit, or read such cells as missing with limits='missing'."
            )
        if floor > limit:
            found[column] = (limit, floor)
    return found


def floor_per_column(floor: Any, n_features: int, names: Sequence[str] | None = None) -> FloatArray:
    """The floor as one finite number per column, for methods that need a floor in every column."""
    values, from_data, _ = levels("floor", floor, n_features, names)
    if from_data.any():
        raise InvalidParameterError(
            "floor must be a number here, not 'min': there is no table to take it from.", parameter="floor"
        )
    refuse_none(values, names)
    return values


def refuse_none(floor: FloatArray, names: Sequence[str] | None) -> None:
    """Raise InvalidParameterError where a column has no floor."""
    none = ~np.isfinite(floor)
    if none.any():
        raise InvalidParameterError(
            f"No floor for {label_columns(none, names)}: every column needs a finite floor where a rectifier is undone."
            " Leave the other columns out."
        )


def is_by_cell(*given: Any) -> bool:
    """Whether some limits are given for every cell: as an array of two dimensions, or a data frame."""
    for each in given:
        if each is None or isinstance(each, str | Real | Mapping):
            continue
        with suppress(TypeError, ValueError):  # :func:`levels` says what is wrong with it
            shape = each.shape if hasattr(each, "shape") else np.asarray(each, dtype=object).shape
            if len(shape) == 2:
                return True
    return False


LIMITS_OF_CELLS = (
    "Only RectifiedGaussianLearner, FloorImputer and RectifiedGaussianGraph can use limits of single cells, with"
    " method='auto', 'one_pass' or 'full_likelihood'. Otherwise cut every column at its highest limit: limits='highest'"
    " where a table with cells such as '<0.25' is read, or one floor per column."
)


def levels(
    what: str, given: Any, n_features: int, names: Sequence[str] | None
) -> tuple[FloatArray, BoolArray, BoolArray]:
    """(numbers, columns whose number the table has, columns that were given one by one)."""
    if is_by_cell(given):
        raise InvalidParameterError(
            f"{what} has shape {np.shape(given)}, one number per cell, but one per column is needed here."
            f" {LIMITS_OF_CELLS}"
        )
    items, named = per_column(what, given, n_features, names, 0.0 if what == "floor" else None)
    none = -np.inf if what == "floor" else np.inf
    values, from_data = np.full(n_features, none), np.zeros(n_features, dtype=bool)
    for column, item in enumerate(items):
        if isinstance(item, str) and item == _DATA[what]:
            from_data[column] = True
            continue
        try:
            value = none if item is None else float(item)
        except (TypeError, ValueError):
            value = np.nan
        if isinstance(item, str | bool) or np.isnan(value) or value == -none:
            raise InvalidParameterError(
                f"{what} of {column_label(column, names)} must be a number, None for a column without one, or"
                f" {_DATA[what]!r}; got {item!r}. (A Series turns None into NaN: write {none} there.)"
            )
        values[column] = value
    return values, from_data, named


def per_column(
    what: str, given: Any, n_features: int, names: Sequence[str] | None, usual: Any
) -> tuple[list[Any], BoolArray]:
    """The item given for each column, and whether it was given for that column by itself."""
    if isinstance(given, Mapping) or (hasattr(given, "items") and hasattr(given, "index")):  # a Series
        return _by_name(what, dict(given.items()), n_features, names, usual)
    if given is None or isinstance(given, str | Real):
        return [given] * n_features, np.zeros(n_features, dtype=bool)
    try:
        items = np.asarray(given, dtype=object)
    except ValueError:
        items = np.empty((0, 0), dtype=object)
    if items.ndim == 0:
        return [items.item()] * n_features, np.zeros(n_features, dtype=bool)
    if items.shape != (n_features,):
        noun = "word" if isinstance(usual, str) else "number"
        raise InvalidParameterError(
            f"{what} must be a {noun} or one {noun} per column: {n_features} columns, {what} has shape {items.shape}."
        )
    return items.tolist(), np.ones(n_features, dtype=bool)


def _by_name(
    what: str, given: dict[Any, Any], n_features: int, names: Sequence[str] | None, usual: Any
) -> tuple[list[Any], BoolArray]:
    items, named = [given.pop(OTHERS, usual)] * n_features, np.zeros(n_features, dtype=bool)
    labels: list[Any] = list(range(n_features)) if names is None else list(names)
    for key, item in given.items():
        if key not in labels and isinstance(key, str) and names is None and key.isdecimal():
            key = int(key)
        if key not in labels:
            if names is None:
                raise InvalidParameterError(
                    f"{what}: no column {key!r}. The columns have no names: use their numbers, 0 to {n_features - 1}.",
                    parameter=what,
                )
            raise InvalidParameterError(
                f"{what}: no column {key!r}. {suggestion(str(key), labels, most=8)}", parameter=what
            )
        items[labels.index(key)], named[labels.index(key)] = item, True
    return items, named
