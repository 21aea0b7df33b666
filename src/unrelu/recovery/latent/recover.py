"""The conductor: latent vectors of all rows of a table, on all cores, and what is to be said of rows that have none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from unrelu.contracts import FloatArray, Step, Watch, unwatched
from unrelu.engines.local import available_cores, map_in_threads, one_blas_thread
from unrelu.errors import AmbiguousOptimumWarning, InvalidDataError, InvalidParameterError
from unrelu.recovery.latent.contracts import LatentMethod, LatentReport, LatentResult, LatentRows, Layer
from unrelu.recovery.latent.methods import method_name, prior_of
from unrelu.validation import row_label, row_labels, warn

_STAGE = "Recovering rows"
_RANGE = 1e60  # of values whose quotients' squares are safe
_OUT_OF_RANGE = "holds values so large or so small that squares leave double precision: rescale"
_ROWS_AT_A_TIME = 16  # for each core: between two steps that a watch hears of


def recover_rows(
    layer: Layer,
    rows: FloatArray,
    method: LatentMethod,
    seed: int = 0,
    watch: Watch = unwatched,
    skip_bad_rows: bool = False,
) -> LatentRows:
    """Every row of a table of outputs, as heights above the floor; a row's result does not depend on the others.

    Rows that can be seen to be useless are looked for first. Those from which nothing can be recovered raise
    InvalidDataError, or are left empty with ``skip_bad_rows`` if there are others.

    >>> from unrelu.recovery.latent.methods import RobustLatent
    >>> layer = Layer(np.array([[1.0], [2.0], [3.0]]), np.zeros(3))
    >>> found = recover_rows(layer, np.array([[2.0, 4.0, 6.0], [0.0, 0.0, 0.0]]), RobustLatent(), skip_bad_rows=True)
    >>> found.latent.round(6)
    array([[ 2.],
           [nan]])
    """
    if layer.weights.any() and not _in_range(max(np.abs(layer.weights).max(), np.abs(layer.bias).max())):
        raise InvalidParameterError(f"The layer {_OUT_OF_RANGE} layer and outputs.")
    n, found = len(rows), LatentRows.empty(len(rows), layer)
    faults = dict(_faults(layer, rows, method))
    _refuse(faults, n, n, skip_bad_rows)

    def at(row: int) -> LatentResult | str:
        try:
            return method.recover(layer, rows[row], seed)
        except InvalidDataError as error:
            return f"is not determined. {error}"

    watch(Step(_STAGE, 0, n))
    size = _ROWS_AT_A_TIME * available_cores()
    for first in range(0, n, size):
        last = min(first + size, n)
        good = [row for row in range(first, last) if row not in faults]
        with one_blas_thread():
            results = map_in_threads(at, good)
        for row, result in zip(good, results, strict=True):
            if isinstance(result, str):
                faults[row] = result
            else:
                found.keep(row, result)
        _refuse(faults, last, n, skip_bad_rows)
        watch(Step(_STAGE, last, n))
    return replace(found, faults=tuple(sorted(faults.items())))


def report_on(rows: LatentRows, method: LatentMethod) -> LatentReport:
    """How it went."""
    done = rows.done
    observed = ~np.isnan(rows.outliers[done])
    scale = rows.noise_scale[done]
    return LatentReport(
        method=method_name(method),
        prior=prior_of(method),
        n_rows=len(done),
        n_features=rows.clean.shape[1],
        n_components=rows.latent.shape[1],
        share_outliers=float(rows.flagged[done].sum() / max(observed.sum(), 1)),
        share_missing=float(1.0 - observed.mean()) if observed.size else 0.0,
        noise_scale=float(np.median(scale)) if len(scale) else None,
        ambiguous_rows=tuple(np.flatnonzero(rows.ambiguous).tolist()),
        bad_rows=rows.faults,
    )


def warn_of(report: LatentReport) -> None:
    """Warn of rows that two latent vectors explain."""
    if report.ambiguous_rows:
        rows = "v" if report.n_rows == 1 else row_labels(report.ambiguous_rows)
        warn(
            f"Two latent vectors explain {rows} about equally well: the result has both, as latent and rival.",
            AmbiguousOptimumWarning,
        )


def _faults(layer: Layer, rows: FloatArray, method: LatentMethod) -> Mapping[int, str]:
    """Why rows cannot be recovered, as far as that can be seen from their values."""
    k, needed = layer.weights.shape[1], method.least_entries(layer)
    faults: dict[int, str] = {}
    for row, v in enumerate(rows):
        above = int(np.count_nonzero(v > 0.0))
        if np.isinf(v).any():
            faults[row] = "holds infinite values: mark them as missing with NaN."
        elif np.isnan(v).all():
            faults[row] = "is missing everywhere (NaN): nothing can be recovered from it."
        elif above == 0:
            faults[row] = (
                "has no positive entry: the layer is off everywhere, and any latent vector far enough below its"
                " thresholds explains that."
            )
        elif not _in_range(np.median(np.abs(v[(v != 0.0) & ~np.isnan(v)]))):  # outliers may be of any size
            faults[row] = f"{_OUT_OF_RANGE} outputs and layer."
        elif above < needed:
            faults[row] = (
                f"has only {above} entries above the floor; {k} latent numbers need at least as many. Give a prior,"
                " such as prior='gaussian'."
            )
    return faults


def _in_range(size: float) -> bool:
    return bool(1.0 / _RANGE < size < _RANGE)


def _refuse(faults: Mapping[int, str], seen: int, n: int, skip: bool) -> None:
    """Raise for rows that cannot be recovered, unless they are to be skipped and others are left."""
    bad = len(faults)
    if bad == 0 or (skip and bad < n):
        return
    first = min(faults)
    if n == 1:
        raise InvalidDataError(f"v {faults[first]}")
    of = f"{n:,} rows" if seen == n else f"the first {seen:,} rows"
    what_next = "" if bad == n else " skip_bad_rows=True leaves such rows empty and recovers the others."
    row = row_label(first).capitalize()
    raise InvalidDataError(f"{bad:,} of {of} cannot be recovered. {row} {faults[first]}{what_next}")
