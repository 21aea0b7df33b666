"""Completed tables: hidden cells drawn from their posterior, in the user's units."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.engines.local import map_in_threads
from unrelu.errors import DependentDrawsWarning, InvalidParameterError
from unrelu.kernels.drawn_rows import draw_rows
from unrelu.parameters import RandomState, generator, integer
from unrelu.posterior.cells import Cells
from unrelu.posterior.hidden import HiddenCells
from unrelu.posterior.imputation import within
from unrelu.posterior.prepared import RIDGE, row_shares
from unrelu.shapes import uncut, warn_of_unknown
from unrelu.validation import warn

if TYPE_CHECKING:
    from unrelu.distribution import RectifiedGaussian

_ROUNDING = 3.0 * RIDGE  # of a singular model's variances: the ridge, and what rounding makes of it


def drawn(
    model: RectifiedGaussian, cells: Cells, n_draws: int = 1, random_state: RandomState = None, first_row: int = 0
) -> FloatArray:
    """n_draws x n x d. Row i has the stream of (seed, first_row + i): the same in any batch, and other rows' apart."""
    number = integer("n_draws", n_draws)
    if number < 1:
        raise InvalidParameterError(f"n_draws, the number of draws of each row, must be 1 or more; got {number}.")
    warn_of_unknown(model.shapes or (), cells.beyond < 0, model.feature_names)
    hidden, n, d = HiddenCells.of(model), *cells.given.shape
    seed, rounding = seed_of(random_state), _ROUNDING if hidden.is_singular else 0.0
    out = np.broadcast_to(cells.given, (number, n, d)).copy()

    def fill(rows: slice) -> int:
        x, beyond, bias, scale = hidden.part(cells.latent[rows], cells.beyond[rows])
        found = np.empty((len(x), number, x.shape[1]))
        place = (seed, first_row + rows.start)
        walked: int = draw_rows(x, beyond, bias, scale, hidden.inverse[0], rounding, *place, found)
        _put(model, cells, rows, hidden, found, out)
        return walked

    walked = sum(map_in_threads(fill, row_shares(n)))
    if walked:
        warn(
            f"{walked:,} of {number * n:,} draws of rows come from a walk, as rows hide too many cells that pull in"
            " different directions for independent ones: draws of one row may resemble each other a little.",
            DependentDrawsWarning,
        )
    return out


def _put(
    model: RectifiedGaussian, cells: Cells, rows: slice, hidden: HiddenCells, found: FloatArray, out: FloatArray
) -> None:
    """Hidden cells of some rows in the user's units; seen cells stay."""
    part = Cells(cells.given[rows], cells.latent[rows], cells.beyond[rows])
    place = np.cumsum(hidden.varying) - 1
    for j in np.flatnonzero(part.hidden.any(axis=0)).tolist():
        at = part.hidden[:, j]
        f = None if model.shapes is None else uncut(model.shapes[j])
        for draw in range(found.shape[1]):
            y = found[at, draw, place[j]] if hidden.varying[j] else np.full(int(at.sum()), hidden.bias[j])
            out[draw, rows, j][at] = within(y if f is None else f(y), part, at, j)


def seed_of(random_state: RandomState) -> int:
    """The seed of the rows' streams: a seed itself; a generator moves on.

    >>> seed_of(7)
    7
    """
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and int(random_state) >= 0:
        return int(random_state) % 2**62
    return int(generator(random_state).integers(2**62))
