"""What all pictures share: a style, and drawing without pyplot's global state.

Figures are made and rendered by themselves (the Agg, SVG and PDF canvases need no display) and are written
like every other output: whole, or not at all.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.errors import MissingDependencyError, OutputError
from unrelu.samples.table_file import unknown_kind
from unrelu.storage import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".png", ".svg", ".pdf")

# Okabe and Ito's colours, told apart by all eyes; the learned model is always blue.
LEARNED, NAIVE, SEEN, HIDDEN, INK = "#0072B2", "#D55E00", "#9BD0F0", "#D0D0D0", "#333333"


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raise unless a picture of that name can be drawn: before the long work, not after it."""
    if Path(path).suffix.lower() not in KINDS:
        raise OutputError(f"{os.fspath(path)}: {unknown_kind(os.fspath(path), KINDS, 'picture')}")
    new_figure((1.0, 1.0))


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure of that size in inches, in our style."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise MissingDependencyError('Pictures need matplotlib: pip install "unrelu[plot]".') from error
    return Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1), facecolor="white")


def rendered(figure: Figure, kind: str = ".png") -> bytes:
    """The figure as the bytes of a png, svg or pdf file."""
    import matplotlib

    buffer = io.BytesIO()
    # A fixed salt and no date: the same results give the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "unrelu"}):
        figure.savefig(buffer, format=kind.lstrip(".").lower(), dpi=150, metadata=_without_date(kind))
    return buffer.getvalue()


def write_picture(path: str | os.PathLike[str], picture: bytes) -> None:
    """Put rendered bytes into a file, whole or not at all."""
    with atomic_write(path) as stream:
        stream.write(picture)


def tidy(axes: Axes, title: str, x: str, y: str) -> None:
    """Title and labels in one style, no frame above or at the right."""
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)


def diagonal(axes: Axes, values: Sequence[FloatArray], margin: float = 0.05) -> None:
    """The line of perfect agreement, and axes that show all values to the same scale."""
    low = min(float(np.min(v)) for v in values)
    high = max(float(np.max(v)) for v in values)
    pad = margin * max(high - low, 1e-12)
    ends = (low - pad, high + pad)
    axes.plot(ends, ends, color=INK, linewidth=0.8, zorder=1)
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_aspect("equal")


def short_name(name: str, longest: int = 16) -> str:
    """A column's name as a picture can show it: cut, and never read as a formula.

    >>> short_name("arsenic, dissolved"), short_name("$")
    ('arsenic, dissol…', '\\\\$')
    """
    cut = name if len(name) <= longest else name[: longest - 1] + "…"
    return cut.replace("$", r"\$")  # a dollar sign would start a formula


def _without_date(kind: str) -> dict[str, Any] | None:
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(kind.lower())
