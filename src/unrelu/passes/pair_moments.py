"""The record of the one-pass learner: for every pair of columns, sums over the rows above both floors.

With P = 1{x > floor} and t = x - origin above the floor, 0 elsewhere, the record keeps four d x d sums:

    count  N = P'P      cross  C = T'T      masked_sum  A = T'P      masked_square  Q = (T*T)'P

so A_ij is the sum of t_i over rows with x_j above its floor. ``origin`` is bookkeeping per column: it keeps the
sums accurate for columns far from zero. Merging re-expresses both records about their common mean, which is
exact algebra, so any split of the rows gives the same record up to rounding.

Row weights multiply one factor of each product. Where values are missing the four products are also kept
against O = 1{observed}, so that each pair can use the rows that observe both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from hashlib import blake2b
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, Block, BoolArray, FloatArray
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.passes.columns import ColumnMargins
from unrelu.passes.engine import joined_in_threads, one_blas_thread
from unrelu.passes.limit_sums import LimitSums
from unrelu.passes.pair_sums import (
    Frame,
    PairSums,
    SparseSums,
    as_if_observed,
    dense_rows,
    runs,
    sparse_runs,
    tile_height,
)
from unrelu.passes.rows import SparseBlock
from unrelu.passes.tiles import Screening, row_keys, tiles

_BYTES_A_PAIR = 300  # while two records merge, where cells are missing; 145 where none is
_SUMS = ("count", "cross", "masked_sum", "masked_square")
P = TypeVar("P")
Columns = NDArray[np.intp]  # positions of some columns, in rising order


@dataclass(frozen=True, eq=False)
class ObservedMoments:
    """Sums over the rows that observe column j: of 1 (``count``), and of P, t, t^2 of column i.

    ``squared_weight`` is the sum of w^2 over rows that observe both.
    """

    count: Annotated[FloatArray, "floats d d"]
    squared_weight: Annotated[FloatArray, "floats d d"]
    above: Annotated[FloatArray, "floats d d"]
    total: Annotated[FloatArray, "floats d d"]
    square: Annotated[FloatArray, "floats d d"]


@dataclass(frozen=True, eq=False)
class PairMoments:
    """See the module's text. ``weight`` and ``squared_weight`` are the sums of w and w^2 over rows.

    ``margins``: sums that test floors and normal distributions; None in records of files that did not keep them.
    ``limits``: of rows whose censored cells are marked, one by one; a value "above the floor" is then one that was
    seen.
    """

    floor: Annotated[FloatArray, "unbounded floats d"]
    n_rows: int
    weight: Annotated[float, "finite"]
    squared_weight: Annotated[float, "finite"]
    origin: Annotated[FloatArray, "floats d"]
    count: Annotated[FloatArray, "floats d d"]
    cross: Annotated[FloatArray, "floats d d"]
    masked_sum: Annotated[FloatArray, "floats d d"]
    masked_square: Annotated[FloatArray, "floats d d"]
    observed: ObservedMoments | None
    screening: Screening
    margins: ColumnMargins | None = None
    limits: LimitSums | None = None

    @classmethod
    def of_sums(cls, floor: FloatArray, n_rows: int, frame: Frame, sums: PairSums) -> Self:
        """From finished sums over so many rows."""
        observed = None
        if sums.observed is not None:
            (count,), (squared_weight,), (total, square, above) = sums.observed
            observed = ObservedMoments(count, squared_weight, above, total, square)
        return cls(
            floor=floor,
            n_rows=n_rows,
            weight=sums.weight,
            squared_weight=sums.squared_weight,
            origin=frame.origin,
            count=sums.count[0],
            cross=sums.cross[0],
            masked_sum=sums.powers[0],
            masked_square=sums.powers[1],
            observed=observed,
            screening=sums.screening,
            margins=sums.margins,
            limits=sums.limits,
        )

    @property
    def n_features(self) -> int:
        return len(self.origin)

    @property
    def effective_rows(self) -> float:
        """Kish's number of rows, (sum w)^2 / sum w^2; all of them without weights."""
        return self.weight**2 / self.squared_weight if self.squared_weight > 0.0 else 0.0

    @property
    def column_weight(self) -> FloatArray:
        """Total weight of the rows that observe each column."""
        if self.observed is None:
            return np.full(self.n_features, self.weight)
        return self.observed.count.diagonal().copy()

    @property
    def column_rows(self) -> FloatArray:
        """Effective number of the rows that observe each column."""
        if self.observed is None:
            return np.full(self.n_features, self.effective_rows)
        squared = self.observed.squared_weight.diagonal()
        return np.divide(self.column_weight**2, squared, out=np.zeros(self.n_features), where=squared > 0.0)

    def flat_sums(self) -> list[FloatArray]:
        """What :func:`unrelu.kernels.pair_solver.sample_statistics` takes."""
        o, sums = self.observed, [self.count, self.cross, self.masked_sum, self.masked_square]
        return [each.ravel() for each in (sums if o is None else [*sums, o.above, o.total, o.square])]

    def positive_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Per column, over values above the floor: total weight, mean, variance (0 where there are none)."""
        count = self.count.diagonal().copy()
        safe = np.where(count > 0.0, count, 1.0)
        shift = self.masked_sum.diagonal() / safe
        spread = np.maximum(self.masked_square.diagonal() / safe - shift**2, 0.0)
        return count, self.origin + shift, spread

    def merge(self, other: Self) -> Self:
        """The record of both sets of rows."""
        if not np.array_equal(self.floor, other.floor):
            raise InvalidParameterError(
                "Rows learned with different floors cannot be joined: learn all of them with the same floor."
            )
        count1, mean1, _ = self.positive_moments()
        count2, mean2, _ = other.positive_moments()
        total = count1 + count2
        share = np.divide(count2, total, out=np.zeros_like(total), where=total > 0.0)
        origin = mean1 + share * (mean2 - mean1)
        first = self._about(origin)
        second = other._about(origin)
        observed = None
        if first.observed is not None or second.observed is not None:
            o1, o2 = first._observed_or_complete(), second._observed_or_complete()
            observed = ObservedMoments(**{name: each + vars(o2)[name] for name, each in vars(o1).items()})
        return type(self)(
            floor=self.floor,
            n_rows=self.n_rows + other.n_rows,
            weight=self.weight + other.weight,
            squared_weight=self.squared_weight + other.squared_weight,
            origin=origin,
            **{name: getattr(first, name) + getattr(second, name) for name in _SUMS},
            observed=observed,
            screening=self.screening.merge(other.screening),
            margins=None if self.margins is None or other.margins is None else self.margins.merge(other.margins),
            limits=first._joined_limits(second),
        )

    def _joined_limits(self, other: Self) -> LimitSums | None:
        """The limits of both sets of rows; rows without censored cells have none, and need none."""
        if self.limits is None and other.limits is None:
            return None
        both = []
        for record in (self, other):
            if record.limits is None and np.any(record.count.diagonal() < record.column_weight):
                raise InvalidParameterError(
                    "Rows whose cells have limits of their own, and rows with one floor a column: learn them together,"
                    " or give all of them limits by cell (floor= of the table's shape)."
                )
            both.append(LimitSums.none(self.n_features) if record.limits is None else record.limits)
        return both[0].merge(both[1])

    def scaled(self, factor: float) -> Self:
        """The record with every weight multiplied."""
        observed = self.observed
        if observed is not None:
            scaled = {name: factor * each for name, each in vars(observed).items()}
            observed = ObservedMoments(**(scaled | {"squared_weight": factor**2 * observed.squared_weight}))
        return replace(
            self,
            weight=factor * self.weight,
            squared_weight=factor**2 * self.squared_weight,
            **{name: factor * getattr(self, name) for name in _SUMS},
            observed=observed,
            margins=None if self.margins is None else self.margins.scaled(factor),
            limits=None if self.limits is None else self.limits.scaled(factor),
        )

    def rounded(self, least: int) -> Self:
        """The record for others to see: counts below ``least`` are 0, and so are the sums over those rows.

        A sum over one row is that row's value. Margins of columns are left out: they have extreme values.
        """
        own = self._about(self.positive_moments()[1])
        rare, observed = own.count < least, own.observed
        if observed is not None:
            few = observed.count < least
            rare, scarce = rare | few, few | (observed.above < least)
            observed = ObservedMoments(
                np.where(few, 0.0, observed.count),
                np.where(few, 0.0, observed.squared_weight),
                *(np.where(scarce, 0.0, each) for each in (observed.above, observed.total, observed.square)),
            )
        sums: dict[str, Any] = {name: np.where(rare, 0.0, getattr(own, name)) for name in _SUMS}
        origin = np.where(rare.diagonal(), 0.0, own.origin)
        limits = None if own.limits is None else own.limits.rounded(least)
        return replace(own, origin=origin, **sums, observed=observed, margins=None, limits=limits)

    def of_columns(self, at: NDArray[np.int64]) -> Self:
        """The record of some of the columns."""
        square, o = np.ix_(at, at), self.observed
        return replace(
            self,
            floor=self.floor[at],
            origin=self.origin[at],
            **{name: getattr(self, name)[square] for name in _SUMS},
            observed=None if o is None else replace(o, **{name: each[square] for name, each in vars(o).items()}),
            screening=_columns_of(self.screening, at),
            margins=None if self.margins is None else _columns_of(self.margins, at),
            limits=None if self.limits is None else self.limits.of_columns(at),
        )

    def _about(self, origin: FloatArray) -> Self:
        """The same sums about another origin: t' = t - shift."""
        shift = (origin - self.origin)[:, None]
        n, a, q = self.count, self.masked_sum, self.masked_square
        observed = self.observed
        if observed is not None:
            above, total = observed.above, observed.total
            square = observed.square - 2.0 * shift * total + shift**2 * above
            observed = replace(observed, total=total - shift * above, square=square)
        return replace(
            self,
            origin=origin,
            cross=self.cross - shift * a.T - shift.T * a + shift * shift.T * n,
            masked_sum=a - shift * n,
            masked_square=q - 2.0 * shift * a + shift**2 * n,
            observed=observed,
            limits=None if self.limits is None else self.limits.moved(shift[:, 0]),
        )

    def _observed_or_complete(self) -> ObservedMoments:
        """What ``observed`` would hold if it had been kept while no value was missing."""
        if self.observed is not None:
            return self.observed
        sums = self.count, self.masked_sum, self.masked_square
        return ObservedMoments(*as_if_observed(np, self.weight, self.squared_weight, *sums))


