"""One pass over the rows: how many cells are at a limit or missing, and a random sample of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray
from unrelu.posterior.cells import Cells, SampledCells

_MOST_ROWS, _MOST_CELLS, _FEWEST_ROWS = 20_000, 10_000_000, 2_000  # of the sample


@dataclass(frozen=True, eq=False)
class Looked:
    """A sample of the rows with their numbers in the table (from 0), and counts over all rows, per column."""

    sample: SampledCells
    floored: NDArray[np.int64]
    at_ceiling: NDArray[np.int64]
    missing: NDArray[np.int64]

    @classmethod
    def at(cls, blocks: Iterable[Cells], n_features: int, seed: int) -> Looked:
        """All rows, block by block."""
        counts = np.zeros((3, n_features), dtype=np.int64)

        def counted(block: Cells) -> Cells:
            missing = np.isnan(block.given)
            for count, which in zip(counts, (block.beyond < 0, block.beyond > 0, missing), strict=True):
                count += np.count_nonzero(which, axis=0)
            return block

        most = int(np.clip(_MOST_CELLS // n_features, _FEWEST_ROWS, _MOST_ROWS))
        sample = SampledCells.of(map(counted, blocks), most, seed)
        return cls(sample, *counts)

    @property
    def n_rows(self) -> int:
        return self.sample.n_rows

    @property
    def cells(self) -> Cells:
        return self.sample.cells

    @property
    def known(self) -> NDArray[np.int64]:
        """Rows that say something of a column."""
        return np.asarray(self.n_rows - self.missing)

    def facts(self) -> dict[str, Any]:
        """Counts over the whole table."""
        cells = self.n_rows * len(self.missing)
        hidden = {"floored": self.floored, "at_ceiling": self.at_ceiling, "missing": self.missing}
        return {
            "n_rows": self.n_rows,
            "n_columns": len(self.missing),
            **{f"share_{name}": float(count.sum()) / cells for name, count in hidden.items()},
            "n_looked_at": len(self.cells.given),
        }

    def first(self, rows: int) -> Cells:
        """So many rows of the sample: they are in the order of the table, so they are taken evenly."""
        n = len(self.cells.given)
        return self.cells if n <= rows else self.cells.of_rows(np.linspace(0, n - 1, rows).round().astype(np.intp))


def known_values(cells: Cells, column: int) -> tuple[FloatArray, FloatArray]:
    """(all values that are not missing, those off their limits) of a column."""
    values = cells.given[:, column]
    return values[~np.isnan(values)], values[~cells.hidden[:, column]]
