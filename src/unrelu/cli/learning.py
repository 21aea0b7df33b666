"""Fit a model and check it: ``unrelu fit``, ``merge``, ``check``, ``report`` and ``info``."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrelu.cli import options
from unrelu.cli.frame import Answer, Job, command
from unrelu.cli.options import RARE
from unrelu.errors import AssumptionWarning, InvalidParameterError, ModelFileError, OutputError, about

if TYPE_CHECKING:
    from unrelu.contracts import Samples
    from unrelu.estimators import RectifiedGaussianLearner

_FEW_COLUMNS, _CHEAP = 20, 2e6  # a row's density costs as the square of its columns, and no less than that of a few
_MISFIT = 1  # the exit code of check --strict


@command
def fit(
    job: Job,
    paths: options.Tables,
    nonnegative_mean: Annotated[bool, "Assume that no latent mean is below its floor.", RARE] = False,
    stderr: Annotated[
        str,
        "Standard errors by the model, or by a jackknife over groups of rows, right also where the model is not.",
        {"metavar": "model|jackknife", **RARE},
    ] = "model",
    groups: Annotated[
        str | None,
        "With --stderr jackknife: the column of labels of rows that belong together.",
        {"metavar": "COLUMN", **RARE},
    ] = None,
    fitting: options.FitOptions = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    checkpoint: Annotated[
        Path | None,
        options.also(
            "Keep the sums over the rows in this file while they are read: after an interrupt the same command goes on"
            " from there. Removed when the model is written. With --method one_pass.",
            kind="kept",
        ),
        RARE,
    ] = None,
    output: Annotated[Path, options.output("The model file to write.", "Model", fact="model")] = Path("model.npz"),
    record: Annotated[
        Path | None,
        options.also("Also write sums over the rows, but no row: unrelu merge joins such files.", "Record"),
        RARE,
    ] = None,
    round_counts: Annotated[
        int | None, "In the record, counts below K are 0, with their sums.", {"min": 2, "metavar": "K", **RARE}
    ] = None,
    picture: Annotated[Path | None, options.picture("the model")] = None,
    seed: Annotated[int, "Seed of the methods that draw.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Learn means, standard deviations and correlations from tables.

    Non-detects are left-censored: every column is x = max(f(y), floor) of a normal y, with an increasing f, its margin.
    Cells may be missing; a value below its floor is an error. The model file serves all other commands.
    """
    for name, given in (("checkpoint", checkpoint), ("record", record)):
        if given is not None and fitting.method not in (None, "auto", "one_pass"):
            raise InvalidParameterError(
                f"--{name} is for one pass over the rows, and --method {fitting.method} takes several: use --method"
                " one_pass."
            )
    wanted = fitting.parameters(seed)
    if wanted["method"] == "auto" and (checkpoint is not None or record is not None):
        wanted["method"] = "one_pass"
    if round_counts is not None and (record is None or stderr != "model"):
        raise InvalidParameterError(
            "--round-counts is for a --record without groups of rows: add --record, and leave --stderr jackknife out."
        )
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.report.check import model_picture, worst_columns
    from unrelu.report.tables import facts, rows

    table = job.opened(fitting.floor)
    learner = RectifiedGaussianLearner(**wanted, nonnegative_mean=nonnegative_mean, stderr=stderr)
    with job.progress(diagnostics=False) as progress:
        learner.with_progress(progress).fit(table, groups=groups)
    distribution, likelihood = learner.distribution_, _likelihood(learner, table)

    def save_record(path: Path) -> None:
        record: Any = learner.record_
        learner.with_record(record if round_counts is None else record.rounded(round_counts)).save(path)

    job.write(
        model=partial(distribution.save, details=_details(learner, paths, likelihood, table.skipped_files)),
        record=save_record,
        picture=lambda: model_picture(
            distribution, learner.report_.share_floored_by_column, worst_columns(learner, table)
        ),
    )
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    shown = rows(learner, f"{job.seconds:.2f} s", likelihood, output)
    return job.answer(facts(learner, likelihood), shown, fitted=learner)


