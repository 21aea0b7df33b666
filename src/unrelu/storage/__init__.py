"""Files of our own, whole or not at all, and never with pickle inside.

files.py      files written aside, then renamed
archives.py   NumPy archives with a header that states format and version
kinds.py      everything that can be in one, and the shapes of its arrays: the schema, on one page
records.py    records and estimators to archives and back
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unrelu.storage.archives import ArchiveFormat, damaged, foreign_arrays, stated_format, stated_header
    from unrelu.storage.files import FilePath, atomic_write
    from unrelu.storage.records import Unsaved, load, packed, read, unpacked, write

__all__ = [
    "ArchiveFormat",
    "FilePath",
    "Unsaved",
    "atomic_write",
    "damaged",
    "foreign_arrays",
    "load",
    "packed",
    "read",
    "stated_format",
    "stated_header",
    "unpacked",
    "write",
]

_HOME = {
    **dict.fromkeys(
        ("ArchiveFormat", "damaged", "foreign_arrays", "stated_format", "stated_header"), "unrelu.storage.archives"
    ),
    **dict.fromkeys(("FilePath", "atomic_write"), "unrelu.storage.files"),
    **dict.fromkeys(("Unsaved", "load", "packed", "read", "unpacked", "write"), "unrelu.storage.records"),
}


def __getattr__(name: str) -> Any:
    """Whoever learns does not wait for the modules of files."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'unrelu.storage' has no attribute {name!r}")
