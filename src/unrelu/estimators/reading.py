"""What people pass as a table: frames in memory or lazy, with text in them or times, and which cell is at fault."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrelu.errors import InvalidDataError
from unrelu.validation import column_label, listed, row_label


def readable(X: Any) -> Any:
    """What is no array for NumPy as rows: lazy frames, frames in which columns are text."""
    if type(X).__name__ != "LazyFrame" and not hasattr(X, "columns"):
        return X
    from unrelu.samples.frames import collected, holds_text, read_frame

    X = collected(X)
    _refuse_times(X)
    if not holds_text(X):
        return X
    cell = text_cell(X)
    if cell is not None:
        raise InvalidDataError(cell)
    try:
        return read_frame(X)
    except InvalidDataError as error:
        raise InvalidDataError(f"{error} Both are parameters of unrelu.samples.read_frame.") from error


def _refuse_times(X: Any) -> None:
    """Dates would pass as huge integers."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return
    kinds = [str(kind).lower() for kind in dtypes]
    times = [f"{name!r}" for name, kind in zip(X.columns, kinds, strict=True) if "date" in kind or "time" in kind]
    if times:
        raise InvalidDataError(f"Dates or times, not numbers: column {listed(times)}. Leave it out.")


def text_cell(X: Any) -> str | None:
    """Which cell is not a number, if one is not."""
    from unrelu.samples.cells import read_cell

    try:
        cells = np.asarray(X, dtype=object)
    except (TypeError, ValueError):
        return None
    if cells.ndim != 2:
        return None
    names = [str(c) for c in X.columns] if hasattr(X, "columns") else None
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            if isinstance(cell, str) and not (_reads_as_number(cell) if names is None else read_cell(cell)):
                place = f"{row_label(i).capitalize()}, {column_label(j, names)}"
                return f"{place}: {cell!r} is not a number. Correct the cell or leave the column out."
    return None


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
