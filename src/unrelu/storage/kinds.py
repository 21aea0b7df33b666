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
    """Where a class lives, the shapes of its arrays, and what messages call a file of it."""

    module: str
    called: str = "model file"
    arrays: Mapping[str, str] = field(default_factory=dict)


def _kind(module: str, called: str = "model file", **arrays: str) -> Kind:
    return Kind(f"unrelu.{module}", called, arrays)


KINDS = {
    # models and what a user assumes
    "RectifiedGaussian": _kind("distribution", bias="d", covariance="dd", floor="d"),
    "Assumptions": _kind("contracts"),
    # records of the rows
    "PairMoments": _kind(
        "statistics.pair_moments", "record",
        floor="d", origin="d", count="dd", cross="dd", masked_sum="dd", masked_square="dd",
    ),
    "ObservedMoments": _kind(
        "statistics.pair_moments", count="dd", squared_weight="dd", above="dd", total="dd", square="dd"
    ),
    "Screening": _kind(
        "statistics.screening",
        below_count="d:int", below_first_row="d:int", below_smallest="d?", large_count="d:int", large_first_row="d:int",
    ),
    # what learning gives
    "Learned": _kind("learning"),
    "RowParameters": _kind(
        "contracts", bias="d", scale="d", floor="d", bias_scale_covariance="dpp?", influence="dpq?"
    ),
    "PairCorrelations": _kind("contracts", correlation="dd?", stderr="dd?"),
    "Assembly": _kind("contracts"),
    "LearningReport": _kind("contracts"),
    "RectifiedGaussianLearner": _kind("estimators.learner", "learner's file"),
    # methods with parameters of their own
    "OnePass": _kind("methods"),
    "Robust": _kind("methods"),
    "TruncatedSGD": _kind("methods"),
    "FilteredGradient": _kind("methods"),
    "MedianBias": _kind("methods"),
    # outlier rows and groups of rows
    "RobustLearned": _kind("robust.learning", row_weights="n", columns="c:int"),
    "RobustReport": _kind("contracts"),
    "RowGroup": _kind("contracts"),
    "MixtureReport": _kind("contracts"),
    "Mixture": _kind("robust.mixture", shares="k"),
    "Setting": _kind("robust.components"),
    "GaussianComponent": _kind("robust.components", bias="d", scale="d", correlation="dd"),
    "ClusterComponent": _kind("robust.clusters", bias="d", scale="d", correlation="dd"),
    "IndependentComponent": _kind("robust.components"),
    "RepeatedRowComponent": _kind("robust.components", row="d", floor="d"),
    "NoiseComponent": _kind("robust.components", log_unit="d", floor="d"),
    "SharedColumns": _kind("robust.clusters", columns="c:int", bias="c", scale="c", floor="c"),
    "FittedMixture": _kind("robust.clusters", columns="c:int"),
    "RowScores": _kind("posterior.row_scores", bias="d", scale="d", correlation="dd", floor="d"),
    "ScoreTail": _kind("posterior.calibration", scores="n"),
    "OutlierScores": _kind("robust.detection", columns="c:int"),
    "FloorOutlierDetector": _kind("estimators.outliers", "detector's file", _row_weights="~n"),
    "RectifiedGaussianMixture": _kind("estimators.mixture", "mixture's file"),
}  # fmt: skip
