"""``unrelu impute`` and ``unrelu predict``: hidden cells filled in, one column predicted from the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import InvalidParameterError


@command()
def impute(
    paths: options.Tables,
    model: options.Model = None,
    median: Annotated[bool, "Fill in medians instead of means."] = False,
    quantile: Annotated[
        list[str] | None,
        "Also these quantiles, as .05,.95: one more column NAME_q05, NAME_q95 for each.",
        {"metavar": "LEVELS"},
    ] = None,
    draws: Annotated[
        int | None,
        "Instead this many completed tables, drawn at random, one below the other: the first column, draw,"
        " counts them from 1.",
        {"min": 1},
    ] = None,
    fill: Annotated[str, "Which cells: hidden (at a limit), missing, or both.", {"metavar": "CELLS"}] = "both",
    below: Annotated[
        str,
        typer.Option(
            "--below",
            metavar="KIND",
            help="What a value below its floor is filled in with: latent, the value before the floor cut it off; floor,"
            " what the table would show; or auto, latent, but what the table would show in missing cells of columns"
            " whose floor is 0, such as rain.",
        ),
    ] = "auto",
    parameters: Annotated[
        str | None,
        "With --draws: drawn, each table from a model drawn anew from the uncertainty of the fit (unless"
        " --model is given), or fitted, all from one model.",
        {"metavar": "KIND"},
    ] = None,
    fitting: options.FitOptions = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The completed table, its kind by extension.")] = Path("completed.csv"),
    std: Annotated[Path | None, "Also write the standard deviations of the cells; 0 where seen."] = None,
    mask: Annotated[Path | None, "Also write a table of 1 where a cell was filled."] = None,
    picture: Annotated[Path | None, options.picture("the columns with most hidden cells")] = None,
    seed: Annotated[int, "Seed of the fit and of the draws.", {"min": 0}] = 0,
) -> Answer | None:
    """Fill in cells at their floor (or ceiling) and missing ones by what the rest of their row says.

    Floored cells get a value below their floor, missing ones any, but none below a floor of 0, in the table's units,
    unless --fill or --below say otherwise; seen cells stay as they are. Means are nearest to the truth; --draws gives
    tables with the right spread and correlations, and, as there are several, the uncertainty.
    """
    if draws is not None and (median or quantile):
        raise InvalidParameterError("--draws fills in random values: leave out --median and --quantile, or --draws.")
    if parameters is not None and draws is None:
        raise InvalidParameterError("--parameters is of draws: give --draws, or leave it out.")
    levels = options.levels("--quantile", quantile)
    kind = "columns" if draws else reading.table_kind
    job = Job(
        Output("output", output, "Completed table" + "s" * bool(draws and draws > 1), kind),
        Output("std", std, "Standard deviations", reading.table_kind),
        Output("mask", mask, "Mask", reading.table_kind),
        Output("picture", picture, "Picture", "picture"),
        tables=paths,
        files=[model],
    )
    from unrelu.cli.inputs import asked, ids_of
    from unrelu.posterior.cells import Filling
    from unrelu.report.imputation import Completion

    with job.fitting() as watch:
        filling = Filling(fill, below)  # refused before anything is read
        imputer, table = asked(paths, model, reading, fitting, seed, watch)
        imputer.set_params(fill=filling.fill, below=filling.below)
        job.reads(table)
        done = Completion(imputer, table, ids_of(table), median, levels, draws, parameters, seed)
        done.keep(std=std is not None, mask=mask is not None, rows=picture is not None)
        job.write(output=done.write, std=done.write_std, mask=done.write_mask, picture=done.picture)
    by = f"{'the model of the table itself' if model is None else model} in {job.seconds:.2f} s"
    facts = {"model": model, "draws": draws, "quantiles": levels, "fill": fill, "below": below, **done.facts()}
    return job.answer(facts, done.tally.shown(by, done.told), fitted=imputer)


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
    from unrelu.tables.tables import write_columns
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
