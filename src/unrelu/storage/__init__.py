"""Files of our own, whole or not at all, and never with pickle inside.

files.py      files written aside, then renamed
archives.py   NumPy archives with a header that states format and version
kinds.py      everything that can be in one, and the shapes of its arrays: the schema, on one page
records.py    records and estimators to archives and back
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.storage.archives import ArchiveFormat as ArchiveFormat
    from unrelu.storage.archives import damaged as damaged
    from unrelu.storage.archives import foreign_arrays as foreign_arrays
    from unrelu.storage.archives import stated_format as stated_format
    from unrelu.storage.archives import stated_header as stated_header
    from unrelu.storage.files import FilePath as FilePath
    from unrelu.storage.files import atomic_write as atomic_write
    from unrelu.storage.records import Unsaved as Unsaved
    from unrelu.storage.records import load as load
    from unrelu.storage.records import packed as packed
    from unrelu.storage.records import read as read
    from unrelu.storage.records import unpacked as unpacked
    from unrelu.storage.records import write as write

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "unrelu.storage.archives": ["ArchiveFormat", "damaged", "foreign_arrays", "stated_format", "stated_header"],
        "unrelu.storage.files": ["FilePath", "atomic_write"],
        "unrelu.storage.records": ["Unsaved", "load", "packed", "read", "unpacked", "write"],
    },
)
