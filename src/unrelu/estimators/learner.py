"""RectifiedGaussianLearner: the model, learned with scikit-learn's interface; the base of estimators that hold one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from inspect import signature
from numbers import Integral
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from unrelu.checks.findings import warn_of
from unrelu.contracts import Assumptions, Diagnostic, Evidence, FloatArray, Samples
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.estimators.base import Table, in_one_warning
from unrelu.estimators.fits import Fit, Learning, evidence_of
from unrelu.estimators.fitted import FittedModel, every_learned
from unrelu.estimators.second_look import better_fit, continued
from unrelu.fit.jackknife import jackknifed
from unrelu.fit.one_pass import Learned
from unrelu.kernels import reports_compiling
from unrelu.limits import is_by_cell, limits_of
from unrelu.margins import same_margins, seen_by_all
from unrelu.methods import Auto, FullLikelihood, Method, OnePass, expects_outliers, method_named
from unrelu.passes.engine import engine_for
from unrelu.passes.pair_moments import (
    GroupedMoments,
    GroupedMomentsQuestion,
    PairMoments,
    PairMomentsQuestion,
    whole_of,
)
from unrelu.passes.rows import as_rows
from unrelu.tables.groups import split_groups
from unrelu.tables.prepared import Columns, held, prepared, total_log_slope
from unrelu.validation import Line, check_choice, listed, noting_warnings, warn_of_noted

_STDERR_CHANGED = "stderr was changed after rows were learned: fit them again."
_FLOOR_CHANGED = "The floor was changed after rows were learned: fit them again."
Record = PairMoments | GroupedMoments


class RectifiedGaussianLearner(FittedModel):
    """Learn x = max(y, floor), y ~ N(mean, covariance), from rows of x.

    Parameters
    ----------
    method : str or object from :mod:`unrelu.methods`, default="auto"
        How to learn. "auto" is "full_likelihood" where that takes some seconds at most, or where limits differ from
        cell to cell, else "one_pass"; with margins="auto" it is "robust_cells" where rows or cells clearly do not
        follow the model of the others, and a warning says so. ``report_.method`` has the choice and
        ``report_.chosen_because`` the reason. "robust" is for tables with outlier rows, "robust_cells" for cellwise
        outliers; the papers' methods have names, too.
    floor : float, one per column, dict or Series by name, None or "min", or one per cell, default=0.0
        Detection limits: values at the floor are left-censored there; values below it are an error. NaN means not
        observed. None (or -inf) is for a column without a floor; "min" is the column's smallest value where it repeats.
        In a dict "*" is for the columns that it does not name, 0 by default. An array or data frame of the table's
        shape gives every cell its own floor, NaN for none, with method="auto", "full_likelihood" or "one_pass" (at
        most 64 different ones a column): the learned model then has no floor in such columns.
    ceiling : float, one per column, dict or Series by name, None or "max", or one per cell, default=None
        Upper limits, at which values are right-censored. A column with a ceiling has no floor. Only limits of single
        cells may be of both kinds in one column.
    nonnegative_mean : bool, default=False
        Assume every mean at or above its floor, as Wu et al. 2019 and Bulusu et al. 2022 do.
    margins : str, object of :mod:`unrelu.margins`, one per column, or dict by name, default="auto"
        The increasing function x = f(y) of each column, where y is normal (a Gaussian copula): "normal" (x = y), "log"
        (x = exp(y)), "boxcox" (the Box-Cox transform, its exponent learned), "monotone" (any increasing function).
        "auto" is "log" for a column of positive values and "normal" for others; where the column clearly rejects that,
        "boxcox" or "monotone"; with the papers' methods it is "normal". Means, standard deviations and covariance are
        then those of the latent y; floor, ceiling and samples stay in your units.
    n_components : int, "auto" or None, default=None
        Number k of latent inputs: the covariance W W' then has rank at most k. With "full_likelihood" every column has
        noise of its own as well, W W' + diag(noise), and "auto" finds k by the likelihood of held-out rows.
    floor_tolerance : float, default=0.0
        Noise after the floor: values within it of the floor, above or below, count as floored.
    random_state : int, Generator or None, default=0
        Seeds the methods that draw; "one_pass" does not.
    stderr : "model" or "jackknife", default="model"
        Standard errors that rely on the model ("full_likelihood": on its likelihood), or those of a jackknife over
        groups of rows, right also for columns that are not normal, and for clustered rows where ``fit(X, groups=...)``
        names the clusters. Without ``groups`` rows are dealt to 20 groups. With "one_pass" and "full_likelihood".

    Attributes
    ----------
    mean_, location_ : array
        The mean of the latent y; ``location_`` is scikit-learn's name of it.
    covariance_, precision_, correlation_, std_ : arrays
        The covariance W W' of y, its inverse (0 for constant columns; no attribute where there is no inverse),
        correlations and standard deviations.
    scoring_covariance_ : array
        The covariance that scores rows, shrunken as far as it is uncertain (``report_.shrinkage``).
    mean_stderr_, std_stderr_, correlation_stderr_ : arrays
        Standard errors, of the kind ``report_.stderr``; those of correlations are of pairs, before all pairs become one
        semidefinite matrix.
    distribution_ : RectifiedGaussian
        The learned model: sample from it, save it; ``distribution_.column_summary()`` is in your units.
    margins_ : tuple of margins, or None where all are normal
    report_ : LearningReport
        How the learning went.
    row_weights_ : array
        With the robust methods: one number per row, from 1 for an inlier row to 0 for an outlier.
    cell_weights_ : array
        With method="robust_cells": the same for every cell, n x d.

    Notes
    -----
    ``sample_weight`` gives the same model as repeated rows. Standard errors use Kish's effective number of rows, (sum
    w)^2 / sum w^2. It is right for weights that are measures of trust, which should have a mean near 1; for counts of
    identical rows standard errors are too large by the root of the mean weight.

    Standard errors of correlations beyond .998 between columns with different shares of floored values are too small:
    they leave out terms that are quadratic in the errors of means and standard deviations.

    Examples
    --------
    >>> import unrelu
    >>> truth = unrelu.synthetic.random_model(4, random_state=0)
    >>> X = truth.sample(20_000, random_state=1)
    >>> learner = unrelu.RectifiedGaussianLearner().fit(X)
    >>> bool(unrelu.metrics.parameter_errors(learner.distribution_, truth)["bias"] < 0.02)
    True
    """

    _learned: Learned | None = None
    _record: Record | None = None
    _to_add_to: PairMoments | None = None  # for partial_fit alone: a record of rows whose model has another source
    _given_limits: FloatArray  # floors and ceilings as the parameters gave them when columns were learned
    _by_groups = False  # records are kept by groups of rows, also with stderr="model"

    def __init__(
        self,
        method: str | Method = "auto",
        *,
        floor: Any = 0.0,
        ceiling: Any = None,
        margins: Any = "auto",
        nonnegative_mean: bool = False,
        n_components: int | str | None = None,
        floor_tolerance: float = 0.0,
        random_state: Any = 0,
        stderr: str = "model",
    ) -> None:
        self.method = method
        self.floor = floor
        self.ceiling = ceiling
        self.margins = margins
        self.nonnegative_mean = nonnegative_mean
        self.n_components = n_components
        self.floor_tolerance = floor_tolerance
        self.random_state = random_state
        self.stderr = stderr

    @classmethod
    def stored(cls) -> dict[str, Any]:
        return {
            **super().stored(),
            "_learned": every_learned() | None,
            "_record": Record | None,
            "_to_add_to": PairMoments | None,
            "_given_limits": Annotated[FloatArray, "unbounded floats 2 d"] | None,
            "_by_groups": bool | None,
        }

    # --- learning ---------------------------------------------------------------------------------

    @reports_compiling
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
        self._forget()
        self._learned = self._record = self._to_add_to = None
        # The rows, with limits and margins of their columns.
        method, because, X = method_named(self.method), "", held(X)
        by_cell = bool(getattr(method, "takes_cell_limits", False))
        samples = self._rows_to_learn(X, sample_weight, groups, reset=True, by_cell=by_cell)
        self._learn_columns(samples, cells=True, outliers="unknown" if expects_outliers(method) else "none")
        self._given_limits = self._limits_now()
        evidence, assumptions = evidence_of(samples, self._columns, self._progress), self._assumptions()
        # The method that "auto" chooses.
        by_groups, auto_margins = self._wants_groups(), isinstance(self.margins, str) and self.margins == "auto"
        without_options = isinstance(method, Auto) and auto_margins and not by_groups
        if isinstance(method, Auto):
            by_likelihood = bool(samples.limits_by_cell) or assumptions.auto_components
            if self._by_groups:
                method, because = OnePass(), "a graph is of groups of rows"
            elif by_groups and not by_likelihood:
                method, because = OnePass(), "a jackknife keeps records of groups of rows, which are of one pass"
            else:
                method, because = method.choose(samples, evidence, assumptions)
        # The model; without options, a better one where the model has diagnostics.
        if without_options:
            with noting_warnings() as noted:
                learned = self._learn_rows(method, because, samples, evidence, assumptions)
            learned = self._look_again(learned, X, sample_weight, evidence, assumptions, noted)
        else:
            learned = self._learn_rows(method, because, samples, evidence, assumptions)
        # In the user's units.
        fit = Fit(self._columns, learned)
        self._publish(fit.distribution, fit)
        warn_of(learned.report.diagnostics, self._columns.names)
        return self

    def _learn_rows(
        self, method: Method, because: str, samples: Samples, evidence: Evidence, assumptions: Assumptions
    ) -> Learned:
        """Learn by the method chosen, and keep a record that rows can be added to, where there is one."""
        learned: Any
        if self._wants_groups() and isinstance(method, FullLikelihood):
            learned = method.jackknifed(evidence, assumptions, self._progress)
        elif self._wants_groups():
            record = evidence.collect(GroupedMomentsQuestion(self._question(assumptions)))
            learned, self._record = self._solved(record, assumptions), record
        else:
            learning = Learning(method, self._wanted_margins(), self._assumptions, self._seed(), self._progress)
            fit = learning.fit(samples, self._columns, evidence)
            self._columns, learned = fit.columns, fit.learned
            if (question := method.question(assumptions)) is not None:
                self._record = evidence.collect(question)
            elif isinstance(method_named(self.method), Auto):
                with suppress(InvalidDataError):  # more limits than one pass keeps apart
                    self._to_add_to = evidence.collect(OnePass().question(assumptions))
        facts: dict[str, Any] = {"chosen_because": because} if because else {}
        if self._columns.margins is not None and hasattr(learned.report, "log_likelihood"):  # of latent values
            slopes = total_log_slope(samples, self._columns)
            facts["log_likelihood"] = learned.report.log_likelihood + slopes
        self._learned = replace(learned, report=replace(learned.report, **facts))
        return self._learned

    def _look_again(
        self,
        learned: Learned,
        X: Any,
        sample_weight: Any,
        evidence: Evidence,
        assumptions: Assumptions,
        noted: list[Line],
    ) -> Learned:
        """Apply the remedies for the diagnostics of a fit without options; only the kept fit issues warnings."""
        better = better_fit(self, learned.report, X, sample_weight, evidence, assumptions, self._progress)
        diagnostics: tuple[Diagnostic, ...] = ()
        because = learned.report.chosen_because
        if better is None:
            warn_of_noted(noted, but="AssumptionWarning")
        else:
            other, diagnostics, because = better
            learned, self._record, self._to_add_to = other._learned, other._record, None
            self._columns = other._columns
        hidden = continued(learned.report, self._columns.margins)
        diagnostics = (*hidden, *diagnostics, *learned.report.diagnostics)
        learned = replace(learned, report=replace(learned.report, chosen_because=because, diagnostics=diagnostics))
        self._learned = learned
        return learned

    def partial_fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:  # noqa: ARG002
        """Add the rows of X to those seen before. The model is computed when an attribute is next needed.

        >>> import numpy as np
        >>> import unrelu
        >>> X = unrelu.synthetic.random_model(3, random_state=0).sample(1000, random_state=1)
        >>> whole = unrelu.RectifiedGaussianLearner("one_pass").fit(X)
        >>> parts = unrelu.RectifiedGaussianLearner("one_pass").partial_fit(X[:300])
        >>> parts = parts.partial_fit(X[300:])
        >>> bool(np.allclose(parts.mean_, whole.mean_, rtol=1e-10))
        True
        """
        before: Any = self._record
        one_pass = isinstance(method_named(self.method), Auto | OnePass)
        if before is None and one_pass:
            before = self._to_add_to
            if before is None and self._learned is not None:
                raise InvalidParameterError(
                    "The rows so far were learned by a method that keeps no record to add to: learn them with"
                    " method='one_pass', or all rows together."
                )
        if before is None:
            self._refuse_to_learn_by_parts()
        else:
            self._check_unchanged()
        samples = self._rows_to_learn(X, sample_weight, groups, reset=before is None, smallest=1, by_cell=one_pass)
        if before is None:
            self._learn_columns(samples, part=True, cells=True)
            self._given_limits = self._limits_now()
        question: Any = self._question(self._assumptions())
        if self._wants_groups():
            question = GroupedMomentsQuestion(question, rows_before=0 if before is None else before.n_rows)
        rows = prepared(samples, self._columns, learning=True)
        record = engine_for(rows, self._progress).collect(rows, question)
        # Bad cells must not enter the sums: check before merging, so that the rows seen so far stay usable.
        whole_of(record).screening.check(self._assumptions(), samples.feature_names)
        if before is not None and type(before) is not type(record):
            raise InvalidParameterError(_STDERR_CHANGED)
        self._record = record if before is None else before.merge(record)
        self._learned = self._to_add_to = None
        self._forget()
        return self

    def _refuse_to_learn_by_parts(self) -> None:
        """Raise InvalidParameterError for limits and margins that need all rows at once."""
        if isinstance(self.floor, str) or isinstance(self.ceiling, str):
            raise InvalidParameterError(
                "floor='min' and ceiling='max' need all rows at once: use fit, or give numbers."
            )
        margins = self.margins
        given = margins.values() if isinstance(margins, Mapping) else np.atleast_1d(np.asarray(margins, dtype=object))
        for request in given:
            if isinstance(request, str) and request in ("boxcox", "monotone"):
                raise InvalidParameterError(
                    f"margins={request!r} needs all rows at once: use fit, or give the margins of a fitted learner,"
                    " margins_."
                )

    def _rows_to_learn(self, X: Any, sample_weight: ArrayLike | None, groups: Any, **reading: Any) -> Samples:
        """The rows of a table to be learned from, each with its group where records are by groups."""
        by_groups = self._wants_groups()
        if groups is not None and not by_groups:
            raise InvalidParameterError(
                "groups= is for the jackknife: use it with stderr='jackknife', or leave it out."
            )
        X, labels = (X, None) if groups is None else split_groups(X, groups)
        return self._table(X, sample_weight, labels=labels, long=by_groups, **reading)

    def _limits_now(self) -> FloatArray:
        """Floors and ceilings as the parameters give them now."""
        floor, ceiling = (None, None) if is_by_cell(self.floor, self.ceiling) else (self.floor, self.ceiling)
        return limits_of(floor, ceiling, self.n_features_in_, self._columns.names)[0]

    def _check_unchanged(self) -> None:
        if not np.array_equal(self._given_limits, self._limits_now()):
            raise InvalidParameterError(_FLOOR_CHANGED)

    def _wanted_margins(self) -> Any:
        normal = getattr(method_named(self.method), "of_papers", False) or self.nonnegative_mean
        return "normal" if normal and isinstance(self.margins, str) and self.margins == "auto" else self.margins

    def _wants_groups(self) -> bool:
        """Whether records are kept by groups of rows: for a jackknife, or for a graph of one pass."""
        check_choice("stderr", self.stderr, ("model", "jackknife"))
        return self.stderr == "jackknife" or self._by_groups

    def _assumptions(self, columns: Columns | None = None) -> Assumptions:
        columns = self._columns if columns is None else columns
        d, k = len(columns.floor), self.n_components
        auto = isinstance(k, str) and k == "auto"
        if auto and not isinstance(method_named(self.method), FullLikelihood | Auto):
            raise InvalidParameterError(
                "n_components='auto' compares likelihoods of held-out rows: use method='full_likelihood', or give a"
                " number."
            )
        if not auto and k is not None and not (isinstance(k, Integral) and 1 <= k <= d):
            raise InvalidParameterError(f"n_components must be between 1 and {d} (the columns), or None, got {k!r}.")
        if not isinstance(self.nonnegative_mean, bool | np.bool_):
            raise InvalidParameterError(f"nonnegative_mean must be True or False, got {self.nonnegative_mean!r}.")
        return replace(
            columns.assumptions,
            nonnegative_mean=bool(self.nonnegative_mean),
            n_components=None if k is None or auto else int(k),
            auto_components=auto,
        )

    def _question(self, assumptions: Assumptions) -> PairMomentsQuestion:
        method = method_named(self.method)
        question = method.question(assumptions)
        if question is None:
            can = "use fit, or method='one_pass'"
            if self._wants_groups() and not isinstance(method, FullLikelihood):
                can = "use stderr='model', method='one_pass' or method='full_likelihood'"
            raise InvalidParameterError(f"{type(method).__name__} reads the rows more than once: {can}.")
        return question

    # --- what was learned -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return self._learned is not None or self._record is not None

    def held_learner(self) -> RectifiedGaussianLearner:
        return self

    @in_one_warning
    def _result(self) -> Learned:
        if self._learned is None:
            check_is_fitted(self)
            assert self._record is not None
            self._check_unchanged()
            self._learned = self._solved(self._record, self._assumptions())
            warn_of(self._learned.report.diagnostics, self._names())
        return self._learned

    def _solved(self, record: Record, assumptions: Assumptions) -> Learned:
        """The model of the rows of a record, with standard errors of the kind ``stderr``."""
        question, whole = self._question(assumptions), whole_of(record)
        evidence = Evidence(None, answers={question: whole}, feature_names=self._names(), place=self._place)
        learned = method_named(self.method).learn(evidence, assumptions, self._seed(), self._progress)
        if self.stderr != "jackknife":
            return learned
        if not isinstance(record, GroupedMoments):
            raise InvalidParameterError(_STDERR_CHANGED)
        return jackknifed(learned, record, assumptions, self._names(), self._progress)

    @property
    def is_solved(self) -> bool:
        """Whether the model of the rows so far has been computed."""
        return self._learned is not None

    def set_diagnostics(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        """Replace the diagnostics of the report."""
        learned = self._result()
        self._learned = replace(learned, report=replace(learned.report, diagnostics=diagnostics))
        self.report_ = Fit(self._columns, self._learned).report

    def keeping_groups(self) -> Self:
        """Keep records by groups of rows, also with stderr="model": graphs learn from subsets of the rows."""
        self._by_groups = True
        return self

    def _take_over(self, record: Record, columns: Columns, given_limits: FloatArray) -> Self:
        """Take over a record and its columns, as if its rows had been learned in parts."""
        self.n_features_in_ = len(columns.floor)
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)
        self._columns, self._given_limits, self._record, self._learned = columns, given_limits, record, None
        return self

    def of_record(self, record: Record, names: Sequence[str] | None = None) -> Self:
        """Take over a record, under the parameters of this learner."""
        d, called = record.n_features, None if names is None else tuple(map(str, names))
        if called is not None and len(called) != d:
            raise InvalidParameterError(f"feature_names: {len(called)} names for the {d} columns of the record.")
        limits = limits_of(self.floor, self.ceiling, d, called)[0]
        return self._take_over(record, Columns(limits[0], limits[1], called, float(self.floor_tolerance)), limits)

    def densities_with_outliers(self, X: Table) -> FloatArray:
        """Log density of each row, by the models of outlier rows and bad cells of robust methods as well."""
        learned: Any = self._result()
        if hasattr(learned, "mixture") and len(learned.columns) == self.n_features_in_:
            return self._log_densities(
                X, lambda x: learned.mixture.posterior(x, converged=True)[1], [self._distribution()]
            )
        if hasattr(learned, "cell_model"):
            distribution = learned.cell_model
            densities = partial(distribution.densities, predicting=False, converged=True)
            return self._log_densities(X, lambda x: distribution.log_densities(densities(x)), [self._distribution()])
        return self.score_samples(X)

    def _solve(self, name: str) -> None:
        if name != "record_":
            super()._solve(name)
        elif self._record is None:
            raise AttributeError(f"A learner with method={self.method!r} keeps no record: use method='one_pass'.")
        else:
            self.record_ = self._record

    def with_record(self, record: Record, others: Sequence[RectifiedGaussianLearner] = ()) -> RectifiedGaussianLearner:
        """A learner with the same parameters and columns, of the rows of ``record``, which has those of others, too."""
        check_is_fitted(self)
        learner: RectifiedGaussianLearner = clone(self)
        learner._by_groups = self._by_groups
        margins = seen_by_all([each._columns.margins for each in (self, *others)])
        return learner._take_over(record, replace(self._columns, margins=margins), self._given_limits)

    def of_columns(self, columns: NDArray[np.int64]) -> RectifiedGaussianLearner:
        """A learner of some of the columns, from the same rows, where all columns have the same limits."""
        record, own = self.record_, self._columns
        assert isinstance(record, PairMoments), "a jackknife's records have no columns to be left out"
        names = None if own.names is None else tuple(own.names[j] for j in columns)
        margins = None if own.margins is None else tuple(own.margins[j] for j in columns)
        part = Columns(own.floor[columns], own.ceiling[columns], names, own.tolerance, margins)
        learner: RectifiedGaussianLearner = clone(self)
        learner._place, learner._answers_on = self._place, self._answers_on
        return learner._take_over(record.of_columns(columns), part, self._given_limits[:, columns])

    def agrees_with(self, other: RectifiedGaussianLearner) -> None:
        """Raise InvalidParameterError if two learners have other assumptions or other names of columns."""
        if self.n_features_in_ != other.n_features_in_:
            return  # merging their records raises the error
        mine, others = self._assumptions(), other._assumptions()
        compared = [each.name for each in fields(mine) if each.compare]
        different = [name for name in compared if getattr(mine, name) != getattr(others, name)]
        different += [] if same_margins(self._columns.margins, other._columns.margins) else ["margins"]
        different += [] if self.stderr == other.stderr else ["stderr"]
        if different or method_named(self.method) != method_named(other.method):
            what = listed(dict.fromkeys(different or ["method"]))
            way = " Learned margins differ with the rows: give all learners the same." if "margins" in different else ""
            raise InvalidParameterError(
                f"Cannot merge learners with different parameters ({what}): {self} and {other}.{way}"
            )
        names = [listed(each._columns.names or (), most=8) for each in (self, other)]
        if self._columns.names != other._columns.names:
            raise InvalidParameterError(
                f"Cannot merge learners with different column names: {names[0] or 'none'}; and {names[1] or 'none'}."
            )


class HoldsLearner(FittedModel):
    """An estimator whose own learner learns the model: attributes are the learner's."""

    _learner: RectifiedGaussianLearner | None = None

    @classmethod
    def stored(cls) -> dict[str, Any]:
        return {**super().stored(), "_learner": RectifiedGaussianLearner | None}

    def _own_learner(self, before: RectifiedGaussianLearner | None = None) -> RectifiedGaussianLearner:
        """A new learner, or the one before, with the parameters of this estimator."""
        its = signature(RectifiedGaussianLearner).parameters
        own = {name: value for name, value in self.get_params(deep=False).items() if name in its}
        learner = RectifiedGaussianLearner(**own) if before is None else before.set_params(**own)
        return learner.with_progress(self._progress)

    def _going_on(self, X: Any) -> RectifiedGaussianLearner:
        """The learner that the rows of X are added to; their columns must be those of the rows before."""
        if self._learner is not None and not isinstance(as_rows(X), Samples):
            validate_data(self, X, reset=False, skip_check_array=True)  # errors name this estimator
        return self._own_learner(self._learner)

    def _hold(self, learner: RectifiedGaussianLearner) -> Self:
        """Take over a learner and its attributes."""
        self._forget()
        self._learner, self._columns, self.n_features_in_ = learner, learner._columns, learner.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if learner._columns.names is not None:
            self.feature_names_in_ = learner.feature_names_in_
        self._answers_on = learner._answers_on
        if learner._learned is not None:
            self._publish(learner.distribution_, Fit(learner._columns, learner._learned))
        return self

    def with_learner(self, learner: RectifiedGaussianLearner) -> Self:
        """An estimator with the parameters of this one that holds a learner."""
        like: Self = clone(self)
        return like._hold(learner)

    def held_learner(self) -> RectifiedGaussianLearner:
        check_is_fitted(self)
        if self._learner is None:
            self._result()  # raises the reason
        assert self._learner is not None
        return self._learner

    def _result(self) -> Learned:
        check_is_fitted(self)
        assert self._learner is not None
        return self._learner._result()

    def _solve(self, name: str) -> None:
        if name == "record_":
            self.record_ = self.held_learner().record_
        else:
            super()._solve(name)

    def __sklearn_is_fitted__(self) -> bool:
        return self._learner is not None
