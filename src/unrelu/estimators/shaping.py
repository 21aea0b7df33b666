"""Shapes of columns, for every estimator: learned from one look at the rows, in the user's units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unrelu.contracts import Assumptions, Samples, Watch
from unrelu.distribution import RectifiedGaussian
from unrelu.engines import engine_for
from unrelu.errors import InvalidParameterError
from unrelu.limits import Limits
from unrelu.shapes import Log, Normal, Seen, Shape, Shapes, shape_requests
from unrelu.validation import column_label


def learned_shapes(
    shape: Any, samples: Samples, plain: Assumptions, limits: Limits, watch: Watch, by_parts: bool
) -> Shapes | None:
    """The columns' shapes as asked for; None where all are normal. ``plain``: the assumptions in the user's units.

    ``by_parts``: the rows are some of those to be learned from, so that they tell nothing about shapes.
    """
    names = samples.feature_names
    requests = shape_requests(shape, samples.n_features, names)
    if all(request == "normal" for request in requests):
        return None
    own: tuple[int, ...] = getattr(samples, "limits_by_cell", ())
    for column in [column for column in own if takes_all_rows(requests[column])]:
        raise InvalidParameterError(
            f"shape={requests[column]!r} of {column_label(column, names)}: its cells have limits of their own, and such"
            " a shape is learned with a single floor. Give it 'normal', 'log', or a shape that was learned from rows"
            " with one limit (shapes_ of a fitted learner)."
        )
    if plain.floor_tolerance:
        raise InvalidParameterError(
            "floor_tolerance goes with shape='normal' alone: set values within it of the floor to the floor."
        )
    if by_parts:
        fixed: dict[str, Shape] = {"normal": Normal(), "log": Log()}
        return tuple(fixed[request] if isinstance(request, str) else request for request in requests)
    from unrelu.marginals.columns import refuse_tiny_values
    from unrelu.marginals.shape_fitting import fit_shapes
    from unrelu.samples.shaped import ShapedSamples
    from unrelu.statistics.margins import MarginsQuestion

    engine = engine_for(samples, watch, "Looking at the columns' shapes")
    margins = engine.collect(ShapedSamples(samples, plain), MarginsQuestion())
    refuse_tiny_values(margins, names)
    shapes = fit_shapes(requests, margins, limits, names)
    # The smallest limit is not the smallest value that can be: where cells have limits, the range was not seen.
    given = [not isinstance(request, str) for request in requests]
    return tuple(
        replace(shape, seen=Seen()) if j in own and not given[j] else shape  # type: ignore[type-var]
        for j, shape in enumerate(shapes)
    )


def takes_all_rows(shape: Any) -> list[str]:
    """The shapes among those asked for that are learned from all rows at once; no column need be known yet.

    >>> takes_all_rows({"As": "log", "*": "auto"})
    ['auto']
    """
    given = shape.values() if isinstance(shape, Mapping) else np.atleast_1d(np.asarray(shape, dtype=object))
    return [request for request in given if isinstance(request, str) and request in ("power", "free", "auto")]


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
