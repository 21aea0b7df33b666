"""``python -m tests.golden.make``: a file of every kind, and what loading it must give, in the folder of the format.

Run by hand when the format changes; what was there is replaced.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import unrelu
from unrelu.errors import UnreluWarning
from unrelu.margins import BoxCox, Log, Monotone, Seen
from unrelu.recovery.matrix.factors import Factors
from unrelu.recovery.matrix.state import MatrixState
from unrelu.storage.format import VERSION

FOLDER = Path(__file__).parent / f"version{VERSION}"
NAMES = ["As", "Pb", "Cd"]
FREE = Monotone(np.array([0.0, 1.0, 4.0]), np.array([-0.4, 0.3, 2.0]), Seen(0.0, 4.0, 1.0))


def saved() -> dict[str, Any]:
    """Something of every kind that ``unrelu.load`` reads, by the name of its file."""
    rng = np.random.default_rng(0)
    truth = unrelu.RectifiedGaussian(
        [0.5, 1.0, 0.2],
        [[1.0, 0.5, 0.2], [0.5, 1.0, 0.1], [0.2, 0.1, 1.0]],
        floor=[0.0, 0.25, 0.0],
        feature_names=NAMES,
    )
    X = truth.sample(120, random_state=1)
    X[3, 1] = np.nan
    low_rank = np.maximum(rng.standard_normal((40, 2)) @ rng.standard_normal((2, 6)) + 0.3, 0.0)
    units = np.maximum(rng.standard_normal((300, 2)), 0.0)
    weights = rng.standard_normal((2, 12))
    widened = _widened(np.random.default_rng(3))
    plain = {"method": "one_pass", "floor": truth.floor, "margins": "normal"}  # what the stored files were made with
    learner = unrelu.RectifiedGaussianLearner(**plain).fit(X)
    bent, days = np.exp(np.minimum(X, 1.5)), np.arange(len(X)) // 30
    return {
        "model": truth,
        "learner": learner,
        "record": learner.record_,
        "grouped_record": unrelu.RectifiedGaussianLearner(**plain, stderr="jackknife").fit(X).record_,
        "shaped_model": truth.with_margins(
            [Log(), BoxCox(0.5, 0.0, 2.0), FREE], [0.5, -np.inf, 0.0], [np.inf, 3.0, np.inf]
        ),
        "shaped_learner": unrelu.RectifiedGaussianLearner(
            "one_pass",
            floor=[1.0, None, None],
            ceiling=[None, np.exp(1.5), np.exp(1.5)],
            margins=["log", "boxcox", "monotone"],
            stderr="jackknife",
        ).fit(bent, groups=days),
        "robust": unrelu.RectifiedGaussianLearner("robust", floor=truth.floor, margins="normal").fit(X),
        "method": unrelu.RectifiedGaussianLearner(unrelu.methods.MedianBias(allow_partial=True)).fit(X[10:]),
        "likelihood": unrelu.RectifiedGaussianLearner(**{**plain, "method": "full_likelihood"}, n_components=1).fit(X),
        "imputer": unrelu.FloorImputer(**plain, strategy="median").fit(X),
        "network": unrelu.RectifiedGaussianGraph("ebic", floor=truth.floor, margins="normal").fit(X),
        "detector": unrelu.FloorOutlierDetector(floor=truth.floor, margins="normal").fit(X),
        "mixture": unrelu.RectifiedGaussianMixture(2, floor=truth.floor, margins="normal").fit(X),
        "factors": unrelu.ReLUMatrixRecovery(2).fit(low_rank),
        "noisy_factors": unrelu.ReLUMatrixRecovery(2, "tobit_em").fit(low_rank),
        "state": MatrixState(
            Factors(np.ones((3, 1)), np.ones((2, 1)), None), 7, 0.5, {"shape": [3, 2], "gauge": "zero", "cells": "a"}
        ),
        "latent": unrelu.ReLULatentRecovery(weights.T, np.full(12, 0.3)).fit(),
        "two_layers": unrelu.TwoLayerReLULearner(2).fit(units @ weights[:, :4]),
        "rectified_two_layers": unrelu.TwoLayerReLULearner(2, floor=0.0).fit(np.maximum(units @ weights + 0.3, 0.0)),
        "peeled": unrelu.peel(np.maximum(units @ weights + 0.3, 0.0), widths=[2]),
        "generator": unrelu.peel(np.maximum(widened + 0.2, 0.0), widths=[6], n_inputs=2),
        "linear_generator": unrelu.TwoLayerReLULearner(6, n_inputs="auto", max_seconds=600.0).fit(widened),
    }


def _widened(rng: np.random.Generator) -> np.ndarray:
    """Outputs of a network from 2 inputs over 6 units."""
    z, A1, A2 = (rng.standard_normal(margin) for margin in ((1500, 2), (6, 2), (24, 6)))
    return np.maximum(z @ A1.T + 0.3, 0.0) @ A2.T


def fingerprint(loaded: Any) -> dict[str, Any]:
    """What a loaded object says of itself and of fixed rows: enough to notice that it is another one."""
    table = np.array([[0.0, 0.25, 1.0], [0.7, 2.0, 0.0]])
    asked = {
        "RectifiedGaussian": lambda it: [
            *(it.mean, it.covariance, it.floor),
            *([] if it.margins is None else [it.ceiling, it.sample(2, 0)]),
        ],
        "RectifiedGaussianLearner": lambda it: [
            it.mean_,
            it.correlation_,
            it.correlation_stderr_,
            it.score_samples(table if it.margins_ is None else np.exp(0.5 * table)),
        ],
        "FloorImputer": lambda it: [it.mean_, it.transform(table), it.draw(table, 2, parameters="fitted")],
        "RectifiedGaussianGraph": lambda it: [
            *(it.mean_, it.precision_, it.adjacency_, it.stability_, it.path_.penalty),
            [list(edge) for edge in it.edges_],
        ],
        "PairMoments": lambda it: [it.count, it.cross, it.origin],
        "GroupedMoments": lambda it: [it.whole.count, list(it.labels), it.parts[0].cross],
        "FloorOutlierDetector": lambda it: [it.offset_, it.score_samples(table), it.p_values(table)],
        "RectifiedGaussianMixture": lambda it: [it.weights_, it.means_, it.score_samples(table)],
        "ReLUMatrixRecovery": lambda it: [it.bias_, it.hidden()[:2], it.transform(it.hidden()[:2].clip(0.0))],
        "MatrixState": lambda it: [it.iterations, it.residual, it.factors.latent],
        "ReLULatentRecovery": lambda it: [it.transform(it.inverse_transform([[0.5, 0.2]]))],
        "TwoLayerReLULearner": lambda it: [it.output_weights_, it.transform(it.inverse_transform([[0.5, 0.2]]))],
        "Peeled": lambda it: [
            *(it.layers[0].weights, it.layers[0].bias, it.hidden_distribution.mean),
            *([] if it.inner is None else [it.inner.weights, it.inner.choice, it.sample(2, 0)]),
        ],
    }[type(loaded).__name__]
    return {"kind": type(loaded).__name__, "values": [np.asarray(value).tolist() for value in asked(loaded)]}


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreluWarning)
        made = saved()
    expected = {}
    for name, value in made.items():
        if not hasattr(value, "save"):
            unrelu.storage.write(folder / f"{name}.npz", value)
        else:
            value.save(folder / f"{name}.npz")
        expected[name] = fingerprint(value)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(FOLDER)
