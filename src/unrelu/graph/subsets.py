"""Latent correlations of subsets of the rows, from the records of groups of rows: no row is read again; and the
standard errors of partial correlations: a jackknife over the groups, moderated, or the model's.

Fisher's variance of a partial correlation from n rows is

    f_ij = (1 - rho_ij^2)^2 / (n - d + 1)

with the number n of rows without floors that would have as small errors. The jackknife over G groups gives v_ij, right
for any table but of G - 1 degrees of freedom only. As pairs differ little in v/f, each is drawn towards the others as
far as their scatter is that of chi-squared / (G - 1): with a prior of d0 degrees about s0^2 (Smyth 2004), found from
mean and variance of log(v/f),

    stderr_ij^2 = f_ij (d0 s0^2 + (G - 1) v_ij/f_ij) / (d0 + G - 1),     with d0 + G - 1 degrees of freedom.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, polygamma
from sklearn.exceptions import ConvergenceWarning

from unrelu.contracts import Assumptions, BoolArray, FloatArray, PairCorrelations, Progress, Step
from unrelu.errors import InvalidDataError, UnreluWarning
from unrelu.fit.jackknife import LEAVING_OUT, group_deviations
from unrelu.fit.nearest import nearest_covariance
from unrelu.fit.one_pass import Names, fit_record
from unrelu.graph.edges import ROUGHLY, invertible, partial_correlations, refitted_precision
from unrelu.passes.engine import available_cores, map_in_threads
from unrelu.passes.pair_moments import GroupedMoments, PairMoments
from unrelu.validation import warn

SUBSETS = 20  # or halves, in pairs that have no row in common
_FEWEST_GROUPS = 6  # with fewer, subsets are much alike
_FEWEST_ROWS = 20  # in a subset
_FEWEST_VALUES = 2  # above the floor, of a column
_MANY_ROWS, _SHARE = 144, 0.8
_SUBSETS = "Learning from subsets of the rows"
_BY_COLUMN = ("floor", "negated", "margins")  # what a table is assumed to have
_FEWEST_PAIRS = 10  # from which a prior can be learned
_DEGREES = 1e-2, 1e4  # of a prior
_FEW_GROUPS = 5

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
        std = np.sqrt(np.diagonal(part))
        if not np.all(std > 0.0):
            raise InvalidDataError("A column does not vary.")
        return np.asarray(part / np.outer(std, std))

    def left_out(self, answer: Callable[[FloatArray], T], progress: Progress) -> list[T]:
        """What ``answer`` gives for the correlations without every group in turn."""
        n = len(self.record.parts)
        return self._each(LEAVING_OUT, self.record.left_out(), n, lambda part: answer(self.correlation(part)), progress)

    def subsets(self, answer: Callable[[FloatArray], T], seed: int, progress: Progress) -> list[T]:
        """The same for random subsets of the groups, each with about 10 sqrt(n) of n rows, as Liu, Roeder and Wasserman
        (2010) have it."""
        rows, groups = self.record.n_rows, self.record.effective_groups
        share = _SHARE if rows <= _MANY_ROWS else min(_SHARE, 10.0 / math.sqrt(rows))
        instead = "Use selection='auto', or a number as penalty"
        if rows * share < _FEWEST_ROWS:
            raise InvalidDataError(
                f"selection='stars' takes subsets of the rows, and {rows:,} rows are too few for that:"
                f" at least {int(np.ceil(_FEWEST_ROWS / _SHARE))} are needed. {instead}."
            )
        if groups < _FEWEST_GROUPS:
            raise InvalidDataError(
                f"selection='stars' takes subsets of the groups of rows, and {len(self.record.parts)} groups count"
                f" as {groups:.1f} of equal size: at least {_FEWEST_GROUPS} are needed. {instead}, give groups= with"
                " more labels, or none."
            )
        rng = np.random.default_rng(seed)
        chosen = (self._joined(self.drawn(rng, share)[0]) for _ in range(SUBSETS))
        try:
            return self._each(_SUBSETS, chosen, SUBSETS, lambda part: answer(self.correlation(part)), progress)
        except InvalidDataError as error:
            raise InvalidDataError(
                f"selection='stars' takes subsets of the rows, and in one of them a column cannot be learned."
                f" {error} Otherwise use selection='auto', which needs no subsets."
            ) from error

    def halves(self, answer: Callable[[FloatArray, float], T], seed: int, progress: Progress) -> list[T]:
        """What ``answer`` gives for the correlations of random halves of the groups, and their shares of the rows. Each
        half is followed by the other one. A column that a half cannot determine is uncorrelated there. There are none
        where rows or groups are too few."""
        if self.record.n_rows < 2 * _FEWEST_ROWS or self.record.effective_groups < _FEWEST_GROUPS:
            return []
        total, rng = float(self.weights.sum()), np.random.default_rng(seed)

        def of_half(record: PairMoments) -> T:
            return answer(self._estimated(record), record.weight / total)

        chosen = (self._joined(half) for _ in range(SUBSETS // 2) for half in self.drawn(rng, 0.5))
        try:
            return self._each(_SUBSETS, chosen, SUBSETS, of_half, progress)
        except InvalidDataError:  # a half has values that cannot be learned from
            return []

    def _estimated(self, record: PairMoments) -> FloatArray:
        """Latent correlations of some rows, semidefinite; 0 for columns that these rows cannot determine."""
        above = record.positive_moments()[0] / np.maximum(record.column_weight, np.finfo(float).tiny)
        enough = (above * record.column_rows > _FEWEST_VALUES - 0.5)[self.columns]
        found, some = np.eye(len(self.columns)), self
        if np.count_nonzero(enough) < 2:
            return found
        if not enough.all():
            at, assumed, near = self.columns[enough], self.assumptions, self.near
            record = record.of_columns(at)
            kept: dict[str, Any] = {
                name: tuple(getattr(assumed, name)[j] for j in at) for name in _BY_COLUMN if getattr(assumed, name)
            }
            names = None if self.names is None else tuple(self.names[j] for j in at)
            near = PairCorrelations(near.correlation[np.ix_(at, at)], near.stderr[np.ix_(at, at)])
            some = RowGroups(self.record, replace(assumed, **kept), near, np.arange(len(at)), names)
        covariance = some._covariance(record)
        std = np.sqrt(np.diagonal(covariance))
        varies = std > 0.0
        at = np.flatnonzero(enough)[varies]
        found[np.ix_(at, at)] = covariance[np.ix_(varies, varies)] / np.outer(std[varies], std[varies])
        return found

    def _covariance(self, record: PairMoments) -> FloatArray:
        rows, pairs = fit_record(record, self.assumptions, self.names, self.near)
        covariance, _ = nearest_covariance(rows.std, pairs)
        return covariance[np.ix_(self.columns, self.columns)]

    def _each(
        self,
        stage: str,
        records: Iterator[PairMoments],
        total: int,
        answer: Callable[[PairMoments], T],
        progress: Progress,
    ) -> list[T]:
        """As many at a time as there are cores."""
        # Diagnostics of all rows were given; of subsets they would come once more for each. What threads ignore by
        # themselves, another thread may bring back.
        with warnings.catch_warnings():
            for kind in (UnreluWarning, ConvergenceWarning):  # the latter of scikit-learn
                warnings.simplefilter("ignore", kind)
            found: list[T] = []
            while batch := list(islice(records, available_cores())):
                progress(Step(stage, len(found), total))
                found += map_in_threads(answer, batch)
        return found

    def _joined(self, groups: list[int]) -> PairMoments:
        return reduce(PairMoments.merge, [self.record.parts[k] for k in groups])

    def drawn(self, rng: np.random.Generator, share: float) -> tuple[list[int], list[int]]:
        """Groups that have about that share of the weight, and the others."""
        weights = self.weights
        order = rng.permutation(len(weights))
        reached = np.cumsum(weights[order]) / weights.sum()
        most = int(np.clip(np.argmin(np.abs(reached - share)) + 1, 1, len(weights) - 1))
        return order[:most].tolist(), order[most:].tolist()


# --- standard errors ---------------------------------------------------------------------------------


def partial_errors(
    groups: RowGroups | None, partial: FloatArray, adjacency: BoolArray, effective_rows: float, progress: Progress
) -> tuple[FloatArray, float]:
    """(standard errors of the partial correlations on a graph, their degrees of freedom)."""
    model = np.asarray((1.0 - partial**2) / np.sqrt(max(effective_rows - len(partial) + 1.0, 1.0)))  # the root of f
    first, second = np.nonzero(np.triu(adjacency, 1))
    if groups is None or len(first) == 0 or len(groups.weights) < _FEW_GROUPS:
        return model, np.inf

    def on_graph(correlation: FloatArray) -> FloatArray:
        refit = refitted_precision(invertible(correlation), adjacency, ROUGHLY)
        return np.asarray(partial_correlations(refit)[first, second])

    try:
        moved = np.array(groups.left_out(on_graph, progress))
        centre = on_graph(groups.correlation(groups.record.whole))
    except InvalidDataError as error:
        warn(
            "Standard errors of partial correlations are the model's: without one of the groups of rows a column"
            f" cannot be learned. {error}",
            "few-groups",
        )
        return model, np.inf
    deviation = group_deviations(centre - moved, np.broadcast_to(groups.weights[:, None], moved.shape))
    variance = np.einsum("ge,ge->e", deviation, deviation)
    fisher = model[first, second] ** 2
    ratio, degrees = moderated(variance / fisher, groups.record.effective_groups - 1.0)
    stderr = np.full_like(partial, np.nan)
    stderr[first, second] = stderr[second, first] = np.sqrt(fisher * ratio)
    return stderr, degrees


def moderated(ratio: FloatArray, degrees: float) -> tuple[FloatArray, float]:
    """(ratios drawn towards each other, their degrees of freedom)."""
    if len(ratio) < _FEWEST_PAIRS or not np.all(ratio > 0.0):
        return ratio, degrees
    half = degrees / 2.0
    e = np.log(ratio) - digamma(half) + np.log(half)
    excess = float(np.var(e, ddof=1) - polygamma(1, half))
    if excess <= float(polygamma(1, _DEGREES[1] / 2.0)):
        prior, centre = _DEGREES[1], float(np.exp(np.mean(e)))
    elif excess >= float(polygamma(1, _DEGREES[0] / 2.0)):
        return ratio, degrees
    else:
        prior = 2.0 * float(brentq(lambda x: polygamma(1, x) - excess, _DEGREES[0] / 2.0, _DEGREES[1] / 2.0))
        centre = float(np.exp(np.mean(e) + digamma(prior / 2.0) - np.log(prior / 2.0)))
    return np.asarray((prior * centre + degrees * ratio) / (prior + degrees)), prior + degrees
