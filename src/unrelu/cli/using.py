"""Use a model: ``unrelu impute``, ``predict``, ``score``, ``clean``, ``sample`` and ``simulate``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from unrelu.cli import options
from unrelu.cli.frame import Answer, Job, command
from unrelu.cli.options import RARE
from unrelu.errors import InvalidParameterError

if TYPE_CHECKING:
    import numpy as np

    from unrelu.contracts import FloatArray, Progress
    from unrelu.synthetic import Floats


@command
def impute(
    job: Job,
    paths: options.Tables,
    model: options.Model = None,
    median: Annotated[bool, "Fill in medians instead of means."] = False,
    quantile: Annotated[
        list[str] | None,
        "Also these quantiles, as .05,.95. One more column NAME_q05, NAME_q95 for each.",
        {"metavar": "LEVELS"},
    ] = None,
    draws: Annotated[
        int | None,
        "Multiple imputation: this many completed tables. One stands below the other; the first column, draw,"
        " counts them from 1.",
        {"min": 1},
    ] = None,
    fill: Annotated[
        str, "Cells to fill: hidden (at a limit), missing, or both.", {"metavar": "hidden|missing|both", **RARE}
    ] = "both",
    below: Annotated[
        str,
        "What stands for a value below its floor. latent: the value before the floor cut it off; floor: what the table"
        " would show; auto: latent, but what the table would show in missing cells of columns whose floor is 0, such as"
        " rain.",
        {"metavar": "latent|floor|auto", **RARE},
    ] = "auto",
    parameters: Annotated[
        str | None,
        "With --draws. drawn: each table from a model drawn anew from the uncertainty of the fit (unless --model is"
        " given); fitted: all from one model.",
        {"metavar": "drawn|fitted", **RARE},
    ] = None,
    fitting: options.FitOptions = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The completed table.", "Completed table", "table")] = Path("completed.csv"),
    std: Annotated[Path | None, options.also("Cells' standard deviations.", "Standard deviations", "table")] = None,
    mask: Annotated[Path | None, options.also("A table of 1 where a cell was filled in.", "Mask", "table")] = None,
    picture: Annotated[Path | None, options.picture("columns with most filled cells")] = None,
    seed: Annotated[int, "Seed of the fit and of the draws.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Fill in non-detects and missing cells from the rest of their row.

    A non-detect gets a value below its limit, a missing cell any (none below a floor of 0); seen cells stay. Means are
    nearest to the truth cell by cell; for statistics of the completed table use --draws.
    """
    if draws is not None and (median or quantile):
        raise InvalidParameterError("--draws fills in random values: leave out --median and --quantile, or --draws.")
    if parameters is not None and draws is None:
        raise InvalidParameterError("--parameters is for draws: give --draws, or leave it out.")
    levels = options.levels("--quantile", quantile)
    if draws:
        job.expect("output", f"Completed table{'s' * (draws > 1)}", "columns")
    from unrelu.cli.inputs import learned
    from unrelu.estimators import FloorImputer
    from unrelu.posterior.cells import Filling
    from unrelu.report.imputation import Completion
    from unrelu.report.tables import facts, rows

    with job.progress(diagnostics=False) as progress:
        filling = Filling(fill, below)  # wrong words are refused before anything is read
        imputer, table = learned(job, FloorImputer, progress)
        imputer.set_params(fill=filling.fill, below=filling.below)
        kept = {name for name, wanted in (("std", std), ("mask", mask), ("rows", picture)) if wanted is not None}
        done = Completion(imputer, table, median, levels, draws, parameters, seed, kept)
        job.write(
            output=done.write,
            std=lambda path: done.write_kept("std", path),
            mask=lambda path: done.write_kept("mask", path),
            picture=done.picture,
        )
    settings = {"draws": draws, "quantiles": levels, "fill": fill, "below": below}
    return job.answer({**settings, **facts(done)}, rows(done, job.by()), fitted=imputer)


