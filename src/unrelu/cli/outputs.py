"""Outputs checked before the long work, with the words that writing itself would use; rows written with their ids."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrelu.errors import OutputError

if TYPE_CHECKING:
    from unrelu.contracts import FloatArray


class _Tried(Exception):
    """Ends a trial write before anything appears."""


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[str | Path] = ()) -> None:
    """Raise OutputError unless every output (None: not wanted) can be written and is no input."""
    from unrelu.storage import atomic_write  # brings NumPy, for which --help does not wait

    chosen = [output for output in outputs if output is not None]
    places = [os.path.abspath(output) for output in chosen]
    for output, place in zip(chosen, places, strict=True):
        if places.count(place) > 1:
            raise OutputError(f"The same file {output} is named for two outputs: choose different names.")
    inputs = list(inputs)
    for output in chosen:
        if str(output) == "-":
            raise OutputError("Only rows can go to standard output: give a file name.")
        if output.is_dir():
            raise OutputError(f"Cannot write {output}: it is a folder. Give a file name.")
        for source in inputs:
            if os.path.exists(source) and os.path.exists(output) and os.path.samefile(source, output):
                raise OutputError(f"{output} is also an input: choose another name for the output.")
        if output.is_file() or not output.exists():  # a pipe or device would notice the trial
            with suppress(_Tried), atomic_write(output):
                raise _Tried


@contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """A folder to write into, created if missing, and removed again if the work fails with it still empty."""
    created = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise OutputError(f"Cannot write into {folder}: it is a file, not a folder.") from error
    except OSError as error:
        raise OutputError(f"Cannot create the folder {folder}: {error.strerror or error}.") from error
    try:
        yield
    except BaseException:
        if created:
            with suppress(OSError):
                folder.rmdir()
        raise


def check_names(names: Sequence[str]) -> None:
    """Raise OutputError if a table to be written would have two columns of one name."""
    for name in [name for name in names if names.count(name) > 1]:
        raise OutputError(f"The table to be written would have two columns {name!r}: rename that of the input.")


def level_name(level: float) -> str:
    """What a column of quantiles is called.

    >>> level_name(0.05), level_name(0.5), level_name(0.975)
    ('q05', 'q50', 'q97.5')
    """
    percent = f"{100.0 * level:g}"
    return f"q{percent.zfill(2)}" if "." not in percent else f"q{percent}"


def write_rows(
    path: Path,
    values: FloatArray | Iterable[FloatArray],
    names: Sequence[str] | None,
    ids: Mapping[str, Sequence[str]],
) -> None:
    """Write a table, its rows or blocks of them, with the columns that are kept as text before its own."""
    import numpy as np

    from unrelu.samples.columns import names_or_numbers
    from unrelu.samples.tables import write_columns, write_table

    if not ids:
        write_table(path, values, names)
        return

    def parts() -> Iterator[dict[str, Any]]:
        import pyarrow as pa

        first = 0
        for block in [values] if isinstance(values, np.ndarray) else values:
            texts = {name: list(cells[first : first + len(block)]) for name, cells in ids.items()}
            labels = names_or_numbers(names, block.shape[1])
            numbers = {label: pa.array(block[:, j], from_pandas=True) for j, label in enumerate(labels)}
            yield {**texts, **numbers}
            first += len(block)

    write_columns(path, parts())
