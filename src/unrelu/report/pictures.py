"""What all pictures share: a style, drawing without pyplot's global state, and images of tables and weights.

Figures are made and rendered by themselves (the Agg, SVG and PDF canvases need no display) and are written
like every other output: whole, or not at all.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unrelu.contracts import FloatArray, Samples
from unrelu.errors import MissingDependencyError, OutputError
from unrelu.storage import atomic_write
from unrelu.tables.table_file import unknown_kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.image import AxesImage

KINDS = (".png", ".svg", ".pdf")

# Okabe and Ito's colours, which colour-blind readers can distinguish; the fitted model is always blue.
LEARNED, NAIVE, SEEN, HIDDEN, INK = "#0072B2", "#D55E00", "#9BD0F0", "#D0D0D0", "#333333"
BOTH_SIGNS = "RdBu_r"  # red above 0, blue below

MOST_CELLS = 240  # rows and columns of an image; more could not be seen
MOST_NAMES = 30

Numbers: TypeAlias = NDArray[np.intp]


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raise unless a picture of that name can be drawn: before the long work, not after it."""
    if Path(path).suffix.lower() not in KINDS:
        raise OutputError(f"{os.fspath(path)}: {unknown_kind(os.fspath(path), KINDS, 'picture')}")
    new_figure((1.0, 1.0))


def new_figure(size: tuple[float, float], title: str = "", font: float = 14.0) -> Figure:
    """A figure of that size in inches with nothing but a title, in our style."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise MissingDependencyError('Pictures need matplotlib: pip install "unrelu[plot]".') from error
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1), facecolor="white")
    if title:
        figure.suptitle(title, fontsize=font, color=INK)
    return figure


def rendered(figure: Figure, kind: str = ".png") -> bytes:
    """The figure as the bytes of a png, svg or pdf file."""
    import matplotlib

    buffer = io.BytesIO()
    # A fixed salt and no date: the same results give the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "unrelu"}):
        undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(kind.lower())
        figure.savefig(buffer, format=kind.lstrip(".").lower(), dpi=150, metadata=undated)
    return buffer.getvalue()


def write_picture(path: str | os.PathLike[str], picture: bytes) -> None:
    """Put rendered bytes into a file, whole or not at all."""
    with atomic_write(path) as stream:
        stream.write(picture)


def parts_of(
    figure: Figure | SubFigure, heights: Sequence[float] = (1.0,), widths: Sequence[float] = (1.0,)
) -> list[SubFigure]:
    """Parts of a figure, row by row, of such relative sizes."""
    ratios: Any = {"height_ratios": heights, "width_ratios": widths}
    return list(figure.subfigures(len(heights), len(widths), squeeze=False, **ratios).ravel())


def panels_of(figure: Figure | SubFigure, high: int, wide: int, count: int) -> list[Axes]:
    """The first ``count`` axes of a grid, row by row; the others stay empty."""
    axes = list(figure.subplots(high, wide, squeeze=False).ravel())
    for spare in axes[count:]:
        spare.set_axis_off()
    return axes[:count]


def tidy(axes: Axes, title: str, x: str, y: str, *, frame: bool = True) -> None:
    """Title and labels in one style; no frame above or at the right, or none at all."""
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"] if frame else slice(None)].set_visible(False)


def diagonal(axes: Axes, values: Sequence[FloatArray]) -> None:
    """The line of perfect agreement, and axes that show all values to the same scale."""
    low = min(float(np.min(v)) for v in values)
    high = max(float(np.max(v)) for v in values)
    pad = 0.05 * max(high - low, 1e-12)
    ends = (low - pad, high + pad)
    axes.plot(ends, ends, color=INK, linewidth=0.8, zorder=1)
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_aspect("equal")


def short_name(name: str, longest: int = 16) -> str:
    """A column's name as a picture can show it: cut, and never read as a formula."""
    cut = name if len(name) <= longest else name[: longest - 1] + "…"
    return cut.replace("$", r"\$")  # a dollar sign would start a formula


# --- tables as images -----------------------------------------------------------------


def evenly(count: int, most: int) -> Numbers:
    """At most so many of the numbers from 0 to count - 1, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.intp))


def cells_of(samples: Samples, rows: Numbers, columns: Numbers) -> FloatArray:
    """Some rows and columns of a table, in the given order; the table is read block by block."""
    cells = np.empty((len(rows), len(columns)))
    for block in samples.blocks():
        here = (rows >= block.first_row) & (rows < block.first_row + len(block.values))
        cells[here] = block.values[rows[here] - block.first_row][:, columns]
    return cells


def draw_signed(axes: Axes, values: FloatArray, limit: float, **more: Any) -> AxesImage:
    """An image of numbers of both signs, in full colours from the limit on: white is 0, grey missing."""
    import matplotlib

    colours = matplotlib.colormaps[BOTH_SIGNS].with_extremes(bad=HIDDEN)
    return axes.imshow(values, cmap=colours, vmin=-limit, vmax=limit, interpolation="nearest", **more)


def brightest(values: FloatArray, percentile: float) -> float:
    """The size from which on colours are full: a percentile of the values' sizes, without missing ones."""
    sizes = np.abs(values[~np.isnan(values)])
    return (float(np.percentile(sizes, percentile)) if len(sizes) else 0.0) or 1.0


def name_columns(
    axes: Axes,
    names: Sequence[str],
    most: int = MOST_NAMES,
    longest: int = 14,
    room: int = 45,
    size: float = 8.0,
    first: float = 0.0,
) -> None:
    """The columns' names below the axes, unless there are too many; horizontal where their letters have room."""
    if len(names) > most:
        return
    short = [short_name(name, longest) for name in names]
    flat = len(short) * max(map(len, short)) <= room
    axes.set_xticks(np.arange(len(short)) + first, short, rotation=0 if flat else 90, fontsize=size)
    axes.tick_params(axis="x", length=0)
