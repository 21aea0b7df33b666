"""``unrelu impute``: a table with its hidden cells filled in, by means, quantiles or draws."""

from __future__ import annotations

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
            help="What a value below its floor is filled in with: latent, the value before the floor cut it off, or"
            " floor, what the table would show, for columns such as rain, whose zeros are zeros.",
        ),
    ] = "latent",
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

    Floored cells get a value below their floor, in the table's units, unless --fill or --below say otherwise; seen
    cells stay as they are. Means are nearest to the truth; --draws gives tables with the right spread and correlations,
    and, as there are several, the uncertainty.
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
    from unrelu.posterior.filling import Filling
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
