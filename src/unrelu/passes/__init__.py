"""Rows, questions to them, and the engines that ask: here, on a GPU, on a Dask cluster.

This page has the engines, and what other packages may use: levels as a table stores them, work shared among threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.kernels.row_block import LARGEST as LARGEST
    from unrelu.passes.engine import LocalEngine as LocalEngine
    from unrelu.passes.engine import available_cores as available_cores
    from unrelu.passes.engine import map_in_threads as map_in_threads
    from unrelu.passes.engine import one_blas_thread as one_blas_thread
    from unrelu.passes.rows import all_values as all_values
    from unrelu.passes.tiles import Screening as Screening
    from unrelu.passes.tiles import as_stored as as_stored
    from unrelu.passes.tiles import row_keys as row_keys
    from unrelu.passes.tiles import screening_of as screening_of
    from unrelu.passes.tiles import seen_above as seen_above

__getattr__, __dir__, __all__ = lazily(__name__)
