"""Tables in memory and on disk, read block by block, and written.

All rows here derive from :class:`unrelu.contracts.Samples`: they can be read again and again, in a fixed order, as
blocks of consecutive rows. A question about the blocks is the same whether they come from an array, a memory map, or a
folder of files larger than memory.

    files.py          open_samples: files as one run of rows; which files there are, how they are opened
    choose.py         which columns and rows of them: by name, by the keys of folders, by where=
    table_file.py     what every kind of file provides; messages about damage and bad cells
    csv_file.py       csv, tsv and Excel;  arrow_files.py: parquet, feather
    numpy_files.py    npy, npz, sparse matrices
    layout.py         tables as laboratories deliver them: which columns are flags, limits, units
    vocabulary.py     the words that they use
    raw_text.py       encodings, separators, titles, units
    delivered.py      such tables made plain;  grid_table.py: in memory, as a file among others
    laboratory.py     read_table: how a table was understood, its cells, its rows
    cells.py          cells of text as numbers, limits such as "<0.25"
    frames.py         tables of other libraries, with columns of text; joined: several tables
    dask_rows.py      Dask's arrays and frames;  device.py: arrays of torch and CuPy, layers of networks
    write.py          rows and columns to a file, block by block
    limited.py        limits of single cells beside a table;  groups.py: one label per row
    prepared.py       rows as learners take them: limits, columns with a ceiling negated, margins

To add a kind of file: a subclass of ``TableFile``, and its extension in ``files.py``. pyarrow, of the extra ``files``,
is imported when a file needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.passes.rows import ArraySamples as ArraySamples
    from unrelu.passes.rows import rows_per_block as rows_per_block
    from unrelu.tables.files import open_samples as open_samples
    from unrelu.tables.frames import joined as joined
    from unrelu.tables.frames import read_frame as read_frame
    from unrelu.tables.laboratory import ReadTable as ReadTable
    from unrelu.tables.laboratory import read_table as read_table
    from unrelu.tables.numpy_files import SparseSamples as SparseSamples
    from unrelu.tables.write import write_table as write_table

__getattr__, __dir__, __all__ = lazily(__name__)
