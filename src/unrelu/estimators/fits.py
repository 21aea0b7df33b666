"""A fit: what a method learned of latent rows, with the columns whose margins made the rows latent.

Where a method leaves out rows or cells, the margins of columns are learned again from the rows that it keeps.

Margins are learned before outliers are found, and outliers bend them. A bent exponent can confirm itself: under it the
inlier rows' own tail is a group of outliers, and the others, without their tail, have that exponent. So where rows are
left out of a table with exponents, the fit starts again from the exponents of the kept rows together with one of the
groups that were left out. It takes the start under which

    sum_i log f(x_i) - log(n) (numbers learned)/2 - PRICE (rows left out),

is highest on 2,000 of the rows, with f the density of a row, outlier or not, in the user's units. The last term keeps
groups from taking inlier rows: a mixture of bent rows gains some hundredths of a nat by each, a mixture of outliers
some nats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unrelu.contracts import Assumptions, BoolArray, Evidence, Progress, Samples
from unrelu.errors import InvalidDataError
from unrelu.estimators.preparation import learn_margins
from unrelu.margins import BoxCox, Normal, margin_requests, same_margins
from unrelu.methods import Method, expects_outliers
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import engine_for
from unrelu.passes.rows import ArraySamples, all_values
from unrelu.passes.tiles import SubsampleQuestion
from unrelu.tables.groups import LabelledRows
from unrelu.tables.prepared import Columns, prepared
from unrelu.validation import Line, noting_warnings, warn_of_noted

_KEPT = 0.5  # weight from which on a row is an inlier
_MOVED, _MOST_ROUNDS = 0.005, 3  # share of the rows whose weight changes that calls for other margins, and how often
_UNCERTAIN = 0.01  # share of the rows left out, from which on exponents are uncertain
_MOST_ROWS, _MOST_STARTS = 2000, 4  # rows on which other starts are tried, and their number
_FEWEST_IN_GROUP = 0.01  # share of the rows in a group that may be inliers
_PRICE = 0.5  # nats that leaving out a row must gain
_MOST_NUMBERS = 33  # of a margin: as many as the slope of a monotone margin has


def evidence_of(samples: Samples, columns: Columns, progress: Progress) -> Evidence:
    """The evidence that methods learn from, of rows of such columns that were screened before."""
    rows = prepared(samples, columns, screened=True)
    return Evidence(rows, engine_for(rows, progress))


@dataclass(frozen=True, eq=False)
class Fit:
    """What was learned of latent rows, columns with a ceiling negated, and the columns."""

    columns: Columns
    learned: Any
    noted: list[Line] = field(default_factory=list)  # lines of warnings that were not issued yet

    def in_user_units(self, distribution: RectifiedGaussian) -> RectifiedGaussian:
        """A distribution of latent values as one of the user's values."""
        columns, latent = self.columns, distribution.negated(self.columns.negated)
        if columns.margins is None:
            return latent
        return latent.with_margins(columns.margins, columns.floor, columns.ceiling)

    @property
    def distribution(self) -> RectifiedGaussian:
        return self.in_user_units(self.learned.distribution)

    @property
    def report(self) -> Any:
        report = self.learned.report
        return report if self.columns.margins is None else replace(report, **self.columns.plain.limits)

    @property
    def kept(self) -> BoolArray | None:
        """Which cells, or rows, are inliers; None where the method leaves none out."""
        weights: Any = getattr(self.learned, "cell_weights", getattr(self.learned, "row_weights", None))
        return None if weights is None else weights >= _KEPT

    @property
    def is_uncertain(self) -> bool:
        """Whether rows may have been left out because of wrong exponents."""
        learned, margins = self.learned, self.columns.margins or ()
        if not hasattr(learned, "mixture") or not any(isinstance(margin, BoxCox) for margin in margins):
            return False
        return bool(len(learned.columns) == len(margins) and np.mean(learned.row_weights < _KEPT) > _UNCERTAIN)


