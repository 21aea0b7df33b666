"""The scikit-learn skin: ``fit`` validates, calls the core and stores attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.estimators.checking import check_model as check_model
    from unrelu.estimators.imputer import FloorImputer as FloorImputer
    from unrelu.estimators.learner import RectifiedGaussianLearner as RectifiedGaussianLearner
    from unrelu.estimators.mixture import RectifiedGaussianMixture as RectifiedGaussianMixture
    from unrelu.estimators.network import RectifiedGaussianNetwork as RectifiedGaussianNetwork
    from unrelu.estimators.outliers import FloorOutlierDetector as FloorOutlierDetector
    from unrelu.estimators.parts import activations as activations
    from unrelu.estimators.parts import merge as merge

__getattr__, __dir__, __all__ = lazily(__name__)
