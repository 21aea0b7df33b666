"""``unrelu score`` and ``unrelu clean``: rows and cells of a table that do not belong, named, or taken out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command

if TYPE_CHECKING:
    from unrelu.contracts import Samples
    from unrelu.estimators import FloorOutlierDetector

_SAYS = {"use method='one_pass'": "fit a model of other rows and give it as --model"}


@command(_SAYS)
def score(
    paths: options.Tables,
    model: Annotated[Path | None, "Judge by this model file; by default the table's genuine rows are learned."] = None,
    cells: Annotated[bool, "Score single cells, and how surely each is bad; -o writes all, or the --top."] = False,
    top: Annotated[int | None, "How many of the strangest rows or cells to show: 10 by default.", {"min": 0}] = None,
    false_alarm_rate: Annotated[float, "The share flagged of the rows of a clean table that the model fits."] = 0.01,
    fitting: options.FittingByOneMethod = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[
        Path | None,
        options.output("Also write one line per row: csv, tsv (also gzipped), parquet, feather or arrow."),
    ] = None,
    picture: Annotated[Path | None, options.picture("the scores, or of the table's bad cells")] = None,
    seed: Annotated[int, "Seed of the fit and of the simulated rows.", {"min": 0}] = 0,
) -> Answer | None:
    """Score every row of a table, and show the strangest ones and their strangest cells; or, with --cells, every cell.

    A p-value is the share of the model's own rows that are as strange; the score is a row's log density. Rows with a
    p-value below the false alarm rate are flagged: that share of a clean table, if the model fits it. Of a table that
    is not normal above its floors more are flagged: --shape auto learns how its columns are skewed.
    """
    outputs = Output("output", output, "Scores", "columns"), Output("picture", picture, "Picture", "picture")
    job = Job(*outputs, tables=paths, files=[model])
    from unrelu.cli.inputs import ids_of, model_and_table
    from unrelu.contracts import Step
    from unrelu.estimators import FloorOutlierDetector
    from unrelu.report.outliers import Judged, OutlierResult, outlier_picture
    from unrelu.tables.write import write_columns

    with job.fitting() as watch:
        law, table = model_and_table(paths, model, reading, fitting)
        if law is None:
            wanted = fitting.parameters(seed, "robust_cells" if cells else "robust")
            del wanted["n_components"]
            detector = FloorOutlierDetector(**wanted, false_alarm_rate=false_alarm_rate).watched_by(watch).fit(table)
        else:
            watch(Step("Simulating rows of the model"))
            tolerance = fitting.floor_tolerance
            detector = FloorOutlierDetector.from_model(
                law, false_alarm_rate=false_alarm_rate, floor_tolerance=tolerance, random_state=seed
            ).watched_by(watch)
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
    return job.answer({"model": model, **judged.facts()}, judged.shown(judge, job.seconds), fitted=detector)


def _cells(
    job: Job, detector: FloorOutlierDetector, table: Samples, top: int | None, model: Path | None
) -> Answer | None:
    """The strangest cells of a table; all of them where they are written and nobody asks for fewer."""
    from unrelu.cli.inputs import ids_of
    from unrelu.estimators import FloorImputer
    from unrelu.report.cells import StrangestCells, bad_cell_picture
    from unrelu.tables.write import write_columns

    law, most = detector.distribution_, 10 if top is None else top
    imputer = FloorImputer.from_model(law, floor_tolerance=detector.floor_tolerance)
    kept = most if top is not None or job.files["output"] is None else None
    judged = detector.strangeness(table), detector.cell_probabilities(table)
    found = StrangestCells.of(law, judged, imputer.cells(table), kept, ids_of(table))
    job.write(
        output=lambda path: write_columns(path, found.lines()),
        picture=lambda: bad_cell_picture(*judged, found.names),
    )
    judge = f"{'the model of the genuine rows' if model is None else model} in {job.seconds:.2f} s"
    return job.answer({"model": model, **found.facts(most)}, found.shown(judge, most), fitted=detector)


@command(_SAYS)
def clean(
    paths: options.Tables,
    model: options.Model = None,
    impute: Annotated[bool, "Fill bad cells in by what the rest of their row says; missing else."] = False,
    level: Annotated[
        float, "The probability of being bad beyond which a cell is changed.", {"min": 0.0, "max": 1.0}
    ] = 0.5,
    fitting: options.FittingByOneMethod = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The cleaned table, its kind by extension.")] = Path("cleaned.csv"),
    changes: Annotated[Path | None, "Also write a line for every cell that was changed."] = None,
    picture: Annotated[Path | None, options.picture("the table's bad cells")] = None,
    seed: Annotated[int, "Seed of the fit.", {"min": 0}] = 0,
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
    from unrelu.cli.inputs import ids_of, model_and_table
    from unrelu.estimators import FloorOutlierDetector
    from unrelu.report.cells import Cleaning

    with job.fitting() as watch:
        law, table = model_and_table(paths, model, reading, fitting)
        if law is None:
            wanted = fitting.parameters(seed, "robust_cells")
            del wanted["n_components"]
            detector = FloorOutlierDetector(**wanted).watched_by(watch).fit(table)
        else:
            detector = FloorOutlierDetector.from_model(law, floor_tolerance=fitting.floor_tolerance).watched_by(watch)
        done = Cleaning(detector, job.reads(table), ids_of(table), impute, level)
        job.write(output=done.write, changes=done.write_changes, picture=done.picture)
    by = f"{'the model of the table itself' if model is None else model} in {job.seconds:.2f} s"
    return job.answer({"model": model, **done.facts()}, done.shown(by), fitted=detector)
