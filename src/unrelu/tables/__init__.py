"""Where the rows live: tables in memory and on disk, read block by block, and written.

Everything here obeys :class:`unrelu.contracts.Samples`: rows that can be read again and again, in a
fixed order, as blocks of consecutive rows. What asks questions of the blocks never learns whether
they came from an array, a memory map, or a folder of files larger than memory.

    arrays.py         rows of a NumPy array, without copying it
    sparse.py         rows of a scipy sparse matrix, also from files; blocks are dense for whoever asks
    files.py          open_samples: files as one run of rows, matched column by column
    finding.py        which files paths, globs and folders stand for; bad ones left out
    table_file.py     what one file on disk must answer (the protocol of the readers)
    csv_file.py       csv and tsv; diagnosis.py finds the cell that is at fault
    csv_dialect.py    separator, decimal mark and header of a text table, told from its first rows
    packed.py         gz, bz2, zst and zip
    excel_file.py     xlsx
    reading.py        what is asked for: header, limits, words
    cells.py          what one cell's text says; text_columns.py reads columns of them
    limits.py         the limits that cells state, one a column
    arrow_files.py    parquet, feather, arrow
    numpy_files.py    npy, npz
    conditions.py     what where= says; chosen_rows.py: rows that meet it, and keys in folders' names
    columns.py        which columns to keep, and the same columns in every file
    limited.py        limits of single cells beside a table; joining.py: tables with limits of their own as one
    groups.py         one label per row beside any table
    parts.py          parts of a table for other processes to read; dask_rows.py: Dask's arrays and frames
    turned.py         columns upside down
    frames.py         tables of other libraries: lazy, sparse, of text, of short floats
    blocks.py         block sizes, and pieces of any size regrouped into blocks
    tables.py         write_table: rows to a file, block by block

To add a kind of file: one class that obeys ``TableFile`` and one line in ``finding.py``; to write it,
one function and one line in ``tables.py``. Nothing imports pyarrow until a file needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unrelu.passes.rows import ArraySamples, rows_per_block

if TYPE_CHECKING:
    from unrelu.tables.files import open_samples
    from unrelu.tables.frames import read_frame
    from unrelu.tables.joining import joined
    from unrelu.tables.sparse import SparseSamples
    from unrelu.tables.tables import write_table

__all__ = ["ArraySamples", "SparseSamples", "joined", "open_samples", "read_frame", "rows_per_block", "write_table"]

_HOME = {
    "SparseSamples": "unrelu.tables.sparse",
    "joined": "unrelu.tables.joining",
    "open_samples": "unrelu.tables.files",
    "read_frame": "unrelu.tables.frames",
    "write_table": "unrelu.tables.tables",
}


def __getattr__(name: str) -> Any:
    """Files are for those who read them: whoever fits an array does not wait for their modules."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'unrelu.tables' has no attribute {name!r}")
