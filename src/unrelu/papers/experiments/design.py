"""The nouns of an experiment: settings, panels, curves, measures, and how the picture is laid out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from unrelu.methods import Method


@dataclass(frozen=True)
class Setting:
    """What one point of a figure is made of: rows n, columns d, condition number of W W', share p of genuine rows."""

    rows: int
    columns: int
    condition_number: float = 1.0
    genuine: float = 1.0

    @property
    def cells(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True)
class Axis:
    """What varies along a panel. Axes are told apart by name."""

    name: str
    symbol: str
    label: str
    value: Callable[[Setting], float]
    logarithmic: bool = False

    def text(self, setting: Setting) -> str:
        """The setting as this axis sees it.

        >>> from unrelu.papers.experiments.measures import GENUINE, ROWS
        >>> ROWS.text(Setting(20_000, 5)), GENUINE.text(Setting(1, 1, genuine=0.95))
        ('n = 20,000', 'p = 0.95')
        """
        return f"{self.symbol} = {self.value(setting):,g}"


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: the points along an axis, and what stays fixed, in words.

    ``runs`` of every point, where they are not the plan's.
    """

    axis: Axis
    settings: tuple[Setting, ...]
    fixed: str
    runs: int | None = None


@dataclass(frozen=True)
class Plan:
    """The panels and the number of runs of every point. A run has its own W, b and rows."""

    panels: tuple[Panel, ...]
    runs: int

    def panel(self, axis: Axis) -> Panel:
        """The panel along that axis."""
        return next(panel for panel in self.panels if panel.axis == axis)

    def runs_of(self, panel: Panel) -> int:
        """The number of runs of every point of a panel."""
        return self.runs if panel.runs is None else panel.runs

    @property
    def runs_in_words(self) -> str:
        """
        >>> Plan((), 10).runs_in_words
        '10'
        """
        more = {panel.axis.symbol: self.runs_of(panel) for panel in self.panels if self.runs_of(panel) != self.runs}
        return str(self.runs) + "".join(f" ({runs} along {symbol})" for symbol, runs in more.items())


@dataclass(frozen=True)
class Curve:
    """A learner under test; an oracle learns from the genuine rows alone.

    ``in_block``: it sees the same rows with all outliers at the end, instead of anywhere.
    """

    name: str
    method: Method
    oracle: bool = False
    ours: bool = False
    in_block: bool = False


@dataclass(frozen=True)
class Measure:
    """What is measured of a learned model; ``name`` is its column in the CSV."""

    name: str
    short: str
    label: str


@dataclass(frozen=True)
class PanelLayout:
    """A row of panels for every group of measures; the measures of a group share their panels."""

    groups: tuple[tuple[Measure, ...], ...]


@dataclass(frozen=True)
class TableRow:
    """One row of a table: its cells, and what the paper printed in them (None: not in the paper)."""

    name: str
    curves: tuple[Curve | None, ...]
    printed: tuple[float | None, ...]


@dataclass(frozen=True)
class TableLayout:
    """A table of one measure at the only setting there is."""

    measure: Measure
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


Layout = PanelLayout | TableLayout
