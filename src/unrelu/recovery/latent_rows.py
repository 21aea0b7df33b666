"""Latent vectors of all rows of a table, on all cores, and the reasons of rows that have none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unrelu.contracts import BoolArray, FloatArray, Progress, Step, no_progress
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.notebook import Shown
from unrelu.passes import available_cores, map_in_threads, one_blas_thread
from unrelu.recovery.latent_methods import LatentMethod, LatentResult, names_of
from unrelu.validation import row_label

_STAGE = "Recovering rows"
_RANGE = 1e60  # of values whose quotients' squares are safe
_OUT_OF_RANGE = "holds values so large or so small that squares leave double precision: rescale"
_ROWS_AT_A_TIME = 16  # for each core: between two calls of the progress callback


@dataclass(frozen=True)
class LatentReport(Shown):
    """The outcome in plain numbers. Shares, and the median ``noise_scale``, are of the rows that were recovered.

    ``ambiguous_rows`` have another latent vector that explains them as well; ``bad_rows`` are pairs of a row that
    could not be recovered and the reason.
    """

    method: str
    prior: str
    n_rows: int
    n_features: int
    n_components: int
    share_outliers: float
    share_missing: float
    noise_scale: float | None
    ambiguous_rows: tuple[int, ...]
    bad_rows: tuple[tuple[int, str], ...]

    @property
    def converged(self) -> bool:
        """Whether every row has one latent vector, and no other."""
        return not (self.ambiguous_rows or self.bad_rows)


@dataclass(frozen=True, eq=False)
class LatentRows(Shown):
    """What was recovered from a table, row by row: the arrays of :class:`LatentResult`, stacked.

    A row that could not be recovered is NaN everywhere, and among the ``faults``, pairs of its number and the reason.
    ``rivals`` is NaN where there is none. ``method`` and ``prior`` are the names of those used.
    """

    latent: FloatArray
    clean: FloatArray
    outliers: FloatArray
    inliers: BoolArray
    noise_scale: FloatArray
    covariance: FloatArray
    rivals: FloatArray
    faults: tuple[tuple[int, str], ...] = ()
    method: str = ""
    prior: str = ""

    @property
    def done(self) -> BoolArray:
        """The rows that were recovered."""
        return ~np.isnan(self.latent[:, 0])

    @property
    def ambiguous(self) -> BoolArray:
        """The rows that another latent vector explains as well."""
        return ~np.isnan(self.rivals[:, 0])

    @property
    def flagged(self) -> BoolArray:
        """The entries that do not agree with their row's latent vector."""
        return ~(self.inliers | np.isnan(self.outliers))

    @property
    def report(self) -> LatentReport:
        """The outcome in plain numbers."""
        done = self.done
        observed = ~np.isnan(self.outliers[done])
        return LatentReport(
            method=self.method,
            prior=self.prior,
            n_rows=len(done),
            n_features=self.clean.shape[1],
            n_components=self.latent.shape[1],
            share_outliers=float(self.flagged[done].sum() / max(observed.sum(), 1)),
            share_missing=float(1.0 - observed.mean()) if observed.size else 0.0,
            noise_scale=float(np.median(self.noise_scale[done])) if done.any() else None,
            ambiguous_rows=tuple(np.flatnonzero(self.ambiguous).tolist()),
            bad_rows=self.faults,
        )

    def results(self) -> list[LatentResult | None]:
        """One result for each row; None where there is none."""
        found: list[LatentResult | None] = [None] * len(self.latent)
        for row in np.flatnonzero(self.done).tolist():
            vectors = self.latent[row], self.clean[row], self.outliers[row], self.inliers[row]
            rival = self.rivals[row] if self.ambiguous[row] else None
            scale, covariance = float(self.noise_scale[row]), self.covariance[row]
            found[row] = LatentResult(*vectors, scale, covariance, rival is None, rival)
        return found


def recover_rows(
    weights: FloatArray,
    bias: FloatArray,
    rows: FloatArray,
    method: LatentMethod,
    seed: int = 0,
    progress: Progress = no_progress,
    skip_bad_rows: bool = False,
) -> LatentRows:
    """Every row of a table of outputs, as heights above the floor; a row's result does not depend on the others.

    Rows whose values alone show that they are useless are found first. Rows from which nothing can be recovered raise
    InvalidDataError, or are left empty with ``skip_bad_rows`` if there are others.
    """
    if weights.any() and not _in_range(max(np.abs(weights).max(), np.abs(bias).max())):
        raise InvalidParameterError(f"The layer {_OUT_OF_RANGE} layer and outputs.")
    n, (d, k) = len(rows), weights.shape
    latent, clean, outliers, noise, covariance, rivals = (
        np.full((n, *shape), np.nan) for shape in [(k,), (d,), (d,), (), (k, k), (k,)]
    )
    inliers = np.zeros((n, d), dtype=bool)
    faults = _faults(rows, k, method.least_entries(k))
    _refuse(faults, n, n, skip_bad_rows)

    def at(row: int) -> LatentResult | str:
        try:
            return method.recover(weights, bias, rows[row], seed)
        except InvalidDataError as error:
            return f"is not determined. {error}"

    progress(Step(_STAGE, 0, n))
    size = _ROWS_AT_A_TIME * available_cores()
    for first in range(0, n, size):
        last = min(first + size, n)
        good = [row for row in range(first, last) if row not in faults]
        with one_blas_thread():
            results = map_in_threads(at, good)
        for row, result in zip(good, results, strict=True):
            if isinstance(result, str):
                faults[row] = result
                continue
            latent[row], clean[row], outliers[row] = result.latent, result.clean, result.outliers
            inliers[row], noise[row], covariance[row] = result.inliers, result.noise_scale, result.covariance
            if result.rival is not None:
                rivals[row] = result.rival
        _refuse(faults, last, n, skip_bad_rows)
        progress(Step(_STAGE, last, n))
    bad, names = tuple(sorted(faults.items())), names_of(method)
    return LatentRows(latent, clean, outliers, inliers, noise, covariance, rivals, bad, *names)


def _faults(rows: FloatArray, k: int, needed: int) -> dict[int, str]:
    """The reasons why rows cannot be recovered, as far as their values alone show them."""
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
    raise InvalidDataError(f"{bad:,} of {of} cannot be recovered. {row} {faults[first]}{what_next}", rows=[first])
