"""Short tables are read once: their rows stay in memory, whatever asks for them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from unrelu.contracts import Block, Samples
from unrelu.passes.rows import Rows, RowsOf, as_rows

MOST_CELLS = 2**21


class HeldSamples(RowsOf):
    """The rows of ``samples`` in the ``held`` blocks that all of them fit into."""

    def __init__(self, samples: Samples, held: list[Block]) -> None:
        super().__init__(samples)
        self._held = held

    @property
    def n_rows(self) -> int:
        return sum(len(block.values) for block in self._held)

    def blocks(self) -> Iterator[Block]:
        return iter(self._held)

    # What else is known of the rows, and what makes others of them, is the samples' own.

    def ids(self) -> dict[str, list[str]]:
        return self._samples.ids()

    def weighted(self, weights: Any) -> Samples:
        return self._samples.weighted(weights)

    def split_column(self, name: str | int) -> tuple[Samples, NDArray[Any]]:
        return self._samples.split_column(name)


def held(samples: Any, most: int = MOST_CELLS) -> Any:
    """Rows that are read in blocks in memory, if they have no more cells than that and are read in this process.

    Anything else as it is.

    >>> from unrelu.tables import ArraySamples
    >>> rows = ArraySamples([[1.0], [2.0]], block_rows=1)
    >>> held(rows).n_rows, held(rows, most=1) is rows
    (2, True)
    """
    samples = as_rows(samples)
    if not isinstance(samples, Rows) or samples.in_memory or samples.read_once:
        return samples
    if samples.source.engine is not None or (samples.n_rows or 0) * samples.n_features > most:
        return samples
    blocks: list[Block] = []
    cells = 0
    for block in samples.blocks():
        cells += block.values.size
        if cells > most:
            return samples
        blocks.append(block)
    return HeldSamples(samples, blocks)
