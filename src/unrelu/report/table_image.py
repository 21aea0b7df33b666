"""What pictures of whole tables share: which cells to show, and how to name the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CELLS = 240  # rows and columns of an image; more would not be told apart
MOST_NAMES = 30
_LONGEST_NAME = 14

Numbers: TypeAlias = NDArray[np.intp]


def evenly(count: int, most: int) -> Numbers:
    """At most so many of the numbers from 0 to count - 1, evenly spread.

    >>> evenly(9, 3), evenly(2, 3)
    (array([0, 4, 8]), array([0, 1]))
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.intp))


def name_columns(axes: Axes, names: tuple[str, ...]) -> None:
    """The columns' names below the axes, unless there are too many."""
    if len(names) > MOST_NAMES:
        return
    short = [_short(name) for name in names]
    flat = len(short) * max(map(len, short)) <= 45
    axes.set_xticks(range(len(short)), short, rotation=0 if flat else 90, fontsize=8)
    axes.tick_params(axis="x", length=0)


def _short(name: str) -> str:
    cut = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    return cut.replace("$", r"\$")  # a dollar sign would start a formula
