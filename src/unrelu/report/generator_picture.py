"""What the picture of a generator adds: its inputs, what chose their number, its samples beside the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from unrelu.contracts import FloatArray
from unrelu.report.peel_summary import InnerSummary, Network, input_names, unit_names
from unrelu.report.pictures import INK, LEARNED, SEEN, diagonal, tidy
from unrelu.report.table_image import evenly, name_columns, weight_image

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

_PAIRS = ((0, 1), (0, 2), (1, 2))  # principal components of a panel
_LEAST = 1e-17  # residual that is drawn
_MOST_NAMED = 12  # inputs whose names are all written


@dataclass(frozen=True, eq=False)
class TrueWeights:
    """The weights that a network was made with: of the outputs (d x p), and of the inputs (p x q)."""

    outer: FloatArray
    inner: FloatArray

    def matched(self, network: Network) -> tuple[TrueWeights, TrueWeights]:
        """(true, found) weights made comparable; outputs that are not determined are left out.

        A unit is known up to its place and scale: columns of the outer weights have length 1, in the order of those
        found. Inputs are known up to a linear map: the found ones are given the one nearest to the true weights.

        >>> A2, A1 = np.array([[0.0, 3.0], [2.0, 0.0]]), np.array([[1.0], [2.0]])
        >>> inner = InnerSummary(np.array([[-6.0], [-2.0]]), np.zeros(2), ())
        >>> true, found = TrueWeights(A2, A1).matched(Network((), (np.eye(2),), ("a", "b"), None, inner))
        >>> bool(np.allclose(true.outer, found.outer) and np.allclose(true.inner, found.inner))
        True
        """
        inner = network.inner
        assert inner is not None, "a generator has inputs"
        known = np.isfinite(network.weights[0]).all(axis=1)
        found, true = network.weights[0][known], self.outer[known]
        sizes, lengths = np.linalg.norm(found, axis=0), np.linalg.norm(true, axis=0)
        found, true = found / sizes, true / lengths
        order = linear_sum_assignment(-found.T @ true)[1]
        of_inputs, own = inner.weights * sizes[:, None], (self.inner * lengths[:, None])[order]
        turned = of_inputs @ np.linalg.lstsq(of_inputs, own)[0]
        return TrueWeights(true[:, order], own), TrueWeights(found, turned)


def draw_inner(figure: SubFigure, inner: InnerSummary) -> None:
    """The weights of the inputs, and the residuals that chose their number."""
    left, right = figure.subplots(1, 2, width_ratios=[2.6, 1.0])
    figure.colorbar(weight_image(left, inner.weights), ax=left, pad=0.02, extend="both")
    tidy(left, f"Inputs: weights on {len(inner.bias):,} units", "hidden unit", "input")
    left.spines[:].set_visible(False)
    name_columns(left, unit_names(len(inner.bias)))
    shown, names = evenly(inner.n_inputs, _MOST_NAMED).tolist(), input_names(inner.n_inputs)
    left.set_yticks(shown, [names[i] for i in shown], fontsize=8)
    left.tick_params(axis="y", length=0)
    if inner.choice:
        _draw_choice(right, inner)
    else:
        right.set_axis_off()


def _draw_choice(axes: Axes, inner: InnerSummary) -> None:
    tried, residuals = np.array(inner.choice).T
    residuals = np.maximum(residuals, _LEAST)
    axes.plot(tried, residuals, color=INK, linewidth=0.8, zorder=1)
    axes.scatter(tried, residuals, c=[LEARNED if q == inner.n_inputs else SEEN for q in tried], s=40, zorder=2)
    axes.set_yscale("log")
    axes.set_xticks(tried[evenly(len(tried), _MOST_NAMED)])
    tidy(axes, "Residual by inputs tried", "inputs (dark: chosen)", "relative residual")


def draw_generated(
    figure: SubFigure, network: Network, rows: FloatArray, samples: FloatArray, truth: TrueWeights | None
) -> None:
    """Samples beside rows of the table, in principal components; true against found weights where they are known."""
    panels = figure.subplots(1, 3)
    scores, drawn = _components(rows, samples)
    pairs = [pair for pair in _PAIRS[: 1 if truth is not None else 3] if max(pair) < scores.shape[1]]
    for axes, (x, y) in zip(panels, pairs, strict=False):
        for values, colour, size, label in ((scores, SEEN, 30, "table"), (drawn, LEARNED, 4, "samples")):
            axes.scatter(values[:, x], values[:, y], s=size, color=colour, linewidths=0, label=label)
        title = "Samples of the network" if axes is panels[0] else ""
        tidy(axes, title, f"principal component {x + 1}", f"component {y + 1}")
    panels[0].legend(frameon=False, fontsize=8)
    for axes in panels[len(pairs) :]:
        axes.set_axis_off()
    if truth is not None:
        true, found = truth.matched(network)
        for axes, title, ours, theirs in (
            (panels[1], "Layer 1", found.outer, true.outer),
            (panels[2], "Inputs", found.inner, true.inner),
        ):
            axes.set_axis_on()
            _draw_against(axes, f"{title}: found against true weights", theirs.ravel(), ours.ravel())


def _components(rows: FloatArray, samples: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The first three principal components of rows, and samples along the same directions; NaN columns are left out."""
    known = np.isfinite(samples).all(axis=0)
    center = rows[:, known].mean(axis=0)
    directions = np.linalg.svd(rows[:, known] - center, full_matrices=False)[2][:3].T
    return (rows[:, known] - center) @ directions, (samples[:, known] - center) @ directions


def _draw_against(axes: Axes, title: str, true: FloatArray, found: FloatArray) -> None:
    axes.scatter(true, found, s=8, color=LEARNED, alpha=0.6, linewidths=0, zorder=2)
    diagonal(axes, [true, found])
    tidy(axes, title, "true", "found")
