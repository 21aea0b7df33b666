"""Files of our own, whole or not at all, and never with pickle inside.

files.py      files written aside, then renamed
archives.py   NumPy archives with a header that states format and version
kinds.py      everything that can be in one, and the shapes of its arrays: the schema, on one page
records.py    records and estimators to archives and back
"""

from unrelu.storage.archives import ArchiveFormat, damaged, foreign_arrays, stated_format, stated_header
from unrelu.storage.files import FilePath, atomic_write
from unrelu.storage.records import Unsaved, load, read, write

__all__ = [
    "ArchiveFormat",
    "FilePath",
    "Unsaved",
    "atomic_write",
    "damaged",
    "foreign_arrays",
    "load",
    "read",
    "stated_format",
    "stated_header",
    "write",
]
