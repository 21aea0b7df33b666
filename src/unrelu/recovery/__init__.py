"""What a rectifier hid: the low-rank matrix behind a table, the latent vector of a known layer, the layers below.

From X = ReLU(C A' + 1 b') alone, only T = C A' + 1 b' and the column space of A are determined (Mazumdar and Rawat,
"Representation learning and recovery in the ReLU model", section 3). :class:`unrelu.ReLUMatrixRecovery` is the skin;
the classes here are methods with parameters of their own (:mod:`unrelu.recovery.matrix`). Given the layer, outliers and
noise, :class:`unrelu.ReLULatentRecovery` finds latent vectors (section 4; :mod:`unrelu.recovery.latent_methods`).
Layers below the last one are found by facets (:mod:`unrelu.recovery.layers`; :class:`unrelu.TwoLayerReLULearner`,
``unrelu.peel``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unrelu.recovery.latent_methods import (
        GaussianPrior,
        LatentLasso,
        LatentResult,
        NonnegativePrior,
        NoPrior,
        RobustLatent,
        SparsePrior,
    )
    from unrelu.recovery.matrix.descent import CensoredALS, TobitEM

__all__ = [
    "CensoredALS",
    "GaussianPrior",
    "LatentLasso",
    "LatentResult",
    "NoPrior",
    "NonnegativePrior",
    "RobustLatent",
    "SparsePrior",
    "TobitEM",
]


def __getattr__(name: str) -> Any:
    """Whoever recovers one thing does not wait for the modules of the others."""
    if name in __all__:
        home = "matrix.descent" if name in ("CensoredALS", "TobitEM") else "latent_methods"
        return getattr(import_module(f"unrelu.recovery.{home}"), name)
    raise AttributeError(f"module 'unrelu.recovery' has no attribute {name!r}")
