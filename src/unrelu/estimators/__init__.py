"""The scikit-learn skin: ``fit`` validates, calls the core and stores attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.estimators.checking import check_model as check_model
    from unrelu.estimators.hooking import activations as activations
    from unrelu.estimators.imputer import FloorImputer as FloorImputer
    from unrelu.estimators.learner import RectifiedGaussianLearner as RectifiedGaussianLearner
    from unrelu.estimators.merging import merge as merge
    from unrelu.estimators.mixture import RectifiedGaussianMixture as RectifiedGaussianMixture
    from unrelu.estimators.network import RectifiedGaussianNetwork as RectifiedGaussianNetwork
    from unrelu.estimators.outliers import FloorOutlierDetector as FloorOutlierDetector

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "unrelu.estimators.checking": ["check_model"],
        "unrelu.estimators.hooking": ["activations"],
        "unrelu.estimators.imputer": ["FloorImputer"],
        "unrelu.estimators.learner": ["RectifiedGaussianLearner"],
        "unrelu.estimators.merging": ["merge"],
        "unrelu.estimators.mixture": ["RectifiedGaussianMixture"],
        "unrelu.estimators.network": ["RectifiedGaussianNetwork"],
        "unrelu.estimators.outliers": ["FloorOutlierDetector"],
    },
)
