"""A fit: what a method learned of latent rows, by the columns that made them latent, and how it speaks in user units.

Where a method leaves out rows or cells, the margins of columns are those that the rows have that it keeps.

Margins are learned before outliers are known, and outliers bend them. A bent exponent can confirm itself: under it the
inlier rows' own tail is a group of outliers, and the others, without their tail, have that exponent. So where rows are
left out of a table with exponents, the fit starts again from those that the kept rows have together with one of the
groups that were left out. The start is taken under which

    sum_i log f(x_i) - log(n) (numbers learned)/2 - PRICE (rows left out),

f the density of a row, outlier or not, in the user's units, is highest, on 2,000 of the rows. The last term keeps
groups from buying inlier rows: some hundredths of a nat each are what a mixture of bent rows gains by them, and some
nats what one of outliers does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unrelu.contracts import Assumptions, BoolArray, Evidence, Progress, Samples
from unrelu.errors import AssumptionWarning, InvalidDataError
from unrelu.estimators.preparation import learn_margins
from unrelu.margins import BoxCox, Normal, margin_requests, same_margins
from unrelu.methods import Method, expects_outliers
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import engine_for
from unrelu.passes.rows import ArraySamples, all_values
from unrelu.passes.tiles import SubsampleQuestion
from unrelu.tables.groups import LabelledRows
from unrelu.tables.prepared import Columns, prepared

_KEPT = 0.5  # weight from which a row counts as genuine
_MOVED, _MOST_SHAPINGS = 0.005, 3  # share of the rows told otherwise that calls for other margins, and how often
_IN_DOUBT = 0.01  # share of the rows left out, from which on exponents are
_MOST_ROWS, _MOST_STARTS = 2000, 4  # on which other starts are tried, and how many
_FEWEST_IN_GROUP = 0.01  # share of the rows in a group that may be genuine
_PRICE = 0.5  # nats that a row left out must gain
_MOST_NUMBERS = 33  # of a margin: as many as the slope of a free one has


@contextmanager
def noting_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Warnings are noted, to be given by :func:`warn_again` where the fit that they are of is taken."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        yield noted


def warn_again(noted: list[warnings.WarningMessage]) -> None:
    """Give warnings that were noted, but for diagnostics: those of the fit that is taken are told at its end, once."""
    for each in noted:
        if not issubclass(each.category, AssumptionWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def evidence_of(samples: Samples, columns: Columns, progress: Progress) -> Evidence:
    """What methods may ask of rows of such columns, which were screened before."""
    rows = prepared(samples, columns, screened=True)
    return Evidence(rows, engine_for(rows, progress))


@dataclass(frozen=True, eq=False)
class Fit:
    """What was learned of rows as latent values, columns with a ceiling negated, and by which columns."""

    columns: Columns
    learned: Any
    noted: list[warnings.WarningMessage] = field(default_factory=list)  # and not given yet

    def in_user_units(self, distribution: RectifiedGaussian) -> RectifiedGaussian:
        """A distribution of latent values as the user knows it."""
        columns, upright = self.columns, distribution.negated(self.columns.negated)
        return (
            upright
            if columns.margins is None
            else upright.with_margins(columns.margins, columns.floor, columns.ceiling)
        )

    @property
    def distribution(self) -> RectifiedGaussian:
        return self.in_user_units(self.learned.distribution)

    @property
    def report(self) -> Any:
        report = self.learned.report
        return report if self.columns.margins is None else replace(report, **self.columns.plain.limits)

    @property
    def kept(self) -> BoolArray | None:
        """Which cells, or rows, are genuine; None where the method leaves none out."""
        weights: Any = getattr(self.learned, "cell_weights", getattr(self.learned, "row_weights", None))
        return None if weights is None else weights >= _KEPT

    @property
    def is_doubtful(self) -> bool:
        """Whether rows that were left out may have other margins to thank for it."""
        learned, margins = self.learned, self.columns.margins or ()
        if not hasattr(learned, "mixture") or not any(isinstance(margin, BoxCox) for margin in margins):
            return False
        return bool(len(learned.columns) == len(margins) and np.mean(learned.row_weights < _KEPT) > _IN_DOUBT)


@dataclass(frozen=True)
class Learning:
    """A method, with what it ``assumes`` of rows of such columns, and the margins that are asked for."""

    method: Method
    margins: Any
    assumes: Callable[[Columns], Assumptions]
    seed: int
    progress: Progress

    def fit(self, samples: Samples, columns: Columns, evidence: Evidence) -> Fit:
        """What is learned of rows, whose evidence is by these columns; where some are left out, by those of the others.

        Of several fits the warnings of the last one alone are given.
        """
        requests: list[Any] = []
        if expects_outliers(self.method):
            requests = margin_requests(self.margins, samples.n_features, columns.names)
        if not any(isinstance(each, str) and each in ("boxcox", "monotone", "auto") for each in requests):
            return Fit(columns, self.method.learn(evidence, self.assumes(columns), self.seed, self.progress))
        fit = self._settled(samples, columns)
        if fit.is_doubtful:
            fit = self._likelier(samples, fit)
        warn_again(fit.noted)
        return fit

    def _fit(self, samples: Samples, columns: Columns) -> Fit:
        evidence = evidence_of(samples, columns, self.progress)
        with noting_warnings() as noted:
            learned = self.method.learn(evidence, self.assumes(columns), self.seed, self.progress)
        return Fit(columns, learned, noted)

    def _reshaped(self, samples: Samples, columns: Columns, kept: BoolArray) -> Columns:
        """The columns with the margins that the kept rows, or cells, have."""
        rows = samples if kept.all() else LabelledRows(samples, kept=kept)
        return learn_margins(self.margins, rows, columns, self.progress, outliers="out")

    def _settled(self, samples: Samples, columns: Columns) -> Fit:
        """The fit whose margins are those of the rows that it keeps. A column that the fit diagnostics keeps its
        margin: of what is bad in it, too, it would be made another one that hides it."""
        before: BoolArray | None = None
        for _ in range(_MOST_SHAPINGS):
            fit = self._fit(samples, columns)
            kept = fit.kept
            if kept is None or (before is not None and np.mean(kept != before) < _MOVED):
                return fit
            before = kept
            found = keeping(self._reshaped(samples, columns, kept), columns, getattr(fit.learned, "doubtful", ()))
            if same_margins(columns.margins, found.margins):
                return replace(fit, columns=found)
            columns = found
        return self._fit(samples, columns)

    def _likelier(self, samples: Samples, fit: Fit) -> Fit:
        """The likeliest fit from this and other starts."""
        rows, whole = samples, len(fit.learned.row_weights) <= _MOST_ROWS
        if not whole:
            none = (-np.inf,) * samples.n_features
            some = engine_for(samples, self.progress).collect(samples, SubsampleQuestion(_MOST_ROWS, 0, none, none))
            rows = ArraySamples(some.values, some.weights, samples.feature_names, limits=samples.limits)
        first = best = fit if whole else self._settled(rows, fit.columns)
        level, starts = self._level(rows, best), self._starts(rows, best)
        for _ in range(_MOST_STARTS):
            start = next(starts, None) if best.is_doubtful else None
            if start is None:
                break
            with suppress(InvalidDataError):  # of rows that cannot be learned from under such margins
                if self._level(rows, self._fit(rows, start)) <= level:
                    continue
                other = self._settled(rows, start)
                if (found := self._level(rows, other)) > level and not _is_freer(other.columns, best.columns):
                    best, level, starts = other, found, self._starts(rows, other)
        if best is first:
            return fit
        return best if whole else self._settled(samples, best.columns)

    def _level(self, samples: Samples, fit: Fit) -> float:
        """How likely the rows are, outliers included, less what was paid for it; -inf where that cannot be said."""
        learned = fit.learned
        if len(learned.columns) < samples.n_features:
            return -np.inf
        rows = prepared(samples, fit.columns, screened=True)
        weights = np.concatenate([np.ones(len(b.values)) if b.weights is None else b.weights for b in samples.blocks()])
        weights = weights * (weights.sum() / np.sum(weights**2))  # Kish's effective number of rows is their sum
        densities = learned.mixture.posterior(all_values(rows))[1] + rows.log_slopes()
        of_margins = sum(min(margin.n_parameters, _MOST_NUMBERS) for margin in fit.columns.margins or ())
        numbers = learned.mixture.n_parameters + of_margins
        paid = 0.5 * np.log(weights.sum()) * numbers + _PRICE * float(weights @ (learned.row_weights < _KEPT))
        return float(weights @ densities - paid)

    def _starts(self, samples: Samples, fit: Fit) -> Iterator[Columns]:
        """Margins of the kept rows and one group more, unless no power makes such columns normal."""
        mixture, kept = fit.learned.mixture, fit.kept
        assert kept is not None, "a robust fit says it"
        group = np.argmax(mixture.joint(all_values(prepared(samples, fit.columns, screened=True))), axis=1)
        for k in np.argsort(-mixture.shares).tolist():
            more = (group == k) & ~kept
            if more.mean() > _FEWEST_IN_GROUP and not (more | kept).all():
                found = self._reshaped(samples, fit.columns, more | kept)
                if not _is_freer(found, fit.columns):
                    yield found


def keeping(found: Columns, before: Columns, at: tuple[int, ...]) -> Columns:
    """The columns as they were found, but for those ``at`` these positions, which stay as they were before."""
    if not at or found.margins is None is before.margins:
        return found
    normal = (Normal(),) * len(found.floor)
    mine, old, floor = list(found.margins or normal), before.margins or normal, found.floor.copy()
    for j in at:
        mine[j], floor[j] = old[j], before.floor[j]
    margins = None if all(margin.kind == "normal" for margin in mine) else tuple(mine)
    return replace(found, margins=margins, floor=floor)


def _is_freer(found: Columns, before: Columns) -> bool:
    pairs = zip(found.margins or (), before.margins or (), strict=False)
    return any(new.kind == "monotone" != old.kind for new, old in pairs)
