"""The scikit-learn skin: ``fit`` validates, calls the core and stores attributes."""

from unrelu.estimators.learner import RectifiedGaussianLearner, merge

__all__ = ["RectifiedGaussianLearner", "merge"]
