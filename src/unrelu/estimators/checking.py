"""Does the model fit? The skin of :mod:`unrelu.checks`, for a learner and for a model that is given."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from unrelu.checks.fit_check import Columns, Fit, FitCheck, Simulations, check_fit, sampled_rows
from unrelu.checks.fit_check import Rows as SampledRows
from unrelu.contracts import Assumptions, Block, FloatArray, Samples, Watch, unwatched
from unrelu.errors import InvalidParameterError
from unrelu.estimators.base import FloorEstimator, Table
from unrelu.fit.one_pass import learn_record
from unrelu.methods import Auto, FullLikelihood, OnePass, Robust, RobustCells, method_named
from unrelu.model import RectifiedGaussian
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.passes.rows import Rows, as_rows

if TYPE_CHECKING:
    from unrelu.estimators.learner import RectifiedGaussianLearner

_GENUINE = 0.5  # weights from which on a robust fit's rows are looked at
_SIMULATIONS = 39  # tables by which a remedy is judged


def check_learner(
    learner: RectifiedGaussianLearner,
    samples: Samples,
    assumptions: Assumptions,
    wanted: Mapping[str, Any],
    watch: Watch,
) -> FitCheck:
    """The check of what a fitted learner's parameters make of the rows, each column with the shape that it was given.

    Outlier rows and bad cells of the robust methods are left out; what is left is fitted as they do, in one pass.
    """
    simulations = Simulations(**wanted)
    rows = sampled_rows(samples, assumptions, simulations.seed, watch)
    limits = {name: list(levels) for name, levels in assumptions.limits.items()}
    shapes = learner.shapes_
    kinds: dict[str, Any] = {"shape": "normal" if shapes is None else [shape.kind for shape in shapes]}
    plain = {"stderr": "model"} if "stderr" in learner.get_params() else {}  # an imputer has no choice
    fitting: RectifiedGaussianLearner = clone(learner).set_params(**plain, **limits, **kinds)
    method = method_named(learner.method)
    if isinstance(method, Auto) and learner.report_.method == "one_pass":
        fitting.set_params(method="one_pass")
    elif isinstance(method, FullLikelihood | Auto):  # the same model, but for factors, learned faster
        k = getattr(learner.report_, "n_components", None)
        fitting.set_params(n_components=k, **({"method": "one_pass"} if k is None else {}))
    found = _checked(fitting, rows, simulations, watch)
    if found.fits:
        return found
    from unrelu.estimators.advising import tried_remedies

    few = replace(simulations, number=min(simulations.number, max(_SIMULATIONS, math.ceil(1.0 / simulations.level))))
    tried = tried_remedies(
        fitting, rows.values, found, lambda other: _checked(_with_learned_shapes(other, rows), rows, few, watch), watch
    )
    return replace(found, tried=tried)


def _with_learned_shapes(learner: RectifiedGaussianLearner, rows: SampledRows) -> RectifiedGaussianLearner:
    """Each column with the shape that it gets, as in a check of a learner: what is chosen is kept."""
    if learner.shape != "auto":
        return learner
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = clone(learner).fit(rows.values).shapes_
    kinds = "normal" if shapes is None else [shape.kind for shape in shapes]
    shaped: RectifiedGaussianLearner = learner.set_params(shape=kinds)
    return shaped


def _checked(fitting: RectifiedGaussianLearner, rows: SampledRows, simulations: Simulations, watch: Watch) -> FitCheck:
    """The check of what a learner with limits and shapes for each column makes of the rows."""
    method = method_named(fitting.method)
    if isinstance(method, Robust | RobustCells):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is doubtful was said when the table was learned
            fitted = clone(fitting).watched_by(watch).fit(rows.values)
        genuine = fitted.row_weights_ >= _GENUINE
        if isinstance(method, RobustCells):
            rows = replace(rows, values=np.where(fitted.cell_weights_ >= _GENUINE, rows.values, np.nan))
        rows = replace(rows, values=rows.values[genuine], n_outliers=int(np.count_nonzero(~genuine)))
        fitting = clone(fitting).set_params(method="one_pass")
    per_column = [name for name in ("floor", "ceiling", "shape") if isinstance(getattr(fitting, name), list)]
    return check_fit(rows, _fit_by(fitting, rows, per_column), simulations, watch)


def _fit_by(learner: RectifiedGaussianLearner, rows: SampledRows, per_column: list[str]) -> Fit:
    """How the table and the simulated ones are learned; of normal columns in one pass, without what nobody asks for."""
    given = rows.assumptions

    def wholly(values: FloatArray, at: Columns) -> RectifiedGaussian:
        own: dict[str, Any] = {name: [getattr(learner, name)[j] for j in at] for name in per_column}
        rank = None if learner.n_components is None else min(learner.n_components, len(at))
        fitted: RectifiedGaussianLearner = clone(learner).set_params(**own, n_components=rank)
        return fitted.fit(values).distribution_

    def quickly(values: FloatArray, at: Columns) -> RectifiedGaussian:
        floor, mirrored = (tuple(np.asarray(each)[at].tolist()) for each in (given.floor, rows.sign < 0.0))
        rank = min(learner.n_components, len(at)) if isinstance(learner.n_components, Integral) else None
        own = replace(given, floor=floor, mirrored=mirrored, n_components=rank)
        record = PairMomentsQuestion.under(own, shapes=False)(Block(values * rows.sign[at]))
        return learn_record(record, own).distribution.reflected(np.array(mirrored))

    quick = isinstance(method_named(learner.method), OnePass) and "shape" not in per_column
    return quickly if quick else wholly


class _GivenModel(FloorEstimator):
    """Reads tables of a model's columns."""

    _has_ceilings, _takes_sparse = True, True

    def __init__(self, model: RectifiedGaussian, floor_tolerance: float) -> None:
        self.floor, self.ceiling, self.floor_tolerance = model.floor, model.ceiling, floor_tolerance
        self.n_features_in_, self._of_model = model.n_features, model.feature_names

    def rows(self, X: Table, seed: int, watch: Watch) -> SampledRows:
        if self._of_model is not None and (hasattr(X, "columns") or isinstance(as_rows(X), Rows)):
            self.feature_names_in_ = np.array(self._of_model, dtype=object)
        rows = sampled_rows(self._rows(X, reset=False), self._assumptions(), seed, watch)
        return rows if self._of_model is None else replace(rows, names=self._of_model)