def _columns_of(part: P, at: NDArray[np.int64]) -> P:
    """Of a record whose arrays all end with the columns."""
    return replace(part, **{name: each[..., at] for name, each in vars(part).items()})  # type: ignore[type-var]


@dataclass(frozen=True)
class PairMomentsQuestion:
    """Ask a block of rows for its :class:`PairMoments`.

    ``floor``: values above it are taken for what they are; ``lowest``: values below it are out of place. One number per
    column each. ``margins``: whether to keep the sums of single columns as well, which diagnostics need.
    """

    floor: tuple[float, ...]
    lowest: tuple[float, ...]
    margins: bool = True

    @classmethod
    def under(cls, assumptions: Assumptions, margins: bool = True) -> Self:
        return cls(assumptions.censored_at, assumptions.lowest, margins)

    def of_columns(self, columns: Columns) -> Self:
        floor, lowest = (tuple(levels[j] for j in columns) for levels in (self.floor, self.lowest))
        return replace(self, floor=floor, lowest=lowest)

    def put_together(self, groups: Iterable[tuple[Columns, PairMoments]]) -> PairMoments:
        """The record of all columns, from those of groups of them that have every two columns together in one."""
        d = len(self.floor)
        sums: dict[str, Any] = {}
        seen: dict[str, Any] = {}
        floor, origin, incomplete = np.empty(d), np.full(d, np.nan), np.zeros((d, d), dtype=np.bool_)
        by_column: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for columns, record in groups:
            before = origin[columns]
            own = record._about(np.where(np.isnan(before), record.origin, before))
            floor[columns], origin[columns] = own.floor, own.origin
            four = {name: getattr(own, name) for name in _SUMS}
            _put(sums, four, columns, d, 2)
            if own.observed is not None:
                incomplete[np.ix_(columns, columns)] = True
                _put(seen, vars(own.observed), columns, d, 2)
            for into, part in zip(by_column, (own.screening, own.margins), strict=True):
                _put(into, {} if part is None else vars(part), columns, d, 1)
        margins = ColumnMargins(**by_column[1]) if by_column[1] else None
        whole = replace(
            own, floor=floor, origin=origin, **sums, observed=None, screening=Screening(**by_column[0]), margins=margins
        )
        if not seen:
            return whole
        for name, complete in vars(whole._observed_or_complete()).items():
            np.copyto(seen[name], complete, where=~incomplete)
        return replace(whole, observed=ObservedMoments(**seen))

    def bytes_held(self, n_features: int) -> int:
        return _BYTES_A_PAIR * n_features**2

    def __call__(self, block: Block) -> PairMoments:
        floor, lowest = np.array(self.floor), np.array(self.lowest)
        n, d = block.n_rows, len(floor)
        margins = self.margins and block.censoring is None
        with one_blas_thread():
            if isinstance(block, SparseBlock) and SparseSums.can_add(block, floor, lowest):
                frame = Frame(dense_rows(block, slice(0, tile_height(d))), floor, lowest, margins)
                parts = sparse_runs(block)
                sums: PairSums = joined_in_threads(frame.sparse_sums, parts, SparseSums.join)
            else:
                frame = Frame(next(tiles(block, tile_height(d))), floor, lowest, margins)
                sums = joined_in_threads(partial(frame.summed, block), runs(n, d), PairSums.join)
            return PairMoments.of_sums(floor, n, frame, sums.finished())


