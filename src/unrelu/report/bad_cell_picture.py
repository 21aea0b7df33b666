"""The picture of a table's bad cells: a line for every row, the worst first; colour for what is bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.report.pictures import HIDDEN, INK, new_figure
from unrelu.report.table_image import MOST_CELLS, name_columns
from unrelu.validation import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = "RdBu_r"


def worst_rows(bad: FloatArray, most: int = MOST_CELLS) -> np.ndarray[Any, np.dtype[np.intp]]:
    """At most so many rows, from that with most bad cells down.

    >>> worst_rows(np.array([[0.0, 0.1], [0.9, 0.8], [0.0, np.nan]]), 2)
    array([1, 0])
    """
    return np.argsort(-np.nansum(bad, axis=1), kind="stable")[:most]


def bad_cell_picture(strangeness: FloatArray, bad: FloatArray, names: tuple[str, ...]) -> Figure:
    """Red for a cell that is bad and too high, blue for one too low, as strong as that is certain; grey is missing."""
    import matplotlib

    rows = worst_rows(bad)
    shown = np.where(strangeness[rows] < 0.0, -1.0, 1.0) * bad[rows]
    figure = new_figure((min(4.0 + 0.25 * len(names), 12.0), 6.5))
    axes = figure.subplots()
    colours: Any = matplotlib.colormaps[_COLOURS].with_extremes(bad=HIDDEN)
    drawn = axes.imshow(shown, cmap=colours, vmin=-1.0, vmax=1.0, aspect="auto", interpolation="nearest")
    count = int(np.count_nonzero(bad > 0.5))
    some = f"the worst {len(rows):,} of {len(bad):,} rows" if len(rows) < len(bad) else counted(len(bad), "row")
    axes.set_title(f"{counted(count, 'bad cell')}; {some}, the worst first", loc="left", fontsize=11, color=INK)
    axes.set_ylabel("rows, by bad cells")
    name_columns(axes, names)
    bar = figure.colorbar(drawn, ax=axes, ticks=[-1.0, 0.0, 1.0], fraction=0.04)
    bar.ax.set_yticklabels(["too low", "genuine", "too high"])
    return figure
