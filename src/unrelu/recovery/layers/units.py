"""Units of a layer: found by facets, or together with their inputs where these are fewer; their distribution; errors
and warnings about them.

The distribution of the units is a RectifiedGaussian of the core: its mean is the papers' b, its covariance W W'.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from unrelu.contracts import Assumptions, BoolArray, Evidence, FloatArray, Progress, no_progress
from unrelu.errors import CannotPeelError, InvalidDataError
from unrelu.fit import learn_record
from unrelu.methods import Auto, Method, OnePass
from unrelu.model import RectifiedGaussian
from unrelu.passes import LocalEngine
from unrelu.recovery.layers.decoding import FoundLayer, LayerReport, OutputLayer, Subspace, decode_by_facets
from unrelu.recovery.layers.facets import INTERRUPTED, MISFIT, TIME_WAS_UP, Clock, misfit
from unrelu.recovery.layers.inputs import UNEXPLAINED, InnerLayer, standard_layer
from unrelu.recovery.layers.rectifier import INEXACT
from unrelu.recovery.layers.widening import decode_widening
from unrelu.recovery.matrix.matrix import MatrixReport
from unrelu.tables import ArraySamples
from unrelu.validation import listed, warn

ROWS_PER_UNIT = 6  # a facet needs three times as many rows as there are units, and about half of the rows are on it

_RANGE = 1e100  # of values whose squares and products are safe
_MANY_OUTLIERS = 0.15  # share of the rows from where on outliers are no longer a few
_MANY = 0.05  # share of the rows without inputs from where on their distribution is a guess
_CLEAR_MISFIT = 1.5 * MISFIT  # of a unit's distribution, among as many units as a network has
_EXPLAINED = 1e-6  # relative residual
_ROWS_PER_THIN = 150  # a unit, of a layer with fewer inputs than units


@dataclass(frozen=True, eq=False)
class TwoLayers:
    """The output layer, its report, the rows that it does not explain, and the distribution of its hidden units.

    ``inner`` is the layer of the inputs, where ``n_inputs`` was given and every unit was found.
    """

    layer: OutputLayer
    report: LayerReport
    outlier_rows: Annotated[BoolArray, "bools n"]
    hidden_distribution: Annotated[RectifiedGaussian, "own sizes"]
    inner: InnerLayer | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together, as a damaged file may hold them."""
        if self.hidden_distribution.n_features != len(self.layer.noise):
            raise InvalidDataError("the distribution of its hidden units is not one of its layer's")
        if self.layer.weights.shape[1] != self.report.n_hidden:
            raise InvalidDataError("its layer's report is of another layer")


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
    """The units behind rows X by their facets, or with their inputs: where ``n_inputs`` is fewer, or facets fail.

    With inputs the search is among the ``clear`` rows, whose noise is ``amplified``.
    """
    few = n_inputs is not None and (isinstance(n_inputs, str) or n_inputs < space.basis.shape[1])
    if not few:
        found = decode_by_facets(X, space, lifted, innermost, rng, clock)
        report = found.report
        if clock.is_up and not report.converged:
            found = replace(found, report=replace(report, ended=TIME_WAS_UP))
        # Where there are fewer inputs than units facets alone may not show all units.
        doubtful = report.thin and (not report.converged or bool(report.doubtful_units))
        if n_inputs is not None or not innermost or clock.is_up or not doubtful:
            return found
    noisy = replace(space, noise=space.noise * amplified)
    widened = decode_widening(X, noisy, lifted, n_inputs or "auto", rng, clock, clear)
    if not few and widened.report.ended == INTERRUPTED:  # without n_inputs, and the facets were no whole layer
        raise KeyboardInterrupt
    return widened if few or widened.inner is not None else found


def check_range(table: FloatArray) -> None:
    """Raise InvalidDataError where squares and products of the largest values leave double precision."""
    largest = float(np.abs(table).max(initial=0.0))
    if largest > 0.0 and not 1.0 / _RANGE < largest < _RANGE:
        raise InvalidDataError(f"Values as large as {largest:.0e} leave the range of squares: rescale the table.")


def check_rows(n: int, p: int) -> None:
    """Raise InvalidDataError where rows are too few for so many units."""
    if n < ROWS_PER_UNIT * p:
        raise InvalidDataError(
            f"{n:,} rows are too few for {p} hidden units; {ROWS_PER_UNIT * p} are needed, and hundreds are better."
            " Lower the width, or add rows."
        )


