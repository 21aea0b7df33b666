"""Each named method as a composition of parts, side by side.

A method learns from evidence under assumptions. One that asks a single, mergeable question says so with
``question``; its record can then stand in for the data (partial_fit, merge). The parts of the papers' methods are
imported where they are used, so that the default one starts fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from unrelu.contracts import (
    Assumptions,
    Census,
    Evidence,
    LearningReport,
    MarginalEstimator,
    Samples,
    Step,
    Watch,
    unwatched,
)
from unrelu.doubts.findings import doubts_of, warn_of
from unrelu.errors import InvalidParameterError
from unrelu.evidence import SampleEvidence, ask_at_once
from unrelu.learning import Learned, census_of, learn, learn_as_written, learn_record
from unrelu.statistics.pair_moments import PairMomentsQuestion
from unrelu.validation import check_choice, check_count, label_columns

if TYPE_CHECKING:
    from unrelu.correlations.exceedance_angles import ExceedanceAngles

LEARNING = "Learning (the first run also compiles)"

_ROWS_A_COLUMN = 4  # fewer of them, and all correlations at once are less certain than each by itself
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

    One that heeds the limits of single cells (``Block.beyond``) has ``takes_cell_limits = True``; others see none.

    >>> import unrelu
    >>> unrelu.RectifiedGaussianLearner(Robust(max_groups=2)).method  # wherever a method has a name, its object will do
    Robust(max_groups=2)
    """

    def question(self, assumptions: Assumptions) -> PairMomentsQuestion | None:
        """The only question it asks, or None where it reads the rows more than once."""
        ...

    def learn(self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, watch: Watch = unwatched) -> Learned:
        """The model of the rows behind the evidence; the same ``seed`` gives the same model."""
        ...


class _SeveralPasses:
    """A method whose later questions depend on earlier answers."""

    def question(self, assumptions: Assumptions) -> None:
        return None


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

    def learn(self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, watch: Watch = unwatched) -> Learned:
        question, look = self.question(assumptions), None
        if isinstance(evidence, SampleEvidence):
            from unrelu.doubts.rows import LookQuestion

            ask_at_once(evidence, question, LookQuestion.under(assumptions))
        record = evidence.collect(question)
        watch(Step(LEARNING))
        stages = learn_record(record, assumptions, evidence.feature_names)
        if isinstance(evidence, SampleEvidence):
            from unrelu.doubts.rows import look_at

            look = look_at(evidence, assumptions)
        doubts = doubts_of(record, stages.rows, assumptions, stages.pairs, stages.assembly, look)
        warn_of(doubts, evidence.feature_names)
        rows = record.n_rows, record.effective_rows
        report = LearningReport.of(
            "one_pass", *rows, census_of(record), stages.assembly, doubts=doubts, **assumptions.limits
        )
        return Learned.of(stages, report, assumptions.n_components, record.weight)


@dataclass(frozen=True)
class Auto:
    """The default: the full likelihood where it takes some seconds at most, or where limits differ by cell; one pass
    elsewhere, of rows that are learned in parts, and where nothing is hidden, as both are then the same.

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

    def learn(self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, watch: Watch = unwatched) -> Learned:
        """From a record, or rows of which nothing else is known: in one pass."""
        return OnePass().learn(evidence, assumptions, seed, watch)

    def choose(self, samples: Samples, evidence: Evidence, assumptions: Assumptions) -> tuple[Method, str]:
        """The method for these rows, and why."""
        from unrelu.likelihood.cells import CellTallyQuestion
        from unrelu.statistics.screening import ScreeningQuestion

        n, d = samples.n_rows, samples.n_features
        if getattr(samples, "limits_by_cell", ()):
            return FullLikelihood(), "cells have limits of their own"
        if assumptions.auto_components:
            return FullLikelihood(), "the number of factors is chosen by it"
        if assumptions.nonnegative_bias or assumptions.n_components is not None:
            return OnePass(), "nonnegative_bias and a rank of the covariance are its assumptions"
        if getattr(samples, "engine", None) is not None or n is None:
            return OnePass(), "the rows are read block by block, or elsewhere"
        if d == 1 or n * d**3 > _QUICK:
            return OnePass(), "one column" if d == 1 else "the full likelihood of a table of this size takes longer"
        if n < _ROWS_A_COLUMN * d:
            return OnePass(), "rows are few for that many columns"
        evidence.collect(ScreeningQuestion(assumptions.lowest)).check(assumptions, evidence.feature_names)
        tally = evidence.collect(CellTallyQuestion(assumptions.censoring))
        if tally.seen.sum() >= tally.weight * d * (1.0 - 1e-12):
            return OnePass(), "no cell is hidden or missing"
        return FullLikelihood(), "a table of this size takes some seconds at most"


@dataclass(frozen=True)
class Robust(_SeveralPasses):
    """Outlier rows, up to nearly half of the table: the fit that the genuine rows alone would give.

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

    def learn(self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, watch: Watch = unwatched) -> Learned:
        from unrelu.robust.learning import learn_robustly

        check_count("max_groups", self.max_groups)
        return learn_robustly(evidence, assumptions, self.max_groups, seed, watch)


