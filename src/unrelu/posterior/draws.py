"""Completed tables: hidden cells drawn from their posterior, in the user's units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.errors import DependentDrawsWarning, InvalidParameterError
from unrelu.kernels.drawn_rows import draw_rows
from unrelu.passes.engine import map_in_threads
from unrelu.posterior.cells import Cells
from unrelu.posterior.filling import EVERYTHING, Filling
from unrelu.posterior.hidden import HiddenCells
from unrelu.posterior.imputation import within
from unrelu.posterior.marginal_values import finite
from unrelu.posterior.prepared import RIDGE, row_shares
from unrelu.validation import RandomState, generator, integer, warn

if TYPE_CHECKING:
    from unrelu.model import RectifiedGaussian

_NUMBERS = 2**22  # at a time
_ROUNDING = 3.0 * RIDGE  # of a singular model's variances: the ridge, and what rounding makes of it


def drawn(
    models: RectifiedGaussian | Sequence[RectifiedGaussian],
    cells: Cells,
    n_draws: int = 1,
    random_state: RandomState = None,
    filling: Filling = EVERYTHING,
) -> FloatArray:
    """n_draws x n x d. Row i has the stream of (seed, i): the same in any batch, and other rows' apart."""
    out, first = np.empty((number_of(n_draws), *cells.given.shape)), 0
    for _, part in drawn_parts(models, [cells], n_draws, random_state, filling):
        out[:, first : first + part.shape[1]] = part
        first += part.shape[1]
    return out


def drawn_parts(
    models: RectifiedGaussian | Sequence[RectifiedGaussian],
    parts: Iterable[Cells],
    n_draws: int = 1,
    random_state: RandomState = None,
    filling: Filling = EVERYTHING,
) -> Iterator[tuple[Cells, FloatArray]]:
    """The same of rows that come in parts: as few rows at a time as memory asks for, and their n_draws x rows x d.

    ``models``: one for all draws, or one for each, of the same shapes and limits; each then has streams of its own.
    """
    number, seed = number_of(n_draws), seed_of(random_state)
    each = list(models) if isinstance(models, Sequence) else [models]
    model, laws = each[0], [HiddenCells.of(one) for one in each]
    seeds = [_seed_of_draw(seed, k) for k in range(number)] if isinstance(models, Sequence) else [seed]
    size, first, walked = max(1, _NUMBERS // (number * model.n_features)), 0, 0
    for part in parts:
        for _, cells in part.parts(size):
            out = np.broadcast_to(filling.start(model, cells), (number, *cells.given.shape)).copy()
            for law, stream, share in zip(laws, seeds, np.split(out, len(laws)), strict=True):
                walked += _draw(model, law, cells, (stream, first), share, filling)
            first += len(cells.given)
            yield cells, out
    if walked:
        warn(
            f"{walked:,} of {number * first:,} draws of rows come from a walk, as rows hide too many cells that pull in"
            " different directions for independent ones: draws of one row may resemble each other a little.",
            DependentDrawsWarning,
        )


def _seed_of_draw(seed: int, draw: int) -> int:
    return int(np.random.SeedSequence([seed, draw]).generate_state(1, np.uint64)[0] % 2**62)


def number_of(n_draws: int) -> int:
    """How many draws are asked for, checked.

    >>> number_of(3)
    3
    """
    number = integer("n_draws", n_draws)
    if number < 1:
        raise InvalidParameterError(f"n_draws, the number of draws of each row, must be 1 or more; got {number}.")
    return number


def _draw(
    model: RectifiedGaussian,
    hidden: HiddenCells,
    cells: Cells,
    place: tuple[int, int],
    out: FloatArray,
    filling: Filling,
) -> int:
    """Fill ``out``; ``place`` is the seed and the number of the first row. How many draws came from a walk."""
    seed, first = place
    rounding = _ROUNDING if hidden.is_singular else 0.0

    def fill(rows: slice) -> int:
        x, beyond, bias, scale = hidden.part(cells.latent[rows], cells.beyond[rows])
        found = np.empty((len(x), len(out), x.shape[1]))
        given = (bias, scale, hidden.inverse[0], rounding)
        walked: int = draw_rows(x, beyond, *given, seed, first + rows.start, found)
        _put(model, cells.of_rows(rows), hidden, found, out[:, rows], filling)
        return walked

    return sum(map_in_threads(fill, row_shares(len(cells.given))))


def _put(
    model: RectifiedGaussian, part: Cells, hidden: HiddenCells, found: FloatArray, out: FloatArray, filling: Filling
) -> None:
    """The cells of some rows that are filled in, in the user's units; the others stay."""
    place = np.cumsum(hidden.varying) - 1
    for j, at, cut in filling.groups(model, part):
        f = None if model.shapes is None else finite(model.shapes[j].from_latent)
        for draw in range(found.shape[1]):
            y = found[at, draw, place[j]] if hidden.varying[j] else np.full(int(at.sum()), hidden.bias[j])
            x = within(y if f is None else f(y), part, at, j)
            out[draw, :, j][at] = np.clip(x, model.floor[j], model.ceiling[j]) if cut else x


def seed_of(random_state: RandomState) -> int:
    """The seed of the rows' streams: a seed itself; a generator moves on.

    >>> seed_of(7)
    7
    """
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and int(random_state) >= 0:
        return int(random_state) % 2**62
    return int(generator(random_state).integers(2**62))