def hidden_distribution(
    hidden: FloatArray, threshold: FloatArray, method: Method, seed: int, progress: Progress = no_progress
) -> RectifiedGaussian:
    """The distribution of hidden units.

    Units below the threshold that noise sets are cut off there instead of at 0: rectified Gaussians are learned from
    any floor, so that small units taken for 0 do no harm.
    """
    rows = ArraySamples(np.maximum(hidden, threshold), block_rows=len(hidden))
    clock = Clock(progress=progress, stage="Learning the distribution of the units")
    engine, assumptions = LocalEngine(clock), Assumptions(tuple(threshold.tolist()))
    model: RectifiedGaussian
    if type(method) in (OnePass, Auto):  # of units, always in memory, both learn in one pass: no report is made of it
        model = learn_record(engine.collect(rows, OnePass().question(assumptions)), assumptions).distribution
    else:
        model = method.learn(Evidence(rows, engine), assumptions, seed, clock).distribution
    return RectifiedGaussian(model.mean, model.covariance)


def check_explained(inner: InnerLayer, hidden: FloatArray, peeled: object = None, report: object = None) -> None:
    """Refuse inputs that do not give the units of the rows, which have no noise."""
    left, n_determined = inner.left_of(hidden)
    if n_determined <= inner.weights.size or left > UNEXPLAINED:
        raise CannotPeelError(
            f"The {inner.n_inputs} inputs found leave a relative error of {left:.1g} of {hidden.shape[1]} units, and"
            f" {n_determined:,} of {len(hidden):,} rows determine them: they are not the network's. Add rows,"
            " or try another width or number of inputs.",
            peeled,
            report,
        )


# --- what is wrong with a layer -------------------------------------------------------------------


def check_found(
    found: FoundLayer,
    n_inputs: int | str | None,
    where: str = "",
    so_far: object = None,
    matrix: MatrixReport | None = None,
    innermost: bool = True,
) -> None:
    """Raise CannotPeelError, with the reason, where too little of a layer was found; else warn of its doubtful parts.

    ``where`` names the layer in messages; ``so_far`` has the layers above it; ``matrix`` is the report of the rectifier
    that was undone (None: there was none, and units found can be used without weights).
    """
    report = found.report
    if report.ended is not None:
        _warn_of_early_end(found, so_far, where)
        return
    facets_alone, rows_per_unit = matrix is None and report.method == "facets", report.n_rows / report.n_hidden
    if not report.converged and not (facets_alone and report.units_found):
        raise CannotPeelError(where + why_missing(found, n_inputs, matrix), so_far, report)
    _warn_of(found, where)
    if facets_alone and report.thin and rows_per_unit < _ROWS_PER_THIN:
        warn(
            f"There are fewer inputs than {report.n_hidden} hidden units. Planes can then hold many rows by"
            f" coincidence, and {report.n_rows:,} rows may be too few to exclude it: perhaps these are not the units.",
            "doubtful-units",
        )
    if not innermost:
        # The units of the next layer are this one's inputs, and undoing its rectifier takes more outputs than units.
        warn(
            f"{where}it has more units than inputs, since the next layer has fewer. Planes can then hold many rows by"
            " coincidence, and what was found may not be the layer's units.",
            "doubtful-units",
        )
    if matrix is not None and matrix.residual > INEXACT:
        warn(
            f"{where}the rectifier could be undone only up to a relative residual of {matrix.residual:.1g}: the outputs"
            " have noise, or another number of units, and weights are no more exact than that, those of units that are"
            " rarely on or off far less.",
            "doubtful-units",
        )


