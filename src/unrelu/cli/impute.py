"""``unrelu impute``: a table with its hidden cells filled in, by means, quantiles or draws."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import DoubtfulTableWarning, InvalidParameterError


@command({"must be None or between": "must be between"})
def impute(
    paths: options.Tables,
    model: options.ModelOption = None,
    median: Annotated[bool, typer.Option("--median", help="Fill in medians instead of means.")] = False,
    quantile: Annotated[
        list[str] | None,
        typer.Option(
            "--quantile",
            metavar="LEVELS",
            help="Also these quantiles, as .05,.95: one more column NAME_q05, NAME_q95 for each.",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws",
            min=1,
            help="Instead this many completed tables, drawn at random, one below the other: the first column, draw,"
            " counts them from 1.",
        ),
    ] = None,
    fill: Annotated[
        str,
        typer.Option("--fill", metavar="CELLS", help="Which cells: hidden (at a limit), missing, or both."),
    ] = "both",
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
        typer.Option(
            "--parameters",
            metavar="KIND",
            help="With --draws: drawn, each table from a model drawn anew from the uncertainty of the fit (unless"
            " --model is given), or fitted, all from one model.",
        ),
    ] = None,
    components: options.ComponentsOption = None,
    method: options.MethodOption = None,
    floor: options.OtherFloorOption = None,
    ceiling: options.CeilingOption = None,
    shape: options.ShapeOption = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output_option("The completed table, its kind by extension.")] = Path(
        "completed.csv"
    ),
    std: Annotated[
        Path | None, typer.Option("--std", help="Also write the standard deviations of the cells; 0 where seen.")
    ] = None,
    mask: Annotated[
        Path | None, typer.Option("--mask", help="Also write a table of 1 where a cell was filled.")
    ] = None,
    picture: Annotated[Path | None, options.picture_option("the columns with most hidden cells")] = None,
    seed: Annotated[int, options.seed_option("Seed of the fit and of the draws.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
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
    from unrelu.cli.completing import Completion, Draws
    from unrelu.cli.inputs import asked
    from unrelu.cli.wording import one_line
    from unrelu.posterior.filling import Filling

    fitting = options.Fitting(method, components, floor, ceiling, shape, floor_tolerance, seed)
    with job.watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the answer has them in one table
        filling = Filling(fill, below)  # refused before anything is read
        imputer, table = asked(paths, model, reading, fitting, watch)
        imputer.set_params(fill=filling.fill, below=filling.below)
        done = Completion(imputer, job.reads(table), median, levels, Draws(draws, seed, parameters))
        job.write(output=done.write, std=done.write_std, mask=done.write_mask, picture=done.picture)
    by = f"{'the model of the table itself' if model is None else model} in {job.seconds:.2f} s"
    facts = {"model": model, "draws": draws, "quantiles": levels, "fill": fill, "below": below, **done.facts()}
    return job.answer(facts, done.tally.shown(by, done.told, done.report, one_line))
