"""Two layers on one screen: x = A h + a, h = ReLU(W z + b), from rows of x.

How many units, the space that the rows vary in, the facets of the rows in it, which rows they explain, the law of h.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Step, Watch, unwatched
from unrelu.distribution import RectifiedGaussian
from unrelu.errors import DoubtfulUnitsWarning, InvalidDataError, InvalidParameterError
from unrelu.methods import Method
from unrelu.recovery.layers.clock import TIME_WAS_UP, Clock
from unrelu.recovery.layers.decoding import FoundLayer, LayerReport, OutputLayer, decode_by_facets
from unrelu.recovery.layers.ending import check_explained, ended_early, warn_of_inputs, warn_of_widened, why_missing
from unrelu.recovery.layers.inputs import InnerLayer, standard_layer
from unrelu.recovery.layers.separable import decode_separably
from unrelu.recovery.layers.subspace import ROUNDING, find_subspace, rank_of
from unrelu.recovery.layers.units import ROWS_PER_UNIT, check_range, hidden_law, warn_of
from unrelu.validation import warn

_DEPENDENT = 1e-10  # of the largest singular value
_ROWS_PER_THIN_UNIT = 150
_ROUNDED = 1e-6  # of the rows' root mean square: less noise than that is rounding


@dataclass(frozen=True)
class TwoLayerRequest:
    """What is asked of rows: units (or "auto"), how to find them, whether there is an a, how to learn the law of h.

    ``method`` is "facets" or "separable" (A and rows not negative, no a). Noise below ``rounding``, relative to the
    rows' size, is not told from none. ``n_inputs`` ("auto": to be found) are the inputs of the units, where fewer.
    """

    n_hidden: int | str = "auto"
    method: str = "facets"
    output_bias: bool = False
    hidden_method: str | Method = "one_pass"
    rounding: float = ROUNDING
    n_inputs: int | str | None = None
    max_seconds: float | None = None


@dataclass(frozen=True, eq=False)
class TwoLayers:
    """The output layer, how it was found, the rows that it does not explain, and the law of its hidden units.

    ``inner`` is the layer of the inputs, where their number was asked for and every unit was found.
    """

    layer: OutputLayer
    report: LayerReport
    outlier_rows: BoolArray
    hidden_distribution: RectifiedGaussian
    inner: InnerLayer | None = None


def learn_two_layers(table: FloatArray, request: TwoLayerRequest, seed: int = 0, watch: Watch = unwatched) -> TwoLayers:
    """Learn A, a and the law of h from finite rows.

    >>> rng = np.random.default_rng(0)
    >>> h = np.maximum(rng.standard_normal((500, 2)), 0.0)
    >>> learned = learn_two_layers(h @ np.array([[3.0, 4.0, 0.0], [0.0, 0.0, -2.0]]), TwoLayerRequest(2))
    >>> learned.layer.weights.round(9) + 0.0
    array([[ 0.6,  0. ],
           [ 0.8,  0. ],
           [ 0. , -1. ]])
    """
    p, clock = _units(table, request), Clock(request.max_seconds, watch)
    watch(Step("Finding the space of the rows"))
    found = _decoded(table, p, request, np.random.default_rng(seed), clock)
    decoded, layer = found.decoded, found.decoded.layer
    report = replace(decoded.report, ended=found.ended)
    _judge(found, request.n_inputs)
    hidden = layer.hidden(table[decoded.genuine])
    if found.inner is not None:
        if decoded.report.noise <= _ROUNDED * float(np.sqrt((table**2).mean())):
            check_explained(found.inner, hidden)
        inner = standard_layer(found.inner, hidden, seed)
        warn_of_inputs(inner, inner.inputs(hidden), hidden)
        return TwoLayers(layer, report, ~decoded.genuine, inner.law, inner if request.n_inputs is not None else None)
    law = hidden_law(hidden, layer.threshold, request.hidden_method, seed, watch)
    return TwoLayers(layer, report, ~decoded.genuine, law)


def _units(table: FloatArray, request: TwoLayerRequest) -> int:
    """How many units to look for; raises where the rows cannot tell so many."""
    n, d = table.shape
    largest = float(np.abs(table).max())
    auto = isinstance(request.n_hidden, str) and request.n_hidden == "auto"
    if largest == 0.0 or ((auto or request.output_bias) and np.ptp(table, axis=0).max() <= 1e-12 * largest):
        raise InvalidDataError("The table does not vary: there is nothing to learn.")
    check_range(table)
    p = rank_of(table) if auto else request.n_hidden
    if isinstance(p, bool) or not isinstance(p, Integral) or p < 1:
        raise InvalidParameterError(f"n_hidden must be a whole number of 1 or more, or 'auto', got {p!r}.")
    if p > d:
        raise InvalidParameterError(
            f"n_hidden is {p}, but rows have {d} columns: more units than columns cannot be told apart."
        )
    if n < ROWS_PER_UNIT * p:
        raise InvalidDataError(
            f"{n} rows are too few for {p} hidden units: at least {ROWS_PER_UNIT * p} are needed, and hundreds are"
            " better."
        )
    values = np.linalg.svd(table - table.mean(axis=0) if request.output_bias else table, compute_uv=False)
    rank = int(np.count_nonzero(values > _DEPENDENT * max(float(values[0]), 1e-300)))
    if rank < p:
        raise InvalidDataError(
            f"The rows vary in {rank} dimensions, fewer than the {p} hidden units asked for: columns of the output"
            f" weights are dependent, or units are never on. Ask for n_hidden={rank}."
        )
    return int(p)


def _decoded(table: FloatArray, p: int, request: TwoLayerRequest, rng: np.random.Generator, clock: Clock) -> FoundLayer:
    space = find_subspace(table, p, request.output_bias, rng, request.rounding)
    q = request.n_inputs
    if request.method == "separable":
        return FoundLayer(decode_separably(table, space))
    few = q is not None and (isinstance(q, str) or q < p)
    if not few:
        decoded = decode_by_facets(table, space, request.output_bias, True, rng, clock)
        found = FoundLayer(decoded, ended=None if decoded.report.converged or not clock.is_up else TIME_WAS_UP)
    if few or (q is None and not clock.is_up and found.decoded.report.needs_inputs):
        from unrelu.recovery.layers.widening import decode_widening

        widened = decode_widening(table, space, request.output_bias, q or "auto", rng, clock)
        found = widened if few or widened.inner is not None else found
    return found


def _judge(found: FoundLayer, n_inputs: int | str | None) -> None:
    """Refuse a layer of which nothing was found, and say what is not to be relied on in another one."""
    report = found.decoded.report
    if found.ended is not None:
        ended_early(found)
        return
    if report.method == "widening":
        if not report.converged:
            raise InvalidDataError(why_missing(found, n_inputs or "auto"))
        warn_of_widened(report)
        return
    if report.units_found == 0:
        raise InvalidDataError(
            f"None of {report.n_hidden} hidden units was found: no facet of the rows holds more of them than chance"
            " explains. Perhaps no unit is ever off, the number of units is wrong, there is an output bias"
            " (output_bias=True), or too much noise; with as many units as columns noise is not allowed for."
        )
    warn_of(report)
    if report.thin and report.n_rows < _ROWS_PER_THIN_UNIT * report.n_hidden:
        warn(
            f"There are fewer inputs than {report.n_hidden} hidden units. Planes can then hold many rows by"
            f" coincidence, and {report.n_rows:,} rows may be too few to tell: perhaps these are not the units.",
            DoubtfulUnitsWarning,
        )
