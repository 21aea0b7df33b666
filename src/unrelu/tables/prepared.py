"""The limits and margins of a table's columns, and its rows as learners take them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, BoolArray, CellLimits, FloatArray, Samples
from unrelu.errors import InvalidDataError
from unrelu.kernels.columns import interpolate
from unrelu.limits import lifts
from unrelu.margins import Margin, Margins, Monotone, latent_limits, refuse_outside
from unrelu.passes.engine import map_in_threads
from unrelu.passes.rows import RowsOf, as_rows
from unrelu.passes.tiles import least_allowed, reachable, screening_of, seen_above, without_absent
from unrelu.validation import column_label

_SMALLEST_LOG = 1e-290  # what a logarithm is taken of in full
_STEEPEST_LINE = 1e300  # slope: 0 times infinity is no number
_STEEPEST = 1e5  # log slope: whatever a margin makes of huge numbers
_COLUMNS, _ROWS = 8, 2**14  # of a table that are transposed at a time: a cache line of doubles, a core's cache
_SHORT = 2**21  # cells of a table that is read once, and then stays in memory


@dataclass(frozen=True, eq=False)
class Columns:
    """Limits and margins of the columns of a table, in the user's units; later tables are checked against them.

    ``floor`` and ``ceiling`` are infinite for columns without one, and no column has both. ``tolerance`` is the noise
    after the floor, ``stated`` are limits in the table's cells. ``margins`` is None where all are normal.
    """

    floor: Annotated[FloatArray, "unbounded floats d"]
    ceiling: Annotated[FloatArray, "unbounded floats d"]
    names: Annotated[tuple[str, ...], "d"] | None = None
    tolerance: float = 0.0
    margins: Annotated[Margins, "d"] | None = None
    stated: CellLimits | None = None

    @cached_property
    def negated(self) -> BoolArray:
        """Columns with a ceiling, which are learned negated."""
        return np.asarray(self.ceiling < np.inf)

    @cached_property
    def sign(self) -> FloatArray:
        return np.where(self.negated, -1.0, 1.0)

    @cached_property
    def plain(self) -> Assumptions:
        """The assumptions about rows in the user's units, columns with a ceiling negated."""
        return Assumptions(
            tuple(np.where(self.negated, -self.ceiling, self.floor).tolist()),
            floor_tolerance=self.tolerance,
            negated=tuple(self.negated.tolist()) if self.negated.any() else (),
        )

    @cached_property
    def assumptions(self) -> Assumptions:
        """The assumptions about rows of latent values."""
        if self.margins is None:
            return self.plain
        floor, ceiling = self.latent_limits
        latent = tuple(np.where(self.negated, -ceiling, floor).tolist())
        return replace(self.plain, floor=latent, margins=self.margins)

    @cached_property
    def latent_limits(self) -> tuple[FloatArray, FloatArray]:
        return latent_limits(self.margins or (), self.floor, self.ceiling)

    def latent(self, x: NDArray[np.floating[Any]]) -> FloatArray:
        """Rows of latent values; a cell at or outside its limit, up to rounding, holds the latent limit."""
        limits = (*self.latent_limits, seen_above(self.floor, x), -seen_above(-self.ceiling, x))
        columns, y = list(zip(self.margins or (), *limits, strict=True)), np.empty(x.shape)

        def fill(at: tuple[slice, slice]) -> None:
            some = np.array(x[at].T, dtype=np.float64, order="C")
            for values, column in zip(some, columns[at[1]], strict=True):
                values[:] = _latent(values, *column)
            y[at] = some.T

        n, d = x.shape
        firsts = [(row, column) for row in range(0, n, _ROWS) for column in range(0, d, _COLUMNS)]
        map_in_threads(fill, [(slice(i, i + _ROWS), slice(j, j + _COLUMNS)) for i, j in firsts])
        return y

    def log_slopes(self, x: NDArray[np.floating[Any]]) -> FloatArray:
        """Per row, the sum of log dy/dx over the cells between their limits."""
        total, between = np.zeros(len(x)), self._between(x)
        for j, margin in enumerate(self.margins or ()):
            at = between[:, j]
            total[at] += finite_slopes(margin, x[at, j])
        return total

    def refuse_outside(self, x: NDArray[np.floating[Any]]) -> None:
        """Raise InvalidDataError for a cell for which its column's margin is not defined."""
        smallest = np.min(x, axis=0, where=self._between(x), initial=np.inf)
        for j, margin in enumerate(self.margins or ()):
            label = column_label(j, self.names)
            if margin.kind == "log" and 0.0 < smallest[j] < _SMALLEST_LOG:
                raise InvalidDataError(
                    f"margins='log' of {label}: a value of {smallest[j]:g} is too small. Multiply the column by a"
                    " constant."
                )
            limits = (float(self.floor[j]), float(self.ceiling[j]))
            refuse_outside(margin, limits, float(smallest[j]), label, by_parts=True)

    def _between(self, x: NDArray[np.floating[Any]]) -> BoolArray:
        return np.asarray((x > seen_above(self.floor, x)) & (x < -seen_above(-self.ceiling, x)))