@command
def merge(
    job: Job,
    files: Annotated[
        list[Path], typer.Argument(help="Files of unrelu fit --record, or saved learners.", metavar="RECORDS")
    ],
    output: Annotated[Path, options.output("The model file to write.", "Model", fact="model")] = Path("model.npz"),
    record: Annotated[Path | None, options.also("Also write the record of all rows.", "Record")] = None,
    picture: Annotated[Path | None, options.picture("the model")] = None,
) -> Answer | None:
    """Learn one model from the records of several tables.

    The model is that of all rows in one table, but no row leaves its place: each laboratory runs unrelu fit --record,
    with the same columns, floors and other settings, and only that file travels. docs/scale.md says what it reveals.
    """
    from unrelu.report.check import model_picture
    from unrelu.report.tables import facts, rows

    with job.progress(diagnostics=False):
        learner = _merged(files)
        distribution, shares = learner.distribution_, learner.report_.share_floored_by_column
    job.write(
        model=partial(distribution.save, details=_details(learner, [str(file) for file in files])),
        record=lambda path: learner.with_record(learner.record_).save(path),
        picture=lambda: model_picture(distribution, shares),
    )
    shown = rows(learner, f"{job.seconds:.2f} s", None, output)
    return job.answer(facts(learner, None), shown, fitted=learner)


def _merged(files: list[Path]) -> RectifiedGaussianLearner:
    """The learner of all rows; an error names files that are the same, or do not agree."""
    import numpy as np

    from unrelu import storage
    from unrelu.estimators.fitted import FittedModel
    from unrelu.estimators.parts import merge as joined
    from unrelu.passes.pair_moments import whole_of

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


def _likelihood(learner: RectifiedGaussianLearner, rows: Samples) -> dict[str, Any] | None:
    """Log-likelihood, AIC and BIC, where one more pass costs next to nothing; None elsewhere, or without a density."""
    from unrelu.report.model import likelihood_facts

    n, d, found = learner.report_.n_rows, learner.report_.n_features, getattr(learner.report_, "log_likelihood", None)
    if found is not None:  # by a fit that maximized it
        return likelihood_facts(found, learner.n_parameters_, n)
    if n * d * max(d, _FEW_COLUMNS) > _CHEAP:
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("error", about("singular"))
        try:
            densities = learner.score_samples(rows)
        except AssumptionWarning:
            return None
    return likelihood_facts(float(densities.sum()), learner.n_parameters_, len(densities))


def _details(
    learner: RectifiedGaussianLearner, inputs: Sequence[str], likelihood: Any = None, skipped: Mapping[str, str] = {}
) -> dict[str, Any]:
    from unrelu.report.model import fit_details

    others = {"skipped_files": dict(skipped), "likelihood": likelihood}
    return {
        "inputs": list(inputs),
        "nonnegative_mean": learner.nonnegative_mean,
        "n_components": learner.n_components,
        **fit_details(learner),
        **{key: value for key, value in others.items() if value},
    }


@command
def check(
    job: Job,
    table: Annotated[
        str, typer.Argument(help="The table, as in unrelu fit. Or a quoted glob of tables.", metavar="TABLE")
    ],
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A model file, taken as given, not a fit of the table.")
    ] = None,
    simulations: Annotated[int, "Simulated tables: p-values are at least 1/(N + 1).", {"min": 19, **RARE}] = 199,
    level: Annotated[float, "The model fits where its p-value is above this.", RARE] = 0.05,
    strict: Annotated[bool, "Exit with code 1 if the model does not fit. The code is 0 otherwise.", RARE] = False,
    fitting: options.FitOptions = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path | None, options.output("Also write one line per column.", "Columns", "columns")] = None,
    picture: Annotated[Path | None, options.picture("columns and pairs that fit worst")] = None,
    seed: Annotated[int, "Seed of the choice of rows and of the simulated tables.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Test whether the model fits: every column, every pair of columns.

    A p-value is the share of tables simulated from the model, each fitted like this one, that are as far from their
    model. At most 5,000 rows are compared. The answer says in one sentence what to do.
    """
    from unrelu.cli.inputs import model_and_table
    from unrelu.estimators import RectifiedGaussianLearner, check_model
    from unrelu.report.check import check_columns, check_picture
    from unrelu.report.tables import facts, rows

    wanted: dict[str, Any] = {"n_simulations": simulations, "level": level}
    with job.progress(diagnostics=False) as progress:
        distribution, samples = model_and_table(job)
        if distribution is None:
            learner = RectifiedGaussianLearner(**fitting.parameters(seed)).with_progress(progress).fit(samples)
            found = learner.check(samples, **wanted)
        else:
            wanted |= {"floor_tolerance": fitting.floor_tolerance, "random_state": seed, "progress": progress}
            found = check_model(distribution, samples, **wanted)
    job.write(output=[check_columns(found)], picture=lambda: check_picture(found))
    code = _MISFIT if strict and not found.fits else 0
    return job.answer(facts(found), rows(found, f"{job.seconds:.2f} s", job.words), code=code)


@command
def report(
    job: Job,
    paths: options.Tables,
    model: options.Model = None,
    simulations: Annotated[
        int | None,
        "Tables simulated to check the fit, 19 or more, or 0 for no check. By default as many as the number of columns"
        " allows.",
        {"min": 0, **RARE},
    ] = None,
    fitting: options.FitOptions = options.USUAL,
    reading: options.TableOptions = options.EVERYTHING,
    output: Annotated[Path, options.output("The page to write.", "Report")] = Path("report.html"),
    seed: Annotated[int, "Seed of the fit, of the choice of rows and of the simulated tables.", {"min": 0, **RARE}] = 0,
) -> Answer | None:
    """Make one page for a browser about a table and its model.

    It shows what the detection limits hide, whether the model fits, and outlying rows and cells. One file, which needs
    no network; it holds names, numbers and a sample of rows. Needs: pip install "unrelu[report]".
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"{output}: a report is a page for a browser: give a name that ends in .html.")
    from unrelu.cli.inputs import learned
    from unrelu.estimators import RectifiedGaussianLearner
    from unrelu.report.page.making import check_report, page_rows, write_report

    check_report()
    made: dict[str, Any] = {}
    with job.progress(diagnostics=False) as progress:
        learner, rows = learned(job, RectifiedGaussianLearner, progress)
        wanted: dict[str, Any] = {
            "title": Path(paths[0]).name + (f" and {len(paths) - 1} more" if len(paths) > 1 else ""),
            "command": shlex.join(["unrelu", *sys.argv[1:]]),
            "n_simulations": simulations,
            "seed": seed,
            "ids": rows.ids(),
            "words": job.words,
            "progress": progress,
        }
        job.write(output=lambda path: made.update(write_report(learner, path, rows, **wanted)))
    checked, outliers, size = made["check"] or {}, made["outliers"] or {}, output.stat().st_size
    facts = {
        "bytes": size,
        "table": made["table"],
        "fits": checked.get("fits"),
        "verdict": checked.get("verdict"),
        "flagged_rows": outliers.get("flagged"),
        "diagnostics": made["diagnostics"],
        "left_out": made["left_out"],
    }
    return job.answer(facts, page_rows(made, size, job.seconds))