@dataclass(frozen=True)
class Learning:
    """A method, what it ``assumes`` of rows of given columns, and the margins as given."""

    method: Method
    margins: Any
    assumes: Callable[[Columns], Assumptions]
    seed: int
    progress: Progress

    def fit(self, samples: Samples, columns: Columns, evidence: Evidence) -> Fit:
        """The fit to rows with these columns and evidence; where rows are left out, with margins of the others.

        Of several fits only the last one issues warnings.
        """
        requests: list[Any] = []
        if expects_outliers(self.method):
            requests = margin_requests(self.margins, samples.n_features, columns.names)
        if not any(isinstance(each, str) and each in ("boxcox", "monotone", "auto") for each in requests):
            return Fit(columns, self.method.learn(evidence, self.assumes(columns), self.seed, self.progress))
        fit = self._refitted(samples, columns)
        if fit.is_uncertain:
            fit = self._likelier(samples, fit)
        warn_of_noted(fit.noted, but="AssumptionWarning")  # the estimator issues the diagnostics of what it takes
        return fit

    def _fit(self, samples: Samples, columns: Columns) -> Fit:
        evidence = evidence_of(samples, columns, self.progress)
        with noting_warnings() as noted:
            learned = self.method.learn(evidence, self.assumes(columns), self.seed, self.progress)
        return Fit(columns, learned, noted)

    def _with_margins_of(self, kept: BoolArray, samples: Samples, columns: Columns) -> Columns:
        """The columns with margins learned from the kept rows, or cells."""
        rows = samples if kept.all() else LabelledRows(samples, kept=kept)
        return learn_margins(self.margins, rows, columns, self.progress, outliers="out")

    def _refitted(self, samples: Samples, columns: Columns) -> Fit:
        """The fit whose margins are those of the rows that it keeps. Columns with many bad cells keep their margin: one
        that was learned from the bad cells as well would hide them."""
        before: BoolArray | None = None
        for _ in range(_MOST_ROUNDS):
            fit = self._fit(samples, columns)
            kept = fit.kept
            if kept is None or (before is not None and np.mean(kept != before) < _MOVED):
                return fit
            before = kept
            found = self._with_margins_of(kept, samples, columns)
            found = keeping(found, columns, getattr(fit.learned, "doubtful", ()))
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
        first = best = fit if whole else self._refitted(rows, fit.columns)
        level, starts = self._level(rows, best), self._starts(rows, best)
        for _ in range(_MOST_STARTS):
            start = next(starts, None) if best.is_uncertain else None
            if start is None:
                break
            with suppress(InvalidDataError):  # rows that cannot be learned from under such margins
                if self._level(rows, self._fit(rows, start)) <= level:
                    continue
                other = self._refitted(rows, start)
                if (found := self._level(rows, other)) > level and not _more_monotone(other.columns, best.columns):
                    best, level, starts = other, found, self._starts(rows, other)
        if best is first:
            return fit
        return best if whole else self._refitted(samples, best.columns)

    def _level(self, samples: Samples, fit: Fit) -> float:
        """The penalized log-likelihood of the rows, outliers included; -inf where some columns were left out."""
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
        """Columns with margins of the kept rows and one group more, unless exponents do not make them normal."""
        mixture, kept = fit.learned.mixture, fit.kept
        assert kept is not None, "a robust fit has weights"
        group = np.argmax(mixture.joint(all_values(prepared(samples, fit.columns, screened=True))), axis=1)
        for k in np.argsort(-mixture.shares).tolist():
            more = (group == k) & ~kept
            if more.mean() > _FEWEST_IN_GROUP and not (more | kept).all():
                found = self._with_margins_of(more | kept, samples, fit.columns)
                if not _more_monotone(found, fit.columns):
                    yield found


def keeping(found: Columns, before: Columns, at: tuple[int, ...]) -> Columns:
    """The columns that were found, but at the positions ``at`` those from before."""
    if not at or found.margins is None is before.margins:
        return found
    normal = (Normal(),) * len(found.floor)
    new, old, floor = list(found.margins or normal), before.margins or normal, found.floor.copy()
    for j in at:
        new[j], floor[j] = old[j], before.floor[j]
    margins = None if all(margin.kind == "normal" for margin in new) else tuple(new)
    return replace(found, margins=margins, floor=floor)


def _more_monotone(found: Columns, before: Columns) -> bool:
    pairs = zip(found.margins or (), before.margins or (), strict=False)
    return any(new.kind == "monotone" != old.kind for new, old in pairs)
