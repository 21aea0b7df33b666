"""``unrelu clean``: a table without its bad cells, and a list of what was changed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import DoubtfulTableWarning

if TYPE_CHECKING:
    from unrelu.cli.progress import Meter
    from unrelu.contracts import Samples
    from unrelu.estimators import FloorOutlierDetector


@command({"use method='one_pass'": "fit a model of other rows and give it as --model"})
def clean(
    paths: options.Tables,
    model: options.ModelOption = None,
    impute: Annotated[
        bool, typer.Option("--impute", help="Fill bad cells in by what the rest of their row says; missing else.")
    ] = False,
    level: Annotated[
        float,
        typer.Option("--level", min=0.0, max=1.0, help="The probability of being bad beyond which a cell is changed."),
    ] = 0.5,
    floor: options.OtherFloorOption = None,
    ceiling: options.CeilingOption = None,
    shape: options.ShapeOption = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output_option("The cleaned table, its kind by extension.")] = Path("cleaned.csv"),
    changes: Annotated[
        Path | None, typer.Option("--changes", help="Also write a line for every cell that was changed.")
    ] = None,
    picture: Annotated[Path | None, options.picture_option("the table's bad cells")] = None,
    seed: Annotated[int, options.seed_option("Seed of the fit.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Write a table with its bad cells made missing, or imputed, and say what was changed.

    The table's genuine cells are learned as by fit --method robust_cells. Cells that are bad with a probability above
    --level are changed, those of outlier rows among them; all others stay as they are. The input is never overwritten.
    """
    job = Job(
        Output("output", output, "Cleaned table", reading.table_kind),
        Output("changes", changes, "Changes", "columns"),
        Output("picture", picture, "Picture", "picture"),
        tables=paths,
        files=[model],
    )
    from unrelu.cli.cleaning import Cleaning
    from unrelu.cli.wording import one_line

    fitting = options.Fitting("robust_cells", None, floor, ceiling, shape, floor_tolerance, seed)
    with job.watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the answer has them in one table
        detector, table = _detector(paths, model, reading, fitting, watch)
        done = Cleaning(detector, job.reads(table), impute, level)
        job.write(output=done.write, changes=done.write_changes, picture=done.picture)
    by = f"{'the model of the table itself' if model is None else model} in {job.seconds:.2f} s"
    return job.answer({"model": model, **done.facts()}, done.shown(by, one_line))


def _detector(
    paths: list[str], model: Path | None, reading: options.TableOptions, fitting: options.Fitting, watch: Meter
) -> tuple[FloorOutlierDetector, Samples]:
    """What judges the cells, and the table: a fit to it, or a model from a file."""
    from dataclasses import replace

    from unrelu.cli.inputs import law_in, matched_table, opened
    from unrelu.estimators import FloorOutlierDetector

    if model is None:
        table = opened(paths, reading, fitting.floor)
        wanted: dict[str, Any] = fitting.parameters()
        del wanted["n_components"]
        return FloorOutlierDetector(**wanted).watched_by(watch).fit(table), table
    replace(fitting, method=None).refuse_with(model)
    law = law_in(model)
    table, at = matched_table(model, law.feature_names, law.n_features, paths, reading)
    made = FloorOutlierDetector.from_model(law.marginal(at), floor_tolerance=fitting.floor_tolerance)
    return made.watched_by(watch), table
