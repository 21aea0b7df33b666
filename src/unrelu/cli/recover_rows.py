"""The rows of ``unrelu recover``: recovered some at a time; those that cannot be are named, or left empty if wanted."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unrelu.cli.outcome import counted
from unrelu.contracts import FloatArray
from unrelu.engines.local import available_cores, map_in_threads
from unrelu.errors import AmbiguousOptimumWarning, InvalidDataError, InvalidParameterError
from unrelu.estimators.latent import ReLULatentRecovery
from unrelu.recovery import RobustLatent
from unrelu.recovery.latent.recover import LatentMethod, LatentResult
from unrelu.report.recover_summary import RecoveredRows
from unrelu.validation import listed, warn

if TYPE_CHECKING:
    from unrelu.cli.factor_table import Table
    from unrelu.cli.progress import Meter
    from unrelu.cli.recover_layer import KnownLayer

_ROWS_AT_A_TIME = 32


def recovered_rows(
    layer: KnownLayer, table: Table, method: LatentMethod, seed: int, skip_bad_rows: bool, shown: Meter
) -> RecoveredRows:
    """Every row; those that can be seen to be useless are looked for first, in the whole table."""
    recovery = ReLULatentRecovery(layer.weights, layer.bias, method, floor=layer.floor, random_state=seed)
    try:
        recovery.fit()
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{layer.path}: {_with_options(error)}") from error
    (n, d), k = table.shape, layer.weights.shape[1]
    rows, size = RecoveredRows.empty(n, d, k), max(_ROWS_AT_A_TIME, 4 * available_cores())
    parts = [np.arange(first, min(first + size, n)) for first in range(0, n, size)]
    for at in parts:
        rows.failed.update(row_faults(at, table.part(at, slice(None)) - layer.floor, method, k))
    _check(rows, n, skip_bad_rows)
    shown.stage("Recovering (the first run also compiles)", n)
    for at in parts:
        _recover(rows, recovery, at, table.part(at, slice(None)))
        _check(rows, int(at[-1]) + 1, skip_bad_rows)
        shown.advance(len(at))
    return rows


def warn_of_rivals(rows: RecoveredRows) -> None:
    """Tell of rows that two latent vectors explain."""
    if rows.rivals:
        word = "row" if len(rows.rivals) == 1 else "rows"
        warn(
            f"Two latent vectors explain {word} {listed(map(str, sorted(rows.rivals)))} (counted from 0) about"
            " equally well: the better one is used, --json has both.",
            AmbiguousOptimumWarning,
        )


def row_faults(at: NDArray[np.intp], heights: FloatArray, method: LatentMethod, k: int) -> dict[int, str]:
    """Why rows cannot be recovered, as far as that can be seen from their numbers and heights over the floor.

    >>> row_faults(np.array([4, 5]), np.array([[np.nan, np.nan], [1.0, 0.0]]), RobustLatent(), 1)
    {4: 'is missing everywhere (NaN).'}
    """
    above, needed = (heights > 0.0).sum(axis=1), 1
    if isinstance(method, RobustLatent) and not method.prior.proper:
        needed = k
    faults = {}
    for row, values, count in zip(at.tolist(), heights, above.tolist(), strict=True):
        if np.isinf(values).any():
            faults[row] = "holds infinite values. Mark them as missing, by empty cells or NaN."
        elif np.isnan(values).all():
            faults[row] = "is missing everywhere (NaN)."
        elif count == 0:
            faults[row] = "has no value above the floor: where the layer is off, nothing tells what is behind it."
        elif count < needed:
            faults[row] = (
                f"has only {counted(count, 'value')} above the floor, and {k} latent numbers need at least as many."
                " Give a prior, such as --prior gaussian."
            )
    return faults


def _recover(rows: RecoveredRows, recovery: ReLULatentRecovery, at: NDArray[np.intp], values: FloatArray) -> None:
    """Recover the rows with these numbers and values, but for those known to be useless.

    If one of them cannot be recovered, the others still are.
    """
    good = np.array([row not in rows.failed for row in at.tolist()], dtype=bool)
    if not good.any():
        return
    at, values = at[good], values[good]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmbiguousOptimumWarning)  # warn_of_rivals() tells of all rows together
        results: Sequence[LatentResult | str]
        try:
            results = recovery.recover(values)
        except InvalidDataError:
            results = map_in_threads(lambda row: _alone(recovery, row), list(values))
    for row, result in zip(at.tolist(), results, strict=True):
        if isinstance(result, str):
            rows.failed[row] = result
        else:
            rows.keep(row, result)


def _alone(recovery: ReLULatentRecovery, row: FloatArray) -> LatentResult | str:
    """The result of one row, or why there is none."""
    try:
        return recovery.recover(row[None])[0]
    except InvalidDataError as error:
        return f"is not determined. {_with_options(error)}"


def _check(rows: RecoveredRows, seen: int, skip: bool) -> None:
    """Raise for rows that could not be recovered, unless they are to be skipped and others are left."""
    n, bad = len(rows.clean), len(rows.failed)
    if bad == 0 or (skip and bad < n):
        return
    first = min(rows.failed)
    what_next = "" if bad == n else " To leave such rows empty and recover the others, add --skip-bad-rows."
    of = counted(n, "row") if seen == n else f"the first {counted(seen, 'row')}"
    raise InvalidDataError(
        f"{bad:,} of {of} cannot be recovered. Row {first} (counted from 0) {rows.failed[first]}{what_next}"
    )


def _with_options(words: object) -> str:
    """What the library says of its parameters, said of options.

    >>> _with_options("Give a prior, such as prior='gaussian'.")
    'Give a prior, such as --prior gaussian.'
    """
    return str(words).replace("prior='gaussian'", "--prior gaussian")
