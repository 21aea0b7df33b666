"""What commands are given besides a table: models, and the columns of a model found in a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unrelu import samples, storage
from unrelu.contracts import Samples
from unrelu.distribution import RectifiedGaussian
from unrelu.errors import InputFileError, InvalidParameterError, ModelFileError
from unrelu.validation import listed, suggestion


def law_in(path: Path) -> RectifiedGaussian:
    """The law in a file: a model's own, or the one that a saved learner or detector has learned."""
    content = storage.load(path)
    law = getattr(content, "distribution_", content)
    if not isinstance(law, RectifiedGaussian):
        raise ModelFileError(
            f"{path} holds a {type(content).__name__}, which is no model of single rows: give what unrelu fit wrote, or"
            " a saved learner or detector."
        )
    return law


def matched_table(
    file: Path, names: Sequence[str] | None, n_columns: int, paths: list[str], keep: list[str], drop: list[str]
) -> tuple[Samples, list[int]]:
    """The table, and which of a file's columns are in it: by name where both have names, by position elsewhere."""
    if names is not None and _has_names(paths):
        wanted = _wanted(file, names, keep, drop)
        try:
            return samples.open_samples(paths, columns=wanted), [names.index(name) for name in wanted]
        except InputFileError as error:
            raise InputFileError(f"{error} {file} speaks of {listed(names, most=8)}.") from error
    table = samples.open_samples(paths, columns=keep, drop=drop)
    if table.n_features != n_columns:
        raise InvalidParameterError(
            f"{file} is of {n_columns:,} columns, the table has {table.n_features:,}: choose the same ones, in the same"
            " order, with columns= or drop=."
        )
    return table, list(range(n_columns))


def _wanted(file: Path, names: Sequence[str], keep: list[str], drop: list[str]) -> list[str]:
    for unknown in [name for name in [*keep, *drop] if name not in names]:
        raise InvalidParameterError(
            f"{file} has no column {unknown!r}. {suggestion(unknown, names, 'It speaks of', most=8)}"
        )
    wanted = [name for name in dict.fromkeys(keep or names) if name not in drop]
    if not wanted:
        raise InvalidParameterError(f"No column of {file} is left: drop fewer columns.")
    return wanted


def _has_names(paths: list[str]) -> bool:
    """Whether the tables' columns have names; True also where that cannot be asked twice, as of standard input."""
    try:
        return "-" in paths or samples.open_samples(paths, columns=[0]).feature_names is not None
    except InputFileError:
        return True  # its first column cannot be read: whoever reads it will say why
