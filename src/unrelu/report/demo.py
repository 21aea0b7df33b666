"""The demo's layer: a small network trained on digits, its units learned from their activations, compared, drawn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from rich.table import Table

from unrelu.contracts import FloatArray
from unrelu.estimators import RectifiedGaussianLearner
from unrelu.model import RectifiedGaussian
from unrelu.report.pictures import HIDDEN, INK, LEARNED, NAIVE, SEEN, diagonal, new_figure, tidy
from unrelu.report.tables import rows
from unrelu.tables import ArraySamples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

_NAIVE, _LEARNED, _IDEAL = "np.mean, np.cov", "unrelu", "unrelu, on exactly normal rows"


# --- the layer ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HiddenLayer:
    """Pre-activations of a layer, n x units; its activations are max(0, ·) of them."""

    pre_activations: FloatArray
    names: tuple[str, ...]
    accuracy: float

    @property
    def activations(self) -> FloatArray:
        return np.maximum(self.pre_activations, 0.0)

    def learnable(self) -> HiddenLayer:
        """The layer without units that are never above 0, or constant: nothing can be learned of them."""
        keep = np.flatnonzero(np.ptp(self.activations, axis=0) > 0.0)  # never above 0 is constant, too
        names = tuple(self.names[unit] for unit in keep)
        return HiddenLayer(self.pre_activations[:, keep], names, self.accuracy)


def trained_layer(units: int = 32, seed: int = 0) -> HiddenLayer:
    """Train on the digits (centred pixels, 60 rounds: about a second) and read off the hidden layer."""
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
    names = tuple(f"unit {unit}" for unit in range(units))
    return HiddenLayer(np.asarray(before), names, float(network.score(pixels, digits)))


# --- its moments, learned and true ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and standard deviation per column, and correlations."""

    mean: FloatArray
    std: FloatArray
    correlation: FloatArray

    @classmethod
    def of_rows(cls, rows: FloatArray) -> Moments:
        """The plain sample moments, by np.mean and np.cov."""
        covariance = np.atleast_2d(np.cov(rows, rowvar=False))
        std = np.sqrt(covariance.diagonal())
        return cls(rows.mean(axis=0), std, covariance / std[:, None] / std)

    @classmethod
    def of_model(cls, model: RectifiedGaussian) -> Moments:
        """The latent moments: those of y, where the model is of x = max(y, floor)."""
        return cls(model.bias, model.row_norms, model.correlation)


@dataclass(frozen=True)
class MomentErrors:
    """Root mean squared errors. Those of mean and std are in units of each column's true std."""

    mean: float
    std: float
    correlation: float


def moment_errors(estimate: Moments, true: Moments) -> MomentErrors:
    """How far ``estimate`` is from ``true``; correlations count once per pair (0 for a single column).

    >>> true = Moments(np.zeros(2), np.full(2, 2.0), np.eye(2))
    >>> moment_errors(Moments(np.ones(2), np.ones(2), np.full((2, 2), 0.3)), true)
    MomentErrors(mean=0.5, std=0.5, correlation=0.3)
    """
    pairs = np.triu_indices(len(true.mean), 1)
    return MomentErrors(
        _rms((estimate.mean - true.mean) / true.std),
        _rms((estimate.std - true.std) / true.std),
        _rms((estimate.correlation - true.correlation)[pairs]) if len(pairs[0]) else 0.0,
    )


def mean_absolute_skewness(rows: FloatArray) -> float:
    """How lopsided the columns are on average; 0 for a normal distribution."""
    centred = rows - rows.mean(axis=0)
    third, second = np.mean(centred**3, axis=0), np.mean(centred**2, axis=0)
    return float(np.mean(np.abs(third / second**1.5)))


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def learned_layer(
    layer: HiddenLayer, seed: int
) -> tuple[RectifiedGaussianLearner, LayerResult, dict[str, MomentErrors], dict[str, float]]:
    """Learn the activations: the learner, what its picture shows, errors and times of several estimates.

    These are plain moments, unrelu, and unrelu on ideal rows.
    """
    seen = layer.activations
    named = ArraySamples(seen, feature_names=layer.names)
    RectifiedGaussianLearner().fit(seen)  # loads (the first time: compiles) the kernels, which is not timed
    naive, naive_seconds = _timed(lambda: Moments.of_rows(seen))
    learner, seconds = _timed(lambda: RectifiedGaussianLearner().fit(named))
    learned = Moments.of_model(learner.distribution_)
    true = Moments.of_rows(layer.pre_activations)
    ideal = RectifiedGaussian(true.mean, true.std[:, None] * true.correlation * true.std)
    repeated = RectifiedGaussianLearner().fit(ideal.sample(len(seen), random_state=seed))
    estimates = {_NAIVE: naive, _LEARNED: learned, _IDEAL: Moments.of_model(repeated.distribution_)}
    result = LayerResult(layer.pre_activations, layer.names, true, naive, learned, learner.bias_stderr_)
    errors = {name: moment_errors(estimate, true) for name, estimate in estimates.items()}
    return learner, result, errors, {_NAIVE: naive_seconds, _LEARNED: seconds}


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    outcome = work()
    return outcome, time.perf_counter() - start


def comparison_table(errors: Mapping[str, MomentErrors], seconds: Mapping[str, float]) -> Table:
    """Errors of several estimates of the same moments, side by side."""
    lines = [
        (
            name,
            *(f"{value:.3f}" for value in (error.mean, error.std, error.correlation)),
            f"{1e3 * seconds[name]:.1f} ms" if name in seconds else "",
        )
        for name, error in errors.items()
    ]
    return rows(("error (RMS) of", ">mean", ">std", ">correlation", ">time"), lines)


