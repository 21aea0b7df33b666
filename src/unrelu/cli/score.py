"""``unrelu score``: which rows of a table do not belong, how surely, and which of their cells say so."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import DoubtfulTableWarning, InvalidParameterError

if TYPE_CHECKING:
    from unrelu.cli.progress import Meter
    from unrelu.contracts import Samples
    from unrelu.estimators import FloorOutlierDetector


@command({"use method='one_pass'": "fit a model of other rows and give it as --model"})
def score(
    paths: options.Tables,
    model: Annotated[
        Path | None,
        typer.Option("--model", help="Judge by this model file; by default the table's genuine rows are learned."),
    ] = None,
    cells: Annotated[
        bool,
        typer.Option("--cells", help="Score single cells, and how surely each is bad; -o writes all, or the --top."),
    ] = False,
    top: Annotated[
        int | None, typer.Option("--top", min=0, help="How many of the strangest rows or cells to show: 10 by default.")
    ] = None,
    false_alarm_rate: Annotated[
        float,
        typer.Option("--false-alarm-rate", help="The share flagged of the rows of a clean table that the model fits."),
    ] = 0.01,
    floor: options.OtherFloorOption = None,
    ceiling: options.CeilingOption = None,
    shape: options.ShapeOption = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[
        Path | None,
        options.output_option("Also write one line per row: csv, tsv (also gzipped), parquet, feather or arrow."),
    ] = None,
    picture: Annotated[Path | None, options.picture_option("the scores, or of the table's bad cells")] = None,
    seed: Annotated[int, options.seed_option("Seed of the fit and of the simulated rows.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Score every row of a table, and show the strangest ones and their strangest cells; or, with --cells, every cell.

    A p-value is the share of the model's own rows that are as strange; the score is a row's log density. Rows with a
    p-value below the false alarm rate are flagged: that share of a clean table, if the model fits it. Of a table that
    is not normal above its floors more are flagged: --shape auto learns how its columns are skewed.
    """
    job = Job(
        Output("output", output, "Scores", "columns"),
        Output("picture", picture, "Picture", "picture"),
        tables=paths,
        files=[model],
    )
    for option, given in (("--floor", floor), ("--ceiling", ceiling), ("--shape", shape)):
        if model is not None and given is not None:
            raise InvalidParameterError(f"{option} belongs to a fit, and {model} has its own: leave one of them out.")
    from unrelu.cli.inputs import ids_of
    from unrelu.cli.wording import one_line
    from unrelu.report.outlier_picture import OutlierResult, outlier_picture
    from unrelu.report.outlier_summary import Judged
    from unrelu.samples.tables import write_columns

    wanted: dict[str, Any] = {
        "false_alarm_rate": false_alarm_rate,
        "floor_tolerance": floor_tolerance,
        "random_state": seed,
    }
    with job.watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the answer has them in one table
        if model is None:
            wanted["floor"] = options.limits("--floor", floor or ["0.0"])
            wanted["ceiling"] = options.limits("--ceiling", ceiling or ())
            wanted["shape"] = options.shapes(shape)
            wanted["method"] = "robust_cells" if cells else "robust"
            detector, table = _fitted(paths, reading, floor, wanted, watch)
        else:
            detector, table = _of_model(model, paths, reading, wanted, watch)
        job.reads(table)
        if cells:
            return _cells(job, detector, table, top, model)
        rows = 10 if top is None else top
        verdict = detector.judge(table, top=rows, cells_of="top" if output is None else "flagged")
    judged = Judged.by(detector, verdict, ids_of(table))
    job.write(
        output=lambda path: write_columns(path, judged.columns()),
        picture=lambda: outlier_picture(OutlierResult.of(judged)),
    )
    judge = "the model of their genuine rows" if model is None else str(model)
    return job.answer({"model": model, **judged.facts()}, judged.shown(judge, job.seconds, one_line))


def _cells(
    job: Job, detector: FloorOutlierDetector, table: Samples, top: int | None, model: Path | None
) -> Answer | None:
    """The strangest cells of a table; all of them where they are written and nobody asks for fewer."""
    from unrelu.cli.inputs import ids_of
    from unrelu.cli.wording import one_line
    from unrelu.estimators import FloorImputer
    from unrelu.report.bad_cell_picture import bad_cell_picture
    from unrelu.report.cell_summary import StrangestCells
    from unrelu.samples.tables import write_columns

    law, most = detector.distribution_, 10 if top is None else top
    imputer = FloorImputer.from_model(law, floor_tolerance=detector.floor_tolerance)
    kept = most if top is not None or job.files["output"] is None else None
    judged = detector.strangeness(table), detector.cell_probabilities(table)
    found = StrangestCells.of(law, judged, imputer.cells(table), kept, ids_of(table))
    job.write(
        output=lambda path: write_columns(path, found.lines()),
        picture=lambda: bad_cell_picture(*judged, found.names),
    )
    report = getattr(detector, "report_", None)
    facts = {"model": model, **found.facts(most, report)}
    judge = "the model of the genuine rows" if model is None else model
    return job.answer(facts, found.shown(f"{judge} in {job.seconds:.2f} s", most, report, one_line))


def _fitted(
    paths: list[str], reading: options.TableOptions, floor: list[str] | None, wanted: dict[str, Any], watch: Meter
) -> tuple[FloorOutlierDetector, Samples]:
    """The robust fit to the table itself."""
    from unrelu.cli.inputs import opened
    from unrelu.estimators import FloorOutlierDetector

    table = opened(paths, reading, floor)
    return FloorOutlierDetector(**wanted).watched_by(watch).fit(table), table


def _of_model(
    model: Path, paths: list[str], reading: options.TableOptions, wanted: dict[str, Any], watch: Meter
) -> tuple[FloorOutlierDetector, Samples]:
    """A model from a file, of those of its columns that are wanted."""
    from unrelu.cli.inputs import law_in, matched_table
    from unrelu.contracts import Step
    from unrelu.estimators import FloorOutlierDetector

    law = law_in(model)
    table, at = matched_table(model, law.feature_names, law.n_features, paths, reading)
    watch(Step("Simulating rows of the model"))
    return FloorOutlierDetector.from_model(law.marginal(at), **wanted).watched_by(watch), table
