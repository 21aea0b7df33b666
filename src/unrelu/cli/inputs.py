"""The inputs of commands: tables, models, layers, and the columns of a file found in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from unrelu import storage
from unrelu.cli.frame import Job
from unrelu.cli.options import FitOptions
from unrelu.contracts import FloatArray, Progress, Samples, Step
from unrelu.errors import InputFileError, InvalidParameterError, ModelFileError
from unrelu.limits import floor_per_column
from unrelu.model import RectifiedGaussian
from unrelu.tables.files import column_names
from unrelu.validation import label_columns, listed, suggestion, warn

if TYPE_CHECKING:
    from unrelu.estimators import FloorImputer

Names: TypeAlias = tuple[str, ...] | None
Layer: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, Names, bool]

_ARRAYS = ("weights", "bias", "floor", "feature_names")
_EXPECTED = "Give what unrelu fit or unrelu factor wrote, or an npz file with arrays weights (d x k) and bias (d)."


def distribution_in(path: Path, content: Any = None) -> RectifiedGaussian:
    """The distribution in a file: a model, or what a saved learner or detector has learned."""
    content = storage.load(path) if content is None else content
    distribution = getattr(content, "distribution_", content)
    if not isinstance(distribution, RectifiedGaussian):
        raise ModelFileError(
            f"{path} holds a {type(content).__name__}, which is no model of single rows: give what unrelu fit wrote, or"
            " a saved learner or detector."
        )
    return distribution


def source_in(path: Path, as_seen: bool) -> tuple[Callable[[int, np.random.Generator], FloatArray], int, Names]:
    """A function that draws rows from the content of a file, the number of their columns, and their names.

    The file holds a model, an estimator that has learned one, or a network, some of whose columns may be NaN.
    """
    content = storage.load(path)
    kind = type(content).__name__  # by its name, so that a model is read without the modules of all others
    if kind not in ("Peeled", "TwoLayerReLULearner"):
        distribution = distribution_in(path, content)
        return (
            lambda count, rng: distribution.sample(count, rng, as_seen),
            distribution.n_features,
            distribution.feature_names,
        )
    if kind == "Peeled":
        determined, names = content.layers[0].column_identifiable, content.feature_names
    else:
        determined, named = content.column_identifiable_, getattr(content, "feature_names_in_", None)
        names = None if named is None else tuple(named.tolist())
    if determined.any() and not determined.all():
        columns = label_columns(~determined, names)
        warn(f"The network's weights of {columns} are not determined: empty in all rows.", "weak-columns")
    return content.sample, len(determined), names


def model_and_table(job: Job) -> tuple[RectifiedGaussian | None, Samples]:
    """The distribution in a file, for the columns in use, or None where the table is to be fitted; and the table."""
    fitting: FitOptions = job.given["fitting"]
    if job.model is None:
        return None, job.opened(fitting.floor)
    fitting.refuse_with(job.model)
    distribution = distribution_in(job.model)
    table, at = matched_table(job, job.model, distribution.feature_names, distribution.n_features)
    return distribution.marginal(at), table


def learned(
    job: Job, kind: type[Any], progress: Progress, method: str | None = None, **wanted: Any
) -> tuple[Any, Samples]:
    """An estimator fitted to the table (by ``method``, unless an option names one) or made from a model; the table."""
    from unrelu.estimators import FloorOutlierDetector

    fitting: FitOptions = job.given["fitting"]
    distribution, table = model_and_table(job)
    if distribution is None:
        made = kind(**fitting.parameters(job.given["seed"], method or "auto"), **wanted)
        return made.with_progress(progress).fit(table), table
    if kind is not FloorOutlierDetector:
        return imputer_of(distribution, table, fitting.floor_tolerance).with_progress(progress), table
    progress(Step("Simulating rows of the model"))
    wanted |= {"floor_tolerance": fitting.floor_tolerance, "random_state": job.given["seed"]}
    return kind.from_model(distribution, **wanted).with_progress(progress), table


def imputer_of(distribution: RectifiedGaussian, table: Samples, floor_tolerance: float = 0.0) -> FloorImputer:
    """An imputer with this distribution; the limits that cells of the table state replace those of the distribution.

    A floor of 0 stays in columns without such cells: there it is no limit of detection.
    """
    from unrelu.estimators import FloorImputer

    if own := table.limits_by_cell:
        one = table.limits
        stated = {*own, *(column for column, _ in (() if one is None else (*one.floor, *one.ceiling)))}
        floor = [0.0 if level == 0.0 and j not in stated else -math.inf for j, level in enumerate(distribution.floor)]
        distribution = distribution.with_parts(floor=floor, ceiling=math.inf)
    return FloorImputer.from_model(distribution, floor_tolerance=floor_tolerance)


def matched_table(job: Job, file: Path, names: Sequence[str] | None, n_columns: int) -> tuple[Samples, list[int]]:
    """The table, and the places of its columns in a file: by name where both have names, by position elsewhere."""
    reading = job.reading
    if names is not None and names_in(job) is not None:
        for unknown in [name for name in [*reading.columns, *reading.drop] if name not in names]:
            raise InvalidParameterError(
                f"{file} has no column {unknown!r}. {suggestion(unknown, names, 'It has', most=8)}"
            )
        wanted = [name for name in dict.fromkeys(reading.columns or names) if name not in reading.drop]
        if not wanted:
            raise InvalidParameterError(f"No column of {file} is left: drop fewer columns.")
        try:
            return job.opened(columns=wanted), [names.index(name) for name in wanted]
        except InputFileError as error:
            raise InputFileError(f"{error} {file} has the columns {listed(names, most=8)}.") from error
    table = job.opened()
    if table.n_features != n_columns:
        raise InvalidParameterError(
            f"{file} has {n_columns:,} columns, the table {table.n_features:,}: choose the same ones, in the same"
            " order, with columns= or drop=."
        )
    return table, list(range(n_columns))


def names_in(job: Job) -> Names:
    """The names of the tables' columns; None where they have none.

    No names where these cannot be read twice, as from standard input, or not at all: opening the table says why.
    """
    try:
        return () if "-" in job.paths else column_names(job.paths, job.reading.header)
    except InputFileError:
        return ()


# --- the layer of `recover` -------------------------------------------------------------------------


def loaded_layer(path: Path, n_components: int | None, floor: list[str] | None) -> Layer:
    """The layer in a file: A, b, the floor (0 if it has none), names, if latent numbers are standard normal."""
    from unrelu.recovery.latent_estimator import ReLULatentRecovery
    from unrelu.recovery.matrix_estimator import ReLUMatrixRecovery

    content = None if storage.stated_format(path) is None else storage.load(path)
    if content is None:
        layer, own_floor = _layer_of_arrays(path)
    else:
        layer, own_floor = _layer_of_model(path, content, n_components), True
    if n_components is not None and (content is None or isinstance(content, ReLUMatrixRecovery | ReLULatentRecovery)):
        raise InvalidParameterError(
            f"--components is for a model that unrelu fit wrote, and {path} is none: leave it out."
        )
    if own_floor and floor is not None:
        raise InvalidParameterError(f"{path} has its own floor: leave --floor out.")
    return layer


def _layer_of_model(path: Path, content: Any, n_components: int | None) -> Layer:
    from unrelu.recovery.latent_estimator import ReLULatentRecovery
    from unrelu.recovery.matrix.state import MatrixState

    if isinstance(content, MatrixState):
        raise ModelFileError(f"{path} is the state of a run of unrelu factor: let it end, and give its factors.")
    distribution = getattr(content, "distribution_", content)
    width = getattr(distribution, "n_features", None)
    if n_components is not None and width is not None and n_components > width:
        raise InvalidParameterError(f"--components must be at most {width}, the columns of {path}; got {n_components}.")
    names = getattr(content, "feature_names_in_", getattr(distribution, "feature_names", None))
    own = isinstance(content, ReLULatentRecovery)
    own_margins = isinstance(distribution, RectifiedGaussian)
    if (distribution.margins if own_margins else getattr(content, "margins_", None)) is not None:
        raise ModelFileError(
            f"The columns of {path} have margins, and a layer has none: fit a model without --margins."
        )
    try:
        recovery = content if own else ReLULatentRecovery.from_model(content, n_components=n_components)
    except InvalidParameterError as error:
        raise ModelFileError(f"{path} holds a {type(content).__name__}, which is no layer. {_EXPECTED}") from error
    learned = getattr(recovery, "weights_", None) is not None
    layer = (recovery.weights_, recovery.bias_) if learned else (recovery.weights, recovery.bias)
    weights, mean = map(np.asarray, layer)
    floor = floor_per_column(recovery.floor, len(mean))
    return weights, mean, floor, None if names is None else tuple(map(str, names)), not own


def _layer_of_arrays(path: Path) -> tuple[Layer, bool]:
    """The layer in an npz file that unrelu did not write, and whether the file has the floor."""
    from unrelu.recovery.latent_estimator import check_layer

    try:
        arrays = storage.foreign_arrays(path, _ARRAYS, "file of weights")
    except ModelFileError as error:
        raise ModelFileError(f"{error} {_EXPECTED}") from error
    for name in [name for name in _ARRAYS[:2] if name not in arrays]:
        raise ModelFileError(f"{path} holds no array {name!r}. {_EXPECTED}")
    for name in [name for name in arrays if name != "feature_names" and arrays[name].dtype.kind not in "fiub"]:
        raise ModelFileError(f"{path}: {name} holds values of type {arrays[name].dtype}, not numbers.")
    try:
        weights, mean = check_layer(arrays["weights"].astype(float), arrays["bias"].astype(float))
        floor = floor_per_column(arrays.get("floor", 0.0), len(mean))
    except InvalidParameterError as error:
        raise ModelFileError(f"{path}: {error}", parameter=error.parameter) from error
    names = tuple(arrays["feature_names"].ravel().tolist()) if "feature_names" in arrays else None
    if names is not None and (len({*names}) != len(mean) or not all(isinstance(name, str) for name in names)):
        raise ModelFileError(f"{path}: feature_names is not one text for each row of weights, all of them different.")
    return (weights, mean, floor, names, False), "floor" in arrays
