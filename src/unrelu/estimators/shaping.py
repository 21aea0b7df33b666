"""Shapes of columns, for every estimator: learned from one look at the rows, in the user's units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.contracts import Assumptions, Engine, Samples, Watch
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.limits import Limits
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import engine_for
from unrelu.shapes import Log, Normal, Shape, Shapes, shape_requests

if TYPE_CHECKING:
    from unrelu.passes.columns import Margins
    from unrelu.tables.shaped import ShapedSamples

_FEWEST = 20  # cells of a first part that tell whether a column is positive
_LARGE = 2**24  # cells of a sparse matrix, zeros included, beyond which its columns are taken for normal


@dataclass(frozen=True, eq=False)
class LearnedShapes:
    """The columns' shapes, None where all are normal, and the columns whose floor of 0 no value reaches."""

    shapes: Shapes | None = None
    without_floor: tuple[int, ...] = ()


def learned_shapes(
    shape: Any,
    samples: Samples,
    plain: Assumptions,
    limits: Limits,
    watch: Watch,
    *,
    by_parts: bool = False,
    tested: bool = True,
    outliers: str = "none",
    standard: bool = False,
) -> LearnedShapes:
    """The columns' shapes as asked for. ``plain``: the assumptions in the user's units.

    ``by_parts``: the rows are the first of those to be learned from; they tell which columns are positive, no more.
    ``tested``: columns may reject the law that "auto" takes first. ``outliers``: "none" are expected, some rows may be
    but it is "unknown" which, or these are left "out". ``standard``: free columns all have a spread of 1.
    """
    names = samples.feature_names
    requests = shape_requests(shape, samples.n_features, names)
    if all(request == "normal" for request in requests):
        return LearnedShapes()
    left_open = all(isinstance(request, str) and request in ("normal", "auto") for request in requests)
    if left_open and (_is_large_and_sparse(samples) or samples.read_once):
        return LearnedShapes()
    if plain.floor_tolerance:
        if left_open:
            return LearnedShapes()  # noise after the floor is of normal columns
        raise InvalidParameterError(
            "floor_tolerance goes with shape='normal' alone: set values within it of the floor to the floor."
        )
    from unrelu.fit.margins import EXTREME_WITH_OUTLIERS, chosen_kinds, fit_shapes, refuse_tiny_values, unreached_floors
    from unrelu.passes.columns import MarginsQuestion
    from unrelu.tables.shaped import ShapedSamples

    engine = engine_for(samples, watch, "Looking at the columns' shapes")
    rows = ShapedSamples(samples, plain)
    margins = _looked_at(rows, plain, engine)
    refuse_tiny_values(margins, names)
    normal = np.array([request == "normal" for request in requests])
    without = unreached_floors(margins, limits) & ~normal
    if by_parts:  # what comes later may be at a floor that few rows have not reached
        few = without & (margins.rows < _FEWEST)
        requests = ["normal" if r == "auto" and some else r for r, some in zip(requests, few, strict=True)]
        without &= ~few
    limits = replace(limits, floor=np.where(without, -np.inf, limits.floor))
    unknown = outliers == "unknown"
    if unknown:  # what bends is learned again without them
        requests = ["auto" if isinstance(each, str) and each in ("power", "free") else each for each in requests]
    tested = tested and not by_parts and not unknown
    kinds = chosen_kinds(requests, margins, limits, tested, bent=outliers != "none")
    without &= np.array([kind != "normal" for kind in kinds])  # what is constant so far may reach its floor yet
    dropped = tuple(np.flatnonzero(without).tolist())
    if all(kind == "normal" for kind in kinds):
        return LearnedShapes(None, dropped)
    if by_parts:
        fixed: dict[str, Shape] = {"normal": Normal(), "log": Log()}
        return LearnedShapes(tuple(fixed[kind] if isinstance(kind, str) else kind for kind in kinds), dropped)
    if not margins.whole and any(kind in ("free", "power") for kind in kinds):
        margins = engine.collect(rows, MarginsQuestion())
    extreme = EXTREME_WITH_OUTLIERS if unknown else 0.0
    return LearnedShapes(fit_shapes(kinds, margins, limits, names, extreme, standard), dropped)


def _looked_at(rows: ShapedSamples, plain: Assumptions, engine: Engine) -> Margins:
    """The margins of a part of the rows. The first block that has bad cells ends the pass: those of all are told."""
    from unrelu.passes.columns import MarginsQuestion
    from unrelu.passes.tiles import ScreeningQuestion

    try:
        return engine.collect(rows, MarginsQuestion(in_part=True))
    except InvalidDataError as error:
        fault = error
    engine.collect(rows.turned, ScreeningQuestion(plain.lowest)).check(plain, rows.feature_names)
    raise fault


def _is_large_and_sparse(samples: Samples) -> bool:
    """Whether rows are those of a sparse matrix that would be no small one with its zeros."""
    source = samples.source
    return source.matrix is not None and (source.n_rows or 0) * source.n_features > _LARGE


def takes_all_rows(shape: Any) -> list[str]:
    """The shapes among those asked for that are learned from all rows at once; no column need be known yet.

    >>> takes_all_rows({"As": "log", "*": "free"})
    ['free']
    """
    given = shape.values() if isinstance(shape, Mapping) else np.atleast_1d(np.asarray(shape, dtype=object))
    return [request for request in given if isinstance(request, str) and request in ("power", "free")]


def refuse_to_learn_by_parts(shape: Any) -> None:
    """Raise InvalidParameterError where a shape takes all rows at once."""
    for request in takes_all_rows(shape):
        raise InvalidParameterError(
            f"shape={request!r} needs all rows at once: use fit, or give the shapes of a fitted learner, shapes_."
        )


def law_and_parameters(model: Any) -> tuple[RectifiedGaussian, dict[str, Any]]:
    """The law of an estimator that is made from a model, and the limits and shapes that it then has.

    ``model`` is a RectifiedGaussian, or anything with one as ``distribution_``.
    """
    law = getattr(model, "distribution_", model)
    if not isinstance(law, RectifiedGaussian):
        raise InvalidParameterError(
            f"model must be a RectifiedGaussian, or have one as distribution_; got {type(model).__name__}."
        )
    shape = "normal" if law.shapes is None else law.shapes
    return law, {"floor": law.floor, "ceiling": law.ceiling, "shape": shape}
