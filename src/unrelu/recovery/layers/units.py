"""Units of a layer: found by facets, or together with their inputs where these are fewer; their law; and what may be
wrong with them, in words."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Watch, unwatched
from unrelu.errors import (
    AssumptionWarning,
    CannotPeelError,
    InvalidDataError,
)
from unrelu.estimators import RectifiedGaussianLearner
from unrelu.methods import Auto, Method, OnePass
from unrelu.model import RectifiedGaussian
from unrelu.recovery.layers.decoding import FoundLayer, LayerReport, OutputLayer, Subspace, decode_by_facets
from unrelu.recovery.layers.facets import INTERRUPTED, MISFIT, TIME_WAS_UP, Clock, misfit
from unrelu.recovery.layers.inputs import UNEXPLAINED, InnerLayer
from unrelu.recovery.layers.peeled import Peeled
from unrelu.recovery.layers.widening import decode_widening
from unrelu.validation import listed, warn

ROWS_PER_UNIT = 6  # a facet needs three times as many rows as there are units, and about half of the rows are on it

_RANGE = 1e100  # of values whose squares and products are safe
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
    hidden_distribution: Annotated[RectifiedGaussian, "own sizes"]
    inner: InnerLayer | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together, as a damaged file may hold them."""
        if self.hidden_distribution.n_features != len(self.layer.noise):
            raise InvalidDataError("the law of its hidden units is not one of its layer's")
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
    hidden: FloatArray, threshold: FloatArray, method: Method, seed: int, watch: Watch = unwatched
) -> RectifiedGaussian:
    """The law of hidden units.

    Units below the threshold that noise sets are cut off there instead of at 0: rectified Gaussians are learned from
    any floor, so that small units taken for 0 do no harm.
    """
    told = Clock(watch=watch, stage="Learning the law of the units")
    one_pass = isinstance(method, OnePass | Auto)  # one record is all it takes
    learner = RectifiedGaussianLearner(OnePass() if one_pass else method, floor=threshold, shape="normal")
    learner.set_params(random_state=seed).watched_by(told)
    rows = np.maximum(hidden, threshold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AssumptionWarning)
        law = (learner.partial_fit(rows) if one_pass else learner.fit(rows)).distribution_
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


def warn_of_inputs(layer: InnerLayer, inputs: FloatArray, hidden: FloatArray) -> None:
    """Say where the law of the inputs is not to be relied on."""
    unknown = int(np.count_nonzero(np.isnan(inputs[:, 0])))
    if unknown > _MANY * len(inputs):
        warn(
            f"{unknown:,} of {len(inputs):,} rows have too few units on to determine their {layer.n_inputs} inputs,"
            " which are NaN there; they count as a normal law fills them in.",
            "doubtful-inputs",
        )
    strange = [unit for unit in range(hidden.shape[1]) if misfit(hidden[:, unit]) > _STRANGE]
    if strange:
        warn(
            f"Hidden units {listed(map(str, strange))} do not look like rectified Gaussians, so the inputs are not"
            " normal. Weights and inputs are right, but samples of the network will differ from the table.",
            "doubtful-inputs",
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
        "unfinished",
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
