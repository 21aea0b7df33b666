"""What pictures of whole tables and weights share: which cells to show, colours, and how to name the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray, Samples
from unrelu.report.pictures import HIDDEN, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

MOST_CELLS = 240  # rows and columns of an image; more would not be told apart
MOST_NAMES = 30
_LONGEST_NAME = 14
_COLOURS = "RdBu_r"
_BRIGHTEST = 99.0  # percentile of the weights' sizes from which on colours are full

Numbers: TypeAlias = NDArray[np.intp]


def evenly(count: int, most: int) -> Numbers:
    """At most so many of the numbers from 0 to count - 1, evenly spread.

    >>> evenly(9, 3), evenly(2, 3)
    (array([0, 4, 8]), array([0, 1]))
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.intp))


def cells_of(samples: Samples, rows: Numbers, columns: Numbers) -> FloatArray:
    """Some rows and columns of a table, in the order asked for; the table is read block by block.

    >>> from unrelu.samples import ArraySamples
    >>> cells_of(ArraySamples(np.arange(6.0).reshape(3, 2)), np.array([2, 0]), np.array([1]))
    array([[5.],
           [1.]])
    """
    cells = np.empty((len(rows), len(columns)))
    for block in samples.blocks():
        here = (rows >= block.first_row) & (rows < block.first_row + len(block.values))
        cells[here] = block.values[rows[here] - block.first_row][:, columns]
    return cells


def weight_image(axes: Axes, weights: FloatArray) -> AxesImage:
    """Weights (outputs x units), a row for every unit: white is 0, grey not known."""
    import matplotlib

    known = np.abs(weights[~np.isnan(weights)])
    limit = (float(np.percentile(known, _BRIGHTEST)) if len(known) else 0.0) or 1.0
    colours: Any = matplotlib.colormaps[_COLOURS].with_extremes(bad=HIDDEN)
    return axes.imshow(weights.T, cmap=colours, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")


def name_columns(axes: Axes, names: tuple[str, ...]) -> None:
    """The columns' names below the axes, unless there are too many."""
    if len(names) > MOST_NAMES:
        return
    short = [short_name(name, _LONGEST_NAME) for name in names]
    flat = len(short) * max(map(len, short)) <= 45
    axes.set_xticks(range(len(short)), short, rotation=0 if flat else 90, fontsize=8)
    axes.tick_params(axis="x", length=0)
