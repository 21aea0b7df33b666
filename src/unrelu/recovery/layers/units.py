"""What two layers and peeled ones have in common once units are found: rows needed, doubts, and the units' law."""

from __future__ import annotations

import warnings

import numpy as np

from unrelu.contracts import Assumptions, Evidence, FloatArray, Watch, unwatched
from unrelu.distribution import RectifiedGaussian
from unrelu.engines.local import LocalEngine
from unrelu.errors import DoubtfulTableWarning, DoubtfulUnitsWarning, InvalidDataError, UnitsNotFoundWarning
from unrelu.evidence import RecordedEvidence, SampleEvidence
from unrelu.methods import Method, method_named
from unrelu.recovery.layers.clock import as_stage
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.samples import ArraySamples
from unrelu.validation import listed, warn

ROWS_PER_UNIT = 6  # a facet needs three times as many rows as there are units, and about half of the rows are on it
_RANGE = 1e100  # of values whose squares and products are safe
_MANY = 0.15  # share of the rows from where on outliers are no longer a few


def check_range(table: FloatArray) -> None:
    """Raise InvalidDataError where squares and products of the largest values leave double precision."""
    largest = float(np.abs(table).max(initial=0.0))
    if largest > 0.0 and not 1.0 / _RANGE < largest < _RANGE:
        raise InvalidDataError(f"Values as large as {largest:.0e} leave the range of squares: rescale the table.")


def warn_of(report: LayerReport, where: str = "") -> None:
    """Say what is not to be relied on in a layer."""
    if not report.converged:
        warn(
            f"{where}{report.units_found} of {report.n_hidden} hidden units were found; the others are hardly ever off,"
            " or hardly ever on, or one is off only where another is. Hidden units found can be used, but the output"
            " weights are not determined and are NaN. Add rows, or lower the number of units.",
            UnitsNotFoundWarning,
        )
    if report.doubtful_units:
        warn(
            f"{where}hidden units {listed(str(unit) for unit in report.doubtful_units)} do not look like rectified"
            " Gaussians. If the inputs are Gaussian they are not units but coincidences of several, and columns of the"
            " weights are wrong. Add rows, or lower the number of units.",
            DoubtfulUnitsWarning,
        )
    if report.n_outlier_rows > _MANY * report.n_rows:
        warn(
            f"{where}{report.n_outlier_rows:,} of {report.n_rows:,} rows do not fit {report.n_hidden} hidden units and"
            " were left out. Perhaps there are more units than that, or a bias.",
            DoubtfulUnitsWarning,
        )


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
