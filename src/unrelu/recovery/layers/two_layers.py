"""Two layers: x = A h + a, h = ReLU(W z + b), from rows of x; and what peeled layers share with them.

How many units, the space that the rows vary in, the facets of the rows in it (or units and inputs together, where there
are fewer inputs than units), which rows they explain, the law of h, and what is known and what not.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Annotated

import numpy as np

from unrelu.contracts import Assumptions, BoolArray, Evidence, FloatArray, Step, Watch, unwatched
from unrelu.errors import (
    CannotPeelError,
    DoubtfulInputsWarning,
    DoubtfulTableWarning,
    DoubtfulUnitsWarning,
    InvalidDataError,
    InvalidParameterError,
    UnfinishedWarning,
    UnitsNotFoundWarning,
)
from unrelu.methods import Method, method_named
from unrelu.model import RectifiedGaussian
from unrelu.passes.engine import LocalEngine
from unrelu.passes.evidence import RecordedEvidence, SampleEvidence
from unrelu.recovery.layers.decoding import (
    ROUNDING,
    FoundLayer,
    LayerReport,
    OutputLayer,
    Subspace,
    decode_by_facets,
    decode_separably,
    find_subspace,
    rank_of,
)
from unrelu.recovery.layers.facets import INTERRUPTED, MISFIT, TIME_WAS_UP, Clock, as_stage, misfit
from unrelu.recovery.layers.inputs import UNEXPLAINED, InnerLayer, standard_layer
from unrelu.recovery.layers.peeled import Peeled
from unrelu.recovery.layers.widening import decode_widening
from unrelu.tables import ArraySamples
from unrelu.validation import listed, warn

ROWS_PER_UNIT = 6  # a facet needs three times as many rows as there are units, and about half of the rows are on it

_RANGE = 1e100  # of values whose squares and products are safe
_DEPENDENT = 1e-10  # of the largest singular value
_ROWS_PER_THIN_UNIT = 150
_ROUNDED = 1e-6  # of the rows' root mean square: less noise than that is rounding
_MANY_OUTLIERS = 0.15  # share of the rows from where on outliers are no longer a few
_MANY = 0.05  # share of the rows without inputs from where on their law is a guess
_STRANGE = 1.5 * MISFIT  # of a unit's law, among as many units as a network has
_EXPLAINED = 1e-6  # relative residual


@dataclass(frozen=True, eq=False)
class TwoLayers:
    """The output layer, how it was found, the rows that it does not explain, and the law of its hidden units.

    ``inner`` is the layer of the inputs, where their number was asked for and every unit was found.
    """

    layer: OutputLayer
    report: LayerReport
    outlier_rows: Annotated[BoolArray, "bools n"]
    hidden_distribution: RectifiedGaussian
    inner: InnerLayer | None = None


def learn_two_layers(
    table: FloatArray,
    n_hidden: int | str = "auto",
    method: str = "facets",
    *,
    output_bias: bool = False,
    hidden_method: str | Method = "one_pass",
    rounding: float = ROUNDING,
    n_inputs: int | str | None = None,
    max_seconds: float | None = None,
    seed: int = 0,
    watch: Watch = unwatched,
) -> TwoLayers:
    """Learn A, a and the law of h from finite rows.

    ``method`` is "facets" or "separable" (A and rows not negative, no a). Noise below ``rounding``, relative to the
    rows' size, is not told from none. ``n_inputs`` ("auto": to be found) are the inputs of the units, where fewer.
    """
    p, clock = _units(table, n_hidden, output_bias), Clock(max_seconds, watch)
    watch(Step("Finding the space of the rows"))
    rng = np.random.default_rng(seed)
    space = find_subspace(table, p, output_bias, rng, rounding)
    if method == "separable":
        found = decode_separably(table, space)
    else:
        found = find_units(table, space, output_bias, n_inputs, True, rng, clock)
    _judge(found, n_inputs)
    layer, genuine, report = found.layer, found.genuine, replace(found.report, ended=found.ended)
    hidden = layer.hidden(table[genuine])
    if found.inner is None:
        return TwoLayers(layer, report, ~genuine, hidden_law(hidden, layer.threshold, hidden_method, seed, watch))
    if report.noise <= _ROUNDED * float(np.sqrt((table**2).mean())):
        check_explained(found.inner, hidden)
    inner = standard_layer(found.inner, hidden, seed)
    warn_of_inputs(inner, inner.inputs(hidden), hidden)
    return TwoLayers(layer, report, ~genuine, inner.law, inner if n_inputs is not None else None)


def _units(table: FloatArray, n_hidden: int | str, output_bias: bool) -> int:
    """How many units to look for; raises where the rows cannot tell so many."""
    n, d = table.shape
    largest = float(np.abs(table).max())
    auto = isinstance(n_hidden, str) and n_hidden == "auto"
    if largest == 0.0 or ((auto or output_bias) and np.ptp(table, axis=0).max() <= 1e-12 * largest):
        raise InvalidDataError("The table does not vary: there is nothing to learn.")
    check_range(table)
    p = rank_of(table) if auto else n_hidden
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
    values = np.linalg.svd(table - table.mean(axis=0) if output_bias else table, compute_uv=False)
    rank = int(np.count_nonzero(values > _DEPENDENT * max(float(values[0]), 1e-300)))
    if rank < p:
        raise InvalidDataError(
            f"The rows vary in {rank} dimensions, fewer than the {p} hidden units asked for: columns of the output"
            f" weights are dependent, or units are never on. Ask for n_hidden={rank}."
        )
    return int(p)


def _judge(found: FoundLayer, n_inputs: int | str | None) -> None:
    """Refuse a layer of which nothing was found, and say what is not to be relied on in another one."""
    report = found.report
    if found.ended is not None:
        ended_early(found)
        return
    if report.method == "widening":
        if not report.converged:
            raise InvalidDataError(why_missing(found, n_inputs or "auto"))
        warn_of(found)
        return
    if report.units_found == 0:
        raise InvalidDataError(
            f"None of {report.n_hidden} hidden units was found: no facet of the rows holds more of them than chance"
            " explains. Perhaps no unit is ever off, the number of units is wrong, there is an output bias"
            " (output_bias=True), or too much noise; with as many units as columns noise is not allowed for."
        )
    warn_of(found)
    if report.thin and report.n_rows < _ROWS_PER_THIN_UNIT * report.n_hidden:
        warn(
            f"There are fewer inputs than {report.n_hidden} hidden units. Planes can then hold many rows by"
            f" coincidence, and {report.n_rows:,} rows may be too few to tell: perhaps these are not the units.",
            DoubtfulUnitsWarning,
        )


# --- what peeled layers share ---------------------------------------------------------------------


def find_units(
    X: FloatArray,
    space: Subspace,
    lifted: bool,
    n_inputs: int | str | None,
    innermost: bool,
    rng: np.random.Generator,
    clock: Clock,
    clear: BoolArray | None = None,
    amplified: float = 1.0,
) -> FoundLayer:
    """The units behind rows X by their facets, or with their inputs where these are fewer and asked for, or needed.

    With inputs the search is among the ``clear`` rows, whose noise is ``amplified``.
    """
    few = n_inputs is not None and (isinstance(n_inputs, str) or n_inputs < space.basis.shape[1])
    if not few:
        found = decode_by_facets(X, space, lifted, innermost, rng, clock)
        report = found.report
        if clock.is_up and not report.converged:
            found = replace(found, ended=TIME_WAS_UP)
        # Where there are fewer inputs than units facets alone may not tell all of these.
        in_doubt = report.thin and (not report.converged or bool(report.doubtful_units))
        if n_inputs is not None or not innermost or clock.is_up or not in_doubt:
            return found
    noisy = replace(space, noise=space.noise * amplified)
    widened = decode_widening(X, noisy, lifted, n_inputs or "auto", rng, clock, clear)
    return widened if few or widened.inner is not None else found


def check_range(table: FloatArray) -> None:
    """Raise InvalidDataError where squares and products of the largest values leave double precision."""
    largest = float(np.abs(table).max(initial=0.0))
    if largest > 0.0 and not 1.0 / _RANGE < largest < _RANGE:
        raise InvalidDataError(f"Values as large as {largest:.0e} leave the range of squares: rescale the table.")


def hidden_law(
    hidden: FloatArray, threshold: FloatArray, method: str | Method, seed: int, watch: Watch = unwatched
) -> RectifiedGaussian:
    """The law of hidden units.

    Units below the threshold that noise sets are cut off there instead of at 0: rectified Gaussians are learned from
    any floor, so that small units taken for 0 do no harm.
    """
    rows = ArraySamples(np.maximum(hidden, threshold), block_rows=len(hidden))
    told = as_stage("Learning the law of the units", watch)
    evidence: Evidence = SampleEvidence(rows, LocalEngine(told))
    chosen, assumptions = method_named(method), Assumptions(tuple(threshold.tolist()))
    question = chosen.question(assumptions)
    if question is not None:  # a record is all it needs; what rows would show of tables is nobody's matter here
        evidence = RecordedEvidence(question, evidence.collect(question))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # of tables of columns; doubtful units are told as such
        law = chosen.learn(evidence, assumptions, seed, told).distribution
    return RectifiedGaussian(law.bias, law.covariance)


def check_explained(inner: InnerLayer, hidden: FloatArray, peeled: Peeled | None = None) -> None:
    """Refuse inputs that do not give the units of the rows, which have no noise."""
    left, known = inner.left_of(hidden)
    if known <= inner.weights.size or left > UNEXPLAINED:
        raise CannotPeelError(
            f"The {inner.n_inputs} inputs found leave a relative error of {left:.1g} of {hidden.shape[1]} units, and"
            f" {known:,} of {len(hidden):,} rows determine them: they are not the network's. Add rows,"
            " or try another width or number of inputs.",
            peeled,
            None if peeled is None else peeled.layers[-1].report,
        )


def warn_of(found: FoundLayer, where: str = "") -> None:
    """Say what is not to be relied on in a layer."""
    report = found.report
    if found.inner is not None or report.method == "widening":
        if report.doubtful_units:
            warn(
                f"{where}hidden units {listed(map(str, report.doubtful_units))} are never off: their bias cannot be"
                " told from that of the outputs, and if there are several, nor can they from each other. The network as"
                " a whole is right.",
                DoubtfulUnitsWarning,
            )
        return
    if not report.converged:
        warn(
            f"{where}{report.units_found} of {report.n_hidden} hidden units were found; the others are hardly ever off,"
            " or hardly ever on, or one is off only where another is. Hidden units found can be used, but the output"
            " weights are not determined and are NaN. Add rows, use fewer units, or allow for an output_bias.",
            UnitsNotFoundWarning,
        )
    if report.doubtful_units:
        warn(
            f"{where}hidden units {listed(str(unit) for unit in report.doubtful_units)} do not look like rectified"
            " Gaussians. If the inputs are Gaussian they are not units but coincidences of several, and columns of the"
            " weights are wrong. Add rows, or lower the number of units.",
            DoubtfulUnitsWarning,
        )
    if report.n_outlier_rows > _MANY_OUTLIERS * report.n_rows:
        warn(
            f"{where}{report.n_outlier_rows:,} of {report.n_rows:,} rows do not fit {report.n_hidden} hidden units and"
            " were left out. Perhaps there are more units than that, or an output_bias.",
            DoubtfulUnitsWarning,
        )


def warn_of_inputs(layer: InnerLayer, inputs: FloatArray, hidden: FloatArray) -> None:
    """Say where the law of the inputs is not to be relied on."""
    unknown = int(np.count_nonzero(np.isnan(inputs[:, 0])))
    if unknown > _MANY * len(inputs):
        warn(
            f"{unknown:,} of {len(inputs):,} rows have too few units on to determine their {layer.n_inputs} inputs,"
            " which are NaN there; they count as a normal law fills them in.",
            DoubtfulInputsWarning,
        )
    strange = [unit for unit in range(hidden.shape[1]) if misfit(hidden[:, unit]) > _STRANGE]
    if strange:
        warn(
            f"Hidden units {listed(map(str, strange))} do not look like rectified Gaussians, so the inputs are not"
            " normal. Weights and inputs are right, but samples of the network will differ from the table.",
            DoubtfulInputsWarning,
        )


def ended_early(found: FoundLayer, so_far: Peeled | None = None, where: str = "") -> None:
    """Warn that the search was ended, ``hidden`` has the units found; where there are none, end as it was ended."""
    report = found.report
    if not report.units_found:
        if found.ended == INTERRUPTED:
            raise KeyboardInterrupt
        raise CannotPeelError(
            f"{where}{found.ended} before a hidden unit was found. Raise max_seconds.", so_far, report
        )
    doubt = " They are planes whose inputs were not found yet, so may not be units." if report.doubtful_units else ""
    more = " Raise max_seconds." if found.ended == TIME_WAS_UP else ""
    warn(
        f"{where}{found.ended} after {report.units_found} of {report.n_hidden} hidden units were found.{doubt} Hidden"
        f" units found can be used, but the output weights are not determined and are NaN.{more}",
        UnfinishedWarning,
    )


def why_missing(found: FoundLayer, n_inputs: int | str) -> str:
    """Why not every unit was found."""
    report = found.report
    if found.verdict:
        return found.verdict
    said = f"{report.units_found} of {report.n_hidden} hidden units were found."
    if isinstance(n_inputs, str) or n_inputs not in dict(found.choice):
        tried = ", ".join(f"{q}: {left:.1g}" for q, left in found.choice)
        tried = f" Numbers of inputs tried, and the relative residual of each: {tried}." if tried else ""
        return (
            f"{said} Too few of them are on together to find the inputs behind them, or there are no fewer inputs than"
            f" units.{tried} Add rows, or leave n_inputs out."
        )
    left = dict(found.choice)[n_inputs]
    if left > _EXPLAINED and not report.units_found - len(report.doubtful_units):
        return (
            f"{said} n_inputs={n_inputs} leaves a relative residual of {left:.1g} of the units known, so there are more"
            " inputs than that, or noise. Raise n_inputs, or let 'auto' find it."
        )
    return (
        f"{said} The others are hardly ever off, or hardly ever on, or the number of units is another. Add rows, or"
        " try another width."
    )
