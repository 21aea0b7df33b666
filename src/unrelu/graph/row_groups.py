"""Latent correlations of subsets of the rows, from the records of groups of rows: no row is read again."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from unrelu.contracts import Assumptions, FloatArray, PairCorrelations, Step, Watch
from unrelu.errors import InvalidDataError, UnreluWarning
from unrelu.fit.covariance import assemble
from unrelu.fit.one_pass import Names, fit_record
from unrelu.passes.engine import available_cores, map_in_threads
from unrelu.passes.pair_moments import GroupedMoments, PairMoments

SUBSETS = 20  # or halves, in pairs that have no row in common
_FEWEST_GROUPS = 6  # with fewer, subsets are much alike
_FEWEST_ROWS = 20  # in a subset
_FEWEST_VALUES = 2  # above the floor, of a column
_MANY_ROWS, _SHARE = 144, 0.8
_SUBSETS = "Looking at subsets of the rows"
_BY_COLUMN, _BY_PAIR = ("floor", "mirrored", "shapes"), ("correlation", "stderr")

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Records of groups of rows; ``near`` are correlations close to those of any subset; only ``columns`` matter."""

    record: GroupedMoments
    assumptions: Assumptions
    near: PairCorrelations
    columns: NDArray[np.intp]
    names: Names = None

    @property
    def weights(self) -> FloatArray:
        return np.array([part.weight for part in self.record.parts])

    def correlation(self, record: PairMoments) -> FloatArray:
        """Latent correlations of the rows of a record, semidefinite."""
        part = self._covariance(record)
        scale = np.sqrt(np.diagonal(part))
        if not np.all(scale > 0.0):
            raise InvalidDataError("A column does not vary.")
        return np.asarray(part / np.outer(scale, scale))

    def whole(self) -> FloatArray:
        return self.correlation(self.record.whole)

    def left_out(self, answer: Callable[[FloatArray], T], watch: Watch) -> list[T]:
        """What ``answer`` gives for the correlations without every group in turn."""
        n = len(self.record.parts)
        return list(self._each("Leaving out groups", self.record.left_out(), n, self._asked(answer), watch))

    def subsets(self, answer: Callable[[FloatArray], T], seed: int, watch: Watch) -> list[T]:
        """The same for random subsets of the groups, each with about 10 sqrt(n) of n rows."""
        self._check_subsets()
        chosen = self._chosen(np.random.default_rng(seed))
        try:
            return list(self._each(_SUBSETS, self._joined(chosen), SUBSETS, self._asked(answer), watch))
        except InvalidDataError as error:
            raise InvalidDataError(
                f"selection='stars' looks at subsets of the rows, and in one of them a column cannot be learned."
                f" {error} Otherwise use selection='auto', which needs no subsets."
            ) from error

    def halves(self, answer: Callable[[FloatArray, float], T], seed: int, watch: Watch) -> list[T]:
        """What ``answer`` gives for the correlations of random halves of the groups, and their shares of the rows.

        Each half is followed by the other one. A column that a half cannot tell is uncorrelated there. There are none
        where rows or groups are too few.
        """
        if self.record.n_rows < 2 * _FEWEST_ROWS or self.record.effective_groups < _FEWEST_GROUPS:
            return []
        total = float(self.weights.sum())

        def of_half(record: PairMoments) -> T:
            return answer(self._told(record), record.weight / total)

        chosen = self._in_halves(np.random.default_rng(seed))
        try:
            return list(self._each(_SUBSETS, self._joined(chosen), SUBSETS, of_half, watch))
        except InvalidDataError:  # a half has values that nobody can learn from
            return []

    def _told(self, record: PairMoments) -> FloatArray:
        """Latent correlations of some rows, semidefinite; 0 for columns that these rows cannot tell."""
        above = record.positive_moments()[0] / np.maximum(record.column_weight, np.finfo(float).tiny)
        enough = (above * record.column_rows > _FEWEST_VALUES - 0.5)[self.columns]
        told = np.eye(len(self.columns))
        if np.count_nonzero(enough) < 2:
            return told
        part = self if enough.all() else self._of_columns(self.columns[enough])
        covariance = part._covariance(record if enough.all() else record.of_columns(self.columns[enough]))
        scale = np.sqrt(np.diagonal(covariance))
        varies = scale > 0.0
        at = np.flatnonzero(enough)[varies]
        told[np.ix_(at, at)] = covariance[np.ix_(varies, varies)] / np.outer(scale[varies], scale[varies])
        return told

    def _covariance(self, record: PairMoments) -> FloatArray:
        rows, pairs = fit_record(record, self.assumptions, self.names, self.near)
        covariance, _ = assemble(rows.scale, pairs)
        return covariance[np.ix_(self.columns, self.columns)]

    def _of_columns(self, at: NDArray[np.intp]) -> Self:
        """What is asked of records of these columns alone."""
        assumed = self.assumptions
        some: dict[str, Any] = {
            name: tuple(getattr(assumed, name)[j] for j in at) for name in _BY_COLUMN if getattr(assumed, name)
        }
        near = replace(self.near, **{name: getattr(self.near, name)[np.ix_(at, at)] for name in _BY_PAIR})
        names = None if self.names is None else tuple(self.names[j] for j in at)
        return replace(self, assumptions=replace(assumed, **some), near=near, columns=np.arange(len(at)), names=names)

    def _asked(self, answer: Callable[[FloatArray], T]) -> Callable[[PairMoments], T]:
        return lambda record: answer(self.correlation(record))

    def _joined(self, chosen: Iterator[Sequence[int]]) -> Iterator[PairMoments]:
        return (reduce(PairMoments.merge, [self.record.parts[k] for k in some]) for some in chosen)

    def _each(
        self, stage: str, records: Iterator[PairMoments], total: int, answer: Callable[[PairMoments], T], watch: Watch
    ) -> Iterator[T]:
        """As many at a time as there are cores."""
        # What is doubtful in the whole was said; of subsets it would be said once more for each. What threads ignore by
        # themselves, another thread may bring back.
        with warnings.catch_warnings():
            for kind in (UnreluWarning, ConvergenceWarning):
                warnings.simplefilter("ignore", kind)
            done = 0
            while batch := list(islice(records, available_cores())):
                watch(Step(stage, done, total))
                yield from map_in_threads(answer, batch)
                done += len(batch)

    def _check_subsets(self) -> None:
        rows, groups = self.record.n_rows, self.record.effective_groups
        size = rows * _share(rows)
        instead = "Use selection='auto', or a number as penalty"
        if size < _FEWEST_ROWS:
            raise InvalidDataError(
                f"selection='stars' looks at subsets of the rows, and {rows:,} rows are too few for that:"
                f" at least {int(np.ceil(_FEWEST_ROWS / _SHARE))} are needed. {instead}."
            )
        if groups < _FEWEST_GROUPS:
            raise InvalidDataError(
                f"selection='stars' looks at subsets of the groups of rows, and {len(self.record.parts)} groups count"
                f" as {groups:.1f} of equal size: at least {_FEWEST_GROUPS} are needed. {instead}, give groups= with"
                " more labels, or none."
            )

    def _chosen(self, rng: np.random.Generator) -> Iterator[Sequence[int]]:
        """Groups that have about the share of the weight that a subset should have."""
        for _ in range(SUBSETS):
            yield self._drawn(rng, _share(self.record.n_rows))[0]

    def _in_halves(self, rng: np.random.Generator) -> Iterator[Sequence[int]]:
        for _ in range(SUBSETS // 2):
            yield from self._drawn(rng, 0.5)

    def _drawn(self, rng: np.random.Generator, share: float) -> tuple[Sequence[int], Sequence[int]]:
        """Groups that have about that share of the weight, and the others."""
        weights = self.weights
        order = rng.permutation(len(weights))
        reached = np.cumsum(weights[order]) / weights.sum()
        most = int(np.clip(np.argmin(np.abs(reached - share)) + 1, 1, len(weights) - 1))
        return order[:most].tolist(), order[most:].tolist()


def _share(rows: int) -> float:
    """Of the rows that a subset has, as Liu, Roeder and Wasserman (2010) have it.

    >>> _share(100), _share(400)
    (0.8, 0.5)
    """
    return _SHARE if rows <= _MANY_ROWS else min(_SHARE, 10.0 / math.sqrt(rows))
