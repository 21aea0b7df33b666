"""Files of peeled layers: a NumPy .npz without pickle. Units of rows are not in it: see :meth:`Peeled.save`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unrelu.distribution import RectifiedGaussian
from unrelu.errors import InvalidDataError, InvalidParameterError, ModelFileError
from unrelu.recovery.layers.decoding import LayerReport
from unrelu.recovery.matrix.contracts import MatrixReport
from unrelu.storage import ArchiveFormat, FilePath

if TYPE_CHECKING:
    from unrelu.estimators.peeling import Peeled

    P = TypeVar("P", bound=Peeled)

FORMAT = ArchiveFormat("unrelu.Peeled", 1)

_LAW = ("hidden_bias", "hidden_covariance")


def write(peeled: Peeled, path: FilePath, details: Mapping[str, Any]) -> None:
    """Write layers, reports, the rows used and, where it was learned, the law of the innermost units."""
    if not peeled.layers:
        raise InvalidDataError("No layer was peeled: there is nothing to save.")
    law = peeled.hidden_distribution
    facts = {
        "layers": [
            {"report": asdict(each.report), "matrix_report": asdict(each.matrix_report)} for each in peeled.layers
        ],
        "learned": law is not None,
        "details": dict(details),
    }
    arrays: dict[str, Any] = {"rows": peeled.rows}
    for depth, layer in enumerate(peeled.layers, start=1):
        values = (layer.weights, layer.bias, layer.column_identifiable)
        arrays |= dict(zip(_names(depth), values, strict=True))
    if law is not None:
        arrays |= dict(zip(_LAW, (law.bias, law.covariance), strict=True))
    FORMAT.write(path, facts, **arrays)


def read(kind: type[P], path: FilePath) -> P:
    """What a file holds, without hidden units."""
    from unrelu.estimators.peeling import PeeledLayer

    header = FORMAT.header(path)
    try:
        reports = [
            (LayerReport.of(each["report"]), MatrixReport.of(each["matrix_report"])) for each in header["layers"]
        ]
        learned = bool(header["learned"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"its header lacks {error}") from error
    if not reports:
        raise _damaged(path, "it holds no layer")
    layers, outputs = [], reports[0][1].n_features
    for depth, (report, matrix_report) in enumerate(reports, start=1):
        d, p = matrix_report.n_features, report.n_hidden
        if d != outputs:
            raise _damaged(path, f"layer {depth} has {d} outputs, the layer above it {outputs} units")
        weights, bias, known = _checked(path, dict(zip(_names(depth), ((d, p), (d,), (d,)), strict=True)))
        for name, values in zip(_names(depth), (weights, bias), strict=False):
            if not np.isfinite(values[known]).all():
                raise _damaged(path, f"{name} holds values that are not finite")
        layers.append(PeeledLayer(weights, bias, known, report, matrix_report))
        outputs = p
    (rows,) = _checked(path, {"rows": (reports[0][0].n_rows,)})
    return kind(tuple(layers), np.empty((0, outputs)), rows, _law(path, outputs) if learned else None)


def _law(path: FilePath, p: int) -> RectifiedGaussian:
    bias, covariance = _checked(path, dict(zip(_LAW, ((p,), (p, p)), strict=True)))
    try:
        return RectifiedGaussian(bias, covariance)
    except InvalidParameterError as error:
        raise _damaged(path, str(error).rstrip(".")) from error


def _names(depth: int) -> tuple[str, str, str]:
    return f"weights_{depth}", f"bias_{depth}", f"identifiable_{depth}"


def _checked(path: FilePath, shapes: Mapping[str, tuple[int, ...]]) -> list[Any]:
    """Arrays of these names, if they have these shapes and the right type."""
    arrays = FORMAT.arrays(path, *shapes)
    for (name, shape), values in zip(shapes.items(), arrays, strict=True):
        if values.shape != shape:
            raise _damaged(path, f"{name} has shape {values.shape} instead of {shape}")
        if values.dtype.kind != ("b" if name.startswith(("rows", "identifiable")) else "f"):
            raise _damaged(path, f"{name} holds {values.dtype.name} values")
    return arrays


def _damaged(path: FilePath, why: str) -> ModelFileError:
    return ModelFileError(f"{os.fspath(path)} is damaged: {why}.")
