"""What ``unrelu demo`` shows: a small network's layer learned from its activations, compared with the truth, drawn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unrelu.contracts import FloatArray
from unrelu.estimators import RectifiedGaussianLearner
from unrelu.model import RectifiedGaussian
from unrelu.notebook import Table
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, SEEN, diagonal, new_figure, tidy
from unrelu.tables import ArraySamples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAIVE, _LEARNED, _IDEAL = "np.mean, np.cov", "unrelu", "unrelu, on exactly normal rows"


def trained_layer(units: int = 32, seed: int = 0) -> tuple[FloatArray, float]:
    """The pre-activations of a hidden layer, and its network's training accuracy.

    The network is trained on the digits: centred pixels, 60 rounds, about a second.
    """
    from sklearn.datasets import load_digits
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    images, digits = load_digits(return_X_y=True)
    pixels = images / 16.0
    pixels -= pixels.mean(axis=0)
    network = MLPClassifier((units,), activation="relu", max_iter=60, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 60 rounds are plenty for a demo
        network.fit(pixels, digits)
    before = pixels @ network.coefs_[0] + network.intercepts_[0]
    return np.asarray(before), float(network.score(pixels, digits))


class Moments(NamedTuple):
    """Mean and standard deviation per column, and correlations."""

    mean: FloatArray
    std: FloatArray
    correlation: FloatArray


def moments_of_rows(rows: FloatArray) -> Moments:
    """The plain sample moments, by np.mean and np.cov."""
    covariance = np.atleast_2d(np.cov(rows, rowvar=False))
    std = np.sqrt(covariance.diagonal())
    return Moments(rows.mean(axis=0), std, covariance / std[:, None] / std)


def moment_errors(estimate: Moments, true: Moments) -> dict[str, float]:
    """Root mean squared errors: mean and std in units of each column's true std; a pair's correlation counts once."""
    pairs = np.triu_indices(len(true.mean), 1)
    off = {
        "mean": (estimate.mean - true.mean) / true.std,
        "std": (estimate.std - true.std) / true.std,
        "correlation": (estimate.correlation - true.correlation)[pairs],
    }
    return {name: float(np.sqrt(np.mean(values**2))) if len(values) else 0.0 for name, values in off.items()}


def mean_absolute_skewness(rows: FloatArray) -> float:
    """How lopsided the columns are on average; 0 for a normal distribution."""
    centred = rows - rows.mean(axis=0)
    third, second = np.mean(centred**3, axis=0), np.mean(centred**2, axis=0)
    return float(np.mean(np.abs(third / second**1.5)))


def learned_layer(
    pre_activations: FloatArray, names: tuple[str, ...], seed: int
) -> tuple[RectifiedGaussianLearner, tuple[Moments, Moments, Moments], dict[str, dict[str, float]], dict[str, float]]:
    """The learner of the activations; true, plain and learned moments; errors and times of these and of unrelu's on
    exactly normal rows."""
    seen = np.maximum(pre_activations, 0.0)
    RectifiedGaussianLearner().fit(seen)  # loads (the first time: compiles) the kernels, which is not timed
    start = time.perf_counter()
    naive = moments_of_rows(seen)
    between = time.perf_counter()
    learner = RectifiedGaussianLearner().fit(ArraySamples(seen, feature_names=names))
    seconds = {_NAIVE: between - start, _LEARNED: time.perf_counter() - between}
    true = moments_of_rows(pre_activations)
    ideal = RectifiedGaussian(true.mean, true.std[:, None] * true.correlation * true.std)
    repeated = RectifiedGaussianLearner().fit(ideal.sample(len(seen), random_state=seed))
    laws = (each.distribution_ for each in (learner, repeated))
    learned, of_ideal = (Moments(law.bias, law.row_norms, law.correlation) for law in laws)
    estimates = {_NAIVE: naive, _LEARNED: learned, _IDEAL: of_ideal}
    errors = {name: moment_errors(estimate, true) for name, estimate in estimates.items()}
    return learner, (true, naive, learned), errors, seconds


def comparison_table(errors: Mapping[str, Mapping[str, float]], seconds: Mapping[str, float]) -> Table:
    """Errors of several estimates of the same moments, side by side."""
    lines = []
    for name, error in errors.items():
        took = f"{1e3 * seconds[name]:.1f} ms" if name in seconds else ""
        lines.append((name, *(f"{error[what]:.3f}" for what in ("mean", "std", "correlation")), took))
    return Table(("error (RMS) of", ">mean", ">std", ">correlation", ">time"), lines)


def layer_picture(
    pre_activations: FloatArray,
    names: tuple[str, ...],
    moments: tuple[Moments, Moments, Moments],
    mean_stderr: FloatArray,
) -> Figure:
    """Four panels: correlations and means against the truth, and two units with what the floor hid.

    ``moments``: true ones, and two estimates of them from the activations, plain and learned.
    """
    from matplotlib.lines import Line2D

    true, naive, learned = moments
    figure = new_figure((11.0, 10.0))
    title = f"Undoing the ReLU: {len(names)} hidden units, learned from their activations alone"
    figure.suptitle(title, fontsize=15, color=INK)
    axes = figure.subplots(2, 2)
    errors = [moment_errors(each, true) for each in (naive, learned)]
    pairs = np.triu_indices(len(names), 1)
    r = [each.correlation[pairs] for each in moments]
    for values, colour, order in ((r[1], NAIVE, 2), (r[2], LEARNED, 3)):
        axes[0, 0].scatter(r[0], values, color=colour, s=14, alpha=0.55, edgecolors="none", zorder=order)
    diagonal(axes[0, 0], r)
    truth, estimate = "true (pre-activations)", "estimated from activations"
    tidy(axes[0, 0], f"Correlations of {len(r[0]):,} pairs of units", truth, estimate)
    _note(axes[0, 0], [f"RMS error {error['correlation']:.3f}" for error in errors])
    bar = 2.0 * mean_stderr
    axes[0, 1].scatter(true.mean, naive.mean, color=NAIVE, s=22, zorder=2)
    style: Any = {"fmt": "o", "color": LEARNED, "markersize": 4.5, "elinewidth": 1.0}
    axes[0, 1].errorbar(true.mean, learned.mean, bar, zorder=3, **style)
    diagonal(axes[0, 1], [true.mean, naive.mean, learned.mean - bar, learned.mean + bar])
    tidy(axes[0, 1], "Means (biases), with ± 2 standard errors", truth, estimate)
    _note(axes[0, 1], [f"RMS error {error['mean']:.3f} of a unit's std" for error in errors])
    shares = np.mean(pre_activations <= 0.0, axis=0)
    by_share = np.argsort(shares, kind="stable").tolist()
    shown = (by_share[len(by_share) // 2], "typical"), (by_share[-1], "floored most")  # chosen by the data alone
    for panel, (unit, why) in zip(axes[1], shown, strict=True):
        title = f"{names[unit].capitalize()} ({why}): {shares[unit]:.0%} of its values at or below 0"
        tidy(panel, title, "pre-activation", "density")
        estimates = [(each.mean[unit], each.std[unit]) for each in (naive, learned)]
        _draw_unit(panel, pre_activations[:, unit], estimates)
    # One legend for all panels: dots above, normal curves below.
    handles = [
        Line2D([], [], color=NAIVE, marker="o", markersize=5, linestyle="--", linewidth=2),
        Line2D([], [], color=LEARNED, marker="o", markersize=5, linestyle="-", linewidth=2),
    ]
    told = ["np.mean, np.cov of the activations", "unrelu, from the same activations"]
    figure.legend(handles, told, loc="outside lower center", ncols=2, frameon=False, handlelength=3.5)
    return figure


def _draw_unit(axes: Axes, y: FloatArray, estimates: list[tuple[float, float]]) -> None:
    """A histogram of what is seen and what is hidden, and the normal curves of two (mean, std)."""
    width = np.ptp(y) / 40.0
    # Whole multiples of the width, so that one edge is the floor.
    edges = np.arange(np.floor(y.min() / width), np.ceil(y.max() / width) + 1.0) * width
    density = np.histogram(y, edges)[0] / (len(y) * width)
    middles = 0.5 * (edges[:-1] + edges[1:])
    hidden = middles < 0.0
    for part, colour, label in ((hidden, HIDDEN, "hidden by the ReLU"), (~hidden, SEEN, "seen")):
        axes.bar(middles[part], density[part], 0.92 * width, color=colour, label=label)
    x = np.linspace(edges[0], edges[-1], 400)
    for (mean, std), colour, dashes in zip(estimates, (NAIVE, LEARNED), ("--", "-"), strict=True):
        curve = np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2.0 * np.pi))
        axes.plot(x, curve, color=colour, linestyle=dashes, linewidth=2)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.legend(frameon=False, fontsize=9, loc="upper right")


def _note(axes: Axes, lines: list[str]) -> None:
    """The errors of both estimates, in the lower right corner: flooring pushes means up, away from it."""
    for row, (line, colour) in enumerate(zip(reversed(lines), (LEARNED, NAIVE), strict=True)):
        axes.text(0.98, 0.03 + 0.065 * row, line, transform=axes.transAxes, color=colour, ha="right")
