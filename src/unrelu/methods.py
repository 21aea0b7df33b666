"""Each named method as a composition of parts, side by side.

A method learns from evidence under assumptions. One that asks a single, mergeable question says so with
``question``; its record can then stand in for the data (partial_fit, merge). The papers' methods are in
:mod:`unrelu.papers.learners`, and found by their names (:mod:`unrelu.registry`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from unrelu import registry
from unrelu.checks.findings import diagnostics_of
from unrelu.checks.misfit import RowSampleQuestion, sample_rows
from unrelu.contracts import Assumptions, Evidence, LearningReport, Progress, Samples, Step, no_progress
from unrelu.errors import InvalidParameterError
from unrelu.fit.one_pass import Learned, counts_of, learn_record
from unrelu.passes.engine import ask_at_once
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.validation import check_choice, check_count

LEARNING = "Learning"

_ROWS_A_COLUMN = 4  # fewer of them, and all correlations at once are less certain than each by itself
_ROWS_FOR_CELLS = 5  # of them for every column that tell bad cells from others
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

    One that heeds the limits of single cells (``Block.censoring``) has ``takes_cell_limits = True``; others see none.

    >>> import unrelu
    >>> unrelu.RectifiedGaussianLearner(Robust(max_groups=2)).method  # wherever a method has a name, its object will do
    Robust(max_groups=2)
    """

    def question(self, assumptions: Assumptions) -> PairMomentsQuestion | None:
        """The only question it asks; None where later ones depend on earlier answers, as of those derived from this."""
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

    def question(self, assumptions: Assumptions) -> PairMomentsQuestion:
        """The only question this method asks."""
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
    """The default: the full likelihood where it takes some seconds at most, or where limits differ by cell; one pass
    elsewhere, of rows that are learned in parts, and where nothing is hidden, as both are then the same. The learner
    looks twice at doubtful tables (:meth:`looks_twice`) where margins are left open as well, and may leave out cells.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
    >>> report = unrelu.RectifiedGaussianLearner().fit(X).report_
    >>> report.method, report.chosen_because
    ('full_likelihood', 'a table of this size takes some seconds at most')
    """

    takes_cell_limits: ClassVar[bool] = True

    def question(self, assumptions: Assumptions) -> PairMomentsQuestion:
        """That of one pass, by which parts of a table are learned."""
        return OnePass().question(assumptions)

    def learn(
        self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, progress: Progress = no_progress
    ) -> Learned:
        """From a record, or rows of which nothing else is known: in one pass."""
        return OnePass().learn(evidence, assumptions, seed, progress)

    def looks_twice(self, samples: Samples, assumptions: Assumptions) -> bool:
        """Whether bad cells and outlier rows may be looked for: that takes some seconds as well."""
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
            return FullLikelihood(), "cells have limits of their own"
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
        tallied = evidence.collect(CellCountsQuestion(assumptions.censored_at, assumptions.lowest))
        tallied.screening.check(assumptions, evidence.feature_names)
        if tallied.seen.sum() >= tallied.weight * d * (1.0 - 1e-12):
            return OnePass(), "no cell is hidden or missing"
        return FullLikelihood(), "a table of this size takes some seconds at most"


@dataclass(frozen=True)
class Robust(Method):
    """Outlier rows, up to nearly half of the table: the fit that the inlier rows alone would give.

    Outliers get components of their own in a mixture, as many as the BIC wants and at most ``max_groups`` with the
    genuine one; what no component explains loses its weight (docs/research/011). The sample of rows on which the
    mixture is chosen and the simulated rows are drawn: the same seed gives the same model.

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
    """Single bad cells, and outlier rows beside them: the fit that the inlier cells alone would give.

    Every cell is genuine, given the rest of its row, or of a background of its column; what is counted is the
    probability of being genuine (docs/research/034). The sample of rows on which it starts is drawn by the seed.

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
    """The most likely model of all cells together: seen, cut off at a limit of their column or their own, or missing.

    Started from "one_pass" and climbed by passes over the rows, at most ``max_rounds`` (docs/research/026). The method
    for limits that differ by cell; on complete tables a little better than "one_pass", and slower. ``n_components=k``
    means k factors and noise in every column, and "auto" the number under which held-out rows are most likely.

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
    """All that :func:`method_named` knows."""
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
