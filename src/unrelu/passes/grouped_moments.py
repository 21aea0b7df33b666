"""Pair moments of groups of rows, kept apart: what a jackknife over groups needs, from one pass.

Rows are dealt to groups by a fixed hash of their number (random, not in turn: a sorted table would otherwise be
stratified and its errors too small), or belong to groups by their labels. Labels stay apart while there are few of
them; many are dealt to the groups by a hash of their text, so that rows with one label stay together. Either way
the groups depend on numbers and labels alone: any split of the rows gives the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Block, BoolArray
from unrelu.errors import InvalidParameterError
from unrelu.passes.column_groups import Columns
from unrelu.passes.pair_moments import PairMoments, PairMomentsQuestion
from unrelu.passes.subsample import row_keys

GROUPS = 20
_MOST_APART = 60  # labels: three a group on average leave hardly a group empty
_MOST_CELLS = 2**27  # of the four matrices of all labels together; beyond it labels are dealt sooner
_RUN_CELLS, _RUN_ROWS = 2**24, 2**18  # rows from which those of each group are gathered: enough for many full tiles

Index = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class GroupedMoments:
    """The record of every group that has rows, in the order of their ``labels``: texts, or numbers of dealt groups."""

    labels: tuple[str | int, ...]
    parts: tuple[PairMoments, ...]
    by_label: bool
    n_groups: int = GROUPS

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
        return _joined(self.parts)

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
        numbers = [_group_of(str(label), self.n_groups) for label in self.labels]
        empty = replace(self, labels=(), parts=())
        return empty._grown(zip(numbers, self.parts, strict=True))

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
            record = record._grown(self._parts(block, index[start : start + run], labels, start))
        return record

    def _parts(
        self, block: Block, index: Index, labels: Sequence[str | int], start: int
    ) -> Iterator[tuple[str | int, PairMoments]]:
        """The records of the groups in one run of rows, each from rows gathered side by side."""
        short = index.astype(np.int16) if len(labels) < 2**15 else index  # sorted by radix
        order = start + np.argsort(short, kind="stable")
        sizes = np.bincount(index, minlength=len(labels))
        ends = np.cumsum(sizes)
        for group in np.flatnonzero(sizes).tolist():
            rows = order[ends[group] - sizes[group] : ends[group]]
            weights = None if block.weights is None else block.weights[rows]
            part = self.question(Block(block.values[rows], weights=weights))
            yield labels[group], replace(part, screening=part.screening.numbered(block.first_row + rows))


@dataclass(frozen=True)
class AllButGroup:
    """The rows outside one group of a :class:`GroupedMoments`, by its label there."""

    label: str | int
    n_groups: int = GROUPS

    def of(self, block: Block) -> BoolArray:
        """Which rows of the block these are."""
        if isinstance(self.label, str):
            assert block.groups is not None, "rows that come with labels keep them"
            labels = block.groups.labels
            return np.asarray(block.groups.index != (labels.index(self.label) if self.label in labels else -1))
        if block.groups is None:
            return np.asarray(_groups_of(block, self.n_groups)[0] != self.label)
        return np.asarray(_groups_of_labels(block.groups.labels, self.n_groups)[block.groups.index] != self.label)


def whole_of(record: PairMoments | GroupedMoments) -> PairMoments:
    """The record of all rows, whether they are in groups or not."""
    return record.whole if isinstance(record, GroupedMoments) else record


def most_apart(n_features: int) -> int:
    """Labels that are kept apart: as many as fit in memory, between the usual number of groups and three times it.

    >>> most_apart(50), most_apart(1000), most_apart(5000)
    (60, 33, 20)
    """
    return min(max(_MOST_CELLS // (4 * n_features**2), GROUPS), _MOST_APART)


def _groups_of(block: Block, n_groups: int, rows_before: int = 0) -> tuple[Index, Sequence[str | int]]:
    """The group of every row, as a position in a list of labels."""
    if block.groups is None:
        first = rows_before + block.first_row
        keys = row_keys(0, np.arange(first, first + len(block.values)))
        return (keys % np.uint64(n_groups)).astype(np.int64), range(n_groups)
    index, labels = block.groups.index, block.groups.labels
    present = np.flatnonzero(np.bincount(index, minlength=len(labels)))
    if len(present) <= most_apart(block.values.shape[1]):
        return index, labels
    return _groups_of_labels(labels, n_groups)[index], range(n_groups)


@lru_cache(maxsize=4)
def _groups_of_labels(labels: tuple[str, ...], n_groups: int) -> NDArray[np.int64]:
    return np.array([_group_of(label, n_groups) for label in labels], dtype=np.int64)


def _group_of(label: str, n_groups: int) -> int:
    digest = blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % n_groups


def _joined(parts: Sequence[PairMoments]) -> PairMoments:
    return reduce(PairMoments.merge, parts)


def _left_out(parts: Sequence[PairMoments], others: tuple[PairMoments, ...]) -> Iterator[PairMoments]:
    """For each of ``parts`` the record of all the rest and ``others``: halves, so that G groups take G log G merges."""
    if len(parts) == 1:
        yield from others
        return
    first, second = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    yield from _left_out(first, (_joined((*others, *second)),))
    yield from _left_out(second, (_joined((*others, *first)),))
