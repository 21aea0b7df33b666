"""Files of models: arrays and a header that other programs can read, without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu import storage
from unrelu.errors import InvalidDataError, InvalidParameterError
from unrelu.model import RectifiedGaussian

if TYPE_CHECKING:
    from unrelu.storage import ArchiveFormat, FilePath


def write_model(path: FilePath, model: RectifiedGaussian, details: Mapping[str, Any] | None = None) -> None:
    """What :meth:`unrelu.RectifiedGaussian.save` does: the oldest version of the format that can hold the model."""
    facts: dict[str, Any] = {
        "n_features": model.n_features,
        "feature_names": model.feature_names,
        "details": dict(details or {}),
    }
    arrays = {"bias": model.bias, "covariance": model.covariance, "floor": model.floor}
    if model.scoring_covariance is not None:
        facts["is_scored_apart"], arrays["scoring_covariance"] = True, model.scoring_covariance
    version = 1
    if model.shapes is not None:
        facts["shapes"], version = storage.packed(model.shapes, "shapes", arrays), 3
    elif not (np.isfinite(model.floor).all() and np.isinf(model.ceiling).all()):
        version = 2
    if version > 1:
        arrays["ceiling"] = model.ceiling
    _format(version).write(path, facts, **arrays)


def read_model(path: FilePath) -> RectifiedGaussian:
    """Read what :func:`write_model` wrote, in whatever version."""
    header = read_header(path)
    names = ["bias", "covariance", "floor", *(["scoring_covariance"] if header.get("is_scored_apart") else [])]
    bias, covariance, floor, *scoring = _format().arrays(path, *names)
    d = header.get("n_features")
    ceiling = _format().arrays(path, "ceiling")[0] if header["format_version"] > 1 else np.full(d or 0, np.inf)
    if (bias.shape, covariance.shape, floor.shape, ceiling.shape) != ((d,), (d, d), (d,), (d,)):
        raise storage.damaged(path, f"its arrays do not fit its {d} features")
    stated = header.get("shapes")
    try:
        with np.errstate(all="ignore"):  # a hostile number is refused, not warned of
            shapes = None if stated is None else storage.unpacked(stated, _format().every_array(path))
            given = (bias, covariance, floor, header.get("feature_names"), ceiling, *(scoring or [None]), shapes)
            return RectifiedGaussian(*given)
    except (InvalidParameterError, InvalidDataError, LookupError, TypeError, ValueError) as error:
        raise storage.damaged(path, error) from error


def read_header(path: FilePath) -> dict[str, Any]:
    """The facts a model file states about itself: format, versions, features and ``details``.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.unrelu"
    >>> RectifiedGaussian([1.0], [[2.0]], feature_names=["As"]).save(path)
    >>> read_header(path)["feature_names"]
    ['As']
    """
    return _format().header(path)


def _format(version: int = 3) -> ArchiveFormat:
    return storage.ArchiveFormat("unrelu.RectifiedGaussian", version)
