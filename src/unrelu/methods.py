"""The methods that can be named, side by side, each a composition of parts.

A method learns from evidence under assumptions. A method with a single, mergeable question gives it as ``question``;
its record can then stand in for the rows (partial_fit, merge). The papers' methods are in
:mod:`unrelu.papers.learners`, and found by their names (:mod:`unrelu.registry`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from unrelu import registry
from unrelu.checks.findings import diagnostics_of
from unrelu.checks.misfit import RowSampleQuestion, sample_rows
from unrelu.contracts import Assumptions, Evidence, LearningReport, Progress, Samples, Step, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.fit.one_pass import Learned, counts_of, learn_record
from unrelu.passes.engine import ask_at_once
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.validation import check_choice, check_count

LEARNING = "Learning"

_ROWS_A_COLUMN = 4  # fewer of them, and all correlations at once are less certain than each by itself
_ROWS_FOR_CELLS = 5  # rows a column from which on bad cells can be found
_QUICK = 1e7  # rows times the cube of columns up to which the full likelihood takes some seconds at most

__all__ = [
    "Auto",
    "FilteredGradient",
    "FullLikelihood",
    "MedianBias",
    "Method",
    "OnePass",
    "Robust",
    "RobustCells",
    "TruncatedSGD",
    "method_named",
]


class Method(Protocol):
    """Anything that learns a model from evidence.

    A method that uses the limits of single cells (``Block.censoring``) has ``takes_cell_limits = True``.

    >>> import unrelu
    >>> unrelu.RectifiedGaussianLearner(Robust(max_groups=2)).method  # an object, not a name
    Robust(max_groups=2)
    """

    def question(self, assumptions: Assumptions) -> PairMomentsQuestion | None:
        """The only question of the method; None where later questions depend on earlier answers, as by default."""
        return None

    def learn(
        self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, progress: Progress = no_progress
    ) -> Learned:
        """The model of the rows behind the evidence; the same ``seed`` gives the same model."""
        ...


@dataclass(frozen=True)
class OnePass:
    """For large tables: censored-likelihood marginals and optimally weighted moments, from one pass over the rows.

    >>> import numpy as np
    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
    >>> learner = unrelu.RectifiedGaussianLearner(method=unrelu.methods.OnePass()).fit(X)
    >>> learner.report_.method
    'one_pass'
    """

    takes_cell_limits: ClassVar[bool] = True

    def question(self, assumptions: Assumptions) -> PairMomentsQuestion:
        """The only question of this method."""
        return PairMomentsQuestion.under(assumptions)

    def learn(
        self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, progress: Progress = no_progress
    ) -> Learned:
        question = self.question(assumptions)
        ask_at_once(evidence, question, RowSampleQuestion(assumptions.censored_at))
        record = evidence.collect(question)
        progress(Step(LEARNING))
        stages = learn_record(record, assumptions, evidence.feature_names, evidence.place)
        look = sample_rows(evidence, assumptions)
        diagnostics = diagnostics_of(record, stages.rows, assumptions, stages.pairs, stages.nearest, look)
        rows = record.n_rows, record.effective_rows
        report = LearningReport.of(
            "one_pass", *rows, counts_of(record), stages.nearest, diagnostics=diagnostics, **assumptions.limits
        )
        return Learned.of(stages, report, assumptions.n_components, record.weight, evidence.place)


@dataclass(frozen=True)
class Auto:
    """The default: the full likelihood where it takes some seconds at most, or where many limits differ by cell; else
    one pass, also for rows that are learned in parts and for complete tables, where both methods are the same. Where
    ``margins`` are "auto" as well, a learner may fit a table with diagnostics again, without outlier rows and bad cells
    (:meth:`looks_twice`).

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
    >>> report = unrelu.RectifiedGaussianLearner().fit(X).report_
    >>> report.method, report.chosen_because
    ('full_likelihood', 'a table of this size takes some seconds at most')
    """

    takes_cell_limits: ClassVar[bool] = True

    def question(self, assumptions: Assumptions) -> PairMomentsQuestion:
        """The question of one pass, by which parts of a table are learned."""
        return OnePass().question(assumptions)

    def learn(
        self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, progress: Progress = no_progress
    ) -> Learned:
        """Learn a record, or rows, in one pass."""
        return OnePass().learn(evidence, assumptions, seed, progress)

    def looks_twice(self, samples: Samples, assumptions: Assumptions) -> bool:
        """Whether a learner may search for bad cells and outlier rows, which takes some seconds as well."""
        n, d = samples.n_rows, samples.n_features
        if n is None or samples.source.engine is not None or samples.limits_by_cell:
            return False
        plain = not (assumptions.nonnegative_mean or assumptions.auto_components or assumptions.n_components)
        return plain and d > 1 and n * d**3 <= _QUICK and n >= _ROWS_FOR_CELLS * d

    def choose(self, samples: Samples, evidence: Evidence, assumptions: Assumptions) -> tuple[Method, str]:
        """The method for these rows, and why."""
        from unrelu.fit.likelihood.learning import CellCountsQuestion

        n, d = samples.n_rows, samples.n_features
        if samples.limits_by_cell:
            return self._choose_for_limits(samples, evidence, assumptions)
        if assumptions.auto_components:
            return FullLikelihood(), "the number of factors is chosen by it"
        if assumptions.nonnegative_mean or assumptions.n_components is not None:
            return OnePass(), "nonnegative_mean and a rank of the covariance are its assumptions"
        if samples.source.engine is not None or n is None:
            return OnePass(), "the rows are read block by block, or elsewhere"
        if d == 1 or n * d**3 > _QUICK:
            return OnePass(), "one column" if d == 1 else "the full likelihood of a table of this size takes longer"
        if n < _ROWS_A_COLUMN * d:
            return OnePass(), "rows are few for that many columns"
        counts = evidence.collect(CellCountsQuestion(assumptions.censored_at, assumptions.lowest))
        counts.screening.check(assumptions, evidence.feature_names)
        if counts.seen.sum() >= counts.weight * d * (1.0 - 1e-12):
            return OnePass(), "no cell is hidden or missing"
        return FullLikelihood(), "a table of this size takes some seconds at most"

    def _choose_for_limits(self, samples: Samples, evidence: Evidence, assumptions: Assumptions) -> tuple[Method, str]:
        """The full likelihood, but of many rows one pass, if that keeps their limits apart."""
        n, d = samples.n_rows, samples.n_features
        plain = not assumptions.auto_components and d > 1
        if plain and (n is None or n * d**3 > _QUICK):
            with suppress(InvalidDataError):
                evidence.collect(OnePass().question(assumptions))
                return OnePass(), "limits differ by cell, and the full likelihood of such a table takes longer"
        return FullLikelihood(), "cells have limits of their own"


@dataclass(frozen=True)
class Robust(Method):
    """For tables in which up to nearly half of the rows are outliers: the fit that the inlier rows alone would give.

    Outliers get components of their own in a mixture, as many as the BIC chooses, at most ``max_groups`` with that of
    the inliers; rows that no component explains lose their weight (docs/research/011). The mixture is chosen on a
    sample of rows, and p-values are by simulated rows, both of them drawn by the seed.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(2000, random_state=1)
    >>> X[:300] = 8.0 + X[:300]
    >>> learner = unrelu.RectifiedGaussianLearner(method="robust").fit(X)
    >>> bool(learner.row_weights_[:300].max() < 0.01), round(learner.report_.share_downweighted, 2)
    (True, 0.15)
    """

    max_groups: int = 4

    def learn(
        self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, progress: Progress = no_progress
    ) -> Learned:
        from unrelu.fit.robust_rows.learn import learn_robustly

        check_count("max_groups", self.max_groups)
        return learn_robustly(evidence, assumptions, self.max_groups, seed, progress)


@dataclass(frozen=True)
class RobustCells(Method):
    """For cellwise outliers, with outlier rows beside them: the fit that the inlier cells alone would give.

    Every cell is an inlier, given the rest of its row, or drawn from a background of its column; a cell counts by its
    probability of being an inlier (docs/research/034). The sample of rows on which the fit starts is drawn by the seed.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(4, random_state=0).sample(2000, random_state=3)
    >>> X[:100, 1] += 8.0
    >>> learner = unrelu.RectifiedGaussianLearner(method="robust_cells").fit(X)
    >>> bad = learner.cell_weights_ < 0.5
    >>> bool(bad[:100, 1].all()), int(bad.sum())
    (True, 100)
    """

    def learn(
        self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, progress: Progress = no_progress
    ) -> Learned:
        from unrelu.fit.robust_cells.learn import learn_cells

        return learn_cells(evidence, assumptions, seed, progress)


@dataclass(frozen=True)
class FullLikelihood(Method):
    """Maximum likelihood of all cells together: seen, censored at a limit of their column or their own, or missing.

    The likelihood is maximized from the fit of "one_pass" in at most ``max_rounds`` passes over the rows
    (docs/research/026). The method for limits that differ by cell; elsewhere it is a little more accurate than
    "one_pass", and slower. ``n_components=k`` means k factors and noise in every column, and "auto" the number under
    which held-out rows are most likely.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
    >>> learner = unrelu.RectifiedGaussianLearner(method="full_likelihood").fit(X)
    >>> learner.report_.converged, learner.report_.n_parameters
    (True, 9)
    """

    max_rounds: int = 200
    takes_cell_limits: ClassVar[bool] = True

    def learn(
        self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, progress: Progress = no_progress
    ) -> Learned:
        from unrelu.fit.likelihood.learning import learn_by_likelihood

        check_count("max_rounds", self.max_rounds)
        return learn_by_likelihood(evidence, assumptions, self.max_rounds, progress)

    def jackknifed(self, evidence: Evidence, assumptions: Assumptions, progress: Progress = no_progress) -> Learned:
        """The same model with the standard errors of a jackknife over groups of rows, each left out in turn."""
        from unrelu.fit.likelihood.learning import learn_by_likelihood

        check_count("max_rounds", self.max_rounds)
        return learn_by_likelihood(evidence, assumptions, self.max_rounds, progress, jackknife=True)


_BY_NAME: dict[str, type[Method]] = {
    "auto": Auto,
    "one_pass": OnePass,
    "robust": Robust,
    "robust_cells": RobustCells,
    "full_likelihood": FullLikelihood,
}


def __getattr__(name: str) -> Any:
    if name in registry.offered("method"):
        return registry.find("method", name)
    raise AttributeError(f"module 'unrelu.methods' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def method_names() -> list[str]:
    """All names that :func:`method_named` takes."""
    return [*_BY_NAME, *registry.offered("method").values()]


def method_named(method: str | Method) -> Method:
    """The method of that name with its defaults, or the object itself.

    >>> method_named("one_pass")
    OnePass()
    """
    if not isinstance(method, str):
        if isinstance(method, type) or not callable(getattr(method, "learn", None)):
            names = ", ".join(repr(name) for name in method_names())
            raise InvalidParameterError(
                f"method must be a name ({names}) or an object from unrelu.methods, got {method!r}.", parameter="method"
            )
        return method
    if method in _BY_NAME:
        return _BY_NAME[method]()
    check_choice("method", method, method_names())
    of_papers = {name: each for each, name in registry.offered("method").items()}
    found: Method = registry.find("method", of_papers[method])()
    return found


def expects_outliers(method: str | Method) -> bool:
    """Whether a method leaves rows or cells out."""
    return isinstance(method_named(method), Robust | RobustCells)
