"""What a rectifier hid: the low-rank matrix behind a table, the latent vector of a known layer, the layers below.

From X = ReLU(C A' + 1 b') alone, only T = C A' + 1 b' and the column space of A are determined (Mazumdar and Rawat,
"Representation learning and recovery in the ReLU model", section 3). :class:`unrelu.ReLUMatrixRecovery` is the skin;
the classes here are methods with parameters of their own (:mod:`unrelu.recovery.matrix`). Given the layer, outliers and
noise, :class:`unrelu.ReLULatentRecovery` finds latent vectors (section 4; :mod:`unrelu.recovery.latent`). Layers below
the last one are found by facets (:mod:`unrelu.recovery.layers`; :class:`unrelu.TwoLayerReLULearner`, ``unrelu.peel``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unrelu.recovery.latent.contracts import LatentResult
    from unrelu.recovery.latent.methods import LatentLasso, RobustLatent
    from unrelu.recovery.latent.priors import GaussianPrior, NonnegativePrior, NoPrior, SparsePrior
    from unrelu.recovery.matrix.descent import CensoredALS
    from unrelu.recovery.matrix.tobit import TobitEM

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

_HOME = {
    "CensoredALS": "matrix.descent",
    "TobitEM": "matrix.tobit",
    "LatentResult": "latent.contracts",
    **dict.fromkeys(("LatentLasso", "RobustLatent"), "latent.methods"),
    **dict.fromkeys(("GaussianPrior", "NoPrior", "NonnegativePrior", "SparsePrior"), "latent.priors"),
}


def __getattr__(name: str) -> Any:
    """Whoever recovers one thing does not wait for the modules of the others."""
    if name in _HOME:
        return getattr(import_module(f"unrelu.recovery.{_HOME[name]}"), name)
    raise AttributeError(f"module 'unrelu.recovery' has no attribute {name!r}")