@command
def predict(
    job: Job,
    paths: options.Tables,
    column: Annotated[str, "The column to predict.", {"metavar": "NAME"}],
    model: options.Model = None,
    quantiles: Annotated[str, "The quantiles to write.", {"metavar": "LEVELS"}] = ".05,.5,.95",
    uncut: Annotated[
        bool, options.option("Predict values below the limit, not what a table shows.", "--hidden")
    ] = False,
    fitting: options.FitOptions = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("One line per row.", "Predictions", "columns")] = Path("predicted.csv"),
    seed: Annotated[int, "Seed of the methods that draw.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Predict one column from the others, row by row.

    Writes mean, standard deviation, quantiles, and the probability of a non-detect. The column's own cells only serve
    to say how near the predictions come; with --model the table may lack it. Rows that the model was fitted to are
    predicted a little too well.
    """
    levels = options.levels("--quantiles", [quantiles])
    if not levels:
        raise InvalidParameterError("--quantiles needs at least one level, such as .5.")
    from unrelu.cli.inputs import distribution_in, learned
    from unrelu.estimators import FloorImputer
    from unrelu.report.imputation import PredictedColumn
    from unrelu.report.tables import facts, labels, rows

    has_it = _found(column, job)
    with job.progress(diagnostics=False) as progress:
        imputer, table = learned(job, FloorImputer, progress)
        distribution = imputer.distribution_ if model is None else distribution_in(model)
        if model is not None and distribution.feature_names is not None:
            distribution = distribution.marginal([*labels(imputer.distribution_), *([] if has_it else [column])])
        # Columns without names go by their number, counted from 0.
        j = distribution.index_of(int(column) if distribution.feature_names is None and column.isdecimal() else column)
        found = PredictedColumn(distribution, j, levels)
        job.write(output=found.lines(imputer, table, uncut=uncut))
    settings = {"column": column, "quantiles": levels, "hidden": uncut}
    return job.answer({**settings, **facts(found)}, rows(found, job.by(), column), fitted=imputer)


def _found(column: str, job: Job) -> bool:
    """Whether the table has the column. It is read with the column, or without one that only a model has."""
    from unrelu.cli.inputs import names_in
    from unrelu.validation import suggestion

    reading = job.reading
    if column in reading.drop or column in reading.id:
        raise InvalidParameterError(f"--column names {column!r}, which --drop or --id leaves out: choose one.")
    names = names_in(job)
    if not names or column in names:
        job.reading = replace(reading, columns=[*reading.columns, column] if reading.columns else [])
        return True
    if job.model is None:
        raise InvalidParameterError(f"--column: no column {column!r} in the table. {suggestion(column, names, most=8)}")
    others = [each for each in reading.columns if each != column]
    job.reading = replace(reading, drop=[*reading.drop, column], columns=others)
    return False


@command
def score(
    job: Job,
    paths: options.Tables,
    model: Annotated[Path | None, "Use this model file, not a fit of the inlier rows."] = None,
    cells: Annotated[bool, "Score cells, not rows. -o writes all of them, or the --top."] = False,
    top: Annotated[int | None, "Show this many rows or cells; 10 by default.", {"min": 0}] = None,
    false_alarm_rate: Annotated[float, "Flag this share of the rows of a clean table.", RARE] = 0.01,
    fitting: options.FittingByOneMethod = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path | None, options.output("Also write one line per row or cell.", "Scores", "columns")] = None,
    picture: Annotated[Path | None, options.picture("the scores, or the bad cells")] = None,
    seed: Annotated[int, "Seed of the fit and of the simulated rows.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Find outlying rows of a table or, with --cells, outlying cells.

    A row's score is its log density, its p-value the share of the model's own rows that score as low. Rows with a
    p-value below --false-alarm-rate are flagged: that share of a clean table, if the model fits it.
    """
    from unrelu.cli.inputs import learned
    from unrelu.estimators import FloorImputer, FloorOutlierDetector
    from unrelu.report import outliers
    from unrelu.report.tables import facts, labels, rows

    most = 10 if top is None else top
    with job.progress(diagnostics=False) as progress:
        method = "robust_cells" if cells else "robust"
        detector, table = learned(job, FloorOutlierDetector, progress, method, false_alarm_rate=false_alarm_rate)
        if not cells:
            scored = detector.score_table(table, top=most, cells_of="top" if output is None else "flagged")
    if not cells:
        ids, names = table.ids(), labels(detector.distribution_)
        job.write(
            output=outliers.score_lines(detector, scored, ids),
            picture=lambda: outliers.outlier_picture(scored, names, false_alarm_rate),
        )
        shown = rows(scored, job.by("a model fitted to their inlier rows"), detector, ids)
        return job.answer(facts(scored, detector, ids), shown, fitted=detector)
    # The most outlying cells; all of them where they are written, without --top.
    kept = most if top is not None or output is None else None
    distribution = detector.distribution_
    sizes = detector.cell_outlier_score(table, signed=True), detector.cell_probabilities(table)
    imputer = FloorImputer.from_model(distribution, floor_tolerance=detector.floor_tolerance)
    found = outliers.OutlyingCells(distribution, sizes, imputer.cells(table), kept, table.ids())
    job.write(output=found.lines(), picture=lambda: outliers.bad_cell_picture(*sizes, found.names))
    shown = rows(found, job.by("a model fitted to the inlier rows"), most)
    return job.answer(facts(found, most), shown, fitted=detector)


@command
def clean(
    job: Job,
    paths: options.Tables,
    model: options.Model = None,
    impute: Annotated[bool, "Impute bad cells; otherwise they become missing."] = False,
    level: Annotated[float, "Change cells that are bad with a higher probability.", {"min": 0.0, "max": 1.0}] = 0.5,
    fitting: options.FittingByOneMethod = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The cleaned table.", "Cleaned table", "table")] = Path("cleaned.csv"),
    changes: Annotated[
        Path | None, options.also("Also write a line for every changed cell.", "Changes", "columns")
    ] = None,
    picture: Annotated[Path | None, options.picture("the table's bad cells")] = None,
    seed: Annotated[int, "Seed of the fit.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Remove or impute the bad cells of a table, and list them.

    The inlier cells are fitted as by fit --method robust_cells (cellwise outliers). All other cells stay as they are,
    and the input is never overwritten.
    """
    from unrelu.cli.inputs import learned
    from unrelu.estimators import FloorOutlierDetector
    from unrelu.report.outliers import Cleaning
    from unrelu.report.tables import facts, rows

    with job.progress(diagnostics=False) as progress:
        detector, table = learned(job, FloorOutlierDetector, progress, "robust_cells")
        done = Cleaning(detector, table, impute, level)
        job.write(output=done.write, changes=done.write_changes, picture=done.picture)
    return job.answer(facts(done), rows(done, job.by()), fitted=detector)


@command
def sample(
    job: Job,
    model: Annotated[Path, typer.Argument(help="A model file, layers of unrelu peel, or a learner.", metavar="MODEL")],
    rows: Annotated[int, options.option("Number of rows.", "--rows", "-n", min=1)] = 1000,
    beyond_range: Annotated[
        bool,
        "Let values leave the range of the fitted table, and whole numbers have fractions. For columns with a margin.",
        RARE,
    ] = False,
    output: options.Rows = "-",
    seed: options.Seed = None,
) -> Answer | None:
    """Draw a synthetic table from a model.

    It has the same margins, non-detects (values at the floor) and dependence as the table that was fitted; values stay
    in the range seen, and whole numbers whole. A file of layers gives rows of its network; columns whose weights the
    table did not determine are empty.
    """
    from unrelu.cli.inputs import source_in
    from unrelu.validation import counted, generator

    draw, width, names = source_in(model, as_seen=not beyond_range)
    with job.progress() as progress:
        blocks = _drawn_blocks(draw, width, rows, generator(seed), progress)
        job.write(output=(blocks, names))
    facts = {"rows": rows, "columns": width, "seed": seed}
    return job.answer(facts, [f"{counted(rows, 'row')} of {counted(width, 'column')} written to {output}"])


@command
def simulate(
    *,
    job: Job,
    rows: Annotated[int, options.option("Number of rows.", "--rows", "-n", min=1)],
    columns: Annotated[int, options.option("Number of columns.", "--columns", "-d", min=1)],
    components: Annotated[
        int | None, options.option("Latent inputs; as many as columns by default.", "--components", "-k", min=1)
    ] = None,
    condition_number: Annotated[
        float | None, "Condition number of the covariance. 10 by default, 1 with one component.", {"min": 1.0}
    ] = None,
    mean: Annotated[str, "Signs of the means.", {"metavar": "signed|nonnegative"}] = "nonnegative",
    outliers: Annotated[float, "Share of rows replaced by outliers around 5.", {"min": 0.0, "max": 0.999}] = 0.0,
    output: options.Rows,
    truth: Annotated[Path | None, options.also("Also write the true model to this file.", "True model")] = None,
    seed: options.Seed = None,
) -> Answer | None:
    """Write rows of a random model x = ReLU(W z + b), and the model."""
    import numpy as np

    from unrelu.synthetic import random_model
    from unrelu.validation import check_choice, counted

    # Independent streams for model, rows and outliers: more outliers do not change the other rows.
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3)]
    if condition_number is None:
        condition_number = 1.0 if 1 in (columns, components) else 10.0
    check_choice("mean", mean, ("signed", "nonnegative"))
    distribution = random_model(columns, components, condition_number, cast(Any, mean), streams[0])
    facts: dict[str, Any] = {
        "rows": rows,
        "columns": columns,
        "components": columns if components is None else components,
        "condition_number": condition_number,
        "mean": mean,
        "outlier_rows": round(outliers * rows),
        "seed": seed,
    }
    with job.progress() as progress:
        blocks = contaminated(
            _drawn_blocks(distribution.sample, columns, rows, streams[1], progress), outliers, streams[2]
        )
        job.write(output=(blocks, None), truth=lambda path: distribution.save(path, {"simulated": facts}))
    dirty = f", {facts['outlier_rows']:,} of them outliers," if facts["outlier_rows"] else ""
    return job.answer(facts, [f"{counted(rows, 'row')}{dirty} of {counted(columns, 'column')} written to {output}"])


def _drawn_blocks(
    draw: Callable[[int, np.random.Generator], FloatArray],
    width: int,
    rows: int,
    rng: np.random.Generator,
    progress: Progress,
) -> Iterator[FloatArray]:
    """Rows in blocks; one generator runs through them, so that their size does not change the rows."""
    from unrelu.contracts import Step
    from unrelu.tables import rows_per_block

    size = rows_per_block(None, width)
    for first in range(0, rows, size):
        progress(Step("Drawing rows", first, rows, f"{first:,} rows"))
        yield draw(min(size, rows - first), rng)


def contaminated(blocks: Iterable[Floats], fraction: float, rng: np.random.Generator) -> Iterator[Floats]:
    """The blocks with ``round(fraction * n)`` of all n rows replaced by N(5, 1) outliers, at least 0."""
    import numpy as np

    from unrelu.synthetic import contaminate

    def outliers(count: int, draws: np.random.Generator) -> Floats:
        return np.maximum(draws.normal(5.0, 1.0, (count, width)), 0.0)  # never below the floor

    done = replaced = 0
    for block in blocks:
        width = block.shape[1]
        done += len(block)
        # The total is rounded, not each block: a small fraction of many blocks must not vanish.
        count = round(fraction * done) - replaced
        replaced += count
        yield contaminate(block, count / len(block), outliers, rng, fixed=True)[0] if count else block
