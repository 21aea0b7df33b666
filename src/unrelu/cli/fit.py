"""``unrelu fit``: a table in, a model file out."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli.options import ColumnsOption, DropOption, FloorOption, JsonOption, ToleranceOption, floors, listed_items
from unrelu.cli.outcome import Answer, counted
from unrelu.errors import InvalidParameterError

if TYPE_CHECKING:
    from rich.table import Table

    from unrelu.contracts import Assumptions, FloatArray, LearningReport, Samples
    from unrelu.learning import Learned


def fit(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Tables (csv, tsv, parquet, feather, npy, npz), globs of them, or - for csv on stdin.",
            metavar="PATHS",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")] = Path("model.npz"),
    floor: FloorOption = ["0.0"],  # noqa: B006 - typer copies it
    nonnegative_bias: Annotated[
        bool, typer.Option("--nonnegative-bias", help="Assume that no bias is below its floor.")
    ] = False,
    components: Annotated[
        int | None,
        typer.Option("--components", min=1, help="Number of latent inputs: the rank of the covariance."),
    ] = None,
    floor_tolerance: ToleranceOption = 0.0,
    columns: ColumnsOption = None,
    drop: DropOption = None,
    method: Annotated[str, typer.Option("--method", help="How to learn.")] = "one_pass",
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Also draw the model: a png, svg or pdf file.")
    ] = None,
    as_json: JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer:
    """Learn a model from tables and write it to a file.

    Every column is x = max(y, floor) of a normal y. Cells may be missing; cells below the floor are an error.
    """
    from unrelu.cli.outputs import check_outputs
    from unrelu.samples import open_samples

    check_outputs([output, picture], paths)
    if picture is not None:
        from unrelu.report.pictures import check_picture

        check_picture(picture)
    start = time.perf_counter()
    samples = open_samples(paths, columns=listed_items(columns) or None, drop=listed_items(drop) or None)
    assumptions = _assumptions(samples, floor, nonnegative_bias, components, floor_tolerance)
    learned, shares = _learn(samples, assumptions, method)
    drawn = None if picture is None else _drawn(learned, shares, picture)
    learned.distribution.save(output, details=_details(learned, shares, assumptions, paths))
    if picture is not None and drawn is not None:
        from unrelu.report.pictures import write_picture

        write_picture(picture, drawn)
    return _answer(learned, shares, output, picture, time.perf_counter() - start)


def _assumptions(
    samples: Samples, floor: list[str], nonnegative_bias: bool, components: int | None, tolerance: float
) -> Assumptions:
    from unrelu.contracts import Assumptions

    d = samples.n_features
    if components is not None and components > d:
        raise InvalidParameterError(f"--components must be at most {d}, the number of columns; got {components}.")
    return Assumptions(floors(floor, d, samples.feature_names), nonnegative_bias, components, tolerance)


def _learn(samples: Samples, assumptions: Assumptions, method: str) -> tuple[Learned, FloatArray]:
    """The learned model, and the share of floored values in every column."""
    import numpy as np

    from unrelu.cli.progress import MeteredEngine, meter
    from unrelu.evidence import SampleEvidence
    from unrelu.methods import method_named

    chosen = method_named(method)
    with meter() as shown:
        learned = chosen.learn(SampleEvidence(samples, MeteredEngine(shown, samples.n_rows)), assumptions)
    return learned, np.array(learned.report.share_floored_by_column)


def _drawn(learned: Learned, shares: FloatArray, picture: Path) -> bytes:
    from unrelu.report.pictures import model_picture, rendered

    return rendered(model_picture(learned.distribution, shares), picture.suffix)


def _details(learned: Learned, shares: FloatArray, assumptions: Assumptions, paths: list[str]) -> dict[str, Any]:
    """Facts for the model file."""
    from unrelu.report.summaries import fit_details

    rows, errors = learned.rows, learned.pairs.stderr
    return {
        "inputs": paths,
        "nonnegative_bias": assumptions.nonnegative_bias,
        "n_components": assumptions.n_components,
        **fit_details(learned.distribution, learned.report, shares, rows.bias_stderr, rows.scale_stderr, errors),
    }


def _answer(learned: Learned, shares: FloatArray, output: Path, picture: Path | None, seconds: float) -> Answer:
    from unrelu.report.summaries import column_summaries, strongest_correlations
    from unrelu.report.tables import column_table, correlation_table

    model, rows, report = learned.distribution, learned.rows, learned.report
    columns = column_summaries(model, shares, rows.bias_stderr, rows.scale_stderr)
    strongest = strongest_correlations(model, learned.pairs.stderr)
    facts = {
        "model": output,
        "picture": picture,
        "seconds": round(seconds, 3),
        "report": asdict(report),
        "columns": [asdict(column) for column in columns],
        "strongest_correlations": [asdict(pair) for pair in strongest],
    }
    missing = f", {report.share_missing:.1%} of the cells missing" if report.share_missing else ""
    shown: list[str | Table] = [
        f"Learned {counted(report.n_features, 'column')} from {report.n_rows:,} rows in {seconds:.2f} s"
        f" ({report.share_floored:.1%} of the values at the floor{missing}).",
        *_kept_rows(report),
        column_table(columns),
        *([correlation_table(strongest)] if strongest else []),
        f"Model written to {output}",
        *([f"Picture written to {picture}"] if picture is not None else []),
    ]
    return Answer(facts, shown)


def _kept_rows(report: LearningReport) -> list[str]:
    """What a robust fit did with the rows."""
    from unrelu.contracts import RobustReport

    if not isinstance(report, RobustReport):
        return []
    others = [f"{group.share:.1%} {group.kind}" for group in report.groups[1:] if group.share >= 0.001]
    found = f"; other groups of rows: {', '.join(others)}" if others else ""
    return [f"Outliers: {report.share_downweighted:.1%} of the rows count less than half{found}."]
