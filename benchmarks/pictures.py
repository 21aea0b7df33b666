"""``python -m benchmarks.pictures``: the pictures of docs/benchmarks.md, drawn from the files of figures beside it.

accuracy.png    error of imputed non-detects, and of correlations, beside what people use today
robustness.png  error with one outlier row in five, beside what people use today
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.table import FOLDER
from benchmarks.zoo import DIMENSIONS, KINDS, METHODS, ROBUST, Place, read_trials
from unrelu.report.pictures import INK, LEARNED, NAIVE, new_figure, rendered, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHARE = 0.8  # of inlier rows
FARTHEST = 1e4  # ratio that is drawn; beyond it a point stands at the edge
FILLED = {  # rows of the table of imputed cells, and what the picture calls them
    'FloorImputer("one_pass", margins="log"), posterior mean of log x': "unrelu",
    "limit/2": "limit/2",
    "limit/sqrt(2)": "limit/√2",
    "regression on order statistics, column by column": "regression on order statistics",
    "scikit-learn's IterativeImputer on logs, with the limits as bounds": "IterativeImputer",
}
SETTINGS = {"signed means": "means of both signs", "|correlation| .9": "correlations of .9", "90 % zeros": "90 % zeros"}


def rows_of(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def bars(axes: Axes, groups: dict[str, dict[str, float]], colours: dict[str, str], label: str) -> None:
    """A bar for each method within each group, from 1 to the right on a logarithmic axis, with its figure."""
    height = 0.8 / len(colours)
    for k, group in enumerate(groups.values()):
        for j, (method, value) in enumerate(group.items()):
            y = k + (j - (len(group) - 1) / 2.0) * height
            axes.barh(y, value - 1.0, height=0.9 * height, left=1.0, color=colours[method])
            axes.text(max(value, 1.0) * 1.02, y, f" {value:.3g}", va="center", fontsize=8, color=INK)
    axes.set_xscale("log")
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend([axes.patches[j] for j in range(len(colours))], list(colours), fontsize=8, frameon=False)


def accuracy() -> bytes:
    cells = {row["filled in by"]: row for row in rows_of("posterior-error-of-imputed-cells-over-the-optimum-s")}
    filled = {
        f"{share} censored": {called: float(cells[row][share]) for row, called in FILLED.items()}
        for share in ("30 %", "60 %")
    }
    claims = {row["claim"]: float(row["figure"]) for row in rows_of("accuracy")}
    pairs = "correlation RMSE / exact pairwise likelihood"
    correlations = {
        called: {
            "unrelu": 1.0,
            "exact likelihood of each pair": 1.0 / claims[f"{pairs}, {name}"],
            "np.corrcoef": claims[f"{pairs}, {name}, np.corrcoef / ours"],
        }
        for name, called in SETTINGS.items()
    }
    figure = new_figure((10.5, 4.2))
    left, right = figure.subplots(1, 2)
    greys = dict(zip(list(FILLED.values())[1:], ("#F2C6A5", "#E8A06C", NAIVE, "#8A3C00"), strict=True))
    bars(left, filled, {"unrelu": LEARNED, **greys}, "error of imputed non-detects / smallest possible")
    left.set_xlim(0.98, 3.2)
    left.set_xticks([1.0, 1.5, 2.0, 3.0], ["1", "1.5", "2", "3"])
    left.minorticks_off()
    three = dict(zip(correlations["90 % zeros"], (LEARNED, "#8FC1E3", NAIVE), strict=True))
    bars(right, correlations, three, "error of correlations / unrelu's")
    right.set_xlim(0.98, 60.0)
    right.set_xticks([1.0, 3.0, 10.0, 30.0], ["1", "3", "10", "30"])
    right.minorticks_off()
    return rendered(figure)


def robustness() -> bytes:
    cells = read_trials(Path(FOLDER.parent / "robust.csv"))
    figure = new_figure((10.5, 4.2))
    others = dict(
        zip([name for name in METHODS if name != ROBUST], (NAIVE, "#009E73", "#CC79A7", "#E69F00"), strict=False)
    )
    for axes, d in zip(figure.subplots(1, len(DIMENSIONS), sharey=True), DIMENSIONS, strict=True):
        for name, colour in {**others, ROBUST: LEARNED}.items():
            ratios = [cells[Place(kind, d, SHARE)].ratio(name) for kind in KINDS]
            shown, label = np.minimum(ratios, FARTHEST), f'method="{name}"' if name == ROBUST else name
            axes.plot(shown, np.arange(len(KINDS)), "o", color=colour, label=label, clip_on=False)
        axes.set_xscale("log")
        axes.set_xlim(0.7, FARTHEST)
        axes.axvline(1.0, color=INK, linewidth=0.8)
        axes.set_title(f"{d} columns", fontsize=11, color=INK)
        axes.set_yticks(range(len(KINDS)), list(KINDS))
        axes.set_xlabel("error / that of the inlier rows alone")
        axes.spines[["top", "right"]].set_visible(False)
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    return rendered(figure)


if __name__ == "__main__":
    for name, picture in (("accuracy", accuracy()), ("robustness", robustness())):
        write_picture(FOLDER / f"{name}.png", picture)
        print(f"docs/benchmarks/{name}.png: {len(picture) / 1e3:.0f} kB")
