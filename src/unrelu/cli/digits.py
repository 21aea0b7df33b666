"""The demo's data: a small network on scikit-learn's digits, and one hidden layer of it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from unrelu.contracts import FloatArray


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