@dataclass(frozen=True)
class RobustCells(_SeveralPasses):
    """Single bad cells, and outlier rows beside them: the fit that the genuine cells alone would give.

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

    def learn(self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, watch: Watch = unwatched) -> Learned:
        from unrelu.bad_cells.learning import learn_cells

        return learn_cells(evidence, assumptions, seed, watch)


@dataclass(frozen=True)
class FullLikelihood(_SeveralPasses):
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

    def learn(self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, watch: Watch = unwatched) -> Learned:
        from unrelu.likelihood.learning import learn_by_likelihood

        check_count("max_rounds", self.max_rounds)
        return learn_by_likelihood(evidence, assumptions, self.max_rounds, watch)

    def jackknifed(self, evidence: Evidence, assumptions: Assumptions, watch: Watch = unwatched) -> Learned:
        """The same model with the standard errors of a jackknife over groups of rows, each left out in turn."""
        from unrelu.likelihood.learning import learn_by_likelihood

        check_count("max_rounds", self.max_rounds)
        return learn_by_likelihood(evidence, assumptions, self.max_rounds, watch, jackknife=True)


@dataclass(frozen=True)
class TruncatedSGD(_SeveralPasses):
    """Wu et al. 2019, Algorithms 1 to 3: truncated fits by projected SGD, angles by counts.

    ``radius`` r and ``step`` lambda are the paper's; ``batches`` is B of Algorithm 2; ``minibatch`` is the number of
    values a step, 10 in the authors' code; ``draws`` is the number of z drawn for each, 1 in equation (6), where more
    only reduce the noise. Needs non-negative biases; ``allow_partial`` learns the pairs it can. The pairs are made one
    semidefinite matrix, which the paper does not do: ``project=False`` is Algorithm 1 to the letter, and raises
    NotSemidefiniteError, which holds the matrix, where no model has it.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(20_000, random_state=1)
    >>> learner = unrelu.RectifiedGaussianLearner(method=unrelu.methods.TruncatedSGD(batches=3)).fit(X)
    >>> learner.report_.method
    'sgd'
    """

    radius: float = 3.0
    step: float = 0.1
    batches: int = 1
    minibatch: int = 10
    draws: int = 3
    allow_partial: bool = False
    project: bool = True

    def learn(self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, watch: Watch = unwatched) -> Learned:
        from unrelu.marginals.truncated_sgd import TruncatedLikelihoodSGD

        marginals = TruncatedLikelihoodSGD(
            assumptions, self.radius, self.step, self.batches, self.minibatch, self.draws, seed
        )
        angles = _angles(assumptions, self.allow_partial, self.project)
        return _learn_by_angles("sgd", evidence, assumptions, marginals, angles, watch)


@dataclass(frozen=True)
class FilteredGradient(_SeveralPasses):
    """Bulusu et al. 2022, Algorithms 1 and 2: gradient descent on filtered batch means, angles by counts.

    ``filter`` is "median", "trimmed_mean" (which cuts the share ``trim`` at each end) or None; ``steps`` is T (None:
    the paper's positives/100). Values are not rescaled, so norms must lie between 1/sqrt(radius) and sqrt(radius), as
    in the paper's experiments. ``allow_partial`` and ``project`` as in :class:`TruncatedSGD`.

    What the paper leaves open: ``batches``, their number n_b, or ``batch_size``, the values in one (None: ten); their
    ``order``, "scattered" (neighbouring rows in different batches) or "consecutive" (neighbours together, for outliers
    that sit together); ``every_step`` makes batches and filters them at every step, as its section 3 says, instead of
    once, as its Algorithm 2 says.

    ``stochastic``: every step draws ``drawn`` batches of one value; None is one of them, as the paper says, or ten
    where a filter needs several.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(20_000, random_state=1)
    >>> method = unrelu.methods.FilteredGradient(filter="trimmed_mean", trim=0.2)
    >>> unrelu.RectifiedGaussianLearner(method=method).fit(X).report_.method
    'filtered_gradient'
    """

    filter: str | None = "median"
    stochastic: bool = False
    trim: float = 0.1
    batches: int | None = None
    steps: int | None = None
    radius: float = 3.0
    step: float = 0.1
    allow_partial: bool = False
    order: str = "scattered"
    batch_size: int | None = None
    drawn: int | None = None
    every_step: bool = False
    project: bool = True

    def learn(self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, watch: Watch = unwatched) -> Learned:
        from unrelu.marginals.batching import Batching
        from unrelu.marginals.filtered_gradient import FilteredGradientDescent, Sampling
        from unrelu.marginals.filters import filter_named

        if self.drawn is not None and not self.stochastic:
            raise InvalidParameterError(f"drawn={self.drawn!r} has no effect without stochastic=True: leave it out.")
        marginals = FilteredGradientDescent(
            assumptions,
            filter_named(self.filter, self.trim),
            Batching(self.batches, self.batch_size, self.order, default_size=1 if self.stochastic else 10),
            Sampling(self.drawn) if self.stochastic else None,
            self.every_step,
            self.steps,
            self.radius,
            self.step,
            seed,
        )
        angles = _angles(assumptions, self.allow_partial, self.project)
        return _learn_by_angles("filtered_gradient", evidence, assumptions, marginals, angles, watch)


@dataclass(frozen=True)
class MedianBias(_SeveralPasses):
    """Wu et al. 2019, footnote 4: the bias is the samples' median; norms from the spread above it, angles by counts.

    >>> import unrelu
    >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(20_000, random_state=1)
    >>> unrelu.RectifiedGaussianLearner(method="median").fit(X).report_.method
    'median'
    """

    allow_partial: bool = False

    def learn(self, evidence: Evidence, assumptions: Assumptions, seed: int = 0, watch: Watch = unwatched) -> Learned:
        from unrelu.marginals.sample_median import SampleMedian

        angles = _angles(assumptions, self.allow_partial)
        return _learn_by_angles("median", evidence, assumptions, SampleMedian(assumptions), angles, watch)


def _angles(assumptions: Assumptions, allow_partial: bool, project: bool = True) -> ExceedanceAngles:
    from unrelu.correlations.exceedance_angles import ExceedanceAngles

    return ExceedanceAngles(assumptions, allow_partial, project)


def _learn_by_angles(
    name: str,
    evidence: Evidence,
    assumptions: Assumptions,
    marginals: MarginalEstimator,
    angles: ExceedanceAngles,
    watch: Watch,
) -> Learned:
    """Algorithm 1 of Wu et al. 2019 and Bulusu et al. 2022, whatever fits the marginals."""
    from unrelu.statistics.column_tally import ColumnTallyQuestion
    from unrelu.statistics.exceedances import ExceedancesQuestion

    if (none := np.isneginf(assumptions.floor)).any():
        raise InvalidParameterError(
            f"No floor for {label_columns(none, evidence.feature_names)}, and method={name!r} needs one in every"
            " column: use method='one_pass' or 'robust'."
        )
    watch(Step(LEARNING))
    stages = (learn if angles.project else learn_as_written)(evidence, assumptions, marginals, angles)
    rows = stages.rows
    tally = evidence.collect(ColumnTallyQuestion.under(assumptions))
    together = evidence.collect(ExceedancesQuestion(tuple(np.maximum(rows.bias, rows.floor).tolist()))).both
    census = Census(tally.n_rows, tally.observed, tally.above, together == 0.0)
    report = LearningReport.of(name, tally.n_rows, float(tally.n_rows), census, stages.assembly, **assumptions.limits)
    return Learned.of(stages, report, assumptions.n_components, float(tally.n_rows))


_BY_NAME: dict[str, type[Method]] = {
    "auto": Auto,
    "one_pass": OnePass,
    "robust": Robust,
    "robust_cells": RobustCells,
    "full_likelihood": FullLikelihood,
    "sgd": TruncatedSGD,
    "filtered_gradient": FilteredGradient,
    "median": MedianBias,
}


def method_named(method: str | Method) -> Method:
    """The method of that name with its defaults, or the object itself.

    >>> method_named("one_pass")
    OnePass()
    """
    if not isinstance(method, str):
        if isinstance(method, type) or not callable(getattr(method, "learn", None)):
            raise InvalidParameterError(
                f"method must be a name ({_names()}) or an object from unrelu.methods, got {method!r}."
            )
        return method
    check_choice("method", method, list(_BY_NAME))
    return _BY_NAME[method]()


def expects_outliers(method: str | Method) -> bool:
    """Whether a method leaves rows or cells out.

    >>> expects_outliers("robust"), expects_outliers("one_pass")
    (True, False)
    """
    return isinstance(method_named(method), Robust | RobustCells)


def is_of_papers(method: str | Method) -> bool:
    """Whether a method is one of the papers' own, which assume normal columns.

    >>> is_of_papers("sgd"), is_of_papers("auto")
    (True, False)
    """
    return isinstance(method_named(method), TruncatedSGD | FilteredGradient | MedianBias)


def _names() -> str:
    return ", ".join(repr(name) for name in _BY_NAME)
