"""Text files that may be packed: gzip, bzip2, zstandard, or the one table in a zip archive."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unrelu.errors import InputFileError

PACKINGS = {"": None, ".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zip": "zip"}
"""By extension."""


@contextmanager
def unpacked(path: str, packing: str | None) -> Iterator[Any]:
    """The bytes of a file as an Arrow stream, unpacked while they are read."""
    import pyarrow as pa

    if packing != "zip":
        with pa.input_stream(path, compression=packing) as stream:
            yield stream
        return
    with (
        zipfile.ZipFile(path) as archive,
        archive.open(table_in(path, archive)) as member,
        pa.input_stream(member) as stream,
    ):
        yield stream


def table_in(path: str, archive: zipfile.ZipFile | None = None) -> str:
    """The name of the one table in a zip archive."""
    if archive is None:
        with zipfile.ZipFile(path) as opened:
            return table_in(path, opened)
    # what a Mac adds to its archives is no table
    names = [name for name in archive.namelist() if not name.startswith("__MACOSX/") and not name.endswith("/")]
    tables = [name for name in names if name.lower().endswith((".csv", ".tsv"))]
    if len(tables) != 1:
        held = f"{len(tables)} tables ({', '.join(tables[:5])})" if tables else "no csv or tsv file"
        raise InputFileError(f"{path}: holds {held}, but one is needed. Unpack it, and name the files to read.")
    return tables[0]
