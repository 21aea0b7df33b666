"""``unrelu fit``: a table in, a model file out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Job, Output
from unrelu.cli.outcome import Answer, command
from unrelu.errors import DoubtfulTableWarning, InvalidParameterError, SingularCovarianceWarning

if TYPE_CHECKING:
    from rich.table import Table

    from unrelu.contracts import LearningReport, Samples
    from unrelu.estimators import RectifiedGaussianLearner

_FEW_COLUMNS, _CHEAP = 20, 2e6  # a row's density costs as the square of its columns, and no less than that of a few
_LATER = "Log-likelihood, AIC and BIC take a pass of their own: unrelu info {} --table TABLE."


@command({"must be None or between": "must be between"})
def fit(
    paths: options.Tables,
    components: options.ComponentsOption = None,
    method: Annotated[str, typer.Option("--method", help="How to learn: see below.")] = "auto",
    nonnegative_bias: Annotated[
        bool, typer.Option("--nonnegative-bias", help="Assume that no bias is below its floor.")
    ] = False,
    stderr: Annotated[
        str,
        typer.Option(
            "--stderr",
            metavar="KIND",
            help="Standard errors: model, or jackknife (over groups of rows: right also where the model is not).",
        ),
    ] = "model",
    groups: Annotated[
        str | None,
        typer.Option("--groups", metavar="COLUMN", help="The column of labels whose rows a jackknife keeps together."),
    ] = None,
    floor: options.FloorOption = ["0.0"],  # noqa: B006 - typer copies it
    ceiling: options.CeilingOption = None,
    shape: options.ShapeOption = None,
    floor_tolerance: options.ToleranceOption = 0.0,
    reading: options.TableOptions = options.EVERYTHING,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            help="Keep what was counted in this file while rows are read: after an interrupt the same command goes on"
            " from there. Removed when the model is written. With --method one_pass.",
        ),
    ] = None,
    output: Annotated[Path, options.output_option("The model file to write.")] = Path("model.npz"),
    record: Annotated[
        Path | None,
        typer.Option("--record", help="Also write what was counted, without rows: unrelu merge joins such files."),
    ] = None,
    round_counts: Annotated[
        int | None,
        typer.Option(
            "--round-counts", min=2, metavar="K", help="In the record, counts below K are 0, with their sums."
        ),
    ] = None,
    picture: Annotated[Path | None, options.picture_option("the model")] = None,
    seed: Annotated[int, options.seed_option("Seed of the methods that draw.")] = 0,
    as_json: options.JsonOption = False,  # noqa: ARG001 - read where the command ends
) -> Answer | None:
    """Learn a model from tables and write it to a file.

    Every column is x = max(f(y), floor) of a normal y, with an increasing curve f that is learned, or given by --shape.
    Cells may be missing; cells below the floor are an error.
    """
    method = "one_pass" if method == "auto" and (checkpoint is not None or record is not None) else method
    _refuse_what_is_not_kept(checkpoint, record, round_counts, method, stderr)
    job = Job(
        Output("model", output, "Model"),
        Output("record", record, "Record"),
        Output("picture", picture, "Picture", "picture"),
        Output("checkpoint", checkpoint, kind="kept"),
        tables=paths,
    )
    from unrelu.cli.inputs import opened
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.report.model_picture import model_picture
    from unrelu.report.quantiles import worst_columns

    # A column of labels may be text, which no table of features holds; one that is asked for as a feature is refused.
    labels = [groups] if groups is not None and groups not in reading.columns else []
    others = replace(reading, drop=[*reading.drop, *labels])
    rows = job.reads(opened(paths, others, floor if floor != ["0.0"] else None, checkpoint))
    learner = RectifiedGaussianLearner(
        method,
        floor=options.limits("--floor", floor),
        ceiling=options.limits("--ceiling", ceiling or ()),
        shape=options.shapes(shape),
        nonnegative_bias=nonnegative_bias,
        n_components=options.components_of(components),
        floor_tolerance=floor_tolerance,
        random_state=seed,
        stderr=stderr,
    )
    with job.watch() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulTableWarning)  # the answer has them in one table
        learner.watched_by(watch).fit(rows, groups=groups)
    law, likelihood = learner.distribution_, _likelihood(learner, rows)
    job.write(
        model=partial(law.save, details=model_details(learner, paths, rows, likelihood)),
        record=lambda path: kept_record(learner, round_counts).save(path),
        picture=lambda: model_picture(law, learner.report_.share_floored_by_column, worst_columns(learner, rows)),
    )
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return fit_answer(job, learner, likelihood)


def _refuse_what_is_not_kept(
    checkpoint: Path | None, record: Path | None, round_counts: int | None, method: str, stderr: str
) -> None:
    for name, given in (("checkpoint", checkpoint), ("record", record)):
        if given is not None and method != "one_pass":
            raise InvalidParameterError(
                f"{name}= is of one pass over the rows, and method={method!r} takes several: use method='one_pass'."
            )
    if round_counts is not None and (record is None or stderr != "model"):
        raise InvalidParameterError("round_counts= is for a record= that is not kept by groups: see unrelu fit --help.")


def kept_record(learner: RectifiedGaussianLearner, round_counts: int | None = None) -> RectifiedGaussianLearner:
    """What travels to others: parameters, names and the record, but no row and nothing learned yet."""
    record: Any = learner.record_
    return learner.with_record(record if round_counts is None else record.rounded(round_counts))


def _likelihood(learner: RectifiedGaussianLearner, rows: Samples) -> dict[str, Any] | None:
    """Log-likelihood, AIC and BIC, where one more pass costs next to nothing; None elsewhere, or without a density."""
    from unrelu.report.likelihood import density_facts, reported_likelihood

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


def model_details(
    learner: RectifiedGaussianLearner,
    paths: Sequence[str],
    rows: Samples | None = None,
    likelihood: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Facts for the model file."""
    from unrelu.report.summaries import fit_details

    assumed = {"nonnegative_bias": learner.nonnegative_bias, "n_components": learner.n_components}
    skipped = dict(getattr(rows, "skipped_files", {}))
    others = {"skipped_files": skipped, "likelihood": likelihood}
    return {
        "inputs": list(paths),
        **assumed,
        **fit_details(learner),
        **{key: told for key, told in others.items() if told},
    }


def fit_answer(job: Job, learner: RectifiedGaussianLearner, likelihood: dict[str, Any] | None) -> Answer | None:
    from unrelu.cli.wording import one_line
    from unrelu.report.likelihood import likelihood_words
    from unrelu.report.summaries import labels, learned_columns, shape_facts, strongest_correlations
    from unrelu.report.tables import column_table, correlation_table, doubt_table, shape_tables, trust_line
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
        *([doubt_table(report.doubts, names, one_line)] if report.doubts else []),
        *_kind_of_errors(report),
        column_table(columns),
        *shape_tables(learner.distribution_),
        *([correlation_table(strongest)] if strongest else []),
        f"Log-likelihood: {likelihood_words(likelihood)}." if likelihood else _LATER.format(job.files["model"]),
    ]
    return job.answer(facts, shown)


def _kind_of_errors(report: LearningReport) -> list[str]:
    """Which standard errors, unless they are the model's."""
    if report.stderr_degrees is None:
        return []
    return [f"Standard errors: by a {report.stderr} over {report.stderr_degrees + 1} groups of rows."]


def _kept_rows(report: LearningReport, names: Sequence[str]) -> list[str]:
    """What a robust fit did with the rows, or cells."""
    from unrelu.bad_cells.learning import CellsReport
    from unrelu.contracts import RobustReport

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
