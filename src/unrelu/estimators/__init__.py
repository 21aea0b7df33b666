"""Estimators with scikit-learn's interface: ``fit`` validates, calls the core and stores attributes.

This module offers the estimators, and the parts of an estimator of your own: the base class, and the functions that
read a table and learn its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.estimators.base import FloorEstimator as FloorEstimator
    from unrelu.estimators.base import Table as Table
    from unrelu.estimators.checking import check_model as check_model
    from unrelu.estimators.graph import RectifiedGaussianGraph as RectifiedGaussianGraph
    from unrelu.estimators.imputer import FloorImputer as FloorImputer
    from unrelu.estimators.learner import RectifiedGaussianLearner as RectifiedGaussianLearner
    from unrelu.estimators.mixture import RectifiedGaussianMixture as RectifiedGaussianMixture
    from unrelu.estimators.outliers import FloorOutlierDetector as FloorOutlierDetector
    from unrelu.estimators.parts import learn_layer as learn_layer
    from unrelu.estimators.parts import merge as merge
    from unrelu.estimators.preparation import checked_tolerance as checked_tolerance
    from unrelu.estimators.preparation import learn_columns as learn_columns
    from unrelu.estimators.preparation import prepare as prepare
    from unrelu.estimators.preparation import screened_floats as screened_floats
    from unrelu.tables.prepared import Columns as Columns

__getattr__, __dir__, __all__ = lazily(__name__)
