"""The layer that ``unrelu recover`` is given, whatever wrote its file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unrelu import storage
from unrelu.cli.options import limits
from unrelu.contracts import FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.errors import InvalidParameterError, ModelFileError
from unrelu.estimators import ReLULatentRecovery, ReLUMatrixRecovery
from unrelu.limits import floor_per_column
from unrelu.recovery import GaussianPrior, RobustLatent
from unrelu.recovery.matrix.state import MatrixState

_ARRAYS = ("weights", "bias", "floor", "feature_names")
_EXPECTED = "Give what unrelu fit or unrelu factor wrote, or an npz file with arrays weights (d x k) and bias (d)."


@dataclass(frozen=True, eq=False)
class KnownLayer:
    """A, b and the floor (0 where the file does not tell it), and the columns' names where they have any.

    ``fitted``: it was learned by unrelu, so that its latent numbers are standard normal.
    """

    path: Path
    weights: FloatArray
    bias: FloatArray
    floor: FloatArray
    names: tuple[str, ...] | None
    fitted: bool
    own_floor: bool = True

    def part(self, at: list[int]) -> KnownLayer:
        """The columns at these positions."""
        names = None if self.names is None else tuple(self.names[j] for j in at)
        return replace(self, weights=self.weights[at], bias=self.bias[at], floor=self.floor[at], names=names)

    def with_floor(self, texts: list[str] | None) -> KnownLayer:
        """With the floors of --floor, if there are any."""
        return (
            replace(self, floor=floor_per_column(limits("--floor", texts), len(self.bias), self.names))
            if texts
            else self
        )


def loaded_layer(path: Path, n_components: int | None, floor: list[str] | None) -> KnownLayer:
    """The layer in a file, whatever wrote it."""
    content = None if storage.stated_format(path) is None else storage.load(path)
    layer = _of_arrays(path) if content is None else _of_model(path, content, n_components)
    if n_components is not None and (content is None or isinstance(content, ReLUMatrixRecovery | ReLULatentRecovery)):
        raise InvalidParameterError(
            f"--components is for a model that unrelu fit wrote, and {path} is none: leave it out."
        )
    if layer.own_floor and floor is not None:
        raise InvalidParameterError(f"{path} has its own floor: leave --floor out.")
    return layer


def _of_model(path: Path, content: Any, n_components: int | None) -> KnownLayer:
    if isinstance(content, MatrixState):
        raise ModelFileError(f"{path} is the state of a run of unrelu factor: let it end, and give its factors.")
    law = getattr(content, "distribution_", content)
    width = getattr(law, "n_features", None)
    if n_components is not None and width is not None and n_components > width:
        raise InvalidParameterError(f"--components must be at most {width}, the columns of {path}; got {n_components}.")
    names = getattr(content, "feature_names_in_", getattr(law, "feature_names", None))
    own = isinstance(content, ReLULatentRecovery)
    shaped = law.shapes if isinstance(law, RectifiedGaussian) else getattr(content, "shapes_", None)
    if shaped is not None:
        raise ModelFileError(f"The columns of {path} have shapes, and a layer has none: fit a model without --shape.")
    try:
        recovery = content if own else ReLULatentRecovery.from_model(content, n_components=n_components)
    except InvalidParameterError as error:
        raise ModelFileError(f"{path} holds a {type(content).__name__}, which is no layer. {_EXPECTED}") from error
    learned = getattr(recovery, "weights_", None) is not None
    layer = (recovery.weights_, recovery.bias_) if learned else (recovery.weights, recovery.bias)
    weights, bias = map(np.asarray, layer)
    floor = floor_per_column(recovery.floor, len(bias))
    return KnownLayer(path, weights, bias, floor, None if names is None else tuple(map(str, names)), fitted=not own)


def _of_arrays(path: Path) -> KnownLayer:
    """An npz file of somebody's own."""
    try:
        arrays = storage.foreign_arrays(path, _ARRAYS, "file of weights")
    except ModelFileError as error:
        raise ModelFileError(f"{error} {_EXPECTED}") from error
    for name in [name for name in _ARRAYS[:2] if name not in arrays]:
        raise ModelFileError(f"{path} holds no array {name!r}. {_EXPECTED}")
    for name in [name for name in arrays if name != "feature_names" and arrays[name].dtype.kind not in "fiub"]:
        raise ModelFileError(f"{path}: {name} holds values of type {arrays[name].dtype}, not numbers.")
    weights, bias = arrays["weights"].astype(float), arrays["bias"].astype(float)
    try:
        ReLULatentRecovery(weights, bias, RobustLatent(GaussianPrior())).fit()  # shapes, and only finite numbers
        floor = floor_per_column(arrays.get("floor", 0.0), len(bias))
    except InvalidParameterError as error:
        raise ModelFileError(f"{path}: {error}") from error
    names = tuple(arrays["feature_names"].ravel().tolist()) if "feature_names" in arrays else None
    if names is not None and (len({*names}) != len(bias) or not all(isinstance(name, str) for name in names)):
        raise ModelFileError(f"{path}: feature_names is not one text for each row of weights, all of them different.")
    return KnownLayer(path, weights, bias, floor, names, fitted=False, own_floor="floor" in arrays)