def _put(into: dict[str, Any], arrays: Mapping[str, Any], columns: Columns, d: int, axes: int) -> None:
    """Put arrays whose last ``axes`` are some columns where these belong among all d."""
    at = (..., columns) if axes == 1 else np.ix_(columns, columns)
    for name, part in arrays.items():
        into.setdefault(name, np.empty(part.shape[:-axes] + (d,) * axes, part.dtype))[at] = part


# --- groups of rows, kept apart: what a jackknife over groups needs, from one pass ----------------
# Rows are dealt to groups by a fixed hash of their number (random, not in turn: a sorted table would otherwise be
# stratified and its errors too small), or belong to groups by their labels. Labels stay apart while there are few of
# them; many are dealt to the groups by a hash of their text, so that rows with one label stay together. Either way
# the groups depend on numbers and labels alone: any split of the rows gives the same ones.

GROUPS = 20
_MOST_APART = 60  # labels: three a group on average leave hardly a group empty
_MOST_CELLS = 2**27  # of the four matrices of all labels together; beyond it labels are dealt sooner
_RUN_CELLS, _RUN_ROWS = 2**24, 2**18  # rows from which those of each group are gathered: enough for many full tiles

Index = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class GroupedMoments:
    """The record of every group that has rows, in the order of their ``labels``: texts, or numbers of dealt groups."""

    labels: Annotated[tuple[int | str, ...], "g"]
    parts: Annotated[tuple[PairMoments, ...], "g"]
    by_label: bool
    n_groups: int = GROUPS

    def __post_init__(self) -> None:
        if len({part.n_features for part in self.parts}) > 1:
            raise InvalidDataError("its groups are not all of the same columns")
        if len({isinstance(label, str) for label in self.labels}) > 1:
            raise InvalidDataError("its labels are neither all texts nor all numbers")

    @property
    def n_features(self) -> int:
        return self.parts[0].n_features

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.parts)

    @property
    def effective_groups(self) -> float:
        """How many groups of equal weight would count as much: (sum w)^2 / sum w^2."""
        weights = np.array([part.weight for part in self.parts])
        return float(weights.sum() ** 2 / (weights @ weights)) if weights.any() else 0.0

    @cached_property
    def whole(self) -> PairMoments:
        """The record of all rows."""
        return reduce(PairMoments.merge, self.parts)

    def left_out(self) -> Iterator[PairMoments]:
        """For every group in turn the record of all others; at most a few of them are in memory at once."""
        return _left_out(self.parts, ())

    def merge(self, other: Self) -> Self:
        """The record of both sets of rows, group by group."""
        if (self.by_label, self.n_groups) != (other.by_label, other.n_groups):
            raise InvalidParameterError(
                "Rows with groups= and rows without cannot be joined: give groups= for all of them or for none."
            )
        every = set(self.labels) | set(other.labels)
        dealt = any(isinstance(label, int) for label in every) or len(every) > most_apart(self.n_features)
        first, second = (record._dealt() if dealt else record for record in (self, other))
        return first._grown(zip(second.labels, second.parts, strict=True))

    def _dealt(self) -> Self:
        """With labels dealt to groups."""
        if isinstance(self.labels[0], int):
            return self
        numbers = _groups_of_labels(tuple(map(str, self.labels)), self.n_groups).tolist()
        return replace(self, labels=(), parts=())._grown(zip(numbers, self.parts, strict=True))

    def _grown(self, more: Any) -> Self:
        parts = dict(zip(self.labels, self.parts, strict=True))
        for label, part in more:
            parts[label] = parts[label].merge(part) if label in parts else part
        labels = sorted(parts, key=lambda label: (str(type(label)), label))
        return replace(self, labels=tuple(labels), parts=tuple(parts[label] for label in labels))


