"""
The weights of a trained network, from its outputs alone
========================================================

``python examples/peel_network.py [PICTURE]`` trains scikit-learn's MLPClassifier on handwritten digits (twelve
principal components, then layers of 12 and 60 rectified units) and hands the 60 activations of the second layer, for
the 1797 images, to :func:`unrelu.peel`: no inputs, no labels, no weights. It gives back the second layer's weights and
biases and the 12 units of the first layer, up to their order and scale, which no output can tell. The images are not
normally distributed: the distribution learned for the first layer is only as good as that assumption, and peel says
that some units do not look like rectified Gaussians. Weights and units do not need it.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier

import unrelu
from unrelu.errors import AssumptionWarning, RecoveryWarning

WIDTHS = (12, 60)


@dataclass(frozen=True)
class Comparison:
    """The second layer's weights and the first one's units, true and found, in one order and scale."""

    true_weights: np.ndarray
    weights: np.ndarray
    true_units: np.ndarray
    units: np.ndarray
    true_bias: np.ndarray
    bias: np.ndarray
    true_correlation: np.ndarray
    correlation: np.ndarray

    @property
    def identified(self) -> np.ndarray:
        """Outputs whose weights the table determines."""
        return ~np.isnan(self.bias)

    def errors(self) -> dict[str, float]:
        """Largest errors, relative to the largest value; the correlations' are differences."""
        known = self.identified
        pairs = {
            "weights": (self.weights[known], self.true_weights[known]),
            "biases": (self.bias[known], self.true_bias[known]),
            "hidden units": (self.units, self.true_units),
        }
        errors = {name: float(np.abs(a - b).max() / np.abs(b).max()) for name, (a, b) in pairs.items()}
        return errors | {"correlations": float(np.abs(self.correlation - self.true_correlation).max())}


# %%
# Train, peel, and put what was found in the order and scale of the truth.


def compare(seed: int = 0, widths: tuple[int, int] = WIDTHS) -> Comparison:
    """Train, peel, and put what was found in the order and scale of the truth."""
    digits = load_digits()
    inputs = PCA(12, whiten=True, random_state=seed).fit_transform(digits.data)
    network = MLPClassifier(widths, random_state=seed, max_iter=400).fit(inputs, digits.target)
    first, second = network.coefs_[:2]
    hidden = np.maximum(inputs @ first + network.intercepts_[0], 0.0)
    outputs = np.maximum(hidden @ second + network.intercepts_[1], 0.0)

    with warnings.catch_warnings():
        for category in (RecoveryWarning, AssumptionWarning):  # the images are not normally distributed
            warnings.simplefilter("ignore", category)
        peeled = unrelu.peel(outputs, widths=[widths[0]])

    layer = peeled.layers[0]
    known = layer.column_identifiable
    true = second.T[known] / np.linalg.norm(second.T[known], axis=0)
    found = layer.weights[known] / np.linalg.norm(layer.weights[known], axis=0)
    _, order = linear_sum_assignment(-np.abs(true.T @ found))
    scale = np.linalg.norm(second.T[known], axis=0) / np.linalg.norm(layer.weights[known][:, order], axis=0)
    distribution = peeled.hidden_distribution
    covariance = first.T @ first
    norms = np.sqrt(np.diag(covariance))
    return Comparison(
        second.T,
        layer.weights[:, order] * scale,
        hidden[~peeled.outlier_rows],
        peeled.hidden[:, order] / scale,
        network.intercepts_[1],
        layer.bias,
        covariance / np.outer(norms, norms),
        distribution.correlation[np.ix_(order, order)],
    )


# %%
# The picture.


def draw(comparison: Comparison, path: str | None = None) -> None:
    """True and found weights side by side, and hidden units against each other."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(12, 5), layout="constrained")
    axes = figure.subplots(1, 4, width_ratios=[1, 1, 1.3, 1.3])
    top = float(np.abs(comparison.true_weights).max())
    for axis, weights, title in (
        (axes[0], comparison.true_weights, "weights of the network"),
        (axes[1], comparison.weights, "weights found"),
    ):
        image = axis.imshow(weights, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
        axis.set(title=title, xlabel="hidden unit")
    axes[0].set_ylabel("output")
    figure.colorbar(image, ax=axes[1])
    errors = comparison.errors()
    axes[2].plot(comparison.true_units.ravel(), comparison.units.ravel(), ".", markersize=2, rasterized=True)
    axes[2].set(
        title=f"hidden units of {len(comparison.units):,} images\nlargest error {errors['hidden units']:.0e}",
        xlabel="of the network",
        ylabel="found",
    )
    pairs = np.triu_indices(len(comparison.correlation), 1)
    axes[3].plot([-1.0, 1.0], [-1.0, 1.0], color="0.8")
    axes[3].plot(comparison.true_correlation[pairs], comparison.correlation[pairs], ".")
    axes[3].set(
        title="correlations behind the units\n(images are not normal)",
        xlabel="from the network's weights",
        ylabel="learned",
    )
    if path:
        figure.savefig(path, dpi=110)


def main(arguments: list[str]) -> None:
    comparison = compare()
    print(f"{int(comparison.identified.sum())} of {len(comparison.bias)} outputs are determined; largest errors:")
    for name, error in comparison.errors().items():
        print(f"  {name:14s} {error:.1e}")
    draw(comparison, *arguments[:1])
    if arguments:
        print(f"Picture: {arguments[0]}")


# %%
# The figures as printed, and the picture, which a file's name on the command line keeps:

if __name__ == "__main__":
    main(sys.argv[1:])