def check_model(
    model: Any,
    X: Table,
    *,
    floor_tolerance: float = 0.0,
    n_simulations: int = 199,
    level: float = 0.05,
    random_state: int = 0,
    watch: Watch = unwatched,
) -> FitCheck:
    """Does a model that was not fitted to X fit it? ``model`` is a RectifiedGaussian, or has one as ``distribution_``.

    The model is taken as given: rows of it are simulated, and nothing is fitted. Of a model that was fitted to X such
    p-values are too large; use :meth:`unrelu.RectifiedGaussianLearner.check`.

    >>> import unrelu
    >>> model = unrelu.RectifiedGaussian([1.0, 0.0], [[1.0, 0.6], [0.6, 1.0]])
    >>> unrelu.check_model(model, model.sample(500, random_state=1)).fits
    True
    >>> unrelu.check_model(model, 1.3 * model.sample(500, random_state=1)).fits
    False
    """
    law = getattr(model, "distribution_", model)
    if not isinstance(law, RectifiedGaussian):
        raise InvalidParameterError(
            f"model must be a RectifiedGaussian, or have one as distribution_; got {type(model).__name__}."
        )
    simulations = Simulations(n_simulations, random_state, level)
    return check_fit(_GivenModel(law, floor_tolerance).rows(X, random_state, watch), law, simulations, watch)
