"""Files of this package: written as a whole or not at all, without pickle.

files.py      files written aside, then renamed
format.py     public objects to NumPy archives of plain names and back, versioned and checked
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.storage.files import FilePath as FilePath
    from unrelu.storage.files import atomic_write as atomic_write
    from unrelu.storage.format import Unsaved as Unsaved
    from unrelu.storage.format import damaged as damaged
    from unrelu.storage.format import foreign_arrays as foreign_arrays
    from unrelu.storage.format import load as load
    from unrelu.storage.format import made_of as made_of
    from unrelu.storage.format import read as read
    from unrelu.storage.format import read_header as read_header
    from unrelu.storage.format import state_of as state_of
    from unrelu.storage.format import stated_format as stated_format
    from unrelu.storage.format import stated_header as stated_header
    from unrelu.storage.format import write as write

__getattr__, __dir__, __all__ = lazily(__name__)
