"""Rows as the learners want them: columns with a ceiling upside down, cells below a column's floor lifted to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from unrelu.contracts import Block, BoolArray, Samples
from unrelu.samples.groups import OfSamples


class TurnedSamples(OfSamples):
    """The rows of ``samples`` with the ``mirrored`` columns negated: a ceiling is then a floor.

    ``lifted`` maps a column to (limit, floor): its cells at the limit or below hold the floor, which is higher.

    >>> from unrelu.samples import ArraySamples
    >>> rows = TurnedSamples(ArraySamples([[1.0, 2.0]]), np.array([False, True]), {0: (1.0, 1.5)})
    >>> [block.values.tolist() for block in rows.blocks()]
    [[[1.5, -2.0]]]
    """

    def __init__(
        self, samples: Samples, mirrored: BoolArray, lifted: Mapping[int, tuple[float, float]] | None = None
    ) -> None:
        super().__init__(samples)
        self._sign, self._lifted = np.where(mirrored, -1.0, 1.0), dict(lifted or {})
        self.mirrored = tuple(np.asarray(mirrored).tolist())

    def blocks(self) -> Iterator[Block]:
        for block in self._samples.blocks():
            values = block.values * self._sign.astype(block.values.dtype)
            for column, (limit, floor) in self._lifted.items():
                values[values[:, column] <= limit, column] = floor
            yield replace(block, values=values)
