"""The picture of a learned model, and drawing without pyplot's global state.

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
from scipy.special import ndtr

from unrelu.contracts import FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.errors import MissingDependencyError, OutputError
from unrelu.report.summaries import labels
from unrelu.samples.table_file import unknown_kind
from unrelu.storage import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".png", ".svg", ".pdf")

# Okabe and Ito's colours, told apart by all eyes; the learned model is always blue.
LEARNED, NAIVE, SEEN, HIDDEN, INK = "#0072B2", "#D55E00", "#9BD0F0", "#D0D0D0", "#333333"

_MOST_LABELS = 30


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


def model_picture(model: RectifiedGaussian, shares: Sequence[float] | FloatArray) -> Figure:
    """The learned correlations, and a check: the share of floored values seen, and what the model implies."""
    figure = new_figure((11.0, 5.6))
    figure.suptitle(f"Learned model of {model.n_features:,} columns", fontsize=14, color=INK)
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1.0])
    _draw_correlations(figure, left, model)
    _draw_shares(right, model, np.asarray(shares, dtype=np.float64))
    return figure


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


def _draw_correlations(figure: Figure, axes: Axes, model: RectifiedGaussian) -> None:
    image = axes.imshow(model.correlation, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    names = labels(model)
    tidy(axes, "Latent correlations", "", "")
    if len(names) <= _MOST_LABELS:
        short = [_plain(name if len(name) <= 16 else name[:15] + "…") for name in names]
        axes.set_xticks(range(len(names)), short, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), short, fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.8)


def _draw_shares(axes: Axes, model: RectifiedGaussian, shares: FloatArray) -> None:
    varying = model.row_norms > 0.0
    room = np.minimum(model.bias - model.floor, model.ceiling - model.bias)  # infinite without a limit
    distance = room[varying] / model.row_norms[varying]
    axes.scatter(shares[varying], ndtr(-distance), color=LEARNED, s=22, alpha=0.8, edgecolors="none", zorder=2)
    diagonal(axes, [np.array([0.0, 1.0])])
    tidy(
        axes,
        "Check: values at the floor\n(a column far off the line is not normal)",
        "share in the table",
        "share the model implies",
    )


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # a dollar sign would start a formula


def _without_date(kind: str) -> dict[str, Any] | None:
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(kind.lower())
