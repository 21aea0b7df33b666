"""What commands are given: tables, models, and the columns of a model found in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unrelu import samples, storage
from unrelu.cli.options import Fitting, TableOptions
from unrelu.cli.wording import ROW_LABEL
from unrelu.contracts import BoolArray, FloatArray, Samples, Watch
from unrelu.distribution import RectifiedGaussian
from unrelu.errors import InputFileError, InvalidParameterError, ModelFileError, WeakColumnsWarning
from unrelu.samples import SparseSamples
from unrelu.samples.files import FileSamples, column_names
from unrelu.validation import label_columns, listed, suggestion, warn

if TYPE_CHECKING:
    from unrelu.estimators import FloorImputer


def law_in(path: Path) -> RectifiedGaussian:
    """The law in a file: a model's own, or the one that a saved learner or detector has learned."""
    return _law_of(storage.load(path), path)


def _law_of(content: Any, path: Path) -> RectifiedGaussian:
    law = getattr(content, "distribution_", content)
    if not isinstance(law, RectifiedGaussian):
        raise ModelFileError(
            f"{path} holds a {type(content).__name__}, which is no model of single rows: give what unrelu fit wrote, or"
            " a saved learner or detector."
        )
    return law


@dataclass(frozen=True, eq=False)
class RowSource:
    """What rows are drawn from: ``draw`` so many with a generator, of columns that may have names.

    Columns that are not ``known`` are NaN in all rows.
    """

    draw: Callable[[int, np.random.Generator], FloatArray]
    n_features: int
    feature_names: tuple[str, ...] | None
    known: BoolArray | None = None

    @classmethod
    def of_law(cls, law: RectifiedGaussian, as_seen: bool = True) -> RowSource:
        """A model."""
        return cls(lambda count, rng: law.sample(count, rng, as_seen), law.n_features, law.feature_names)

    def warn_of_unknown(self) -> None:
        """Name the columns that no row has."""
        if self.known is not None and self.known.any() and not self.known.all():
            columns = label_columns(~self.known, self.feature_names)
            warn(f"The network's weights of {columns} are not determined: empty in all rows.", WeakColumnsWarning)


def source_in(path: Path, as_seen: bool) -> RowSource:
    """What can be sampled in a file: a model, what has learned one, or a network."""
    content = storage.load(path)
    kind = type(content).__name__  # by its name, so that a model is read without the modules of all others
    if kind == "Peeled":
        layer = content.layers[0]
        return RowSource(content.sample, len(layer.bias), content.feature_names, layer.column_identifiable)
    if kind == "TwoLayerReLULearner":
        names = getattr(content, "feature_names_in_", None)
        named = None if names is None else tuple(names.tolist())
        return RowSource(content.sample, content.n_features_in_, named, content.column_identifiable_)
    return RowSource.of_law(_law_of(content, path), as_seen)


def opened(
    paths: list[str], reading: TableOptions, floor: Sequence[str] | None = None, checkpoint: Path | None = None
) -> Samples:
    """The table; messages about its rows will tell their lines."""
    return _known(samples.open_samples(paths, **reading.chosen(floor), checkpoint=checkpoint))


def ids_of(table: Samples) -> dict[str, list[str]]:
    """The columns that are kept as text, by name."""
    return table.ids() if isinstance(table, FileSamples) else {}


def asked(
    paths: list[str], model: Path | None, reading: TableOptions, fitting: Fitting, watch: Watch
) -> tuple[FloorImputer, Samples]:
    """What answers questions about a table, and the table: a fit to it, or a model from a file."""
    if model is None:
        from unrelu.estimators import FloorImputer

        table = opened(paths, reading, fitting.floor)
        return FloorImputer(**fitting.parameters()).watched_by(watch).fit(table), table
    fitting.refuse_with(model)
    law = law_in(model)
    table, at = matched_table(model, law.feature_names, law.n_features, paths, reading)
    return knowing(law.marginal(at), table, fitting.floor_tolerance).watched_by(watch), table


def knowing(law: RectifiedGaussian, table: Samples, floor_tolerance: float = 0.0) -> FloorImputer:
    """What answers by a law; of a table whose cells state their own limits the law's limits are not those.

    Floors of 0 stay, of columns without such cells: they are no limits of detection.
    """
    from unrelu.estimators import FloorImputer

    if own := getattr(table, "limits_by_cell", ()):
        one = getattr(table, "limits", None)
        stated = {*own, *(column for column, _ in (() if one is None else (*one.floor, *one.ceiling)))}
        floor = [0.0 if level == 0.0 and j not in stated else -math.inf for j, level in enumerate(law.floor)]
        law = law.with_parts(floor=floor, ceiling=math.inf)
    return FloorImputer.from_model(law, floor_tolerance=floor_tolerance)


def matched_table(
    file: Path, names: Sequence[str] | None, n_columns: int, paths: list[str], reading: TableOptions
) -> tuple[Samples, list[int]]:
    """The table, and which of a file's columns are in it: by name where both have names, by position elsewhere."""
    if names is not None and _has_names(paths, reading):
        wanted = _wanted(file, names, reading.columns, reading.drop)
        try:
            table = samples.open_samples(paths, **reading.chosen(columns=wanted))
            return _known(table), [names.index(name) for name in wanted]
        except InputFileError as error:
            raise InputFileError(f"{error} {file} speaks of {listed(names, most=8)}.") from error
    table = samples.open_samples(paths, **reading.chosen())
    if table.n_features != n_columns:
        raise InvalidParameterError(
            f"{file} is of {n_columns:,} columns, the table has {table.n_features:,}: choose the same ones, in the same"
            " order, with columns= or drop=."
        )
    return _known(table), list(range(n_columns))


def _known(table: FileSamples | SparseSamples) -> Samples:
    if isinstance(table, FileSamples):
        ROW_LABEL.set(table.row_label)
    return table


def _wanted(file: Path, names: Sequence[str], keep: list[str], drop: list[str]) -> list[str]:
    for unknown in [name for name in [*keep, *drop] if name not in names]:
        raise InvalidParameterError(
            f"{file} has no column {unknown!r}. {suggestion(unknown, names, 'It speaks of', most=8)}"
        )
    wanted = [name for name in dict.fromkeys(keep or names) if name not in drop]
    if not wanted:
        raise InvalidParameterError(f"No column of {file} is left: drop fewer columns.")
    return wanted


def _has_names(paths: list[str], reading: TableOptions) -> bool:
    """Whether the tables' columns have names; True also where that cannot be asked twice, as of standard input."""
    try:
        return "-" in paths or column_names(paths, reading.header) is not None
    except InputFileError:
        return True  # it cannot be read: whoever reads it will say why


def names_in(paths: list[str], reading: TableOptions) -> tuple[str, ...] | None:
    """What the tables' columns are called; None where they have no names, or cannot be asked twice."""
    try:
        return None if "-" in paths else column_names(paths, reading.header)
    except InputFileError:
        return None