@command
def info(
    job: Job,
    file: Annotated[
        Path,
        typer.Argument(
            help="Any file that unrelu wrote. A model, factors, layers, a state, an estimator.", metavar="FILE"
        ),
    ],
    table: Annotated[
        list[str] | None,
        "Also log-likelihood, AIC and BIC on this table's rows. They compare models.",
        {"metavar": "PATHS"},
    ] = None,
    reading: options.TableOptions = options.EVERYTHING,
) -> Answer | None:
    """Show what is in a file: a model, its numbers, how it was fitted.

    Of a model: means, standard deviations, correlations. Of factors: the components, and how they were recovered. Of
    a saved state: how far it is. Of layers: how each was found. Of any other file: its parameters and its report.
    """
    if reading != options.EVERYTHING and not table:
        raise InvalidParameterError("Options for reading a table are given, but there is none: give it with --table.")
    from unrelu import storage
    from unrelu.report.model import contents, likelihood_facts, likelihood_words

    content, header = storage.load(file), storage.stated_header(file)
    facts, lines = contents(content, header, file)
    shown = [job.words(line) if isinstance(line, str) else line for line in lines]
    if not table:
        return facts, shown, 0
    model, rows = _scorer_and_table(job, content, header, file)
    densities = model.score_samples(rows)
    found = likelihood_facts(float(densities.sum()), model.n_parameters_, len(densities))
    words = f"Log-likelihood of {', '.join(table)}: {likelihood_words(found)}."
    return {**facts, "table": table, "likelihood": found}, [*shown, words], 0


def _scorer_and_table(job: Job, content: Any, header: Any, file: Path) -> tuple[Any, Samples]:
    """An estimator that scores rows by the distribution in a file, or by its mixture; and the table."""
    from unrelu.cli.inputs import distribution_in, imputer_of, matched_table
    from unrelu.estimators import RectifiedGaussianMixture

    if isinstance(content, RectifiedGaussianMixture):
        names = getattr(content, "feature_names_in_", None)
        named = None if names is None else names.tolist()
        return content, matched_table(job, file, named, content.n_features_in_)[0]
    distribution, details = distribution_in(file, content), header.get("details")
    rows, at = matched_table(job, file, distribution.feature_names, distribution.n_features)
    details = details if isinstance(details, dict) else {}
    report = getattr(content, "report_", details.get("report"))
    found = report.get("n_components") if isinstance(report, dict) else getattr(report, "n_components", None)
    rank = found or getattr(content, "n_components", details.get("n_components"))
    model = imputer_of(distribution.marginal(at), rows, getattr(content, "floor_tolerance", 0.0))
    if isinstance(rank, int) and rank <= len(at):
        model.set_params(n_components=rank)
    return model, rows
