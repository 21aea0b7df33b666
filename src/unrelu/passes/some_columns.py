"""Some of the columns of a table, whatever it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, Samples
from unrelu.tables.groups import OfSamples


class SomeColumns(OfSamples):
    """The rows of ``samples``, of the ``columns`` at these positions alone.

    >>> from unrelu.tables import ArraySamples
    >>> rows = SomeColumns(ArraySamples([[1.0, 2.0, 3.0]], feature_names=["a", "b", "c"]), np.array([2, 0]))
    >>> rows.feature_names, [block.values.tolist() for block in rows.blocks()]
    (('c', 'a'), [[[3.0, 1.0]]])
    """

    def __init__(self, samples: Samples, columns: NDArray[np.intp]) -> None:
        super().__init__(samples)
        self._columns = columns

    @property
    def n_features(self) -> int:
        return len(self._columns)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        names = self._samples.feature_names
        return None if names is None else tuple(names[j] for j in self._columns)

    @property
    def limits_by_cell(self) -> tuple[int, ...]:
        own = getattr(self._samples, "limits_by_cell", ())
        return tuple(place for place, j in enumerate(self._columns) if j in own)

    def blocks(self) -> Iterator[Block]:
        for block in self._samples.blocks():
            beyond = None if block.beyond is None else np.take(block.beyond, self._columns, axis=1)
            yield replace(block, values=np.take(block.values, self._columns, axis=1), beyond=beyond)
