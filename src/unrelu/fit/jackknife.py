"""Standard errors that survive misfit: a jackknife over groups of rows, and intervals from either kind of error.

Leave out group g, which has the share 1/h_g of the weight, and learn again: theta_g. The pseudo-values

    theta~_g = h_g theta - (h_g - 1) theta_g

scatter about their weighted mean theta_J = sum theta~_g / h_g, and the covariance of theta is

    (1/G) sum (theta~_g - theta_J)(theta~_g - theta_J)' / (h_g - 1)

(the delete-a-group jackknife with unequal groups). Nothing of the model enters: it is right for columns that are not
normal, and for rows that come in clusters where these are the groups.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import islice

import numpy as np
from scipy.special import ndtri, stdtrit

from unrelu.contracts import Assumptions, FloatArray, PairCorrelations, Progress, RowParameters, Step, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError, UnreluWarning
from unrelu.fit.one_pass import Learned, Names, fit_record
from unrelu.passes.engine import available_cores, map_in_threads
from unrelu.passes.pair_moments import GroupedMoments, PairMoments
from unrelu.validation import counted, label_columns, warn

_FEW = 5  # groups
LEAVING_OUT = "Leaving out groups"

Fit = tuple[RowParameters, PairCorrelations]


def jackknifed(
    learned: Learned,
    record: GroupedMoments,
    assumptions: Assumptions,
    names: Names = None,
    progress: Progress = no_progress,
) -> Learned:
    """The same model with the jackknife's standard errors over the groups of its record."""
    check_groups(record)

    def fitted(item: tuple[int, PairMoments]) -> Fit:
        group, others = item
        try:
            rows, pairs = fit_record(others, assumptions, names, learned.pairs)
            if (constant := (rows.std == 0.0) & (learned.rows.std > 0.0)).any():
                raise InvalidDataError(f"Constant: {label_columns(constant, names)}.")
        except InvalidDataError as error:
            raise not_without(record, group, error) from error
        return rows, pairs

    fits: list[Fit] = []
    groups = enumerate(record.left_out())
    # Diagnostics of all rows were given; without a group they would come once more for every group.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        while batch := list(islice(groups, available_cores())):  # as many at a time as there are cores
            progress(Step(LEAVING_OUT, batch[0][0], len(record.parts)))
            fits += map_in_threads(fitted, batch)
    return with_scatter_of(learned, record, fits)


def with_scatter_of(learned: Learned, record: GroupedMoments, fits: list[Fit]) -> Learned:
    """The same model with the errors by its fits without every group of the record in turn."""
    rows, pairs = learned.rows, learned.pairs
    shape = pairs.correlation.shape
    weight = np.array(
        [np.full(shape, part.weight) if part.observed is None else part.observed.count for part in record.parts]
    )
    own = weight.diagonal(axis1=1, axis2=2)
    both = np.stack([rows.mean, rows.std], axis=-1)
    moved = np.array([np.stack([fit.mean, fit.std], axis=-1) for fit, _ in fits])
    deviation = group_deviations(both - moved, own[:, :, None])
    covariance = np.einsum("gdi,gdj->dij", deviation, deviation)
    covariance[_seen(own) < 2] = np.nan
    covariance[rows.std == 0.0] = 0.0
    deviation = group_deviations(pairs.correlation - np.array([each.correlation for _, each in fits]), weight)
    stderr = np.minimum(np.sqrt(np.einsum("gij,gij->ij", deviation, deviation)), 1.0)
    stderr[_seen(weight) < 2] = np.nan
    np.fill_diagonal(stderr, 0.0)
    stderr[np.isnan(pairs.stderr)] = np.nan
    report = replace(learned.report, stderr="jackknife", stderr_degrees=len(fits) - 1)
    rows, pairs = replace(rows, mean_std_covariance=covariance), replace(pairs, stderr=stderr)
    return replace(learned, rows=rows, pairs=pairs, report=report)


def check_groups(record: GroupedMoments) -> None:
    """Raise where there is but one group, warn where there are hardly more."""
    remedy = "give groups= with more labels, or use stderr='model'."
    if len(record.parts) < 2:
        label = f" ({record.labels[0]!r})" if isinstance(record.labels[0], str) else ""
        raise InvalidDataError(f"All {record.n_rows:,} rows are in one group{label}: a jackknife needs two; {remedy}")
    if record.effective_groups < _FEW:
        warn(
            f"The {len(record.parts)} groups of rows count as {record.effective_groups:.1f} of equal size: standard"
            f" errors from so few are rough. Use confidence_intervals(), which allow for it, or {remedy}",
            "few-groups",
        )


def not_without(record: GroupedMoments, group: int, error: InvalidDataError) -> InvalidDataError:
    """What to raise where the rows without a group have such an error."""
    label, size = record.labels[group], counted(record.parts[group].n_rows, "row")
    return InvalidDataError(
        f"No jackknife: without group {label!r} ({size}) a column cannot be learned. {error} Otherwise give other"
        " groups=, or use stderr='model'."
    )


def group_deviations(change: FloatArray, weight: FloatArray) -> FloatArray:
    """(theta~_g - theta_J) / sqrt(G (h_g - 1)) from theta - theta_g; 0 for a group without values."""
    total = weight.sum(axis=0)
    pseudo = np.divide(total - weight, weight, out=np.zeros_like(weight), where=weight > 0.0) * change
    centre = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0.0) * pseudo
    odds = np.divide(weight, total - weight, out=np.zeros_like(weight), where=total > weight)
    return np.asarray((pseudo - centre.sum(axis=0)) * np.sqrt(odds / np.maximum(_seen(weight), 1)))


def _seen(weight: FloatArray) -> FloatArray:
    """How many groups have values."""
    return np.asarray(np.count_nonzero(weight, axis=0), dtype=np.float64)


def intervals(
    mean: tuple[FloatArray, FloatArray],
    std: tuple[FloatArray, FloatArray],
    correlation: tuple[FloatArray, FloatArray],
    level: float,
    degrees: int | None,
) -> dict[str, FloatArray]:
    """Low and high ends, along a last axis, from pairs (estimate, standard error).

    Quantiles are Student's with so many degrees of freedom, the normal's where None. Standard deviations go through
    their logarithm and correlations through Fisher's z = atanh(r), so that none leaves its range.
    """
    reach = _reach(level, degrees)
    stds = np.where(std[0] > 0.0, std[0], 1.0)
    return {
        "mean": mean[0][..., None] + mean[1][..., None] * reach,
        "std": std[0][..., None] * np.exp((std[1] / stds)[..., None] * reach),
        "correlation": fisher_interval(*correlation, level, degrees),
    }


def fisher_interval(r: FloatArray, stderr: FloatArray, level: float, degrees: float | None) -> FloatArray:
    """Low and high ends, along a last axis, of (partial) correlations, through z = atanh(r)."""
    inside = np.abs(r) < 1.0
    within = np.where(inside, r, 0.0)
    z = np.arctanh(within)[..., None] + (stderr / (1.0 - within**2))[..., None] * _reach(level, degrees)
    return np.asarray(np.where(inside[..., None], np.tanh(z), r[..., None]))


def _reach(level: float, degrees: float | None) -> FloatArray:
    """(-q, q), the quantiles between which Student's distribution, or the normal, has that probability."""
    if not 0.0 < level < 1.0:
        raise InvalidParameterError(f"level must be between 0 and 1, got {level!r}.")
    tail = 0.5 + 0.5 * level
    quantile = float(ndtri(tail) if degrees is None or np.isinf(degrees) else stdtrit(degrees, tail))
    return quantile * np.array([-1.0, 1.0])
