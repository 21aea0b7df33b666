"""``unrelu check``: does the model fit the table, and where does it not?"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import DoubtfulTableWarning

if TYPE_CHECKING:
    from unrelu.checks.result import FitCheck
    from unrelu.contracts import Watch

_MISFIT = 1  # the exit code of --strict


@command({"must be None or between": "must be between"})
def check(
    table: Annotated[
        str, typer.Argument(help="The table, or a quoted glob of tables, as in unrelu fit.", metavar="TABLE")
    ],
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="A model file, taken as given; by default the table is learned."),
    ] = None,
    components: options.ComponentsOption = None,
    method: options.MethodOption = None,
    simulations: Annotated[
        int, typer.Option("--simulations", min=19, help="Tables that are simulated: p-values are at least 1/(N + 1).")
    ] = 199,
    level: Annotated[float, typer.Option("--level", help="The p-value from which on a model does not fit.")] = 0.05,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if the model does not fit; it is 0 otherwise.")
    ] = False,
    floor: options.OtherFloorOption = None,
    ceiling: options.CeilingOption = None,
    shape: options.ShapeOption = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[
        Path | None,
        options.output_option("Also write one line per column: csv, tsv (also gzipped), parquet, feather or arrow."),
    ] = None,
    picture: Annotated[Path | None, options.picture_option("columns and pairs that fit worst")] = None,
    seed: Annotated[int, options.seed_option("Seed of the rows looked at and of the simulated tables.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Check whether the model fits a table: every column, every pair of columns, and one sentence on what to do.

    A p-value is the share of simulated tables of the model, each learned like this one, that are as far from their
    model. At most 5,000 rows are looked at.
    """
    outputs = Output("output", output, "Columns", "columns"), Output("picture", picture, "Picture", "picture")
    job = Job(*outputs, tables=[table], files=[model])
    fitting = options.Fitting(method, components, floor, ceiling, shape, floor_tolerance, seed)
    if model is not None:
        fitting.refuse_with(model)
    from unrelu.report.check_picture import check_picture
    from unrelu.report.check_summary import check_columns, check_facts, check_shown
    from unrelu.samples.tables import write_columns

    wanted = {"n_simulations": simulations, "level": level}
    with job.watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the check says it in its own way
        if model is None:
            found = _of_table(job, (table, reading, floor), fitting.parameters(), wanted, watch)
        else:
            found = _of_model(job, model, (table, reading), {**wanted, "floor_tolerance": floor_tolerance}, seed, watch)
    job.write(
        output=lambda path: write_columns(path, [check_columns(found)]),
        picture=lambda: check_picture(found),
    )
    from unrelu.cli.wording import one_line

    answer = job.answer({"model": model, **check_facts(found)}, check_shown(found, job.seconds, one_line))
    return answer if answer is None or found.fits or not strict else replace(answer, code=_MISFIT)


def _of_table(
    job: Job, table: tuple[Any, ...], learner: dict[str, Any], wanted: dict[str, Any], watch: Watch
) -> FitCheck:
    """The check of a fit to the table itself."""
    from unrelu.cli.inputs import opened
    from unrelu.estimators import RectifiedGaussianLearner

    path, reading, floor = table
    rows = job.reads(opened([path], reading, floor))
    return RectifiedGaussianLearner(**learner).watched_by(watch).fit(rows).check(rows, **wanted)


def _of_model(
    job: Job, model: Path, table: tuple[Any, ...], wanted: dict[str, Any], seed: int, watch: Watch
) -> FitCheck:
    """The check of a model from a file, of those of its columns that are wanted."""
    from unrelu.cli.inputs import law_in, matched_table
    from unrelu.estimators import check_model

    law = law_in(model)
    path, reading = table
    rows, at = matched_table(model, law.feature_names, law.n_features, [path], reading)
    return check_model(law.marginal(at), job.reads(rows), random_state=seed, watch=watch, **wanted)
