"""unrelu: learn x = ReLU(W z + b), z ~ N(0, I), from samples of x alone.

Names are imported on first use, so that ``import unrelu`` and the command line start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unrelu.registry import offer

if TYPE_CHECKING:
    from unrelu import methods, metrics, papers, recovery, samples, shapes, synthetic
    from unrelu._version import __version__
    from unrelu.distribution import RectifiedGaussian
    from unrelu.estimators import (
        FloorImputer,
        FloorOutlierDetector,
        RectifiedGaussianLearner,
        RectifiedGaussianMixture,
        RectifiedGaussianNetwork,
        ReLULatentRecovery,
        ReLUMatrixRecovery,
        TwoLayerReLULearner,
        activations,
        check_model,
        merge,
        peel,
        recall,
        recover_latent,
    )
    from unrelu.papers import guarantees
    from unrelu.recovery.layers.peeled import Peeled
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
    "samples",
    "shapes",
    "synthetic",
]

_HOME = {
    "FloorImputer": "unrelu.estimators",
    "FloorOutlierDetector": "unrelu.estimators",
    "Peeled": "unrelu.recovery.layers.peeled",
    "ReLULatentRecovery": "unrelu.estimators",
    "ReLUMatrixRecovery": "unrelu.estimators",
    "RectifiedGaussian": "unrelu.distribution",
    "RectifiedGaussianLearner": "unrelu.estimators",
    "RectifiedGaussianMixture": "unrelu.estimators",
    "RectifiedGaussianNetwork": "unrelu.estimators",
    "TwoLayerReLULearner": "unrelu.estimators",
    "__version__": "unrelu._version",
    "load": "unrelu.storage",
    "activations": "unrelu.estimators",
    "check_model": "unrelu.estimators",
    "merge": "unrelu.estimators",
    "peel": "unrelu.estimators",
    "recall": "unrelu.estimators",
    "recover_latent": "unrelu.estimators",
}
_ROOMS = ("methods", "metrics", "papers", "recovery", "samples", "shapes", "synthetic")
_MODULES = {
    "guarantees": "unrelu.papers.guarantees",
    **{name: f"unrelu.{name}" for name in _ROOMS},
}
offer("unrelu.papers.learners", sgd="TruncatedSGD", filtered_gradient="FilteredGradient", median="MedianBias")


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
