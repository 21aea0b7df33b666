"""Does the model fit? The skin of :mod:`unrelu.checks`, for a learner and for a model that is given."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from unrelu.checks.fit_check import Columns, Fit, Simulations, check_fit, sampled_rows
from unrelu.checks.fit_check import Rows as SampledRows
from unrelu.checks.result import FitCheck
from unrelu.contracts import Assumptions, Block, FloatArray, Samples, Watch, unwatched
from unrelu.errors import InvalidDataError
from unrelu.estimators.base import Table, columns_of
from unrelu.estimators.prepare import check_cell_limits, read
from unrelu.fit.one_pass import learn_record
from unrelu.methods import Auto, FullLikelihood, OnePass, Robust, RobustCells, method_named
from unrelu.model import RectifiedGaussian
from unrelu.passes.pair_moments import PairMomentsQuestion
from unrelu.tables.prepared import prepared

_GENUINE = 0.5  # weights from which on a robust fit's rows are looked at
_SIMULATIONS = 39  # tables by which a remedy is judged


def check_learner(
    learner: Any,
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
    fitting: Any = clone(learner).set_params(stderr="model", **limits, **kinds)
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


def _with_learned_shapes(learner: Any, rows: SampledRows) -> Any:
    """Each column with the shape that it gets, as in a check of a learner: what is chosen is kept."""
    if learner.shape != "auto":
        return learner
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = clone(learner).fit(rows.values).shapes_
    kinds = "normal" if shapes is None else [shape.kind for shape in shapes]
    shaped: Any = learner.set_params(shape=kinds)
    return shaped


def _checked(fitting: Any, rows: SampledRows, simulations: Simulations, watch: Watch) -> FitCheck:
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


def _fit_by(learner: Any, rows: SampledRows, per_column: list[str]) -> Fit:
    """How the table and the simulated ones are learned; of normal columns in one pass, without what nobody asks for."""
    given = rows.assumptions

    def wholly(values: FloatArray, at: Columns) -> RectifiedGaussian:
        own: dict[str, Any] = {name: [getattr(learner, name)[j] for j in at] for name in per_column}
        rank = None if learner.n_components is None else min(learner.n_components, len(at))
        law: RectifiedGaussian = clone(learner).set_params(**own, n_components=rank).fit(values).distribution_
        return law

    def quickly(values: FloatArray, at: Columns) -> RectifiedGaussian:
        floor, mirrored = (tuple(np.asarray(each)[at].tolist()) for each in (given.floor, rows.sign < 0.0))
        rank = min(int(learner.n_components), len(at)) if isinstance(learner.n_components, Integral) else None
        own = replace(given, floor=floor, mirrored=mirrored, n_components=rank)
        record = PairMomentsQuestion.under(own, shapes=False)(Block(values * rows.sign[at]))
        return learn_record(record, own).distribution.reflected(np.array(mirrored))

    quick = isinstance(method_named(learner.method), OnePass) and "shape" not in per_column
    return quickly if quick else wholly


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
    law, columns = columns_of(model, floor_tolerance)
    columns = replace(columns, shapes=None)  # rows are compared in the table's units
    simulations = Simulations(n_simulations, random_state, level)
    table = read(X, columns=columns, smallest=2, sparse=True)
    check_cell_limits(table, False, floor_tolerance, InvalidDataError)
    rows = sampled_rows(prepared(table, columns), columns.assumptions, random_state, watch)
    if columns.names is not None:
        rows = replace(rows, names=columns.names)
    return check_fit(rows, law, simulations, watch)
