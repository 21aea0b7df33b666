"""``unrelu predict``: one column of a table from the others, with its uncertainty."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import DoubtfulTableWarning, InvalidParameterError

if TYPE_CHECKING:
    from unrelu.contracts import Samples
    from unrelu.distribution import RectifiedGaussian
    from unrelu.estimators import FloorImputer
    from unrelu.posterior.prediction import Prediction
    from unrelu.report.prediction_summary import Nearness


@command({"must be None or between": "must be between"})
def predict(
    paths: options.Tables,
    column: Annotated[str, typer.Option("--column", metavar="NAME", help="The column to predict.")],
    model: options.ModelOption = None,
    quantiles: Annotated[
        str, typer.Option("--quantiles", metavar="LEVELS", help="The quantiles to give, as .05,.5,.95.")
    ] = ".05,.5,.95",
    uncut: Annotated[
        bool, typer.Option("--hidden", help="Predict what is hidden by the floor, instead of what the table shows.")
    ] = False,
    components: options.ComponentsOption = None,
    method: options.MethodOption = None,
    floor: options.OtherFloorOption = None,
    ceiling: options.CeilingOption = None,
    shape: options.ShapeOption = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[
        Path, options.output_option("One line per row: csv, tsv (also gzipped), parquet, feather or arrow.")
    ] = Path("predicted.csv"),
    seed: Annotated[int, options.seed_option("Seed of the methods that draw.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Predict a column from the others: mean, standard deviation, quantiles, and the probability to be at its floor.

    The column's own cells are not looked at but to say how near the predictions come. With --model the table may lack
    the column. Rows that were learned from are predicted a little too well: for a fair figure give --model of others.
    """
    levels = options.levels("--quantiles", [quantiles])
    if not levels:
        raise InvalidParameterError("--quantiles needs at least one level, such as .5.")
    job = Job(Output("output", output, "Predictions", "columns"), tables=paths, files=[model])
    from unrelu.cli.inputs import asked, ids_of, law_in
    from unrelu.cli.outputs import check_names, level_name
    from unrelu.cli.wording import one_line
    from unrelu.report.imputation_summary import report_facts
    from unrelu.report.prediction_summary import Nearness
    from unrelu.report.summaries import labels
    from unrelu.report.tables import doubts_shown
    from unrelu.samples.tables import write_columns
    from unrelu.validation import counted

    fitting = options.Fitting(method, components, floor, ceiling, shape, floor_tolerance, seed)
    has_it, reading = _found(column, paths, model, reading)
    with job.watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the answer has them in one table
        imputer, table = asked(paths, model, reading, fitting, watch)
        law = imputer.distribution_ if model is None else law_in(model)
        if model is not None and law.feature_names is not None:
            law = law.marginal([*labels(imputer.distribution_), *([] if has_it else [column])])
        j = _place(law, column)
        nearness = Nearness(law, j, levels)
        ids = ids_of(job.reads(table))
        check_names(["row", *ids, "mean", "std", "probability_floored", *map(level_name, levels)])
        found = _predicted(
            imputer, table, law, (j, levels, uncut, bool(getattr(table, "limits_by_cell", ()))), nearness
        )
        job.write(output=lambda path: write_columns(path, _lines(found, ids)))
    by = "the model of the table itself" if model is None else str(model)
    first = f"Predicted {column} from {counted(law.n_features - 1, 'other column')} in {counted(nearness.rows, 'row')}"
    report = getattr(imputer, "report_", None)
    facts = {"model": model, "column": column, "quantiles": levels, "hidden": uncut}
    doubts = doubts_shown(report, labels(imputer.distribution_), one_line)
    shown = [f"{first} by {by} in {job.seconds:.2f} s.", *doubts, *nearness.shown()]
    return job.answer({**facts, **nearness.facts(), **report_facts(report)}, shown)


def _found(
    column: str, paths: list[str], model: Path | None, reading: options.TableOptions
) -> tuple[bool, options.TableOptions]:
    """Whether the table has the column, and how to read it: with the column, or without one that only a model knows."""
    from unrelu.cli.inputs import names_in
    from unrelu.validation import suggestion

    if column in reading.drop or column in reading.id:
        raise InvalidParameterError(f"--column asks for {column!r}, which --drop or --id leaves out: choose one.")
    names = names_in(paths, reading)
    if names is None or column in names:
        return True, replace(reading, columns=[*reading.columns, column] if reading.columns else [])
    if model is None:
        raise InvalidParameterError(f"--column: no column {column!r} in the table. {suggestion(column, names, most=8)}")
    return False, replace(reading, drop=[*reading.drop, column], columns=[c for c in reading.columns if c != column])


def _place(law: RectifiedGaussian, column: str) -> int:
    """Columns without names go by their number, counted from 0."""
    unnamed = law.feature_names is None and column.isdecimal()
    return law.index_of(int(column) if unnamed else column)


def _predicted(
    imputer: FloorImputer, table: Samples, law: RectifiedGaussian, asked: tuple[Any, ...], nearness: Nearness
) -> Iterator[Prediction]:
    """Block by block."""
    from unrelu.posterior.prediction import predicted

    j, levels, uncut, own_limits = asked
    lacks = law.n_features > imputer.n_features_in_
    for given in imputer.cells(table):
        cells = given.widened(j) if lacks else given
        rest = cells.without(j)
        shown = predicted(law, rest, j, levels)
        nearness.add(rest if own_limits else cells, shown)  # what a cell's own limit would show is not predicted
        yield predicted(law, rest, j, levels, hidden=True) if uncut else shown


def _lines(found: Iterator[Prediction], ids: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """One line per row."""
    import numpy as np

    from unrelu.cli.outputs import level_name

    first = 0
    for each in found:
        rows = slice(first, first + len(each.mean))
        first = rows.stop
        yield {
            "row": np.arange(rows.start, rows.stop) + 1,
            **{name: list(texts[rows]) for name, texts in ids.items()},
            "mean": each.mean,
            "std": each.std,
            **{level_name(level): each.quantiles[:, k] for k, level in enumerate(each.levels)},
            "probability_floored": each.probability_floored,
        }
