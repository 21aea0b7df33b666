"""Tables of other libraries as rows: lazy frames, sparse matrices, frames with columns of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.samples.arrays import ArraySamples
from unrelu.samples.limits import cut, own_limits, put_own, resolved, warn_of_nondetects
from unrelu.samples.reading import Reading
from unrelu.samples.text_columns import Seen, UnreadableCell, read_texts, split_marks

if TYPE_CHECKING:
    from unrelu.samples.limited import LimitedSamples


def read_frame(
    frame: Any, *, decimal: str = ".", limits: str | None = None, nondetect: Any = None
) -> ArraySamples | LimitedSamples:
    """The rows of a pandas or polars frame of which columns hold text: numbers, limits such as "<0.25", "ND".

    Estimators do this with every frame that they are given; here it can be said how. The parameters are those of
    :func:`unrelu.samples.open_samples`. Raises InvalidDataError for a cell that cannot be read.

    Examples
    --------
    >>> import pandas as pd
    >>> samples = read_frame(pd.DataFrame({"As": ["0.5", "<0.1", "<0.25"], "Pb": [1, 2, 3]}), limits="highest")
    >>> samples.limits, next(samples.blocks()).values.tolist()
    (CellLimits(floor=((0, 0.25),), ceiling=()), [[0.5, 1.0], [0.25, 2.0], [0.25, 3.0]])
    """
    frame = collected(frame)
    if not hasattr(frame, "columns"):
        raise InvalidParameterError(f"Expected a pandas or polars frame, got {type(frame).__name__}.")
    names = tuple(map(str, frame.columns))
    reading = Reading(decimal=decimal, limits=limits, nondetect=nondetect)
    columns = [_column(frame[name], label, reading) for name, label in zip(frame.columns, names, strict=True)]
    values, seen = np.column_stack([column for column, _ in columns]), dict(enumerate(cells for _, cells in columns))
    found, own = resolved(seen, names, reading), own_limits(seen, names, reading)
    warn_of_nondetects(seen, names, reading)
    if own:
        from unrelu.samples.limited import LimitedSamples

        values, beyond = split_marks(values)
        put_own(values, beyond, own)
        floor, ceiling = (np.where(beyond == side, values, side * np.inf) for side in (-1, 1))
        return LimitedSamples(ArraySamples(values, feature_names=names), floor, ceiling)
    cut(values, found)
    return ArraySamples(values, feature_names=names, limits=found)


def holds_text(frame: Any) -> bool:
    """Whether a frame has a column of text, or one of objects among which there is some."""
    if not (hasattr(frame, "columns") and hasattr(frame, "dtypes")) or len(set(frame.columns)) < len(frame.columns):
        return False
    kinds = {name: str(kind).lower() for name, kind in zip(frame.columns, frame.dtypes, strict=True)}
    texts = [name for name, kind in kinds.items() if kind.startswith(("str", "object", "utf8", "large_string"))]
    return any(isinstance(cell, str) for name in texts for cell in frame[name])


def collected(table: Any) -> Any:
    """A lazy polars frame computed, in batches; anything else as it is."""
    is_lazy = type(table).__name__ == "LazyFrame" and hasattr(table, "collect")
    return table.collect(engine="streaming") if is_lazy else table


def _column(column: Any, name: str, reading: Reading) -> tuple[NDArray[Any], Seen]:
    import pyarrow as pa

    cells = column.to_list()
    if not any(isinstance(cell, str) for cell in cells):
        return np.array(column, dtype=np.float64), Seen()
    decimal = reading.decimal or "."
    texts = [_text(cell, decimal) for cell in cells]
    try:
        return read_texts(pa.array(texts, pa.string()), decimal, reading)
    except UnreadableCell as error:
        raise InvalidDataError(f"Column {name!r}: {str(error)!r} is not a number. Correct it.") from error


def _text(cell: Any, decimal: str) -> str | None:
    if isinstance(cell, str):
        return cell
    missing = cell is None or cell != cell or type(cell).__name__ in ("NAType", "NaTType")
    return None if missing else repr(float(cell)).replace(".", decimal)
