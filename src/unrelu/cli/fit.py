"""``unrelu fit``: a table in, a model file out."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command

if TYPE_CHECKING:
    from rich.table import Table

    from unrelu.contracts import LearningReport
    from unrelu.estimators import RectifiedGaussianLearner


@command({"must be None or between": "must be between"})
def fit(
    paths: options.Tables,
    components: Annotated[
        int | None,
        typer.Option("--components", min=1, help="Number of latent inputs: the rank of the covariance."),
    ] = None,
    method: Annotated[str, typer.Option("--method", help="How to learn.")] = "one_pass",
    nonnegative_bias: Annotated[
        bool, typer.Option("--nonnegative-bias", help="Assume that no bias is below its floor.")
    ] = False,
    floor: options.FloorOption = ["0.0"],  # noqa: B006 - typer copies it
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output_option("The model file to write.")] = Path("model.npz"),
    picture: Annotated[Path | None, options.picture_option("the model")] = None,
    seed: Annotated[int, options.seed_option("Seed of the methods that draw.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Learn a model from tables and write it to a file.

    Every column is x = max(y, floor) of a normal y. Cells may be missing; cells below the floor are an error.
    """
    job = Job(Output("model", output, "Model"), Output("picture", picture, "Picture", "picture"), tables=paths)
    from unrelu.cli.inputs import opened
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.report.pictures import model_picture

    rows = job.reads(opened(paths, reading, floor if floor != ["0.0"] else None))
    learner = RectifiedGaussianLearner(
        method,
        floor=options.floors(floor, rows.n_features, rows.feature_names),
        nonnegative_bias=nonnegative_bias,
        n_components=components,
        floor_tolerance=floor_tolerance,
        random_state=seed,
    )
    with job.watch() as watch:
        learner.watched_by(watch).fit(rows)
    law = learner.distribution_
    job.write(
        model=partial(law.save, details=_details(learner, paths)),
        picture=lambda: model_picture(law, learner.report_.share_floored_by_column),
    )
    return _answer(job, learner)


def _details(learner: RectifiedGaussianLearner, paths: list[str]) -> dict[str, Any]:
    """Facts for the model file."""
    from unrelu.report.summaries import fit_details

    assumed = {"nonnegative_bias": learner.nonnegative_bias, "n_components": learner.n_components}
    return {"inputs": paths, **assumed, **fit_details(learner)}


def _answer(job: Job, learner: RectifiedGaussianLearner) -> Answer | None:
    from unrelu.report.summaries import learned_columns, strongest_correlations
    from unrelu.report.tables import column_table, correlation_table
    from unrelu.validation import counted

    report, columns = learner.report_, learned_columns(learner)
    strongest = strongest_correlations(learner.distribution_, learner.correlation_stderr_)
    facts = {
        "report": asdict(report),
        "columns": [asdict(column) for column in columns],
        "strongest_correlations": [asdict(pair) for pair in strongest],
    }
    missing = f", {report.share_missing:.1%} of the cells missing" if report.share_missing else ""
    shown: list[str | Table] = [
        f"Learned {counted(report.n_features, 'column')} from {report.n_rows:,} rows in {job.seconds:.2f} s"
        f" ({report.share_floored:.1%} of the values at the floor{missing}).",
        *_kept_rows(report),
        column_table(columns),
        *([correlation_table(strongest)] if strongest else []),
    ]
    return job.answer(facts, shown)


def _kept_rows(report: LearningReport) -> list[str]:
    """What a robust fit did with the rows."""
    from unrelu.contracts import RobustReport

    if not isinstance(report, RobustReport):
        return []
    others = [f"{group.share:.1%} {group.kind}" for group in report.groups[1:] if group.share >= 0.001]
    found = f"; other groups of rows: {', '.join(others)}" if others else ""
    return [f"Outliers: {report.share_downweighted:.1%} of the rows count less than half{found}."]
