"""RectifiedGaussianLearner: scikit-learn's way to the learned model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from unrelu.checks.findings import warn_of
from unrelu.contracts import Assumptions, Doubt, FloatArray, Samples
from unrelu.errors import InvalidParameterError
from unrelu.estimators.base import Table
from unrelu.estimators.learned_model import LearnedModel
from unrelu.estimators.second_look import SecondLook, continued, warn_again
from unrelu.estimators.shaping import refuse_to_learn_by_parts
from unrelu.fit.jackknife import jackknifed
from unrelu.fit.one_pass import Learned
from unrelu.kernels import tells_of_compiling
from unrelu.methods import Auto, FullLikelihood, Method, OnePass, expects_outliers, is_of_papers, method_named
from unrelu.passes.engine import engine_for
from unrelu.passes.evidence import RecordedEvidence, SampleEvidence
from unrelu.passes.pair_moments import (
    GroupedMoments,
    GroupedMomentsQuestion,
    PairMoments,
    PairMomentsQuestion,
    whole_of,
)
from unrelu.shapes import same_shapes, seen_by_all
from unrelu.tables.groups import GroupedSamples, LongBlocks, split_groups
from unrelu.tables.held import held
from unrelu.validation import check_choice, listed

_STDERR_CHANGED = "stderr was changed after rows were learned: fit them again."


class RectifiedGaussianLearner(LearnedModel):
    """Learn x = max(y, floor), y ~ N(bias, covariance), from rows of x.

    Parameters
    ----------
    method : str or object from :mod:`unrelu.methods`, default="auto"
        How to learn: "auto" is "full_likelihood" where that takes some seconds at most, or where limits differ from
        cell to cell, else "one_pass" (``report_.method`` says which, ``report_.chosen_because`` why), and with
        shape="auto" it is "robust_cells" where rows or cells clearly do not belong, which is told; "robust" where rows
        may be outliers, "robust_cells" where single cells may be bad; and the papers' own.
    floor : float, one per column, dict or Series by name, None or "min", or one per cell, default=0.0
        Values at the floor are cut off there; values below it are an error. NaN means not observed. None (or -inf) is
        for a column without a floor; "min" is the column's smallest value where it repeats. In a dict "*" is for the
        columns that it does not name, 0 by default. An array or data frame of the table's shape gives every cell its
        own, NaN for none, with method="full_likelihood" only: the learned model then has no floor in such columns.
    ceiling : float, one per column, dict or Series by name, None or "max", or one per cell, default=None
        Upper limits, the mirror image of floors. A column has a floor or a ceiling: one with a ceiling has no floor.
        Only limits of single cells may be of both kinds in one column.
    nonnegative_bias : bool, default=False
        Assume every bias at or above its floor, as Wu et al. 2019 and Bulusu et al. 2022 do.
    shape : str, object of :mod:`unrelu.shapes`, one per column, or dict by name, default="auto"
        What becomes of the normal y before it is cut off: "normal" (x = y), "log" (x = exp(y)), "power" (Box and Cox's,
        its exponent learned), "free" (any increasing function). "auto" is "log" for a column of positive values and
        "normal" for others; where the column clearly rejects that, "power" or "free"; with the papers' methods it is
        "normal".
        Bias, norms and covariance are then those of the latent y; floor, ceiling and samples stay in your units.
    n_components : int, "auto" or None, default=None
        Number k of latent inputs: the covariance W W' then has rank at most k. With "full_likelihood" every column has
        noise of its own as well, W W' + diag(noise), and "auto" finds k by the likelihood of held-out rows.
    floor_tolerance : float, default=0.0
        Noise after the floor: values within it of the floor, above or below, count as floored.
    random_state : int, Generator or None, default=0
        Seeds the methods that draw; "one_pass" does not.
    stderr : "model" or "jackknife", default="model"
        Standard errors that trust the model ("full_likelihood" trusts its rows), or those of a jackknife over groups of
        rows, right also for columns that are not normal, and for clustered rows where ``fit(X, groups=...)`` names the
        clusters. Without ``groups`` rows are dealt to 20 groups. With "one_pass" and "full_likelihood".

    Attributes
    ----------
    bias_, covariance_, correlation_, row_norms_ : arrays
        The learned latent mean, covariance W W', its correlations, and norms of the rows of W.
    scoring_covariance_ : array
        What rows are scored by: the covariance, shrunken as far as it is uncertain (``report_.shrinkage``).
    bias_stderr_, row_norms_stderr_, correlation_stderr_ : arrays
        Standard errors (``report_.stderr`` says which); those of the correlations are before the assembly into one
        semidefinite matrix.
    distribution_ : RectifiedGaussian
        The learned model: sample from it, save it; ``distribution_.column_summary()`` speaks in your units.
    shapes_ : tuple of shapes, or None where all are normal
    report_ : LearningReport
        How the learning went.
    row_weights_ : array
        With the robust methods: one number per row, from 1 for a genuine row to 0 for an outlier.
    cell_weights_ : array
        With method="robust_cells": the same for every cell, n x d.

    Notes
    -----
    ``sample_weight`` gives the same model as repeating rows. Standard errors use Kish's effective number of rows,
    (sum w)^2 / sum w^2: right for weights that say how much to trust a row, too large by the root of the mean weight
    for counts of identical rows. Weights that say how much to trust a row should have a mean near 1.
    Standard errors of correlations beyond .998 between columns with different shares of floored values are too small:
    they leave out what is quadratic in the error of the marginals.

    Examples
    --------
    >>> import unrelu
    >>> truth = unrelu.synthetic.random_model(4, random_state=0)
    >>> X = truth.sample(20_000, random_state=1)
    >>> learner = unrelu.RectifiedGaussianLearner().fit(X)
    >>> bool(unrelu.metrics.parameter_errors(learner.distribution_, truth)["bias"] < 0.02)
    True
    """

    _has_ceilings = True
    _takes_cells = True
    _learned: Learned | None
    _record: PairMoments | GroupedMoments | None
    _to_add_to: PairMoments | None  # of rows whose model is not that of a record, for partial_fit alone
    _takes_sparse = True

    def __init__(
        self,
        method: str | Method = "auto",
        *,
        floor: Any = 0.0,
        ceiling: Any = None,
        shape: Any = "auto",
        nonnegative_bias: bool = False,
        n_components: int | str | None = None,
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
        stderr: str = "model",
    ) -> None:
        self.method = method
        self.floor = floor
        self.ceiling = ceiling
        self.shape = shape
        self.nonnegative_bias = nonnegative_bias
        self.n_components = n_components
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state
        self.stderr = stderr

    # --- learning ---------------------------------------------------------------------------------

    @tells_of_compiling
    def fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:  # noqa: ARG002
        """Learn from the rows of X, forgetting any earlier rows.

        X is an array, a data frame, or rows that are read block by block (:func:`unrelu.tables.open_samples`).
        ``groups`` goes with stderr="jackknife": one label per row, or the name of a column of X, which is then no
        feature. Rows with one label stay together; more than 60 labels are dealt to 20 groups.

        >>> import numpy as np
        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
        >>> days = np.arange(1000) // 50
        >>> learner = unrelu.RectifiedGaussianLearner(stderr="jackknife").fit(X, groups=days)
        >>> learner.report_.stderr, learner.report_.stderr_degrees
        ('jackknife', 19)
        """
        self._record, self._learned, self._to_add_to = None, None, None
        method, X = method_named(self.method), held(X)
        by_cell = bool(getattr(method, "takes_cell_limits", False))
        samples = self._labelled_rows(X, sample_weight, groups, reset=True, by_cell=by_cell)
        assumptions = self._assumptions()
        evidence = SampleEvidence(samples, engine_for(samples, self._watch))
        chosen, because = self._chosen(method, samples, evidence, assumptions)
        left_open = isinstance(method, Auto) and isinstance(self.shape, str) and self.shape == "auto"
        if not left_open or self._wants_jackknife():
            self._fit_by(chosen, samples, evidence, assumptions)
            self._tell_why(because)
            return self
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            self._fit_by(chosen, samples, evidence, assumptions)
        self._tell_why(because)
        looks_twice = Auto().looks_twice(samples, assumptions)
        if not (looks_twice and self._take_advice(X, sample_weight, evidence, assumptions)):
            warn_again(noted)
        self._add_doubts(continued(self._result().report, self._shapes))
        return self

    def _take_advice(self, X: Any, sample_weight: Any, evidence: SampleEvidence, assumptions: Assumptions) -> bool:
        """Do what the doubts about this fit ask for, and say whether anything was done."""
        look = SecondLook(self, self._result().report, X, sample_weight, evidence, assumptions, self._watch)
        found = look.advice()
        if found is None:
            return False
        other = found.learner
        self._learned, self._record, self._to_add_to = other._learned, other._record, None
        self._shapes, self._found_limits = other._shapes, other._found_limits
        self._add_doubts(found.doubts)
        self._tell_why(found.because)
        return True

    def _add_doubts(self, doubts: tuple[Doubt, ...]) -> None:
        """Put doubts before the others, and warn of them."""
        if doubts:
            warn_of(doubts, self._names())
            learned = self._result()
            self._learned = replace(learned, report=replace(learned.report, doubts=(*doubts, *learned.report.doubts)))

    def _tell_why(self, because: str) -> None:
        """Say in the report why a method was taken that was left open."""
        if because and self._learned is not None:
            told = replace(self._learned.report, chosen_because=because)
            self._learned = replace(self._learned, report=told)

    def _chosen(
        self, method: Method, samples: Samples, evidence: SampleEvidence, assumptions: Assumptions
    ) -> tuple[Method, str]:
        """The method for these rows, and why, where that was left open."""
        if not isinstance(method, Auto):
            return method, ""
        by_likelihood = bool(samples.limits_by_cell) or assumptions.auto_components
        if self._wants_jackknife() and not by_likelihood:
            return OnePass(), "records of groups of rows, which a jackknife keeps, are of one pass"
        return method.choose(samples, evidence, assumptions)

    def _fit_by(self, method: Method, samples: Samples, evidence: SampleEvidence, assumptions: Assumptions) -> None:
        """Learn by a method that is known by now."""
        if self._wants_jackknife() and isinstance(method, FullLikelihood):
            self._learned = method.jackknifed(evidence, assumptions, self._watch)
            self._tell_likelihood(samples)
            return
        if self._wants_jackknife():
            record = evidence.collect(GroupedMomentsQuestion(self._question(assumptions)))
            self._learned = self._learn(record, assumptions)
            self._record = record
            return
        question, seed = method.question(assumptions), self._seed()
        if question is None:
            self._learned = self._by_shapes_of_kept(
                samples,
                lambda rows: method.learn(
                    SampleEvidence(rows, engine_for(rows, self._watch)), self._assumptions(), seed, self._watch
                ),
            )
            self._tell_likelihood(samples)
            if isinstance(method_named(self.method), Auto) and not samples.limits_by_cell:
                self._to_add_to = evidence.collect(OnePass().question(assumptions))
            return
        self._learned = method.learn(evidence, assumptions, seed, self._watch)
        self._record = evidence.collect(question)

    def _tell_likelihood(self, samples: Samples) -> None:
        """A likelihood that was found of latent values is reported in the user's units."""
        report: Any = self._result().report
        if self._shapes is not None and hasattr(report, "log_likelihood"):
            gained = samples.total_log_slope()
            told = replace(report, log_likelihood=report.log_likelihood + gained)
            self._learned = replace(self._result(), report=told)

    def partial_fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:  # noqa: ARG002
        """Add the rows of X to those seen before. The model is solved when an attribute is next asked for.

        >>> import numpy as np
        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
        >>> whole = unrelu.RectifiedGaussianLearner("one_pass").fit(X)
        >>> parts = unrelu.RectifiedGaussianLearner("one_pass").partial_fit(X[:300]).partial_fit(X[300:])
        >>> bool(np.allclose(parts.bias_, whole.bias_, rtol=1e-10))
        True
        """
        before: Any = getattr(self, "_record", None)
        if before is None and isinstance(method_named(self.method), Auto | OnePass):
            before = getattr(self, "_to_add_to", None)
        learned = before is None and getattr(self, "_learned", None) is not None
        if learned and isinstance(method_named(self.method), Auto | OnePass):
            raise InvalidParameterError(
                "The rows so far were learned by a method that keeps no record to add to: learn them with"
                " method='one_pass', or all rows together."
            )
        if before is None and any(isinstance(limit, str) for limit in (self.floor, self.ceiling)):
            raise InvalidParameterError(
                "floor='min' and ceiling='max' need all rows at once: use fit, or give numbers."
            )
        if before is None:
            refuse_to_learn_by_parts(self.shape)
        samples = self._labelled_rows(X, sample_weight, groups, reset=before is None, part=True)
        assumptions = self._assumptions()
        plain = self._question(assumptions)
        seen = 0 if before is None else before.n_rows
        question: Any = GroupedMomentsQuestion(plain, rows_before=seen) if self._wants_jackknife() else plain
        record = engine_for(samples, self._watch).collect(samples, question)
        # Bad cells must not enter the sums: check before merging, so that the rows seen so far stay usable.
        whole_of(record).screening.check(assumptions, samples.feature_names)
        if before is not None and type(before) is not type(record):
            raise InvalidParameterError(_STDERR_CHANGED)
        self._record = record if before is None else before.merge(record)
        self._learned, self._to_add_to = None, None
        return self

    def _labelled_rows(
        self, X: Any, sample_weight: ArrayLike | None, groups: Any, *, reset: bool, **asked: bool
    ) -> Samples:
        """The rows, each with its group where groups are given."""
        jackknife = self._wants_jackknife()
        if groups is not None and not jackknife:
            raise InvalidParameterError(
                "groups= is for the jackknife: use it with stderr='jackknife', or leave it out."
            )
        X, labels = (X, None) if groups is None else split_groups(X, groups)
        samples = self._rows(X, sample_weight, reset=reset, smallest=1 if asked.get("part") else 2, **asked)
        samples = LongBlocks(samples) if jackknife else samples
        return samples if labels is None else GroupedSamples(samples, labels)

    def _shapes_come_of_kept_rows(self) -> bool:
        return expects_outliers(self.method)

    def _wanted_shape(self) -> Any:
        normal = is_of_papers(self.method) or self.nonnegative_bias
        return "normal" if normal and isinstance(self.shape, str) and self.shape == "auto" else self.shape

    def _wants_jackknife(self) -> bool:
        check_choice("stderr", self.stderr, ("model", "jackknife"))
        return self.stderr == "jackknife"

    def _assumptions(self) -> Assumptions:
        d = self.n_features_in_
        k = self.n_components
        auto = isinstance(k, str) and k == "auto"
        if auto and not isinstance(method_named(self.method), FullLikelihood | Auto):
            raise InvalidParameterError(
                "n_components='auto' compares likelihoods of held-out rows: use method='full_likelihood', or give a"
                " number."
            )
        if not auto and k is not None and not (isinstance(k, Integral) and 1 <= k <= d):
            raise InvalidParameterError(f"n_components must be None or between 1 and {d} (the columns), got {k!r}.")
        if not isinstance(self.nonnegative_bias, bool | np.bool_):
            raise InvalidParameterError(f"nonnegative_bias must be True or False, got {self.nonnegative_bias!r}.")
        return replace(
            super()._assumptions(),
            nonnegative_bias=bool(self.nonnegative_bias),
            n_components=None if k is None or auto else int(k),
            auto_components=auto,
        )

    def _question(self, assumptions: Assumptions) -> PairMomentsQuestion:
        method = method_named(self.method)
        question = method.question(assumptions)
        if question is None:
            can = "use fit, or method='one_pass'"
            if self._wants_jackknife() and not isinstance(method, FullLikelihood):
                can = "use stderr='model', method='one_pass' or method='full_likelihood'"
            raise InvalidParameterError(f"{type(method).__name__} reads the rows more than once: {can}.")
        return question

    # --- what was learned -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_learned", None) is not None or getattr(self, "_record", None) is not None

    def _result(self) -> Learned:
        check_is_fitted(self)
        if self._learned is None:
            assert self._record is not None
            self._learned = self._learn(self._record, self._assumptions())
        return self._learned

    def _learn(self, record: PairMoments | GroupedMoments, assumptions: Assumptions) -> Learned:
        """The model of the rows that a record is of."""
        question, whole = self._question(assumptions), whole_of(record)
        if tuple(whole.floor.tolist()) != question.floor:
            raise InvalidParameterError("The floor was changed after rows were learned: fit them again.")
        evidence, method = RecordedEvidence(question, whole, self._names(), self._place), method_named(self.method)
        learned = method.learn(evidence, assumptions, self._seed(), self._watch)
        return self._with_errors(learned, record, assumptions)

    def _with_errors(self, learned: Learned, record: PairMoments | GroupedMoments, assumptions: Assumptions) -> Learned:
        """The model with the standard errors that are asked for."""
        if not self._wants_jackknife():
            return learned
        if not isinstance(record, GroupedMoments):
            raise InvalidParameterError(_STDERR_CHANGED)
        return jackknifed(learned, record, assumptions, self._names(), self._watch)

    def densities_with_outliers(self, X: Table) -> FloatArray:
        """Log density of each row by all that was learned: outlier rows and bad cells of robust methods included."""
        learned: Any = self._result()
        if hasattr(learned, "mixture") and len(learned.columns) == self.n_features_in_:
            return self._log_densities(X, lambda x: learned.mixture.posterior(x, converged=True)[1], [self._law()])
        if hasattr(learned, "law"):
            law = learned.law
            look = partial(law.look, predicting=False, converged=True)
            return self._log_densities(X, lambda x: law.log_densities(look(x)), [self._law()])
        return self.score_samples(X)

    @property
    def record_(self) -> PairMoments | GroupedMoments:
        """What one pass over the rows kept (by groups for a jackknife): it merges, and stands for the rows."""
        check_is_fitted(self)
        if self._record is None:
            raise AttributeError(f"A learner with method {self.method!r} keeps no record: use method='one_pass'.")
        return self._record

    def with_record(
        self, record: PairMoments | GroupedMoments, others: Sequence[RectifiedGaussianLearner] = ()
    ) -> RectifiedGaussianLearner:
        """A learner with the same parameters and columns, of the rows that ``record`` is of, those of others too."""
        check_is_fitted(self)
        learner: RectifiedGaussianLearner = clone(self)
        learner.n_features_in_ = self.n_features_in_
        if self._names() is not None:
            learner.feature_names_in_ = self.feature_names_in_
        learner._found_limits, learner._shapes = self._found_limits, seen_by_all([e._shapes for e in (self, *others)])
        learner._record, learner._learned = record, None
        return learner

    def of_columns(self, columns: NDArray[np.int64]) -> RectifiedGaussianLearner:
        """A learner of some of the columns, from the same rows; for one with the same limits in all of them."""
        record = self.record_
        assert isinstance(record, PairMoments), "a jackknife's records have no columns to be left out"
        learner = self.with_record(record.of_columns(columns))
        learner.n_features_in_ = len(columns)
        if self._names() is not None:
            learner.feature_names_in_ = self.feature_names_in_[columns]
        learner._place, learner._answers_on = self._place, self._answers_on
        return learner

    def agrees_with(self, other: RectifiedGaussianLearner) -> None:
        """Raise InvalidParameterError if the two assume different things, or call their columns differently."""
        if self.n_features_in_ != other.n_features_in_:
            return  # their records will say so
        mine, others = self._assumptions(), other._assumptions()
        compared = [each.name for each in fields(mine) if each.compare]
        different = [name for name in compared if getattr(mine, name) != getattr(others, name)]
        different += [] if same_shapes(self._shapes, other._shapes) else ["shape"]
        different += [] if self.stderr == other.stderr else ["stderr"]
        if different or method_named(self.method) != method_named(other.method):
            what = listed(dict.fromkeys(different or ["method"]))
            way = (
                " Shapes that were learned differ with the rows: give all of them the same."
                if "shape" in different
                else ""
            )
            raise InvalidParameterError(
                f"Cannot merge learners with different parameters ({what}): {self} and {other}.{way}"
            )
        names = [listed(getattr(each, "feature_names_in_", ()), most=8) for each in (self, other)]
        if list(getattr(self, "feature_names_in_", ())) != list(getattr(other, "feature_names_in_", ())):
            raise InvalidParameterError(
                f"Cannot merge learners with different column names: {names[0] or 'none'}; and {names[1] or 'none'}."
            )
