"""The header of a model's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unrelu import storage

if TYPE_CHECKING:
    from unrelu.storage import FilePath


def read_header(path: FilePath) -> dict[str, Any]:
    """The facts a model file states about itself: format, versions, features and ``details``.

    >>> import pathlib, tempfile
    >>> from unrelu import RectifiedGaussian
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.unrelu"
    >>> RectifiedGaussian([1.0], [[2.0]], feature_names=["As"]).save(path)
    >>> read_header(path)["feature_names"]
    ['As']
    """
    return storage.read_header(path, "RectifiedGaussian")
