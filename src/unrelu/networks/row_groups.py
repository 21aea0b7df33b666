"""Latent correlations of subsets of the rows, from the records of groups of rows: no row is read again."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import Assumptions, FloatArray, PairCorrelations, Step, Watch
from unrelu.covariance import assemble
from unrelu.engines.local import available_cores, map_in_threads
from unrelu.errors import InvalidDataError, UnreluWarning
from unrelu.learning import Names, fit_record
from unrelu.statistics.grouped_moments import GroupedMoments
from unrelu.statistics.pair_moments import PairMoments

SUBSETS = 20
_FEWEST_GROUPS = 6  # with fewer, subsets are much alike
_FEWEST_ROWS = 20  # in a subset
_MANY_ROWS, _SHARE = 144, 0.8

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
        rows, pairs = fit_record(record, self.assumptions, self.names, self.near)
        covariance, _ = assemble(rows.scale, pairs)
        part = covariance[np.ix_(self.columns, self.columns)]
        scale = np.sqrt(np.diagonal(part))
        if not np.all(scale > 0.0):
            raise InvalidDataError("A column does not vary.")
        return np.asarray(part / np.outer(scale, scale))

    def whole(self) -> FloatArray:
        return self.correlation(self.record.whole)

    def left_out(self, answer: Callable[[FloatArray], T], watch: Watch) -> list[T]:
        """What ``answer`` gives for the correlations without every group in turn."""
        n = len(self.record.parts)
        return list(self._each("Leaving out groups", self.record.left_out(), n, answer, watch))

    def subsets(self, answer: Callable[[FloatArray], T], seed: int, watch: Watch) -> list[T]:
        """The same for random subsets of the groups, each with about 10 sqrt(n) of n rows."""
        self._check_subsets()
        parts, chosen = self.record.parts, self._chosen(np.random.default_rng(seed))
        records = (reduce(PairMoments.merge, [parts[k] for k in some]) for some in chosen)
        try:
            return list(self._each("Looking at subsets of the rows", records, SUBSETS, answer, watch))
        except InvalidDataError as error:
            raise InvalidDataError(
                f"selection='stars' looks at subsets of the rows, and in one of them a column cannot be learned."
                f" {error} Otherwise use selection='likely', which needs no subsets."
            ) from error

    def _each(
        self, stage: str, records: Iterator[PairMoments], total: int, answer: Callable[[FloatArray], T], watch: Watch
    ) -> Iterator[T]:
        """As many at a time as there are cores."""
        # What is doubtful in the whole was said; of subsets it would be said once more for each.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreluWarning)
            done = 0
            while batch := list(islice(records, available_cores())):
                watch(Step(stage, done, total))
                yield from map_in_threads(lambda record: answer(self.correlation(record)), batch)
                done += len(batch)

    def _check_subsets(self) -> None:
        rows, groups = self.record.n_rows, self.record.effective_groups
        size = rows * _share(rows)
        instead = "Use selection='likely', or a number as penalty"
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
        weights, share = self.weights, _share(self.record.n_rows)
        for _ in range(SUBSETS):
            order = rng.permutation(len(weights))
            reached = np.cumsum(weights[order]) / weights.sum()
            most = int(np.clip(np.argmin(np.abs(reached - share)) + 1, 1, len(weights) - 1))
            yield order[:most].tolist()


def _share(rows: int) -> float:
    """Of the rows that a subset has, as Liu, Roeder and Wasserman (2010) have it.

    >>> _share(100), _share(400)
    (0.8, 0.5)
    """
    return _SHARE if rows <= _MANY_ROWS else min(_SHARE, 10.0 / math.sqrt(rows))
