"""Files of recovered factors: a NumPy .npz without pickle, read back as the estimator that was saved."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unrelu.errors import ModelFileError
from unrelu.recovery.matrix.contracts import MatrixReport
from unrelu.recovery.matrix.factors import GAUGES, Factors
from unrelu.recovery.matrix.filling import Filling
from unrelu.storage import ArchiveFormat, FilePath

if TYPE_CHECKING:
    from unrelu.estimators.matrix import ReLUMatrixRecovery

    R = TypeVar("R", bound=ReLUMatrixRecovery)

FORMAT = ArchiveFormat("unrelu.ReLUMatrixRecovery", 1)

# Attributes of the estimator, without their trailing underscore, and their shapes in rows n, columns d and rank k.
_ARRAYS = {
    "components": "kd",
    "bias": "d",
    "latent": "nk",
    "column_identifiable": "d",
    "row_identifiable": "n",
    "column_condition": "d",
    "row_condition": "n",
}
_NOISE_ARRAYS = {"components_stderr": "kd", "bias_stderr": "d", "latent_stderr": "nk"}
_INTERNAL = {"floor": "d", "row_ridge": "k", "column_ridge": "", "latent_mean": "k"}
_MAY_BE_INFINITE = {"column_condition", "row_condition", *_NOISE_ARRAYS}


def write(recovery: ReLUMatrixRecovery, path: FilePath) -> None:
    """Write what a fitted estimator holds."""
    filling = recovery._filling
    facts = {
        "gauge": recovery.gauge,
        "floor_tolerance": float(recovery.floor_tolerance),
        "feature_names": recovery._names(),
        "exact": filling.exact,
        "unit": filling.unit,
        "report": asdict(recovery.report_),
    }
    names = [*_ARRAYS, *(_NOISE_ARRAYS if recovery.report_.noise is not None else ())]
    arrays: dict[str, Any] = {name: getattr(recovery, f"{name}_") for name in names}
    arrays["floor"] = np.array(recovery._assumptions().floor)
    arrays |= {"row_ridge": filling.row_ridge, "column_ridge": filling.column_ridge}
    FORMAT.write(path, facts, latent_mean=recovery._latent_mean, **arrays)


def read(kind: type[R], path: FilePath) -> R:
    """The estimator that a file holds."""
    header = FORMAT.header(path)
    try:
        report = MatrixReport.of(header["report"])
        unit, exact, gauge = float(header["unit"]), bool(header["exact"]), header["gauge"]
        names, tolerance = header["feature_names"], float(header["floor_tolerance"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"its header lacks {error}") from error
    _check_facts(path, report, unit, tolerance, names)
    shapes = _ARRAYS | _INTERNAL | ({} if report.noise is None else _NOISE_ARRAYS)
    arrays = dict(zip(shapes, FORMAT.arrays(path, *shapes), strict=True))
    _check(path, arrays, shapes, report)
    if gauge not in GAUGES:
        raise _damaged(path, f"there is no gauge {gauge!r}")
    recovery = kind(report.rank, report.method, gauge, floor=arrays["floor"], floor_tolerance=tolerance)
    recovery.n_features_in_ = report.n_features
    if names is not None:
        recovery.feature_names_in_ = np.array(names, dtype=object)
    for name in shapes:
        if name not in _INTERNAL:
            setattr(recovery, f"{name}_", arrays[name])
    if report.noise is not None:
        recovery.noise_ = report.noise
    noise = None if report.noise is None else report.noise / unit
    recovery._filling = Filling(noise, arrays["row_ridge"], arrays["column_ridge"], exact, unit)
    recovery._latent_mean = arrays["latent_mean"]
    bias = None if gauge == "zero" else arrays["bias"] - arrays["floor"]
    recovery._factors = Factors(arrays["latent"], np.ascontiguousarray(arrays["components"].T), bias)
    recovery.report_, recovery.rank_, recovery.n_iter_ = report, report.rank, report.iterations
    return recovery


def _check_facts(path: FilePath, report: MatrixReport, unit: float, tolerance: float, names: Any) -> None:
    counts = (report.n_rows, report.n_features, report.rank)
    if not all(type(count) is int and count >= 1 for count in counts):
        raise _damaged(path, "its numbers of rows, columns and components are no counts")
    if not (0.0 < unit < np.inf and 0.0 <= tolerance < np.inf):
        raise _damaged(path, "its unit or floor tolerance is out of range")
    if report.noise is not None and not (isinstance(report.noise, float) and 0.0 < report.noise < np.inf):
        raise _damaged(path, "its noise is out of range")
    if names is not None and not (
        isinstance(names, list) and len(names) == report.n_features and all(isinstance(name, str) for name in names)
    ):
        raise _damaged(path, f"it does not name its {report.n_features} columns")


def _check(path: FilePath, arrays: dict[str, Any], shapes: dict[str, str], report: MatrixReport) -> None:
    sizes = {"n": report.n_rows, "d": report.n_features, "k": report.rank}
    width = report.rank + int(report.gauge != "zero")
    for name, shape in shapes.items():
        expected = tuple(sizes[axis] for axis in shape) if shape else (width,)
        values = arrays[name]
        if values.shape != expected:
            raise _damaged(path, f"{name} has shape {values.shape} instead of {expected}")
        if values.dtype.kind != ("b" if name.endswith("identifiable") else "f"):
            raise _damaged(path, f"{name} holds {values.dtype.name} values")
        if np.isnan(values).any() or (name not in _MAY_BE_INFINITE and np.isinf(values).any()):
            raise _damaged(path, f"{name} holds values that are not numbers")


def _damaged(path: FilePath, why: str) -> ModelFileError:
    return ModelFileError(f"{os.fspath(path)} is damaged: {why}.")
