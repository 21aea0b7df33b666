"""unrelu: learn x = ReLU(W z + b), z ~ N(0, I), from samples of x alone.

Names are imported on first use, so that ``import unrelu`` and the command line start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unrelu.registry import offer, offer_page

if TYPE_CHECKING:
    from unrelu import methods, metrics, papers, recovery, shapes, synthetic, tables
    from unrelu._version import __version__
    from unrelu.estimators import (
        FloorImputer,
        FloorOutlierDetector,
        RectifiedGaussianLearner,
        RectifiedGaussianMixture,
        RectifiedGaussianNetwork,
        activations,
        check_model,
        merge,
    )
    from unrelu.model import RectifiedGaussian
    from unrelu.papers import guarantees
    from unrelu.recovery.latent_estimator import ReLULatentRecovery, recall, recover_latent
    from unrelu.recovery.layers.peeled import Peeled
    from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery
    from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner, peel
    from unrelu.storage import load

__all__ = [
    "FloorImputer",
    "FloorOutlierDetector",
    "Peeled",
    "ReLULatentRecovery",
    "ReLUMatrixRecovery",
    "RectifiedGaussian",
    "RectifiedGaussianLearner",
    "RectifiedGaussianMixture",
    "RectifiedGaussianNetwork",
    "TwoLayerReLULearner",
    "__version__",
    "activations",
    "check_model",
    "guarantees",
    "load",
    "merge",
    "methods",
    "metrics",
    "papers",
    "peel",
    "recall",
    "recover_latent",
    "recovery",
    "shapes",
    "synthetic",
    "tables",
]

_HOME = {
    "FloorImputer": "unrelu.estimators",
    "FloorOutlierDetector": "unrelu.estimators",
    "Peeled": "unrelu.recovery.layers.peeled",
    "ReLULatentRecovery": "unrelu.recovery.latent_estimator",
    "ReLUMatrixRecovery": "unrelu.recovery.matrix_estimator",
    "RectifiedGaussian": "unrelu.model",
    "RectifiedGaussianLearner": "unrelu.estimators",
    "RectifiedGaussianMixture": "unrelu.estimators",
    "RectifiedGaussianNetwork": "unrelu.estimators",
    "TwoLayerReLULearner": "unrelu.recovery.two_layer_estimator",
    "__version__": "unrelu._version",
    "load": "unrelu.storage",
    "activations": "unrelu.estimators",
    "check_model": "unrelu.estimators",
    "merge": "unrelu.estimators",
    "peel": "unrelu.recovery.two_layer_estimator",
    "recall": "unrelu.recovery.latent_estimator",
    "recover_latent": "unrelu.recovery.latent_estimator",
}
_ROOMS = ("methods", "metrics", "papers", "recovery", "shapes", "synthetic", "tables")
_MODULES = {
    "guarantees": "unrelu.papers.guarantees",
    **{name: f"unrelu.{name}" for name in _ROOMS},
}
offer("unrelu.papers.learners", sgd="TruncatedSGD", filtered_gradient="FilteredGradient", median="MedianBias")
offer_page("unrelu.report.page.making", "report_of")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'unrelu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
