"""Shapes of the rows and cells that a robust method keeps: fitted by, learned again of what was kept, fitted by again.

Shapes are learned before outliers are known, and outliers bend them. A bent exponent can confirm itself: under it the
genuine rows' own tail is a group of outliers, and the others, without their tail, have that exponent. So where rows are
left out of a table with exponents, the fit starts again from those that the kept rows have together with one of the
groups that were left out. The start is taken under which

    sum_i log f(x_i) - log(n) (numbers learned)/2 - PRICE (rows left out),

f the density of a row, outlier or not, in the user's units, is highest, on 2,000 of the rows. The last term keeps
groups from buying genuine rows: some hundredths of a nat each are what a mixture of bent rows gains by them, and some
nats what one of outliers does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Samples, Watch
from unrelu.errors import InvalidDataError
from unrelu.fit.robust_rows.learn import RobustLearned
from unrelu.passes.engine import engine_for
from unrelu.passes.tiles import SubsampleQuestion
from unrelu.shapes import Normal, Power, Shapes, same_shapes
from unrelu.tables import ArraySamples
from unrelu.tables.shaped import KeptRows

_KEPT = 0.5  # weight from which a row counts as genuine
_MOVED, _MOST_SHAPINGS = 0.005, 3  # share of the rows told otherwise that calls for other shapes, and how often
_IN_DOUBT = 0.01  # share of the rows left out, from which on exponents are
_MOST_ROWS, _MOST_STARTS = 2000, 4  # on which other starts are tried, and how many
_FEWEST = 0.01  # share of the rows in a group that may be genuine
_PRICE = 0.5  # nats that a row left out must gain
_MOST_NUMBERS = 33  # of a shape: as many as the slope of a free one has


@dataclass(frozen=True, eq=False)
class ShapedBy:
    """Shapes of the columns, None where all are normal, and the limits that the table itself has told."""

    shapes: Shapes | None
    limits: Mapping[str, Mapping[str, float]]

    def keeping(self, before: ShapedBy, columns: tuple[int, ...]) -> ShapedBy:
        """The same but for ``columns``, which stay as they were before."""
        if not columns or self.shapes is None is before.shapes:
            return self
        d = len(self.shapes or before.shapes or ())
        mine, old = (list(each.shapes or (Normal(),) * d) for each in (self, before))
        floor = dict(self.limits.get("floor", {}))
        for j in columns:
            mine[j] = old[j]
            floor.pop(str(j), None)
        floor |= {column: level for column, level in before.limits.get("floor", {}).items() if int(column) in columns}
        shapes = None if all(shape.kind == "normal" for shape in mine) else tuple(mine)
        return ShapedBy(shapes, {**self.limits, "floor": floor})


@dataclass(frozen=True, eq=False)
class Fit:
    """What was learned under shapes, and what was warned of meanwhile."""

    learned: Any
    by: ShapedBy
    noted: list[warnings.WarningMessage]

    @property
    def kept(self) -> BoolArray | None:
        """Which cells, or rows, are genuine; None where the method leaves none out."""
        weights: Any = getattr(self.learned, "cell_weights", getattr(self.learned, "row_weights", None))
        return None if weights is None else weights >= _KEPT

    @property
    def is_in_doubt(self) -> bool:
        """Whether rows that were left out may have other shapes to thank for it."""
        learned, shapes = self.learned, self.by.shapes or ()
        if not isinstance(learned, RobustLearned) or not any(isinstance(shape, Power) for shape in shapes):
            return False
        return bool(len(learned.columns) == len(shapes) and np.mean(learned.row_weights < _KEPT) > _IN_DOUBT)


@dataclass(frozen=True)
class Reshaping:
    """How rows are learned: ``learn`` from latent rows, ``shapes_of`` rows in the user's units beginning with some
    shapes, and ``shaped``, the latent rows under shapes, which are then those of the estimator."""

    learn: Callable[[Samples], Any]
    shapes_of: Callable[[Samples, ShapedBy], ShapedBy]
    shaped: Callable[[Samples, ShapedBy], Samples]
    watch: Watch

    def learned(self, turned: Samples, start: ShapedBy) -> Any:
        """What is learned from rows in the user's units, with the warnings of the last fit alone."""
        fit = self._settled(turned, start)
        if fit.is_in_doubt:
            fit = self._likelier(turned, fit)
        self.shaped(turned, fit.by)
        for each in fit.noted:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        return fit.learned

    def _fit(self, turned: Samples, by: ShapedBy) -> Fit:
        samples = self.shaped(turned, by)
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            learned = self.learn(samples)
        return Fit(learned, by, noted)

    def _settled(self, turned: Samples, by: ShapedBy) -> Fit:
        """The fit whose shapes are those of the rows that it keeps. A column that the fit doubts keeps its shape: of
        what is bad in it, too, it would be made another one that hides it."""
        before: BoolArray | None = None
        for _ in range(_MOST_SHAPINGS):
            fit = self._fit(turned, by)
            kept = fit.kept
            if kept is None or (before is not None and np.mean(kept != before) < _MOVED):
                return fit
            before = kept
            found = self.shapes_of(turned if kept.all() else KeptRows(turned, kept), by)
            found = found.keeping(by, getattr(fit.learned, "doubtful", ()))
            if same_shapes(by.shapes, found.shapes):
                return replace(fit, by=found)
            by = found
        return self._fit(turned, by)

    # --- other starts -----------------------------------------------------------------------------

    def _likelier(self, turned: Samples, fit: Fit) -> Fit:
        """The likeliest fit from this and other starts."""
        whole = len(fit.learned.row_weights) <= _MOST_ROWS
        rows = turned if whole else self._part(turned)
        first = best = fit if whole else self._settled(rows, fit.by)
        level, starts = self._level(rows, best), self._starts(rows, best)
        for _ in range(_MOST_STARTS):
            start = next(starts, None) if best.is_in_doubt else None
            if start is None:
                break
            with suppress(InvalidDataError):  # of rows that cannot be learned from under such shapes
                if self._level(rows, self._fit(rows, start)) <= level:
                    continue
                other = self._settled(rows, start)
                if (found := self._level(rows, other)) > level and not _is_freer(other.by, best.by):
                    best, level, starts = other, found, self._starts(rows, other)
        if best is first:
            return fit
        return best if whole else self._settled(turned, best.by)

    def _part(self, turned: Samples) -> Samples:
        none = (-np.inf,) * turned.n_features
        some = engine_for(turned, self.watch).collect(turned, SubsampleQuestion(_MOST_ROWS, 0, none, none))
        return ArraySamples(some.values, weights=some.weights, feature_names=turned.feature_names)

    def _level(self, turned: Samples, fit: Fit) -> float:
        """How likely the rows are, outliers included, less what was paid for it; -inf where that cannot be said."""
        learned = fit.learned
        if len(learned.columns) < turned.n_features:
            return -np.inf
        samples, weights = self.shaped(turned, fit.by), _weights(turned)
        densities = learned.mixture.posterior(_values(samples))[1]
        densities = densities + samples.log_slopes()
        of_shapes = sum(min(shape.n_parameters, _MOST_NUMBERS) for shape in fit.by.shapes or ())
        numbers = learned.mixture.n_parameters + of_shapes
        paid = 0.5 * np.log(weights.sum()) * numbers + _PRICE * float(weights @ (learned.row_weights < _KEPT))
        return float(weights @ densities - paid)

    def _starts(self, turned: Samples, fit: Fit) -> Iterator[ShapedBy]:
        """Shapes of the kept rows and one group more, unless no power makes such columns normal."""
        mixture, kept = fit.learned.mixture, fit.kept
        assert kept is not None, "a robust fit says it"
        group = np.argmax(mixture.joint(_values(self.shaped(turned, fit.by))), axis=1)
        for k in np.argsort(-mixture.shares).tolist():
            more = (group == k) & ~kept
            if more.mean() > _FEWEST and not (more | kept).all():
                found = self.shapes_of(KeptRows(turned, more | kept), fit.by)
                if not _is_freer(found, fit.by):
                    yield found


def _is_freer(found: ShapedBy, before: ShapedBy) -> bool:
    pairs = zip(found.shapes or (), before.shapes or (), strict=False)
    return any(new.kind == "free" != old.kind for new, old in pairs)


def _values(samples: Samples) -> FloatArray:
    return np.concatenate([block.values for block in samples.blocks()])


def _weights(samples: Samples) -> FloatArray:
    """Of the rows, with Kish's effective number of them as their sum."""
    parts = [np.ones(len(b.values)) if b.weights is None else b.weights for b in samples.blocks()]
    weights = np.concatenate(parts)
    return np.asarray(weights * (weights.sum() / np.sum(weights**2)))
