"""``unrelu fit`` and ``unrelu merge``: tables in, or records of them, a model file out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command, one_line
from unrelu.errors import InvalidParameterError, ModelFileError, SingularCovarianceWarning

if TYPE_CHECKING:
    from rich.table import Table

    from unrelu.contracts import LearningReport, Samples
    from unrelu.estimators import RectifiedGaussianLearner

_FEW_COLUMNS, _CHEAP = 20, 2e6  # a row's density costs as the square of its columns, and no less than that of a few
_LATER = "Log-likelihood, AIC and BIC take a pass of their own: unrelu info {} --table TABLE."


@command()
def fit(
    paths: options.Tables,
    components: options.Components = None,
    method: Annotated[str, "How to learn: see below."] = "auto",
    nonnegative_bias: Annotated[bool, "Assume that no bias is below its floor."] = False,
    stderr: Annotated[
        str,
        "Standard errors: model, or jackknife (over groups of rows: right also where the model is not).",
        {"metavar": "KIND"},
    ] = "model",
    groups: Annotated[
        str | None,
        "The column of labels whose rows a jackknife keeps together.",
        {"metavar": "COLUMN"},
    ] = None,
    floor: options.Floor = ["0.0"],  # noqa: B006 - typer copies it
    ceiling: options.Ceiling = None,
    shape: options.Shape = None,
    floor_tolerance: options.Tolerance = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    checkpoint: Annotated[
        Path | None,
        "Keep what was counted in this file while rows are read: after an interrupt the same command goes on"
        " from there. Removed when the model is written. With --method one_pass.",
    ] = None,
    output: Annotated[Path, options.output("The model file to write.")] = Path("model.npz"),
    record: Annotated[Path | None, "Also write what was counted, without rows: unrelu merge joins such files."] = None,
    round_counts: Annotated[
        int | None, "In the record, counts below K are 0, with their sums.", {"min": 2, "metavar": "K"}
    ] = None,
    picture: Annotated[Path | None, options.picture("the model")] = None,
    seed: Annotated[int, "Seed of the methods that draw.", {"min": 0}] = 0,
) -> Answer | None:
    """Learn a model from tables and write it to a file.

    Every column is x = max(f(y), floor) of a normal y, with an increasing curve f that is learned, or given by --shape.
    Cells may be missing; cells below the floor are an error.
    """
    method = "one_pass" if method == "auto" and (checkpoint is not None or record is not None) else method
    for name, given in (("checkpoint", checkpoint), ("record", record)):
        if given is not None and method != "one_pass":
            raise InvalidParameterError(
                f"--{name} is of one pass over the rows, and --method {method} takes several: use --method one_pass."
            )
    if round_counts is not None and (record is None or stderr != "model"):
        raise InvalidParameterError(
            "--round-counts is for a --record that is not kept by groups: see unrelu fit --help."
        )
    job = Job(
        Output("model", output, "Model"),
        Output("record", record, "Record"),
        Output("picture", picture, "Picture", "picture"),
        Output("checkpoint", checkpoint, kind="kept"),
        tables=paths,
    )
    from unrelu.cli.inputs import opened
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.report.model_picture import model_picture, worst_columns

    own_floor = floor if floor != ["0.0"] else None
    rows = job.reads(opened(paths, reading.without(groups), own_floor, checkpoint))
    asked = options.FitOptions(components, method, floor, ceiling, shape, floor_tolerance).parameters(seed)
    learner = RectifiedGaussianLearner(**asked, nonnegative_bias=nonnegative_bias, stderr=stderr)
    with job.fitting() as watch:
        learner.watched_by(watch).fit(rows, groups=groups)
    law, likelihood = learner.distribution_, _likelihood(learner, rows)
    job.write(
        model=partial(law.save, details=_details(learner, paths, rows, likelihood)),
        record=lambda path: _kept_record(learner, round_counts).save(path),
        picture=lambda: model_picture(law, learner.report_.share_floored_by_column, worst_columns(learner, rows)),
    )
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return _answer(job, learner, likelihood)


@command()
def merge(
    files: Annotated[
        list[Path], typer.Argument(help="Records of unrelu fit --record, or saved learners.", metavar="RECORDS")
    ],
    output: Annotated[Path, options.output("The model file to write.")] = Path("model.npz"),
    record: Annotated[Path | None, "Also write the record of all rows."] = None,
    picture: Annotated[Path | None, options.picture("the model")] = None,
) -> Answer | None:
    """Learn a model from records of disjoint rows, as if all rows had been in one table.

    Rows stay where they are: a site runs unrelu fit --record, with the same columns, floors and other settings as all,
    and only that file travels. What it tells of the rows is in docs/scale.md.
    """
    outputs = Output("model", output, "Model"), Output("record", record, "Record")
    job = Job(*outputs, Output("picture", picture, "Picture", "picture"), files=files)
    from unrelu.report.model_picture import model_picture

    with job.fitting():
        learner = _merged(files)
        law, shares = learner.distribution_, learner.report_.share_floored_by_column
    job.write(
        model=partial(law.save, details=_details(learner, [str(file) for file in files])),
        record=lambda path: _kept_record(learner).save(path),
        picture=lambda: model_picture(law, shares),
    )
    return _answer(job, learner, None)


def _merged(files: list[Path]) -> RectifiedGaussianLearner:
    """The learner of all rows; files that are the same, or do not agree, are named."""
    import numpy as np

    from unrelu import storage
    from unrelu.estimators.fitted import FittedModel
    from unrelu.estimators.parts import merge as joined
    from unrelu.passes.grouped_moments import whole_of

    def same_rows(one: Any, other: Any) -> bool:
        """Whether two records agree in every digit, as those of different rows never do."""
        first, second = whole_of(one.record_), whole_of(other.record_)
        return first.n_rows == second.n_rows and all(
            np.array_equal(getattr(first, name), getattr(second, name)) for name in ("origin", "count", "cross")
        )

    learners: list[Any] = []
    for file in files:
        content = storage.load(file)
        if not (isinstance(content, FittedModel) and hasattr(content, "record_")):
            raise ModelFileError(
                f"{file} holds a {type(content).__name__} without a record: give what unrelu fit --record wrote, or a"
                " learner with method='one_pass' that was saved."
            )
        for before, learner in zip(files, learners, strict=False):
            if os.path.samefile(file, before) or same_rows(content, learner):
                raise InvalidParameterError(f"{before} and {file} are of the same rows: give every record once.")
        learners.append(content)
    merged: RectifiedGaussianLearner = learners[0]
    for file, learner in zip(files[1:], learners[1:], strict=True):
        try:
            merged = joined([merged, learner])
        except InvalidParameterError as error:
            raise InvalidParameterError(f"{files[0]} and {file}: {error}") from error
    return merged


def _kept_record(learner: RectifiedGaussianLearner, round_counts: int | None = None) -> RectifiedGaussianLearner:
    """What travels to others: parameters, names and the record, but no row and nothing learned yet."""
    record: Any = learner.record_
    return learner.with_record(record if round_counts is None else record.rounded(round_counts))


def _likelihood(learner: RectifiedGaussianLearner, rows: Samples) -> dict[str, Any] | None:
    """Log-likelihood, AIC and BIC, where one more pass costs next to nothing; None elsewhere, or without a density."""
    from unrelu.report.model import density_facts, reported_likelihood

    if (told := reported_likelihood(learner)) is not None:
        return told
    n, d = learner.report_.n_rows, learner.report_.n_features
    if n * d * max(d, _FEW_COLUMNS) > _CHEAP:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", SingularCovarianceWarning)
        try:
            return density_facts(learner.score_samples(rows), learner.n_parameters_)
        except SingularCovarianceWarning:
            return None


def _details(
    learner: RectifiedGaussianLearner,
    paths: Sequence[str],
    rows: Samples | None = None,
    likelihood: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Facts for the model file."""
    from unrelu.report.model import fit_details

    others = {"skipped_files": {} if rows is None else dict(rows.skipped_files), "likelihood": likelihood}
    return {
        "inputs": list(paths),
        "nonnegative_bias": learner.nonnegative_bias,
        "n_components": learner.n_components,
        **fit_details(learner),
        **{key: told for key, told in others.items() if told},
    }