def why_missing(found: FoundLayer, n_inputs: int | str | None, matrix: MatrixReport | None = None) -> str:
    """The reason why not every unit was found, and what to do."""
    report = found.report
    said = f"{report.units_found} of {report.n_hidden} hidden units were found"
    if matrix is not None and matrix.residual > INEXACT:
        return (
            f"{said}, and the rectifier could be undone only up to a relative residual of {matrix.residual:.1g}: the"
            " outputs have noise that hides the units, or there are more units than that, or there is no such network."
        )
    if report.method == "facets" or (matrix is not None and n_inputs is None):
        if matrix is not None:
            return (
                f"{said}. The others are hardly ever off, or hardly ever on, or off only where another one is: the"
                " table does not determine their weights. If there are fewer inputs than units, give their number"
                " (n_inputs, or 'auto'); otherwise try another width, or add rows."
            )
        return (
            f"None of {report.n_hidden} hidden units was found: no facet of the rows holds more of them than chance"
            " explains. Perhaps no unit is ever off, the number of units is wrong, there is an output bias"
            " (output_bias=True), or too much noise; with as many units as columns noise is not allowed for."
        )
    if found.fault:
        return found.fault
    choice = dict(found.choice)
    if not isinstance(n_inputs, int) or n_inputs not in choice:
        tried = ", ".join(f"{q}: {left:.1g}" for q, left in found.choice)
        tried = f" Numbers of inputs tried, and the relative residual of each: {tried}." if tried else ""
        return (
            f"{said}. Too few of them are on together to find the inputs behind them, or there are no fewer inputs than"
            f" units.{tried} Add rows, or leave n_inputs out."
        )
    if choice[n_inputs] > _EXPLAINED and not report.units_found - len(report.doubtful_units):
        return (
            f"{said}. n_inputs={n_inputs} leaves a relative residual of {choice[n_inputs]:.1g} of the units found, so"
            " there are more inputs than that, or noise. Raise n_inputs, or let 'auto' find it."
        )
    return (
        f"{said}. The others are hardly ever off, or hardly ever on, or the number of units is another. Add rows, or"
        " try another width."
    )


def _warn_of(found: FoundLayer, where: str) -> None:
    """Warn of doubtful parts of a layer."""
    report = found.report
    if found.inner is not None or report.method == "widening":
        if report.doubtful_units:
            warn(
                f"{where}hidden units {listed(map(str, report.doubtful_units))} are never off: the table does not"
                " separate their bias from that of the outputs, nor several of them from each other. The network as a"
                " whole is right.",
                "doubtful-units",
            )
        return
    if not report.converged:
        warn(
            f"{where}{report.units_found} of {report.n_hidden} hidden units were found; the others are hardly ever off,"
            " or hardly ever on, or one is off only where another is. Hidden units found can be used, but the output"
            " weights are not determined and are NaN. Add rows, use fewer units, or allow for an output_bias.",
            "units-not-found",
        )
    if report.doubtful_units:
        warn(
            f"{where}hidden units {listed(str(unit) for unit in report.doubtful_units)} do not look like rectified"
            " Gaussians. If the inputs are Gaussian they are not units but coincidences of several, and columns of the"
            " weights are wrong. Add rows, or lower the number of units.",
            "doubtful-units",
        )
    if report.n_outlier_rows > _MANY_OUTLIERS * report.n_rows:
        warn(
            f"{where}{report.n_outlier_rows:,} of {report.n_rows:,} rows do not fit {report.n_hidden} hidden units and"
            " were left out. Perhaps there are more units than that, or an output_bias.",
            "doubtful-units",
        )


def _warn_of_early_end(found: FoundLayer, so_far: object, where: str) -> None:
    """Warn that the search ended early, with the units found; where there are none, raise what ended it."""
    report = found.report
    if not report.units_found:
        if report.ended == INTERRUPTED:
            raise KeyboardInterrupt
        raise CannotPeelError(
            f"{where}{report.ended} before a hidden unit was found. Raise max_seconds.", so_far, report
        )
    doubt = " They are planes without inputs found yet, and may not be units." if report.doubtful_units else ""
    more = " Raise max_seconds." if report.ended == TIME_WAS_UP else ""
    warn(
        f"{where}{report.ended} after {report.units_found} of {report.n_hidden} hidden units were found.{doubt}"
        f" Hidden units found can be used, but the output weights are not determined and are NaN.{more}",
        "unfinished",
    )


def with_standard_inputs(
    inner: InnerLayer, hidden: FloatArray, seed: int, found: FloatArray | None = None
) -> tuple[InnerLayer, FloatArray]:
    """:func:`standard_layer` and the inputs of rows of units; warns where the distribution of the inputs is a guess."""
    layer = standard_layer(inner, hidden, seed, found)
    inputs = layer.inputs(hidden)
    undetermined = int(np.count_nonzero(np.isnan(inputs[:, 0])))
    if undetermined > _MANY * len(inputs):
        warn(
            f"{undetermined:,} of {len(inputs):,} rows have too few units on to determine their {layer.n_inputs}"
            " inputs, which are NaN there; a normal distribution stands in for them.",
            "doubtful-inputs",
        )
    doubtful = [unit for unit in range(hidden.shape[1]) if misfit(hidden[:, unit]) > _CLEAR_MISFIT]
    if doubtful:
        warn(
            f"Hidden units {listed(map(str, doubtful))} do not look like rectified Gaussians, so the inputs are not"
            " normal. Weights and inputs are right, but samples of the network will differ from the table.",
            "doubtful-inputs",
        )
    return layer, inputs
