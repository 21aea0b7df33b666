"""Completed tables: hidden cells drawn from their posterior, in the user's units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from unrelu.posterior.marginal_values import finite
from unrelu.posterior.prepared import RIDGE, row_shares
from unrelu.shapes import uncut, warn_of_unknown
from unrelu.validation import warn

if TYPE_CHECKING:
    from unrelu.distribution import RectifiedGaussian

_NUMBERS = 2**22  # at a time
_ROUNDING = 3.0 * RIDGE  # of a singular model's variances: the ridge, and what rounding makes of it


def drawn(model: RectifiedGaussian, cells: Cells, n_draws: int = 1, random_state: RandomState = None) -> FloatArray:
    """n_draws x n x d. Row i has the stream of (seed, i): the same in any batch, and other rows' apart."""
    out, first = np.empty((_number(n_draws), *cells.given.shape)), 0
    for _, part in drawn_parts(model, [cells], n_draws, random_state):
        out[:, first : first + part.shape[1]] = part
        first += part.shape[1]
    return out


def drawn_parts(
    model: RectifiedGaussian, parts: Iterable[Cells], n_draws: int = 1, random_state: RandomState = None
) -> Iterator[tuple[Cells, FloatArray]]:
    """The same of rows that come in parts: as few rows at a time as memory asks for, and their n_draws x rows x d."""
    number, hidden, seed = _number(n_draws), HiddenCells.of(model), seed_of(random_state)
    size, first, walked = max(1, _NUMBERS // (number * model.n_features)), 0, 0
    for part in parts:
        warn_of_unknown(model.shapes or (), part.beyond < 0, model.feature_names)
        for _, cells in part.parts(size):
            out = np.broadcast_to(cells.given, (number, *cells.given.shape)).copy()
            walked += _draw(model, hidden, cells, (seed, first), out)
            first += len(cells.given)
            yield cells, out
    if walked:
        warn(
            f"{walked:,} of {number * first:,} draws of rows come from a walk, as rows hide too many cells that pull in"
            " different directions for independent ones: draws of one row may resemble each other a little.",
            DependentDrawsWarning,
        )


def _number(n_draws: int) -> int:
    number = integer("n_draws", n_draws)
    if number < 1:
        raise InvalidParameterError(f"n_draws, the number of draws of each row, must be 1 or more; got {number}.")
    return number


def _draw(model: RectifiedGaussian, hidden: HiddenCells, cells: Cells, place: tuple[int, int], out: FloatArray) -> int:
    """Fill ``out``; ``place`` is the seed and the number of the first row. How many draws came from a walk."""
    seed, first = place
    rounding = _ROUNDING if hidden.is_singular else 0.0

    def fill(rows: slice) -> int:
        x, beyond, bias, scale = hidden.part(cells.latent[rows], cells.beyond[rows])
        found = np.empty((len(x), len(out), x.shape[1]))
        given = (bias, scale, hidden.inverse[0], rounding)
        walked: int = draw_rows(x, beyond, *given, seed, first + rows.start, found)
        _put(model, cells, rows, hidden, found, out)
        return walked

    return sum(map_in_threads(fill, row_shares(len(cells.given))))


def _put(
    model: RectifiedGaussian, cells: Cells, rows: slice, hidden: HiddenCells, found: FloatArray, out: FloatArray
) -> None:
    """Hidden cells of some rows in the user's units; seen cells stay."""
    part = cells.of_rows(rows)
    place = np.cumsum(hidden.varying) - 1
    for j in np.flatnonzero(part.hidden.any(axis=0)).tolist():
        at = part.hidden[:, j]
        f = None if model.shapes is None else finite(uncut(model.shapes[j]))
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
