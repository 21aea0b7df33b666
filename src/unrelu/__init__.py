"""unrelu: learn x = ReLU(W z + b), z ~ N(0, I), from samples of x alone.

Names are imported on first use, so that ``import unrelu`` and the command line start fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrelu.lazy import lazily
from unrelu.registry import offer, offered

if TYPE_CHECKING:
    from unrelu import errors as errors
    from unrelu import margins as margins
    from unrelu import methods as methods
    from unrelu import metrics as metrics
    from unrelu import papers as papers
    from unrelu import recovery as recovery
    from unrelu import synthetic as synthetic
    from unrelu import tables as tables
    from unrelu._version import __version__ as __version__
    from unrelu.estimators import FloorImputer as FloorImputer
    from unrelu.estimators import FloorOutlierDetector as FloorOutlierDetector
    from unrelu.estimators import RectifiedGaussianGraph as RectifiedGaussianGraph
    from unrelu.estimators import RectifiedGaussianLearner as RectifiedGaussianLearner
    from unrelu.estimators import RectifiedGaussianMixture as RectifiedGaussianMixture
    from unrelu.estimators import check_model as check_model
    from unrelu.estimators import learn_layer as learn_layer
    from unrelu.estimators import merge as merge
    from unrelu.model import RectifiedGaussian as RectifiedGaussian
    from unrelu.papers import guarantees as guarantees
    from unrelu.recovery.latent_estimator import ReLULatentRecovery as ReLULatentRecovery
    from unrelu.recovery.latent_estimator import denoise as denoise
    from unrelu.recovery.latent_estimator import recover_latent as recover_latent
    from unrelu.recovery.layers.peeled import Peeled as Peeled
    from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery as ReLUMatrixRecovery
    from unrelu.recovery.two_layer_estimator import TwoLayerReLULearner as TwoLayerReLULearner
    from unrelu.recovery.two_layer_estimator import peel as peel
    from unrelu.storage import load as load
    from unrelu.tables.laboratory import read_table as read_table

__getattr__, __dir__, __all__ = lazily(__name__)

offer("page", "unrelu.report.page.making", report_of="of a fitted learner")
offer("method", "unrelu.papers.learners", TruncatedSGD="sgd", FilteredGradient="filtered_gradient", MedianBias="median")
offer(
    "file",
    "unrelu",
    RectifiedGaussian="model file",
    RectifiedGaussianLearner="learner's file",
    FloorImputer="imputer's file",
    RectifiedGaussianGraph="graph's file",
    RectifiedGaussianMixture="mixture's file",
    FloorOutlierDetector="detector's file",
    ReLUMatrixRecovery="model file",
    ReLULatentRecovery="model file",
    TwoLayerReLULearner="model file",
    Peeled="model file",
)
offer("file", "unrelu.passes.pair_moments", PairMoments="record", GroupedMoments="record")
offer("file", "unrelu.passes.checkpoints", Checkpoint="checkpoint")
offer("file", "unrelu.recovery.matrix.state", MatrixState="saved state")
_METHODS = ("OnePass", "Robust", "RobustCells", "FullLikelihood", "Auto", *offered("method"))
_RECOVERIES = ("CensoredALS", "TobitEM", "RobustLatent", "LatentLasso")
_PRIORS = ("NoPrior", "GaussianPrior", "SparsePrior", "NonnegativePrior")
offer("parameter in files", "unrelu.methods", **dict.fromkeys(_METHODS, "method"))
offer("parameter in files", "unrelu.recovery", **dict.fromkeys(_RECOVERIES, "method"))
offer("parameter in files", "unrelu.recovery", **dict.fromkeys(_PRIORS, "prior"))
