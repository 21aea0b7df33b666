"""The scikit-learn skin: ``fit`` validates, calls the core and stores attributes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unrelu.estimators.checking import check_model
    from unrelu.estimators.imputer import FloorImputer
    from unrelu.estimators.learner import RectifiedGaussianLearner
    from unrelu.estimators.mixture import RectifiedGaussianMixture
    from unrelu.estimators.network import RectifiedGaussianNetwork
    from unrelu.estimators.outliers import FloorOutlierDetector
    from unrelu.estimators.parts import activations, merge

__all__ = [
    "FloorImputer",
    "FloorOutlierDetector",
    "RectifiedGaussianLearner",
    "RectifiedGaussianMixture",
    "RectifiedGaussianNetwork",
    "activations",
    "check_model",
    "merge",
]

_HOME = {
    "FloorImputer": "unrelu.estimators.imputer",
    "FloorOutlierDetector": "unrelu.estimators.outliers",
    "RectifiedGaussianLearner": "unrelu.estimators.learner",
    "RectifiedGaussianMixture": "unrelu.estimators.mixture",
    "RectifiedGaussianNetwork": "unrelu.estimators.network",
    "activations": "unrelu.estimators.parts",
    "check_model": "unrelu.estimators.checking",
    "merge": "unrelu.estimators.parts",
}


def __getattr__(name: str) -> Any:
    """Whoever needs one estimator does not wait for the others' modules."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'unrelu.estimators' has no attribute {name!r}")