def _answer(job: Job, learner: RectifiedGaussianLearner, likelihood: dict[str, Any] | None) -> Answer | None:
    from unrelu.report.model import (
        column_table,
        correlation_table,
        labels,
        learned_columns,
        likelihood_words,
        shape_facts,
        shape_tables,
        strongest_correlations,
    )
    from unrelu.report.tables import doubt_table, trust_line
    from unrelu.validation import counted

    report, columns, names = learner.report_, learned_columns(learner), labels(learner.distribution_)
    strongest = strongest_correlations(learner.distribution_, learner.correlation_stderr_)
    facts = {
        "report": asdict(report),
        "columns": [asdict(column) for column in columns],
        "strongest_correlations": [asdict(pair) for pair in strongest],
        **shape_facts(learner.distribution_),
        "likelihood": likelihood,
    }
    missing = f", {report.share_missing:.1%} of the cells missing" if report.share_missing else ""
    because = f", as {report.chosen_because}" if report.chosen_because else ""
    shown: list[str | Table] = [
        trust_line(report.doubts),
        f"Learned {counted(report.n_features, 'column')} from {report.n_rows:,} rows in {job.seconds:.2f} s"
        f" ({report.share_floored:.1%} of the values at the floor{missing}) by {report.method}{because}.",
        *_kept_rows(report, names),
    ]
    if report.doubts:
        shown.append(doubt_table(report.doubts, names, one_line))
    if report.stderr_degrees is not None:
        shown.append(f"Standard errors: by a {report.stderr} over {report.stderr_degrees + 1} groups of rows.")
    shown += [column_table(columns), *shape_tables(learner.distribution_)]
    if strongest:
        shown.append(correlation_table(strongest))
    shown.append(
        f"Log-likelihood: {likelihood_words(likelihood)}." if likelihood else _LATER.format(job.files["model"])
    )
    return job.answer(facts, shown)


def _kept_rows(report: LearningReport, names: Sequence[str]) -> list[str]:
    """What a robust fit did with the rows, or cells."""
    from unrelu.contracts import RobustReport
    from unrelu.fit.robust_cells.learning import CellsReport

    if isinstance(report, CellsReport):
        by_column = zip(report.share_bad_by_column, names, strict=True)
        most = [f"{name} {share:.1%}" for share, name in sorted(by_column, key=lambda each: -each[0]) if share > 0.0]
        worst = f", most of them in {', '.join(most[:5])}" if most else ""
        outliers = f"; {report.share_downweighted:.1%} of the rows" if report.share_downweighted else ""
        return [f"Bad cells: {report.share_bad:.2%} of the cells{worst}{outliers} count less than half."]
    if not isinstance(report, RobustReport):
        return []
    others = [f"{group.share:.1%} {group.kind}" for group in report.groups[1:] if group.share >= 0.001]
    found = f"; other groups of rows: {', '.join(others)}" if others else ""
    return [f"Outliers: {report.share_downweighted:.1%} of the rows count less than half{found}."]
