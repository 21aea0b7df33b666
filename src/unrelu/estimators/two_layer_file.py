"""Files of two-layer models: a NumPy .npz without pickle, read back as the estimator that was saved."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from unrelu.distribution import RectifiedGaussian
from unrelu.errors import InvalidParameterError, ModelFileError
from unrelu.recovery.layers.decoding import LayerReport, OutputLayer
from unrelu.storage import ArchiveFormat, FilePath

if TYPE_CHECKING:
    from unrelu.estimators.two_layer import TwoLayerReLULearner

    L = TypeVar("L", bound=TwoLayerReLULearner)

FORMAT = ArchiveFormat("unrelu.TwoLayerReLULearner", 1)

# Shapes in columns d, units p and units found m.
_LAYER = {"weights": "dp", "bias": "d", "encoder": "md", "offset": "m", "noise": "m"}
_LAW = {"hidden_bias": "m", "hidden_covariance": "mm"}


def write(learner: TwoLayerReLULearner, path: FilePath) -> None:
    """Write what a fitted estimator holds."""
    names = getattr(learner, "feature_names_in_", None)
    facts = {
        "output_bias": bool(learner.output_bias),
        "feature_names": None if names is None else names.tolist(),
        "report": asdict(learner.report_),
    }
    law = learner.hidden_distribution_
    arrays = {name: getattr(learner._layer, name) for name in _LAYER}
    arrays |= {"hidden_bias": law.bias, "hidden_covariance": law.covariance, "outlier_rows": learner.outlier_rows_}
    FORMAT.write(path, facts, **arrays)


def read(kind: type[L], path: FilePath) -> L:
    """The estimator that a file holds."""
    header = FORMAT.header(path)
    try:
        report = LayerReport.of(header["report"])
        names, output_bias = header["feature_names"], bool(header["output_bias"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"its header lacks {error}") from error
    shapes = _LAYER | _LAW | {"outlier_rows": "n"}
    arrays = dict(zip(shapes, FORMAT.arrays(path, *shapes), strict=True))
    sizes = {"d": report.n_features, "p": report.n_hidden, "m": report.units_found, "n": report.n_rows}
    for name, shape in shapes.items():
        expected = tuple(sizes[axis] for axis in shape)
        if arrays[name].shape != expected:
            raise _damaged(path, f"{name} has shape {arrays[name].shape} instead of {expected}")
        if arrays[name].dtype.kind != ("b" if name == "outlier_rows" else "f"):
            raise _damaged(path, f"{name} holds {arrays[name].dtype.name} values")
        determined = report.complete or name not in ("weights", "bias")
        if determined and not np.isfinite(arrays[name]).all():
            raise _damaged(path, f"{name} holds values that are not finite")
    learner = kind(report.n_hidden, report.method, output_bias=output_bias)
    learner.n_features_in_ = report.n_features
    if names is not None:
        learner.feature_names_in_ = np.array(names, dtype=object)
    try:
        learner.hidden_distribution_ = RectifiedGaussian(arrays["hidden_bias"], arrays["hidden_covariance"])
    except InvalidParameterError as error:
        raise _damaged(path, str(error).rstrip(".")) from error
    learner._layer = OutputLayer(**{name: arrays[name] for name in _LAYER})
    learner.report_, learner.n_hidden_ = report, report.n_hidden
    learner.output_weights_, learner.output_bias_ = arrays["weights"], arrays["bias"]
    learner.outlier_rows_ = arrays["outlier_rows"]
    return learner


def _damaged(path: FilePath, why: str) -> ModelFileError:
    return ModelFileError(f"{os.fspath(path)} is damaged: {why}.")