# --- its picture ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LayerResult:
    """True pre-activations of a layer (n x d), and two estimates of their moments from max(0, ·) of them."""

    pre_activations: FloatArray
    names: tuple[str, ...]
    true: Moments
    naive: Moments
    learned: Moments
    learned_mean_stderr: FloatArray

    @property
    def shares_floored(self) -> FloatArray:
        return np.asarray(np.mean(self.pre_activations <= 0.0, axis=0))


def layer_picture(result: LayerResult) -> Figure:
    """Four panels: correlations and means against the truth, and two units with what the floor hid."""
    from matplotlib.lines import Line2D

    figure = new_figure((11.0, 10.0))
    figure.suptitle(
        f"Undoing the ReLU: {len(result.names)} hidden units, learned from their activations alone",
        fontsize=15,
        color=INK,
    )
    axes = figure.subplots(2, 2)
    errors = [moment_errors(moments, result.true) for moments in (result.naive, result.learned)]
    pairs = np.triu_indices(len(result.names), 1)
    true, naive, learned = (m.correlation[pairs] for m in (result.true, result.naive, result.learned))
    for values, colour, order in ((naive, NAIVE, 2), (learned, LEARNED, 3)):
        axes[0, 0].scatter(true, values, color=colour, s=14, alpha=0.55, edgecolors="none", zorder=order)
    diagonal(axes[0, 0], [true, naive, learned])
    tidy(
        axes[0, 0], f"Correlations of {len(true):,} pairs of units", "true (pre-activations)",
        "estimated from activations",
    )  # fmt: skip
    _note(axes[0, 0], [f"RMS error {error.correlation:.3f}" for error in errors])
    true, naive, learned, bar = (
        result.true.mean,
        result.naive.mean,
        result.learned.mean,
        2.0 * result.learned_mean_stderr,
    )
    axes[0, 1].scatter(true, naive, color=NAIVE, s=22, zorder=2)
    axes[0, 1].errorbar(true, learned, bar, fmt="o", color=LEARNED, markersize=4.5, elinewidth=1.0, zorder=3)
    diagonal(axes[0, 1], [true, naive, learned - bar, learned + bar])
    tidy(axes[0, 1], "Means (biases), with ± 2 standard errors", "true (pre-activations)", "estimated from activations")
    _note(axes[0, 1], [f"RMS error {error.mean:.3f} of a unit's std" for error in errors])
    for panel, (unit, why) in zip(axes[1], shown_units(result.shares_floored), strict=True):
        _draw_unit(panel, result, unit, why)
    # One legend for all panels: dots above, normal curves below.
    handles = [
        Line2D([], [], color=NAIVE, marker="o", markersize=5, linestyle="--", linewidth=2),
        Line2D([], [], color=LEARNED, marker="o", markersize=5, linestyle="-", linewidth=2),
    ]
    names = ["np.mean, np.cov of the activations", "unrelu, from the same activations"]
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, handlelength=3.5)
    return figure


def shown_units(shares: FloatArray) -> tuple[tuple[int, str], tuple[int, str]]:
    """The unit floored as often as the middle one, and the one floored most: chosen by the data alone.

    >>> shown_units(np.array([0.9, 0.1, 0.5]))
    ((2, 'typical'), (0, 'floored most'))
    """
    order = np.argsort(shares, kind="stable")
    return (int(order[len(order) // 2]), "typical"), (int(order[-1]), "floored most")


def _draw_unit(axes: Axes, result: LayerResult, unit: int, why: str) -> None:
    y = result.pre_activations[:, unit]
    width = np.ptp(y) / 40.0
    # Whole multiples of the width, so that one edge is the floor.
    edges = np.arange(np.floor(y.min() / width), np.ceil(y.max() / width) + 1.0) * width
    density = np.histogram(y, edges)[0] / (len(y) * width)
    middles = 0.5 * (edges[:-1] + edges[1:])
    hidden = middles < 0.0
    for part, colour, label in ((hidden, HIDDEN, "hidden by the ReLU"), (~hidden, SEEN, "seen")):
        axes.bar(middles[part], density[part], 0.92 * width, color=colour, label=label)
    x = np.linspace(edges[0], edges[-1], 400)
    for moments, colour, dashes in ((result.naive, NAIVE, "--"), (result.learned, LEARNED, "-")):
        mean, std = moments.mean[unit], moments.std[unit]
        curve = np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2.0 * np.pi))
        axes.plot(x, curve, color=colour, linestyle=dashes, linewidth=2)
    axes.axvline(0.0, color=INK, linewidth=0.8)
    share = result.shares_floored[unit]
    title = f"{result.names[unit].capitalize()} ({why}): {share:.0%} of its values at or below 0"
    tidy(axes, title, "pre-activation", "density")
    axes.legend(frameon=False, fontsize=9, loc="upper right")


def _note(axes: Axes, lines: list[str]) -> None:
    """The errors of both estimates, in the lower right corner: flooring pushes means up, away from it."""
    for row, (line, colour) in enumerate(zip(reversed(lines), (LEARNED, NAIVE), strict=True)):
        axes.text(0.98, 0.03 + 0.065 * row, line, transform=axes.transAxes, color=colour, ha="right")
