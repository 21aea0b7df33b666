"""Checks shared by the borders, and the words they use for columns."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path

import numpy as np

from unrelu.contracts import BoolArray
from unrelu.errors import InvalidParameterError

_PACKAGE = str(Path(__file__).parent)


def column_label(index: int, feature_names: Sequence[str] | None) -> str:
    """How messages name a column: its position from 0, and its name where it has one.

    >>> column_label(7, None), column_label(1, ["Pb", "As"])
    ('column 7', "column 1 ('As')")
    """
    if feature_names is None:
        return f"column {index}"
    return f"column {index} ({feature_names[index]!r})"


def row_label(row: int) -> str:
    """How messages name a row of a table in memory. The command line counts from 1, and changes this where it is said.

    >>> row_label(35)
    'row 35 (the first is 0)'
    """
    return row_labels([row])


def row_labels(rows: Iterable[int]) -> str:
    """The same for several rows.

    >>> row_labels([3, 35])
    'rows 3, 35 (the first is 0)'
    """
    rows = list(rows)
    return f"row{'s' if len(rows) > 1 else ''} {listed(f'{row:,}' for row in rows)} (the first is 0)"


def listed(items: Iterable[str], most: int = 5) -> str:
    """Join for a message, cutting a long list.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    items = list(items)
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def label_columns(which: BoolArray, feature_names: Sequence[str] | None) -> str:
    """The columns marked True, as messages name them.

    >>> label_columns(np.array([True, False, True]), None)
    'column 0, column 2'
    """
    return listed(column_label(int(j), feature_names) for j in np.flatnonzero(which))


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning that points at the caller's line, outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise InvalidParameterError unless value is one of the choices, suggesting the nearest.

    >>> check_choice("filter", "medain", ["median", "mean"])
    Traceback (most recent call last):
    ...
    unrelu.errors.InvalidParameterError: Unknown filter 'medain'. Did you mean 'median'? There are: median, mean.
    """
    if value not in choices:
        raise InvalidParameterError(f"Unknown {name} {value!r}. {suggestion(value, choices)}")


def suggestion(value: str, choices: Iterable[str], there_are: str = "There are:", most: int = 20) -> str:
    """Which of the choices may have been meant, and what there is.

    >>> suggestion("as", ["As", "Pb"]), suggestion("x", ["As", "Pb"], "Its columns are")
    ("Did you mean 'As'? There are: As, Pb.", 'Its columns are As, Pb.')
    """
    known = {choice.casefold(): choice for choice in choices}
    near = get_close_matches(str(value).casefold(), known, n=1, cutoff=0.5)
    meant = f"Did you mean {known[near[0]]!r}? " if near else ""
    return f"{meant}{there_are} {listed(known.values(), most)}."


def check_positive(name: str, value: float, least: float = 0.0) -> None:
    """Raise InvalidParameterError unless value is a finite number above ``least``."""
    if isinstance(value, bool) or not (isinstance(value, Real) and least < value < float("inf")):
        raise InvalidParameterError(f"{name} must be a finite number above {least:g}, got {value!r}.")


def check_count(name: str, value: int) -> None:
    """Raise InvalidParameterError unless value is a whole number of at least 1."""
    if not (isinstance(value, Integral) and value >= 1):
        raise InvalidParameterError(f"{name} must be a whole number of at least 1, got {value!r}.")
