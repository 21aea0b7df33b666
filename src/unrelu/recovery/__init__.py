"""What a rectifier hid: the low-rank matrix behind a table, the latent vector of a known layer, the layers below.

From X = ReLU(C A' + 1 b') alone, only T = C A' + 1 b' and the column space of A are determined (Mazumdar and Rawat,
"Representation learning and recovery in the ReLU model", section 3). :class:`unrelu.ReLUMatrixRecovery` is the
estimator; the classes here are methods with parameters of their own (:mod:`unrelu.recovery.matrix`). Given the layer,
outliers and noise, :class:`unrelu.ReLULatentRecovery` finds latent vectors (section 4;
:mod:`unrelu.recovery.latent_methods`). Layers below the last one are found by facets (:mod:`unrelu.recovery.layers`;
:class:`unrelu.TwoLayerReLULearner`, ``unrelu.peel``).

Symbols are the papers'. In the words of the core, where W or A is a layer with normal inputs: b is the mean of the
latent values, W W' their covariance, and the length of a row of W the standard deviation (std) of its column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily

if TYPE_CHECKING:
    from unrelu.recovery.latent_methods import GaussianPrior as GaussianPrior
    from unrelu.recovery.latent_methods import LatentLasso as LatentLasso
    from unrelu.recovery.latent_methods import LatentResult as LatentResult
    from unrelu.recovery.latent_methods import NonnegativePrior as NonnegativePrior
    from unrelu.recovery.latent_methods import NoPrior as NoPrior
    from unrelu.recovery.latent_methods import RobustLatent as RobustLatent
    from unrelu.recovery.latent_methods import SparsePrior as SparsePrior
    from unrelu.recovery.matrix.descent import CensoredALS as CensoredALS
    from unrelu.recovery.matrix.descent import TobitEM as TobitEM

__getattr__, __dir__, __all__ = lazily(__name__)