@dataclass(frozen=True)
class GroupedMomentsQuestion:
    """Ask a block of rows for the :class:`PairMoments` of every group; ``rows_before`` were seen earlier."""

    question: PairMomentsQuestion
    n_groups: int = GROUPS
    rows_before: int = 0

    def of_columns(self, columns: Columns) -> Self:
        return replace(self, question=self.question.of_columns(columns))

    def put_together(self, groups: Iterable[tuple[Columns, GroupedMoments]]) -> GroupedMoments:
        d = len(self.question.floor)
        # Fewer columns have more labels apart: all of them decide.
        held = [
            (columns, record._dealt() if len(record.labels) > most_apart(d) else record) for columns, record in groups
        ]
        first = held[0][1]
        parts = zip(*(record.parts for _, record in held), strict=True)
        whole = [self.question.put_together(zip((at for at, _ in held), some, strict=True)) for some in parts]
        return replace(first, parts=tuple(whole))

    def bytes_held(self, n_features: int) -> int:
        return self.n_groups * self.question.bytes_held(n_features)

    def __call__(self, block: Block) -> GroupedMoments:
        index, labels = _groups_of(block, self.n_groups, self.rows_before)
        record = GroupedMoments((), (), block.groups is not None, self.n_groups)
        run = min(_RUN_CELLS // block.values.shape[1], _RUN_ROWS)
        for start in range(0, len(index), run):
            some = index[start : start + run]
            short = some.astype(np.int16) if len(labels) < 2**15 else some  # sorted by radix
            order = start + np.argsort(short, kind="stable")
            ends = np.cumsum(np.bincount(some, minlength=len(labels)))
            found = []
            for group in np.unique(some).tolist():
                rows = order[ends[group - 1] if group else 0 : ends[group]]  # gathered side by side
                weights = None if block.weights is None else block.weights[rows]
                gathered = Block(block.values[rows], weights=weights)
                if block.censoring is not None:
                    upper = None if block.upper is None else block.upper[rows]
                    gathered = replace(gathered, censoring=block.censoring[rows], upper=upper)
                part = self.question(gathered)
                part = replace(part, screening=part.screening.numbered(block.first_row + rows))
                found.append((labels[group], part))
            record = record._grown(found)
        return record


@dataclass(frozen=True)
class AllButGroup:
    """The rows outside one group of a :class:`GroupedMoments`, by its label there."""

    label: str | int
    n_groups: int = GROUPS

    def of(self, block: Block) -> BoolArray:
        """Which rows of the block these are."""
        index, labels = _groups_of(block, self.n_groups, dealt=not isinstance(self.label, str))
        return np.asarray(index != (labels.index(self.label) if self.label in labels else -1))


def whole_of(record: PairMoments | GroupedMoments) -> PairMoments:
    """The record of all rows, whether they are in groups or not."""
    return record.whole if isinstance(record, GroupedMoments) else record


def most_apart(n_features: int) -> int:
    """Labels that are kept apart: as many as fit in memory, between the usual number of groups and three times it."""
    return min(max(_MOST_CELLS // (4 * n_features**2), GROUPS), _MOST_APART)


def _groups_of(
    block: Block, n_groups: int, rows_before: int = 0, dealt: bool = False
) -> tuple[Index, Sequence[str | int]]:
    """The group of every row, as a position in a list of labels; those of many labels, or if ``dealt``, are dealt."""
    if block.groups is None:
        first = rows_before + block.first_row
        keys = row_keys(0, np.arange(first, first + len(block.values)))
        return (keys % np.uint64(n_groups)).astype(np.int64), range(n_groups)
    index, labels = block.groups.index, block.groups.labels
    present = np.flatnonzero(np.bincount(index, minlength=len(labels)))
    if len(present) <= most_apart(block.values.shape[1]) and not dealt:
        return index, labels
    return _groups_of_labels(labels, n_groups)[index], range(n_groups)


@lru_cache(maxsize=4)
def _groups_of_labels(labels: tuple[str, ...], n_groups: int) -> NDArray[np.int64]:
    digests = (blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest() for label in labels)
    return np.array([int.from_bytes(digest, "big") % n_groups for digest in digests], dtype=np.int64)


def _left_out(parts: Sequence[PairMoments], others: tuple[PairMoments, ...]) -> Iterator[PairMoments]:
    """For each of ``parts`` the record of all the rest and ``others``: halves, so that G groups take G log G merges."""
    if len(parts) == 1:
        yield from others
        return
    first, second = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    yield from _left_out(first, (reduce(PairMoments.merge, (*others, *second)),))
    yield from _left_out(second, (reduce(PairMoments.merge, (*others, *first)),))
