"""Tables of other libraries as rows: lazy frames, sparse matrices, frames with columns of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.rows import ArraySamples
from unrelu.tables.diagnosis import NO_COLUMN, Faults, Held, not_numbers, sentences
from unrelu.tables.limits import SeveralLimits, cut, own_limits, put_own, resolved, warn_of_nondetects
from unrelu.tables.reading import Reading
from unrelu.tables.text_columns import Seen, UnreadableCell, read_texts, split_marks
from unrelu.validation import row_label

MARKED_MISSING = "set {} to NaN"
"""What is done with a cell of a table in memory that has no value."""

if TYPE_CHECKING:
    from unrelu.tables.limited import LimitedSamples


def read_frame(
    frame: Any, *, decimal: str = ".", limits: str | None = None, nondetect: Any = None
) -> ArraySamples | LimitedSamples:
    """The rows of a pandas or polars frame of which columns hold text: numbers, limits such as "<0.25", "ND".

    Estimators do this with every frame that they are given; here it can be said how. The parameters are those of
    :func:`unrelu.tables.open_samples`. Raises InvalidDataError for a cell that cannot be read.

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
    refuse_times(frame)
    names = tuple(map(str, frame.columns))
    reading = Reading(decimal=decimal, limits=limits, nondetect=nondetect)
    try:
        columns = [_column(frame[name], reading) for name in frame.columns]
    except UnreadableCell as error:
        raise InvalidDataError(frame_fault(frame, decimal)) from error
    values, seen = np.column_stack([column for column, _ in columns]), dict(enumerate(cells for _, cells in columns))
    try:
        found, own = resolved(seen, names, reading), own_limits(seen, names, reading)
    except SeveralLimits:
        if limits is not None:
            raise
        return read_frame(frame, decimal=decimal, limits="cell", nondetect=nondetect)
    warn_of_nondetects(seen, names, reading)
    if own:
        from unrelu.tables.limited import LimitedSamples

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


def frame_fault(frame: Any, decimal: str = ".") -> str | None:
    """All columns of a frame that hold text or times, with a line that drops them, and the first other bad cell.

    >>> import pandas as pd
    >>> print(frame_fault(pd.DataFrame({"site": ["A", "B"], "As": [0.5, 1.0]})))
    Column 'site' holds text (row 0 (the first is 0): 'A'), not numbers. Leave it out: X.drop(columns=['site']).
    """
    labels, names = list(frame.columns), [str(label) for label in frame.columns]
    held, faults = {position: Held("dates or times") for position in _times(frame)}, Faults(decimal, MARKED_MISSING)
    for position, label in enumerate(labels):
        column = frame[label]
        if position in held or not hasattr(column, "to_list"):  # Dask's, or one of two of the same name
            continue
        for row, cell in enumerate(column.to_list()):
            if isinstance(cell, str):
                faults.look(row_label(row), position, cell)
            else:
                faults.add_numbers(position, int(_text(cell, decimal) is not None))
    return fault_told(faults, held, names, lambda them: _dropped(frame, [labels[j] for j in them]))


def refuse_times(frame: Any) -> None:
    """Raise InvalidDataError for dates, which would pass as huge integers, and name columns of text as well."""
    if _times(frame):
        raise InvalidDataError(frame_fault(frame))


def _times(frame: Any) -> list[int]:
    dtypes = getattr(frame, "dtypes", None)
    if dtypes is None or not hasattr(frame, "columns"):
        return []
    kinds = [str(kind).lower() for kind in dtypes]
    return [position for position, kind in enumerate(kinds) if "date" in kind or "time" in kind or "duration" in kind]


def fault_told(
    faults: Faults, held: dict[int, Held], names: list[str] | None, dropped: Callable[[list[int]], str], width: int = 0
) -> str | None:
    """What is wrong with a table in memory; ``dropped`` is the line that leaves columns out."""
    held = dict(sorted({**held, **faults.texts()}.items()))
    them = "it" if len(held) == 1 else "them"
    left = len(held) < (width if names is None else len(names))
    remedy = f"Leave {them} out: {dropped(list(held))}." if left else NO_COLUMN
    columns = not_numbers(held, names, remedy) if held else None
    said = sentences(columns, faults.first_cell(names))
    return said and said[0].upper() + said[1:]


def _dropped(frame: Any, labels: list[Any]) -> str:
    """The line that drops columns of a frame of polars, or of pandas."""
    inside = repr(labels)
    return f"X.drop({inside})" if type(frame).__module__.startswith("polars") else f"X.drop(columns={inside})"


def collected(table: Any) -> Any:
    """A lazy polars frame computed, in batches; anything else as it is."""
    is_lazy = type(table).__name__ == "LazyFrame" and hasattr(table, "collect")
    return table.collect(engine="streaming") if is_lazy else table


def _column(column: Any, reading: Reading) -> tuple[NDArray[Any], Seen]:
    import pyarrow as pa

    cells = column.to_list()
    if not any(isinstance(cell, str) for cell in cells):
        return np.array(column, dtype=np.float64), Seen()
    decimal = reading.decimal or "."
    texts = [_text(cell, decimal) for cell in cells]
    return read_texts(pa.array(texts, pa.string()), decimal, reading)


def _text(cell: Any, decimal: str) -> str | None:
    if isinstance(cell, str):
        return cell
    missing = cell is None or cell != cell or type(cell).__name__ in ("NAType", "NaTType")
    return None if missing else repr(float(cell)).replace(".", decimal)
