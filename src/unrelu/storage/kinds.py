"""Everything that a file of ours can hold, and the shapes of its arrays: the schema, on one page.

A kind is a class, found by its name here and nowhere else, so that modules can move without a change of the format.
Shapes are letters: equal letters in one kind are equal sizes, d is the number of columns. ``:bool`` and ``:int`` are
types other than float; ``?`` allows values that are not finite; ``~`` an array that may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """Where a class lives, and the shapes of its arrays."""

    module: str
    arrays: Mapping[str, str] = field(default_factory=dict)


def _kind(module: str, **arrays: str) -> Kind:
    return Kind(f"unrelu.{module}", arrays)


KINDS = {
    # models and what a user assumes
    "RectifiedGaussian": _kind("model"),
    "Assumptions": _kind("contracts"),
    "Columns": _kind("tables.prepared", floor="d?", ceiling="d?"),
    "CellLimits": _kind("contracts"),
    "Normal": _kind("shapes"),
    "Log": _kind("shapes"),
    "Power": _kind("shapes"),
    "Free": _kind("shapes"),
    # records of the rows
    "PairMoments": _kind("passes.pair_moments"),
    "GroupedMoments": _kind("passes.pair_moments"),
    # what learning gives
    "Learned": _kind("fit.one_pass"),
    "RowParameters": _kind(
        "contracts", bias="d", scale="d", floor="d?", bias_scale_covariance="dpp?", influence="dpq?"
    ),
    "PairCorrelations": _kind("contracts", correlation="dd?", stderr="dd?"),
    "Assembly": _kind("contracts"),
    "Shrinkage": _kind("contracts"),
    "LearningReport": _kind("contracts"),
    "Doubt": _kind("contracts"),
    "RectifiedGaussianLearner": _kind("estimators.learner"),
    "FloorImputer": _kind("estimators.imputer"),
    # networks
    "RectifiedGaussianNetwork": _kind("estimators.network"),
    "Network": _kind(
        "graph.learning",
        adjacency="dd:bool", precision="dd", partial_correlation="dd", stderr="dd?", stability="dd?", q_value="dd?",
    ),
    "NetworkPath": _kind(
        "graph.learning", penalties="p", n_edges="p:int", instability="~p", criterion="~p?"
    ),
    # methods with parameters of their own
    "OnePass": _kind("methods"),
    "Robust": _kind("methods"),
    "RobustCells": _kind("methods"),
    "FullLikelihood": _kind("methods"),
    "TruncatedSGD": _kind("papers.learners"),
    "FilteredGradient": _kind("papers.learners"),
    "MedianBias": _kind("papers.learners"),
    # recovery of a matrix behind a rectifier
    "ReLUMatrixRecovery": _kind("recovery.matrix_estimator", _lifted="~c:int"),
    "MatrixFit": _kind("recovery.matrix.matrix", latent_mean="k"),
    "Factors": _kind("recovery.matrix.factors", latent="nk", loadings="dk", bias="~d"),
    "Conditions": _kind("recovery.matrix.factors", columns="d?", rows="n?"),
    "StandardErrors": _kind("recovery.matrix.factors", latent="nk?", loadings="dk?", bias="~d?"),
    "Filling": _kind("recovery.matrix.matrix", row_ridge="k", column_ridge="p"),
    "MatrixReport": _kind("recovery.matrix.matrix"),
    "MatrixState": _kind("recovery.matrix.state"),
    "CensoredALS": _kind("recovery.matrix.descent"),
    "TobitEM": _kind("recovery.matrix.descent"),
    # layers
    "OutputLayer": _kind(
        "recovery.layers.decoding", weights="dp?", bias="d?", encoder="md", offset="m", noise="m"
    ),
    "LayerReport": _kind("recovery.layers.decoding"),
    "TwoLayers": _kind("recovery.layers.two_layers", outlier_rows="n:bool"),
    "TwoLayerReLULearner": _kind("recovery.two_layer_estimator"),
    "PeeledLayer": _kind(
        "recovery.layers.peeled", weights="dp?", bias="d?", floor="d", column_identifiable="d:bool"
    ),
    "InnerLayer": _kind("recovery.layers.inputs", weights="pq", bias="p"),
    "Peeled": _kind("recovery.layers.peeled", hidden="mp", outlier_rows="n:bool", inputs="~mq?"),
    # latent vectors of corrupted outputs
    "ReLULatentRecovery": _kind("recovery.latent_estimator", weights_="~dk", bias_="~d"),
    "LatentRows": _kind(
        "recovery.latent_rows",
        latent="nk?", clean="nd?", outliers="nd?", inliers="nd:bool", noise_scale="n?", covariance="nkk?", rivals="nk?",
    ),
    "LatentReport": _kind("recovery.latent_rows"),
    "RobustLatent": _kind("recovery.latent_methods"),
    "LatentLasso": _kind("recovery.latent_methods"),
    "GaussianPrior": _kind("recovery.latent_methods"),
    "SparsePrior": _kind("recovery.latent_methods"),
    "NonnegativePrior": _kind("recovery.latent_methods"),
    "NoPrior": _kind("recovery.latent_methods"),
    # bad cells
    "CellsLearned": _kind("fit.robust_cells.learn", row_weights="n", cell_weights="nd"),
    "CellsReport": _kind("fit.robust_cells.learn"),
    "CellLaw": _kind("fit.robust_cells.law", floor="d?", bad_share="b", row_mass="b"),
    "Background": _kind("fit.robust_cells.law"),
    # outlier rows and groups of rows
    "RobustLearned": _kind("fit.robust_rows.learn", row_weights="n", columns="c:int"),
    "RobustReport": _kind("contracts"),
    "LikelihoodReport": _kind("fit.likelihood.learning"),
    "RowGroup": _kind("contracts"),
    "MixtureReport": _kind("contracts"),
    "Mixture": _kind("fit.robust_rows.mixture", shares="k"),
    "Setting": _kind("fit.robust_rows.components"),
    "GaussianComponent": _kind("fit.robust_rows.components", bias="d", scale="d", correlation="dd", loadings="~dk"),
    "IndependentComponent": _kind("fit.robust_rows.components"),
    "RepeatedRowComponent": _kind("fit.robust_rows.components", row="d", floor="d?"),
    "NoiseComponent": _kind("fit.robust_rows.components", log_unit="d", floor="d?"),
    "SharedColumns": _kind("fit.robust_rows.clustering", columns="c:int", bias="c", scale="c", floor="c?"),
    "FittedMixture": _kind("fit.robust_rows.clustering", columns="c:int"),
    "Density": _kind(
        "posterior.density", bias="d", scale="d", correlation="dd", floor="~d?", loadings="~dk"
    ),
    "ScoreTail": _kind("posterior.scores", scores="n"),
    "OutlierScores": _kind("fit.robust_rows.detection", columns="c:int"),
    "FloorOutlierDetector": _kind("estimators.outliers", row_weights_="~n", cell_weights_="~nd"),
    "RectifiedGaussianMixture": _kind("estimators.mixture"),
}  # fmt: skip

# Kinds of older files, and what they are now.
BEFORE = {"PreparedNormal": "Density", "RowScores": "Density", "ClusterComponent": "GaussianComponent"}