def finite_slopes(margin: Margin, x: NDArray[np.floating[Any]]) -> FloatArray:
    """log dy/dx of values of any size, as numbers.

    >>> finite_slopes(Monotone(np.array([0.0, 1.0]), np.array([0.0, 1.0])), np.array([1e300]))
    array([0.])
    """
    with np.errstate(over="ignore"):
        return np.clip(margin.log_slope(x), -_STEEPEST, _STEEPEST)


def _latent(x: FloatArray, margin: Margin, low: float, high: float, seen_above: float, seen_below: float) -> FloatArray:
    """A column's latent values; cells at or outside a limit hold it."""
    with np.errstate(over="ignore"):
        if isinstance(margin, Monotone):  # margin.to_latent(x), bit by bit, by a kernel
            y = np.empty(len(x))
            slopes = np.minimum(np.diff(margin.scores) / np.diff(margin.values), _STEEPEST_LINE)
            interpolate(x, margin.values, margin.scores, slopes, y)
            y = margin.continued(x, y)
        else:
            y = margin.to_latent(x)
        y = np.clip(y, low, high)
    np.copyto(y, low, where=x <= seen_above)
    np.copyto(y, high, where=x >= seen_below)
    return y


class PreparedRows(RowsOf):
    """The rows of ``samples`` as the learners take them; ``_convert`` has the steps in their order.

    ``view``: "latent" values, by the columns' margins; or the user's numbers, "negated" in columns with a ceiling, or
    "original", screened. The rows are new to the model, unless it is fitted to them (``learning``) or was
    (``screened``: they have been read before, and need no screening). ``changes``: without margins, cells change.
    """

    def __init__(
        self,
        samples: Samples,
        columns: Columns,
        view: str = "latent",
        *,
        learning: bool = False,
        screened: bool = False,
    ) -> None:
        super().__init__(samples)
        self._columns, self._view, self._learning, self._screened = columns, view, learning, screened
        self._new = not (learning or screened)
        self._lifted = lifts(samples.limits, columns.floor, self.feature_names)
        self.changes = bool(columns.negated.any() or self._lifted or samples.limits_by_cell)

    def _convert(self, block: Block) -> Block:
        columns, negated = self._columns, self._columns.negated.any()
        if self.changes:
            block = self._negated(block)
        if self._view == "negated":
            return block
        values = without_absent(block.values, block.weights)
        if not self._screened:
            values = self._screen(block, values)
        x = values * columns.sign.astype(values.dtype) if negated else values
        if self._view == "original":
            censoring = None if block.censoring is None else block.censoring * columns.sign.astype(np.int8)
            return replace(block, values=x, censoring=censoring)
        if self._learning:
            columns.refuse_outside(x)
        y = columns.latent(x) * columns.sign if negated else columns.latent(x)
        return replace(block, values=reachable(y) if self._new else y)

    def _negated(self, block: Block) -> Block:
        """The block with columns negated that have a ceiling, which so becomes a floor.

        Cells at a limit of the table below a higher floor hold that floor; where single cells have limits, those at
        their column's floor are marked, too.
        """
        values = block.values * self._columns.sign.astype(block.values.dtype)
        for column, (limit, floor) in self._lifted.items():
            values[values[:, column] <= limit, column] = floor
        if block.censoring is None:
            return replace(block, values=values)
        censoring, level = block.censoring * self._columns.sign.astype(np.int8), np.array(self._columns.plain.floor)
        floored = (values >= least_allowed(level, values)) | ((values == 0.0) & (level > 0.0))
        at = floored & (censoring == 0) & (values <= seen_above(level, values)) & np.isfinite(level)
        values, censoring = np.where(at, level.astype(values.dtype), values), np.where(at, np.int8(-1), censoring)
        return replace(block, values=values, censoring=censoring)

    def _screen(self, block: Block, values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """The values; raises for infinite cells and cells outside a limit.

        In new rows a cell for which a margin is not defined is as far away as can be.
        """
        plain = self._columns.plain
        screening = screening_of(replace(block, values=values), plain.lowest)
        if self._new and screening.large_count.any():
            values = reachable(values)
            screening = screening_of(replace(block, values=values), plain.lowest)
        screening.check(plain, self.feature_names)
        return values

    def log_slopes(self) -> Any:
        if self._view != "latent":
            return 0.0
        how = {"learning": self._learning, "screened": self._screened}
        blocks = PreparedRows(self._samples, self._columns, "original", **how).blocks()
        seen = (b.values if b.censoring is None else np.where(b.censoring == 0, b.values, np.nan) for b in blocks)
        return np.concatenate([self._columns.log_slopes(values) for values in seen])


def prepared(samples: Samples, columns: Columns, *, learning: bool = False, screened: bool = False) -> Samples:
    """The rows as learners take them; the samples themselves where nothing changes."""
    if columns.margins is not None:
        return PreparedRows(samples, columns, learning=learning, screened=screened)
    rows = PreparedRows(samples, columns, "negated")
    return rows if rows.changes else samples


def total_log_slope(samples: Samples, columns: Columns) -> float:
    """The weighted sum of log dy/dx over the rows of a fit: log density in the user's units less the latent one."""
    weights = [np.ones(len(b.values)) if b.weights is None else b.weights for b in samples.blocks()]
    slopes = PreparedRows(samples, columns, screened=True).log_slopes()
    return float(np.nansum(slopes * np.concatenate(weights)))


class HeldSamples(RowsOf):
    """The rows of ``samples``, kept in memory as the blocks ``held``."""

    def __init__(self, samples: Samples, held: list[Block]) -> None:
        super().__init__(samples)
        self._held = held

    @property
    def n_rows(self) -> int:
        return sum(len(block.values) for block in self._held)

    def blocks(self) -> Iterator[Block]:
        return iter(self._held)

    def ids(self) -> dict[str, list[str]]:
        return self._samples.ids()

    def weighted(self, weights: Any) -> Samples:
        return self._samples.weighted(weights)

    def split_column(self, name: str | int) -> tuple[Samples, NDArray[Any]]:
        return self._samples.split_column(name)


def held(samples: Any, most: int = _SHORT) -> Any:
    """Rows of at most so many cells that this process reads in blocks, kept in memory; anything else as it is."""
    samples = as_rows(samples)
    if not isinstance(samples, Samples) or samples.in_memory or samples.read_once:
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


def as_stored(levels: FloatArray, stored_as: Any) -> FloatArray:
    """Limits as the table's type has them: what is read as float32 may have been rounded to fewer digits."""
    if callable(stored_as):  # rows of a device, whose types NumPy need not know
        return np.asarray(stored_as(levels))
    short = getattr(stored_as, "itemsize", 8) == 2
    return levels.astype(stored_as).astype(np.float64) if short else levels


def names_of(table: Any) -> Sequence[str] | None:
    """The names of a data frame's columns, where all are texts."""
    labels = list(getattr(table, "columns", ()))
    return labels if labels and all(isinstance(label, str) for label in labels) else None
