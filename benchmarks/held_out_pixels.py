"""Hidden pixels of digits, by a modelled floor, PCA and NMF: ``python -m benchmarks.held_out_pixels [PICTURE]``.

A tenth of the pixels of scikit-learn's digits (1797 images of 8 x 8, 49 % zeros) are hidden. ReLUMatrixRecovery, PCA
and NMF of rank 10 are fitted to the rest, and predict the hidden ones. PCA and NMF take no missing values: both are
refitted to their own predictions of them until these stand still, and PCA, which knows no floor, has its predictions
cut off at 0.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF, PCA
from sklearn.exceptions import ConvergenceWarning

import unrelu
from unrelu.errors import RecoveryWarning

RANK, HIDDEN_SHARE = 10, 0.1
_ROUNDS, _STILL = 100, 1e-4


@dataclass(frozen=True)
class Comparison:
    """The images, which pixels were hidden, and per method its predictions of all pixels."""

    pixels: np.ndarray
    hidden: np.ndarray
    predicted: dict[str, np.ndarray]

    def errors(self) -> dict[str, float]:
        """Relative error |X - prediction| / |X| over the hidden pixels."""
        truth = self.pixels[self.hidden]
        size = np.linalg.norm(truth)
        return {
            name: float(np.linalg.norm(guess[self.hidden] - truth) / size) for name, guess in self.predicted.items()
        }


def compare(seed: int = 0, rank: int = RANK) -> Comparison:
    """Fit every method to the pixels that are not hidden."""
    pixels = load_digits().data
    hidden = np.random.default_rng(seed).random(pixels.shape) < HIDDEN_SHARE
    shown = np.where(hidden, np.nan, pixels)
    return Comparison(
        pixels,
        hidden,
        {
            "floor modelled": _with_floor(shown, rank, "censored_als"),
            "floor and noise": _with_floor(shown, rank, "tobit_em"),
            "PCA": np.maximum(_refitted(shown, lambda filled: _pca(filled, rank)), 0.0),
            "NMF": _refitted(shown, _Nmf(rank)),
        },
    )


def _with_floor(shown: np.ndarray, rank: int, method: str) -> np.ndarray:
    recovery = unrelu.ReLUMatrixRecovery(rank, method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)  # pixels at the rim are hardly ever inked
        recovery.fit(shown)
    return recovery.inverse_transform(recovery.latent_)


def _refitted(shown: np.ndarray, fit: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Predictions of a method without missing values: fill, fit, fill with the fit, until the filling stands still."""
    missing = np.isnan(shown)
    filled = np.where(missing, np.nanmean(shown, axis=0), shown)
    guess = fit(filled)
    for _ in range(_ROUNDS):
        before, filled = filled, np.where(missing, guess, shown)
        guess = fit(filled)
        if np.linalg.norm(filled - before) <= _STILL * np.linalg.norm(filled[missing]):
            break
    return guess


def _pca(filled: np.ndarray, rank: int) -> np.ndarray:
    model = PCA(rank)
    return model.inverse_transform(model.fit_transform(filled))


class _Nmf:
    """scikit-learn's NMF, begun where it ended the last time."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._factors: dict[str, Any] = {}

    def __call__(self, filled: np.ndarray) -> np.ndarray:
        model = NMF(self._rank, init="custom" if self._factors else "nndsvda", max_iter=20, tol=0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the rounds go on
            weights = model.fit_transform(filled, **self._factors)
        self._factors = {"W": weights, "H": model.components_}
        return weights @ model.components_


def draw(comparison: Comparison, path: str | None = None, digits: int = 8) -> None:
    """Images with their hidden pixels marked, what each method makes of them, and the errors."""
    import matplotlib.pyplot as plt

    errors = comparison.errors()
    names = ["hidden pixels in red", *comparison.predicted]
    figure = plt.figure(figsize=(1.15 * digits + 4.2, 1.2 * len(names)), layout="constrained")
    grid = figure.add_gridspec(len(names), digits + 4)
    chosen = np.argsort(-comparison.hidden.sum(axis=1), kind="stable")[:digits]
    for row, name in enumerate(names):
        for column, image in enumerate(chosen):
            axes = figure.add_subplot(grid[row, column])
            shown = comparison.pixels[image] if row == 0 else comparison.predicted[name][image]
            axes.imshow(shown.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
            if row == 0:
                mask = np.where(comparison.hidden[image], 1.0, np.nan).reshape(8, 8)
                axes.imshow(mask, cmap="autumn", vmin=0, vmax=8, alpha=0.75)
            axes.set(xticks=[], yticks=[])
            if column == 0:
                axes.set_title(name, loc="left", fontsize=9)
    bars = figure.add_subplot(grid[1:, digits:])
    colours = ["tab:blue" if name.startswith("floor") else "tab:gray" for name in errors]
    drawn = bars.barh(list(errors), list(errors.values()), color=colours)
    bars.bar_label(drawn, fmt="%.3f", padding=3)
    bars.invert_yaxis()
    bars.set(xlim=(0, 1.2 * max(errors.values())), xlabel=f"relative error on hidden pixels, rank {RANK}")
    bars.spines[["top", "right"]].set_visible(False)
    if path:
        figure.savefig(path, dpi=110)


def main(arguments: list[str]) -> None:
    comparison = compare()
    for name, error in comparison.errors().items():
        print(f"{name:<16} {error:.4f}")
    draw(comparison, *arguments[:1])
    if arguments:
        print(f"picture: {arguments[0]}")


if __name__ == "__main__":
    main(sys.argv[1:])
