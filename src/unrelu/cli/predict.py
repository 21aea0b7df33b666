"""``unrelu predict``: one column of a table from the others, with its uncertainty."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import InvalidParameterError


@command()
def predict(
    paths: options.Tables,
    column: Annotated[str, "The column to predict.", {"metavar": "NAME"}],
    model: options.Model = None,
    quantiles: Annotated[str, "The quantiles to give, as .05,.5,.95.", {"metavar": "LEVELS"}] = ".05,.5,.95",
    uncut: Annotated[
        bool,
        options.option("Predict what is hidden by the floor, instead of what the table shows.", "--hidden"),
    ] = False,
    fitting: options.FitOptions = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[
        Path, options.output("One line per row: csv, tsv (also gzipped), parquet, feather or arrow.")
    ] = Path("predicted.csv"),
    seed: Annotated[int, "Seed of the methods that draw.", {"min": 0}] = 0,
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
    from unrelu.report.model import labels
    from unrelu.report.prediction import Nearness, predicted_lines
    from unrelu.report.tables import check_names, level_name
    from unrelu.samples.tables import write_columns
    from unrelu.validation import counted

    has_it, reading = _found(column, paths, model, reading)
    with job.fitting() as watch:
        imputer, table = asked(paths, model, reading, fitting, seed, watch)
        law = imputer.distribution_ if model is None else law_in(model)
        if model is not None and law.feature_names is not None:
            law = law.marginal([*labels(imputer.distribution_), *([] if has_it else [column])])
        # Columns without names go by their number, counted from 0.
        j = law.index_of(int(column) if law.feature_names is None and column.isdecimal() else column)
        nearness = Nearness(law, j, levels)
        ids = ids_of(job.reads(table))
        check_names(["row", *ids, "mean", "std", "probability_floored", *map(level_name, levels)])
        job.write(
            output=lambda path: write_columns(path, predicted_lines(imputer, table, law, nearness, ids, uncut=uncut))
        )
    by = "the model of the table itself" if model is None else str(model)
    first = f"Predicted {column} from {counted(law.n_features - 1, 'other column')} in {counted(nearness.rows, 'row')}"
    facts = {"model": model, "column": column, "quantiles": levels, "hidden": uncut, **nearness.facts()}
    return job.answer(facts, [f"{first} by {by} in {job.seconds:.2f} s.", *nearness.shown()], fitted=imputer)


def _found(
    column: str, paths: list[str], model: Path | None, reading: options.TableOptions
) -> tuple[bool, options.TableOptions]:
    """Whether the table has the column, and how to read it: with the column, or without one that only a model knows."""
    from unrelu.cli.inputs import names_in
    from unrelu.validation import suggestion

    if column in reading.drop or column in reading.id:
        raise InvalidParameterError(f"--column asks for {column!r}, which --drop or --id leaves out: choose one.")
    names = names_in(paths, reading)
    if not names or column in names:
        return True, replace(reading, columns=[*reading.columns, column] if reading.columns else [])
    if model is None:
        raise InvalidParameterError(f"--column: no column {column!r} in the table. {suggestion(column, names, most=8)}")
    return False, replace(reading, drop=[*reading.drop, column], columns=[c for c in reading.columns if c != column])
