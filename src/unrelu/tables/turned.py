"""Rows as the learners want them: columns with a ceiling upside down, cells below a column's floor lifted to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from unrelu.contracts import Block, BoolArray, FloatArray, Samples
from unrelu.passes.rows import RowsOf
from unrelu.passes.tiles import least_allowed, seen_above


class TurnedSamples(RowsOf):
    """The rows of ``samples`` with the ``mirrored`` columns negated: a ceiling is then a floor.

    ``lifted`` maps a column to (limit, floor): its cells at the limit or below hold the floor, which is higher. Where
    single cells have limits, those at the ``floor`` of their column (that of the turned values) are marked as well.

    >>> from unrelu.tables import ArraySamples
    >>> rows = TurnedSamples(ArraySamples([[1.0, 2.0]]), np.array([False, True]), {0: (1.0, 1.5)})
    >>> [block.values.tolist() for block in rows.blocks()]
    [[[1.5, -2.0]]]
    """

    def __init__(
        self,
        samples: Samples,
        mirrored: BoolArray,
        lifted: Mapping[int, tuple[float, float]] | None = None,
        floor: FloatArray | None = None,
    ) -> None:
        super().__init__(samples)
        self._sign, self._lifted, self._floor = np.where(mirrored, -1.0, 1.0), dict(lifted or {}), floor
        self.mirrored = tuple(np.asarray(mirrored).tolist())

    def blocks(self) -> Iterator[Block]:
        for block in self._samples.blocks():
            values = block.values * self._sign.astype(block.values.dtype)
            for column, (limit, floor) in self._lifted.items():
                values[values[:, column] <= limit, column] = floor
            yield self._marked(replace(block, values=values))

    def _marked(self, block: Block) -> Block:
        if block.beyond is None:
            return block
        values, beyond = block.values, block.beyond * self._sign.astype(np.int8)
        if self._floor is not None:
            floored = (values >= least_allowed(self._floor, values)) | ((values == 0.0) & (self._floor > 0.0))
            at = floored & (beyond == 0) & (values <= seen_above(self._floor, values)) & np.isfinite(self._floor)
            values, beyond = np.where(at, self._floor.astype(values.dtype), values), np.where(at, np.int8(-1), beyond)
        return replace(block, values=values, beyond=beyond)
