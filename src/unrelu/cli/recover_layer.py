"""The layer that ``unrelu recover`` is given, whatever wrote its file, and its columns found in a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unrelu.cli.factor_table import Table, read_table
from unrelu.cli.options import floors
from unrelu.cli.outcome import counted
from unrelu.contracts import FloatArray
from unrelu.distribution import RectifiedGaussian
from unrelu.errors import InputFileError, InvalidParameterError, ModelFileError
from unrelu.estimators.latent import ReLULatentRecovery
from unrelu.estimators.matrix import ReLUMatrixRecovery
from unrelu.recovery import Gaussian, RobustLatent
from unrelu.samples import open_samples
from unrelu.storage import foreign_arrays, stated_format
from unrelu.validation import floor_per_column, listed

if TYPE_CHECKING:
    from unrelu.cli.progress import Meter

_ARRAYS = ("weights", "bias", "floor", "feature_names")
_EXPECTED = "Give what unrelu fit or unrelu factor wrote, or an npz file with arrays weights (d x k) and bias (d)."


@dataclass(frozen=True, eq=False)
class KnownLayer:
    """A, b and the floor (0 where the file does not tell it), and the columns' names where they have any."""

    path: Path
    weights: FloatArray
    bias: FloatArray
    floor: FloatArray
    names: tuple[str, ...] | None
    fitted: bool
    own_floor: bool = True

    def part(self, keep: list[str], drop: list[str]) -> KnownLayer:
        """The columns that are wanted, in their order."""
        names = self.names or ()
        for unknown in [name for name in [*keep, *drop] if name not in names]:
            raise InvalidParameterError(f"{self.path} has no column {unknown!r}: it speaks of {listed(names, most=8)}.")
        wanted = [name for name in dict.fromkeys(keep or names) if name not in drop]
        if not wanted:
            raise InvalidParameterError(f"No column of {self.path} is left: drop fewer columns.")
        at = [names.index(name) for name in wanted]
        part = replace(self, weights=self.weights[at], bias=self.bias[at], floor=self.floor[at])
        return replace(part, names=tuple(wanted))

    def with_floor(self, texts: list[str] | None) -> KnownLayer:
        """With the floors of --floor, if there are any."""
        return replace(self, floor=np.array(floors(texts, len(self.bias), self.names))) if texts else self


def loaded_layer(path: Path, rank: int | None, floor: list[str] | None) -> KnownLayer:
    """The layer in a file, whatever wrote it."""
    kind = stated_format(path)
    if kind == "unrelu.MatrixState":
        raise ModelFileError(f"{path} is the state of a run of unrelu factor: let it end, and give its factors.")
    layer = _of_arrays(path) if kind is None else _of_model(path, kind, rank)
    if rank is not None and kind != "unrelu.RectifiedGaussian":
        raise InvalidParameterError(f"--rank is for a model that unrelu fit wrote, and {path} is none: leave it out.")
    if layer.own_floor and floor is not None:
        raise InvalidParameterError(f"{path} has its own floor: leave --floor out.")
    return layer


def _of_model(path: Path, kind: str, rank: int | None) -> KnownLayer:
    if kind == "unrelu.ReLUMatrixRecovery":
        factors = ReLUMatrixRecovery.load(path)
        recovery = ReLULatentRecovery.from_model(factors)
        names = getattr(factors, "feature_names_in_", None)
    else:
        law = RectifiedGaussian.load(path)
        if rank is not None and rank > law.n_features:
            raise InvalidParameterError(f"--rank must be at most {law.n_features}, the columns of {path}; got {rank}.")
        recovery, names = ReLULatentRecovery.from_model(law, rank=rank), law.feature_names
    weights, bias, floor = (np.asarray(a) for a in (recovery.weights, recovery.bias, recovery.floor))
    return KnownLayer(path, weights, bias, floor, None if names is None else tuple(map(str, names)), fitted=True)


def _of_arrays(path: Path) -> KnownLayer:
    """An npz file of somebody's own."""
    try:
        arrays = foreign_arrays(path, _ARRAYS, "file of weights")
    except ModelFileError as error:
        raise ModelFileError(f"{error} {_EXPECTED}") from error
    for name in [name for name in _ARRAYS[:2] if name not in arrays]:
        raise ModelFileError(f"{path} holds no array {name!r}. {_EXPECTED}")
    for name in [name for name in arrays if name != "feature_names" and arrays[name].dtype.kind not in "fiub"]:
        raise ModelFileError(f"{path}: {name} holds values of type {arrays[name].dtype}, not numbers.")
    weights, bias = arrays["weights"].astype(float), arrays["bias"].astype(float)
    try:
        ReLULatentRecovery(weights, bias, RobustLatent(Gaussian())).fit()  # shapes, and only finite numbers
        floor = floor_per_column(arrays.get("floor", 0.0), len(bias))
    except InvalidParameterError as error:
        raise ModelFileError(f"{path}: {error}") from error
    names = tuple(arrays["feature_names"].ravel().tolist()) if "feature_names" in arrays else None
    if names is not None and (len({*names}) != len(bias) or not all(isinstance(name, str) for name in names)):
        raise ModelFileError(f"{path}: feature_names is not one text for each row of weights, all of them different.")
    return KnownLayer(path, weights, bias, floor, names, fitted=False, own_floor="floor" in arrays)


def matched(
    layer: KnownLayer, paths: list[str], keep: list[str], drop: list[str], shown: Meter
) -> tuple[KnownLayer, Table]:
    """The table, and the layer of its columns: found by name where both have names, by position elsewhere."""
    shown.stage("Reading rows")
    if layer.names is not None and _has_names(paths):
        layer = layer.part(keep, drop)
        names = layer.names or ()
        try:
            return layer, read_table(paths, list(names), [], shown)
        except InputFileError as error:
            raise InputFileError(f"{error} {layer.path} speaks of {listed(names, most=8)}.") from error
    table, d = read_table(paths, keep, drop, shown), len(layer.bias)
    if table.shape[1] != d:
        raise InvalidParameterError(
            f"{layer.path} has {counted(d, 'output')}, the table {counted(table.shape[1], 'column')}: choose the same"
            " ones, in the same order, with --columns or --drop."
        )
    return replace(layer, names=layer.names or table.names), table


def _has_names(paths: list[str]) -> bool:
    """Whether the tables' columns have names; True also where that cannot be asked twice, as of standard input."""
    try:
        return "-" in paths or open_samples(paths, columns=[0]).feature_names is not None
    except InputFileError:
        return True  # its first column cannot be read: whoever reads it will say why
