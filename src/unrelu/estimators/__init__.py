"""The scikit-learn skin: ``fit`` validates, calls the core and stores attributes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unrelu.estimators.checking import check_model
    from unrelu.estimators.hooking import activations
    from unrelu.estimators.imputer import FloorImputer
    from unrelu.estimators.latent import ReLULatentRecovery, recall, recover_latent
    from unrelu.estimators.learner import RectifiedGaussianLearner
    from unrelu.estimators.matrix import ReLUMatrixRecovery
    from unrelu.estimators.merging import merge
    from unrelu.estimators.mixture import RectifiedGaussianMixture
    from unrelu.estimators.network import RectifiedGaussianNetwork
    from unrelu.estimators.outliers import FloorOutlierDetector
    from unrelu.estimators.peeling import peel
    from unrelu.estimators.two_layer import TwoLayerReLULearner

__all__ = [
    "FloorImputer",
    "FloorOutlierDetector",
    "ReLULatentRecovery",
    "ReLUMatrixRecovery",
    "RectifiedGaussianLearner",
    "RectifiedGaussianMixture",
    "RectifiedGaussianNetwork",
    "TwoLayerReLULearner",
    "activations",
    "check_model",
    "merge",
    "peel",
    "recall",
    "recover_latent",
]

_HOME = {
    "FloorImputer": "unrelu.estimators.imputer",
    "FloorOutlierDetector": "unrelu.estimators.outliers",
    "ReLULatentRecovery": "unrelu.estimators.latent",
    "ReLUMatrixRecovery": "unrelu.estimators.matrix",
    "RectifiedGaussianLearner": "unrelu.estimators.learner",
    "RectifiedGaussianMixture": "unrelu.estimators.mixture",
    "RectifiedGaussianNetwork": "unrelu.estimators.network",
    "TwoLayerReLULearner": "unrelu.estimators.two_layer",
    "activations": "unrelu.estimators.hooking",
    "check_model": "unrelu.estimators.checking",
    "merge": "unrelu.estimators.merging",
    "peel": "unrelu.estimators.peeling",
    "recall": "unrelu.estimators.latent",
    "recover_latent": "unrelu.estimators.latent",
}


def __getattr__(name: str) -> Any:
    """Whoever needs one estimator does not wait for the others' modules."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'unrelu.estimators' has no attribute {name!r}")
