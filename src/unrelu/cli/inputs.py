"""What commands are given: whole tables, models, and a model's columns found in a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unrelu.errors import InvalidParameterError, ModelFileError
from unrelu.validation import listed, suggestion

if TYPE_CHECKING:
    from unrelu.distribution import RectifiedGaussian


def law_in(path: Path) -> RectifiedGaussian:
    """The law in a file: a model's own, or the one that a saved learner or detector has learned."""
    from unrelu import storage
    from unrelu.distribution import RectifiedGaussian

    content = storage.load(path)
    law = content if isinstance(content, RectifiedGaussian) else getattr(content, "distribution_", None)
    if not isinstance(law, RectifiedGaussian):
        raise ModelFileError(
            f"{os.fspath(path)} holds a {type(content).__name__}, which has no law of single rows: give a model file,"
            " such as unrelu fit writes."
        )
    return law


def wanted_columns(path: Path, names: Sequence[str], keep: list[str], drop: list[str]) -> list[str]:
    """The columns that are wanted of those that a file speaks of, in their order."""
    for unknown in [name for name in [*keep, *drop] if name not in names]:
        raise InvalidParameterError(
            f"{path} has no column {unknown!r}: it speaks of {listed(names, most=8)}."
            f" {suggestion(unknown, names, '').split('?')[0] + '?' if '?' in suggestion(unknown, names, '') else ''}"
        )
    wanted = [name for name in dict.fromkeys(keep or names) if name not in drop]
    if not wanted:
        raise InvalidParameterError(f"No column of {path} is left: drop fewer columns.")
    return wanted
